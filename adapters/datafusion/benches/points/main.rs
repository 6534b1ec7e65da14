//! Point queries over an S3 server, with and without a file map: files and requests, counted by the server's log and
//! never timed.
//!
//! `cargo bench --profile dev -p sstfilter-datafusion --bench points` rewrites `RESULTS.md`. With `-- --quick`, or by
//! `cargo test`, it measures fewer files, asserts the page's promises, and writes nothing. Seeds are fixed, so each run
//! has the same counts.

mod measure;
mod page;
mod store;

use std::error::Error;

use measure::Size;

type AnyError = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, config] = arguments.as_slice()
        && role == "server"
    {
        return sstfilter_distributed::server::run(serde_json::from_str(config)?).await;
    }
    let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
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
