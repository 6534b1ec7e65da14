//! A writer that fails halfway must leave nothing that looks like a table. The failure guarded against: after a full
//! disk, an engine finds half a table and uses it.

use std::io::{self, Write};

use bytes::Bytes;
use sstfilter_table::{Table, TableBuilder, TableError, TableOptions};

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

fn fill<W: Write>(builder: &mut TableBuilder<W>) -> Result<(), TableError> {
    (0..60_u32).try_for_each(|key| builder.add(format!("{key:06}").as_bytes(), b"some value or other"))
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
        if filled.is_err() {
            assert!(matches!(builder.add(b"zzz", b""), Err(TableError::Poisoned)));
            assert!(matches!(builder.delete(b"zzz"), Err(TableError::Poisoned)));
        }
        match (filled, builder.finish().map(drop)) {
            (Err(TableError::Io { source, .. }), Err(TableError::Poisoned))
            | (Ok(()), Err(TableError::Io { source, .. })) => assert_eq!(source.kind(), io::ErrorKind::StorageFull),
            other => panic!("room for {room} of {size}: {other:?}"),
        }
        assert!(Table::open_source(Bytes::from(disk.written), &TableOptions::default()).is_err(), "room for {room}");
    }
}

/// Values of 100 bytes fill a block each, so the order is checked across blocks.
#[test]
fn a_key_out_of_order_or_twice_is_refused_and_the_table_is_as_if_it_had_not_been_offered() {
    let build = |is_offered: bool| {
        let mut builder = TableBuilder::new(Vec::new(), &options().with_table_id([1; 16])).unwrap();
        for key in 1..50_u8 {
            builder.add(&[key], &[0; 100]).unwrap();
            for refused in [&[key][..], &[key - 1, 9], b""].iter().filter(|_| is_offered) {
                let error = builder.add(refused, b"2").unwrap_err();
                assert!(matches!(&error, TableError::KeyOrder { previous, .. } if **previous == [key]), "{error}");
                assert!(matches!(builder.delete(refused), Err(TableError::KeyOrder { .. })));
            }
        }
        builder.finish().unwrap().0
    };
    assert_eq!(build(true), build(false));
}
