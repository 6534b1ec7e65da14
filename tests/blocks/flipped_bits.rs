//! Every fixture with every single bit flipped, truncated at every length, and extended. The failure guarded against:
//! one flipped bit in a filter on disk makes it answer "absent" for a key of its table, and the key is lost although
//! its data is sound. Damage may cost a read or an error, but never a key.

#![expect(clippy::cast_possible_truncation, reason = "fixtures of some thousand bytes")]

use std::ops::Range;

use crate::common;
use crate::common::cases::{self, BLOCKS, BlockCase, TABLES, TableCase};
use bytes::Bytes;
use sstfilter::sst::{Lookup, Table, TableError, TableOptions};
use sstfilter::store::FilterProblem;
use sstfilter::{BlockError, FilterBlock, FilterError, FilterReader, KeyHash, Probe};

/// Opening or verifying says no, and the guard never says "absent".
fn assert_block_damage_is_caught(case: &BlockCase, damaged: &[u8], hashes: &[KeyHash], what: &str) {
    let is_sound = FilterBlock::open_unverified(damaged).is_ok_and(|filter| filter.verify().is_ok());
    assert!(!is_sound, "{}: {what} passes for sound", case.name);
    let shrunk = FilterBlock::open_unverified(damaged).map(|filter| filter.shrunk_to(damaged.len() as u64 / 2));
    assert!(matches!(shrunk, Err(_) | Ok(Err(FilterError::Block(_)))), "{}: {what}, and shrinks", case.name);
    let guarded = FilterReader::load(damaged, case.load_context());
    for &hash in hashes {
        assert!(matches!(guarded.probe(hash), Probe::Unusable(_)), "{}: {what}", case.name);
    }
}

/// Some keys of a block and some that it does not have.
fn sample(case: &BlockCase) -> Vec<KeyHash> {
    let present = case.hashes();
    let some = present.iter().copied().step_by(present.len() / 3 + 1);
    some.chain(case.absent_hashes(4)).collect()
}

/// The bits of `bytes`, dealt out to all cores in runs.
fn for_each_flip(bytes: &[u8], check: impl Fn(&[u8], usize) + Sync) {
    const RUN: usize = 256;
    common::on_all_cores(bytes.len().div_ceil(RUN), |run| {
        let mut damaged = bytes.to_vec();
        for bit in run * RUN * 8..(run * RUN * 8 + RUN * 8).min(bytes.len() * 8) {
            damaged[bit / 8] ^= 1 << (bit % 8);
            check(&damaged, bit);
            damaged[bit / 8] ^= 1 << (bit % 8);
        }
    });
}

#[test]
fn every_flipped_bit_of_every_block_is_caught_and_makes_the_filter_unusable() {
    for case in BLOCKS {
        let hashes = sample(case);
        for_each_flip(&case.read(), |damaged, bit| {
            assert_block_damage_is_caught(case, damaged, &hashes, &format!("bit {bit} flipped"));
        });
    }
}

#[test]
fn every_byte_of_every_small_block_with_any_other_value_is_caught() {
    for case in BLOCKS.iter().filter(|case| case.keys <= 300) {
        let (bytes, hashes) = (case.read(), sample(case));
        common::on_all_cores(bytes.len(), |at| {
            let mut damaged = bytes.clone();
            for value in (0..=255).filter(|&value| value != bytes[at]) {
                damaged[at] = value;
                assert_block_damage_is_caught(case, &damaged, &hashes, &format!("byte {at} set to {value}"));
            }
        });
    }
}

#[test]
fn every_block_cut_short_at_either_end_is_refused_when_it_is_opened_or_verified() {
    for case in BLOCKS {
        let (bytes, hashes) = (case.read(), sample(case));
        for length in 0..bytes.len() {
            let front = &bytes[..length];
            assert_block_damage_is_caught(case, front, &hashes, &format!("first {length} bytes"));
            let back = &bytes[bytes.len() - length..];
            assert!(FilterBlock::open_unverified(back).is_err(), "{}: opens with its last {length} bytes", case.name);
            assert_block_damage_is_caught(case, back, &hashes, &format!("last {length} bytes"));
        }
    }
}

#[test]
fn every_block_with_bytes_too_many_is_refused() {
    for case in BLOCKS {
        let (bytes, hashes) = (case.read(), sample(case));
        for more in (1..=130).chain([bytes.len(), bytes.len() * 2]) {
            for filling in [0, 0xff] {
                let padding = vec![filling; more];
                let what = format!("{more} bytes of {filling} too many");
                assert_block_damage_is_caught(case, &[&bytes[..], &padding].concat(), &hashes, &what);
                assert_block_damage_is_caught(case, &[&padding, &bytes[..]].concat(), &hashes, &what);
            }
        }
        assert_block_damage_is_caught(case, &[&bytes[..], &bytes].concat(), &hashes, "the block twice");
    }
}

#[test]
fn bytes_lost_inside_a_block_are_caught() {
    for case in BLOCKS {
        let (bytes, hashes) = (case.read(), sample(case));
        for lost in [1, 2, 4, 8, 64] {
            for at in (0..bytes.len().saturating_sub(lost)).step_by(lost.max(bytes.len() / 500)) {
                let shorter = [&bytes[..at], &bytes[at + lost..]].concat();
                assert_block_damage_is_caught(case, &shorter, &hashes, &format!("{lost} bytes lost at {at}"));
            }
        }
    }
}

fn open(bytes: &[u8]) -> Result<Table, TableError> {
    Table::open_source(Bytes::copy_from_slice(bytes), &TableOptions::default())
}

/// A read gives the right answer or an error; one outside the table gives "absent" or an error.
fn assert_reads_right(case: &TableCase, table: &Table, numbers: impl Iterator<Item = u32>, what: &str) {
    for number in numbers {
        let expected = case.value(number).map_or(Lookup::Deleted, |value| Lookup::Found(value.into()));
        let expected = if number < case.entries { expected } else { Lookup::Absent };
        if let Ok(got) = table.get(&cases::key(number)) {
            assert_eq!(got, expected, "{}: {what}: key {number}", case.name);
        }
        let between = [&cases::key(number)[..], b"!"].concat();
        if let Ok(got) = table.get(&between) {
            assert_eq!(got, Lookup::Absent, "{}: {what}: behind key {number}", case.name);
        }
    }
}

/// Opening fails or verifying does, and meanwhile no read is wrong.
fn assert_table_damage_is_caught(case: &TableCase, damaged: &[u8], numbers: impl Iterator<Item = u32>, what: &str) {
    let Ok(table) = open(damaged) else { return };
    assert!(table.verify().is_err(), "{}: {what} passes for sound", case.name);
    assert_reads_right(case, &table, numbers, what);
}

/// Keys that are read under the `turn`th damage: all of a small table; of a large one five, spread evenly and
/// shifted from damage to damage, so that all keys have their turn many times. One beyond the end is among them.
fn sampled(case: &TableCase, turn: usize) -> impl Iterator<Item = u32> {
    let stride = if case.entries <= 100 { 1 } else { case.entries / 5 };
    let first = if stride == 1 { 0 } else { (turn as u32).wrapping_mul(7) % stride };
    (first..case.entries).step_by(stride as usize).chain([case.entries])
}

#[test]
fn every_flipped_bit_of_every_table_is_caught_and_no_read_is_wrong() {
    for case in &TABLES {
        for_each_flip(&case.read(), |damaged, bit| {
            assert_table_damage_is_caught(case, damaged, sampled(case, bit), &format!("bit {bit} flipped"));
        });
    }
}

#[test]
fn every_table_cut_short_or_prolonged_is_refused_when_it_is_opened() {
    for case in &TABLES {
        let bytes = case.read();
        for length in 0..bytes.len() {
            assert!(open(&bytes[..length]).is_err(), "{}: first {length} bytes", case.name);
            assert!(open(&bytes[bytes.len() - length..]).is_err(), "{}: last {length} bytes", case.name);
        }
        for more in 1..=100 {
            let padding = vec![0; more];
            assert!(open(&[&bytes[..], &padding].concat()).is_err(), "{}: {more} more", case.name);
            assert!(open(&[&padding, &bytes[..]].concat()).is_err(), "{}: {more} more in front", case.name);
        }
    }
}

fn regions(bytes: &[u8]) -> Vec<(&'static str, Range<usize>)> {
    let layout = open(bytes).unwrap().layout();
    layout.into_iter().map(|(part, region)| (part.name(), region.start as usize..region.end as usize)).collect()
}

/// Two tables of one shape: the same keys, other values of the same lengths, another id.
fn twins(case: &TableCase) -> (Vec<u8>, Vec<u8>) {
    let other = |number| {
        case.value(number).map(|mut value| {
            value[0] = b'w';
            value
        })
    };
    (case.build(), case.build_as(*b"the other table ", &other))
}

#[test]
fn parts_that_come_from_a_table_of_the_same_shape_are_damage() {
    for case in TABLES.iter().filter(|case| case.entries > 0) {
        let (one, other) = twins(case);
        assert_eq!(regions(&one), regions(&other), "{}", case.name);
        // Partitions of the same keys are the same in both: what binds them to a table is their top index.
        let differs = |(_, range): &(&str, Range<usize>)| one[range.clone()] != other[range.clone()];
        for (name, range) in regions(&one).into_iter().filter(differs) {
            let mut mixed = one.clone();
            mixed[range.clone()].copy_from_slice(&other[range]);
            assert_table_damage_is_caught(case, &mixed, 0..=case.entries, &format!("{name} of the other table"));
        }
    }
}

#[test]
fn the_filter_of_a_table_of_the_same_keys_is_not_believed_either() {
    for case in TABLES.iter().filter(|case| case.policy.is_some()) {
        let (one, other) = twins(case);
        let bound = if case.partition_bytes.is_some() { "filter-index" } else { "filter" };
        let (_, filter) = regions(&one).into_iter().find(|(name, _)| *name == bound).unwrap();
        let mut mixed = one.clone();
        mixed[filter.clone()].copy_from_slice(&other[filter]);
        let table = open(&mixed).unwrap();
        let problem = table.filters().problem();
        let is_other_file = matches!(problem, Some(FilterProblem::Block(BlockError::FileMismatch { .. })));
        assert!(is_other_file, "{}: {problem:?}", case.name);
        for number in 0..case.entries {
            let expected = case.value(number).map_or(Lookup::Deleted, |value| Lookup::Found(value.into()));
            assert_eq!(table.get(&cases::key(number)).unwrap(), expected, "{}: key {number}", case.name);
        }
        let stats = table.stats().filters.filter;
        assert_eq!((stats.negatives, stats.positives), (0, 0), "{}", case.name);
        assert_eq!(stats.unusable, u64::from(case.entries), "{}", case.name);
    }
}

#[test]
fn one_data_block_of_the_other_table_is_an_error_for_its_keys_and_leaves_the_rest_readable() {
    let case = &TABLES[1];
    let (one, other) = twins(case);
    let (_, data) = regions(&one).into_iter().find(|(name, _)| *name == "data").unwrap();
    // Both tables have their blocks in the same places: what differs in a stretch are values and checksums.
    let stretch = data.start..data.start + case.block_bytes as usize / 2;
    let mut mixed = one.clone();
    mixed[stretch.clone()].copy_from_slice(&other[stretch]);
    let table = open(&mixed).unwrap();
    assert!(table.verify().is_err());
    let answers: Vec<_> = (0..case.entries).map(|number| table.get(&cases::key(number))).collect();
    let errors = answers.iter().filter(|answer| answer.is_err()).count();
    assert!((1..200).contains(&errors), "{errors}");
    assert_reads_right(case, &table, 0..case.entries, "one foreign block");
}
