//! The tables that are written and read with faults, and checks of what remains.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter_store::PartitionOptions;
use sstfilter_table::{Lookup, Table, TableBuilder, TableError, TableOptions, TableSummary, TableWriter};

use super::disk::Disk;

pub(crate) const PATH: &str = "/db/000001.sst";

/// Keys and values; `None` is a tombstone.
pub(crate) type Entries = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// Returns the contents of a table of this generation. Large tables are written in several pieces.
pub(crate) fn entries(generation: u8, keys: u32, value_bytes: usize) -> Entries {
    let value = |key: u32| {
        let tag = format!("{generation}:{key}:");
        tag.bytes().cycle().take(tag.len() + value_bytes).collect()
    };
    let name = |key: u32| format!("{:06}", key * 4 + u32::from(generation)).into_bytes();
    (0..keys).map(|key| (name(key), (key % 7 != 3).then(|| value(key)))).collect()
}

pub(crate) fn options() -> TableOptions {
    TableOptions::default().with_block_bytes(256).unwrap()
}

pub(crate) fn write_options(disk: &Disk) -> TableOptions {
    options().with_file_system(Arc::new(disk.clone()))
}

pub(crate) fn read_options(disk: &Disk) -> TableOptions {
    TableOptions::default().with_file_system(Arc::new(disk.clone()))
}

pub(crate) fn fill(
    entries: &Entries,
    mut add: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), TableError>,
) -> Result<(), TableError> {
    entries.iter().try_for_each(|(key, value)| add(key, value.as_deref()))
}

/// Returns the table's bytes, without writing a file.
pub(crate) fn bytes_of(entries: &Entries) -> Vec<u8> {
    bytes_with(&options(), entries)
}

/// Like [`bytes_of`], with a filter in partitions.
pub(crate) fn partitioned_bytes_of(entries: &Entries) -> Vec<u8> {
    bytes_with(&options().with_partitioned_filter(PartitionOptions::default()), entries)
}

fn bytes_with(options: &TableOptions, entries: &Entries) -> Vec<u8> {
    // The same for the same first entry, so that the tables of a set have different ids.
    let first = format!("{:?}", entries.first());
    let options = options.clone().with_table_id(u128::from(crc32c::crc32c(first.as_bytes())).to_le_bytes());
    let mut builder = TableBuilder::new(Vec::new(), &options).unwrap();
    fill(entries, |key, value| match value {
        Some(value) => builder.add(key, value),
        None => builder.delete(key),
    })
    .unwrap();
    builder.finish().unwrap().0
}

/// Writes a whole table. Checks that a writer does nothing more after its first error.
pub(crate) fn write(options: &TableOptions, path: &Path, entries: &Entries) -> Result<TableSummary, TableError> {
    let mut writer = TableWriter::create(path, options)?;
    let filled = fill(entries, |key, value| match value {
        Some(value) => writer.add(key, value),
        None => writer.delete(key),
    });
    if let Err(error) = filled {
        assert!(matches!(writer.add(b"zzz", b""), Err(TableError::Poisoned)));
        assert!(matches!(writer.delete(b"zzz"), Err(TableError::Poisoned)));
        assert!(matches!(writer.finish(), Err(TableError::Poisoned)));
        return Err(error);
    }
    writer.finish()
}

/// Returns the contents of a table, after verifying it.
pub(crate) fn contents(table: &Table) -> Result<Entries, TableError> {
    let report = table.verify()?;
    let entries: Entries = table
        .iter()
        .map(|entry| entry.map(|entry| (entry.key.to_vec(), entry.value.as_deref().map(<[u8]>::to_vec))))
        .collect::<Result<_, _>>()?;
    assert_eq!(report.entries, entries.len() as u64);
    Ok(entries)
}

/// Returns the contents of the table at [`PATH`]; `None` if there is no file. Fails on anything else.
pub(crate) fn found(disk: &Disk) -> Option<Entries> {
    let is_there = disk.names().iter().any(|name| name == Path::new(PATH));
    let table = is_there.then(|| Table::open(PATH, &read_options(disk)));
    table.map(|table| table.and_then(|table| contents(&table)).unwrap_or_else(|error| panic!("half a table: {error}")))
}

/// Expects an error with the file's name and the system's code, and returns its text.
pub(crate) fn expect_io(error: &TableError, path: &Path, code: i32) -> String {
    let text = error.to_string();
    let TableError::Io { source, .. } = error else { panic!("not an error of the system: {text}") };
    assert_eq!(source.raw_os_error(), Some(code), "{text}");
    assert!(text.contains(path.to_str().unwrap()), "names no file: {text}");
    text
}

/// Returns the expected lookup of a key in a table of these entries.
pub(crate) fn lookup_of(entries: &Entries, key: &[u8]) -> Lookup {
    match entries.iter().find(|(name, _)| name == key) {
        None => Lookup::Absent,
        Some((_, None)) => Lookup::Deleted,
        Some((_, Some(value))) => Lookup::Found(Bytes::copy_from_slice(value)),
    }
}
