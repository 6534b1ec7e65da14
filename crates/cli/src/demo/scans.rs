//! Measures scans over 70 files with overlapping ranges: without filters, with prefix filters, and with range filters.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use bytes::Bytes;
use serde::Serialize;
use sstfilter::{FalsePositiveRate, FixedPrefix, KeyHash, KeyParts, KeyRange};
use sstfilter_range::{RangePolicy, RangeUnits};
use sstfilter_table::{Table, TableOptions, TableSnapshot};

use super::keys::BundledKeys;
use super::measure::FILES;
use super::tables::{Entry, Tables};

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

    /// Returns the options for writing.
    fn options(self) -> anyhow::Result<TableOptions> {
        let options = TableOptions::default();
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
    /// By number of names, as in [`LENGTHS`].
    pub(super) lengths: [LengthFigures; 3],
}

/// Data blocks read by scans of one length.
#[derive(Debug, Serialize)]
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
    pub(super) useless_reads_left: [f64; 2],
    pub(super) is_accepted: bool,
    pub(super) conclusion: String,
}

impl ScansFigures {
    pub(super) fn wrong_scans(&self) -> u64 {
        self.rows.iter().flat_map(|row| &row.lengths).map(|length| length.wrong_scans).sum()
    }
}

pub(super) fn measure(keys: &BundledKeys, directory: &Path) -> anyhow::Result<ScansFigures> {
    let cases = STRETCHES.map(|stretch| Method::ALL.map(|method| Case { keys, stretch, method }));
    let measured = cases.as_flattened().iter().map(|case| case.measure(directory));
    let rows = measured.collect::<anyhow::Result<Vec<_>>>()?;
    // Reads in vain by scans of 100 names, for each stretch.
    let useless = |method: Method| {
        STRETCHES.map(|stretch| {
            let row = rows.iter().find(|row| row.stretch == stretch && row.method == method.name());
            row.map_or(f64::NAN, |row| row.lengths[1].useless_reads_per_scan)
        })
    };
    let (none, ordered) = (useless(Method::None), useless(Method::Ordered));
    // `max`, because the share of no useless reads would be NaN.
    let useless_reads_left = [0, 1].map(|stretch| ordered[stretch] / none[stretch].max(f64::MIN_POSITIVE));
    // Only for stretches: if names are dealt one by one, no filter can exclude files with names next to the scan.
    let is_accepted = useless_reads_left[0] <= MAX_LEFT;
    let verdict = if is_accepted { "at most a tenth, as promised" } else { "MORE than a tenth" };
    let conclusion = format!(
        "If files hold stretches of {} names, scans of {} names read {:.2} data blocks in files without any of their \
         names, instead of {:.2}: {verdict}. If names are dealt one by one, every file has names right next to the \
         scan, and {:.2} of {:.2} reads are left.",
        STRETCHES[0], LENGTHS[1], ordered[0], none[0], ordered[1], none[1],
    );
    Ok(ScansFigures { rows, useless_reads_left, is_accepted, conclusion })
}

/// Files of names, and a way to skip some of them in scans.
struct Case<'a> {
    keys: &'a BundledKeys,
    stretch: usize,
    method: Method,
}

impl Case<'_> {
    /// Returns the file of the name at an index.
    fn file_of(&self, name: usize) -> usize {
        below(DEAL_SEED + (name / self.stretch) as u64, FILES)
    }

    fn measure(&self, directory: &Path) -> anyhow::Result<ScanFigures> {
        let Self { keys, stretch, method } = *self;
        let directory = directory.join(format!("scans-{stretch}-{method:?}"));
        let tables = Tables::write(keys, &directory, &method.options()?, FILES, |name| self.file_of(name))?;
        // Only filters of prefixes are probed for these.
        let set = tables.open(&TableOptions::default().with_key_parts(prefixes()))?.snapshot();
        let [ten, hundred, thousand] = LENGTHS.map(|length| self.scan(&set, length));
        Ok(ScanFigures {
            stretch,
            method: method.name(),
            filter_bits_per_key: tables.filter_bytes() as f64 * 8.0 / keys.present.len() as f64,
            lengths: [ten?, hundred?, thousand?],
        })
    }

    /// Measures scans of `length` names.
    fn scan(&self, set: &TableSnapshot, length: usize) -> anyhow::Result<LengthFigures> {
        let [mut blocks, mut useless, mut strangers, mut wrong_scans] = [0; 4];
        for scan in 0..SCANS {
            let first = below(SCAN_SEED + scan, self.keys.present.len() - length);
            let mut has_name = [false; FILES];
            (first..first + length).for_each(|name| has_name[self.file_of(name)] = true);
            let names: Vec<_> = (first..first + length).map(|name| self.keys.present.entry(name)).collect();
            let reads = || set.tables(0).map(|table| table.stats().data_block_reads).collect::<Vec<_>>();
            let before = reads();
            let entries = self.entries(set, &names)?;
            wrong_scans += u64::from(!entries.iter().map(|(name, value)| (&name[..], &value[..])).eq(names));
            // The tables come in reverse, the newest first.
            for (has_name, (after, before)) in has_name.iter().rev().zip(reads().iter().zip(before)) {
                blocks += after - before;
                if !has_name {
                    useless += after - before;
                    strangers += 1;
                }
            }
        }
        ensure!(blocks > 0, "scans read no data block: their reads are not counted");
        let per_scan = |count: u64| count as f64 / SCANS as f64;
        Ok(LengthFigures {
            names: length,
            data_block_reads_per_scan: per_scan(blocks),
            useless_reads_per_scan: per_scan(useless),
            files_without_a_name: per_scan(strangers),
            wrong_scans,
        })
    }

    /// Returns the entries from the first name to the last.
    fn entries(&self, set: &TableSnapshot, names: &[Entry<'_>]) -> anyhow::Result<Vec<(Bytes, Bytes)>> {
        let (Some((first, _)), Some((last, _))) = (names.first(), names.last()) else { return Ok(Vec::new()) };
        let range = KeyRange::from(*first..=*last);
        if self.method != Method::PrefixBloom {
            return Ok(set.range(range).collect::<Result<_, _>>()?);
        }
        let shared = first.iter().zip(*last).take_while(|(a, b)| a == b).count();
        let may_contain_range = |table: &&Arc<Table>| table.filters().may_contain_prefix(&first[..shared]);
        let mut entries = Vec::new();
        for entry in set.tables(0).filter(may_contain_range).flat_map(|table| table.range(range)) {
            let entry = entry?;
            // Every name is in exactly one file, so that there is no older value to hide.
            entries.push((entry.key, entry.value.context("a name without its version")?));
        }
        entries.sort();
        Ok(entries)
    }
}

/// Returns a number below `count`, the same in each run.
fn below(number: u64, count: usize) -> usize {
    let scaled = (u128::from(KeyHash::mix(number).get()) * count as u128) >> 64;
    usize::try_from(scaled).unwrap_or(0)
}
