//! The page of results.

use std::fmt;

use super::Size;
use super::costs::{Cost, Costs};
use super::scenario::Story;
use crate::Result;

/// What a request costs on S3, in dollars.
const GET: f64 = 0.0004 / 1_000.0;

/// What a byte costs on S3 in a month, in dollars.
const BYTE_MONTH: f64 = 0.023 / 1e9;

/// The results of the demonstration.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its size.
    pub size: Size,
    /// What processes did, and that nothing was lost.
    pub story: Story,
    /// Counted lookups.
    pub costs: Costs,
}

impl Report {
    /// Compares the counts with what is promised: one GET of one page for each absent key and map, and at most 0.01
    /// files opened for each absent key.
    ///
    /// # Errors
    ///
    /// If a lookup costs more.
    pub fn check(&self) -> Result<()> {
        for cost in &self.costs.lookups {
            let Some(maps) = cost.maps else { continue };
            if cost.gets != cost.keys * maps {
                return Err(format!("{}: expected one GET for each key and map: {cost:?}", cost.layout).into());
            }
            if cost.opened * 100 > cost.keys {
                return Err(format!("{}: more than 0.01 files are opened for a key: {cost:?}", cost.layout).into());
            }
        }
        Ok(())
    }
}

impl Cost {
    /// Returns the dollars of a million lookups.
    #[must_use]
    pub fn dollars(&self) -> f64 {
        (self.gets + self.opened) as f64 / self.keys as f64 * 1e6 * GET
    }
}

/// Returns a number with a comma between thousands.
fn grouped(number: u64) -> String {
    if number < 1_000 { number.to_string() } else { format!("{},{:03}", grouped(number / 1_000), number % 1_000) }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (files, keys) = self.size.counted;
        let story = &self.story;
        writeln!(
            f,
            "# File maps on an object store: results\n\n\
             `SSTFILTER_LONG=1 cargo run --release -p sstfilter-distributed -- maps`, in `adapters`, writes this page. \
             The S3\nserver is `s3s-fs` on the loopback address. It logs each request, and all counts are from its \
             log.\n\n\
             ## Lookups of absent keys\n\n\
             {} files of {} keys. A file is opened if its map or filter says that it may have the key; none has it.\n\
             Page caches are off, and the ends of maps are loaded. GETs, bytes and files are for each lookup. \
             Dollars are by the\npublished prices of S3: $0.0004 for 1,000 GETs, of maps, filters and files, and \
             $0.023 for a GB and month, of maps or\nfilters.\n\n\
             | files | layout | keys looked up | stored MB | GETs | KB read | files opened in vain | $ per 10^6 \
             lookups | $ a month |\n\
             |--:|---|--:|--:|--:|--:|--:|--:|--:|",
            grouped(files),
            grouped(keys),
        )?;
        for cost in &self.costs.lookups {
            let each = |sum: u64| sum as f64 / cost.keys as f64;
            writeln!(
                f,
                "| {} | {} | {} | {:.1} | {} | {} | {:.4} | {:.2} | {:.4} |",
                grouped(cost.files),
                cost.layout,
                grouped(cost.keys),
                cost.stored as f64 / 1e6,
                grouped(cost.gets / cost.keys),
                grouped(cost.bytes / cost.keys / 1_000),
                each(cost.opened),
                cost.dollars(),
                cost.stored as f64 * BYTE_MONTH,
            )?;
        }
        writeln!(
            f,
            "\nFiles and Bloom filters were written into the server's folder, not through HTTP: they are too many for \
             single PUTs\nin a demonstration. Maps and transposed filters were written through HTTP. A Bloom filter is \
             read whole. A transposed\ngroup has filters of equal size, and one GET reads the same 256 bits of all its \
             files.\n\n\
             ## Writing maps\n\n\
             | maps added | maps left | GETs | MB read | PUTs and POSTs |\n|--:|--:|--:|--:|--:|"
        )?;
        for written in &self.costs.written {
            let (added, left, gets, puts) = (written.added, written.left, written.gets, written.puts);
            writeln!(f, "| {added} | {left} | {gets} | {:.1} | {puts} |", written.read as f64 / 1e6)?;
        }
        writeln!(
            f,
            "\n## Processes that are killed\n\n\
             Two writers, a merger and two readers work at once. SIGKILL ends a writer before its map and one before \
             its manifest,\na merger that reads and one before its manifest, and a reader between two answers; others \
             replace them. A stale reader\nkeeps the manifest of its round while maps are replaced and deleted.\n\n\
             | | |\n|---|--:|\n\
             | processes killed | {} |\n\
             | files acknowledged | {} |\n\
             | merges | {} |\n\
             | maps deleted after they left the manifest, or that never were in it | {} |\n\
             | lookups by readers, all answered rightly | {} |\n\
             | requests of stale readers for maps that were gone | {} |\n\
             | keys of acknowledged files checked at the end | {} |\n\
             | keys lost | 0 |",
            story.kills,
            grouped(story.files as u64),
            story.merges,
            story.deleted,
            grouped(story.lookups as u64),
            grouped(story.missing),
            grouped(story.keys),
        )
    }
}
