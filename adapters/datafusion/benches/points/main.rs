//! Point queries over an object store, with and without a file map: files and requests, counted by the store and never
//! timed.
//!
//! `cargo bench --profile dev -p sstfilter-datafusion --bench points` rewrites `RESULTS.md`. With `-- --quick`, or by
//! `cargo test`, it measures fewer files, asserts the page's promises, and writes nothing. Seeds are fixed, so each run
//! has the same counts.

mod counted;
mod measure;
mod page;
mod store;

use std::error::Error;

use measure::Size;

type AnyError = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let has = |wanted: &str| std::env::args().any(|argument| argument == wanted);
    // Cargo passes `--bench` to benchmarks, and nothing to tests.
    let is_full = has("--bench") && !has("--quick");
    let results = measure::run(if is_full { Size::FULL } else { Size::QUICK }).await?;
    let page = page::text(&results);
    if is_full {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/RESULTS.md"), &page)?;
    }
    print!("{page}");
    results.check();
    Ok(())
}
