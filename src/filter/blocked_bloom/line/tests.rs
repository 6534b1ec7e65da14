//! The layout, and that every instruction set keeps to it.
//!
//! The failure guarded against: at some number of probes, length of a batch or position in memory, a set tests other
//! bits than the set that built the filter, and misses present keys.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};

use super::*;
use crate::filter::{AnyShape, EncodedShape, KindId};
use crate::hash::map_to_range;
use crate::simd::{self, InstructionSet, for_each_set};
use crate::vectors::vectors;

fn hashes(from: u64, count: usize) -> Vec<KeyHash> {
    (from..).take(count).map(KeyHash::mix).collect()
}

fn line_of(lines: usize, hash: KeyHash) -> usize {
    map_to_range(hash.get(), lines as u64) as usize
}

/// Whether all bits of `mask` are set in `line`.
fn covers(line: &Line, mask: &Line) -> bool {
    line.iter().zip(mask).all(|(line, mask)| mask & !line == 0)
}

/// The line's words that are not 0 after one insert, by their numbers.
fn words_of(hash: u64, probes: u8) -> BTreeMap<String, String> {
    let mut line = [0; 64];
    insert(&mut line, KeyHash::from_well_mixed(hash), probes);
    let (words, _) = line.as_chunks::<4>();
    let words = words.iter().map(|word| u32::from_le_bytes(*word)).enumerate().filter(|&(_, word)| word != 0);
    words.map(|(number, word)| (number.to_string(), format!("{word:08x}"))).collect()
}

#[test]
fn lines_of_one_key_are_those_of_the_vectors_on_every_set() {
    for row in vectors("blocked-bloom").rows("lines") {
        let (words, names) = (&row["words"], row.object("words").iter());
        let expected = names.map(|(number, _)| (number.clone(), words.text(number).to_owned())).collect();
        for_each_set(|_| assert_eq!(words_of(row.hex("hash"), row.number("probes") as u8), expected, "{row}"));
    }
}

#[test]
fn every_number_of_probes_uses_as_many_lanes_and_all_lanes_equally_often() {
    for probes in 1..=MAX_PROBES {
        let mut uses = [0; 16];
        for x in 0..64 {
            let [first, second] = active_rows(probes);
            let lanes: Vec<u32> = first.0[x & 7].into_iter().chain(second.0[x >> 3]).collect();
            assert_eq!(lanes.iter().sum::<u32>(), u32::from(probes));
            assert!(
                lanes.iter().enumerate().all(|(lane, &active)| u32::from(active_sets(probes)[x] >> lane & 1) == active)
            );
            uses.iter_mut().zip(lanes).for_each(|(uses, active)| *uses += active);
        }
        let rounds = if probes <= 8 { 1 } else { 2 };
        for round in uses[..8 * rounds].chunks(8) {
            assert!(round.iter().all(|&count| count == round[0] && count > 0), "{probes} probes: {uses:?}");
        }
    }
}

#[test]
fn contains_mask_and_bits_agree_for_every_number_of_probes_on_every_set() {
    for_each_set(|set| {
        let mut line = [0; 64];
        for probes in 1..=MAX_PROBES {
            for seed in 0..200 {
                let (added, probed) = (KeyHash::mix(seed), KeyHash::mix(seed + 1_000));
                insert(&mut line, added, probes);
                assert!(contains(&line, added, probes), "{set}");
                assert_eq!(contains(&line, probed, probes), covers(&line, &mask(probed, probes)), "{set}");
                assert_eq!(contains(&line, probed, probes), portable::contains(&line, probed, probes), "{set}");
                assert_eq!(mask(probed, probes), portable::mask(probed, probes), "{set}");
                if seed % 16 == 0 {
                    line = [0; 64];
                }
            }
        }
    });
}

/// Sets the key's bits with the portable version.
fn set_bits(line: &mut Line, hash: KeyHash, probes: u8) {
    line.iter_mut().zip(portable::mask(hash, probes)).for_each(|(byte, mask)| *byte |= mask);
}

/// The bytes of `count` lines at `offset` from a cache line's start, after `insert`.
fn built_at(offset: usize, count: usize, insert: impl FnOnce(&mut [Line])) -> Vec<u8> {
    let mut memory = vec![0_u8; 128 + count * 64];
    let start = memory.as_ptr().align_offset(64) + offset;
    let bytes = &mut memory[start..start + count * 64];
    insert(bytes.as_chunks_mut().0);
    let bytes = bytes.to_vec();
    assert!(memory[..start].iter().chain(&memory[start + count * 64..]).all(|&byte| byte == 0));
    bytes
}

#[test]
fn batches_insert_the_bytes_of_the_portable_form_at_every_length_and_alignment() {
    for_each_set(|set| {
        for (count, keys) in
            [(1, 0), (1, 1), (3, 63), (40, 64), (40, 65), (1_000, 2_500), (20_000, 1_001), (70_000, 999)]
        {
            for (probes, offset) in (1..=MAX_PROBES).zip([0, 1, 17, 32, 48, 63].into_iter().cycle()) {
                let keys = hashes(7, keys);
                let batch = built_at(offset, count, |lines| insert_batch(lines, probes, &keys));
                let one_by_one = built_at(0, count, |lines| {
                    keys.iter().for_each(|&hash| set_bits(&mut lines[line_of(count, hash)], hash, probes));
                });
                assert!(batch == one_by_one, "{set}, {probes} probes, {count} lines, offset {offset}");
            }
        }
    });
}

/// The answers of the portable version, key by key.
fn expected_matches(lines: &[Line], probes: u8, hashes: &[KeyHash]) -> Vec<u64> {
    let hit = |&hash: &KeyHash| u64::from(portable::contains(&lines[line_of(lines.len(), hash)], hash, probes));
    hashes.chunks(64).map(|chunk| chunk.iter().rev().fold(0, |word, hash| word << 1 | hit(hash))).collect()
}

#[test]
fn batches_find_what_the_portable_form_finds_at_every_length_and_alignment() {
    // More than 32 MiB of lines, so that every prefetch distance is used.
    let mut memory = vec![0_u8; 64 * 600_000];
    memory.iter_mut().zip(0_u64..).for_each(|(byte, at)| *byte = KeyHash::mix(at / 64).get() as u8 | at as u8);
    for_each_set(|set| {
        for count in [1, 2, 500, 40_000, 599_999] {
            for (probes, offset) in (1..=MAX_PROBES).zip([0, 1, 17, 32, 48, 63].into_iter().cycle()) {
                let lines = &memory[offset..].as_chunks().0[..count];
                for probed in [0, 1, 15, 16, 17, 47, 48, 49, 63, 64, 65, 111, 112, 113, 128, 130, 1_000] {
                    let probed = hashes(1_000 * u64::from(probes), probed);
                    let mut matches = vec![u64::MAX; probed.len().div_ceil(64)];
                    contains_batch(lines, probes, &probed, &mut matches);
                    assert_eq!(
                        matches,
                        expected_matches(lines, probes, &probed),
                        "{set}, {probes} probes, {count} lines"
                    );
                    let one_by_one = probed
                        .iter()
                        .map(|&hash| contains(&lines[line_of(count, hash)], hash, probes))
                        .collect::<Vec<_>>();
                    assert!(
                        one_by_one.iter().enumerate().all(|(at, &hit)| (matches[at / 64] >> (at % 64) & 1 == 1) == hit)
                    );
                }
            }
        }
    });
}

#[test]
fn every_key_inserted_is_found_by_every_set_whichever_built_the_filter() {
    for_each_set(|builder| {
        for probes in 1..=MAX_PROBES {
            for (count, keys) in [(1, 30), (77, 3_000), (30_000, 5_003)] {
                let keys = hashes(u64::from(probes) << 32, keys);
                simd::select(builder).unwrap();
                let mut lines = vec![[0; 64]; count];
                insert_batch(&mut lines, probes, &keys);
                for reader in InstructionSet::available() {
                    simd::select(reader).unwrap();
                    let mut matches = vec![0; keys.len().div_ceil(64)];
                    contains_batch(&lines, probes, &keys, &mut matches);
                    let found: u32 = matches.iter().map(|word| word.count_ones()).sum();
                    assert_eq!(found as usize, keys.len(), "built by {builder}, read by {reader}");
                    assert!(keys.iter().all(|&hash| contains(&lines[line_of(count, hash)], hash, probes)));
                }
            }
        }
    });
}

#[test]
fn ones_are_counted_alike_by_every_set() {
    let memory: Vec<u8> = (0..64 * 100).map(|at| KeyHash::mix(at).get() as u8).collect();
    for_each_set(|set| {
        for (offset, count) in [(0, 0), (0, 1), (0, 100), (1, 99), (33, 7)] {
            let lines = &memory[offset..].as_chunks().0[..count];
            let expected: u32 = lines.as_flattened().iter().map(|byte| byte.count_ones()).sum();
            assert_eq!(ones(lines), u64::from(expected), "{set}");
        }
    });
}

/// 70 lines with different keys, some of them full or empty.
fn many_lines(probes: u8) -> Vec<Line> {
    (0..70_u64)
        .map(|number| {
            let mut line: Line = [if number % 9 == 0 { u8::MAX } else { 0 }; 64];
            let keys = (0..number % 40).map(|key| KeyHash::mix(number << 32 | key));
            keys.for_each(|hash| insert(&mut line, hash, probes));
            line
        })
        .collect()
}

#[test]
fn all_instruction_sets_say_which_of_many_lines_cover_a_mask() {
    simd::for_each_set(|set| {
        for probes in 1..=MAX_PROBES {
            let lines = many_lines(probes);
            for (first, which) in [(0, u64::MAX), (6, u64::MAX), (0, 0), (3, 0x8000_0000_0000_0001), (1, 0xf0f0)] {
                for number in 0..70_u64 {
                    let hash = KeyHash::mix(number << 32);
                    let wanted = || (0..64).filter(|place| which >> place & 1 == 1).map(|place| first + place);
                    let candidates =
                        wanted().rev().map(|place| Candidate { line: &lines[place], ahead: Some(&lines[place]) });
                    let got = covered(&mask(hash, probes), candidates);
                    let expected = wanted()
                        .enumerate()
                        .filter(|&(_, place)| contains(&lines[place], hash, probes))
                        .fold(0, |bits, (bit, _)| bits | 1 << bit);
                    assert_eq!(got, expected, "{set}, {probes} probes, key {number}");
                }
            }
        }
    });
}

#[test]
fn lines_that_are_not_there_contain_every_key() {
    simd::for_each_set(|set| {
        for probes in 1..=MAX_PROBES {
            for (count, bytes) in [(0, 0), (0, 640), (1, 63), (10, 639), (u64::MAX, 640)] {
                let data = vec![0; bytes];
                let line = Lines::new(count).line_of(&data, KeyHash::mix(7));
                assert!(contains(line, KeyHash::mix(7), probes), "{set}, {count} lines in {bytes} bytes");
            }
        }
    });
}

#[test]
fn single_probes_answer_as_the_portable_form_on_every_set_and_every_key_is_in_data_cut_short() {
    for_each_set(|set| {
        for (probes, offset) in (1..=MAX_PROBES).zip([0, 1, 17, 32, 48, 63].into_iter().cycle()) {
            let keys = hashes(u64::from(probes), 2_000);
            let mut memory = vec![0; 100 * 64 + 128];
            let start = memory.as_ptr().align_offset(64) + offset;
            insert_batch(memory[start..start + 6_400].as_chunks_mut().0, probes, &keys[..1_000]);
            let encoded = EncodedShape::new(&[probes.into()], 6_400);
            let open = OpenShape::new(AnyShape::decode(KindId::BLOCKED_BLOOM, &encoded, None).unwrap());
            let data = &memory[start..];
            let lines: &[Line] = data[..6_400].as_chunks().0;
            for &hash in &keys {
                let expected = portable::contains(&lines[line_of(100, hash)], hash, probes);
                assert_eq!((open.probe)(data, hash, &open), expected, "{set}, {probes} probes");
                assert!((open.probe)(&data[..6_399], hash, &open), "{set}, {probes} probes");
            }
        }
    });
}
