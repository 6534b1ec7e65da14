//! Sizes and rates of maps.

use sstfilter::{FalsePositiveRate, FileId, Filters, KeyHash};
use sstfilter_map::{Candidates, FileMap, MapBuilder, MapOptions};

use crate::support::{file, hash, map_id, mix};

/// A map of `files` files of `keys` keys, of which the first `hot` are in all of them.
fn map_of(files: u64, keys: u64, hot: u64, options: MapOptions) -> (Vec<u8>, sstfilter_map::MapReport) {
    let mut builder = MapBuilder::new(&Filters::default(), options);
    for number in 0..files {
        let own = (hot..keys).map(|key| mix(number << 32 | key) | 1 << 63);
        builder.add_file(file(number), (0..hot).chain(own).map(hash).collect());
    }
    let mut bytes = Vec::new();
    let report = builder.finish(map_id(), &mut bytes).unwrap();
    (bytes, report)
}

#[test]
fn seventy_files_take_less_than_16_8_bits_per_key_at_0_9_percent() {
    let rate = FalsePositiveRate::new(0.009).unwrap();
    let options = MapOptions::for_entries(70 * 15_000, rate).unwrap();
    let (bytes, report) = map_of(70, 15_000, 0, options);
    assert!(report.bits_per_entry() < 16.6, "{report:?}");
    let map = FileMap::load(bytes, &Filters::default(), map_id()).unwrap();
    let expected = map.index().expected_false_candidates();
    assert!(expected <= 0.009);
    let mut found = 0_u32;
    for key in 0..500_000_u64 {
        match map.candidates(KeyHash::from_well_mixed(mix(key ^ 0x77 << 50))) {
            Candidates::Only(ids) => found += ids.count() as u32,
            Candidates::All => panic!("no page is unknown"),
        }
    }
    // 500,000 trials; four standard deviations.
    let deviation = 4.0 * (expected / 500_000.0).sqrt();
    assert!((f64::from(found) / 500_000.0 - expected).abs() < deviation, "{found}, expected {expected}");
}

#[test]
fn keys_that_all_files_have_are_lists_and_fill_no_page() {
    let options = MapOptions::for_entries(2_000_000, FalsePositiveRate::new(0.009).unwrap()).unwrap();
    let (_, without) = map_of(1_000, 2_000, 0, options);
    let (_, with) = map_of(1_000, 2_000, 20, options);
    assert_eq!((without.lists, without.outgrown_pages), (0, 0));
    assert_eq!((with.lists, with.outgrown_pages), (20, 0));
    assert!(with.bits_per_entry() < without.bits_per_entry() + 0.2, "{with:?} {without:?}");
}

#[test]
fn a_page_that_outgrows_its_bytes_is_found_in_the_tail() {
    // One prefix in 31 files each: no list, and far more entries than the page's share.
    let options = MapOptions::with_prefix_bits(40).unwrap().with_page_bytes(1 << 10).unwrap();
    let mut builder = MapBuilder::new(&Filters::default(), options);
    let crowd = |key: u64| KeyHash::from_well_mixed(key << 24);
    for number in 0..31 {
        let alone = (0..300).map(|key| hash(number << 20 | key));
        builder.add_file(file(number), (0..100).map(crowd).chain(alone).collect());
    }
    let mut bytes = Vec::new();
    let report = builder.finish(map_id(), &mut bytes).unwrap();
    assert!(report.outgrown_pages > 0 && report.unknown_pages == 0, "{report:?}");
    let map = FileMap::load(bytes.as_slice(), &Filters::default(), map_id()).unwrap();
    assert_eq!(map.problems().next(), None);
    for number in 0..31 {
        let id = map.index().local_id(file(number)).unwrap();
        assert!((0..100).all(|key| map.candidates(crowd(key)).may_contain(id)));
        assert!((0..300).all(|key| map.candidates(hash(number << 20 | key)).may_contain(id)));
    }
}

#[test]
fn very_many_files_of_few_keys_with_48_bits_of_each() {
    // A prefix and a file have more than 64 bits together.
    let options = MapOptions::with_prefix_bits(48).unwrap();
    let files = (1 << 16) + 1;
    let (bytes, report) = map_of(files, 2, 0, options);
    assert!(report.pages > 1 && report.outgrown_pages == 0, "{report:?}");
    let map = FileMap::load(bytes.as_slice(), &Filters::default(), map_id()).unwrap();
    for number in 0..files {
        let id = map.index().local_id(file(number)).unwrap();
        assert!((0..2).all(|key| map.candidates(hash(mix(number << 32 | key) | 1 << 63)).may_contain(id)));
    }
    assert!(crate::support::merge(&[&bytes], options).0 == bytes);
}

#[test]
fn a_file_that_is_added_twice_is_refused() {
    let mut builder = MapBuilder::new(&Filters::default(), MapOptions::with_prefix_bits(20).unwrap());
    builder.add_file(FileId::from_fingerprint(7), vec![hash(1)]);
    builder.add_file(FileId::from_fingerprint(7), vec![hash(2)]);
    let error = builder.finish(map_id(), &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("was added twice"), "{error}");
}
