//! `sstfilter advise --files`: which layout of filters suits a store of many files, and what each one costs.
//!
//! ```text
//! opened in vain = files x rate of a filter                      of maps: entries / 2^bits, in all files together
//! requests       = those of the layout + 2 x opened in vain      for each lookup of an absent key
//! $ a day        = lookups x requests x price of a request
//! $ a month      = bytes stored x price of a byte
//! ```
//!
//! The requests of a layout are 0 in memory, 1 for each filter, group of transposed blocks, or map. Sizes and rates are
//! those that the library plans for blocked Bloom filters and for file maps.

use core::fmt;

use serde::Serialize;
use sstfilter::{FalsePositiveRate, FixedPolicy};
use sstfilter_map::MapOptions;

use crate::args::{AdviseArgs, ManyFilesArgs};
use crate::output::{Column, Outcome, figures};
use crate::units::{self, counted, grouped};

/// Requests for a file that is opened in vain: its index, and a block of data.
const REQUESTS_OF_A_FILE: f64 = 2.0;

/// Bytes of the line of a blocked Bloom filter that a probe tests.
const LINE_BYTES: u64 = 64;

/// Bytes of a file in the footer of a group of transposed blocks, which readers keep in memory: its id and its number
/// of keys, as in a `.bf` file of `OpenObserve` (`src/infra/src/bloom/mod.rs`).
const COLUMN_BYTES: u64 = 12;

/// Bytes that bind a filter to its file.
const BINDING_BYTES: u64 = 8;

const DAYS_OF_A_MONTH: f64 = 30.0;

/// What a layout in memory must cost less than another one, because memory has no price.
const PRICE_OF_MEMORY: f64 = 1.1;

#[derive(Debug, Serialize)]
pub(crate) struct ManyFilesReport {
    files: u32,
    keys_per_file: u64,
    lookups_per_day: u64,
    reader_memory_bytes: u64,
    /// Dollars for 1,000 requests, and for a month of 10^9 bytes.
    get_price: f64,
    storage_price: f64,
    layouts: Vec<Layout>,
    /// Layouts that are impossible, and why.
    impossible: Vec<String>,
    rewrites: f64,
    /// Entries that a map gets for each flushed key if its files are those of the store, and if they are flushes.
    entries_by_file_ids: f64,
    entries_by_write_ids: f64,
    /// Bytes of a map for each entry; null without a map.
    bytes_per_entry: Option<f64>,
    advice: String,
}

/// One way to store filters.
#[derive(Clone, Debug, Serialize)]
struct Layout {
    #[serde(rename = "layout")]
    name: &'static str,
    bits_per_key: f64,
    stored_bytes: u64,
    /// Memory of a reader.
    reader_bytes: u64,
    /// For each lookup of an absent key, with those of files that are opened in vain.
    requests: f64,
    /// For each lookup of an absent key, without those files.
    read_bytes: u64,
    opened_in_vain: f64,
    dollars_per_day: f64,
    dollars_per_month: f64,
}

impl Layout {
    fn is_in_memory(&self) -> bool {
        self.name.ends_with("in memory")
    }

    fn is_map(&self) -> bool {
        self.name.starts_with("file map")
    }

    /// Returns dollars for lookups and storage of a month, with this many lookups a day.
    fn monthly(&self, need: &Need<'_>) -> f64 {
        self.dollars_per_day * DAYS_OF_A_MONTH + self.stored_bytes as f64 * need.byte_price()
    }
}

/// The store to advise on.
struct Need<'a> {
    args: &'a ManyFilesArgs,
    files: u32,
    keys_per_file: u64,
    lookups: u64,
    rate: FalsePositiveRate,
}

pub(crate) fn run(args: &AdviseArgs) -> (Outcome, ManyFilesReport) {
    let own = &args.many_files;
    let need = Need {
        args: own,
        // Never missing: clap requires them for this form of the command.
        files: own.files.unwrap_or_default(),
        keys_per_file: own.keys_per_file.unwrap_or_default(),
        lookups: own.lookups_per_day.unwrap_or_default(),
        rate: args.fpr.unwrap_or(FalsePositiveRate::ONE_PERCENT),
    };
    let mut impossible = Vec::new();
    let mut layouts = vec![need.layout("no filter", (0, 0), (0, 0), need.files.into())];
    for planned in [need.filters().map(Vec::from), need.maps().map(Vec::from)] {
        match planned {
            Ok(planned) => layouts.extend(planned),
            Err(problem) => impossible.push(format!("{problem:#}")),
        }
    }
    let map = layouts.iter().find(|layout| layout.is_map());
    let report = ManyFilesReport {
        files: need.files,
        keys_per_file: need.keys_per_file,
        lookups_per_day: need.lookups,
        reader_memory_bytes: own.reader_memory,
        get_price: own.get_price,
        storage_price: own.storage_price,
        bytes_per_entry: map.map(|map| map.bits_per_key / 8.0),
        advice: need.advice(&layouts),
        layouts,
        impossible,
        rewrites: own.rewrites,
        entries_by_file_ids: 1.0 + own.rewrites,
        entries_by_write_ids: 1.0,
    };
    (Outcome::Yes, report)
}

impl Need<'_> {
    fn keys(&self) -> u128 {
        u128::from(self.files) * u128::from(self.keys_per_file)
    }

    fn byte_price(&self) -> f64 {
        self.args.storage_price / 1e9
    }

    fn request_price(&self) -> f64 {
        self.args.get_price / 1e3
    }

    /// `own` are the requests of the layout, and the bytes that they read.
    fn layout(
        &self,
        name: &'static str,
        (stored_bytes, reader_bytes): (u64, u64),
        (requests, read_bytes): (u64, u64),
        opened_in_vain: f64,
    ) -> Layout {
        let requests = requests as f64 + opened_in_vain * REQUESTS_OF_A_FILE;
        Layout {
            name,
            bits_per_key: stored_bytes as f64 * 8.0 / self.keys() as f64,
            stored_bytes,
            reader_bytes,
            requests,
            read_bytes,
            opened_in_vain,
            dollars_per_day: self.lookups as f64 * requests * self.request_price(),
            dollars_per_month: stored_bytes as f64 * self.byte_price(),
        }
    }

    /// Filters of their own, in memory and not, and the same filters transposed.
    fn filters(&self) -> anyhow::Result<[Layout; 3]> {
        let policy = FixedPolicy::bloom(self.rate)?.with_min_keys(0);
        let impossible = |reason| anyhow::anyhow!("filters: not for this number of keys in a file: {reason}");
        let plan = policy.plan(self.keys_per_file, None).map_err(impossible)?;
        let files = u64::from(self.files);
        let stored = files.saturating_mul(plan.block_bytes + BINDING_BYTES);
        let (opened, lines) = (files as f64 * plan.expected_fpr, files * LINE_BYTES);
        let groups = files.div_ceil(self.args.group_files.into());
        Ok([
            self.layout("filters, in memory", (stored, stored), (0, 0), opened),
            self.layout("filters, a line of each read", (stored, 0), (files, lines), opened),
            self.layout("transposed blocks", (stored, files * COLUMN_BYTES), (groups, lines), opened),
        ])
    }

    /// File maps, in memory and not. They keep as many bits of a hash as one map of all files would.
    fn maps(&self) -> anyhow::Result<[Layout; 2]> {
        let (maps, all) = (self.args.maps.min(self.files), u64::try_from(self.keys()).unwrap_or(u64::MAX));
        let files = self.files.div_ceil(maps);
        let impossible =
            |problem: &dyn fmt::Display| anyhow::anyhow!("file map: {problem}: pass --maps, or a higher --fpr");
        let options = MapOptions::for_entries(all, self.rate).map_err(|problem| impossible(&problem))?;
        let entries = u64::from(files).saturating_mul(self.keys_per_file);
        let plan = options.plan(files, entries).map_err(|problem| impossible(&problem))?;
        let maps = u64::from(maps);
        let (stored, ends) = (plan.bytes().saturating_mul(maps), plan.end_bytes * maps);
        let opened = all as f64 * plan.expected_false_candidates / entries as f64;
        Ok([
            self.layout("file map, in memory", (stored, stored), (0, 0), opened),
            self.layout("file map, a page read", (stored, ends), (maps, maps * plan.page_bytes), opened),
        ])
    }

    fn has_prices(&self) -> bool {
        self.args.get_price + self.args.storage_price > 0.0
    }

    /// Chooses the layout that costs the least, of those that fit into memory, and says why. If nothing has a price, it
    /// chooses the one with the fewest requests.
    fn advice(&self, layouts: &[Layout]) -> String {
        let fitting = || layouts.iter().filter(|layout| layout.reader_bytes <= self.args.reader_memory);
        let cost = |layout: &Layout| if self.has_prices() { layout.monthly(self) } else { layout.requests };
        let weighted = |layout: &Layout| cost(layout) * if layout.is_in_memory() { PRICE_OF_MEMORY } else { 1.0 };
        let by = |cost: &dyn Fn(&Layout) -> f64, one: &Layout, other: &Layout| cost(one).total_cmp(&cost(other));
        let Some(first) = fitting().min_by(|one, other| by(&weighted, one, other)) else { return String::new() };
        let of = |layout: &Layout| if self.has_prices() { dollars(cost(layout)) } else { figure(cost(layout)) };
        let (before, unit) = if self.has_prices() { ("$", "a month") } else { ("", "reads for an absent key") };
        let others = fitting().filter(|layout| cost(layout) > cost(first));
        let next = others.min_by(|one, other| by(&cost, one, other)).map(|next| {
            let limit = self.limit(first, next).unwrap_or_default();
            format!("; next: {}, {before}{}{limit}", next.name, of(next))
        });
        format!("{}: {before}{} {unit}{}", first.name, of(first), next.unwrap_or_default())
    }

    /// Says up to which number of lookups, or from which one on, `other` costs less than `first`.
    fn limit(&self, first: &Layout, other: &Layout) -> Option<String> {
        let saved = (other.requests - first.requests) * self.request_price() * DAYS_OF_A_MONTH;
        let lookups = (first.stored_bytes as f64 - other.stored_bytes as f64) * self.byte_price() / saved;
        let side = if saved > 0.0 { "below" } else { "above" };
        let lookups = (lookups.is_finite() && lookups >= 1.0).then(|| grouped(units::whole(lookups.round())));
        lookups.map(|lookups| format!(", cheaper {side} {lookups} lookups a day"))
    }
}

/// Formats dollars: cents from 1 cent on.
fn dollars(dollars: f64) -> String {
    match dollars {
        0.0 => "0".to_owned(),
        ..0.01 => format!("{dollars:.1e}"),
        ..1e3 => format!("{dollars:.2}"),
        _ => grouped(units::whole(dollars.round())),
    }
}

/// Formats a number of requests or files, with at least two digits that count.
fn figure(figure: f64) -> String {
    match figure {
        0.0 => "0".to_owned(),
        ..0.001 => format!("{figure:.1e}"),
        ..0.1 => format!("{figure:.4}"),
        ..100.0 => format!("{figure:.2}"),
        _ => grouped(units::whole(figure.round())),
    }
}

impl fmt::Display for ManyFilesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (files, keys) = (counted(self.files.into(), "file"), grouped(self.keys_per_file));
        let lookups = grouped(self.lookups_per_day);
        writeln!(f, "{files} of {keys} keys, {lookups} lookups of absent keys a day\n")?;
        let columns: [Column<Layout>; 9] = [
            ("layout", |layout| layout.name.to_owned()),
            ("bits/key", |layout| format!("{:.2}", layout.bits_per_key)),
            ("stored", |layout| units::bytes(layout.stored_bytes)),
            ("memory", |layout| units::bytes(layout.reader_bytes)),
            ("requests", |layout| figure(layout.requests)),
            ("read", |layout| units::bytes(layout.read_bytes)),
            ("in vain", |layout| figure(layout.opened_in_vain)),
            ("$/day", |layout| dollars(layout.dollars_per_day)),
            ("$/month", |layout| dollars(layout.dollars_per_month)),
        ];
        writeln!(f, "{}", figures(&columns, &self.layouts))?;
        self.impossible.iter().try_for_each(|problem| writeln!(f, "-  {problem}"))?;
        writeln!(f, "advice: {}", self.advice)?;
        if let Some(bytes) = self.bytes_per_entry.filter(|_| self.rewrites > 0.0) {
            let (by_files, by_writes) = (self.entries_by_file_ids, self.entries_by_write_ids);
            writeln!(
                f,
                "ids of maps: of flushes (write ids), {by_writes} entry ({bytes:.1} bytes) for each flushed key; ids of \
                 files take {by_files} ({:.1} bytes)",
                bytes * by_files
            )?;
        }
        let (memory, has_prices) = (units::bytes(self.reader_memory_bytes), self.get_price + self.storage_price > 0.0);
        let least = if has_prices { "the least cost" } else { "the fewest requests" };
        writeln!(f, "requests, read, in vain: for each absent key; each file opened in vain takes 2 of the requests")?;
        writeln!(f, "$/day: lookups; $/month: storage. Advice: {least} of the layouts with at most {memory} of memory")
    }
}
