//! A compactor that is killed leaves SSTs that no manifest names, and a claim on a compaction that no process works on.
//! A new compactor must take over both. If it used an unfinished SST, or if a filter of the old SSTs answered for the
//! new ones, keys would be lost: later, and in no test that runs in one process.
//!
//! A writer, compactors and readers are processes that share a store on a local disk. Each is this program again.
//! SIGKILL ends them at known steps. Afterwards each acknowledged key must be found, and absent keys must cost exactly
//! the GETs that the README promises, counted by the engine and by the store.

mod costs;
#[path = "../../../maps/tests/processes/disk.rs"]
mod disk;
#[path = "../../../maps/tests/processes/process.rs"]
mod process;
mod roles;
mod rows;
mod scenario;

use slatedb::object_store;

#[tokio::main]
async fn main() -> process::Result<()> {
    if let Some(arguments) = process::role() {
        process::end_if_failed(roles::run(&arguments).await);
        return Ok(());
    }
    scenario::processes_that_are_killed_lose_no_acknowledged_key().await?;
    scenario::workers_that_are_killed_leave_only_our_filters().await?;
    scenario::a_compactor_without_our_filters_is_found().await
}
