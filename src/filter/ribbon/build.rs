//! Building a filter, layer by layer and section by section.

use super::band::{Candidate, Section, WHOLE_BUCKET};
use super::columns::Columns;
use super::equation::{bumping_start, final_layer_hash, final_start, next_layer_hash};
use super::plan::{SECTION_SLOTS, bumping_blocks, bumps, final_blocks};
use super::shape::{BUCKET_SLOTS, Layer, LayerRole, RibbonShape, THRESHOLDS};
use super::solve::solve;
use crate::codec::AlignedBuffer;
use crate::filter::FilterShape;
use crate::hash::KeyHash;

/// Salts of the final layer tried at each size.
const SALTS: u32 = 16;

/// A finished payload and its shape.
#[derive(Debug)]
pub(crate) struct BuiltRibbon {
    pub(crate) shape: RibbonShape,
    pub(crate) payload: AlignedBuffer,
    /// Attempts at the final layer.
    pub(crate) attempts: u32,
    /// The most bytes held at once, the input hashes not included.
    pub(crate) peak_bytes: u64,
}

/// Why there is no payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RibbonFailure {
    /// More keys than the format has room for.
    TooManyKeys,
    /// The system gave no memory.
    NoMemory,
    /// Every attempt at the final layer met a contradiction.
    AttemptsExhausted,
}

/// Builds the filter of distinct, ascending `hashes`, in at most `max_attempts` attempts at its final
/// layer; `tail_capacity` bytes are kept free behind the payload.
///
/// Each layer is solved into its own buffer, because where the later ones lie in the payload is known
/// only when the earlier ones are done.
pub(crate) fn build(
    hashes: &[KeyHash],
    columns: Columns,
    max_attempts: u32,
    tail_capacity: usize,
) -> Result<BuiltRibbon, RibbonFailure> {
    let mut work = Work { columns, section: Section::default(), bumping: Vec::new(), peak_bytes: 0 };
    let mut pending: Option<Vec<u64>> = None;
    let mut keys = hashes.len() as u64;
    while bumps(keys, work.bumping.len()) {
        let blocks = bumping_blocks(keys).ok_or(RibbonFailure::TooManyKeys)?;
        let bumped = match pending.take() {
            None => work.bumping_layer(hashes.iter().map(|hash| hash.get()), blocks),
            Some(mut below) => {
                below.iter_mut().for_each(|hash| *hash = next_layer_hash(*hash));
                below.sort_unstable();
                work.bumping_layer(below.into_iter(), blocks)
            }
        };
        let bumped = bumped.ok_or(RibbonFailure::NoMemory)?;
        keys = bumped.len() as u64;
        pending = Some(bumped);
    }
    let left = pending.unwrap_or_else(|| hashes.iter().map(|hash| hash.get()).collect());
    let last = work.final_layer(&left, max_attempts)?;
    work.assemble(&last, tail_capacity)
}

/// A layer's columns, and its thresholds if it bumps.
#[derive(Debug)]
struct SolvedLayer {
    blocks: u32,
    columns: Vec<u8>,
    thresholds: Vec<u64>,
}

/// The final layer, and what it took.
#[derive(Debug)]
struct SolvedFinal {
    layer: SolvedLayer,
    salt: u8,
    attempts: u32,
}

/// What the layers of one filter share while they are built.
#[derive(Debug)]
struct Work {
    columns: Columns,
    section: Section,
    bumping: Vec<SolvedLayer>,
    peak_bytes: u64,
}

impl Work {
    /// Builds a bumping layer of the ascending `hashes`, and returns those that it passes on.
    fn bumping_layer(&mut self, hashes: impl Iterator<Item = u64>, blocks: u32) -> Option<Vec<u64>> {
        let layer = Layer::alone(self.columns, blocks, LayerRole::Bumping);
        let mut columns = zeroed(layer.words(self.columns))?;
        let mut thresholds = vec![0_u64; usize::try_from(layer.threshold_words()).ok()?];
        let mut keys = hashes.map(|hash| Candidate { hash, start: bumping_start(hash, layer.slots) }).peekable();
        let (mut bucket_keys, mut bumped) = (Vec::new(), Vec::new());
        for first_slot in steps(0, layer.slots, SECTION_SLOTS) {
            let end_slot = layer.slots.min(first_slot + SECTION_SLOTS);
            self.section.reset(first_slot, end_slot);
            for bucket_start in steps(first_slot, end_slot, BUCKET_SLOTS) {
                let bucket_end = bucket_start + BUCKET_SLOTS;
                bucket_keys.clear();
                while let Some(key) = keys.next_if(|key| key.start < bucket_end) {
                    bucket_keys.push(key);
                }
                // Nothing may cross from one section into the next.
                let is_wall = bucket_end == end_slot && end_slot < layer.slots;
                let code = if is_wall {
                    WHOLE_BUCKET
                } else {
                    self.section.band_bucket(bucket_start, &bucket_keys, self.columns.result_mask())
                };
                set_threshold(&mut thresholds, bucket_start / BUCKET_SLOTS, code);
                let threshold = bucket_start + u64::from(THRESHOLDS[usize::from(code)]);
                bumped.extend(bucket_keys.iter().take_while(|key| key.start < threshold).map(|key| key.hash));
            }
            solve(&self.section, first_slot, &layer, self.columns, &mut columns);
        }
        self.note_peak(columns.len() + (bumped.capacity() + thresholds.len()) * 8);
        self.bumping.push(SolvedLayer { blocks, columns, thresholds });
        Some(bumped)
    }

    /// Builds the layer that must take all of `hashes`, trying salts and then more slots.
    fn final_layer(&mut self, hashes: &[u64], max_attempts: u32) -> Result<SolvedFinal, RibbonFailure> {
        let least_blocks = final_blocks(hashes.len() as u64).ok_or(RibbonFailure::TooManyKeys)?;
        let mut keys = Vec::with_capacity(hashes.len());
        for attempt in 0..max_attempts {
            let salt = (attempt % SALTS) as u8;
            let blocks = least_blocks.checked_add(attempt / SALTS).ok_or(RibbonFailure::TooManyKeys)?;
            let layer = Layer::alone(self.columns, blocks, LayerRole::Final);
            keys.clear();
            keys.extend(hashes.iter().map(|&hash| {
                let hash = final_layer_hash(hash, salt);
                Candidate { hash, start: final_start(hash, layer.slots) }
            }));
            keys.sort_unstable_by_key(|key| key.start);
            if self.band_all(&layer, &keys) {
                let mut columns = zeroed(layer.words(self.columns)).ok_or(RibbonFailure::NoMemory)?;
                solve(&self.section, 0, &layer, self.columns, &mut columns);
                self.note_peak(columns.len() + keys.capacity() * size_of::<Candidate>() + size_of_val(hashes));
                let layer = SolvedLayer { blocks, columns, thresholds: Vec::new() };
                return Ok(SolvedFinal { layer, salt, attempts: attempt + 1 });
            }
        }
        Err(RibbonFailure::AttemptsExhausted)
    }

    /// Bands all of `keys` in one section; `false` at the first contradiction.
    fn band_all(&mut self, layer: &Layer, keys: &[Candidate]) -> bool {
        self.section.reset(0, layer.slots);
        let mask = self.columns.result_mask();
        keys.chunk_by(|left, right| left.start / BUCKET_SLOTS == right.start / BUCKET_SLOTS).all(|bucket_keys| {
            let bucket_start = bucket_keys.first().map_or(0, |key| key.start / BUCKET_SLOTS * BUCKET_SLOTS);
            self.section.band_bucket(bucket_start, bucket_keys, mask) == 0
        })
    }

    /// Puts the layers together.
    fn assemble(mut self, last: &SolvedFinal, tail_capacity: usize) -> Result<BuiltRibbon, RibbonFailure> {
        let layers = || self.bumping.iter().chain([&last.layer]);
        let blocks: Vec<u32> = layers().map(|layer| layer.blocks).collect();
        let shape = RibbonShape::new(self.columns, &blocks, last.salt).ok_or(RibbonFailure::TooManyKeys)?;
        let mut payload = AlignedBuffer::empty(shape.payload_bytes(), tail_capacity).ok_or(RibbonFailure::NoMemory)?;
        layers().for_each(|layer| payload.append(&layer.columns));
        layers().flat_map(|layer| &layer.thresholds).for_each(|word| payload.append(&word.to_le_bytes()));
        self.note_peak(payload.as_slice().len());
        Ok(BuiltRibbon { shape, payload, attempts: last.attempts, peak_bytes: self.peak_bytes })
    }

    /// Counts what is held now: the section, the layers that are done, and `more`.
    fn note_peak(&mut self, more: usize) {
        let done: usize = self.bumping.iter().map(|layer| layer.columns.len() + layer.thresholds.len() * 8).sum();
        self.peak_bytes = self.peak_bytes.max(self.section.bytes() + (done + more) as u64);
    }
}

/// Multiples of `step` away from `first`, below `end`.
fn steps(first: u64, end: u64, step: u64) -> impl Iterator<Item = u64> {
    core::iter::successors(Some(first), move |at| at.checked_add(step)).take_while(move |&at| at < end)
}

/// Room for `words` words; `None` when there is no such memory.
fn zeroed(words: u64) -> Option<Vec<u8>> {
    let bytes = usize::try_from(words.checked_mul(8)?).ok()?;
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(bytes).ok()?;
    buffer.resize(bytes, 0);
    Some(buffer)
}

/// Sets the two bits of a bucket.
fn set_threshold(thresholds: &mut [u64], bucket: u64, code: u8) {
    if let Some(word) = usize::try_from(bucket / 32).ok().and_then(|index| thresholds.get_mut(index)) {
        *word |= u64::from(code) << (bucket % 32 * 2);
    }
}
