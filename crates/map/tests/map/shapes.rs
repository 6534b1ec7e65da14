//! Sizes and rates of maps.

use core::ops::Range;
use std::collections::BTreeMap;

use sstfilter::{FalsePositiveRate, FileId, Filters, KeyHash};
use sstfilter_map::{LocalId, MapAnswer, MapBuilder, MapMerge, MapOptions, WriteId, Writes};

use crate::effort;
use crate::support::{
    add, bytes_of, file, finish, hash, ids, index_of, load, map_id, map_of, merge, mix, options, probe, reads,
};

/// Hashes side by side, for prefixes of 40 bits.
fn side_by_side(key: u64) -> KeyHash {
    KeyHash::from_well_mixed(key << 24)
}

#[test]
fn seventy_files_take_less_than_16_8_bits_per_key_at_0_9_percent() {
    let rate = FalsePositiveRate::new(0.009).unwrap();
    let options = MapOptions::for_entries(70 * 15_000, rate).unwrap();
    let (bytes, report) = map_of(0..70, 15_000, 0, options);
    assert!(report.bits_per_entry() < 16.6, "{report:?}");
    let map = load(&bytes);
    let expected = map.index().expected_false_candidates();
    assert!(expected <= 0.009);
    let probes = 1_000_000 / effort::stride(20) as u64;
    let count = |key: u64| match map.candidates(KeyHash::from_well_mixed(mix(key ^ 0x77 << 50))) {
        MapAnswer::Only(ids) => ids.count() as u64,
        MapAnswer::All => panic!("no page is unknown"),
    };
    let found = (0..probes).map(count).sum::<u64>() as f64 / probes as f64;
    println!("{:.2} bits per entry, {found:.6} of {expected:.6} false candidates", report.bits_per_entry());
    // Five percent are 4.4 standard deviations of 10^6 trials.
    let allowed = if effort::is_short() { 0.3 } else { 0.05 };
    assert!((found / expected - 1.0).abs() < allowed, "{found}, expected {expected}");
}

/// Without lists, 100 such keys would slow down every eighth lookup, with all answers right.
#[test]
fn keys_that_all_files_have_are_lists_and_make_no_other_lookup_read_twice() {
    let (keys, hot) = if effort::is_short() { (500, 5) } else { (10_000, 100) };
    let options = MapOptions::for_entries(1_000 * keys, FalsePositiveRate::new(0.009).unwrap()).unwrap();
    let (_, without) = map_of(0..1_000, keys, 0, options);
    let (bytes, with) = map_of(0..1_000, keys, hot, options);
    assert_eq!((without.lists, without.outgrown_pages, with.lists), (0, 0, hot));
    let (more, lookups) = (with.bits_per_entry() - without.bits_per_entry(), 1_000_000 / effort::stride(20));
    assert!(more <= 0.2, "{with:?} {without:?}");
    let index = index_of(&bytes);
    let mut parts = BTreeMap::new();
    let mut reads_twice = |key: u64| {
        let hash = hash(mix(key) | 1 << 63);
        let part = parts.entry(index.page_of(hash)).or_insert_with(|| {
            let read = index.read_for(hash);
            index.open(&read, bytes_of(&read, &bytes)).unwrap()
        });
        probe(&index, Some(part), hash).is_err()
    };
    // Absent keys, and keys of a file each.
    let absent = (0..lookups as u64).filter(|&key| reads_twice(key | 1 << 60)).count();
    let present = (hot..keys).filter(|&key| reads_twice((key % 1_000) << 32 | key)).count();
    println!("{more:.3} bits per entry more, {absent} of {lookups} absent keys and {present} present ones read twice");
    assert!(absent <= lookups / 1_000 && present <= keys as usize / 1_000);
}

#[test]
fn a_line_may_have_65_536_entries() {
    // Side by side, 2,114 keys of 31 files each are in one line. Two or three files have one more.
    let options = MapOptions::with_prefix_bits(40).unwrap();
    for (more, expected) in [(2, (1, 0)), (3, (0, 1))] {
        let mut builder = MapBuilder::new(&Filters::default(), options);
        let keys = |number: u64| if number < more { 2_115 } else { 2_114 };
        for number in 0..31 {
            builder.add_file(file(number), (0..keys(number)).map(side_by_side).collect());
        }
        let (bytes, report) = finish(builder);
        assert_eq!(
            (report.entries, report.outgrown_pages, report.overflowed_lines, report.unknown_pages),
            (65_534 + more, expected.0, expected.1, 0)
        );
        let map = load(&bytes);
        for number in 0..31 {
            let id = map.index().local_id(file(number)).unwrap();
            let mut some = (0..keys(number)).step_by(97).chain([keys(number) - 1]);
            assert!(some.all(|key| map.candidates(side_by_side(key)).may_contain(id)), "{more}");
            assert_eq!(map.candidates(side_by_side(9_999)).may_contain(id), report.overflowed_lines > 0);
        }
    }
}

/// A map of the files, or flushes, with these numbers. Those below 2 have keys side by side, too many for one line
/// together; all have 2,000 keys of their own.
fn builder_with_chosen_keys(numbers: Range<u64>, are_writes: bool) -> MapBuilder {
    let mut builder = MapBuilder::new(&Filters::default(), options(40).with_page_bytes(1 << 12).unwrap());
    for number in numbers {
        let chosen = if number < 2 { 40_000 } else { 0 };
        let own = (0..2_000).map(|key| hash(number << 20 | key));
        let hashes = (0..chosen).map(side_by_side).chain(own).collect();
        if are_writes {
            builder.add_writes(Writes::of(WriteId::new(1, number + 1).unwrap()), hashes);
        } else {
            builder.add_file(file(number), hashes);
        }
    }
    builder
}

/// Checks that the map is sound, has all keys of the files with these numbers, and knows nothing of chosen keys.
fn check_overflowed(bytes: &[u8], numbers: Range<u64>) -> u64 {
    let map = load(bytes);
    assert!(map.problems().next().is_none() && !map.has_unknown_pages());
    let found = map.index().verify(reads(bytes), |problem| panic!("{problem}")).unwrap();
    assert!((0..40_000).step_by(97).all(|key| matches!(map.candidates(side_by_side(key)), MapAnswer::All)));
    // The position of the writes, in a map of writes.
    for (position, number) in numbers.enumerate() {
        let id = map.index().local_id(file(number)).map_or(position, LocalId::index);
        let has = |key| ids(map.candidates(hash(number << 20 | key))).is_none_or(|found| found.contains(&id));
        assert!((0..2_000).all(has), "{number}");
    }
    found.overflowed_lines
}

#[test]
fn a_line_with_too_many_entries_is_no_damage_and_stays_so_in_merges() {
    for are_writes in [false, true] {
        let builder = |numbers| builder_with_chosen_keys(numbers, are_writes);
        let options = options(40).with_page_bytes(1 << 12).unwrap();
        let (whole, report) = finish(builder(0..4));
        assert_eq!((report.overflowed_lines, report.unknown_pages), (1, 0), "{report:?}");
        assert_eq!(check_overflowed(&whole, 0..4), 1);
        // One file's chosen keys fit into a line. Those of two do not, whether they come from keys or from maps.
        let parts = [0..1, 1..2, 2..4].map(|numbers| finish(builder(numbers)));
        assert_eq!(parts.each_ref().map(|(_, report)| report.overflowed_lines), [0; 3]);
        assert!(merge(&[&parts[2].0, &parts[0].0, &parts[1].0], options) == (whole.clone(), report));
        assert!(merge(&[&whole], options) == (whole.clone(), report));
        // Merges with other shapes know no more of the line, and lose no other one but its neighbours.
        let mut merged = whole.clone();
        for more in 4..12 {
            let other = finish(builder(more..more + 1)).0;
            merged = merge(&[&merged, &other], options).0;
            assert!((1..=2 * (more - 2)).contains(&check_overflowed(&merged, 0..more + 1)));
        }
        // A damaged page of an input is unknown in the result all the same.
        let mut damaged = whole.clone();
        damaged[0] ^= 1;
        assert!(merge(&[&damaged], options).1.unknown_pages > 0);
    }
}

#[test]
fn a_line_that_has_overflowed_stays_so_without_the_files_of_its_keys() {
    let (whole, _) = finish(builder_with_chosen_keys(0..4, false));
    let mut merging = MapMerge::new(options(40));
    add(&mut merging, &whole, |id| id == file(2) || id == file(3));
    let mut bytes = Vec::new();
    let report = merging.finish(map_id(), &mut bytes).unwrap();
    assert_eq!((report.files, report.unknown_pages), (2, 0));
    assert_eq!(check_overflowed(&bytes, 2..4), report.overflowed_lines);
}

// promise: file-maps
#[test]
fn lists_of_a_line_that_overflows_are_not_those_of_later_lines() {
    let mut builder = MapBuilder::new(&Filters::default(), MapOptions::with_prefix_bits(40).unwrap());
    for number in 0..80 {
        let chosen = (0..70_000).step_by(if number == 0 { 1 } else { 100 }).map(side_by_side);
        builder.add_file(file(number), if number < 40 { chosen.collect() } else { (0..4_000).map(hash).collect() });
    }
    let (bytes, report) = finish(builder);
    assert!(report.overflowed_lines > 0 && report.lists > 0, "{report:?}");
    let map = load(&bytes);
    for number in 40..80 {
        let id = map.index().local_id(file(number)).unwrap();
        assert!((0..4_000).all(|key| map.candidates(hash(key)).may_contain(id)), "{number}");
    }
}

/// A merge divides hashes into other pages, one of which may end within a line that has overflowed.
// promise: file-maps
#[test]
fn what_has_overflowed_stays_so_on_both_sides_of_the_end_of_a_page() {
    let options = options(40);
    // Around a half, a third, ... of all hashes, where pages of a multiple of that number have an end.
    for (parts, more) in (2..8).flat_map(|parts| (0..3).map(move |more| (parts, more))) {
        let chosen = |key: u64| KeyHash::from_well_mixed(u64::MAX / parts - (35_000 << 24) + (key << 24));
        let mut builder = MapBuilder::new(&Filters::default(), options);
        let own = |number: u64| (0..500 * more).map(move |key| hash(number << 20 | key));
        (0..2).for_each(|number| builder.add_file(file(number), (0..70_000).map(chosen).chain(own(number)).collect()));
        let (crowded, report) = finish(builder);
        assert!((1..=2).contains(&report.overflowed_lines), "{report:?}");
        for others in 1..6 {
            let (other, _) = map_of(2..3, 1_500 * others, 0, options);
            let (merged, report) = merge(&[&crowded, &other], options);
            assert!(report.overflowed_lines <= 4, "{parts} {more} {others}: {report:?}");
            let map = load(&merged);
            let id = map.index().local_id(file(0)).unwrap();
            let is_lost = |key: &u64| !map.candidates(chosen(*key)).may_contain(id);
            assert_eq!((0..70_000).step_by(97).find(is_lost), None, "{parts} {more} {others}: {report:?}");
        }
    }
}

#[test]
fn a_page_of_more_than_16_mib_overflows_as_a_whole() {
    let options = MapOptions::with_prefix_bits(48).unwrap().with_page_bytes(1 << 20).unwrap();
    let entries = 6_000_000;
    // All in the first of some twenty pages.
    let chosen = |key: u64| KeyHash::from_well_mixed((key * ((1 << 48) / 40 / entries)) << 16);
    let mut builder = MapBuilder::new(&Filters::default(), options);
    builder.add_file(file(1), (0..entries).map(chosen).chain((0..100).map(|key| hash(key | 1 << 63))).collect());
    let (bytes, report) = finish(builder);
    assert_eq!((report.outgrown_pages, report.unknown_pages), (0, 0), "{report:?}");
    assert!(report.overflowed_lines > 1_000 && report.pages > 10, "{report:?}");
    let map = load(&bytes);
    assert!((0..entries).step_by(997).all(|key| matches!(map.candidates(chosen(key)), MapAnswer::All)));
    let id = map.index().local_id(file(1)).unwrap();
    assert!((0..100).all(|key| map.candidates(hash(key | 1 << 63)).may_contain(id)));
}

#[test]
fn a_line_of_as_many_entries_as_it_has_run_ends_loses_none() {
    // In one line. The closer they are, the more of them share a quotient.
    for (count, shift) in (220..=230).flat_map(|count| [30, 45, 50, 55].map(|shift| (count, shift))) {
        let side_by_side = |key: u64| KeyHash::from_well_mixed(key << shift);
        let mut builder = MapBuilder::new(&Filters::default(), MapOptions::with_prefix_bits(40).unwrap());
        builder.add_file(file(1), (0..count).map(side_by_side).collect());
        let (bytes, _) = finish(builder);
        let map = load(&bytes);
        let id = map.index().local_id(file(1)).unwrap();
        for key in 0..count {
            assert!(map.candidates(side_by_side(key)).may_contain(id), "{key} of {count}");
            let absent = KeyHash::from_well_mixed(key << shift | 1 << (shift - 1));
            assert!(!map.candidates(absent).may_contain(id), "{key} of {count}");
        }
        assert!(merge(&[&bytes], MapOptions::with_prefix_bits(40).unwrap()).0 == bytes, "{count}");
    }
}

#[test]
fn very_many_files_of_few_keys_with_48_bits_of_each() {
    // A prefix and a file have more than 64 bits together.
    let options = MapOptions::with_prefix_bits(48).unwrap();
    let files = (1 << 16) + 1;
    let (bytes, report) = map_of(0..files, 2, 0, options);
    assert!(report.pages > 1 && report.outgrown_pages == 0, "{report:?}");
    let map = load(&bytes);
    for number in 0..files {
        let id = map.index().local_id(file(number)).unwrap();
        assert!((0..2).all(|key| map.candidates(hash(mix(number << 32 | key) | 1 << 63)).may_contain(id)));
    }
    assert!(merge(&[&bytes], options).0 == bytes);
}

#[test]
fn a_file_that_is_added_twice_is_refused() {
    let mut builder = MapBuilder::new(&Filters::default(), MapOptions::with_prefix_bits(20).unwrap());
    builder.add_file(FileId::from_fingerprint(7), vec![hash(1)]);
    builder.add_file(FileId::from_fingerprint(7), vec![hash(2)]);
    let error = builder.finish(map_id(), &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("was added twice"), "{error}");
}
