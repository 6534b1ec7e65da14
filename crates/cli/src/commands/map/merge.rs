//! `sstfilter map merge`: merges maps without reading keys.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use sstfilter::FileId;
use sstfilter_map::MapOptions;

use super::target::{Target, WrittenMap};
use crate::file::context::Context;
use crate::file::look::look_at;
use crate::file::map::OpenMap;
use crate::file::walk::{Found, Walk, is_directory};
use crate::model::keys::{Source, id_text, parse_fingerprint};
use crate::print::{Outcome, note};
use crate::system::interrupt;
use crate::words::units::grouped;

#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// Maps, which must keep the same bits of the same hash
    #[arg(value_name = "MAP", required = true)]
    maps: Vec<PathBuf>,

    /// Cover only these files: tables, lists of keys, directories of either, or the fingerprints of ids that `inspect`
    /// prints. Files that are gone are dropped
    #[arg(long, value_name = "ID|PATH", num_args = 1..)]
    keep: Vec<PathBuf>,

    /// Files that the result does not cover: fingerprints of their ids
    #[arg(long, value_name = "ID", num_args = 1.., value_parser = parse_fingerprint)]
    drop: Vec<FileId>,

    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(args: &MergeArgs, context: &Context) -> anyhow::Result<(Outcome, WrittenMap)> {
    args.target.ensure_free(args.maps.iter().chain(&args.keep).map(PathBuf::as_path))?;
    let open = |path: &PathBuf| OpenMap::open(path).context("without this map, the result would not cover its files");
    let maps: Vec<_> = args.maps.iter().map(open).collect::<anyhow::Result<_>>()?;
    let [first, others @ ..] = &maps[..] else { bail!("expected a map") };
    for map in &maps {
        let is_of_files = map.index.writes().is_empty();
        ensure!(is_of_files, "{}: expected a map of files, got one of writes, which a store merges", map.name());
    }
    for other in others {
        let (expected, got) = (first.index.hash_identity(), other.index.hash_identity());
        let (name, of) = (other.name(), first.name());
        ensure!(expected == got, "{name}: expected a map of the hash of {of}, {expected}, got {got}");
    }
    let covered: HashSet<_> =
        maps.iter().flat_map(|map| map.index.files()).map(|covered| covered.file.fingerprint()).collect();
    let stated = |id: FileId| {
        if !covered.contains(&id.fingerprint()) {
            note(&format!("note: no map covers {}", id_text(id)));
        }
        id.fingerprint()
    };
    let dropped: HashSet<_> = args.drop.iter().copied().map(stated).collect();
    let (mut kept, mut problems) = (HashSet::new(), Vec::new());
    for path in &args.keep {
        if let Some(id) = path.to_str().and_then(|text| parse_fingerprint(text).ok()) {
            kept.insert(stated(id));
            continue;
        }
        for source in sources_at(path)? {
            match source.open(context) {
                Ok(open) => drop(kept.insert(open.id.fingerprint())),
                Err(problem) => problems.push((source.found.path, problem)),
            }
        }
    }
    let keeps = |file: u64| (args.keep.is_empty() || kept.contains(&file)) && !dropped.contains(&file);
    let kept_files = covered.iter().filter(|&&file| keeps(file)).count();
    let all = grouped(covered.len() as u64);
    ensure!(kept_files > 0, "no covered file is kept: expected at least one of {all}");
    let options = args.target.options(MapOptions::with_prefix_bits(first.index.prefix_bits())?)?;
    let _writing = interrupt::writing();
    let written = args.target.merge(&maps, options, |file| keeps(file.fingerprint()))?;
    let (outcome, report) = args.target.report(&written, &problems)?;
    Ok((outcome, WrittenMap { dropped_files: Some((covered.len() - kept_files) as u64), ..report }))
}

/// Returns the tables and lists of keys at a path.
fn sources_at(path: &Path) -> anyhow::Result<Vec<Source>> {
    if is_directory(path)? {
        return match Walk::of(&[path.to_owned()]) {
            Ok(walk) => Ok([Source::tables(&walk.files).0, Source::lists(&walk.others)?].concat()),
            // It has no table.
            Err(_) => Source::lists(&[path.to_owned()]),
        };
    }
    if look_at(path)?.is_table() {
        return Ok(Source::tables(&[Found::alone(path)]).0);
    }
    Source::lists(&[path.to_owned()])
}
