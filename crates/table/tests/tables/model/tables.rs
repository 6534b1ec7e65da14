//! The tables of a sequence: how each is written, and its contents.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use sstfilter::{
    BuildContext, BuildPurpose, DelimitedPrefix, FallbackReason, FilterPolicy, FixedPrefix, KeyHash, KeyHasher,
    KeyParts,
};
use sstfilter_store::{PartitionCut, PartitionOptions};
use sstfilter_table::{Table, TableOptions, TableSummary, TableWriter};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::counts::Counts;
use crate::Entries;
use crate::common::policies::every_policy;
use crate::common::random::Random;

static POLICIES: LazyLock<Vec<Option<Arc<dyn FilterPolicy>>>> = LazyLock::new(every_policy);

/// The hash and the key parts, which may differ from table to table.
#[derive(Clone, Debug)]
pub(crate) struct Probing {
    pub(crate) hasher: KeyHasher,
    pub(crate) parts: KeyParts,
}

impl Probing {
    pub(crate) fn any(random: &mut Random) -> Self {
        let hasher = match random.below(6) {
            0..3 => KeyHasher::default(),
            3 => KeyHasher::with_seed(7),
            4 => KeyHasher::with_secret_seed(8),
            _ => KeyHasher::custom(9, |key| KeyHash::from_well_mixed(xxh3_64_with_seed(key, 9))),
        };
        let (fixed, delimited) = (Arc::new(FixedPrefix::new(3)), Arc::new(DelimitedPrefix::new(b'/')));
        let parts = match random.below(8) {
            0..3 => KeyParts::whole_keys(),
            3 => KeyParts::extracted(fixed),
            4 => KeyParts::extracted(delimited),
            5 => KeyParts::extracted(delimited).with_extractor(fixed),
            6 => KeyParts::whole_keys().with_extractor(delimited),
            _ => KeyParts::whole_keys().with_extractor(fixed).with_extractor(delimited),
        };
        Self { hasher, parts }
    }

    pub(crate) fn has_same_parts(&self, other: &Self) -> bool {
        let names = |probing: &Self| probing.extractor_names().collect::<Vec<_>>();
        self.parts.has_whole_keys() == other.parts.has_whole_keys() && names(self) == names(other)
    }

    /// Whether both have whole keys, or an extractor whose domain contains one of `keys`: only that confirms the
    /// extractor.
    pub(crate) fn shares_parts<'a>(&self, other: &Self, mut keys: impl Iterator<Item = &'a Vec<u8>>) -> bool {
        let is_shared = |name: &str| other.extractor_names().any(|other| other == name);
        let shared: Vec<_> = self.parts.extractors().filter(|extractor| is_shared(extractor.name())).collect();
        self.parts.has_whole_keys() && other.parts.has_whole_keys()
            || keys.any(|key| shared.iter().any(|extractor| extractor.extract(key).is_some()))
    }

    fn extractor_names(&self) -> impl Iterator<Item = String> {
        self.parts.extractors().map(|extractor| extractor.name().to_owned())
    }

    pub(crate) fn is_outside(&self, key: &[u8]) -> bool {
        !self.parts.has_whole_keys() && self.parts.extractors().all(|extractor| extractor.extract(key).is_none())
    }
}

#[derive(Clone, Debug)]
enum Place {
    Memory(Bytes),
    Disk(PathBuf),
}

/// A written table.
#[derive(Debug)]
pub(crate) struct File {
    place: Place,
    pub(crate) entries: Entries,
    pub(crate) probing: Probing,
}

impl File {
    /// Writes a table with random options, on disk if there is a directory.
    pub(crate) fn write(
        entries: Entries,
        probing: &Probing,
        number: u64,
        directory: Option<&Path>,
        random: &mut Random,
        counts: &mut Counts,
    ) -> Self {
        // Occasionally, a table lags behind a change of the store's hash or extractor.
        let probing = if random.one_in(6) { Probing::any(random) } else { probing.clone() };
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_le_bytes());
        let options = options(&probing, entries.len(), random).with_table_id(id);
        let (place, summary) = match directory {
            None => {
                let (bytes, summary) = crate::built(&entries, &options);
                (Place::Memory(bytes), summary)
            }
            Some(directory) => {
                counts.add("tables on disk", 1);
                let path = directory.join(format!("{number:06}.sst"));
                let mut writer = TableWriter::create(&path, &options).unwrap();
                for (key, value) in &entries {
                    match value {
                        Some(value) => writer.add(key, value).unwrap(),
                        None => writer.delete(key).unwrap(),
                    }
                }
                (Place::Disk(path), writer.finish().unwrap())
            }
        };
        count(&summary, counts);
        assert_eq!(summary.properties.entries, entries.len() as u64);
        assert_eq!(summary.properties.tombstones, entries.values().filter(|value| value.is_none()).count() as u64);
        Self { place, entries, probing }
    }

    pub(crate) fn open(&self, options: &TableOptions) -> Table {
        match &self.place {
            Place::Memory(bytes) => Table::open_source(bytes.clone(), options).unwrap(),
            Place::Disk(path) => Table::open(path, options).unwrap(),
        }
    }

    pub(crate) fn remove(self) {
        if let Place::Disk(path) = self.place {
            std::fs::remove_file(path).unwrap();
        }
    }
}

fn options(probing: &Probing, entries: usize, random: &mut Random) -> TableOptions {
    let mut options = TableOptions::default()
        .with_block_bytes(*random.pick(&[64, 100, 256, 1_024, 4_096]))
        .unwrap()
        .with_restart_interval(*random.pick(&[1, 2, 5, 16, 100]))
        .unwrap();
    let mut context = BuildContext::new(&probing.hasher).with_purpose(*random.pick(&[
        BuildPurpose::Flush,
        BuildPurpose::Compaction,
        BuildPurpose::Ingest,
    ]));
    options = match random.pick(&POLICIES) {
        Some(policy) => options.with_policy(policy.clone()),
        None => options.without_filter(),
    };
    options = options.with_key_parts(probing.parts.clone());
    if random.one_in(3) {
        // The smallest partitions: a table of a sequence has at most hundreds of keys.
        let cut = *random.pick(&[PartitionCut::KeyRange, PartitionCut::HashRange]);
        options = options.with_partitioned_filter(PartitionOptions::new(cut, 1_024).unwrap());
    }
    if random.one_in(3) {
        // The right number, or a wrong one in either direction.
        let told = [entries, entries / 3, entries * 4];
        context = context.with_expected_keys(*random.pick(&told) as u64);
    }
    if random.one_in(8) {
        context = context.with_memory_budget(1);
    }
    options.with_context(context)
}

fn count(summary: &TableSummary, counts: &mut Counts) {
    let Some(report) = &summary.filter else {
        counts.add("declined filters", 1);
        return;
    };
    counts.add("fallbacks", u64::from(report.reason != FallbackReason::None));
    if let Some(kind) = report.used {
        counts.add(&format!("filters of kind {kind}"), 1);
    }
}
