//! One record of a manifest: what an engine changed in one step, as a list of tagged fields (`db/version_edit.h`).

use super::ManifestFile;
use crate::format::cursor::Cursor;

/// A field whose tag has this bit may be skipped by a reader that does not know it. A length precedes its bytes.
const SAFE_TO_IGNORE: u32 = 1 << 13;
/// An optional field of a table or blob file whose tag has this bit must be known: RocksDB refuses to open a database
/// with another.
const MUST_BE_KNOWN: u32 = 1 << 6;

/// Tags of optional fields of a new table: the end of their list, and the number of the table's directory.
const END_OF_TABLE_FIELDS: u32 = 1;
const PATH: u32 = MUST_BE_KNOWN + 1;
/// Ends the list of optional fields of a blob file.
const END_OF_BLOB_FIELDS: u32 = 0;
/// RocksDB allows four directories.
const MAX_PATH: u8 = 3;

/// The changes of one record.
#[derive(Debug, Default)]
pub(super) struct Edit {
    /// The column family that all other fields concern.
    pub(super) column_family: u32,
    /// The name of the family, if the record creates it.
    pub(super) created_as: Option<String>,
    pub(super) is_drop: bool,
    pub(super) comparator: Option<String>,
    pub(super) next_file_number: Option<u64>,
    /// Levels and numbers of tables.
    pub(super) removed: Vec<(u32, u64)>,
    pub(super) added: Vec<(u64, ManifestFile)>,
    /// How many records of the same group follow. Records of a group take effect together.
    pub(super) left_in_group: Option<u32>,
}

/// Why a record has no meaning.
#[derive(Debug)]
pub(super) enum Problem {
    /// It ends within a field.
    Cut,
    /// A field that may decide which tables are live, and where.
    Unknown { tag: u32, of: &'static str },
    /// What was expected, and what was found.
    Wrong(String),
}

impl Edit {
    pub(super) fn decode(record: &[u8]) -> Result<Self, Problem> {
        let mut fields = Fields(Cursor::new(record));
        let mut edit = Self::default();
        while !fields.0.rest().is_empty() {
            let tag = fields.varint32()?;
            edit.take(tag, &mut fields)?;
        }
        // RocksDB writes the family behind the tables that belong to it.
        for (_, file) in &mut edit.added {
            file.column_family = edit.column_family;
        }
        Ok(edit)
    }

    /// Takes the field with this tag.
    fn take(&mut self, tag: u32, fields: &mut Fields<'_>) -> Result<(), Problem> {
        match tag {
            1 => self.comparator = Some(fields.text()?),
            3 => self.next_file_number = Some(fields.varint64()?),
            6 => self.removed.push(level_and_number(fields)?),
            7 | 100 | 102 | 103 => self.added.push(new_table(fields, tag)?),
            200 => self.column_family = fields.varint32()?,
            201 => self.created_as = Some(fields.text()?),
            202 => self.is_drop = true,
            300 => self.left_in_group = Some(fields.varint32()?),
            _ => skip(fields, tag)?,
        }
        Ok(())
    }
}

/// A cursor whose reads fail with [`Problem::Cut`].
struct Fields<'a>(Cursor<'a>);

impl<'a> Fields<'a> {
    fn varint32(&mut self) -> Result<u32, Problem> {
        self.0.varint32().ok_or(Problem::Cut)
    }

    fn varint64(&mut self) -> Result<u64, Problem> {
        self.0.varint64().ok_or(Problem::Cut)
    }

    fn bytes(&mut self) -> Result<&'a [u8], Problem> {
        self.0.length_prefixed().ok_or(Problem::Cut)
    }

    fn text(&mut self) -> Result<String, Problem> {
        self.bytes().map(|name| String::from_utf8_lossy(name).into_owned())
    }
}

fn level_and_number(fields: &mut Fields<'_>) -> Result<(u32, u64), Problem> {
    Ok((fields.varint32()?, fields.varint64()?))
}

/// Reads LevelDB's form of a new table (7), or one of RocksDB's second to fourth.
fn new_table(fields: &mut Fields<'_>, tag: u32) -> Result<(u64, ManifestFile), Problem> {
    let (level, number) = level_and_number(fields)?;
    let mut path = if tag == 102 { fields.varint32()? } else { 0 };
    let bytes = fields.varint64()?;
    let (smallest, largest) = (fields.bytes()?.to_vec(), fields.bytes()?.to_vec());
    if tag > 7 {
        let _sequence_numbers = (fields.varint64()?, fields.varint64()?);
    }
    if tag == 103 {
        path = path_among_fields(fields)?;
    }
    Ok((number, ManifestFile { level, bytes, smallest, largest, column_family: 0, path }))
}

/// Reads the optional fields of a new table. Returns the number of its directory.
fn path_among_fields(fields: &mut Fields<'_>) -> Result<u32, Problem> {
    let mut path = 0;
    loop {
        match fields.varint32()? {
            END_OF_TABLE_FIELDS => return Ok(path),
            PATH => path = directory(fields.bytes()?)?,
            tag if tag & MUST_BE_KNOWN != 0 => return Err(Problem::Unknown { tag, of: " of a table" }),
            _ => {
                fields.bytes()?;
            }
        }
    }
}

fn directory(bytes: &[u8]) -> Result<u32, Problem> {
    match bytes {
        &[number @ 0..=MAX_PATH] => Ok(u32::from(number)),
        other => Err(Problem::Wrong(format!("expected a path from 0 to {MAX_PATH}, got \"{}\"", other.escape_ascii()))),
    }
}

/// Skips a field that concerns neither tables nor column families.
fn skip(fields: &mut Fields<'_>, tag: u32) -> Result<(), Problem> {
    match tag {
        // Log numbers, the last sequence number, the largest column family, and the first form of a removed log.
        2 | 4 | 9 | 10 | 203 | 8197 => fields.varint64().map(|_| ()),
        // A level, and the key that its compaction has reached.
        5 => fields.varint32().and_then(|_| fields.bytes()).map(|_| ()),
        // Blob files: a new one, and garbage in one. Both have a second tag, of RocksDB 6.
        400 | 8194 => skip_blob_file(fields, 2),
        401 | 8195 => skip_blob_file(fields, 0),
        // The first form of a new log. Like 8197, it has no length in front, although the tag promises one.
        8196 => skip_new_log(fields),
        _ if tag & SAFE_TO_IGNORE != 0 => fields.bytes().map(|_| ()),
        _ => Err(Problem::Unknown { tag, of: "" }),
    }
}

/// Skips a blob file's number and two counts, `texts` names or checksums, and optional fields.
fn skip_blob_file(fields: &mut Fields<'_>, texts: usize) -> Result<(), Problem> {
    for _ in 0..3 {
        fields.varint64()?;
    }
    for _ in 0..texts {
        fields.bytes()?;
    }
    loop {
        match fields.varint32()? {
            END_OF_BLOB_FIELDS => return Ok(()),
            tag if tag & MUST_BE_KNOWN != 0 => return Err(Problem::Unknown { tag, of: " of a blob file" }),
            _ => fields.bytes()?,
        };
    }
}

fn skip_new_log(fields: &mut Fields<'_>) -> Result<(), Problem> {
    const END: u32 = 1;
    const SYNCED_BYTES: u32 = 2;
    fields.varint64()?;
    loop {
        match fields.varint32()? {
            END => return Ok(()),
            SYNCED_BYTES => fields.varint64()?,
            tag => return Err(Problem::Unknown { tag, of: " of a log" }),
        };
    }
}
