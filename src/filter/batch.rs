//! The loops that all kinds use to probe in batches. Answers are bits in words of 64.
//!
//! A kind supplies the test of one key and, optionally, the prefetch for a later key. All loops are inlined into the
//! kind's own loop, and so compiled for its constants. Kinds whose vector kernels test several keys with one
//! instruction (blocked Bloom, Ribbon) have their own loops.

use super::cache::KEYS_AHEAD;
use crate::hash::KeyHash;

/// Sets bit `i % 64` of word `i / 64` of `matches` to the answer for hash `i`, and clears the bits after the last.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the loop is compiled for the test of its kind")]
pub(crate) fn answers(hashes: &[KeyHash], matches: &mut [u64], mut test: impl FnMut(KeyHash) -> bool) {
    let (whole, rest) = hashes.as_chunks::<64>();
    let (whole_words, rest_word) = matches.split_at_mut(whole.len());
    // Loops of fixed length, which the compiler unrolls. Eight keys at a time, because 64 would not fit the instruction
    // cache.
    for (chunk, word) in whole.iter().zip(whole_words) {
        let eights = chunk.as_chunks::<8>().0.iter().enumerate();
        *word =
            eights.fold(0, |bits, (byte, eight)| bits | word_of(eight.iter().map(|&hash| test(hash))) << (8 * byte));
    }
    if let Some(word) = rest_word.first_mut() {
        *word = word_of(rest.iter().map(|&hash| test(hash)));
    }
}

/// Like [`answers`], for a filter larger than the nearer caches: calls `prefetch` for each key [`KEYS_AHEAD`] keys
/// before its test.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the loop is compiled for the test of its kind")]
pub(crate) fn answers_ahead(
    hashes: &[KeyHash],
    matches: &mut [u64],
    mut prefetch: impl FnMut(KeyHash),
    mut test: impl FnMut(KeyHash) -> bool,
) {
    let (first, later) = hashes.split_at(KEYS_AHEAD.min(hashes.len()));
    first.iter().for_each(|&hash| prefetch(hash));
    let mut upcoming = later.iter();
    for (chunk, word) in hashes.chunks(64).zip(matches) {
        *word = word_of(chunk.iter().map(|&hash| {
            if let Some(&next) = upcoming.next() {
                prefetch(next);
            }
            test(hash)
        }));
    }
}

/// Returns whether `probe` sets the bits of all `hashes`.
pub(crate) fn all(hashes: &[KeyHash], mut probe: impl FnMut(&[KeyHash], &mut [u64])) -> bool {
    // 16,384 keys at a time, because their answers take 2 KiB and stay in L1.
    let mut matches = [0_u64; 1 << 8];
    hashes.chunks(64 * matches.len()).all(|chunk| {
        let matches = &mut matches[..chunk.len().div_ceil(64)];
        probe(chunk, matches);
        matches.iter().map(|word| word.count_ones() as usize).sum::<usize>() == chunk.len()
    })
}

/// Packs up to 64 answers into a word: bit `i` is answer `i`.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the body of the loops above")]
pub(crate) fn word_of(answers: impl Iterator<Item = bool>) -> u64 {
    // Shifts and ORs without a branch, because the answers cannot be predicted.
    answers.enumerate().fold(0, |word, (bit, is_match)| word | u64::from(is_match) << bit)
}

/// Sets "may be present" for every key, the answers of a payload that cannot be probed.
pub(crate) fn all_match(hashes: &[KeyHash], matches: &mut [u64]) {
    answers(hashes, matches, |_| true);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_match(hash: KeyHash) -> bool {
        hash.get().is_multiple_of(3)
    }

    #[test]
    fn every_length_gets_its_answers_in_order_and_no_bit_behind_them() {
        for count in [0, 1, 7, 8, 15, 16, 17, 63, 64, 65, 127, 128, 200] {
            let hashes: Vec<KeyHash> = (0..count).map(KeyHash::mix).collect();
            let expected: Vec<bool> = hashes.iter().map(|&hash| is_match(hash)).collect();
            let bits = |words: &[u64]| -> Vec<bool> {
                (0..words.len() * 64).map(|bit| words[bit / 64] >> (bit % 64) & 1 == 1).collect()
            };
            let mut matches = vec![u64::MAX; hashes.len().div_ceil(64)];
            answers(&hashes, &mut matches, is_match);
            assert_eq!(bits(&matches)[..hashes.len()], expected);
            assert!(!bits(&matches)[hashes.len()..].contains(&true));
            let (mut seen, mut matches) = (Vec::new(), vec![u64::MAX; hashes.len().div_ceil(64)]);
            answers_ahead(&hashes, &mut matches, |hash| seen.push(hash), is_match);
            assert_eq!(bits(&matches)[..hashes.len()], expected);
            assert!(!bits(&matches)[hashes.len()..].contains(&true));
            assert_eq!(seen, hashes, "each key is prefetched once");
            all_match(&hashes, &mut matches);
            assert_eq!(matches.iter().map(|word| word.count_ones()).sum::<u32>(), count as u32);
        }
    }
}
