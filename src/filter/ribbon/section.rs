//! A layer is built in independent sections: each is banded and solved alone, so that only one at a time has its rows
//! in memory.

use alloc::vec::Vec;

use super::band::{Banded, Section, WHOLE_BUCKET};
use super::columns::Columns;
use super::equation::{BUCKET_SLOTS, THRESHOLDS};
use super::layer::Layer;
use super::simd::solve;
use crate::hash::KeyHash;
use crate::threads::share;

/// Slots that are banded and solved together: about 3 MB of rows and results. Every section but the last bumps its last
/// bucket whole, so that no equation crosses into the next; with 2,048 buckets to a section that costs little.
pub(super) const SECTION_SLOTS: u64 = 1 << 18;

/// Buckets whose threshold codes, of two bits each, share a word.
const BUCKETS_PER_WORD: usize = 32;

/// One section of a bumping layer, with its slices of the keys and of the payload.
#[derive(Debug)]
pub(super) struct SectionTask<'a> {
    layer: Layer,
    columns: Columns,
    first_slot: u64,
    end_slot: u64,
    /// The keys that start in the section, ascending.
    keys: &'a [KeyHash],
    /// The destination of its columns.
    words: &'a mut [[u8; 8]],
    /// The destination of its threshold codes.
    thresholds: &'a mut [u64],
}

/// Cuts a bumping layer of ascending `keys` into its sections.
pub(super) fn split_into_sections<'a>(
    layer: Layer,
    columns: Columns,
    mut keys: &'a [KeyHash],
    mut words: &'a mut [[u8; 8]],
    mut thresholds: &'a mut [u64],
) -> impl Iterator<Item = SectionTask<'a>> {
    (0..layer.slots.div_ceil(SECTION_SLOTS)).map(move |index| {
        let first_slot = index * SECTION_SLOTS;
        let end_slot = layer.slots.min(first_slot + SECTION_SLOTS);
        let key_count = keys.partition_point(|hash| layer.start(hash.get()) < end_slot);
        let word_at = |slot: u64| layer.block(slot / 64, columns.upper()).0;
        let word_count = word_at(end_slot) - word_at(first_slot);
        let threshold_count = (end_slot - first_slot).div_ceil(BUCKET_SLOTS * BUCKETS_PER_WORD as u64);
        SectionTask {
            layer,
            columns,
            first_slot,
            end_slot,
            keys: keys.split_off(..key_count).unwrap_or_default(),
            words: split_front(&mut words, word_count),
            thresholds: split_front(&mut thresholds, threshold_count),
        }
    })
}

/// Runs all `tasks`, and appends their bumped keys to `bumped` in the order of the sections, because the bytes must not
/// depend on which thread finishes first.
pub(super) fn run_all<'a>(
    tasks: impl Iterator<Item = SectionTask<'a>>,
    section: &mut Section,
    bumped: &mut Vec<KeyHash>,
    threads: usize,
) {
    if threads <= 1 {
        return tasks.for_each(|task| task.run(section, bumped));
    }
    let tasks: Vec<_> = tasks.collect();
    let mut passed_on: Vec<Vec<KeyHash>> = tasks.iter().map(|_| Vec::new()).collect();
    let tasks = tasks.into_iter().zip(&mut passed_on).collect();
    share(threads, tasks, section, |section, (task, bumped): (SectionTask<'_>, &mut Vec<KeyHash>)| {
        // About 4.1 % of the keys are bumped; a sixteenth is 6.25 %.
        bumped.reserve_exact(task.keys.len() / 16);
        task.run(section, bumped);
    });
    // In the order of the sections, which is the order of the hashes.
    passed_on.iter().for_each(|keys| bumped.extend_from_slice(keys));
}

/// Splits off the first `count` elements of `rest`, or all if there are fewer.
#[expect(clippy::mut_mut, reason = "it is moved along the slice")]
fn split_front<'a, T>(rest: &mut &'a mut [T], count: u64) -> &'a mut [T] {
    let count = usize::try_from(count).unwrap_or(usize::MAX).min(rest.len());
    rest.split_off_mut(..count).unwrap_or_default()
}

impl SectionTask<'_> {
    /// Bands and solves the section, and appends its bumped keys to `bumped`.
    pub(super) fn run(self, section: &mut Section, bumped: &mut Vec<KeyHash>) {
        section.reset(self.first_slot, self.end_slot);
        let mut keys = self.keys;
        for (bucket, bucket_start) in bucket_starts(self.first_slot, self.end_slot).enumerate() {
            let bucket_end = bucket_start + BUCKET_SLOTS;
            // No equation may cross into the next section.
            let is_wall = bucket_end == self.end_slot && self.end_slot < self.layer.slots;
            let banded = if is_wall {
                Banded { keys: keys.len(), code: WHOLE_BUCKET }
            } else {
                section.band_bucket(bucket_start, keys, &self.layer, self.columns.result_mask())
            };
            let (here, rest) = keys.split_at(banded.keys);
            let threshold = bucket_start + u64::from(THRESHOLDS[usize::from(banded.code)]);
            bumped.extend(here.iter().take_while(|hash| self.layer.start(hash.get()) < threshold));
            self.thresholds[bucket / BUCKETS_PER_WORD] |= u64::from(banded.code) << (bucket % BUCKETS_PER_WORD * 2);
            keys = rest;
        }
        solve_section(section, self.first_slot / 64, &self.layer, self.columns, self.words);
    }
}

/// Returns the first slots of the buckets in a range of slots.
pub(super) fn bucket_starts(first_slot: u64, end_slot: u64) -> impl Iterator<Item = u64> {
    (0..(end_slot - first_slot).div_ceil(BUCKET_SLOTS)).map(move |bucket| first_slot + bucket * BUCKET_SLOTS)
}

/// Solves `section`, which begins at block `first_block` of `layer`, and writes the columns of its blocks to `payload`,
/// which begins there.
#[expect(clippy::cast_possible_truncation, reason = "at most 32 columns")]
pub(super) fn solve_section(
    section: &Section,
    first_block: u64,
    layer: &Layer,
    columns: Columns,
    payload: &mut [[u8; 8]],
) {
    let (first_word, _) = layer.block(first_block, columns.upper());
    solve::solve(&section.echelon, columns.upper().into(), |block, words| {
        let (word, count) = layer.block(first_block + block as u64, columns.upper());
        let place = usize::try_from(word - first_word).ok().and_then(|at| payload.get_mut(at..));
        for (out, word) in place.unwrap_or_default().iter_mut().zip(words).take(count as usize) {
            *out = word.to_le_bytes();
        }
    });
}

/// Returns the bytes of the first section of a layer: rows, results, occupancy, and the pending rows of a bucket.
pub(super) fn section_bytes(slots: u64) -> u64 {
    slots.min(SECTION_SLOTS) * 49 / 4 + 16_384
}

/// Returns the maximum bytes for each thread beyond the first: a section, and at worst the second copy of all bumped
/// keys, which the threads hold together.
pub(super) fn thread_bytes(keys: u64) -> u64 {
    section_bytes(SECTION_SLOTS) + keys / 2
}
