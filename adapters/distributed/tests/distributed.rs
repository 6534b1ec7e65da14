//! A compactor that is killed leaves SSTs that no manifest names, and a claim on a compaction that no process works on;
//! a new compactor must take over both. If it used an unfinished SST, or if a filter of the old SSTs answered for the
//! new ones, keys would be lost: later, and in no test that runs in one process.

use std::path::Path;

use sstfilter_distributed::cluster::Cluster;
use sstfilter_distributed::protocol::{Compacts, Filters, Request, RoleConfig};
use sstfilter_distributed::scenario::{self, Size, all_have_our_filter, kill_at_first_sst};
use sstfilter_distributed::{Result, process::Process};

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_sstfilter-distributed"))
}

#[tokio::test]
async fn processes_that_are_killed_come_back_and_no_acknowledged_key_is_lost() -> Result<()> {
    let size = Size::from_environment();
    let report = scenario::run(program(), &size).await?;
    println!("{report}");
    report.check()?;
    assert!(report.kills as u64 >= 3 * size.kills, "{} processes were killed", report.kills);
    assert!(report.sorted_runs >= 1 && report.verified as u64 > size.flushes * size.keys);
    assert_eq!(report.costs.len(), 10);
    let false_positives: u64 = report.costs.iter().map(|cost| cost.engine.filter_false_positives).sum();
    assert!(false_positives > 0, "nothing shows that a false positive costs what it should");
    Ok(())
}

fn rows(from: usize, to: usize) -> Vec<(String, Option<String>)> {
    (from..to)
        .map(|number| (format!("{:05}", number * 7919 % 100_003), Some(format!("value {number:0>100}"))))
        .collect()
}

async fn found(reader: &mut Process, rows: &[(String, Option<String>)]) -> Result<usize> {
    let keys: Vec<String> = rows.iter().map(|(key, _)| key.clone()).collect();
    let values = reader.get(&keys).await?;
    Ok(values.iter().zip(rows).filter(|(value, (_, expected))| *value == expected).count())
}

#[tokio::test]
async fn workers_of_a_compactor_write_our_filters_after_one_of_them_was_killed() -> Result<()> {
    let mut cluster = Cluster::start(program()).await?;
    let config = cluster.config("writer", "store", Filters::Ours);
    let mut writer = cluster.spawn("writer", &config).await?;
    for sst in 0..4 {
        writer.command(&Request::Write(rows(sst * 1_000, (sst + 1) * 1_000))).await?;
        writer.command(&Request::Flush).await?;
    }
    let config = cluster.config("compactor", "store", Filters::Ours);
    let coordinator = cluster.spawn("compactor", &RoleConfig { compacts: Compacts::Workers, ..config }).await?;
    kill_at_first_sst(&mut cluster, "worker", "store").await?;
    let config = cluster.config("worker", "store", Filters::Ours);
    let worker = cluster.spawn("worker", &config).await?;
    cluster.wait_for_compaction("store", 0).await?;
    worker.close().await?;
    coordinator.close().await?;

    let ssts = cluster.ssts("store").await?;
    all_have_our_filter(&mut cluster, "store", &ssts).await?;
    let config = cluster.config("reader", "store", Filters::Ours);
    let mut reader = cluster.spawn("reader", &config).await?;
    assert_eq!(found(&mut reader, &rows(0, 4_000)).await?, 4_000);
    Ok(())
}

#[tokio::test]
async fn an_acknowledged_batch_survives_a_writer_that_is_killed_at_once() -> Result<()> {
    let mut cluster = Cluster::start(program()).await?;
    for batch in 0..5 {
        let config = cluster.config("writer", "store", Filters::Ours);
        let mut writer = cluster.spawn("writer", &config).await?;
        writer.command(&Request::Write(rows(batch * 100, (batch + 1) * 100))).await?;
        writer.kill().await?;
    }
    let config = cluster.config("reader", "store", Filters::Ours);
    let mut reader = cluster.spawn("reader", &config).await?;
    assert_eq!(found(&mut reader, &rows(0, 500)).await?, 500);
    Ok(())
}

#[tokio::test]
async fn a_second_writer_fences_the_first_and_loses_none_of_its_keys() -> Result<()> {
    let mut cluster = Cluster::start(program()).await?;
    let config = cluster.config("writer", "store", Filters::Ours);
    let mut first = cluster.spawn("writer", &config).await?;
    first.command(&Request::Write(rows(0, 100))).await?;
    let config = cluster.config("writer", "store", Filters::Ours);
    let mut second = cluster.spawn("writer", &config).await?;

    let fenced = first.command(&Request::Write(rows(100, 200))).await;
    assert!(fenced.is_err(), "two writers at once");
    second.command(&Request::Write(rows(200, 300))).await?;
    second.command(&Request::Flush).await?;
    let config = cluster.config("reader", "store", Filters::Ours);
    let mut reader = cluster.spawn("reader", &config).await?;
    assert_eq!(found(&mut reader, &rows(0, 100)).await?, 100);
    assert_eq!(found(&mut reader, &rows(100, 200)).await?, 0, "a write that failed is there all the same");
    assert_eq!(found(&mut reader, &rows(200, 300)).await?, 100);
    Ok(())
}
