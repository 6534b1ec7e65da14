//! The partitioned filters of `fixtures/v1`.

use std::sync::Arc;

use sstfilter::{BuildContext, FileId, KeyHash, KeyParts, LoadContext};
use sstfilter_store::{PartitionCut, PartitionOptions, PartitionedBuilder, TableIdentity};

use crate::common::cases::Hash;
use crate::common::cases::{CUSTOM, Policy, TEN, absent_key, directory, key, three_parts};
use crate::container::Container;

/// A partitioned filter.
#[derive(Clone, Copy)]
pub(crate) struct ContainerCase {
    pub(crate) name: &'static str,
    pub(crate) policy: Policy,
    pub(crate) hash: Hash,
    pub(crate) cut: PartitionCut,
    pub(crate) target_bytes: u32,
    pub(crate) keys: u32,
    pub(crate) parts: fn() -> KeyParts,
    /// The number of the file that it is bound to.
    pub(crate) file_number: Option<u64>,
}

const fn container(name: &'static str, policy: Policy, cut: PartitionCut, keys: u32) -> ContainerCase {
    let parts = KeyParts::whole_keys;
    ContainerCase { name, policy, hash: Hash::Default, cut, target_bytes: 1_024, keys, parts, file_number: None }
}

/// All the partitioned filters.
pub(crate) const CONTAINERS: [ContainerCase; 7] = [
    container("partitioned-no-keys", TEN, PartitionCut::KeyRange, 0),
    container("partitioned-by-key-bloom", TEN, PartitionCut::KeyRange, 3_000),
    container("partitioned-by-hash-bloom", TEN, PartitionCut::HashRange, 3_000),
    ContainerCase {
        hash: CUSTOM,
        ..container(
            "partitioned-by-hash-fuse-custom-hash",
            Policy::of_fingerprints("binary-fuse", "binary fuse, 3 cells a key", 8),
            PartitionCut::HashRange,
            2_000,
        )
    },
    ContainerCase {
        file_number: Some(9),
        ..container("partitioned-by-key-ribbon-bound", Policy::ribbon(0.01, 1_024), PartitionCut::KeyRange, 3_000)
    },
    ContainerCase {
        parts: three_parts,
        file_number: Some(11),
        ..container("partitioned-by-key-three-parts-bound", TEN, PartitionCut::KeyRange, 3_000)
    },
    ContainerCase {
        parts: three_parts,
        ..container("partitioned-by-hash-three-parts", TEN, PartitionCut::HashRange, 3_000)
    },
];

impl ContainerCase {
    pub(crate) fn file(&self) -> String {
        format!("{}.filter", self.name)
    }

    pub(crate) fn read(&self) -> Vec<u8> {
        std::fs::read(directory().join(self.file())).unwrap()
    }

    pub(crate) fn build(&self) -> Vec<u8> {
        let context = BuildContext::new(&self.hash.hasher()).with_key_parts((self.parts)());
        let context = match self.file_number {
            Some(number) => context.with_file_id(FileId::new(&number.to_le_bytes()).unwrap()),
            None => context,
        };
        let options = PartitionOptions::new(self.cut, self.target_bytes).unwrap();
        let mut builder = PartitionedBuilder::new(Arc::new(self.policy.make()), &context, options);
        (0..self.keys).map(key).for_each(|key| builder.add_key(&key));
        builder.finish().block.unwrap().to_vec()
    }

    pub(crate) fn load_context(&self) -> LoadContext<'static> {
        let context = LoadContext::from(self.hash.hasher().identity()).with_any_key_parts();
        self.file_number.map_or(context, |number| context.with_file_id(FileId::new(&number.to_le_bytes()).unwrap()))
    }

    pub(crate) fn load(&self, bytes: &[u8]) -> Container {
        Container::load(bytes, self.load_context()).unwrap()
    }

    /// Each key with its hash.
    pub(crate) fn keys(&self) -> Vec<(Vec<u8>, KeyHash)> {
        let hasher = self.hash.hasher();
        (0..self.keys).map(key).map(|key| (key.clone(), hasher.hash(&key))).collect()
    }

    pub(crate) fn absent_keys(&self, count: u32) -> Vec<(Vec<u8>, KeyHash)> {
        let hasher = self.hash.hasher();
        (0..count).map(absent_key).map(|key| (key.clone(), hasher.hash(&key))).collect()
    }
}

/// The identity of a mini SST file, from its last 64 bytes.
pub(crate) fn identity_of(table: &[u8]) -> TableIdentity {
    let footer: &[u8; 64] = table.last_chunk().unwrap();
    let checksum = u32::from_le_bytes(footer[52..56].try_into().unwrap());
    let id: [u8; 16] = footer[24..40].try_into().unwrap();
    TableIdentity::new(id.into(), table.len() as u64, checksum)
}
