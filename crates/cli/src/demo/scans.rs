//! Measures scans over 70 files with overlapping ranges: without filters, with prefix filters, and with range filters.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use serde::Serialize;
use sstfilter::{FalsePositiveRate, FixedPrefix, KeyHash, KeyParts, KeyRange};
use sstfilter_range::{RangePolicy, RangeUnits};
use sstfilter_table::{Table, TableOptions, TableSet, TableSnapshot, TableWriter};

use super::keys::BundledKeys;
use super::measure::FILES;
use super::on_all_cores;
use crate::files;
use crate::filters::context;

/// Numbers of names in a scan.
pub(super) const LENGTHS: [usize; 3] = [10, 100, 1_000];

/// Consecutive names per file, as batches of writes would put them: then a scan of 100 names misses most files. If
/// names are dealt one by one, every file has keys next to every scan.
pub(super) const STRETCHES: [usize; 2] = [100, 1];

/// Scans of each length.
const SCANS: u64 = 100;

/// Maximum share of useless reads that range filters may leave in scans of 100 names over files of stretches.
const MAX_LEFT: f64 = 0.1;

/// Seeds that choose scans and deal names. They are far apart, so that the two never use the same numbers.
const SCAN_SEED: u64 = 1 << 40;
const DEAL_SEED: u64 = 1 << 41;

/// The filter that skips tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    None,
    PrefixBloom,
    Ordered,
    Hashed,
}

impl Method {
    const ALL: [Self; 4] = [Self::None, Self::PrefixBloom, Self::Ordered, Self::Hashed];

    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::PrefixBloom => "prefix Bloom",
            Self::Ordered => "range, ordered",
            Self::Hashed => "range, hashed",
        }
    }

    fn options(self) -> anyhow::Result<TableOptions> {
        let options = TableOptions::default().with_context(context());
        let rate = FalsePositiveRate::ONE_PERCENT;
        Ok(match self {
            Self::None => options.without_filter(),
            Self::PrefixBloom => options.with_key_parts(prefixes()),
            Self::Ordered => options.without_filter().with_range_filter(RangePolicy::ordered(rate)?),
            Self::Hashed => {
                // 24 of 64 bits are dropped, which leaves the first five bytes of a name: with more, scans would be
                // too long for any declared length.
                let units = RangeUnits::integer(8)?.with_granularity_bits(24)?;
                options.without_filter().with_range_filter(RangePolicy::hashed(units, 1 << 18, rate)?)
            }
        })
    }
}

impl Method {
    fn read_options(self) -> TableOptions {
        match self {
            Self::PrefixBloom => TableOptions::default().with_key_parts(prefixes()),
            _ => TableOptions::default(),
        }
    }
}

/// Returns prefixes of several lengths, because the ends of most scans share one of them.
fn prefixes() -> KeyParts {
    let extractor = |bytes| Arc::new(FixedPrefix::new(bytes));
    [4, 6, 8].into_iter().fold(KeyParts::extracted(extractor(2)), |parts, bytes| parts.with_extractor(extractor(bytes)))
}

/// The cost of scans with one method.
#[derive(Debug, Serialize)]
pub(super) struct ScanFigures {
    pub(super) stretch: usize,
    pub(super) method: &'static str,
    pub(super) filter_bits_per_key: f64,
    pub(super) lengths: Vec<LengthFigures>,
}

/// Data blocks read by scans of one length.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct LengthFigures {
    pub(super) names: usize,
    pub(super) data_block_reads_per_scan: f64,
    /// Reads in files that contain no name of the scan.
    pub(super) useless_reads_per_scan: f64,
    /// Files without a name of the scan.
    pub(super) files_without_a_name: f64,
    /// Scans that returned other names or values than were written.
    pub(super) wrong_scans: u64,
}

/// The figures of all scans.
#[derive(Debug, Serialize)]
pub(super) struct ScansFigures {
    pub(super) rows: Vec<ScanFigures>,
    /// Useless reads of scans of 100 names with ordered range filters over those without filters, for each stretch.
    pub(super) useless_reads_left: Vec<f64>,
    pub(super) is_accepted: bool,
}

impl ScansFigures {
    pub(super) fn wrong_scans(&self) -> u64 {
        self.rows.iter().flat_map(|row| &row.lengths).map(|length| length.wrong_scans).sum()
    }

    /// Returns a sentence on whether the figures are accepted.
    pub(super) fn verdict(&self) -> String {
        let useless = |stretch: usize, method: Method| self.useless(stretch, method).unwrap_or_default();
        let [stretches, one_by_one] = STRETCHES;
        let verdict = if self.is_accepted { "at most a tenth, as promised" } else { "MORE than a tenth" };
        format!(
            "If files hold stretches of {stretches} names, scans of {} names read {:.2} data blocks in files without any of \
             their names, instead of {:.2}: {verdict}. If names are dealt one by one, every file has names right next to the \
             scan, and {:.2} of {:.2} reads are left.",
            LENGTHS[1],
            useless(stretches, Method::Ordered),
            useless(stretches, Method::None),
            useless(one_by_one, Method::Ordered),
            useless(one_by_one, Method::None),
        )
    }

    /// Returns the useless reads per scan of 100 names.
    fn useless(&self, stretch: usize, method: Method) -> Option<f64> {
        let row = self.rows.iter().find(|row| row.stretch == stretch && row.method == method.name())?;
        Some(row.lengths.get(1)?.useless_reads_per_scan)
    }
}

pub(super) fn measure(keys: &BundledKeys, directory: &Path) -> anyhow::Result<ScansFigures> {
    let deals = STRETCHES.map(|stretch| Deal::new(keys, stretch));
    let measured: Vec<_> = deals.iter().flat_map(|deal| Method::ALL.map(|method| (deal, method))).collect();
    let rows = on_all_cores("scanning", &measured, |&(deal, method)| {
        deal.measure(method, &directory.join(format!("scans-{}-{method:?}", deal.stretch)))
    })?;
    let mut figures = ScansFigures { rows, useless_reads_left: Vec::new(), is_accepted: false };
    for stretch in STRETCHES {
        let useless = |method| figures.useless(stretch, method).unwrap_or_default();
        // `max`, because the share of no useless reads would be NaN.
        let left = useless(Method::Ordered) / useless(Method::None).max(f64::MIN_POSITIVE);
        figures.useless_reads_left.push(left);
    }
    // Only for stretches: if names are dealt one by one, no filter can exclude files with names next to the scan.
    figures.is_accepted = figures.useless_reads_left.first().is_some_and(|&left| left <= MAX_LEFT);
    Ok(figures)
}

/// The assignment of names to files.
struct Deal<'a> {
    names: Vec<(&'a [u8], &'a [u8])>,
    stretch: usize,
    /// The file of each name.
    files: Vec<usize>,
}

impl<'a> Deal<'a> {
    fn new(keys: &'a BundledKeys, stretch: usize) -> Self {
        let names: Vec<_> = keys.present.iter().collect();
        let file = |name: usize| below(DEAL_SEED + (name / stretch) as u64, FILES);
        let files = (0..names.len()).map(file).collect();
        Self { names, stretch, files }
    }

    fn measure(&self, method: Method, directory: &Path) -> anyhow::Result<ScanFigures> {
        let filter_bytes = self.write(method, directory)?;
        let file = |number: u64| (number, directory.join(files::table_name(number)));
        let set = TableSet::open((1..=FILES as u64).map(file), &method.read_options())?;
        let set = set.snapshot();
        // Loads every table's index, which then stays in memory, so that scans count only data blocks.
        for table in set.tables(0) {
            ensure!(table.filter_problem().is_none(), "a filter cannot be used");
            table.iter().next();
        }
        let lengths = LENGTHS.map(|names| self.scan(&set, method, names));
        Ok(ScanFigures {
            stretch: self.stretch,
            method: method.name(),
            filter_bits_per_key: filter_bytes as f64 * 8.0 / self.names.len() as f64,
            lengths: lengths.into_iter().collect::<anyhow::Result<_>>()?,
        })
    }

    /// Writes the names of file `n` to table `n + 1`. Returns the bytes of all filters.
    fn write(&self, method: Method, directory: &Path) -> anyhow::Result<u64> {
        std::fs::create_dir(directory)
            .with_context(|| format!("cannot create the directory {}", directory.display()))?;
        let (options, mut filter_bytes) = (method.options()?, 0);
        for file in 0..FILES {
            let mut writer = TableWriter::create(directory.join(files::table_name(file as u64 + 1)), &options)?;
            for (&(name, value), _) in self.names.iter().zip(&self.files).filter(|&(_, &of)| of == file) {
                writer.add(name, value)?;
            }
            let summary = writer.finish()?;
            filter_bytes += summary.filter_bytes + summary.range_filter_bytes;
        }
        Ok(filter_bytes)
    }

    /// Measures scans of `length` names.
    fn scan(&self, set: &TableSnapshot, method: Method, length: usize) -> anyhow::Result<LengthFigures> {
        let mut found = LengthFigures { names: length, ..LengthFigures::default() };
        let (before, mut useless, mut without) = (set.stats().data_block_reads, 0, 0);
        for scan in 0..SCANS {
            let first = below(SCAN_SEED + scan, self.names.len() - length);
            let names = &self.names[first..first + length];
            let has_name = |file: usize| self.files[first..first + length].contains(&file);
            // The newest table is the last that was written.
            let tables = set.tables(0).enumerate();
            let strangers = tables.filter(|(at, _)| !has_name(FILES - 1 - at)).map(|(_, table)| table);
            // Collected, because their reads are summed before and after the scan.
            let strangers: Vec<_> = strangers.collect();
            let reads = || strangers.iter().map(|table| table.stats().data_block_reads).sum::<u64>();
            let before = reads();
            let entries = entries(set, method, names)?;
            let is_right = entries.iter().map(|(name, value)| (&name[..], &value[..])).eq(names.iter().copied());
            found.wrong_scans += u64::from(!is_right);
            useless += reads() - before;
            without += strangers.len();
        }
        let per_scan = |count: u64| count as f64 / SCANS as f64;
        found.data_block_reads_per_scan = per_scan(set.stats().data_block_reads - before);
        (found.useless_reads_per_scan, found.files_without_a_name) = (per_scan(useless), per_scan(without as u64));
        ensure!(found.data_block_reads_per_scan > 0.0, "scans read no data block: their reads are not counted");
        Ok(found)
    }
}

/// Returns the entries from the first name to the last.
fn entries(
    set: &TableSnapshot,
    method: Method,
    names: &[(&[u8], &[u8])],
) -> anyhow::Result<Vec<(bytes::Bytes, bytes::Bytes)>> {
    let (Some((first, _)), Some((last, _))) = (names.first(), names.last()) else { return Ok(Vec::new()) };
    let range = KeyRange::from(*first..=*last);
    if method != Method::PrefixBloom {
        return Ok(set.range(range).collect::<Result<_, _>>()?);
    }
    let shared = first.iter().zip(*last).take_while(|(a, b)| a == b).count();
    let mut entries = Vec::new();
    let may_contain_range = |table: &&Arc<Table>| table.filters().may_contain_prefix(&first[..shared]);
    for entry in set.tables(0).filter(may_contain_range).flat_map(|table| table.range(range)) {
        let entry = entry?;
        // Every name is in exactly one file, so that there is no older value to hide.
        entries.push((entry.key, entry.value.context("a name without its version")?));
    }
    entries.sort();
    Ok(entries)
}

/// Returns a number below `count`, the same in each run.
fn below(number: u64, count: usize) -> usize {
    let scaled = (u128::from(KeyHash::mix(number).get()) * count as u128) >> 64;
    usize::try_from(scaled).unwrap_or(0)
}
