//! The demonstration: one store, many processes, and kills in the middle.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use sstfilter_slatedb::SlateFilters;

use crate::Result;
use crate::cluster::Cluster;
use crate::cost::{Cost, Promise, Question, measure, requests_of, same_requests};
use crate::process::Process;
use crate::protocol::{Cache, Filters, Request, Sst};
use crate::server::LoggedRequest;

/// The store's path.
const STORE: &str = "store";

/// The path of a store whose compactor was not given the policies.
const FORGETFUL_STORE: &str = "forgetful";

/// The scheduler compacts no fewer SSTs of level 0, by default.
const COMPACTED_AT_ONCE: usize = 4;

/// Rows of one batch.
const BATCH: u64 = 250;

/// The maximum lag of a reader that follows the writer. It polls ten times a second.
const LAG: Duration = Duration::from_secs(30);

/// The size of a demonstration.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// SSTs before the first compaction, and again while compactors run.
    pub flushes: u64,
    /// Keys of each.
    pub keys: u64,
    /// Absent keys that each measurement looks up.
    pub absent: u64,
    /// The number of kills of the compactor, and of a reader.
    pub kills: u64,
}

impl Size {
    /// Large if `SSTFILTER_LONG` is set, small otherwise.
    #[must_use]
    pub fn from_environment() -> Self {
        if std::env::var_os("SSTFILTER_LONG").is_some() {
            Self { flushes: 16, keys: 4_000, absent: 1_000, kills: 6 }
        } else {
            Self { flushes: 8, keys: 1_000, absent: 400, kills: 1 }
        }
    }
}

/// The results of the demonstration.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Lines for display, in the order of events.
    pub story: Vec<String>,
    /// Counted lookups.
    pub costs: Vec<Cost>,
    /// Processes that were killed.
    pub kills: usize,
    /// Sorted runs that compactors wrote.
    pub sorted_runs: usize,
    /// Keys that both readers looked up, present or deleted.
    pub verified: usize,
}

impl Report {
    /// Compares all counts.
    ///
    /// # Errors
    ///
    /// If a count breaks its promise.
    pub fn check(&self) -> Result<()> {
        self.costs.iter().try_for_each(Cost::check)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.story {
            writeln!(formatter, "{line}")?;
        }
        writeln!(
            formatter,
            "\n| reader | covering SSTs | false positives | GETs promised | engine | server | bytes |"
        )?;
        writeln!(formatter, "|---|--:|--:|--:|--:|--:|--:|")?;
        for cost in &self.costs {
            let each = |sum: u64| sum as f64 / cost.lookups as f64;
            writeln!(
                formatter,
                "| {} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.0} |",
                cost.title,
                each(cost.covering),
                each(cost.engine.filter_false_positives),
                each(cost.promised()),
                each(cost.engine_gets()),
                each(cost.server_gets()),
                each(cost.server.bytes),
            )?;
        }
        writeln!(formatter, "\nEach figure is per lookup of an absent key.")
    }
}

/// Runs the demonstration with `program` as every process.
///
/// # Errors
///
/// If a process fails, a key is lost, or a store is not in the expected state.
pub async fn run(program: &Path, size: &Size) -> Result<Report> {
    let mut cluster = Cluster::start(program).await?;
    let mut report = Report::default();
    let mut keys = Keys::default();
    level_0(&mut cluster, size, &mut keys, &mut report).await?;
    kills(&mut cluster, size, &mut keys, &mut report).await?;
    compacted(&mut cluster, size, &mut keys, &mut report).await?;
    forgetful_compactor(&mut cluster, size, &mut report).await?;
    Ok(report)
}

/// The state after every acknowledged write: a value, or nothing for a deleted key.
#[derive(Debug, Default)]
struct Keys {
    acknowledged: BTreeMap<String, Option<String>>,
    batches: u64,
}

impl Keys {
    /// Returns a batch of new keys, with some old ones rewritten and some deleted.
    fn batch(&mut self) -> Vec<(String, Option<String>)> {
        let first = self.batches * BATCH;
        self.batches += 1;
        let version = self.batches;
        let value = move |number: u64| Some(format!("version {version} of {number:0>80}"));
        let new = (first..first + BATCH).map(|number| (present(number), value(number)));
        let updated = (first / 2..first / 2 + BATCH / 10).map(|number| (present(number), value(number)));
        let deleted = (first / 3..first / 3 + BATCH / 10).map(|number| (present(number), None));
        if first == 0 { new.collect() } else { new.chain(updated).chain(deleted).collect() }
    }

    /// Writes a batch, and remembers it once it is acknowledged.
    async fn write(&mut self, writer: &mut Process) -> Result<()> {
        let batch = self.batch();
        writer.command(&Request::Write(batch.clone())).await?;
        self.acknowledged.extend(batch);
        Ok(())
    }

    /// Writes enough batches for one SST, and flushes it.
    async fn write_sst(&mut self, writer: &mut Process, size: &Size) -> Result<()> {
        for _ in 0..size.keys.div_ceil(BATCH) {
            self.write(writer).await?;
        }
        writer.command(&Request::Flush).await
    }

    fn every(&self, step: usize) -> Vec<String> {
        self.acknowledged.keys().step_by(step).cloned().collect()
    }

    /// Compares a reader's answers with what was acknowledged.
    fn wrong(&self, keys: &[String], values: &[Option<String>]) -> Vec<String> {
        let pairs = keys.iter().zip(values);
        pairs.filter(|(key, value)| self.acknowledged.get(*key) != Some(value)).map(|(key, _)| key.clone()).collect()
    }

    /// Looks up every key until all answers are right. A reader that follows the writer may lag.
    async fn verify(&self, title: &str, reader: &mut Process) -> Result<()> {
        let started = Instant::now();
        let mut wrong = self.every(1);
        loop {
            wrong = self.wrong(&wrong, &reader.get(&wrong).await?);
            if wrong.is_empty() {
                return Ok(());
            }
            if started.elapsed() > LAG {
                return Err(
                    format!("{title}: {} keys are lost or wrong, the first is {}", wrong.len(), wrong[0]).into()
                );
            }
            tokio::time::sleep(LAG / 100).await;
        }
    }
}

/// Keys are spread over one range, so that every SST of level 0 covers nearly all of them.
fn key(number: u64) -> String {
    // The finalizer of SplitMix64, a bijection: different numbers yield different keys.
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    format!("{:016x}", mixed ^ (mixed >> 31))
}

fn present(number: u64) -> String {
    key(number * 2)
}

fn absent(size: &Size) -> Vec<String> {
    (0..size.absent).map(|number| key(number * 2 + 1)).collect()
}

/// Measures the simplest layout: SSTs of level 0 only.
async fn level_0(cluster: &mut Cluster, size: &Size, keys: &mut Keys, report: &mut Report) -> Result<()> {
    let config = cluster.config("writer", STORE, Filters::Ours);
    let mut writer = cluster.spawn("writer", &config).await?;
    for _ in 0..size.flushes {
        keys.write_sst(&mut writer, size).await?;
    }
    let counted = writer.close().await?;
    same_requests(&config.name, &counted, &requests_of(cluster, &config.name)?)?;

    let ssts = cluster.ssts(STORE).await?;
    all_have_our_filter(cluster, STORE, &ssts).await?;
    let absent = absent(size);
    for (title, filters, cache, promise) in [
        ("level 0, ours, cold", Filters::Ours, Cache::Nothing, Promise::FilterThenFalsePositives),
        ("level 0, ours, metadata cached", Filters::Ours, Cache::Metadata, Promise::FalsePositives),
        ("level 0, no policy, cold", Filters::None, Cache::Nothing, Promise::IndexAndData),
        ("level 0, built-in policy only, cold", Filters::BuiltIn, Cache::Nothing, Promise::UselessFilterIndexAndData),
    ] {
        let question = Question { title, store: STORE, filters, cache, promise, absent: &absent };
        report.costs.push(measure(cluster, &ssts, &question).await?);
    }
    report.story.push(format!("A writer wrote {} keys into {} SSTs.", keys.acknowledged.len(), ssts.len()));
    Ok(())
}

/// A writer, a compactor and two readers at work; readers and compactors are killed.
async fn kills(cluster: &mut Cluster, size: &Size, keys: &mut Keys, report: &mut Report) -> Result<()> {
    let config = cluster.config("writer", STORE, Filters::Ours);
    let mut writer = cluster.spawn("writer", &config).await?;
    let mut readers = vec![reader(cluster, STORE).await?, reader(cluster, STORE).await?];
    for _ in 0..size.kills {
        kill_compactor(cluster, &mut writer, size, keys, report).await?;
        keys.write_sst(&mut writer, size).await?;
        kill_reader(readers.remove(0), keys, report).await?;
        readers.push(reader(cluster, STORE).await?);
        writer = kill_writer(cluster, writer, keys, report).await?;
    }
    let compactor_config = cluster.config("compactor", STORE, Filters::Ours);
    let compactor = cluster.spawn("compactor", &compactor_config).await?;
    for _ in size.kills..size.flushes.max(size.kills) {
        keys.write_sst(&mut writer, size).await?;
    }
    cluster.wait_for_compaction(STORE, COMPACTED_AT_ONCE - 1).await?;
    let counted = compactor.close().await?;
    same_requests(&compactor_config.name, &counted, &requests_of(cluster, &compactor_config.name)?)?;

    // Written and acknowledged, but in no SST yet: readers find it in the log.
    keys.write(&mut writer).await?;
    for (number, reader) in readers.iter_mut().enumerate() {
        keys.verify(&format!("reader {}", number + 1), reader).await?;
    }
    writer.close().await?;
    report.verified = keys.acknowledged.len();
    report.story.push(format!(
        "{} processes were killed and came back; both readers then found all {} keys as they were acknowledged.",
        report.kills, report.verified
    ));
    Ok(())
}

async fn reader(cluster: &mut Cluster, store: &str) -> Result<Process> {
    let config = cluster.config("reader", store, Filters::Ours);
    cluster.spawn("reader", &config).await
}

/// Starts a compactor and kills it after its first SST, before its compaction is part of a manifest.
async fn kill_compactor(
    cluster: &mut Cluster,
    writer: &mut Process,
    size: &Size,
    keys: &mut Keys,
    report: &mut Report,
) -> Result<()> {
    // The coordinator commits a compaction up to a second after its end. A machine that is busy for longer needs
    // another try.
    for _ in 0..5 {
        let (name, written) = kill_at_first_sst(cluster, "compactor", STORE).await?;
        report.kills += 1;
        let ssts = cluster.ssts(STORE).await?;
        if !ssts.iter().any(|sst| written.contains(&sst.key)) {
            let line = format!("{name} was killed after {} SSTs, before its compaction was committed.", written.len());
            report.story.push(line);
            return Ok(());
        }
        for _ in 0..COMPACTED_AT_ONCE {
            keys.write_sst(writer, size).await?;
        }
    }
    Err("five compactors were killed too late: their compactions were finished".into())
}

/// Starts a process that compacts, kills it once the server has one SST of it, and returns its name and its SSTs.
///
/// # Errors
///
/// If it writes no SST, or ends by itself.
pub async fn kill_at_first_sst(cluster: &mut Cluster, role: &str, store: &str) -> Result<(String, Vec<String>)> {
    let config = cluster.config(role, store, Filters::Ours);
    let process = cluster.spawn(role, &config).await?;
    let is_its_sst = |request: &LoggedRequest| {
        request.client == config.name && request.method == "PUT" && request.key.contains("/compacted/")
    };
    cluster.wait_for_request(&format!("{} writes an SST", config.name), is_its_sst).await?;
    process.kill().await?;
    let written = cluster.requests()?.iter().filter(|request| is_its_sst(request));
    Ok((config.name.clone(), written.map(|request| request.key.clone()).collect()))
}

/// Kills a reader between two answers, which must all be right. It cannot have finished, because the remaining answers
/// do not fit into a pipe.
async fn kill_reader(mut reader: Process, keys: &Keys, report: &mut Report) -> Result<()> {
    let asked = keys.every(3);
    keys.verify("a reader before it is killed", &mut reader).await?;
    reader.send(&Request::Get(asked.clone())).await?;
    for key in &asked[..asked.len() / 2] {
        let value = reader.found(key).await?;
        if keys.acknowledged.get(key) != Some(&value) {
            return Err(format!("{key}: a reader found {value:?}").into());
        }
    }
    reader.kill().await?;
    report.kills += 1;
    report.story.push(format!("A reader was killed after {} of {} answers.", asked.len() / 2, asked.len()));
    Ok(())
}

/// Kills the writer with a batch under way. It may or may not be durable, so the next writer writes it again.
async fn kill_writer(
    cluster: &mut Cluster,
    mut writer: Process,
    keys: &mut Keys,
    report: &mut Report,
) -> Result<Process> {
    let batch = keys.batch();
    writer.send(&Request::Write(batch.clone())).await?;
    writer.kill().await?;
    report.kills += 1;
    let config = cluster.config("writer", STORE, Filters::Ours);
    let mut writer = cluster.spawn("writer", &config).await?;
    writer.command(&Request::Write(batch.clone())).await?;
    keys.acknowledged.extend(batch);
    report.story.push("The writer was killed with a batch under way.".to_owned());
    Ok(writer)
}

/// Sorted runs and level 0 together, read by two readers with our policy and by two without.
async fn compacted(cluster: &mut Cluster, size: &Size, keys: &mut Keys, report: &mut Report) -> Result<()> {
    let config = cluster.config("writer", STORE, Filters::Ours);
    let mut writer = cluster.spawn("writer", &config).await?;
    keys.write_sst(&mut writer, size).await?;
    writer.close().await?;

    let ssts = cluster.ssts(STORE).await?;
    all_have_our_filter(cluster, STORE, &ssts).await?;
    report.sorted_runs = runs_are_of_compactors(cluster, &ssts)?;
    let absent = absent(size);
    for (title, filters, cache, promise) in [
        ("compacted, reader 1, ours, cold", Filters::Ours, Cache::Nothing, Promise::FilterThenFalsePositives),
        ("compacted, reader 2, ours, cold", Filters::Ours, Cache::Nothing, Promise::FilterThenFalsePositives),
        ("compacted, ours, metadata cached", Filters::Ours, Cache::Metadata, Promise::FalsePositives),
        ("compacted, no policy, cold", Filters::None, Cache::Nothing, Promise::IndexAndData),
        ("compacted, built-in policy only, cold", Filters::BuiltIn, Cache::Nothing, Promise::UselessFilterIndexAndData),
    ] {
        let question = Question { title, store: STORE, filters, cache, promise, absent: &absent };
        report.costs.push(measure(cluster, &ssts, &question).await?);
    }
    for filters in [Filters::None, Filters::BuiltIn] {
        let config = cluster.config("reader", STORE, filters);
        let mut reader = cluster.spawn("reader", &config).await?;
        keys.verify("a reader without our policy", &mut reader).await?;
    }
    report.story.push(format!(
        "{} sorted runs, all {} SSTs with our filter; readers without our policy found every key too.",
        report.sorted_runs,
        ssts.len()
    ));
    Ok(())
}

/// Checks that the audit detects a compactor without our policies, whose compactions remove our filters.
async fn forgetful_compactor(cluster: &mut Cluster, size: &Size, report: &mut Report) -> Result<()> {
    let mut keys = Keys::default();
    let config = cluster.config("writer", FORGETFUL_STORE, Filters::Ours);
    let mut writer = cluster.spawn("writer", &config).await?;
    for _ in 0..COMPACTED_AT_ONCE {
        keys.write_sst(&mut writer, size).await?;
    }
    writer.close().await?;
    let ssts = cluster.ssts(FORGETFUL_STORE).await?;
    all_have_our_filter(cluster, FORGETFUL_STORE, &ssts).await?;

    let config = cluster.config("compactor", FORGETFUL_STORE, Filters::BuiltIn);
    let compactor = cluster.spawn("compactor", &config).await?;
    cluster.wait_for_compaction(FORGETFUL_STORE, 0).await?;
    compactor.close().await?;
    let ssts = cluster.ssts(FORGETFUL_STORE).await?;
    let Err(noticed) = all_have_our_filter(cluster, FORGETFUL_STORE, &ssts).await else {
        return Err("a compactor without our policy was not noticed".into());
    };
    report.story.push(format!("A compactor without our policy was noticed: {noticed}"));

    let question = Question {
        title: "compacted without our policy, ours, cold",
        store: FORGETFUL_STORE,
        filters: Filters::Ours,
        cache: Cache::Nothing,
        promise: Promise::UselessFilterIndexAndData,
        absent: &absent(size),
    };
    report.costs.push(measure(cluster, &ssts, &question).await?);
    let mut reader = reader(cluster, FORGETFUL_STORE).await?;
    keys.verify("a reader of SSTs without our filter", &mut reader).await
}

/// Looks for SSTs that were written without our policy: in their filter blocks, and with the adapter's audit.
///
/// # Errors
///
/// If there are any. The error states their number, and the filters of the first.
pub async fn all_have_our_filter(cluster: &mut Cluster, store: &str, ssts: &[Sst]) -> Result<()> {
    let name = SlateFilters::default().name();
    let without: Vec<_> = ssts.iter().filter(|sst| !sst.filter_names.contains(&name)).collect();
    let audited = cluster.audit(store).await?;
    match without.first() {
        None if audited == 0 => Ok(()),
        Some(first) if audited == without.len() => {
            let names = &first.filter_names;
            Err(format!("{audited} of {} SSTs lack {name}; the first has {names:?}", ssts.len()).into())
        }
        _ => Err(format!("{} SSTs lack {name}, the audit says {audited}", without.len()).into()),
    }
}

/// Returns the number of sorted runs. Compactors must have written all of them, and no SST of level 0.
fn runs_are_of_compactors(cluster: &mut Cluster, ssts: &[Sst]) -> Result<usize> {
    let requests = cluster.requests()?;
    for sst in ssts {
        let put = requests.iter().find(|request| request.method == "PUT" && request.key == sst.key);
        let client = put.map_or("nobody", |request| request.client.as_str());
        let role = if sst.sorted_run.is_some() { "compactor-" } else { "writer-" };
        if !client.starts_with(role) {
            return Err(format!("{} was written by {client}", sst.key).into());
        }
    }
    let mut runs: Vec<u32> = ssts.iter().filter_map(|sst| sst.sorted_run).collect();
    runs.dedup();
    if runs.is_empty() { Err("nothing was compacted".into()) } else { Ok(runs.len()) }
}
