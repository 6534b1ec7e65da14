//! Measures the same skewed lookups with less and less memory for filters.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use sstfilter::kind::RibbonKind;
use sstfilter::{BitsPerKey, FixedPolicy, KeyHash};
use sstfilter_store::{FilterBudget, PartitionCut, PartitionOptions};
use sstfilter_table::TableOptions;

use super::keys::BundledKeys;
use super::tables::{Entry, LookupFigures, Tables, false_negatives, look_up_absent};
use crate::lines::KeyLines;

/// Number of files: few, so that each filter has several partitions.
pub(super) const FILES: usize = 8;

/// The minimum size of partitions, because these filters have only 7 KiB. Stores use 4 to 64 KiB.
pub(super) const PARTITION_BYTES: u32 = 1 << 10;

/// Memory in percent of the size of all filters.
const MEMORY_PERCENT: [u64; 4] = [100, 50, 25, 10];

const LOOKUPS: usize = 20_000;

/// Without filters, each key costs eight reads, so each of the four designs looks up every fourth key; together they
/// look up every key.
const DESIGNS: usize = 4;

/// The exponent of the distribution of looked-up names, the same as in YCSB.
const ZIPF_EXPONENT: f64 = 0.99;

/// The cost of lookups with a given amount of memory, for each way to handle filters that do not fit.
#[derive(Debug, Serialize)]
pub(super) struct MemoryFigures {
    pub(super) memory_percent: u64,
    pub(super) memory_bytes: u64,
    pub(super) kept_or_dropped: DesignFigures,
    pub(super) shrunk: DesignFigures,
    pub(super) partitions: DesignFigures,
    pub(super) shrunk_partitions: DesignFigures,
}

impl MemoryFigures {
    pub(super) fn designs(&self) -> [&DesignFigures; 4] {
        [&self.kept_or_dropped, &self.shrunk, &self.partitions, &self.shrunk_partitions]
    }
}

#[derive(Debug, Serialize)]
pub(super) struct DesignFigures {
    #[serde(flatten)]
    pub(super) lookups: LookupFigures,
    pub(super) filter_bytes_read_per_absent_lookup: f64,
    pub(super) false_negatives: u64,
}

pub(super) fn measure(keys: &BundledKeys, directory: &Path) -> anyhow::Result<Vec<MemoryFigures>> {
    let policy = FixedPolicy::from(RibbonKind::same_rate_as_bloom(BitsPerKey::TEN)?);
    let options = TableOptions::default().with_policy(Arc::new(policy));
    let partitions = PartitionOptions::new(PartitionCut::KeyRange, PARTITION_BYTES)?;
    let write = |name, options| Tables::write(keys, &directory.join(name), &options, FILES, |key| key % FILES);
    let whole = write("whole", options.clone())?;
    let partitioned = write("partitioned", options.with_partitioned_filter(partitions))?;
    let names = skewed_lookups(&keys.absent);
    let figures = |&memory_percent| {
        let memory_bytes = whole.filter_bytes() * memory_percent / 100;
        let of = |design, tables, budget: FilterBudget| measure_design(keys, &names, tables, &budget, design);
        let budget = || FilterBudget::new(memory_bytes);
        Ok(MemoryFigures {
            memory_percent,
            memory_bytes,
            kept_or_dropped: of(0, &whole, budget().without_shrinking())?,
            shrunk: of(1, &whole, budget())?,
            partitions: of(2, &partitioned, budget().without_shrinking())?,
            shrunk_partitions: of(3, &partitioned, budget())?,
        })
    };
    MEMORY_PERCENT.iter().map(figures).collect()
}

fn measure_design(
    keys: &BundledKeys,
    names: &[Entry<'_>],
    tables: &Tables,
    budget: &FilterBudget,
    design: usize,
) -> anyhow::Result<DesignFigures> {
    let set = tables.open(&TableOptions::default().with_filter_budget(budget.clone()))?;
    let lookups = look_up_absent(&set, names.iter().copied())?;
    // Taken before the lookups of present keys, which must not count.
    let filter_bytes = budget.stats().loaded_bytes;
    Ok(DesignFigures {
        lookups,
        filter_bytes_read_per_absent_lookup: filter_bytes as f64 / names.len() as f64,
        false_negatives: false_negatives(&set, keys.present.iter().skip(design).step_by(DESIGNS))?,
    })
}

/// Returns the looked-up ones of sorted names. Their distribution is Zipf's; names next to each other are about equally
/// popular.
fn skewed_lookups(names: &KeyLines) -> Vec<Entry<'_>> {
    let mut sum = 0.0;
    let cumulative: Vec<f64> = (1..=names.len())
        .map(|rank| {
            sum += (rank as f64).powf(-ZIPF_EXPONENT);
            sum
        })
        .collect();
    // Well-mixed numbers of 53 bits, as many as an `f64` holds exactly, the same in each run.
    let uniform = |lookup: usize| (KeyHash::mix(lookup as u64).get() >> 11) as f64 / (1_u64 << 53) as f64;
    let name = |lookup| cumulative.partition_point(|&below| below <= uniform(lookup) * sum).min(names.len() - 1);
    (0..LOOKUPS).map(|lookup| names.entry(name(lookup))).collect()
}
