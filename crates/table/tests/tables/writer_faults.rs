//! A writer that fails halfway must leave nothing that looks like a table. The failure guarded against: after a full
//! disk, an engine finds half a table and uses it.

#[cfg(unix)]
use std::fs;
use std::io::{self, Write};
#[cfg(unix)]
use std::path::Path;

use bytes::Bytes;
use sstfilter::FixedPrefix;
use sstfilter_table::{Table, TableBuilder, TableError, TableOptions, TableWriter};

/// A disk with room for a limited number of bytes.
#[derive(Debug)]
struct SmallDisk {
    written: Vec<u8>,
    room: usize,
}

impl Write for SmallDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A short write first, as a real disk does, and then the error.
        let fits = bytes.len().min(self.room - self.written.len());
        if fits == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.written.extend_from_slice(&bytes[..fits]);
        Ok(fits)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn options() -> TableOptions {
    TableOptions::default().with_block_bytes(128).unwrap()
}

fn name(key: u32) -> Vec<u8> {
    format!("{key:06}").into_bytes()
}

fn fill<W: Write>(builder: &mut TableBuilder<W>) -> Result<(), TableError> {
    (0..60_u32).try_for_each(|key| builder.add(&name(key), b"some value or other"))
}

#[test]
fn a_disk_that_fills_up_at_any_byte_is_an_error_and_no_table() {
    let mut whole = TableBuilder::new(Vec::new(), &options()).unwrap();
    fill(&mut whole).unwrap();
    let size = whole.finish().unwrap().0.len();
    // A table is complete only with its last byte, so every smaller disk must fail.
    for room in 0..size {
        let mut disk = SmallDisk { written: Vec::new(), room };
        let mut builder = TableBuilder::new(&mut disk, &options()).unwrap();
        let filled = fill(&mut builder);
        let is_poisoned = filled.is_err();
        let finished = builder.finish().map(|_| ());
        match (filled, finished) {
            (Err(TableError::Io { source, .. }), Err(TableError::Poisoned))
            | (Ok(()), Err(TableError::Io { source, .. })) => assert_eq!(source.kind(), io::ErrorKind::StorageFull),
            other => panic!("room for {room} of {size}, poisoned {is_poisoned}: {other:?}"),
        }
        assert!(Table::open_source(Bytes::from(disk.written), &TableOptions::default()).is_err(), "room for {room}");
    }
}

#[test]
fn a_poisoned_builder_refuses_everything() {
    let mut builder = TableBuilder::new(SmallDisk { written: Vec::new(), room: 100 }, &options()).unwrap();
    fill(&mut builder).unwrap_err();
    assert!(matches!(builder.add(&[0xff; 9], b""), Err(TableError::Poisoned)));
    assert!(matches!(builder.delete(&[0xff; 9]), Err(TableError::Poisoned)));
    assert!(matches!(builder.finish(), Err(TableError::Poisoned)));
}

#[test]
fn a_key_out_of_order_or_twice_is_refused_and_the_table_is_as_if_it_had_not_been_offered() {
    let table_id = [1; 16];
    let build = |is_offered: bool| {
        let mut builder = TableBuilder::new(Vec::new(), &options().with_table_id(table_id)).unwrap();
        builder.add(b"b", b"1").unwrap();
        for refused in [&b"b"[..], b"a", b""].iter().filter(|_| is_offered) {
            let error = builder.add(refused, b"2").unwrap_err();
            assert!(matches!(&error, TableError::KeyOrder { previous, .. } if previous == b"b"), "{error}");
            assert!(matches!(builder.delete(refused), Err(TableError::KeyOrder { .. })));
        }
        builder.add(b"c", b"3").unwrap();
        builder.finish().unwrap().0
    };
    assert_eq!(build(true), build(false));
}

#[test]
fn order_is_kept_across_data_blocks() {
    let mut builder = TableBuilder::new(Vec::new(), &options()).unwrap();
    for key in 0..100_u8 {
        builder.add(&[key], &[0; 100]).unwrap();
        assert!(matches!(builder.add(&[key], &[0; 100]), Err(TableError::KeyOrder { .. })));
    }
    assert_eq!(builder.entries(), 100);
    // Values of 100 bytes fill a block of 128 each, so the order is checked across blocks.
    assert_eq!(builder.finish().unwrap().1.properties.data_blocks, 100);
}

#[test]
fn a_missing_directory_is_an_error_that_names_the_path() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("missing").join("1.sst");
    let error = TableWriter::create(&path, &options()).unwrap_err();
    assert!(matches!(&error, TableError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound), "{error}");
    assert!(error.to_string().contains("missing"), "{error}");
    assert!(matches!(Table::open(&path, &TableOptions::default()), Err(TableError::Io { path: Some(_), .. })));
}

#[cfg(unix)]
#[test]
fn a_directory_that_cannot_be_written_is_an_error() {
    use std::os::unix::fs::PermissionsExt;

    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o500)).unwrap();
    let can_write_anyway = fs::write(directory.path().join("probe"), b"").is_ok();
    let created = TableWriter::create(directory.path().join("1.sst"), &options());
    // The superuser may write anywhere, so the test does not apply.
    if !can_write_anyway {
        let error = created.unwrap_err();
        assert!(matches!(error, TableError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied));
    }
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_directory_that_refuses_even_the_super_user_is_an_error() {
    TableWriter::create("/proc/1.sst", &options()).unwrap_err();
}

#[cfg(unix)]
#[test]
fn a_table_has_the_permissions_of_any_other_new_file() {
    use std::os::unix::fs::PermissionsExt;

    let directory = tempfile::tempdir().unwrap();
    let (table, other) = (directory.path().join("1.sst"), directory.path().join("other"));
    TableWriter::create(&table, &options()).unwrap().finish().unwrap();
    fs::write(&other, b"").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&table), mode(&other));
}

#[test]
fn an_extractor_without_a_storable_name_is_refused_before_anything_is_written() {
    #[derive(Debug)]
    struct Named(String, FixedPrefix);
    impl sstfilter::KeyExtractor for Named {
        fn name(&self) -> &str {
            &self.0
        }
        fn extract<'key>(&self, key: &'key [u8]) -> Option<std::borrow::Cow<'key, [u8]>> {
            self.1.extract(key)
        }
    }
    for (length, is_accepted) in [(0, false), (1, true), (255, true), (256, false)] {
        let extractor = std::sync::Arc::new(Named("x".repeat(length), FixedPrefix::new(2)));
        let built = TableBuilder::new(Vec::new(), &options().with_extractor(extractor));
        assert_eq!(built.is_ok(), is_accepted, "{length}");
    }
}
