//! A writer is killed between a map and the manifest, a merger between reading and writing, and a reader has a manifest
//! whose maps are deleted. If a file were skipped for a map that does not cover it, its keys would be lost. And a lookup
//! that reads more than a page of each map costs money that nobody sees until the bill comes.

use std::path::Path;

use sstfilter_distributed::Result;
use sstfilter_distributed::maps::{self, Size};

#[tokio::test]
async fn no_key_is_lost_and_an_absent_key_costs_one_request_for_each_map() -> Result<()> {
    let size = Size { page: false, ..Size::from_environment() };
    let report = maps::run(Path::new(env!("CARGO_BIN_EXE_sstfilter-distributed")), &size).await?;
    println!("{report}");
    report.check()?;
    let story = &report.story;
    assert_eq!(story.kills as u64, 5 * size.rounds);
    assert!(story.merges > 0 && story.lookups > 100 && story.keys > 80 * size.keys);
    assert!(story.missing > 0, "no reader was stale");
    assert!(story.deleted > story.merges, "maps of killed processes are left");
    let lookups = &report.costs.lookups;
    assert_eq!(lookups.iter().map(|cost| cost.maps).collect::<Vec<_>>(), [Some(1), Some(8), Some(1), None, None]);
    let per_key = |cost: &maps::costs::Cost| cost.gets / cost.keys;
    assert_eq!(per_key(&lookups[4]), size.counted.0, "a GET of each filter");
    assert_eq!(per_key(&lookups[3]), size.counted.0.div_ceil(maps::layouts::FILES_OF_GROUP));
    assert!(lookups[3].opened > 0 && lookups[4].opened > 0, "filters without false positives");
    Ok(())
}
