//! `sstfilter map`: file maps, each of which says which of many files may have a key.

mod info;
mod probe;
mod sources;

use core::fmt;
use std::path::PathBuf;

use clap::Subcommand;
use serde::Serialize;
use sstfilter::FileId;

pub(crate) use crate::file::map::{Answer, KEYS_AT_ONCE, MapReader, OpenMap};
use crate::left_out::LeftOut;
use crate::lines::KeysFormat;
use crate::opened::{self, Reading};
use crate::output::{Outcome, Output, explained};
use crate::units::{self, grouped};

#[derive(Debug, Subcommand)]
pub(crate) enum MapCommand {
    /// Look up keys: which of the covered files may have them. Reads one page of each map per key
    Probe(probe::ProbeMapArgs),
    /// Show ids, sizes and rates of maps, and with --files the files that they cover. Pages are not checked:
    /// `verify` does that
    Info(info::InfoArgs),
}

pub(crate) fn run(
    command: &MapCommand,
    format: KeysFormat,
    reading: Reading<'_>,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    match command {
        MapCommand::Probe(args) => probe::run(args, format, reading, output),
        MapCommand::Info(args) => output.report(info::run(args, reading)?),
    }
}

/// Opens all maps. A map that is damaged is left out: it covers nothing.
fn open_maps(paths: &[PathBuf]) -> (Vec<OpenMap>, Vec<LeftOut>) {
    let (mut maps, mut left_out) = (Vec::new(), Vec::new());
    for path in paths {
        match OpenMap::open(path) {
            Ok(map) => maps.push(map),
            Err(problem) => {
                left_out.push(LeftOut::new(path, &explained(&problem), opened::outcome_of(&problem)));
            }
        }
    }
    (maps, left_out)
}

/// Returns an id as messages, reports and options show it.
fn id_text(id: FileId) -> String {
    format!("{:#018x}", id.fingerprint())
}

/// Returns a number of files per key, which may be tiny.
fn rate_text(files: f64) -> String {
    // Four decimals would show it as zero.
    if files != 0.0 && files < 0.001 { format!("{files:.1e}") } else { format!("{files:.4}") }
}

fn entries_text(entries: u64) -> String {
    if entries == 1 { "1 entry".to_owned() } else { format!("{} entries", grouped(entries)) }
}

/// The numbers of a map.
#[derive(Debug, Serialize)]
struct MapFields {
    path: String,
    /// Fingerprint of the map's own id.
    map_id: String,
    hash: String,
    covered_files: usize,
    /// Intervals of writes; only of a map of writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    covered_writes: Option<usize>,
    entries: u64,
    bytes: u64,
    /// Null for a map without entries.
    bits_per_entry: f64,
    prefix_bits: u8,
    pages: u64,
    page_bytes: u64,
    /// Files that an absent key is expected to be looked for in.
    expected_false_candidates: f64,
}

impl MapFields {
    fn new(map: &OpenMap) -> Self {
        let (index, first) = (&map.index, map.index.page_range(0));
        Self {
            path: map.name().into_owned(),
            map_id: id_text(index.map_id()),
            hash: index.hash_identity().to_string(),
            covered_files: index.files().len(),
            covered_writes: Some(index.writes().len()).filter(|writes| *writes > 0),
            entries: index.entries(),
            bytes: map.file.length,
            bits_per_entry: map.file.length as f64 * 8.0 / index.entries() as f64,
            prefix_bits: index.prefix_bits(),
            pages: index.pages(),
            page_bytes: first.end - first.start,
            expected_false_candidates: index.expected_false_candidates(),
        }
    }
}

impl fmt::Display for MapFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (files, bytes) = match self.covered_writes {
            Some(writes) => (units::counted(writes as u64, "interval") + " of writes", grouped(self.bytes)),
            None => (units::counted(self.covered_files as u64, "file"), grouped(self.bytes)),
        };
        let entries = entries_text(self.entries);
        write!(f, "{}: file map of {files}, {entries}, {bytes} bytes", self.path)?;
        if self.entries > 0 {
            write!(f, ", {:.2} bits per entry", self.bits_per_entry)?;
        }
        writeln!(f, "\nid: {} (readers pass FileId::from_fingerprint({0}))", self.map_id)?;
        writeln!(f, "hash: {}, of which it keeps {} bits", self.hash, self.prefix_bits)?;
        writeln!(f, "pages: {} of {}", grouped(self.pages), units::bytes(self.page_bytes))?;
        let rate = rate_text(self.expected_false_candidates);
        writeln!(f, "files that an absent key is expected to be looked for in: {rate}")
    }
}
