//! The files in `fixtures`, rebuilt byte for byte and read back, with every instruction set of the CPU. The failure
//! guarded against: after a change, writer and reader agree with each other, but not with existing files. After the
//! first release, a new version of a format adds fixtures, and those of older versions stay readable.

use std::sync::Mutex;

use sstfilter::{FilterBlock, FilterSet, Filters, KeyHash, KindId, MatchBitmap, kind, simd};

use crate::common::cases::{self, BLOCKS};
use crate::common::for_each_set;
use crate::common::golden::{check_file, is_regenerating};

/// Absent keys that each filter is probed for.
const ABSENT_KEYS: u32 = 10_000;

// promise: same-bytes
#[test]
fn every_block_is_built_as_it_was_byte_for_byte() {
    for_each_set(|_| {
        for case in BLOCKS {
            check_file(&cases::directory().join(case.file()), &case.build());
        }
    });
}

// promise: stays-readable
#[test]
fn every_key_of_a_stored_block_is_found() {
    if is_regenerating() {
        return;
    }
    for_each_set(|set| {
        for case in BLOCKS {
            let filter = FilterBlock::load(case.read(), case.load_context()).unwrap();
            let hashes = case.hashes();
            let off = filter.info().keys.abs_diff(hashes.len() as u64);
            let allowed = if case.recipe.is_counted() { 0 } else { u64::from(case.keys) / 10 };
            assert!(off <= allowed, "{}: {} keys", case.name, filter.info().keys);
            assert_eq!(filter.hash_identity(), case.hash.hasher().identity(), "{}", case.name);
            let filters = Filters::default().with_hasher(case.hash.hasher());
            let answers = answers(&filters, &filter, &hashes);
            assert!(answers.iter().all(|&answer| answer), "{} with {set}", case.name);
        }
    });
}

#[test]
fn a_stored_block_of_parts_tells_of_prefixes_and_one_without_whole_keys_of_no_key() {
    if is_regenerating() {
        return;
    }
    for case in BLOCKS.iter().filter(|case| (case.parts)().extractors().len() > 0) {
        let (parts, hasher) = ((case.parts)(), case.hash.hasher());
        let filters = Filters::default().with_hasher(hasher.clone()).with_key_parts(parts.clone());
        let filter = filters.reader(FilterBlock::load(case.read(), case.load_context()));
        for key in (0..case.keys).map(cases::key) {
            assert!(!filter.probe_prefix(&key).is_absent(), "{}", case.name);
            assert!(!filter.probe_hash(hasher.hash(&key)).is_absent(), "{}", case.name);
        }
        let absent: Vec<Vec<u8>> = (0..ABSENT_KEYS).map(cases::absent_key).collect();
        let lacks_prefix = |key: &&Vec<u8>| filter.probe_prefix(key).is_absent();
        assert!(absent.iter().filter(lacks_prefix).count() > 9_000, "{}", case.name);
        let lacked = absent.iter().filter(|key| filter.probe_hash(hasher.hash(key)).is_absent()).count();
        assert_eq!(lacked > 9_000, parts.has_whole_keys(), "{}: {lacked}", case.name);
        assert_eq!(lacked > 0, parts.has_whole_keys(), "{}: {lacked}", case.name);
    }
}

/// A filter's answers, which must be the same one by one, in a set of filters and in a batch.
fn answers(filters: &Filters, filter: &FilterBlock<Vec<u8>>, hashes: &[KeyHash]) -> Vec<bool> {
    let mut matches = MatchBitmap::default();
    filter.may_contain_batch(hashes, &mut matches);
    let one_by_one: Vec<bool> = hashes.iter().map(|&hash| filter.may_contain(hash)).collect();
    let set = FilterSet::new(filters, [filters.reader(Ok(filter.clone()))]);
    let mut in_set = MatchBitmap::default();
    for (&hash, &answer) in hashes.iter().zip(&one_by_one) {
        set.matches_hash(hash, &mut in_set);
        assert_eq!(in_set.may_contain(0), answer, "a set with {}", simd::selected());
    }
    let of_batch = (0..hashes.len()).map(|index| matches.may_contain(index));
    assert!(one_by_one.iter().copied().eq(of_batch), "a batch with {}", simd::selected());
    one_by_one
}

// promise: same-bytes
#[test]
fn absent_keys_pass_a_stored_block_or_not_whatever_the_instruction_set() {
    if is_regenerating() {
        return;
    }
    for case in BLOCKS {
        let filter = FilterBlock::load(case.read(), case.load_context()).unwrap();
        let first = Mutex::new(None);
        for_each_set(|set| {
            let filters = Filters::default().with_hasher(case.hash.hasher());
            let answers = answers(&filters, &filter, &case.absent_hashes(ABSENT_KEYS));
            let mut first = first.lock().unwrap();
            assert!(*first.get_or_insert_with(|| answers.clone()) == answers, "{} with {set}", case.name);
        });
    }
}

#[test]
fn the_fixtures_show_all_kinds_both_rounds_of_lanes_both_numbers_of_layers_and_a_fallback() {
    let infos: Vec<_> = BLOCKS.iter().map(|case| FilterBlock::open_unverified(case.build()).unwrap().info()).collect();
    let shapes_of = |kind: KindId, field: &str| -> Vec<u64> {
        let ours = infos.iter().filter(|info| info.kind == kind);
        let fields = ours.flat_map(|info| info.shape.iter()).filter(|(name, _)| *name == field);
        fields.filter_map(|(_, value)| value.parse().ok()).collect()
    };
    let probes = shapes_of(KindId::BLOCKED_BLOOM, "probes");
    assert!(probes.iter().any(|&probes| probes <= 8) && probes.iter().any(|&probes| probes > 8), "{probes:?}");
    let layers = shapes_of(KindId::RIBBON, "layers");
    assert!(layers.contains(&1) && layers.contains(&2), "{layers:?}");
    assert!(shapes_of(KindId::RIBBON, "columns").contains(&32));
    assert!(infos.iter().any(|info| info.kind != info.requested));
    for entry in kind::all() {
        assert!(infos.iter().any(|info| info.kind == entry.id), "no fixture of {}", entry.name);
    }
}
