//! `sstfilter map`: file maps, each of which says which of many files may have a key.

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
}

pub(crate) fn run(
    command: &MapCommand,
    format: KeysFormat,
    reading: Reading<'_>,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    match command {
        MapCommand::Probe(args) => probe::run(args, format, reading, output),
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
