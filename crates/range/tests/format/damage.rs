//! Range filters with damaged and forged bytes. The failures guarded against: one flipped bit makes a scan skip a file
//! with its keys; a block with valid checksums but contradictory parameters, lines or segments makes a query panic,
//! loop, or allocate more than the block's size.

#![expect(clippy::cast_possible_truncation, reason = "random numbers are cut to what is needed")]

use std::ops::Bound;

use sstfilter::{BlockError, KeyHash, KeyHasher, KeyRange, KindId, MatchBitmap};
use sstfilter_range::{RangeContext, RangeFilter, RangeInfo};

use crate::common;
use crate::common::cases::BLOCKS;
use crate::common::effort;
use crate::common::parts::Parts;
use crate::ranges::{self, RANGES, RangeCase};

/// Asserts that the bytes do not load.
fn assert_refused(case: &RangeCase, damaged: &[u8], what: &str) {
    assert!(case.load(damaged).is_err(), "{}: {what} passes for sound", case.name);
    let opened = case.for_reader(|context| RangeFilter::open_unverified(damaged, context));
    assert!(!opened.is_ok_and(|filter| filter.verify().is_ok()), "{}: {what} is verified", case.name);
}

// promise: range-filters
#[test]
fn every_flipped_bit_of_every_range_filter_is_caught_and_makes_it_unusable() {
    for case in RANGES {
        let bytes = case.read();
        common::on_all_cores(bytes.len(), |at| {
            let mut damaged = bytes.clone();
            for bit in 0..8 {
                damaged[at] ^= 1 << bit;
                assert_refused(case, &damaged, &format!("bit {bit} of byte {at} flipped"));
                damaged[at] ^= 1 << bit;
            }
        });
    }
}

#[test]
fn every_range_filter_cut_short_or_prolonged_is_refused() {
    for case in RANGES {
        let bytes = case.read();
        for length in 0..bytes.len() {
            assert_refused(case, &bytes[..length], &format!("first {length} bytes"));
            assert_refused(case, &bytes[bytes.len() - length..], &format!("last {length} bytes"));
        }
        for more in [1, 4, 8, 64] {
            let padding = vec![0; more];
            assert_refused(case, &[&bytes[..], &padding].concat(), &format!("{more} bytes more"));
            assert_refused(case, &[&padding, &bytes[..]].concat(), &format!("{more} bytes more in front"));
        }
    }
}

// promise: range-filters
#[test]
fn a_filter_of_another_kind_file_hash_or_extractor_is_not_used_for_ranges() {
    for case in BLOCKS.iter().filter(|case| case.file_number.is_none()) {
        let refused = RangeFilter::load(case.read(), &case.hash.hasher()).err();
        assert!(matches!(refused, Some(BlockError::Kind { expected: KindId::RANGE, .. })), "{}", case.name);
    }
    for case in RANGES {
        for other in RANGES.iter().filter(|other| other.file_number != case.file_number) {
            let refused = other.load(case.read()).err();
            assert!(matches!(refused, Some(BlockError::FileMismatch { .. })), "{}: {refused:?}", case.name);
        }
        let Some(extractor) = case.recipe.extractor() else { continue };
        let none = RangeFilter::load(case.read(), &case.hash.hasher()).err();
        let is_named = |error: &BlockError| matches!(error, BlockError::ExtractorMismatch { expected, .. } if expected == "the reader's (none)");
        assert!(none.is_some_and(|error| is_named(&error)), "{}", case.name);
        let hasher = KeyHasher::with_seed(1);
        let other = RangeContext::new(&hasher, Some(&extractor));
        let refused = RangeFilter::load(case.read(), other).err();
        assert!(matches!(refused, Some(BlockError::HashMismatch { .. })), "{}", case.name);
        // A reader without the hash function cannot probe hashed codes.
        let refused = RangeFilter::load(case.read(), case.hash.hasher().identity()).err();
        assert!(matches!(refused, Some(BlockError::Unreadable { .. })), "{}: {refused:?}", case.name);
    }
}

/// Resizes the payload to the length in its parameters, unless that is too long.
fn fit_payload(forged: &mut Parts) {
    let field = |number: usize| u64::from(forged.params.get(number).copied().unwrap_or(0));
    let [map, low_bits, ..] = forged.params.first().copied().unwrap_or(0).to_le_bytes();
    let (lines, codes) = (field(2), field(3));
    let bytes = if map == 3 {
        // A line and its segment (64 + 16 bytes), the low bits with their padding, and the tails.
        lines * 80 + field(6) * 8 + 8 + field(5).next_multiple_of(8)
    } else if map == 4 {
        let quotients = ((field(6) << 32 | field(5)) >> (low_bits % 64)).saturating_add(1);
        let is_split = u64::from(low_bits > 0);
        let mut words = quotients.saturating_add(codes * is_split).div_ceil(64);
        let mut all = words + (codes * u64::from(low_bits)).div_ceil(64) + is_split;
        while words > 1 {
            words = words.div_ceil(64);
            all += words;
        }
        (all + is_split * quotients.div_ceil(256).div_ceil(2) + field(1).saturating_sub(8).div_ceil(8)) * 8
    } else {
        lines * 64 + (codes * u64::from(low_bits)).div_ceil(64) * 8 + 8 + (field(4) * 4).next_multiple_of(8)
    };
    // Longer payloads are refused for their length, which needs no memory.
    if bytes <= 1 << 16 {
        forged.payload.resize(usize::try_from(bytes).unwrap(), 0xa5);
    }
}

/// Runs every query of a filter, if the bytes open. Returns whether they do.
fn query_all(case: &RangeCase, block: &[u8]) -> bool {
    let _ = RangeInfo::of_block(block).map(|info| (info.expected_fpr(7), info.bits_per_key()));
    let Ok(filter) = case.load(block) else { return false };
    let ends = case.ends();
    let bounds = ranges::bounds(&ends);
    // A third of the lower bounds: all kinds of bounds still occur, and the forged blocks are many.
    let pairs = bounds.iter().step_by(3).flat_map(|&lower| bounds.iter().map(move |&upper| KeyRange { lower, upper }));
    let pairs: Vec<KeyRange<'_>> = pairs.collect();
    let mut matches = MatchBitmap::default();
    filter.may_contain_range_batch(&pairs, &mut matches);
    for (index, range) in pairs.iter().enumerate() {
        assert_eq!(filter.may_contain_range(*range), matches.may_contain(index), "{}: {range:?}", case.name);
    }
    for end in &ends {
        // An answer never exceeds the bytes of the block, whatever lengths a segment claims.
        if let Some(bound) = filter.seek_hint(end) {
            assert!(
                bound >= *end && bound.len() <= end.len() + block.len() + 16,
                "{}: {} bytes",
                case.name,
                bound.len()
            );
        }
    }
    let whole = KeyRange { lower: Bound::Unbounded, upper: Bound::Unbounded };
    let _ = (filter.may_contain_range(whole), format!("{filter:?}"));
    true
}

fn random(number: u64) -> u64 {
    KeyHash::mix(number).get()
}

/// Returns a small number, an edge case, or any number.
fn edgy(number: u64) -> u32 {
    let any = (random(number) >> 32) as u32;
    match random(number) % 5 {
        0 => any % 4,
        1 => any % 300,
        // Around the codes of a line, the quotients of a line, and the widths of fields.
        2 => [0, 1, 223, 224, 225, 255, 256, u32::MAX, u32::MAX - 1, 1 << 31, (1 << 31) - 1, 0x00ff_ffff]
            [any as usize % 12],
        3 => 1 << (any % 32),
        _ => any,
    }
}

/// Tries a quarter of the forged blocks, and all of them in the long form.
// promise: range-filters
#[test]
fn forged_payloads_under_valid_checksums_are_answered_without_panics() {
    for case in RANGES.iter().filter(|case| case.file_number.is_none()) {
        let sound = case.read();
        let opened = common::on_all_cores(600 / effort::sample(4), |turn| {
            let mut forged = Parts::of_block(&sound);
            let words = forged.payload.len() / 4;
            for change in 0..=turn % 40 {
                let seed = (turn * 64 + change) as u64;
                let word = random(seed ^ 1 << 40) as usize % words;
                forged.payload[word * 4..word * 4 + 4].copy_from_slice(&edgy(seed).to_le_bytes());
            }
            query_all(case, &forged.seal())
        });
        assert!(opened.iter().all(|&is_open| is_open), "{}: opening does not look at the payload", case.name);
        // Empty lines, full ones, and lines in which counts and bits contradict each other.
        for byte in [0, 0xff, 0x80, 0x55] {
            let mut forged = Parts::of_block(&sound);
            forged.payload.fill(byte);
            assert!(query_all(case, &forged.seal()), "{}: {byte:#x}", case.name);
        }
    }
}

/// Tries a quarter of the forged blocks, and all of them in the long form.
#[test]
fn forged_parameters_under_valid_checksums_are_refused_or_answered() {
    let mut opened = 0;
    for case in RANGES.iter().filter(|case| case.file_number.is_none()) {
        let sound = case.read();
        let of_turn = common::on_all_cores(2_000 / effort::sample(4), |turn| {
            let mut forged = Parts::of_block(&sound);
            let seed = (turn as u64) << 8;
            if turn % 5 == 0 {
                forged.set_keys(u64::from(edgy(seed ^ 9)) << (turn % 9));
            } else {
                // The maximum number of keys, so that the number of codes is not refused.
                forged.set_keys((1 << 40) - 1);
            }
            for change in 0..=(turn as u64) % 3 {
                let number = (random(seed + change) % 7) as usize;
                let seed = seed + change + 16;
                if number == 0 {
                    let byte = (random(seed) % 4) as usize * 8;
                    forged.params[0] = forged.params[0] & !(0xff << byte) | (edgy(seed) & 0xff) << byte;
                } else {
                    forged.params[number] = edgy(seed);
                }
            }
            // Otherwise, most blocks would be refused for the length of their payload.
            if turn % 3 != 0 {
                fit_payload(&mut forged);
            }
            query_all(case, &forged.seal())
        });
        opened += of_turn.iter().filter(|&&is_open| is_open).count();
    }
    assert!(opened > 5_000 / effort::sample(4), "{opened} forged blocks were opened");
}

#[test]
fn too_few_or_too_many_parameter_words_are_refused() {
    for case in RANGES.iter().filter(|case| case.file_number.is_none()) {
        for words in (0..=15).filter(|&words| words != 7) {
            let mut forged = Parts::of_block(&case.read());
            forged.params.resize(words, 0);
            assert!(!query_all(case, &forged.seal()), "{}: {words} parameter words", case.name);
        }
    }
}
