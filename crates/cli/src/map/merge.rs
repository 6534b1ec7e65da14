//! `sstfilter map merge`: merges maps without reading keys.

use core::fmt;
use std::collections::HashSet;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Args;
use serde::Serialize;
use sstfilter::FileId;
use sstfilter_map::{MapMerge, MapOptions, MapReport};

use super::sources::{FileArgs, parse_fingerprint};
use super::{LayoutArgs, OpenMap, Target, Written, id_text};
use crate::left_out::LeftOut;
use crate::opened::Reading;
use crate::output::{Outcome, note};
use crate::{interrupt, progress, units};

#[derive(Debug, Args)]
#[command(mut_arg("tables", |arg| arg.help(KEPT)), mut_arg("key_lists", |arg| arg.help("The same, for lists of keys")))]
pub(crate) struct MergeArgs {
    /// Maps, which must keep the same bits of the same hash
    #[arg(value_name = "MAP", required = true)]
    maps: Vec<PathBuf>,

    #[command(flatten)]
    target: Target,

    /// Files that the result does not cover: fingerprints of their ids, as `map info --files` prints them
    #[arg(long, value_name = "ID", num_args = 1.., value_parser = parse_fingerprint)]
    drop: Vec<FileId>,

    /// The only files that the result covers
    #[arg(long, value_name = "ID", num_args = 1.., value_parser = parse_fingerprint)]
    keep_only: Vec<FileId>,

    #[command(flatten)]
    files: FileArgs,

    #[command(flatten)]
    layout: LayoutArgs,
}

const KEPT: &str = "\
Keep only the files of these tables, or of directories of them: tables that are gone are dropped";

#[derive(Debug, Serialize)]
pub(super) struct Merged {
    #[serde(flatten)]
    written: Written,
    /// Covered files of the maps, each counted once, that the result does not cover.
    dropped_files: usize,
    left_out: Vec<LeftOut>,
}

pub(super) fn run(args: &MergeArgs, reading: Reading<'_>) -> anyhow::Result<(Outcome, Merged)> {
    args.target.ensure_free(args.maps.iter().map(PathBuf::as_path))?;
    let maps: Vec<_> = args
        .maps
        .iter()
        .map(|path| OpenMap::open(path).context("without this map, the result would not cover its files"))
        .collect::<anyhow::Result<_>>()?;
    ensure_alike(&maps)?;
    let (names, left_out) = args.files.names(reading)?;
    let mut kept: HashSet<u64> = names.into_keys().collect();
    kept.extend(args.keep_only.iter().map(|id| id.fingerprint()));
    let keeps_all = kept.is_empty();
    let dropped: HashSet<u64> = args.drop.iter().map(|id| id.fingerprint()).collect();
    let covered: HashSet<u64> =
        maps.iter().flat_map(|map| map.index.files()).map(|covered| covered.file.fingerprint()).collect();
    for id in args.drop.iter().chain(&args.keep_only).filter(|id| !covered.contains(&id.fingerprint())) {
        note(&format!("note: no map covers {}", id_text(*id)));
    }
    let keeps = |file: u64| (keeps_all || kept.contains(&file)) && !dropped.contains(&file);
    let kept_files = covered.iter().filter(|&&file| keeps(file)).count();
    ensure!(
        kept_files > 0,
        "no covered file is kept: expected at least one of {}",
        units::grouped(covered.len() as u64)
    );
    let bits = maps.first().map_or(0, |map| map.index.prefix_bits());
    let options = args.layout.apply(MapOptions::with_prefix_bits(bits)?)?;
    let _writing = interrupt::writing();
    let report = merge_all(&maps, options, &args.target, |file| keeps(file.fingerprint()))?;
    // A damaged page is the only reason for an unknown one, but for pages that were unknown before.
    let outcome = LeftOut::outcome(&left_out).max(Outcome::from_sound(report.unknown_pages == 0));
    let written = Written::new(&args.target, report)?;
    Ok((outcome, Merged { written, dropped_files: covered.len() - kept_files, left_out }))
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

/// Merges the maps with the files for which `keep` returns true. Call it only while [`interrupt::writing`] is held.
pub(super) fn merge_all(
    maps: &[OpenMap],
    options: MapOptions,
    target: &Target,
    keep: impl Fn(FileId) -> bool,
) -> anyhow::Result<MapReport> {
    let bar = progress::bytes("merging maps", maps.iter().map(|map| map.file.length).sum());
    let mut merge = MapMerge::new(options);
    for map in maps {
        let read = |range: core::ops::Range<u64>| {
            bar.inc(range.end - range.start);
            map.read(range)
        };
        merge.add_some(map.index.clone(), read, &keep).with_context(|| map.name().into_owned())?;
    }
    target.write(|id, sink| merge.finish(id, sink))
}

impl fmt::Display for Merged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.written)?;
        if self.dropped_files > 0 {
            writeln!(f, "{} dropped", units::counted(self.dropped_files as u64, "file"))?;
        }
        for line in LeftOut::lines(&self.left_out, "no file to keep") {
            writeln!(f, "{line}")?;
        }
        self.written.unknown_line().into_iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}
