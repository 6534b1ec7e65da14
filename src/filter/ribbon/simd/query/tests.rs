//! Compares every instruction set with the format's text. Any bits are a valid payload, so the payloads are random.

use super::{Filter, may_contain, may_contain_batch};
use crate::filter::ribbon::equation::{SMASH, THRESHOLDS, coefficients, final_layer_hash, next_layer_hash, result};
use crate::filter::ribbon::layer::{Layer, MAX_BUMPING_LAYERS};
use crate::hash::{KeyHash, map_to_range, mix64};
use crate::simd::for_each_set;

/// The query as in the format's text, one bit at a time.
fn as_specified(filter: &Filter, words: &[[u8; 8]], mut hash: u64) -> bool {
    let word = |index: u64| u64::from_le_bytes(words[usize::try_from(index).unwrap()]);
    let holds = |layer: &Layer, hash: u64, start: u64| {
        let (block, shift) = (start / 64, start % 64);
        let lower_blocks = u64::from(layer.lower_blocks);
        let count = u64::from(filter.upper) - u64::from(block < lower_blocks);
        let first = layer.first_word + block * u64::from(filter.upper) - block.min(lower_blocks);
        let parity = |column: u64| {
            let mut bits = word(first + column) & coefficients(hash) << shift;
            if shift > 0 {
                bits ^= word(first + count + column) & coefficients(hash) >> (64 - shift);
            }
            bits.count_ones() % 2
        };
        (0..count).all(|column| parity(column) == result(hash) >> column & 1)
    };
    let (last, bumping) = filter.layers().split_last().unwrap();
    for (index, layer) in bumping.iter().enumerate() {
        if index > 0 {
            hash = next_layer_hash(hash);
        }
        let start = map_to_range(hash, layer.slots - 63);
        let code = word(layer.threshold_word + start / 128 / 32) >> (start / 128 % 32 * 2) & 3;
        if start % 128 >= u64::from(THRESHOLDS[code as usize]) {
            return holds(layer, hash, start);
        }
    }
    hash = final_layer_hash(hash, filter.salt);
    let start = map_to_range(hash, last.slots - 63 + 32).saturating_sub(16).min(last.slots - 64);
    holds(last, hash, start)
}

/// The filter of these layers; `None` if no filter has them.
fn filter_of(layers: [Layer; MAX_BUMPING_LAYERS + 1], bumping: usize, upper: u8, salt: u8) -> Option<Filter> {
    let mut filter = Filter { layers, bumping: bumping as u8, upper, salt, payload_bytes: 0 };
    filter.measure().map(|()| filter)
}

/// The filter of layers with these numbers of blocks, laid out in sequence; `lower` of eight blocks have one column
/// less.
fn lay_out(blocks: &[u64], upper: u8, lower: u64, salt: u8) -> Filter {
    let mut end = 0;
    let mut layers = [Layer::default(); MAX_BUMPING_LAYERS + 1];
    for (layer, blocks) in layers.iter_mut().zip(blocks) {
        let lower_blocks = (blocks * lower / 8) as u32;
        *layer = Layer { slots: blocks * 64, lower_blocks, first_word: end, ..Layer::default() };
        end += blocks * u64::from(upper) - u64::from(lower_blocks);
    }
    let bumping = blocks.len() - 1;
    layers[bumping].smash = SMASH;
    for layer in &mut layers[..bumping] {
        layer.threshold_word = end;
        end += (layer.slots - 63).div_ceil(128).div_ceil(32);
    }
    let filter = filter_of(layers, bumping, upper, salt).unwrap();
    assert_eq!(filter.payload_bytes(), end * 8);
    filter
}

/// Compares all sets with the specification on one payload, and returns the number of positives.
fn compare(filter: &Filter, payload: &[u8], keys: usize, seed: u64) -> usize {
    let hashes: Vec<KeyHash> = (0..keys as u64).map(|key| KeyHash::from_well_mixed(mix64(mix64(seed) + key))).collect();
    let words = payload.as_chunks().0;
    let expected: Vec<bool> = hashes.iter().map(|hash| as_specified(filter, words, hash.get())).collect();
    let mut bits = vec![0_u64; keys.div_ceil(64)];
    expected.iter().enumerate().for_each(|(index, &hit)| bits[index / 64] |= u64::from(hit) << (index % 64));
    let view = filter.view(payload).unwrap();
    for_each_set(|set| {
        // Old bits must not survive.
        let mut matches = vec![u64::MAX; keys.div_ceil(64)];
        may_contain_batch(view, &hashes, &mut matches);
        assert_eq!(matches, bits, "{set}, {keys} keys of {filter:x?}");
        for (hash, expected) in hashes.iter().zip(&expected) {
            assert_eq!(may_contain(view, *hash), *expected, "{set}, {hash:x?} in {filter:x?}");
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
                let filter = lay_out(blocks, upper, lower, upper % 16);
                let seed = u64::from(upper) << 16 | lower << 8 | index as u64;
                let shift = seed as usize % 9;
                // A buffer that ends with the payload, so that reading on would leave it.
                let bytes = random_bytes(filter.payload_bytes() as usize + shift, seed).into_boxed_slice();
                compare(&filter, &bytes[shift..], 150, seed);
            }
        }
    }
}

#[test]
fn answers_differ_from_key_to_key_as_often_as_the_columns_say() {
    for (upper, expected) in [(1, 5_000), (2, 2_500), (3, 1_250), (4, 625), (7, 78), (8, 39)] {
        let filter = lay_out(&[500, 30, 2], upper, 0, 0);
        let bytes = random_bytes(filter.payload_bytes() as usize, 5);
        let got = compare(&filter, &bytes, 10_000, 77);
        assert!(got.abs_diff(expected) < 5 * expected.isqrt(), "{upper} columns: {got}, not {expected}");
    }
}

#[test]
fn batches_of_any_length_answer_as_single_probes_do() {
    let filter = lay_out(&[100, 6, 1], 7, 2, 3);
    let bytes = random_bytes(filter.payload_bytes() as usize, 9);
    let around =
        [15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 511, 512, 513, 527, 528, 1_023, 1_024, 1_025, 3_000];
    for keys in (0..=14).chain(around) {
        compare(&filter, &bytes, keys, keys as u64);
    }
}

#[test]
fn payloads_large_enough_for_prefetching_give_the_same_answers() {
    for (upper, lower) in [(7, 0), (7, 3), (3, 0), (20, 3)] {
        let filter = lay_out(&[60_000 / u64::from(upper), 200, 5], upper, lower, 0);
        assert!(filter.payload_bytes() > 400 << 10);
        let bytes = random_bytes(filter.payload_bytes() as usize, 11);
        compare(&filter, &bytes, 2_000, 12);
    }
}

#[test]
fn payloads_cut_short_are_not_read() {
    for (blocks, upper, lower) in
        [(&[30_u64, 3, 1][..], 7, 0), (&[30, 3, 1], 8, 3), (&[9], 5, 0), (&[6, 2], 17, 2), (&[12], 3, 4)]
    {
        let filter = lay_out(blocks, upper, lower, 1);
        let bytes = random_bytes(filter.payload_bytes() as usize, 13);
        assert!((0..bytes.len()).all(|length| filter.view(&bytes[..length]).is_none()));
        compare(&filter, &bytes, 40, 0);
    }
}

#[test]
fn layers_that_claim_more_than_there_is_are_not_read() {
    let bytes = random_bytes(64, 14);
    for slots in [0, 1, 64, 1 << 30, 1 << 32, 1 << 38, u64::MAX] {
        for far in [0, 1 << 20, 1 << 40, u64::MAX >> 8, u64::MAX] {
            let layer = Layer { slots, first_word: far, threshold_word: far, ..Layer::default() };
            for bumping in 0..=MAX_BUMPING_LAYERS + 1 {
                for upper in [0, 7] {
                    let filter = filter_of([layer; MAX_BUMPING_LAYERS + 1], bumping, upper, 0);
                    let view = filter.as_ref().and_then(|filter| filter.view(&bytes));
                    assert_eq!(view.is_some(), slots == 64 && far == 0 && upper == 7 && bumping <= MAX_BUMPING_LAYERS);
                }
            }
        }
    }
}
