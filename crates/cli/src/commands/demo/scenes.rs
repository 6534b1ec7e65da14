//! The scenes: each writes package names of Debian, which the program includes, to tables, opens these, and counts what
//! lookups or scans read.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, ensure};
use flate2::read::GzDecoder;
use sstfilter::kind::RibbonKind;
use sstfilter::{BitsPerKey, BuildContext, BuildPurpose, FalsePositiveRate, FixedPolicy, KeyHash, KeyHasher};
use sstfilter_map::MapOptions;
use sstfilter_range::RangePolicy;
use sstfilter_store::{FilterBudget, PartitionCut, PartitionOptions};
use sstfilter_table::{TableOptions, TableSet, TableSnapshot, TableSummary, TableWriter};

use crate::file::context::KeysFormat;
use crate::file::key_list::KeyLines;
use crate::file::names::table_name;
use crate::print::record;
use crate::print::types::{Bits, Figure, Nanoseconds};

/// Number of files.
pub(super) const FILES: usize = 70;

/// Number of files if memory is short: few, so that each filter has several partitions.
const FEW_FILES: usize = 8;

/// Without filters, every lookup reads all files, so one key in this many is enough.
const EVERY_WITHOUT_FILTERS: usize = 32;

/// The minimum size of partitions, because these filters have only 7 KiB. Stores use 4 to 64 KiB.
const PARTITION_BYTES: u32 = 1 << 10;

/// Memory in percent of the size of all filters.
const MEMORY_PERCENT: [u64; 2] = [100, 25];

const SKEWED_LOOKUPS: usize = 20_000;

/// The exponent of the distribution of looked-up names, the same as in YCSB.
const ZIPF_EXPONENT: f64 = 0.99;

/// Consecutive names per file, as batches of writes would put them: then a scan of 100 names misses most files. If
/// names are dealt one by one, every file has keys next to every scan.
pub(super) const STRETCHES: [usize; 2] = [100, 1];

/// Names of a scan.
pub(super) const SCANNED: usize = 100;

const SCANS: u64 = 100;

/// Maximum share of reads in vain that range filters may leave to scans over files of stretches.
pub(super) const MAX_LEFT: f64 = 0.1;

/// Seeds that choose scans and deal names. They are far apart, so that the two never use the same numbers.
const SCAN_SEED: u64 = 1 << 40;
const DEAL_SEED: u64 = 1 << 41;

pub(super) const NO_FILTER: &str = "no filter";
pub(super) const ORDERED: &str = "ordered range filter";

record! {
    /// What lookups of absent names, or scans, cost.
    pub(crate) struct Cost {
        pub(super) stretch: Option<u64> [row],
        memory_percent: Option<u64> [row],
        pub(super) method: &'static str [row],
        pub(super) bits_per_key: Bits [row],
        pub(super) block_reads: Figure [row],
        /// data blocks read in files that have none of the names, for each scan
        pub(super) reads_in_vain: Option<Figure> [row],
        filter_bytes_read: Option<Figure> [row],
        pub(super) lookup_ns: Option<Nanoseconds> [row],
        pub(super) lost_keys: u64 [row],
    }
}

const PRESENT: &[u8] = include_bytes!("../../../keys/debian-bookworm-packages.tsv.gz");
const ABSENT: &[u8] = include_bytes!("../../../keys/debian-sid-only-packages.txt.gz");

/// Names that are in the tables, and names that are not.
pub(super) struct BundledKeys {
    /// Debian 12: name, version and section; sorted by name.
    pub(super) present: KeyLines,
    /// Names of a later release that Debian 12 does not have.
    pub(super) absent: KeyLines,
}

impl BundledKeys {
    pub(super) fn unpacked() -> anyhow::Result<Self> {
        Ok(Self { present: unpack(PRESENT)?, absent: unpack(ABSENT)? })
    }

    /// Returns the hashes of the present names and of the absent ones.
    pub(super) fn hashes(&self) -> [Vec<KeyHash>; 2] {
        let hasher = KeyHasher::default();
        [&self.present, &self.absent].map(|names| names.iter().map(|(name, _)| hasher.hash(name)).collect())
    }
}

fn unpack(packed: &[u8]) -> anyhow::Result<KeyLines> {
    let mut text = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut text).context("the bundled keys are damaged: build the program again")?;
    let mut lines = KeyLines::parse(text, KeysFormat::Lines)?;
    lines.sort_and_dedup();
    let dropped = lines.duplicate_keys;
    // All figures assume distinct names.
    ensure!(dropped == 0, "the bundled keys contain {dropped} names twice: build the program again");
    Ok(lines)
}

/// Measures a scene in a directory of its own.
pub(super) type Scene = fn(&BundledKeys, &Path) -> anyhow::Result<Vec<Cost>>;

/// A name and its value.
type Entry<'a> = (&'a [u8], &'a [u8]);

/// Tables that together hold all present names, the oldest first.
struct Tables<'a> {
    keys: &'a BundledKeys,
    written: Vec<TableSummary>,
}

impl<'a> Tables<'a> {
    /// Writes the name at each index to table `table_of(index)` of `count`, in a new directory.
    fn write(
        keys: &'a BundledKeys,
        directory: &Path,
        options: TableOptions,
        count: usize,
        table_of: impl Fn(usize) -> usize,
    ) -> anyhow::Result<Self> {
        fs::create_dir(directory).with_context(|| format!("cannot create the directory {}", directory.display()))?;
        let mut dealt = vec![Vec::new(); count];
        keys.present.iter().enumerate().for_each(|(index, entry)| dealt[table_of(index)].push(entry));
        let context = BuildContext::new(&KeyHasher::default()).with_purpose(BuildPurpose::Compaction);
        let (options, mut written) = (options.with_context(context), Vec::new());
        for (number, entries) in (1..).zip(dealt) {
            let mut writer = TableWriter::create(directory.join(table_name(number)), &options)?;
            entries.iter().try_for_each(|(name, value)| writer.add(name, value))?;
            written.push(writer.finish()?);
        }
        Ok(Self { keys, written })
    }

    /// Returns the bytes of all filters and range filters.
    fn filter_bytes(&self) -> u64 {
        self.written.iter().map(|table| table.filter_bytes + table.range_filter_bytes).sum()
    }

    fn bits_per_key(&self, bytes: u64) -> Bits {
        Bits(bytes as f64 * 8.0 / self.keys.present.len() as f64)
    }

    /// Opens the tables with their indexes, which then stay in memory: lookups and scans read only data blocks and
    /// filters.
    fn open(&self, options: &TableOptions) -> anyhow::Result<TableSet> {
        let paths = self.written.iter().filter_map(|table| table.path.as_ref());
        let set = TableSet::open((1..).zip(paths), options)?;
        for table in set.snapshot().tables(0) {
            ensure!(table.filter_problem().is_none(), "a filter cannot be used");
            table.check_index()?;
        }
        Ok(set)
    }

    /// Looks up `names`, which no table has, and then one in `every` present name, which must be found.
    fn look_up<'n>(
        &self,
        method: &'static str,
        set: &TableSet,
        names: impl Iterator<Item = Entry<'n>>,
        every: usize,
        budget: Option<&FilterBudget>,
    ) -> anyhow::Result<Cost> {
        let (before, begun, mut lookups) = (set.stats().data_block_reads, Instant::now(), 0);
        for (name, _) in names {
            // Checked while it is timed: a wrong answer must not pass for a fast one.
            ensure!(set.get(name)?.is_none(), "{}: found, but was never written", name.escape_ascii());
            lookups += 1;
        }
        let (elapsed, blocks, lookups) = (begun.elapsed(), set.stats().data_block_reads - before, f64::from(lookups));
        // Taken before the lookups of present keys, which must not count.
        let loaded = budget.map(|budget| budget.stats().loaded_bytes);
        let present = self.keys.present.iter().step_by(every);
        let lost = present.map(|(name, value)| Ok(u64::from(set.get(name)?.as_deref() != Some(value))));
        Ok(Cost {
            method,
            bits_per_key: self.bits_per_key(self.filter_bytes()),
            block_reads: Figure(blocks as f64 / lookups),
            filter_bytes_read: loaded.map(|bytes| Figure(bytes as f64 / lookups)),
            lookup_ns: Some(Nanoseconds(elapsed.as_nanos() as f64 / lookups)),
            lost_keys: lost.sum::<anyhow::Result<u64>>()?,
            ..Cost::default()
        })
    }
}

/// Measures no filter, Bloom at 10 bits per key, and a file map instead of filters.
pub(super) fn many_files(keys: &BundledKeys, directory: &Path) -> anyhow::Result<Vec<Cost>> {
    let (plain, absent) = (TableOptions::default(), || keys.absent.iter());
    let write = |name, options| Tables::write(keys, &directory.join(name), options, FILES, |key| key % FILES);
    let bare = write("bare", plain.clone().without_filter())?;
    let bloom = write("bloom", plain.clone().with_policy(Arc::new(FixedPolicy::default())))?;
    let skipped = absent().step_by(EVERY_WITHOUT_FILTERS);
    let none = bare.look_up(NO_FILTER, &bare.open(&plain)?, skipped, EVERY_WITHOUT_FILTERS, None)?;
    let with_bloom = bloom.look_up("bloom", &bloom.open(&plain)?, absent(), 1, None)?;
    let set = bare.open(&plain)?;
    set.update_map(MapOptions::for_entries(keys.present.len() as u64, FalsePositiveRate::ONE_PERCENT)?)?;
    let snapshot = set.snapshot();
    let map = snapshot.view().maps().next().context("the set has a map")?;
    let bits_per_key = bare.bits_per_key(map.as_bytes().len() as u64);
    let with_map = Cost { bits_per_key, ..bare.look_up("map of all files", &set, absent(), 1, None)? };
    Ok(vec![none, with_bloom, with_map])
}

/// Measures the same skewed lookups with less memory than the filters need, for each way to handle filters that do not
/// fit.
pub(super) fn less_memory(keys: &BundledKeys, directory: &Path) -> anyhow::Result<Vec<Cost>> {
    let policy = FixedPolicy::from(RibbonKind::same_rate_as_bloom(BitsPerKey::TEN)?);
    let options = TableOptions::default().with_policy(Arc::new(policy));
    let partitions = PartitionOptions::new(PartitionCut::KeyRange, PARTITION_BYTES)?;
    let write = |name, options| Tables::write(keys, &directory.join(name), options, FEW_FILES, |key| key % FEW_FILES);
    let whole = write("whole", options.clone())?;
    let parts = write("parts", options.with_partitioned_filter(partitions))?;
    let (names, mut costs) = (skewed(keys), Vec::new());
    for memory_percent in MEMORY_PERCENT {
        let budget = || FilterBudget::new(whole.filter_bytes() * memory_percent / 100);
        for (method, tables, budget) in [
            ("kept or dropped", &whole, budget().without_shrinking()),
            ("shrunk", &whole, budget()),
            ("partitions", &parts, budget().without_shrinking()),
            ("shrunk partitions", &parts, budget()),
        ] {
            let set = tables.open(&TableOptions::default().with_filter_budget(budget.clone()))?;
            let cost = tables.look_up(method, &set, names.iter().copied(), FEW_FILES / 2, Some(&budget))?;
            costs.push(Cost { memory_percent: Some(memory_percent), ..cost });
        }
    }
    Ok(costs)
}

/// Returns the looked-up ones of the sorted absent names. Their distribution is Zipf's; names next to each other are
/// about equally popular.
fn skewed(keys: &BundledKeys) -> Vec<Entry<'_>> {
    let mut sum = 0.0;
    let mut add = |rank: usize| {
        sum += (rank as f64).powf(-ZIPF_EXPONENT);
        sum
    };
    let cumulative: Vec<f64> = (1..=keys.absent.len()).map(&mut add).collect();
    // Well-mixed numbers of 53 bits, as many as an `f64` holds exactly, the same in each run.
    let uniform = |lookup: usize| (KeyHash::mix(lookup as u64).get() >> 11) as f64 / (1_u64 << 53) as f64;
    let name = |lookup| cumulative.partition_point(|&below| below <= uniform(lookup) * sum).min(cumulative.len() - 1);
    (0..SKEWED_LOOKUPS).map(|lookup| keys.absent.entry(name(lookup))).collect()
}

/// Measures scans without filters and with range filters.
pub(super) fn scans(keys: &BundledKeys, directory: &Path) -> anyhow::Result<Vec<Cost>> {
    let plain = TableOptions::default().without_filter();
    let ordered = plain.clone().with_range_filter(RangePolicy::ordered(FalsePositiveRate::ONE_PERCENT)?);
    let methods = [(NO_FILTER, plain), (ORDERED, ordered)];
    let mut costs = Vec::new();
    for stretch in STRETCHES {
        let file_of = |name: usize| below(DEAL_SEED + (name / stretch) as u64, FILES);
        for (method, options) in &methods {
            let directory = directory.join(format!("scans, {stretch}, {method}"));
            let tables = Tables::write(keys, &directory, options.clone(), FILES, file_of)?;
            let set = tables.open(&TableOptions::default())?.snapshot();
            let [blocks, in_vain, lost_keys] = count_scans(keys, &set, file_of)?;
            costs.push(Cost {
                stretch: Some(stretch as u64),
                method,
                bits_per_key: tables.bits_per_key(tables.filter_bytes()),
                block_reads: Figure(blocks as f64 / SCANS as f64),
                reads_in_vain: Some(Figure(in_vain as f64 / SCANS as f64)),
                lost_keys,
                ..Cost::default()
            });
        }
    }
    Ok(costs)
}

/// Returns the data blocks that scans read, those of files without a name of the scan, and the names of scans that
/// returned other names or values than were written.
fn count_scans(keys: &BundledKeys, set: &TableSnapshot, file_of: impl Fn(usize) -> usize) -> anyhow::Result<[u64; 3]> {
    let [mut blocks, mut in_vain, mut lost] = [0; 3];
    for scan in 0..SCANS {
        let first = below(SCAN_SEED + scan, keys.present.len() - SCANNED);
        let mut has_name = [false; FILES];
        (first..first + SCANNED).for_each(|name| has_name[file_of(name)] = true);
        let names: Vec<_> = (first..first + SCANNED).map(|name| keys.present.entry(name)).collect();
        let reads = || set.tables(0).map(|table| table.stats().data_block_reads).collect::<Vec<_>>();
        let before = reads();
        let entries: Vec<_> = set.range(names[0].0..=names[SCANNED - 1].0).collect::<Result<_, _>>()?;
        let is_right = entries.iter().map(|(name, value)| (&name[..], &value[..])).eq(names);
        lost += if is_right { 0 } else { SCANNED as u64 };
        // The tables come in reverse, the newest first.
        for (has_name, (after, before)) in has_name.iter().rev().zip(reads().iter().zip(before)) {
            blocks += after - before;
            in_vain += if *has_name { 0 } else { after - before };
        }
    }
    ensure!(blocks > 0, "scans read no data block: their reads are not counted");
    Ok([blocks, in_vain, lost])
}

/// Returns a number below `count`, the same in each run.
fn below(number: u64, count: usize) -> usize {
    let scaled = (u128::from(KeyHash::mix(number).get()) * count as u128) >> 64;
    usize::try_from(scaled).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_both_present_and_absent() {
        let keys = BundledKeys::unpacked().unwrap();
        assert_eq!((keys.present.len(), keys.absent.len()), (63_666, 22_721));
        let present: std::collections::HashSet<_> = keys.present.iter().map(|(name, _)| name).collect();
        assert!(keys.absent.iter().all(|(name, _)| !present.contains(name)));
        assert_eq!(keys.present.entry(0), (&b"0ad"[..], &b"0.0.26-3 games"[..]));
    }
}
