//! Damaged, foreign and forged bytes.

use sstfilter::{FileId, Filters, KeyHasher};
use sstfilter_map::{FileMap, MapIndex, MapOptions};

use crate::support::{build, check_all, hash, load, map_id, merge, model};

fn options() -> MapOptions {
    MapOptions::with_prefix_bits(24).unwrap().with_page_bytes(1 << 10).unwrap()
}

#[test]
fn after_any_flipped_bit_no_key_is_lost() {
    let model = model(3, 60, 40, 1);
    let (bytes, report) = build(&model, options());
    assert!(report.lists > 0 && report.pages > 3);
    let mut refused = 0;
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        match FileMap::load(damaged.as_slice(), &Filters::default(), map_id()) {
            Err(_) => refused += 1,
            Ok(map) => {
                assert!(map.problems().count() > 0, "byte {at} is not covered");
                check_all(&map, &model);
            }
        }
    }
    let end = MapIndex::end_bytes(&bytes).unwrap();
    assert_eq!(refused, end, "damage to the end, and only that, refuses the map");
}

#[test]
fn a_page_of_another_place_or_map_is_damage() {
    let model = model(4, 20, 200, 0);
    let (bytes, report) = build(&model, options());
    assert!(report.pages > 4);
    let mut swapped = bytes.clone();
    swapped.copy_within(0..1_024, 1_024);
    assert_eq!(load(&swapped).problems().count(), 1);
    check_all(&load(&swapped), &model);
    // A map of the same size with another id, whose first page gets into this one.
    let mut builder = sstfilter_map::MapBuilder::new(&Filters::default(), options());
    for number in 0..20 {
        builder.add_file(FileId::from_fingerprint(number + 1), (0..200).map(hash).collect());
    }
    let mut other = Vec::new();
    builder.finish(FileId::from_fingerprint(99), &mut other).unwrap();
    let mut foreign = bytes.clone();
    foreign[..1_024].copy_from_slice(&other[..1_024]);
    assert_eq!(load(&foreign).problems().count(), 1);
    check_all(&load(&foreign), &model);
}

#[test]
fn a_map_of_another_id_or_hash_covers_nothing() {
    let (bytes, _) = build(&model(5, 3, 100, 0), options());
    let length = bytes.len() as u64;
    assert!(MapIndex::load(&bytes, length, &Filters::default(), FileId::from_fingerprint(1)).is_err());
    let other = Filters::default().with_hasher(KeyHasher::with_seed(1));
    assert!(MapIndex::load(&bytes, length, &other, map_id()).is_err());
    assert!(MapIndex::load(&bytes, length - 1, &Filters::default(), map_id()).is_err());
}

#[test]
fn a_damaged_page_of_an_input_is_unknown_in_the_result() {
    let model = model(6, 50, 120, 11);
    let halves = [0, 1].map(|half| {
        let own = model.iter().filter(|(number, _)| **number % 2 == half);
        build(&own.map(|(number, keys)| (*number, keys.clone())).collect(), options()).0
    });
    for at in (0..halves[0].len() - 1_000).step_by(97) {
        let mut damaged = halves[0].clone();
        damaged[at] ^= 0x10;
        if MapIndex::load_any(&damaged, damaged.len() as u64).is_err() {
            continue;
        }
        let (merged, report) = merge(&[&damaged, &halves[1]], options());
        assert!(report.unknown_pages > 0, "byte {at}");
        let map = load(&merged);
        assert_eq!(map.problems().next(), None);
        check_all(&map, &model);
    }
}
