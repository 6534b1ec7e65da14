//! A partitioned filter with all partitions in memory, and its description.

use core::fmt;

use bytes::Bytes;
use serde::Serialize;
use sstfilter::FilterBlock;
use sstfilter_store::{FilterProblem, PartitionCut, PartitionIndex};

use crate::build::report::Choice;
pub(crate) use crate::file::blocks::{Container, Partitions};
use crate::output::Outcome;
use crate::parts::HeldParts;
use crate::units::{bytes, counted, grouped, percent};

/// Maximum number of partitions whose problems are listed.
const LISTED_PROBLEMS: usize = 10;

/// The description of a partitioned filter, from its top index and its partitions.
#[derive(Debug, Serialize)]
pub(crate) struct PartitionFields {
    partitions: u32,
    cut: &'static str,
    pub(crate) keys: u64,
    /// Bytes of the whole container.
    pub(crate) bytes: u64,
    /// Bytes without the top index.
    partition_bytes: u64,
    /// Bytes of the top index and its trailer.
    top_index_bytes: u64,
    /// `top_index_bytes` over `bytes`.
    top_index_share: f64,
    smallest_partition_bytes: u64,
    largest_partition_bytes: u64,
    bits_per_key: f64,
    /// Mean over the partitions, weighted by their keys; 1 for partitions that cannot be used.
    pub(crate) expected_fpr: f64,
    kinds: Vec<KindPartitions>,
    pub(crate) key_parts: HeldParts,
    hash: String,
    /// Number of partitions whose filter cannot be used.
    unusable: usize,
    /// The first problems.
    problems: Vec<String>,
    #[serde(skip)]
    pub(crate) outcome: Outcome,
}

/// The partitions with the same kind, requested kind and reason.
#[derive(Debug, Serialize)]
struct KindPartitions {
    #[serde(flatten)]
    filter: Choice,
    partitions: u32,
    keys: u64,
    bytes: u64,
}

/// A partition that was written without a filter.
const NO_FILTER: Choice = Choice { kind: "none", requested: "none", reason: "without a filter" };

/// A partition whose filter cannot be used.
const UNUSABLE: Choice = Choice { kind: "unusable", requested: "unusable", reason: "damaged, or not read" };

impl PartitionFields {
    pub(crate) fn new(partitions: &Partitions<'_>) -> Self {
        let (index, blocks) = (partitions.index(), partitions.blocks());
        let (keys, bytes, partition_bytes) = (index.keys(), index.container_bytes(), index.partition_bytes());
        let top_index_bytes = bytes - partition_bytes;
        let lengths = || lengths(index);
        Self {
            partitions: index.partitions(),
            cut: match index.cut() {
                PartitionCut::KeyRange => "key range",
                PartitionCut::HashRange => "hash range",
                _ => "unknown",
            },
            keys,
            bytes,
            partition_bytes,
            top_index_bytes,
            top_index_share: top_index_bytes as f64 / bytes.max(1) as f64,
            smallest_partition_bytes: lengths().min().unwrap_or(0),
            largest_partition_bytes: lengths().max().unwrap_or(0),
            bits_per_key: bytes as f64 * 8.0 / keys.max(1) as f64,
            expected_fpr: expected_fpr(keys, blocks),
            kinds: kinds(index, blocks),
            key_parts: HeldParts::of_container(index),
            hash: index.hash_identity().to_string(),
            unusable: partitions.problems().count(),
            problems: partitions.problems().take(LISTED_PROBLEMS).map(named).collect(),
            outcome: partitions.state().outcome(),
        }
    }

    /// Returns the problem of the first partition that cannot be used.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problems.first().map(String::as_str)
    }

    /// Returns the kinds of partitions that are not the requested one, fallbacks first.
    pub(crate) fn others(&self) -> Vec<Choice> {
        let filters = self.kinds.iter().map(|kind| kind.filter);
        let mut others: Vec<_> = filters.filter(|filter| !filter.is_as_requested()).collect();
        others.sort_by_key(Choice::is_by_number_of_keys);
        others
    }

    /// Returns the names of the partitions' kinds.
    pub(crate) fn kind_names(&self) -> String {
        let mut names: Vec<_> = self.kinds.iter().map(|kind| kind.filter.kind).collect();
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    }

    /// Returns the kinds of the partitions in one line.
    pub(crate) fn kinds(&self) -> String {
        match self.kinds.as_slice() {
            [only] => only.filter.to_string(),
            several => {
                let named = several.iter().map(|kind| format!("{} ({})", kind.filter, grouped(kind.partitions.into())));
                named.collect::<Vec<_>>().join(", ")
            }
        }
    }
}

/// Returns a partition's problem with its number, which the messages about damage already contain.
fn named((number, problem): (u32, &FilterProblem)) -> String {
    match problem {
        FilterProblem::PartitionChecksum { .. } => problem.to_string(),
        _ => format!("partition {number} of a filter: {problem}"),
    }
}

/// Returns the mean rate of all partitions, under the assumption that probed keys fall into partitions as stored keys
/// do.
fn expected_fpr(keys: u64, blocks: &[Result<FilterBlock<Bytes>, FilterProblem>]) -> f64 {
    let (mut filtered, mut positives) = (0, 0.0);
    for info in blocks.iter().flatten().map(FilterBlock::info) {
        filtered += info.keys;
        positives += info.expected_fpr * info.keys as f64;
    }
    // Keys of partitions without a usable filter are always positive.
    // `max`, because a malformed index may record fewer keys than its partitions do.
    (positives + keys.saturating_sub(filtered) as f64) / keys.max(filtered).max(1) as f64
}

/// Returns the length of each partition's block, in order.
fn lengths(index: &PartitionIndex) -> impl Iterator<Item = u64> {
    (0..index.partitions()).map(|number| index.block_range(number).map_or(0, |range| range.end - range.start))
}

fn kinds(index: &PartitionIndex, blocks: &[Result<FilterBlock<Bytes>, FilterProblem>]) -> Vec<KindPartitions> {
    let mut kinds: Vec<KindPartitions> = Vec::new();
    for (block, bytes) in blocks.iter().zip(lengths(index)) {
        let (filter, keys) = match block.as_ref().map(FilterBlock::info) {
            Ok(info) => (Choice::of_block(&info), info.keys),
            Err(FilterProblem::WithoutFilter) => (NO_FILTER, 0),
            Err(_) => (UNUSABLE, 0),
        };
        // In order of first use: there are few kinds, so a linear search is enough.
        let known = kinds.iter().position(|kind| kind.filter == filter).unwrap_or_else(|| {
            kinds.push(KindPartitions { filter, partitions: 0, keys: 0, bytes: 0 });
            kinds.len() - 1
        });
        kinds[known].partitions += 1;
        kinds[known].keys += keys;
        kinds[known].bytes += bytes;
    }
    kinds
}

impl fmt::Display for PartitionFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut field = |name: &str, value: String| writeln!(f, "    {name:<17} {value}");
        field("partitions", format!("{}, cut by {}", grouped(self.partitions.into()), self.cut))?;
        for kind in &self.kinds {
            let (partitions, length) = (counted(kind.partitions.into(), "partition"), grouped(kind.bytes));
            field("kind", format!("{}: {partitions}, {}, {length} bytes", kind.filter, counted(kind.keys, "key")))?;
        }
        field("keys", grouped(self.keys))?;
        field("holds", self.key_parts.to_string())?;
        field("filter", format!("{} bytes ({})", grouped(self.bytes), bytes(self.bytes)))?;
        let share = percent(self.top_index_share);
        field("top index", format!("{} bytes, {share} of the filter", grouped(self.top_index_bytes)))?;
        let (smallest, largest) = (self.smallest_partition_bytes, self.largest_partition_bytes);
        field("partition bytes", format!("{} to {}", grouped(smallest), grouped(largest)))?;
        field("bits per key", format!("{:.3}", self.bits_per_key))?;
        field("expected rate", percent(self.expected_fpr))?;
        field("hash", self.hash.clone())?;
        for problem in &self.problems {
            field("problem", problem.clone())?;
        }
        let more = self.unusable.saturating_sub(self.problems.len());
        if more > 0 { field("problem", format!("and {} more", grouped(more as u64))) } else { Ok(()) }
    }
}
