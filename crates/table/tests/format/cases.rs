//! The tables of `fixtures/v1`, and how each is built.

use std::sync::Arc;

use sstfilter::KeyParts;
use sstfilter_store::{PartitionCut, PartitionOptions};
use sstfilter_table::{TableBuilder, TableOptions};

use crate::common::cases::{Policy, TEN, directory, key, three_parts};

/// A table. If it has tombstones, entry `number` is one if `number % 7 == 3`.
#[derive(Clone, Copy)]
pub(crate) struct TableCase {
    pub(crate) name: &'static str,
    pub(crate) policy: Option<Policy>,
    pub(crate) entries: u32,
    pub(crate) has_tombstones: bool,
    pub(crate) block_bytes: u32,
    pub(crate) parts: fn() -> KeyParts,
    /// Target size of the filter's partitions, which are cut by key range.
    pub(crate) partition_bytes: Option<u32>,
    pub(crate) table_id: [u8; 16],
}

/// What most of the tables have.
const USUAL: TableCase = TableCase {
    name: "",
    policy: Some(TEN),
    entries: 0,
    has_tombstones: true,
    block_bytes: 1_024,
    parts: KeyParts::whole_keys,
    partition_bytes: None,
    table_id: [0; 16],
};

/// All the tables.
pub(crate) const TABLES: [TableCase; 5] = [
    TableCase {
        name: "table-small-tombstones-bloom",
        entries: 50,
        block_bytes: 256,
        table_id: *b"fixture table 1 ",
        ..USUAL
    },
    TableCase {
        name: "table-2000-entries-ribbon",
        policy: Some(Policy::ribbon(0.01, 1_024)),
        entries: 2_000,
        table_id: *b"fixture table 2 ",
        ..USUAL
    },
    TableCase {
        name: "table-empty-without-filter",
        policy: None,
        has_tombstones: false,
        block_bytes: 4_096,
        table_id: *b"fixture table 3 ",
        ..USUAL
    },
    TableCase {
        name: "table-500-entries-three-parts",
        entries: 500,
        parts: three_parts,
        table_id: *b"fixture table 4 ",
        ..USUAL
    },
    TableCase {
        name: "table-1000-entries-partitioned",
        entries: 1_000,
        block_bytes: 4_096,
        parts: three_parts,
        partition_bytes: Some(1_024),
        table_id: *b"fixture table 5 ",
        ..USUAL
    },
];

impl TableCase {
    pub(crate) fn file(&self) -> String {
        format!("{}.sst", self.name)
    }

    pub(crate) fn read(&self) -> Vec<u8> {
        std::fs::read(directory().join(self.file())).unwrap()
    }

    /// Returns the value of entry `number`; `None` for a tombstone.
    pub(crate) fn value(&self, number: u32) -> Option<Vec<u8>> {
        let is_tombstone = self.has_tombstones && number % 7 == 3;
        (!is_tombstone).then(|| format!("v{}", u64::from(number) * u64::from(number)).into_bytes())
    }

    pub(crate) fn build(&self) -> Vec<u8> {
        let options = TableOptions::default().with_table_id(self.table_id);
        let options = options.with_block_bytes(self.block_bytes).unwrap().with_key_parts((self.parts)());
        let options = match self.policy {
            Some(policy) => options.with_policy(Arc::new(policy.make())),
            None => options.without_filter(),
        };
        let options = match self.partition_bytes {
            Some(bytes) => {
                options.with_partitioned_filter(PartitionOptions::new(PartitionCut::KeyRange, bytes).unwrap())
            }
            None => options,
        };
        let mut builder = TableBuilder::new(Vec::new(), &options).unwrap();
        for number in 0..self.entries {
            match self.value(number) {
                Some(value) => builder.add(&key(number), &value).unwrap(),
                None => builder.delete(&key(number)).unwrap(),
            }
        }
        builder.finish().unwrap().0
    }
}
