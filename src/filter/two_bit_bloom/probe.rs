//! Asking: one word per key, no branch on what is in it.

use super::layout::{covers, for_layout, word_index};
use super::shape::TwoBitShape;
use super::sync::{AtomicU64, Ordering};
use crate::hash::KeyHash;

/// A machine word of a filter, in use or stored.
pub(super) trait Word {
    fn value(&self) -> u64;
}

impl Word for AtomicU64 {
    #[inline(always)]
    fn value(&self) -> u64 {
        self.load(Ordering::Relaxed)
    }
}

/// Stored, at any alignment.
impl Word for [u8; 8] {
    #[inline(always)]
    fn value(&self) -> u64 {
        u64::from_le_bytes(*self)
    }
}

/// Whether `words`, as many as the shape has, hold all bits of the key.
#[inline]
pub(super) fn contains<W: Word>(words: &[W], shape: TwoBitShape, hash: KeyHash) -> bool {
    let (hash, index_bits) = (hash.get(), shape.index_bits());
    let Some(word) = words.get(word_index(hash, index_bits)) else { return true };
    let word = word.value();
    for_layout!(shape.layout(), WIDTH, PROBES => covers::<WIDTH, PROBES>(word, hash, index_bits)) == 1
}

/// [`contains`] for many: bit `i % 64` of word `i / 64` of `hits` becomes the answer for hash `i`.
///
/// Nothing is fetched ahead: without a branch on the answers the CPU has the words of many keys under way at once.
pub(super) fn contains_batch<W: Word>(words: &[W], shape: TwoBitShape, hashes: &[KeyHash], hits: &mut [u64]) {
    let index_bits = shape.index_bits();
    let Some(last) = words.len().checked_sub(1) else { return hits.fill(u64::MAX) };
    for_layout!(shape.layout(), WIDTH, PROBES => {
        // The index is below the length, a power of two; said in this way, it is not checked.
        answer_all(hashes, hits, |hash| {
            let word = &words[word_index(hash.get(), index_bits) & last];
            covers::<WIDTH, PROBES>(word.value(), hash.get(), index_bits)
        });
    });
}

/// Whole words of answers first, by loops of fixed length that are unrolled.
#[inline(always)]
fn answer_all(hashes: &[KeyHash], hits: &mut [u64], answer: impl Fn(KeyHash) -> u64) {
    // In the order of the hashes, which the CPU then reads ahead.
    let answer_few =
        |hashes: &[KeyHash]| hashes.iter().enumerate().fold(0, |bits, (bit, &hash)| bits | answer(hash) << bit);
    let (groups, rest) = hashes.as_chunks::<64>();
    let mut hits = hits.iter_mut();
    for (group, hits) in groups.iter().zip(hits.by_ref()) {
        let few = group.as_chunks::<8>().0.iter().enumerate();
        *hits = few.fold(0, |bits, (byte, few)| bits | answer_few(few) << (8 * byte));
    }
    if let (false, Some(hits)) = (rest.is_empty(), hits.next()) {
        *hits = answer_few(rest);
    }
}
