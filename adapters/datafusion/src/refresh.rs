//! Builds maps and brings them up to date, as jobs of the session's engine.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::AsArray;
use datafusion::common::{DataFusionError, Result, exec_err, plan_err};
use datafusion::object_store::{self, ObjectMeta, ObjectStoreExt};
use datafusion::prelude::{SessionContext, ident, lit};
use futures::{StreamExt, TryStreamExt};
use sstfilter::{FileId, Filters};
use sstfilter_map::FileMap;
use sstfilter_map_store::{Cuts, Failure, FailureKind, MapEntry, MapWriter};

use crate::file::TableFile;
use crate::functions::{TOO_MANY_KEYS, map_part};
use crate::table::{FILE, MappedTable, coerces_int96};

/// Objects that are looked at again at once.
const HEADS: usize = 16;

/// Bytes that are counted for each key of a task: those of its hash in a list with room for twice as many keys, in the
/// message to the next task, and in that task's copy.
const BYTES_PER_KEY: u64 = 32;

/// Bytes of a file's end that a job reads first: enough for the footer of a small file. By default, the engine reads 512
/// KiB, which is all of many files.
const FOOTER_BYTES: usize = 4 << 10;

/// Keys of a map that a job returns, about: engines refuse messages of more than 16 MiB, and a task passes eight bytes of
/// each key to the next one.
const KEYS_PER_MAP: u64 = 1 << 20;

/// Attempts at a job that fails, although all of its files are there.
const ATTEMPTS: u32 = 2;

/// Files of a job. A plan names each with about 100 bytes, and engines refuse messages of more than 16 MiB.
const MAX_FILES: usize = 50_000;

/// How many times the bytes of a job the next one has, at most.
const MAX_GROWTH: u64 = 16;

/// Maps are merged into one once more than this share of the files that they list is gone, or listed twice.
const MAX_GONE: f64 = 0.2;

/// How to build maps.
#[derive(Clone, Copy, Debug)]
pub struct RefreshOptions {
    /// Bytes of memory that a process may take for keys, however many tasks of a job it runs: 256 MiB by default. 32
    /// bytes are counted for each key. With less, a build takes more jobs.
    pub memory_bytes: u64,
}

impl Default for RefreshOptions {
    fn default() -> Self {
        Self { memory_bytes: 256 << 20 }
    }
}

/// What a refresh did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refreshed {
    /// Files of the table that maps covered before.
    pub covered: usize,
    /// Files whose values were read.
    pub added: usize,
    /// Files that were replaced meanwhile, and stay without a map until the next refresh of a newer table.
    pub replaced: usize,
    /// Files of the list that are no longer there.
    pub gone: usize,
    /// Jobs of the engine.
    pub jobs: usize,
    /// Maps that the manifest lists.
    pub maps: usize,
}

/// Covers all files of a table by maps of `column`, in the folder of `writer`: reads the column of the files that no map
/// covers, and merges maps, in which files that the table no longer has are dropped.
///
/// The work is a job of the session's engine: its executors read the column, and no other. A refresh that is interrupted
/// loses at most one job's work; two at once lose nothing. Queries may go on meanwhile.
///
/// # Errors
///
/// There is no such column, it has a type that maps do not know, the job or the store fails, the writer has another hash
/// than [`Filters::default`], or one file alone has more keys than the memory allows.
pub async fn refresh_map(
    session: &SessionContext,
    table: &MappedTable,
    column: &str,
    writer: &MapWriter,
    options: RefreshOptions,
) -> Result<Refreshed> {
    check_session(session, writer)?;
    let data_type = table.data_type(column)?;
    let ids = table.files().iter().map(|file| file.id(&table.url, column, &data_type)).collect::<Result<Vec<_>>>()?;
    // Maps of which a page is damaged, as queries have found out. Their files are read again.
    remove_unusable(writer, table.lasting_failures(column)).await?;
    let reader = writer.reader().await.map_err(external)?;
    let snapshot = reader.snapshot(&ids, Cuts::All).await;
    // Maps without an end: their files are not covered, and no merge could use them.
    remove_unusable(writer, reader.recent_failures()).await?;
    let mut refreshed = Refreshed { covered: ids.len() - snapshot.uncovered().len(), ..Refreshed::default() };
    session.register_udaf(map_part());
    // Files of a size that the last job shows to fit; at first, as if each byte were a key of one byte.
    let mut rest: Vec<_> = snapshot.uncovered().iter().map(|&at| (ids[at], &table.files()[at])).collect();
    let max_keys = (options.memory_bytes / BYTES_PER_KEY).max(1);
    let (mut bytes_at_once, mut failed) = (max_keys, 0);
    while !rest.is_empty() {
        let job = rest.split_off(rest.len() - fitting(&rest, bytes_at_once));
        let bytes = job.iter().map(|(_, file)| file.meta.size).sum::<u64>();
        refreshed.jobs += 1;
        match build(session, table, column, &job, (writer.builder().prefix_bits(), max_keys)).await {
            Err(error) if error.to_string().contains(TOO_MANY_KEYS) && job.len() > 1 => {
                bytes_at_once = bytes / 2;
                rest.extend(job);
            }
            Err(error) if error.to_string().contains(TOO_MANY_KEYS) => {
                let (path, memory_bytes) = (&job[0].1.meta.location, options.memory_bytes);
                return exec_err!(
                    "{path}: {error}; expected RefreshOptions::memory_bytes of {BYTES_PER_KEY} bytes for each row, got \
                     {memory_bytes}"
                );
            }
            Err(error) => {
                let changed = changed(session, table, &job, |_| true).await?;
                let is_gone = |file: &(FileId, &TableFile)| changed.get(&file.0) == Some(&Change::Gone);
                let found: Vec<_> = job.iter().copied().filter(|file| !is_gone(file)).collect();
                // Engines do not always run a job again that has lost a process.
                failed += u32::from(found.len() == job.len());
                if failed == ATTEMPTS {
                    return Err(error);
                }
                refreshed.gone += job.len() - found.len();
                rest.extend(found);
            }
            Ok(parts) => {
                let changed = changed(session, table, &job, TableFile::may_change).await?;
                let gone = changed.values().filter(|change| **change == Change::Gone).count();
                refreshed.gone += gone;
                refreshed.replaced += changed.len() - gone;
                refreshed.added += job.len() - changed.len();
                failed = 0;
                let keys = if changed.len() < job.len() { add(writer, parts, &job, changed).await? } else { 0 };
                // As many keys as fit, but for a fifth, in case that the next files have more for their size.
                let fit = u128::from(bytes) * u128::from(max_keys) * 4 / (u128::from(keys.max(1)) * 5);
                let most = bytes_at_once.saturating_mul(MAX_GROWTH);
                bytes_at_once = u64::try_from(fit).map_or(most, |fit| fit.min(most));
            }
        }
    }
    let kept: HashSet<FileId> = ids.into_iter().collect();
    let keep = |file: FileId| kept.contains(&file);
    while !writer.merge(CUT, keep).await.map_err(external)?.inputs.is_empty() {}
    let mut manifest = writer.manifest().await.map_err(external)?;
    let listed: u64 = manifest.maps.iter().map(|map| u64::from(map.files)).sum();
    if (kept.len() as f64) < (1.0 - MAX_GONE) * listed as f64 {
        writer.merge_all(CUT, keep).await.map_err(external)?;
        manifest = writer.manifest().await.map_err(external)?;
    }
    refreshed.maps = manifest.maps.len();
    Ok(refreshed)
}

/// All maps of a column are of one cut: a query has no words for others.
const CUT: &str = "";

fn external(error: sstfilter_map_store::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Fails unless the session reads what every session reads, and writes maps with the hash that executors have.
fn check_session(session: &SessionContext, writer: &MapWriter) -> Result<()> {
    if coerces_int96(session.copied_config().options()) {
        return plan_err!("expected a session without coerce_int96, with which files have other timestamps");
    }
    let (expected, got) = (Filters::default().hasher().identity(), writer.builder().hash_identity());
    if expected != got {
        return plan_err!("expected a writer with the default hash, which executors have, got {got:?}");
    }
    Ok(())
}

/// Returns how many of the last files have up to this many bytes together; at least one, and no more than a plan can
/// name.
fn fitting(files: &[(FileId, &TableFile)], bytes: u64) -> usize {
    let sizes = files.iter().rev().scan(0_u64, |sum, (_, file)| {
        *sum = sum.saturating_add(file.meta.size);
        Some(*sum)
    });
    sizes.take(MAX_FILES).take_while(|sum| *sum <= bytes).count().max(1)
}

/// Runs a job that reads a column of some files, and returns maps of them. Files without rows are in none.
async fn build(
    session: &SessionContext,
    table: &MappedTable,
    column: &str,
    files: &[(FileId, &TableFile)],
    (prefix_bits, max_keys): (u8, u64),
) -> Result<Vec<Bytes>> {
    let mut state = session.state();
    let parts = (state.config().target_partitions() as u64).max(max_keys / KEYS_PER_MAP);
    // The option of the session, because a plan that is sent to others has none for a file.
    state.config_mut().options_mut().execution.parquet.metadata_size_hint = Some(FOOTER_BYTES);
    let session = SessionContext::new_with_state(state);
    let job = FileId::random().fingerprint();
    let arguments = vec![ident(FILE), ident(column), lit(u64::from(prefix_bits)), lit(max_keys), lit(job)];
    let rows = session.read_table(Arc::new(table.keys(column, files)?))?;
    let rows = rows.aggregate(vec![ident(FILE) % lit(parts)], vec![map_part().call(arguments).alias("part")])?;
    let mut maps = Vec::new();
    for batch in rows.select_columns(&["part"])?.collect().await? {
        let Some(values) = batch.column(0).as_binary_opt::<i64>() else { return exec_err!("expected maps of bytes") };
        maps.extend(values.iter().flatten().map(Bytes::copy_from_slice));
    }
    Ok(maps)
}

/// Removes maps that cannot be read from the manifest.
pub(crate) async fn remove_unusable(writer: &MapWriter, failures: Vec<Failure>) -> Result<()> {
    let is_unusable = |failure: &Failure| matches!(failure.kind, FailureKind::Missing | FailureKind::Damaged);
    let unusable: HashSet<_> = failures.into_iter().filter(is_unusable).map(|failure| failure.object).collect();
    if unusable.is_empty() {
        return Ok(());
    }
    let maps = writer.manifest().await.map_err(external)?.maps;
    let maps = maps.iter().filter(|map| unusable.contains(&map.object)).map(MapEntry::map_id);
    writer.remove(&maps.collect::<Vec<_>>()).await.map_err(external)
}

/// How a file differs from what the table's list says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Replaced,
    Gone,
}

/// Looks again at those of the files that may have changed, and returns those that have.
async fn changed(
    session: &SessionContext,
    table: &MappedTable,
    files: &[(FileId, &TableFile)],
    may_have: impl Fn(&TableFile) -> bool,
) -> Result<HashMap<FileId, Change>> {
    let store = session.runtime_env().object_store(&table.url)?;
    let looks = files.iter().filter(|(_, file)| may_have(file)).map(|&(id, file)| {
        let (store, listed, may_change) = (store.clone(), file.meta.clone(), file.may_change());
        async move {
            let change = match store.head(&listed.location).await {
                Err(object_store::Error::NotFound { .. }) => Some(Change::Gone),
                head => (may_change && !is_same_version(&listed, &head?)).then_some(Change::Replaced),
            };
            Ok::<_, DataFusionError>(change.map(|change| (id, change)))
        }
    });
    let looks: Vec<_> = looks.collect();
    futures::stream::iter(looks).buffer_unordered(HEADS).try_filter_map(|id| async move { Ok(id) }).try_collect().await
}

/// Whether a listed object is the one whose head was read later. Stores write one entity tag with and without quotes,
/// and leave out the tag, or fractions of a second, in one of the two.
fn is_same_version(listed: &ObjectMeta, head: &ObjectMeta) -> bool {
    let [one, other] = [listed, head].map(|meta| meta.e_tag.as_deref().map(|tag| tag.trim_matches('"')));
    let apart = head.last_modified.signed_duration_since(listed.last_modified);
    let has_same_tag = one.zip(other).is_none_or(|(one, other)| one == other);
    listed.size == head.size && has_same_tag && apart.num_seconds() == 0
}

/// Adds the maps of a job, without the files that have changed meanwhile, and with those that have no rows. Returns the
/// number of pairs of a key and a file.
async fn add(
    writer: &MapWriter,
    mut parts: Vec<Bytes>,
    files: &[(FileId, &TableFile)],
    changed: HashMap<FileId, Change>,
) -> Result<u64> {
    let mut without_rows: HashMap<u64, FileId> = files.iter().map(|(id, _)| (id.fingerprint(), *id)).collect();
    for part in &parts {
        let map = FileMap::load_any(part).map_err(|error| DataFusionError::External(Box::new(error)))?;
        for covered in map.index().files() {
            without_rows.remove(&covered.file.fingerprint());
        }
    }
    if !without_rows.is_empty() {
        let (mut builder, mut map) = (writer.builder(), Vec::new());
        without_rows.into_values().for_each(|file| builder.add_file(file, Vec::new()));
        builder.finish(FileId::random(), &mut map)?;
        parts.push(map.into());
    }
    writer.add_maps(CUT, parts, move |file| !changed.contains_key(&file)).await.map(|map| map.entries).map_err(external)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_that_one_answer_leaves_out_makes_no_other_version() {
        let meta = |tag: Option<&str>, size| ObjectMeta {
            location: "data/a.parquet".into(),
            last_modified: std::time::SystemTime::UNIX_EPOCH.into(),
            size,
            e_tag: tag.map(str::to_owned),
            version: None,
        };
        let listed = meta(None, 7);
        assert!(is_same_version(&listed, &meta(Some("\"a\""), 7)) && is_same_version(&listed, &listed));
        assert!(is_same_version(&meta(Some("a"), 7), &meta(Some("\"a\""), 7)));
        assert!(!is_same_version(&meta(Some("b"), 7), &meta(Some("\"a\""), 7)));
        assert!(!is_same_version(&listed, &meta(None, 8)));
    }
}
