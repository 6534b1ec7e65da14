//! `sstfilter advise files`: which layout of filters suits a store of many files, and what each one costs.
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

use clap::Args;
use sstfilter::{FalsePositiveRate, FixedPolicy};
use sstfilter_map::MapOptions;

use crate::print::types::{Bits, Bytes, Dollars, Figure};
use crate::print::{Outcome, record};
use crate::words::units::{self, grouped, number_in, parse_fpr, parse_number, parse_ratio};

#[derive(Debug, Args)]
pub(crate) struct FilesArgs {
    /// Files that a lookup may have to search: neither key bounds nor times rule them out
    #[arg(value_name = "FILES", value_parser = number_in::<u32>(1..=(1 << 31) - 2), allow_negative_numbers = true)]
    files: u32,

    /// Distinct keys of a file
    #[arg(value_name = "KEYS_PER_FILE", value_parser = number_in::<u64>(1..=1 << 40), allow_negative_numbers = true)]
    keys_per_file: u64,

    /// Lookups a day of keys that no file has
    #[arg(value_name = "LOOKUPS_PER_DAY", value_parser = parse_number, allow_negative_numbers = true)]
    lookups_per_day: u64,

    /// Maximum false positive rate of a filter, between 0 and 1
    #[arg(long, value_name = "P", value_parser = parse_fpr, allow_negative_numbers = true, default_value = "0.01")]
    fpr: FalsePositiveRate,

    /// Bytes of memory that a reader has for filters
    #[arg(long, value_name = "BYTES", value_parser = parse_number, default_value = "1Gi")]
    memory: u64,

    /// How often compactions rewrite each key
    #[arg(long, value_name = "N", value_parser = parse_ratio, allow_negative_numbers = true, default_value_t = 0.0)]
    rewrites: f64,

    /// File maps, such as one for each day, that cover as many files each
    #[arg(long, value_name = "N", value_parser = number_in::<u32>(1..=u64::from(u32::MAX)),
        allow_negative_numbers = true, default_value_t = 1)]
    maps: u32,

    /// Dollars for 1,000 GETs, and for a month of 10^9 bytes: 0,0 for a local disk; the default is S3 Standard
    #[arg(long, value_name = "GET,STORAGE", value_parser = parse_prices, allow_negative_numbers = true,
        default_value = "0.0004,0.023")]
    prices: Prices,
}

/// Prices in dollars.
#[derive(Clone, Copy, Debug)]
struct Prices {
    thousand_gets: f64,
    /// Of a month of 10^9 bytes.
    storage: f64,
}

fn parse_prices(text: &str) -> Result<Prices, String> {
    let (gets, storage) = text.split_once(',').ok_or_else(|| {
        format!("expected dollars for 1,000 GETs, a comma, and dollars for a month of 10^9 bytes, got '{text}'")
    })?;
    Ok(Prices { thousand_gets: parse_ratio(gets)?, storage: parse_ratio(storage)? })
}

/// Requests for a file that is opened in vain: its index, and a block of data.
const REQUESTS_OF_A_FILE: f64 = 2.0;

/// Bytes of the line of a blocked Bloom filter that a probe tests.
const LINE_BYTES: u64 = 64;

/// Bytes of a file in the footer of a group of transposed blocks, which readers keep in memory: its id and its number
/// of keys, as in a `.bf` file of `OpenObserve` (`src/infra/src/bloom/mod.rs`).
const COLUMN_BYTES: u64 = 12;

/// Files whose transposed blocks are one object.
const GROUP_FILES: u64 = 1_000;

/// Bytes that bind a filter to its file.
const BINDING_BYTES: u64 = 8;

/// Entries of a map for each flushed key, if the map names flushes: compactions add none.
const ENTRIES_BY_WRITE_IDS: f64 = 1.0;

const DAYS_OF_A_MONTH: f64 = 30.0;

/// What a layout in memory must cost less than another one, because memory has no price.
const PRICE_OF_MEMORY: f64 = 1.1;

record! {
    /// Layouts of filters for a store of many files, and what each of them costs.
    pub(crate) struct FilesAdvice {
        store_files: u32,
        keys_per_file: u64,
        lookups_per_day: u64,
        memory_limit_bytes: Bytes,
        layouts: Vec<Layout>,
        impossible: Vec<String>,
        advice: String [notable],
        notes: Vec<String>,
        dollars_per_thousand_gets: Dollars [json],
        dollars_per_gigabyte_month: Dollars [json],
        rewrites: Figure [json],
        /// entries of a map for each flushed key, with the ids of files
        entries_by_file_ids: Figure [json],
        /// entries of a map for each flushed key, with the ids of flushes
        entries_by_write_ids: Figure [json],
        bytes_per_entry: Option<Figure> [json],
    }

    /// A way to store filters.
    struct Layout {
        layout: &'static str [row],
        bits_per_key: Bits [row],
        stored_bytes: Bytes [row],
        memory_bytes: Bytes [row],
        /// requests for each lookup of an absent key, with 2 for each file that is opened in vain
        requests: Figure [row],
        read_bytes: Bytes [row],
        opened_in_vain: Figure [row],
        dollars_per_day: Dollars [row],
        dollars_per_month: Dollars [row],
    }
}

impl Layout {
    fn is_in_memory(&self) -> bool {
        self.layout.ends_with("in memory")
    }

    fn is_map(&self) -> bool {
        self.layout.starts_with("file map")
    }

    /// Returns dollars for lookups and storage of a month.
    fn monthly(&self) -> f64 {
        self.dollars_per_day.0 * DAYS_OF_A_MONTH + self.dollars_per_month.0
    }
}

pub(crate) fn run(args: &FilesArgs) -> (Outcome, FilesAdvice) {
    let need = Need(args);
    let mut impossible = Vec::new();
    let mut layouts = vec![need.layout("no filter", (0, 0), (0, 0), args.files.into())];
    for planned in [need.filters().map(Vec::from), need.maps().map(Vec::from)] {
        match planned {
            Ok(planned) => layouts.extend(planned),
            Err(problem) => impossible.push(format!("{problem:#}")),
        }
    }
    let bytes_per_entry = layouts.iter().find(|layout| layout.is_map()).map(|map| map.bits_per_key.0 / 8.0);
    let advice = FilesAdvice {
        store_files: args.files,
        keys_per_file: args.keys_per_file,
        lookups_per_day: args.lookups_per_day,
        memory_limit_bytes: Bytes(args.memory),
        advice: need.advice(&layouts),
        notes: need.notes(bytes_per_entry),
        layouts,
        impossible,
        dollars_per_thousand_gets: Dollars(args.prices.thousand_gets),
        dollars_per_gigabyte_month: Dollars(args.prices.storage),
        rewrites: Figure(args.rewrites),
        entries_by_file_ids: Figure(need.entries_by_file_ids()),
        entries_by_write_ids: Figure(ENTRIES_BY_WRITE_IDS),
        bytes_per_entry: bytes_per_entry.map(Figure),
    };
    (Outcome::Yes, advice)
}

/// The store to advise on.
struct Need<'a>(&'a FilesArgs);

impl Need<'_> {
    fn keys(&self) -> u128 {
        u128::from(self.0.files) * u128::from(self.0.keys_per_file)
    }

    fn byte_price(&self) -> f64 {
        self.0.prices.storage / 1e9
    }

    fn request_price(&self) -> f64 {
        self.0.prices.thousand_gets / 1e3
    }

    fn entries_by_file_ids(&self) -> f64 {
        1.0 + self.0.rewrites
    }

    /// `own` are the requests of the layout, and the bytes that they read.
    fn layout(
        &self,
        layout: &'static str,
        (stored_bytes, memory_bytes): (u64, u64),
        own: (u64, u64),
        opened_in_vain: f64,
    ) -> Layout {
        let requests = own.0 as f64 + opened_in_vain * REQUESTS_OF_A_FILE;
        Layout {
            layout,
            bits_per_key: Bits(stored_bytes as f64 * 8.0 / self.keys() as f64),
            stored_bytes: Bytes(stored_bytes),
            memory_bytes: Bytes(memory_bytes),
            requests: Figure(requests),
            read_bytes: Bytes(own.1),
            opened_in_vain: Figure(opened_in_vain),
            dollars_per_day: Dollars(self.0.lookups_per_day as f64 * requests * self.request_price()),
            dollars_per_month: Dollars(stored_bytes as f64 * self.byte_price()),
        }
    }

    /// Filters of their own, in memory and not, and the same filters transposed.
    fn filters(&self) -> anyhow::Result<[Layout; 3]> {
        let policy = FixedPolicy::bloom(self.0.fpr)?.with_min_keys(0);
        let impossible = |reason| anyhow::anyhow!("filters: not for this number of keys in a file: {reason}");
        let plan = policy.plan(self.0.keys_per_file, None).map_err(impossible)?;
        let files = u64::from(self.0.files);
        let stored = files.saturating_mul(plan.block_bytes + BINDING_BYTES);
        let (opened, lines) = (files as f64 * plan.expected_fpr, files * LINE_BYTES);
        let groups = files.div_ceil(GROUP_FILES);
        Ok([
            self.layout("filters in memory", (stored, stored), (0, 0), opened),
            self.layout("filters, lines read", (stored, 0), (files, lines), opened),
            self.layout("transposed blocks", (stored, files * COLUMN_BYTES), (groups, lines), opened),
        ])
    }

    /// File maps, in memory and not. They keep as many bits of a hash as one map of all files would.
    fn maps(&self) -> anyhow::Result<[Layout; 2]> {
        let (maps, all) = (self.0.maps.min(self.0.files), u64::try_from(self.keys()).unwrap_or(u64::MAX));
        let files = self.0.files.div_ceil(maps);
        let impossible =
            |problem: &dyn fmt::Display| anyhow::anyhow!("file map: {problem}: pass --maps, or a higher --fpr");
        let options = MapOptions::for_entries(all, self.0.fpr).map_err(|problem| impossible(&problem))?;
        let entries = u64::from(files).saturating_mul(self.0.keys_per_file);
        let plan = options.plan(files, entries).map_err(|problem| impossible(&problem))?;
        let maps = u64::from(maps);
        let (stored, ends) = (plan.bytes().saturating_mul(maps), plan.end_bytes * maps);
        let opened = all as f64 * plan.expected_false_candidates / entries as f64;
        Ok([
            self.layout("file map in memory", (stored, stored), (0, 0), opened),
            self.layout("file map, page read", (stored, ends), (maps, maps * plan.page_bytes), opened),
        ])
    }

    fn has_prices(&self) -> bool {
        self.0.prices.thousand_gets + self.0.prices.storage > 0.0
    }

    /// Chooses the layout that costs the least, of those that fit into memory, and says why. If nothing has a price, it
    /// chooses the one with the fewest requests.
    fn advice(&self, layouts: &[Layout]) -> String {
        let fitting = || layouts.iter().filter(|layout| layout.memory_bytes.0 <= self.0.memory);
        let cost = |layout: &Layout| if self.has_prices() { layout.monthly() } else { layout.requests.0 };
        let weighted = |layout: &Layout| cost(layout) * if layout.is_in_memory() { PRICE_OF_MEMORY } else { 1.0 };
        let by = |cost: &dyn Fn(&Layout) -> f64, one: &Layout, other: &Layout| cost(one).total_cmp(&cost(other));
        let Some(first) = fitting().min_by(|one, other| by(&weighted, one, other)) else { return String::new() };
        let of = |layout: &Layout| match cost(layout) {
            dollars if self.has_prices() => format!("${}", units::dollars(dollars)),
            requests => units::figure(requests),
        };
        let unit = if self.has_prices() { "a month" } else { "reads for an absent key" };
        let others = fitting().filter(|layout| cost(layout) > cost(first));
        let next = others.min_by(|one, other| by(&cost, one, other)).map(|next| {
            let limit = self.limit(first, next).unwrap_or_default();
            format!("; next: {}, {}{limit}", next.layout, of(next))
        });
        format!("{}: {} {unit}{}", first.layout, of(first), next.unwrap_or_default())
    }

    /// Says up to which number of lookups, or from which one on, `other` costs less than `first`.
    fn limit(&self, first: &Layout, other: &Layout) -> Option<String> {
        let saved = (other.requests.0 - first.requests.0) * self.request_price() * DAYS_OF_A_MONTH;
        let lookups = (first.dollars_per_month.0 - other.dollars_per_month.0) / saved;
        let side = if saved > 0.0 { "below" } else { "above" };
        let lookups = (lookups.is_finite() && lookups >= 1.0).then(|| grouped(units::whole(lookups.round())));
        lookups.map(|lookups| format!(", cheaper {side} {lookups} lookups a day"))
    }

    fn notes(&self, bytes_per_entry: Option<f64>) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(bytes) = bytes_per_entry.filter(|_| self.0.rewrites > 0.0) {
            let by_files = self.entries_by_file_ids();
            notes.push(format!(
                "ids of maps: of flushes (write ids), {ENTRIES_BY_WRITE_IDS} entry ({bytes:.1} bytes) for each flushed \
                 key; ids of files take {by_files} ({:.1} bytes)",
                bytes * by_files
            ));
        }
        let least = if self.has_prices() { "the least cost" } else { "the fewest requests" };
        notes.push(format!(
            "requests, read, opened in vain: for each absent key; {REQUESTS_OF_A_FILE} of the requests for each file \
             opened in vain"
        ));
        notes.push(format!(
            "$ per day: lookups; $ per month: storage; advice: {least} of the layouts with at most {} of memory",
            units::bytes(self.0.memory)
        ));
        notes
    }
}
