//! Builds a filter, layer by layer.

use alloc::vec::Vec;

use super::band::Section;
use super::columns::Columns;
use super::equation::{SMASH, final_layer_hash, next_layer_hash};
use super::layer::Layer;
use super::section::{SECTION_SLOTS, bucket_starts, run_all, section_bytes, solve_section, split_into_sections};
use super::shape::{RibbonShape, bumping_blocks, bumps, final_blocks, payload_reserve};
use crate::codec::AlignedBuffer;
use crate::filter::{BuildResult, BuiltPayload, FallbackReason, FilterShape};
use crate::hash::{KeyHash, sort_hashes};

/// The salts of the final layer that are tried at each size: all that four bits can record.
const SALTS: u32 = 16;

/// Builds the filter of distinct, ascending `hashes`, with at most `max_attempts` at its final layer, on up to
/// `threads` threads. `section` is scratch memory, reused between builds.
pub(crate) fn build(
    hashes: &[KeyHash],
    columns: Columns,
    max_attempts: u32,
    threads: usize,
    section: &mut Section,
) -> BuildResult<RibbonShape> {
    let reserve = payload_reserve(hashes.len() as u64, columns).ok_or(FallbackReason::TooManyKeys)?;
    let payload = AlignedBuffer::empty(reserve).ok_or(FallbackReason::MemoryBudget)?;
    let mut work =
        Work { columns, threads, section, payload, blocks: Vec::new(), thresholds: Vec::new(), peak_bytes: 0 };
    let mut bumped: Option<Vec<KeyHash>> = None;
    loop {
        let keys = bumped.as_deref().unwrap_or(hashes);
        if !bumps(keys.len() as u64, work.blocks.len()) {
            return work.finish(keys, max_attempts);
        }
        let mut passed_on = work.bumping_layer(keys)?;
        if bumps(passed_on.len() as u64, work.blocks.len()) {
            // A final layer maps the hashes itself, with each salt that it tries.
            passed_on.iter_mut().for_each(|hash| *hash = map_hash(*hash, next_layer_hash));
            work.sort(&mut passed_on);
        }
        bumped = Some(passed_on);
    }
}

/// The state that the layers of one filter share during a build.
#[derive(Debug)]
struct Work<'a> {
    columns: Columns,
    threads: usize,
    section: &'a mut Section,
    /// The columns of the layers so far.
    payload: AlignedBuffer,
    /// The blocks of the layers so far.
    blocks: Vec<u32>,
    /// The thresholds of the layers so far. They are appended last, because the columns of all layers come first in a
    /// payload.
    thresholds: Vec<u64>,
    peak_bytes: u64,
}

impl Work<'_> {
    /// Builds a bumping layer of ascending `keys`, and returns the bumped keys, ascending.
    fn bumping_layer(&mut self, keys: &[KeyHash]) -> Result<Vec<KeyHash>, FallbackReason> {
        let blocks = bumping_blocks(keys.len() as u64).ok_or(FallbackReason::TooManyKeys)?;
        let layer = Layer::alone(self.columns, blocks, 0);
        let words = self.payload.append_zeroed(layer.words(self.columns) * 8).ok_or(FallbackReason::MemoryBudget)?;
        let first_threshold = self.thresholds.len();
        let threshold_words = usize::try_from(layer.threshold_words()).map_err(|_| FallbackReason::TooManyKeys)?;
        self.thresholds.resize(first_threshold + threshold_words, 0);
        let thresholds = &mut self.thresholds[first_threshold..];
        let tasks = split_into_sections(layer, self.columns, keys, words.as_chunks_mut().0, thresholds);
        // 4.1 % of the keys are bumped; a sixteenth is 6.25 %.
        let mut bumped = Vec::with_capacity(keys.len() / 16);
        let sections = usize::try_from(layer.slots.div_ceil(SECTION_SLOTS)).unwrap_or(usize::MAX);
        let threads = self.threads.clamp(1, sections);
        run_all(tasks, self.section, &mut bumped, threads);
        self.blocks.push(blocks);
        // Sections that run in parallel first collect their bumped keys separately.
        let copies = if threads > 1 { 2 } else { 1 };
        let more_sections = (threads - 1) * usize::try_from(section_bytes(layer.slots)).unwrap_or(usize::MAX);
        self.note_peak(copies * bumped.capacity() * size_of::<KeyHash>() + more_sections);
        Ok(bumped)
    }

    /// Builds the final layer, which must take all of `hashes`, and appends the thresholds. Tries all salts before it
    /// adds slots.
    fn finish(mut self, hashes: &[KeyHash], max_attempts: u32) -> BuildResult<RibbonShape> {
        let min_blocks = final_blocks(hashes.len() as u64).ok_or(FallbackReason::TooManyKeys)?;
        let mut keys = Vec::with_capacity(hashes.len());
        for attempt in 0..max_attempts {
            let salt = (attempt % SALTS) as u8;
            let blocks = min_blocks.checked_add(attempt / SALTS).ok_or(FallbackReason::TooManyKeys)?;
            let layer = Layer::alone(self.columns, blocks, SMASH);
            keys.clear();
            keys.extend(hashes.iter().map(|&hash| map_hash(hash, |hash| final_layer_hash(hash, salt))));
            // Sorted for each salt, because each maps the hashes to another order.
            self.sort(&mut keys);
            if self.band_all(&layer, &keys) {
                let words = self.payload.append_zeroed(layer.words(self.columns) * 8);
                let words = words.ok_or(FallbackReason::MemoryBudget)?;
                solve_section(self.section, 0, &layer, self.columns, words.as_chunks_mut().0);
                self.blocks.push(blocks);
                self.note_peak((keys.capacity() + hashes.len()) * size_of::<KeyHash>());
                // Freed first, because appending the thresholds may move the payload.
                drop(keys);
                return self.append_thresholds(salt, attempt + 1);
            }
        }
        Err(FallbackReason::ConstructionFailed)
    }

    /// Bands all of `keys` in one section; returns `false` at the first contradiction.
    fn band_all(&mut self, layer: &Layer, mut keys: &[KeyHash]) -> bool {
        self.section.reset(0, layer.slots);
        bucket_starts(0, layer.slots).all(|bucket_start| {
            let banded = self.section.band_bucket(bucket_start, keys, layer, self.columns.result_mask());
            keys = &keys[banded.keys..];
            banded.code == 0
        })
    }

    /// Appends the thresholds to the columns.
    fn append_thresholds(mut self, salt: u8, attempts: u32) -> BuildResult<RibbonShape> {
        let shape = RibbonShape::new(self.columns, &self.blocks, salt).ok_or(FallbackReason::TooManyKeys)?;
        let length = self.payload.as_slice().len() + self.thresholds.len() * 8;
        self.payload.reserve(length).ok_or(FallbackReason::MemoryBudget)?;
        self.thresholds.iter().for_each(|word| self.payload.append(&word.to_le_bytes()));
        debug_assert_eq!(self.payload.as_slice().len() as u64, shape.payload_bytes());
        self.note_peak(0);
        Ok(BuiltPayload { shape, payload: self.payload, attempts, peak_bytes: self.peak_bytes })
    }

    fn sort(&mut self, hashes: &mut [KeyHash]) {
        let bytes = sort_hashes(hashes, self.threads, u64::MAX);
        self.note_peak(size_of_val(hashes) + usize::try_from(bytes).unwrap_or(usize::MAX));
    }

    /// Updates the peak with the bytes held now: the section, the finished layers, and `more`.
    fn note_peak(&mut self, more: usize) {
        let layers = self.payload.capacity() + self.thresholds.capacity() * 8;
        self.peak_bytes = self.peak_bytes.max(self.section.bytes() + (layers + more) as u64);
    }
}

fn map_hash(hash: KeyHash, map: impl Fn(u64) -> u64) -> KeyHash {
    KeyHash::from_well_mixed(map(hash.get()))
}
