//! A writer is killed between a map and the manifest, a merger between reading and writing, and a reader has a manifest
//! whose maps are deleted. If a file were skipped for a map that does not cover it, or two processes replaced one
//! manifest, keys would be lost.
//!
//! Writers and mergers are processes that share a store on a local disk: this program again. SIGKILL ends them at known
//! steps, while others go on and a reader looks keys up. Once the store replaces the manifest on a condition, as object
//! stores do, and once it cannot, and manifests are numbered.

mod disk;
mod process;
mod scenario;

use ::object_store;

#[tokio::main]
async fn main() -> process::Result<()> {
    if let Some(arguments) = process::role() {
        process::end_if_failed(scenario::work(&arguments).await);
        return Ok(());
    }
    for replaces in [true, false] {
        scenario::processes_that_are_killed_lose_no_file(replaces).await?;
    }
    Ok(())
}
