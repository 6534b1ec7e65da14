//! `sstfilter map merge`: merges maps without reading keys.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::Args;
use sstfilter::FileId;
use sstfilter_map::MapOptions;

use super::target::{LeftOut, Target, WrittenMap};
use crate::file::context::Context;
use crate::file::key_list::KeysFormat;
use crate::file::look::{Look, look_at};
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
    ensure_alike(&maps)?;
    let (mut kept, mut stated, mut problems) = (HashSet::new(), args.drop.clone(), Vec::new());
    for path in &args.keep {
        if let Some(id) = path.to_str().and_then(|text| parse_fingerprint(text).ok()) {
            kept.insert(id.fingerprint());
            stated.push(id);
            continue;
        }
        for source in sources_at(path)? {
            match source.open(context) {
                Ok(open) => drop(kept.insert(open.id.fingerprint())),
                Err(problem) => problems.push((source.found.path, problem)),
            }
        }
    }
    let dropped: HashSet<_> = args.drop.iter().map(|id| id.fingerprint()).collect();
    let covered: HashSet<_> =
        maps.iter().flat_map(|map| map.index.files()).map(|covered| covered.file.fingerprint()).collect();
    for id in stated.iter().filter(|id| !covered.contains(&id.fingerprint())) {
        note(&format!("note: no map covers {}", id_text(*id)));
    }
    let keeps = |file: u64| (args.keep.is_empty() || kept.contains(&file)) && !dropped.contains(&file);
    let kept_files = covered.iter().filter(|&&file| keeps(file)).count();
    let all = grouped(covered.len() as u64);
    ensure!(kept_files > 0, "no covered file is kept: expected at least one of {all}");
    let bits = maps.first().map_or(0, |map| map.index.prefix_bits());
    let options = args.target.options(MapOptions::with_prefix_bits(bits)?)?;
    let _writing = interrupt::writing();
    let written = args.target.merge(&maps, options, |file| keeps(file.fingerprint()))?;
    let left_out = LeftOut::new("no file to keep", &problems);
    // A damaged page is the only reason for an unknown one, but for pages that were unknown before.
    let outcome = left_out.outcome.max(Outcome::from_sound(written.unknown_pages == 0));
    let dropped_files = Some((covered.len() - kept_files) as u64);
    Ok((outcome, WrittenMap { dropped_files, ..args.target.report(&written, left_out)? }))
}

/// Returns the tables and lists of keys at a path.
fn sources_at(path: &Path) -> anyhow::Result<Vec<Source>> {
    // The ids of lists do not depend on the format of their keys.
    let lists = |paths: &[PathBuf]| Source::lists(paths, KeysFormat::default());
    if is_directory(path)? {
        return match Walk::of(&[path.to_owned()]) {
            Ok(walk) => Ok([Source::tables(&walk.files).0, lists(&walk.others)?].concat()),
            // It has no table.
            Err(_) => lists(&[path.to_owned()]),
        };
    }
    match look_at(path)? {
        Look::Table | Look::Foreign(_) => Ok(Source::tables(&[Found::alone(path)]).0),
        _ => lists(&[path.to_owned()]),
    }
}

/// Fails if maps cannot be merged, and names two that differ.
fn ensure_alike(maps: &[OpenMap]) -> anyhow::Result<()> {
    for map in maps {
        let is_of_files = map.index.writes().is_empty();
        ensure!(is_of_files, "{}: expected a map of files, got one of writes, which a store merges", map.name());
    }
    for pair in maps.windows(2) {
        let [one, other] = pair else { continue };
        let (name, first) = (other.name(), one.name());
        let (expected, got) = (one.index.prefix_bits(), other.index.prefix_bits());
        ensure!(
            expected == got,
            "{name}: expected a map that keeps {expected} bits of a hash, as {first} does, got {got}: build it with \
             --bits {expected}"
        );
        let (expected, got) = (one.index.hash_identity(), other.index.hash_identity());
        ensure!(expected == got, "{name}: expected a map of the hash of {first}, {expected}, got {got}");
    }
    Ok(())
}
