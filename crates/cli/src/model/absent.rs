//! Keys that no table has, on which filters are measured: those of a file, or keys made from stored ones.

use core::ops::ControlFlow;
use std::collections::HashSet;
use std::path::Path;

use anyhow::bail;

use super::batch::KeyBatch;
use super::file::Observed;
use super::keys::for_each_key;
use super::probe::{Because, FileProbe};
use crate::file::key_list::KeyLines;
use crate::file::open::{Context, Opened};
use crate::print::types::Rate;
use crate::system::input;
use crate::words::escape::hex;
use crate::words::units::{counted, grouped, margin};

/// Maximum number of keys that are made. At a rate of 1 % on each of seven levels, they measure it to about a tenth of
/// itself.
const MADE_KEYS: usize = 50_000;

/// Maximum bytes of the keys that are made, because a key may have megabytes.
const MADE_BYTES: usize = 64 << 20;

/// Bytes that make a stored key an absent one.
const SUFFIX: [u8; 2] = *b"\xff\xa5";

/// Keys are stored ones, and not absent, if far more pass the filter than should.
const SUSPICIOUS: f64 = 10.0;

/// The rate that is expected of a filter whose shape does not tell it.
const USUAL_FPR: f64 = 0.05;

/// Number of keys that are looked up in a table.
const SAMPLED: usize = 100;

/// Keys that no table has.
#[derive(Clone, Debug)]
pub(crate) struct AbsentKeys {
    pub(crate) keys: Vec<Vec<u8>>,
    /// Where the keys are from, as a clause.
    pub(crate) from: String,
    /// Whether they are made from stored keys. Such keys cannot measure filters of prefixes, which they share.
    pub(crate) is_made: bool,
}

impl AbsentKeys {
    /// Reads the file of `--absent`.
    pub(crate) fn given(path: &Path, context: &Context) -> anyhow::Result<Self> {
        let lines = KeyLines::read(path, context.keys_format, "--absent")?;
        let keys: Vec<_> = lines.iter().map(|(key, _)| key.to_vec()).collect();
        let count = counted(keys.len() as u64, "key");
        Ok(Self { keys, from: format!("{count} of {} (--absent)", input::name(path)), is_made: false })
    }

    /// Joins keys that [`Maker`] made.
    pub(crate) fn made(keys: impl IntoIterator<Item = Vec<u8>>, maker: Maker) -> Self {
        let mut keys: Vec<_> = keys.into_iter().collect();
        // Overlapping tables may have the same key, which counts once.
        keys.sort_unstable();
        keys.dedup();
        let from = match keys.len() as u64 {
            0 => "none, because none could be made from stored keys: pass some with --absent".to_owned(),
            made => format!(
                "{} made from stored ones: up to {} of each table, from its smallest key on, with two bytes ({}) added",
                counted(made, "key"),
                grouped(maker.max_keys as u64),
                hex(&SUFFIX)
            ),
        };
        Self { keys, from, is_made: true }
    }

    /// Returns what the filter answered. Fails if keys of the batch that passed it are stored in the file.
    pub(crate) fn observe(probe: &FileProbe, batch: &KeyBatch<'_>, opened: &Opened) -> anyhow::Result<Observed> {
        let observed = Observed::of(probe);
        let rate = observed.observed_fpr.as_ref().map_or(0.0, |rate| rate.0);
        if rate <= SUSPICIOUS * probe.expected_fpr.unwrap_or(USUAL_FPR) {
            return Ok(observed);
        }
        let passed = probe.candidates.iter().filter(|(because, _)| *because == Because::Filter);
        let passed: Vec<_> = passed.flat_map(|(_, positions)| positions).collect();
        let sampled = passed.iter().step_by(passed.len().div_ceil(SAMPLED));
        let sample: HashSet<&[u8]> = sampled.map(|&at| batch.keys[at as usize]).collect();
        let mut stored = HashSet::<&[u8]>::new();
        // A table whose keys cannot be read does not show that they are stored.
        let _ = for_each_key(opened, &mut |key| {
            stored.extend(sample.get(key));
            ControlFlow::Continue(())
        });
        if stored.is_empty() {
            return Ok(observed);
        }
        let (stored, keys) = (stored.len(), counted(sample.len() as u64, "key"));
        let of = format!("{stored} of {keys} that pass the filter of {}", input::name(&opened.found.path));
        bail!("--absent: expected keys that no table has, got stored ones: {of}")
    }
}

impl Observed {
    /// Returns what the filter answered for absent keys.
    pub(crate) fn of(probe: &FileProbe) -> Self {
        let (probes, positives) = (probe.probes(), probe.positives());
        let rate = |rate: f64| (probes > 0).then_some(Rate(rate));
        Self {
            probes,
            not_probed: probe.count(Because::NotCovered),
            positives,
            observed_fpr: rate(positives as f64 / probes as f64),
            observed_fpr_margin: rate(margin(positives, probes)),
        }
    }
}

/// Makes absent keys from the first keys of tables: reading all keys would take as long as `verify`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Maker {
    max_keys: usize,
    max_bytes: usize,
}

impl Maker {
    /// Returns a maker that takes the same number of keys from each table, so that each level is measured.
    pub(crate) fn for_tables(tables: usize) -> Self {
        let tables = tables.max(1);
        Self { max_keys: MADE_KEYS.div_ceil(tables), max_bytes: MADE_BYTES / tables }
    }

    /// Adds keys that are made from those of a table. Returns the number of its keys if all are read, to be counted.
    pub(crate) fn make(self, opened: &Opened, is_counting: bool, made: &mut Vec<Vec<u8>>) -> anyhow::Result<u64> {
        let (mut keys, mut bytes) = (0, 0);
        for_each_key(opened, &mut |key| {
            keys += 1;
            bytes += key.len();
            let is_enough = keys > self.max_keys as u64 || bytes > self.max_bytes;
            if !is_enough {
                made.push([key, &SUFFIX].concat());
            }
            if is_enough && !is_counting { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(keys)
    }
}
