//! Measures the value of filters in SlateDB: requests to the object store, counted and never timed.
//!
//! `cargo bench -p sstfilter-slatedb --bench requests` rewrites `RESULTS.md` and `results/`, and with `-- --ranges` or
//! `-- --shards` only their parts on range scans, or on caches of several shards. With `-- --quick`, or by `cargo test`, it measures a smaller store, asserts the
//! page's promises, and writes nothing. Seeds are fixed, so each run has the same counts.

mod contenders;
mod counting;
mod experiments;
mod files;
mod keys;
mod lookups;
mod page;
mod promises;
mod ranges;
mod shards;
mod store;

use std::error::Error;

type AnyError = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), AnyError> {
    let has = |wanted: &str| std::env::args().any(|argument| argument == wanted);
    // Cargo passes `--bench` to benchmarks, and nothing to tests.
    let is_full = has("--bench") && !has("--quick");
    // One thread, so that the engine reads in the same order in each run.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if is_full && has("--ranges") {
        let results = runtime.block_on(experiments::ranges_alone())?;
        promises::check_ranges(&results.ranges);
        files::write_ranges(&results)?;
        page::write_ranges(&results)
    } else if is_full && has("--shards") {
        let results = runtime.block_on(experiments::shards_alone())?;
        promises::check_shards(&results.shards);
        files::write_shards(&results)?;
        page::write_shards(&results)
    } else if is_full {
        let results = runtime.block_on(experiments::full())?;
        promises::check(&results);
        files::write(&results)?;
        page::write(&results)
    } else {
        promises::check(&runtime.block_on(experiments::quick())?);
        println!("every promise of RESULTS.md holds for the smaller store");
        Ok(())
    }
}
