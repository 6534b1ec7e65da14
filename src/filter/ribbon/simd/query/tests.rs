//! Every instruction set against the format's text: any bits at all are a valid payload, so the payloads
//! are random.

use super::{FilterView, may_contain, may_contain_batch};
use crate::filter::ribbon::equation::{SMASH, THRESHOLDS, coefficients, final_layer_hash, next_layer_hash, result};
use crate::filter::ribbon::layer::Layer;
use crate::hash::{KeyHash, map_to_range, mix64};
use crate::simd::for_each_set;

/// The query as the format's text has it, one bit at a time; `true` where the payload ends too early.
fn as_specified(view: &FilterView<'_>, mut hash: u64) -> bool {
    let word = |index: u64| view.words.get(usize::try_from(index).ok()?).map(|word| u64::from_le_bytes(*word));
    let holds = |layer: &Layer, hash: u64, start: u64| {
        let (block, shift) = (start / 64, start % 64);
        let lower_blocks = u64::from(layer.lower_blocks);
        let count = u64::from(view.upper) - u64::from(block < lower_blocks);
        let first = layer.first_word + block * u64::from(view.upper) - block.min(lower_blocks);
        let parity = |column: u64| {
            let mut bits = word(first + column)? & coefficients(hash) << shift;
            if shift > 0 {
                bits ^= word(first + count + column)? & coefficients(hash) >> (64 - shift);
            }
            Some(bits.count_ones() % 2)
        };
        let parities: Option<Vec<u32>> = (0..count).map(parity).collect();
        parities.is_none_or(|bits| bits.iter().enumerate().all(|(column, bit)| *bit == result(hash) >> column & 1))
    };
    for (index, layer) in view.bumping.iter().enumerate() {
        if index > 0 {
            hash = next_layer_hash(hash);
        }
        let start = map_to_range(hash, layer.slots - 63);
        let Some(codes) = word(layer.threshold_word + start / 128 / 32) else { return true };
        let code = codes >> (start / 128 % 32 * 2) & 3;
        if start % 128 >= u64::from(THRESHOLDS[code as usize]) {
            return holds(layer, hash, start);
        }
    }
    hash = final_layer_hash(hash, view.salt);
    let start = map_to_range(hash, view.last.slots - 63 + 32).saturating_sub(16).min(view.last.slots - 64);
    holds(view.last, hash, start)
}

/// Layers of these numbers of blocks, `lower` of eight of them with one column less, laid out one after the other, and
/// how many words they have.
fn lay_out(blocks: &[u64], upper: u8, lower: u64) -> (Vec<Layer>, usize) {
    let mut end = 0;
    let mut layers: Vec<Layer> = Vec::new();
    for blocks in blocks {
        let lower_blocks = blocks * lower / 8;
        layers.push(Layer {
            slots: blocks * 64,
            smash: 0,
            lower_blocks: lower_blocks as u32,
            first_word: end,
            threshold_word: 0,
        });
        end += blocks * u64::from(upper) - lower_blocks;
    }
    let bumping = layers.len() - 1;
    layers[bumping].smash = SMASH;
    for layer in &mut layers[..bumping] {
        layer.threshold_word = end;
        end += (layer.slots - 63).div_ceil(128).div_ceil(32);
    }
    (layers, end as usize)
}

/// Compares all sets with the specification on one payload, and returns the number of positives.
fn compare(view: &FilterView<'_>, keys: usize, seed: u64) -> usize {
    let hashes: Vec<KeyHash> = (0..keys as u64).map(|key| KeyHash::from_well_mixed(mix64(mix64(seed) + key))).collect();
    let expected: Vec<bool> = hashes.iter().map(|hash| as_specified(view, hash.get())).collect();
    let mut bits = vec![0_u64; keys.div_ceil(64)];
    expected.iter().enumerate().for_each(|(index, &hit)| bits[index / 64] |= u64::from(hit) << (index % 64));
    for_each_set(|set| {
        // What was there before must not shine through.
        let mut matches = vec![u64::MAX; keys.div_ceil(64)];
        may_contain_batch(view, &hashes, &mut matches);
        assert_eq!(matches, bits, "{set}, {keys} keys of {view:x?}");
        for (hash, expected) in hashes.iter().zip(&expected) {
            assert_eq!(may_contain(view, *hash), *expected, "{set}, {hash:x?} in {view:x?}");
        }
    });
    expected.iter().filter(|&&hit| hit).count()
}

fn random_bytes(length: usize, seed: u64) -> Vec<u8> {
    (0..length as u64).map(|index| mix64(seed ^ index << 20) as u8).collect()
}

const SHAPES: [&[u64]; 7] = [&[1], &[2], &[16], &[1, 1], &[40, 3, 1], &[70, 9, 2, 1, 1, 1, 1], &[2, 65]];

#[test]
fn all_sets_answer_as_specified_for_every_number_of_columns_shape_and_alignment() {
    for upper in 1..=32 {
        for (index, blocks) in SHAPES.iter().enumerate() {
            for lower in [0, 3, 8] {
                if upper == 1 && lower > 0 {
                    continue;
                }
                let (layers, words) = lay_out(blocks, upper, lower);
                let seed = u64::from(upper) << 16 | lower << 8 | index as u64;
                let shift = seed as usize % 9;
                let bytes = random_bytes(words * 8 + shift, seed);
                let (last, bumping) = layers.split_last().unwrap();
                let words = bytes[shift..].as_chunks().0;
                compare(&FilterView { words, bumping, last, upper, salt: upper % 16 }, 150, seed);
            }
        }
    }
}

#[test]
fn answers_differ_from_key_to_key_as_often_as_the_columns_say() {
    for (upper, expected) in [(1, 5_000), (2, 2_500), (3, 1_250), (4, 625), (7, 78), (8, 39)] {
        let (layers, words) = lay_out(&[500, 30, 2], upper, 0);
        let bytes = random_bytes(words * 8, 5);
        let (last, bumping) = layers.split_last().unwrap();
        let got = compare(&FilterView { words: bytes.as_chunks().0, bumping, last, upper, salt: 0 }, 10_000, 77);
        assert!(got.abs_diff(expected) < 5 * expected.isqrt(), "{upper} columns: {got}, not {expected}");
    }
}

#[test]
fn batches_of_any_length_answer_as_single_probes_do() {
    let (layers, words) = lay_out(&[100, 6, 1], 7, 2);
    let bytes = random_bytes(words * 8, 9);
    let (last, bumping) = layers.split_last().unwrap();
    let view = FilterView { words: bytes.as_chunks().0, bumping, last, upper: 7, salt: 3 };
    let around =
        [15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 511, 512, 513, 527, 528, 1_023, 1_024, 1_025, 3_000];
    for keys in (0..=14).chain(around) {
        compare(&view, keys, keys as u64);
    }
}

#[test]
fn payloads_large_enough_for_prefetching_give_the_same_answers() {
    for (upper, lower) in [(7, 0), (7, 3), (3, 0), (20, 3)] {
        let (layers, words) = lay_out(&[60_000 / u64::from(upper), 200, 5], upper, lower);
        assert!(words * 8 > 400 << 10);
        let bytes = random_bytes(words * 8, 11);
        let (last, bumping) = layers.split_last().unwrap();
        compare(&FilterView { words: bytes.as_chunks().0, bumping, last, upper, salt: 0 }, 2_000, 12);
    }
}

#[test]
fn payloads_cut_short_read_as_may_be_present_where_they_end_and_never_beyond() {
    for (blocks, upper, lower) in
        [(&[30_u64, 3, 1][..], 7, 0), (&[30, 3, 1], 8, 3), (&[9], 5, 0), (&[6, 2], 17, 2), (&[12], 3, 4)]
    {
        let (layers, words) = lay_out(blocks, upper, lower);
        let (last, bumping) = layers.split_last().unwrap();
        for length in 0..=words {
            // A buffer of exactly that length, so that reading on would leave it.
            let bytes = random_bytes(length * 8, 13).into_boxed_slice();
            compare(&FilterView { words: bytes.as_chunks().0, bumping, last, upper, salt: 1 }, 40, length as u64);
        }
    }
}

#[test]
fn layers_that_claim_more_than_there_is_read_as_may_be_present() {
    let bytes = random_bytes(64, 14);
    for slots in [64, 1 << 30, (1 << 32) - 64, 1 << 32, 1 << 38] {
        for far in [0, 1 << 20, 1 << 40, u64::MAX >> 8] {
            let layer = Layer { slots, smash: 0, lower_blocks: 0, first_word: far, threshold_word: far };
            let last = Layer { smash: SMASH, ..layer };
            for bumping in [&[][..], &[layer][..], &[layer, layer][..]] {
                let view = FilterView { words: bytes.as_chunks().0, bumping, last: &last, upper: 7, salt: 0 };
                compare(&view, 20, slots);
            }
        }
    }
}
