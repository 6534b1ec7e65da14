//! The manifest of a LevelDB or RocksDB database: the log of changes to its tables, named by the file CURRENT.
//!
//! A table file stores neither its level nor, in LevelDB, its comparator, and a file beside it may be the rest of a
//! compaction, or of a column family that was dropped. The manifest knows the live tables.

mod edit;
mod log;

use std::collections::BTreeMap;

use crate::error::{Error, Part};
use edit::{Edit, Problem};

/// The live version of a database: its column families, and their tables.
///
/// ```
/// use sstfilter_interop::Manifest;
///
/// assert_eq!(Manifest::default().level(7), None);
/// assert!(Manifest::parse(b"").is_err(), "a manifest has at least one record");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    column_families: BTreeMap<u32, ColumnFamily>,
    /// The tables of all families: a number is never given twice.
    files: BTreeMap<u64, ManifestFile>,
    next_file_number: u64,
}

/// One table file's entry in a manifest. [`ForeignTable::bounds`](crate::ForeignTable::bounds) interprets its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ManifestFile {
    /// The level that the table is on.
    pub level: u32,
    /// Bytes of the file.
    pub bytes: u64,
    /// Its smallest key, with sequence number and type. Range tombstones count as keys.
    pub smallest: Vec<u8>,
    /// Its largest key, with sequence number and type. Range tombstones count as keys.
    pub largest: Vec<u8>,
    /// The number of its column family, a [`ColumnFamily::id`].
    pub column_family: u32,
    /// The number of the directory that it is in: 0, or another one of RocksDB's `db_paths`.
    pub path: u32,
}

/// A column family: tables that are searched together. A key of another family is another key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ColumnFamily {
    /// Its number, which no other family of the database ever gets.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The name of its keys' order, which RocksDB and LevelDB record.
    pub comparator: Option<String>,
}

impl ColumnFamily {
    /// The number of the family that every database has. No record creates it.
    const DEFAULT_ID: u32 = 0;

    const fn new(id: u32, name: String) -> Self {
        Self { id, name, comparator: None }
    }
}

/// The version before the first record: the default column family, without tables.
impl Default for Manifest {
    fn default() -> Self {
        let family = ColumnFamily::new(ColumnFamily::DEFAULT_ID, "default".into());
        Self { column_families: BTreeMap::from([(family.id, family)]), files: BTreeMap::new(), next_file_number: 0 }
    }
}

impl Manifest {
    /// Parses the bytes of a file `MANIFEST-NUMBER`. Unlike the engines, this fails if the file ends within a record or
    /// a group of records: it may miss live tables. Beside a running engine, which was writing it, read it again.
    ///
    /// # Errors
    ///
    /// [`Error::Checksum`] and [`Error::Malformed`] if it is damaged or cut off; [`Error::Unsupported`] for an unknown
    /// field that the engine does not mark as safe to ignore, because it could move a table to another level.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut manifest = Self::default();
        let mut group = Group::default();
        log::for_each_record(bytes, |offset, record| {
            let edits = Edit::decode(record).and_then(|edit| group.complete_with(edit));
            let applied = edits.and_then(|edits| edits.into_iter().try_for_each(|edit| manifest.apply(edit)));
            applied.map_err(|problem| match problem {
                Problem::Unknown { tag, of } => {
                    Error::unsupported(Part::Manifest, format!("a field with the tag {tag}{of}"))
                }
                Problem::Cut => log::malformed(offset, "expected a whole field, got its beginning".into()),
                Problem::Wrong(problem) => log::malformed(offset, problem),
            })
        })?;
        // No engine opens a database without.
        if !group.edits.is_empty() || manifest.next_file_number == 0 {
            let problem = "expected whole groups of records, and a next file number";
            return Err(log::malformed(bytes.len() as u64, problem.into()));
        }
        Ok(manifest)
    }

    /// Returns the numbers and entries of all live tables, by ascending number.
    pub fn files(&self) -> impl Iterator<Item = (u64, &ManifestFile)> {
        self.files.iter().map(|(&number, file)| (number, file))
    }

    /// Returns the entry of the table file with this number, or `None` if the database does not contain it (any more).
    #[must_use]
    pub fn file(&self, file_number: u64) -> Option<&ManifestFile> {
        self.files.get(&file_number)
    }

    /// Returns the level of the table file with this number, or `None` if the database does not contain it (any more).
    #[must_use]
    pub fn level(&self, file_number: u64) -> Option<u32> {
        self.file(file_number).map(|file| file.level)
    }

    /// Returns the column families that have not been dropped, by ascending id. LevelDB has one, `default`.
    pub fn column_families(&self) -> impl Iterator<Item = &ColumnFamily> {
        self.column_families.values()
    }

    /// Returns the comparator of the database, or of its default column family.
    #[must_use]
    pub fn comparator(&self) -> Option<&str> {
        self.column_families.get(&ColumnFamily::DEFAULT_ID)?.comparator.as_deref()
    }

    /// Returns a number that is above those of all files that the database had created when it last wrote the
    /// manifest: a table from this number on is newer. It is 0 if the manifest records none.
    #[must_use]
    pub const fn next_file_number(&self) -> u64 {
        self.next_file_number
    }

    fn apply(&mut self, edit: Edit) -> Result<(), Problem> {
        self.next_file_number = edit.next_file_number.unwrap_or(self.next_file_number);
        let id = edit.column_family;
        if let Some(name) = edit.created_as
            && self.column_families.insert(id, ColumnFamily::new(id, name)).is_some()
        {
            return Err(Problem::Wrong(format!("expected a new column family, got number {id} again")));
        }
        let Some(family) = self.column_families.get_mut(&id) else {
            return Err(Problem::Wrong(format!("expected a known column family, got number {id}")));
        };
        // A family's comparator never changes, so the first record counts.
        if family.comparator.is_none() {
            family.comparator = edit.comparator;
        }
        if edit.is_drop {
            self.column_families.remove(&id);
            self.files.retain(|_, file| file.column_family != id);
            return Ok(());
        }
        // First, because a table that moves is removed from one level and added to another by the same record.
        for (level, number) in edit.removed {
            if self.level(number) == Some(level) {
                self.files.remove(&number);
            }
        }
        self.files.extend(edit.added);
        Ok(())
    }
}

/// Records that take effect together, collected until the last of them (`AtomicGroupReadBuffer`).
#[derive(Debug, Default)]
struct Group {
    edits: Vec<Edit>,
}

impl Group {
    /// Adds a record. Returns the records that take effect now: itself if it is in no group, all of its group if it is
    /// the last one, otherwise none.
    fn complete_with(&mut self, edit: Edit) -> Result<Vec<Edit>, Problem> {
        let left = edit.left_in_group;
        let before = self.edits.last().and_then(|edit| edit.left_in_group);
        // Each record of a group counts down by one.
        if before.is_some() && before != left.and_then(|left| left.checked_add(1)) {
            return Err(Problem::Wrong("expected the next record of a group, got another one".into()));
        }
        self.edits.push(edit);
        Ok(if left.unwrap_or(0) == 0 { core::mem::take(&mut self.edits) } else { Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    //! A comparator read from a damaged manifest would be applied to every table of the database.

    use super::log::BLOCK_BYTES;
    use super::{ColumnFamily, Manifest};
    use crate::error::Error;
    use crate::format::checksum::masked;

    fn fragment(kind: u8, contents: &[u8]) -> Vec<u8> {
        let crc = masked(crc32c::crc32c_append(crc32c::crc32c(&[kind]), contents));
        let length = u16::try_from(contents.len()).expect("short").to_le_bytes();
        [&crc.to_le_bytes()[..], &length, &[kind], contents].concat()
    }

    /// Comparator "c"; next file 7; file 5 on level 0, file 6 on level 2.
    const FIRST: &[u8] = b"\x01\x01c\x03\x07\x07\x00\x05\x64\x01a\x01b\x67\x02\x06\x64\x01a\x01b\x00\x00\x0f\x02xx\x01";
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
        assert_eq!(padded.len(), BLOCK_BYTES - 13);
        padded.extend(fragment(1, b""));
        padded.extend([0; 6]);
        padded.extend(fragment(1, FIRST));
        assert_eq!(Manifest::parse(&padded), Ok(whole));
    }

    #[test]
    fn what_is_cut_off_or_damaged_is_not_believed() {
        let first = fragment(1, FIRST);
        let bytes = [&first[..], &fragment(1, SECOND)].concat();
        for end in (0..bytes.len()).filter(|&end| end != first.len()) {
            assert!(Manifest::parse(&bytes[..end]).is_err(), "cut at {end}");
        }
        for bit in 0..8 * bytes.len() {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Manifest::parse(&flipped).is_err(), "bit {bit}");
        }
        let whole = Manifest::parse(&bytes).expect("sound");
        assert_eq!(Manifest::parse(&[&bytes[..], &[0; 70]].concat()), Ok(whole), "space that is not written yet");
        assert!(Manifest::parse(&[&first[..], &[0; 7], &bytes[first.len()..]].concat()).is_err());
    }

    /// A number as a varint.
    fn varint(mut number: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        while number >= 128 {
            bytes.push(number.to_le_bytes()[0] | 128);
            number >>= 7;
        }
        bytes.push(number.to_le_bytes()[0]);
        bytes
    }

    /// Parses a log of these records.
    fn parsed(records: &[&[u8]]) -> Result<Manifest, Error> {
        Manifest::parse(&records.iter().flat_map(|record| fragment(1, record)).collect::<Vec<_>>())
    }

    /// A field: its tag, and the bytes behind it.
    fn field(tag: u32, bytes: &[u8]) -> Vec<u8> {
        [&varint(tag)[..], bytes].concat()
    }

    /// A record that creates family 1, called "f", and one that adds table 7 to its level 3. As RocksDB does, it names
    /// the family last.
    fn family_and_table() -> [Vec<u8>; 2] {
        let family = field(200, &[1]);
        let created = [&field(1, b"\x01d")[..], &family, &field(201, b"\x01f")].concat();
        let table = [field(103, b"\x03\x07\x64\x01a\x01b\x00\x00\x01"), family].concat();
        [created, table]
    }

    #[test]
    fn each_table_belongs_to_the_family_of_its_record() {
        let [created, table] = family_and_table();
        let manifest = parsed(&[FIRST, &created, &table, b"\x03\x09"]).expect("sound");
        let families: Vec<_> = manifest.column_families().cloned().collect();
        let family = |id, name: &str, comparator: &str| ColumnFamily {
            id,
            name: name.into(),
            comparator: Some(comparator.into()),
        };
        assert_eq!(families, [family(0, "default", "c"), family(1, "f", "d")]);
        let tables: Vec<_> = manifest.files().map(|(number, file)| (number, file.column_family, file.level)).collect();
        assert_eq!(tables, [(5, 0, 0), (6, 0, 2), (7, 1, 3)]);
        assert_eq!((manifest.comparator(), manifest.next_file_number()), (Some("c"), 9));
    }

    #[test]
    fn a_dropped_family_takes_its_tables_along() {
        let [created, table] = family_and_table();
        let dropped = [field(200, &[1]), field(202, b"")].concat();
        let manifest = parsed(&[FIRST, &created, &table, &dropped]);
        assert_eq!(manifest, parsed(&[FIRST]));
        let twice = [&created[..], &created];
        let unknown = [[&table[..]], [&dropped[..]]];
        for wrong in [&twice[..], &unknown[0], &unknown[1]] {
            assert!(matches!(parsed(wrong), Err(Error::Malformed { .. })), "{wrong:?}");
        }
    }

    #[test]
    fn records_of_a_group_count_together_or_not_at_all() {
        let [created, table] = family_and_table();
        let left = |record: &[u8], left| [record, &field(300, &[left])].concat();
        let group = [left(FIRST, 2), left(&created, 1), left(&table, 0)];
        let group = group.each_ref().map(Vec::as_slice);
        assert!(parsed(&group[..2]).is_err());
        assert_eq!(parsed(&group), parsed(&[FIRST, &created, &table]));
        for wrong in [[group[0], FIRST], [group[0], group[2]], [group[1], group[1]]] {
            assert!(matches!(parsed(&wrong), Err(Error::Malformed { .. })), "{wrong:?}");
        }
    }

    #[test]
    fn fields_that_concern_no_table_are_passed_over() {
        let blob_file = b"\x09\x02\x40\x03crc\x02xy\x05\x01z\x00";
        let garbage = b"\x09\x01\x20\x00";
        let new_log = b"\x0a\x02\x80\x01\x01";
        let fields = [
            field(2, &[5]),
            field(5, b"\x01\x03key"),
            field(400, blob_file),
            field(401, garbage),
            field(8194, blob_file),
            field(8195, garbage),
            field(8196, new_log),
            field(8197, &[10]),
            // Later fields, which RocksDB marks as safe to ignore.
            field(8198, b"\x02ts"),
            field(8300, b"\x00"),
        ];
        for field in &fields {
            assert_eq!(parsed(&[&[&field[..], FIRST].concat()]), parsed(&[FIRST]), "{field:?}");
            for end in 1..field.len() {
                let cut = parsed(&[&field[..end]]);
                assert!(matches!(cut, Err(Error::Malformed { .. })), "{end} of {field:?}: {cut:?}");
            }
        }
    }

    #[test]
    fn a_table_in_another_directory_says_in_which() {
        let table = |fields: &[u8]| field(103, &[&b"\x00\x08\x64\x01a\x01b\x00\x00"[..], fields].concat());
        let path =
            |fields: &[u8]| parsed(&[FIRST, &table(fields)]).map(|manifest| manifest.file(8).expect("there").path);
        assert_eq!(path(b"\x01"), Ok(0));
        assert_eq!(path(b"\x0f\x01x\x41\x01\x03\x01"), Ok(3));
        for wrong in [&b"\x41\x01\x04\x01"[..], b"\x41\x02\x00\x00\x01", b"\x41\x00\x01"] {
            assert!(matches!(path(wrong), Err(Error::Malformed { .. })), "{wrong:?}");
        }
        let third_form = field(102, b"\x00\x08\x02\x64\x01a\x01b\x00\x00");
        assert_eq!(parsed(&[FIRST, &third_form]).map(|manifest| manifest.file(8).expect("there").path), Ok(2));
    }

    #[test]
    fn a_field_that_is_not_known_makes_the_levels_unknown() {
        let unknown = [
            (field(8, &[]), "the tag 8 is"),
            (field(402, &[]), "the tag 402 is"),
            (field(103, b"\x00\x08\x64\x01a\x01b\x00\x00\x42\x01x\x01"), "the tag 66 of a table is"),
            (field(401, b"\x09\x01\x20\x40\x01x\x00"), "the tag 64 of a blob file is"),
            (field(8196, b"\x0a\x03\x80\x01\x01"), "the tag 3 of a log is"),
        ];
        for (field, expected) in unknown {
            let error = parsed(&[&[FIRST, &field].concat()]).expect_err("unknown");
            assert!(matches!(error, Error::Unsupported { .. }), "{error:?}");
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
