//! Maps of writes must never say that a flush did not write a key that it wrote, however maps are merged, repeated,
//! damaged or out of date.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use sstfilter::Filters;
use sstfilter_map::{FileMap, MapBuilder, MapError, MapMerge, WriteId, WriteSet, Writes};

use crate::effort;
use crate::forge::{Forged, Random};
use crate::support::{add, file, hash, index_of, map_id, options, reads};

/// The keys of flushes, by the first and the last number of each.
type Flushes = BTreeMap<(u64, u64), Vec<u64>>;

fn id(counter: u64) -> WriteId {
    WriteId::new(1, counter).unwrap()
}

fn writes(first: u64, last: u64) -> Writes {
    Writes::new(id(first), id(last)).unwrap()
}

fn try_build(flushes: &Flushes) -> io::Result<Vec<u8>> {
    let mut builder = MapBuilder::new(&Filters::default(), options(40));
    for (&(first, last), keys) in flushes {
        builder.add_writes(writes(first, last), keys.iter().map(|&key| hash(key)).collect());
    }
    let mut bytes = Vec::new();
    builder.finish(map_id(), &mut bytes)?;
    Ok(bytes)
}

fn build(flushes: &Flushes) -> Vec<u8> {
    try_build(flushes).unwrap()
}

fn load(bytes: &[u8]) -> Arc<FileMap<&[u8]>> {
    Arc::new(crate::support::load(bytes))
}

fn set<'a>(maps: &[&'a [u8]]) -> WriteSet<&'a [u8]> {
    WriteSet::new(&maps.iter().map(|map| load(map)).collect::<Vec<_>>())
}

fn merge_below(floor: u64, parts: &[&[u8]]) -> Vec<u8> {
    let mut merge = MapMerge::new(options(40)).with_floor(id(floor));
    parts.iter().for_each(|part| add(&mut merge, part, |_| true));
    let mut bytes = Vec::new();
    merge.finish(map_id(), &mut bytes).unwrap();
    bytes
}

/// Ten flushes, the third of five numbers. A third of the keys are written again and again.
fn ten_flushes() -> Flushes {
    let mut first = 1;
    let flush = |number: u64| {
        let own = (first, if number == 2 { first + 4 } else { first });
        first = own.1 + 1;
        (own, (0..300).map(|key| if key % 3 == 0 { key } else { number << 32 | key }).collect())
    };
    (0..10).map(flush).collect()
}

/// The flushes with those below `floor` as one.
fn coalesced(flushes: &Flushes, floor: u64) -> Flushes {
    let mut all = Flushes::new();
    let mut below = (None, Vec::new());
    for (&(first, last), keys) in flushes {
        if last < floor {
            let start = below.0.map_or(first, |(start, _)| start);
            below = (Some((start, last)), [below.1, keys.clone()].concat());
        } else {
            all.insert((first, last), keys.clone());
        }
    }
    all.extend(below.0.map(|own| (own, below.1)));
    all
}

fn check_all(set: &WriteSet<&[u8]>, flushes: &Flushes) {
    for (&(first, last), keys) in flushes {
        for &key in keys {
            let found = set.of(hash(key));
            assert!(found.may_be_in(writes(first, last)), "flush {first} lost key {key:#x}");
            assert!((first..=last).any(|number| found.may_be_in(writes(number, number))));
        }
    }
}

#[test]
fn a_key_may_be_only_in_the_flushes_that_wrote_it() {
    let flushes = ten_flushes();
    let bytes = build(&flushes);
    let set = set(&[&bytes]);
    check_all(&set, &flushes);
    let hashes: Vec<_> = (0..2_000).map(|key| hash(if key % 2 == 0 { key / 4 } else { key << 40 })).collect();
    for (batched, single) in set.of_each(&hashes).iter().zip(hashes.iter().map(|&hash| set.of(hash))) {
        for number in 0..20 {
            assert_eq!(batched.may_be_in(writes(number, number)), single.may_be_in(writes(number, number)));
        }
    }
    for (&own, keys) in &flushes {
        for &key in keys.iter().filter(|key| **key >> 32 > 0) {
            let found = set.of(hash(key));
            let may_be_in = |other: &(u64, u64)| found.may_be_in(writes(other.0, other.1));
            assert_eq!(flushes.keys().copied().filter(may_be_in).collect::<Vec<_>>(), [own], "{key:#x}");
        }
    }
}

// promise: file-maps
#[test]
fn no_call_excludes_a_file_with_a_write_that_is_not_covered() {
    let flushes: Flushes = [((2, 3), vec![1]), ((5, 5), vec![2])].into();
    let bytes = build(&flushes);
    let set = set(&[&bytes]);
    assert_eq!(set.covered(), [writes(2, 3), writes(5, 5)]);
    let absent = set.of(hash(7));
    for first in 0..8 {
        for last in first..8 {
            let is_covered = (2..=3).contains(&first) && last <= 3 || (first, last) == (5, 5);
            assert_eq!(absent.may_be_in(writes(first, last)), !is_covered, "{first} to {last}");
            assert_eq!(set.covers(writes(first, last)), is_covered);
        }
    }
    assert!(absent.may_be_in(Writes::ALL));
    // Without maps, nothing is covered.
    assert!(WriteSet::<&[u8]>::new(&[]).of(hash(7)).may_be_in(writes(2, 2)));
    // A map of files says nothing of writes, and a map of writes nothing of files.
    let of_files = crate::support::build(&[(1, vec![7])].into(), options(40)).0;
    assert!(self::set(&[&of_files]).of(hash(8)).may_be_in(writes(2, 2)));
    assert_eq!(load(&bytes).index().local_id(file(1)), None);
    let maps = [load(&bytes)];
    let of_files = sstfilter_map::MapSet::new(&maps, &[file(1)]);
    assert_eq!(of_files.uncovered(), [0]);
}

#[test]
fn merges_in_any_order_have_the_bytes_of_a_build_from_keys_whatever_is_coalesced() {
    let flushes = ten_flushes();
    let leaves: Vec<Vec<u8>> = flushes.iter().map(|(&own, keys)| build(&[(own, keys.clone())].into())).collect();
    let leaves: Vec<&[u8]> = leaves.iter().map(Vec::as_slice).collect();
    for floor in [0, 2, 3, 5, 8, 12, 15, 100] {
        let expected = build(&coalesced(&flushes, floor));
        assert_eq!(merge_below(floor, &leaves), expected, "floor {floor}");
        let mut random = Random(floor);
        for _ in 0..4 {
            // Any two maps at a time, until one is left.
            let mut maps: Vec<Vec<u8>> = leaves.iter().map(|leaf| leaf.to_vec()).collect();
            while maps.len() > 1 {
                let one = maps.swap_remove(random.below(maps.len()));
                let other = maps.swap_remove(random.below(maps.len()));
                maps.push(merge_below(floor, &[&one, &other]));
            }
            assert_eq!(maps[0], expected, "floor {floor}");
        }
        let whole = load(&expected);
        let found = whole.index().verify(reads(&expected), |problem| panic!("{problem}")).unwrap();
        assert_eq!(found.entries, whole.index().entries());
        check_all(&set(&[&expected]), &flushes);
    }
    // A map twice, and one of a part of the others.
    let (all, some) = (build(&flushes), merge_below(0, &leaves[2..5]));
    assert_eq!(merge_below(0, &[&all, &some, &all]), all);
}

// promise: file-maps
#[test]
fn maps_that_overlap_are_stale_or_come_twice_lose_no_key() {
    let walks = if effort::is_long() { 400 } else { 40 };
    for walk in 0..walks {
        let (mut random, flushes) = (Random(walk << 32), ten_flushes());
        // Maps of any stretch of flushes, coalesced or not; then merges of some of them.
        let mut maps: Vec<Vec<u8>> = Vec::new();
        for _ in 0..6 {
            let skipped = random.below(10);
            let some: Flushes = flushes.clone().into_iter().skip(skipped).take(1 + random.below(5)).collect();
            maps.push(build(&coalesced(&some, random.below(20) as u64)));
            let others: Vec<&[u8]> = (0..=random.below(3)).map(|_| &maps[random.below(maps.len())][..]).collect();
            maps.push(merge_below(random.below(20) as u64, &others));
        }
        let maps: Vec<&[u8]> = maps.iter().map(Vec::as_slice).collect();
        check_all(&set(&maps), &flushes);
    }
}

// promise: file-maps
#[test]
fn a_damaged_page_makes_writes_unknown_and_stays_unknown_in_merges() {
    let flushes = ten_flushes();
    let sound = build(&flushes);
    let mut damaged = sound.clone();
    damaged[100] ^= 1;
    let set_of_damaged = set(&[&damaged]);
    check_all(&set_of_damaged, &flushes);
    let is_unknown = |set: &WriteSet<&[u8]>| (0..1_000).filter(|key| set.of(hash(*key)).is_unknown()).count();
    assert!(is_unknown(&set_of_damaged) > 0);
    for floor in [0, 9] {
        let merged = merge_below(floor, &[&damaged]);
        let set = set(&[&merged]);
        assert!(is_unknown(&set) > 0);
        check_all(&set, &flushes);
        // Merged again with the sound map, and in either order.
        check_all(&self::set(&[&merge_below(floor, &[&sound, &merged])]), &flushes);
    }
}

// promise: file-maps
#[test]
fn a_flush_that_is_repeated_after_a_crash_has_a_number_of_its_own() {
    // The writer of epoch 1 wrote the map of flush 17, and crashed before its file was in the manifest.
    let [lost, repeated] = [1, 2].map(|epoch| WriteId::new(epoch, 17).unwrap());
    let one = |own: Writes, key: u64| {
        let (mut builder, mut bytes) = (MapBuilder::new(&Filters::default(), options(40)), Vec::new());
        builder.add_writes(own, vec![hash(key)]);
        builder.finish(map_id(), &mut bytes).unwrap();
        bytes
    };
    let lost_map = one(Writes::of(lost), 1);
    // The lost map alone says nothing of the repeated flush, which has other keys.
    let file = Writes::of(repeated);
    assert!(set(&[&lost_map]).of(hash(2)).may_be_in(file));
    // The next flush covers the numbers between, which belong to no flush.
    let repeated_map = one(Writes::new(lost.next(), repeated).unwrap(), 2);
    let set = set(&[&lost_map, &repeated_map]);
    assert!(set.of(hash(2)).may_be_in(file) && !set.of(hash(1)).may_be_in(file));
    assert_eq!(set.covered(), [Writes::new(lost, repeated).unwrap()]);
    assert!(!set.of(hash(3)).may_be_in(Writes::of(lost).including(file)));
}

#[test]
fn a_map_covers_either_files_or_writes() {
    let mut builder = MapBuilder::new(&Filters::default(), options(40));
    builder.add_file(file(1), vec![hash(1)]);
    builder.add_writes(writes(1, 1), vec![hash(2)]);
    let refused = builder.finish(map_id(), &mut Vec::new()).unwrap_err();
    assert_eq!(refused.downcast::<MapError>().unwrap(), MapError::MixedCoverage);
    let of_files = crate::support::build(&[(1, vec![7])].into(), options(40)).0;
    let of_writes = build(&ten_flushes());
    for [one, other] in [[&of_files, &of_writes], [&of_writes, &of_files]] {
        let (one, other) = (load(one), load(other));
        let mut merge = MapMerge::new(options(40));
        merge.add_loaded(&one, |_| true).unwrap();
        assert_eq!(merge.add_loaded(&other, |_| true), Err(MapError::MixedCoverage));
    }
    let twice = try_build(&[((1, 3), vec![1]), ((3, 4), vec![2])].into()).unwrap_err();
    let refused = twice.downcast::<MapError>().unwrap();
    assert!(matches!(refused, MapError::Field { field: "covered writes", got, .. } if got == id(3).get()));
}

#[test]
fn no_write_at_all_has_a_map_and_an_empty_flush_does() {
    let bytes = build(&[((1, 9), vec![])].into());
    assert!(!set(&[&bytes]).of(hash(1)).may_be_in(writes(1, 9)));
    assert!(try_build(&Flushes::new()).is_err());
    assert!(MapMerge::new(options(40)).with_floor(id(9)).finish(map_id(), &mut Vec::new()).is_err());
}

#[test]
fn forged_writes_are_refused() {
    let sound = build(&[((1, 2), vec![1, 2]), ((3, 3), vec![3])].into());
    let forged = |at: usize, bytes: usize, value: u64| {
        let mut forged = Forged::new(sound.clone());
        let end = forged.end();
        forged.set(end + at - 32, bytes, value);
        forged.seal();
        FileMap::load_any(forged.bytes).map(|map| map.index().writes().to_vec())
    };
    let number = |counter| id(counter).get();
    assert_eq!(forged(0, 8, number(1)).unwrap(), [writes(1, 2), writes(3, 3)]);
    let refused = |got: Result<Vec<Writes>, MapError>, expected| {
        assert!(matches!(got, Err(MapError::Field { field, .. }) if field == expected), "{got:?}");
    };
    // The last is below the first; two overlap; the second is below the first.
    refused(forged(0, 8, number(3)), "covered writes");
    refused(forged(8, 8, number(3)), "covered writes");
    refused(forged(16, 8, number(0)), "covered writes");
    // The trailer claims more entries than fit into the pages.
    refused(forged(32 + 44, 5, 1 << 39), "entries");
    // Other coverages than files and writes.
    for coverage in 2..16 {
        assert!(forged(32 + 52, 1, 1 << 4 | coverage).is_err(), "{coverage}");
    }
    // As a map of files, its table makes no sense.
    refused(forged(32 + 52, 1, 1 << 4), "entries of a covered file");
    // A wrong number of entries is found by a verification.
    let mut forged = Forged::new(sound);
    let end = forged.end();
    forged.set(end + 44, 5, 4);
    forged.seal();
    let mut problems = Vec::new();
    index_of(&forged.bytes).verify(reads(&forged.bytes), |problem| problems.push(problem)).unwrap();
    assert!(matches!(problems[..], [MapError::Field { field: "entries", got: 4, .. }]), "{problems:?}");
}
