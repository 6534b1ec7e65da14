//! Describes a table's filter, for display.

use sstfilter::RandomAccess;

use super::{ForeignTable, Loaded};
use crate::error::Error;
use crate::filter::{Filter, FilterKind};

/// The part of a key that a filter contains.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyCoverage {
    /// Whole keys.
    WholeKeys,
    /// Prefixes, by the extractor of this name.
    Prefixes(String),
    /// Whole keys and prefixes, by the extractor of this name.
    WholeKeysAndPrefixes(String),
    /// Neither, or unknown.
    Unknown,
}

/// The unit that each block of a filter covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterUnit {
    /// The whole table.
    Table,
    /// A partition.
    Partition,
    /// A range of data blocks.
    DataBlocks {
        /// The size of the range: 2 KiB in all tables that LevelDB writes.
        bytes: u64,
    },
}

/// Sizes of a filter's blocks, without their trailers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnitBytes {
    /// The smallest.
    pub min: u64,
    /// Their mean, rounded down.
    pub mean: u64,
    /// The largest.
    pub max: u64,
}

/// A description of a table's filter.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FilterInfo {
    /// The kinds of its blocks with the number of each, in file order. There is one kind unless the engine fell back to
    /// another for some partitions.
    pub kinds: Vec<(FilterKind, usize)>,
    /// Parameters of the first block of the first kind, as names and values.
    pub parameters: Vec<(&'static str, String)>,
    /// The unit that each block covers.
    pub unit: FilterUnit,
    /// The number of blocks.
    pub blocks: usize,
    /// The sizes of the blocks.
    pub block_bytes: UnitBytes,
    /// Bytes of all blocks, without the index of partitions and without trailers.
    pub bytes: u64,
    /// Keys and prefixes in the filter, as the table counts them. Newer versions of RocksDB count a key's versions
    /// once. `None`: the table stores no count.
    pub keys: Option<u64>,
    /// The expected false positive rate, from 0 to 1, for keys spread over partitions in proportion to their sizes.
    pub expected_fpr: Option<f64>,
    /// The part of a key that the filter contains.
    pub coverage: KeyCoverage,
}

impl FilterInfo {
    /// Returns the filter's bits per key.
    #[must_use]
    pub fn bits_per_key(&self) -> Option<f64> {
        let keys = self.keys.filter(|&keys| keys > 0)?;
        Some(self.bytes as f64 * 8.0 / keys as f64)
    }
}

impl<R: RandomAccess> ForeignTable<R> {
    /// Describes the filter. Reads all of it.
    ///
    /// # Errors
    ///
    /// [`Error::NoFilter`], and errors of the filter's blocks. Unknown rules for keys are no error: the filter can be
    /// described although it cannot be used.
    pub fn filter_info(&self) -> Result<FilterInfo, Error> {
        let mut summary = Summary::default();
        let unit = match self.loaded()? {
            Loaded::Full(filter) => {
                summary.add(filter);
                FilterUnit::Table
            }
            Loaded::Partitioned(partitions) => {
                for filter in partitions.filters(&self.file) {
                    summary.add(filter?);
                }
                FilterUnit::Partition
            }
            Loaded::PerDataBlock(filters) => {
                for filter in 0..filters.block.filters() {
                    summary.add(&filters.block.filter(filter)?);
                }
                FilterUnit::DataBlocks { bytes: filters.block.range_bytes() }
            }
        };
        Ok(self.described(summary, unit))
    }

    fn described(&self, summary: Summary, unit: FilterUnit) -> FilterInfo {
        let keys = self.filter_keys();
        let bytes = summary.sizes.iter().sum::<u64>();
        let blocks = summary.sizes.len();
        let block_bytes = UnitBytes {
            min: summary.sizes.iter().copied().min().unwrap_or(0),
            mean: bytes.checked_div(blocks as u64).unwrap_or(0),
            max: summary.sizes.iter().copied().max().unwrap_or(0),
        };
        let expected_fpr = keys.and_then(|keys| self.expected_fpr(keys, bytes));
        let Summary { kinds, parameters, .. } = summary;
        FilterInfo {
            kinds,
            parameters,
            unit,
            blocks,
            block_bytes,
            bytes,
            keys,
            expected_fpr,
            coverage: self.coverage(),
        }
    }

    /// Returns the number of keys in the filter. Older versions of RocksDB do not count them; the number of entries is
    /// then an upper bound, because each version of a key is one.
    fn filter_keys(&self) -> Option<u64> {
        let properties = self.properties();
        // A count of 0 is treated as missing.
        properties.filter_entries().filter(|&keys| keys > 0).or_else(|| properties.entries())
    }

    /// Returns the mean rate of the blocks, assuming that a partition's share of the keys and of the probes equals its
    /// share of the bytes.
    fn expected_fpr(&self, keys: u64, bytes: u64) -> Option<f64> {
        match self.loaded().ok()? {
            Loaded::Full(filter) => filter.expected_fpr(keys),
            Loaded::Partitioned(partitions) => {
                let mut rate = 0.0;
                for filter in partitions.filters(&self.file) {
                    let filter = filter.ok()?;
                    let share = filter.bytes().len() as f64 / (bytes as f64).max(1.0);
                    rate += share * filter.expected_fpr(rounded(keys as f64 * share))?;
                }
                Some(rate)
            }
            // LevelDB does not store how many keys each of its filters has.
            Loaded::PerDataBlock(_) => None,
        }
    }

    fn coverage(&self) -> KeyCoverage {
        // In Pebble's tables, the comparer determines the prefix.
        let properties = self.properties();
        let extractor = || properties.prefix_extractor().or(properties.comparator()).unwrap_or_default().to_owned();
        match &self.layout.rules {
            Ok(rules) if rules.whole_keys && rules.prefixes.is_some() => KeyCoverage::WholeKeysAndPrefixes(extractor()),
            Ok(rules) if rules.whole_keys => KeyCoverage::WholeKeys,
            Ok(rules) if rules.prefixes.is_some() => KeyCoverage::Prefixes(extractor()),
            // LevelDB's built-in policy has no prefixes, whatever the comparator.
            Err(_) if self.engine() == crate::Engine::LevelDb => KeyCoverage::WholeKeys,
            _ => KeyCoverage::Unknown,
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a number of keys")]
fn rounded(keys: f64) -> u64 {
    keys.round() as u64
}

/// Totals over all blocks of a filter.
#[derive(Default)]
struct Summary {
    kinds: Vec<(FilterKind, usize)>,
    parameters: Vec<(&'static str, String)>,
    sizes: Vec<u64>,
}

impl Summary {
    fn add<D: AsRef<[u8]>>(&mut self, filter: &Filter<D>) {
        self.sizes.push(filter.bytes().len() as u64);
        match self.kinds.iter_mut().find(|(kind, _)| *kind == filter.kind()) {
            Some((_, count)) => *count += 1,
            None => self.kinds.push((filter.kind(), 1)),
        }
        if self.sizes.len() == 1 {
            self.parameters = filter.parameters().collect();
        }
    }
}
