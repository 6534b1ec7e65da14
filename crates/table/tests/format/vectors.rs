//! The table that FORMAT.md shows.

use bytes::Bytes;
use sstfilter_table::{Lookup, Table, TableBuilder, TableOptions};

use crate::common::documented::{dump_below, hex};

// promise: stays-readable
#[test]
fn three_entries_make_the_documented_table() {
    let options = TableOptions::default().with_table_id(*b"store 7, file 42");
    let mut builder = TableBuilder::new(Vec::new(), &options).unwrap();
    builder.add(b"apple", b"red").unwrap();
    builder.delete(b"banana").unwrap();
    builder.add(b"cherry", b"dark").unwrap();
    let (written, _) = builder.finish().unwrap();
    let documented = dump_below("### A whole mini SST file");
    assert_eq!(hex(&written), hex(&documented));

    let table = Table::open_source(Bytes::from(documented), &TableOptions::default()).unwrap();
    table.verify().unwrap();
    assert_eq!(table.get(b"cherry").unwrap(), Lookup::Found(Bytes::from_static(b"dark")));
    assert_eq!(table.get(b"banana").unwrap(), Lookup::Deleted);
}
