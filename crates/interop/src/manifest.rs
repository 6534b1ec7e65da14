//! The manifest of a LevelDB or RocksDB database: the log of changes to its tables, named by the file CURRENT.
//!
//! A table file stores neither its level nor, in LevelDB, its comparator. The manifest stores both. It is a log of
//! records (`db/log_format.h`), each a list of tagged fields (`db/version_edit.h`).

use std::collections::BTreeMap;

use crate::error::{Error, Part};
use crate::format::checksum::masked;
use crate::format::cursor::Cursor;

/// Records are split at block boundaries.
const LOG_BLOCK_BYTES: usize = 32 << 10;
/// Checksum, length, type.
const HEADER_BYTES: usize = 7;

/// Tags of fields that RocksDB marks as safe to skip have this bit, and a length before their bytes.
const SAFE_TO_SKIP: u32 = 1 << 13;
/// Skippable fields without a length: the first forms of `kWalAddition` and `kWalDeletion`, of one release.
const WITHOUT_LENGTH: [u32; 4] = [SAFE_TO_SKIP + 2, SAFE_TO_SKIP + 3, SAFE_TO_SKIP + 4, SAFE_TO_SKIP + 5];

/// Ends the list of optional fields of a new file, from its fourth form on.
const LAST_FILE_FIELD: u32 = 1;

/// The tables of a database: their levels, and the order of their keys.
///
/// ```
/// use sstfilter_interop::Manifest;
///
/// let manifest = Manifest::parse(b"")?;
/// assert_eq!(manifest.level(7), None);
/// # Ok::<(), sstfilter_interop::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    comparator: Option<String>,
    files: BTreeMap<u64, ManifestFile>,
}

/// One table file's entry in a manifest. [`Table::bounds`](crate::Table::bounds) interprets its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ManifestFile {
    /// The level that the table is on.
    pub level: u32,
    /// Bytes of the file.
    pub bytes: u64,
    /// Its smallest key, with sequence number and type.
    pub smallest: Vec<u8>,
    /// Its largest key, with sequence number and type.
    pub largest: Vec<u8>,
}

impl Manifest {
    /// Parses the bytes of a file `MANIFEST-NUMBER`. A record that the end of the file cuts off was being written; like
    /// the engines, this ignores it.
    ///
    /// # Errors
    ///
    /// [`Error::Checksum`] and [`Error::Malformed`] if it is damaged; [`Error::Unsupported`] for an unknown field,
    /// because the fields after it could move a table to another level.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut manifest = Self::default();
        for_each_record(bytes, |offset, record| {
            manifest.apply(record).map_err(|problem| match problem {
                Problem::Unknown(tag) => {
                    Error::Unsupported { part: Part::Manifest, what: format!("a field with the tag {tag}") }
                }
                Problem::Cut => malformed(offset, "expected a whole field, got its beginning".into()),
            })
        })?;
        Ok(manifest)
    }

    /// Returns the comparator of the database, or of its default column family.
    #[must_use]
    pub fn comparator(&self) -> Option<&str> {
        self.comparator.as_deref()
    }

    /// Returns the level of the table file with this number, or `None` if the database does not contain it (any more).
    #[must_use]
    pub fn level(&self, file_number: u64) -> Option<u32> {
        self.file(file_number).map(|file| file.level)
    }

    /// Returns the entry of the table file with this number, or `None` if the database does not contain it (any more).
    #[must_use]
    pub fn file(&self, file_number: u64) -> Option<&ManifestFile> {
        self.files.get(&file_number)
    }

    fn apply(&mut self, record: &[u8]) -> Result<(), Problem> {
        let mut cursor = Cursor::new(record);
        let mut column_family = 0;
        while !cursor.rest().is_empty() {
            match cursor.varint32().ok_or(Problem::Cut)? {
                1 => {
                    let name = cursor.length_prefixed().ok_or(Problem::Cut)?;
                    // A family's comparator never changes, so the first record counts. Other families may have other
                    // comparators.
                    if column_family == 0 && self.comparator.is_none() {
                        self.comparator = Some(String::from_utf8_lossy(name).into_owned());
                    }
                }
                6 => {
                    let (level, number) = level_and_number(&mut cursor).ok_or(Problem::Cut)?;
                    // A removal names its level. A file that has since moved to another level stays.
                    if self.level(number) == Some(level) {
                        self.files.remove(&number);
                    }
                }
                tag @ (7 | 100 | 102 | 103) => {
                    let (number, file) = new_file(&mut cursor, tag).ok_or(Problem::Cut)?;
                    self.files.insert(number, file);
                }
                // A record of a column family begins with the family's number.
                200 => column_family = cursor.varint32().ok_or(Problem::Cut)?,
                tag => skip(&mut cursor, tag)?,
            }
        }
        Ok(())
    }
}

/// Why a record cannot be read to its end.
enum Problem {
    Cut,
    Unknown(u32),
}

fn level_and_number(cursor: &mut Cursor<'_>) -> Option<(u32, u64)> {
    Some((cursor.varint32()?, cursor.varint64()?))
}

/// LevelDB's form (7), and RocksDB's second to fourth.
fn new_file(cursor: &mut Cursor<'_>, tag: u32) -> Option<(u64, ManifestFile)> {
    let (level, number) = level_and_number(cursor)?;
    // RocksDB's third form has the number of a path before the size of the file.
    if tag == 102 {
        let _path = cursor.varint32()?;
    }
    let bytes = cursor.varint64()?;
    let (smallest, largest) = (cursor.length_prefixed()?.to_vec(), cursor.length_prefixed()?.to_vec());
    if tag > 7 {
        let _sequence_numbers = (cursor.varint64()?, cursor.varint64()?);
    }
    if tag == 103 {
        while cursor.varint32()? != LAST_FILE_FIELD {
            cursor.length_prefixed()?;
        }
    }
    Some((number, ManifestFile { level, bytes, smallest, largest }))
}

/// Skips a field that concerns neither tables nor comparators.
fn skip(cursor: &mut Cursor<'_>, tag: u32) -> Result<(), Problem> {
    let skipped = match tag {
        // Log numbers, the next file, the last sequence number, the largest column family, a group's length.
        2 | 3 | 4 | 9 | 10 | 203 | 300 => cursor.varint64().map(|_| ()),
        // A level, and the key that its compaction has reached.
        5 => cursor.varint32().and_then(|_| cursor.length_prefixed()).map(|_| ()),
        // The name of a new column family.
        201 => cursor.length_prefixed().map(|_| ()),
        // A column family is dropped with its tables. They stay in the map: file numbers are never reused.
        202 => Some(()),
        _ if tag & SAFE_TO_SKIP != 0 && !WITHOUT_LENGTH.contains(&tag) => cursor.length_prefixed().map(|_| ()),
        _ => return Err(Problem::Unknown(tag)),
    };
    skipped.ok_or(Problem::Cut)
}

fn malformed(offset: u64, problem: String) -> Error {
    Error::Malformed { part: Part::Manifest, offset, problem }
}

/// A fragment of a record: all of it, or the part that fits in a block.
struct Fragment<'a> {
    offset: u64,
    kind: u8,
    bytes: &'a [u8],
}

/// Calls `apply` with the offset and the bytes of each whole record.
fn for_each_record(bytes: &[u8], mut apply: impl FnMut(u64, &[u8]) -> Result<(), Error>) -> Result<(), Error> {
    const FULL: u8 = 1;
    const FIRST: u8 = 2;
    const MIDDLE: u8 = 3;
    const LAST: u8 = 4;
    let mut record: Option<Vec<u8>> = None;
    let mut at = 0;
    while let Some(fragment) = next_fragment(bytes, &mut at)? {
        match (fragment.kind, &mut record) {
            (FULL, None) => apply(fragment.offset, fragment.bytes)?,
            (FIRST, None) => record = Some(fragment.bytes.to_vec()),
            (MIDDLE, Some(begun)) => begun.extend_from_slice(fragment.bytes),
            (LAST, Some(begun)) => {
                begun.extend_from_slice(fragment.bytes);
                apply(fragment.offset, begun)?;
                record = None;
            }
            (kind, _) => {
                let problem = format!("expected the next piece of a record, got one of type {kind}");
                return Err(malformed(fragment.offset, problem));
            }
        }
    }
    Ok(())
}

/// Reads the fragment at `at` and moves `at` behind it. Returns `None` at the end, and if the file ends within a
/// fragment.
fn next_fragment<'a>(bytes: &'a [u8], at: &mut usize) -> Result<Option<Fragment<'a>>, Error> {
    let left_in_block = LOG_BLOCK_BYTES - *at % LOG_BLOCK_BYTES;
    if left_in_block < HEADER_BYTES {
        *at += left_in_block;
    }
    let offset = *at as u64;
    let mut cursor = Cursor::new(bytes.get(*at..).unwrap_or_default());
    let (Some(stored), Some(&[low, high, kind])) = (cursor.u32(), cursor.take(3).and_then(<[u8]>::first_chunk)) else {
        return Ok(None);
    };
    let length = usize::from(u16::from_le_bytes([low, high]));
    // Preallocated space that has not been written yet.
    if (stored, length, kind) == (0, 0, 0) {
        return Ok(None);
    }
    if HEADER_BYTES + length > LOG_BLOCK_BYTES - *at % LOG_BLOCK_BYTES {
        return Err(malformed(offset, format!("expected a piece that ends with its block, got {length} bytes")));
    }
    let Some(contents) = cursor.take(length) else { return Ok(None) };
    *at += HEADER_BYTES + length;
    let found = masked(crc32c::crc32c_append(crc32c::crc32c(&[kind]), contents));
    if found != stored {
        return Err(Error::Checksum { part: Part::Manifest, offset, expected: stored, found });
    }
    Ok(Some(Fragment { offset, kind, bytes: contents }))
}

#[cfg(test)]
mod tests {
    //! A comparator read from a damaged manifest would be applied to every table of the database.

    use super::{LOG_BLOCK_BYTES, Manifest, masked};
    use crate::error::Error;

    fn fragment(kind: u8, contents: &[u8]) -> Vec<u8> {
        let crc = masked(crc32c::crc32c_append(crc32c::crc32c(&[kind]), contents));
        let length = u16::try_from(contents.len()).expect("short").to_le_bytes();
        [&crc.to_le_bytes()[..], &length, &[kind], contents].concat()
    }

    /// Comparator "c"; file 5 on level 0, file 6 on level 2.
    const FIRST: &[u8] = b"\x01\x01c\x07\x00\x05\x64\x01a\x01b\x67\x02\x06\x64\x01a\x01b\x00\x00\x0f\x02xx\x01";
    /// File 5 moves to level 1, file 6 is removed; then a field that may be skipped.
    const SECOND: &[u8] = b"\x06\x00\x05\x06\x02\x06\x07\x01\x05\x64\x01a\x01b\x81\x40\x02id";

    #[test]
    fn tables_move_and_go() {
        let first = Manifest::parse(&fragment(1, FIRST)).expect("sound");
        assert_eq!((first.comparator(), first.level(5), first.level(6)), (Some("c"), Some(0), Some(2)));
        let both = Manifest::parse(&[fragment(1, FIRST), fragment(1, SECOND)].concat()).expect("sound");
        assert_eq!((both.comparator(), both.level(5), both.level(6)), (Some("c"), Some(1), None));
        let file = first.file(6).expect("there");
        assert_eq!((file.bytes, &file.smallest[..], &file.largest[..]), (100, &b"a"[..], &b"b"[..]));
    }

    #[test]
    fn a_record_in_pieces_is_one_record_and_blocks_end_in_padding() {
        let (start, end) = FIRST.split_at(7);
        let whole = Manifest::parse(&fragment(1, FIRST)).expect("sound");
        let pieces = [fragment(2, start), fragment(3, b""), fragment(4, end)].concat();
        assert_eq!(Manifest::parse(&pieces), Ok(whole.clone()));
        // A field to be skipped that leaves six bytes in the block, too few for a header.
        let filler = [b"\x81\x40\xe7\xff\x01".to_vec(), vec![0; 32_743]].concat();
        let mut padded = fragment(1, &filler[..]);
        assert_eq!(padded.len(), LOG_BLOCK_BYTES - 13);
        padded.extend(fragment(1, b""));
        padded.extend([0; 6]);
        padded.extend(fragment(1, FIRST));
        assert_eq!(Manifest::parse(&padded), Ok(whole));
    }

    #[test]
    fn what_was_cut_off_at_the_end_is_left_out_and_what_is_damaged_is_not_believed() {
        let bytes = [fragment(1, FIRST), fragment(1, SECOND)].concat();
        let first = Manifest::parse(&fragment(1, FIRST)).expect("sound");
        for end in fragment(1, FIRST).len()..bytes.len() {
            assert_eq!(Manifest::parse(&bytes[..end]), Ok(first.clone()), "cut at {end}");
        }
        let whole = Manifest::parse(&bytes).expect("sound");
        for bit in 0..8 * bytes.len() {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // A length that points beyond the end looks like a record that was being written.
            let read = Manifest::parse(&flipped);
            assert!(read.is_err() || read == Ok(first.clone()) || read == Ok(Manifest::default()), "bit {bit}");
            assert_ne!(read, Ok(whole.clone()), "bit {bit}");
        }
    }

    #[test]
    fn a_field_that_is_not_known_makes_the_levels_unknown() {
        for tag in [8, 400, 0x2004] {
            let mut record = FIRST.to_vec();
            let mut rest: u32 = tag;
            while rest >= 128 {
                record.push(rest.to_le_bytes()[0] | 128);
                rest >>= 7;
            }
            record.push(rest.to_le_bytes()[0]);
            let read = Manifest::parse(&fragment(1, &record));
            assert!(matches!(read, Err(Error::Unsupported { .. })), "{tag}: {read:?}");
        }
    }
}
