//! Maps beside a model: the files of each key.

use std::collections::{BTreeMap, BTreeSet};

use sstfilter::simd::InstructionSet;
use sstfilter_map::{MapIndex, MapMerge, MapOptions};

use crate::effort;
use crate::support::{
    Model, add, build, candidates, check_all, file, hash, ids, load, map_id, merge, mix, model, options, part_of,
};

/// The files of each prefix.
fn expected(model: &Model, prefix_bits: u8) -> BTreeMap<u64, BTreeSet<u64>> {
    let mut files = BTreeMap::<u64, BTreeSet<u64>>::new();
    for (&number, keys) in model {
        for &key in keys {
            files.entry(hash(key).get() >> (64 - prefix_bits)).or_default().insert(file(number).fingerprint());
        }
    }
    files
}

/// Models of many forms: files, keys of each, share of shared keys (1 in so many), bits.
pub(crate) const FORMS: [(u64, u64, u64, u8); 12] = [
    (1, 0, 0, 8),
    (1, 1, 0, 48),
    (1, 5_000, 0, 24),
    (2, 1_000, 2, 20),
    (3, 777, 0, 16),
    (31, 300, 5, 30),
    (32, 300, 5, 30),
    (70, 500, 20, 27),
    (100, 60, 3, 40),
    (400, 50, 1, 26),
    (1_000, 20, 7, 33),
    (7, 3_000, 0, 8),
];

#[test]
fn a_map_has_the_planned_size_and_the_bytes_of_its_lists_and_outgrown_pages() {
    let mut exact = 0;
    for (form, (files, keys, shared, bits)) in (0..).zip(FORMS) {
        let (bytes, report) = build(&model(form, files, keys, shared), options(bits));
        let plan = options(bits).plan(report.files, report.entries).unwrap();
        let map = load(&bytes);
        let page_bytes = map.index().page_range(0).end;
        assert_eq!((plan.pages, plan.page_bytes), (report.pages, page_bytes), "form {form}");
        assert_eq!(plan.end_bytes, MapIndex::end_bytes(&bytes).unwrap());
        assert!((plan.expected_false_candidates - map.index().expected_false_candidates()).abs() < 1e-12);
        let has_tail = report.lists + report.outgrown_pages > 0;
        assert_eq!(has_tail, plan.bytes() < report.bytes, "form {form}");
        exact += u32::from(plan.bytes() == report.bytes);
    }
    assert!(exact >= 6, "{exact}");
    assert!(options(20).plan(0, 1).is_err() && options(20).plan(1, 1 << 40).is_err());
}

#[test]
fn the_candidates_of_every_prefix_are_exactly_the_files_that_have_it() {
    for (form, (files, keys, shared, bits)) in (0..).zip(FORMS) {
        let model = model(form, files, keys, shared);
        let (bytes, report) = build(&model, options(bits));
        let map = load(&bytes);
        assert_eq!(map.problems().next(), None);
        assert_eq!(check_all(&map, &model), files * keys);
        let expected = expected(&model, bits);
        assert_eq!(report.entries, expected.values().map(|files| files.len() as u64).sum::<u64>());
        let found_in = |hash| -> BTreeSet<u64> {
            candidates(&map, hash).iter().map(|&id| map.index().files()[id].file.fingerprint()).collect()
        };
        let of_keys = model.values().flatten().step_by(effort::stride(31)).map(|&key| hash(key));
        let strangers = (0..2_000).step_by(effort::stride(20)).map(|number| hash(mix(number) | 1 << 59));
        for probed in of_keys.chain(strangers) {
            let prefix = probed.get() >> (64 - bits);
            assert_eq!(found_in(probed), expected.get(&prefix).cloned().unwrap_or_default(), "form {form}");
        }
    }
}

#[test]
fn a_batch_answers_like_single_lookups_with_each_instruction_set() {
    let model = model(7, 80, 900, 30);
    let (bytes, _) = build(&model, options(26));
    let map = load(&bytes);
    let hashes: Vec<_> = model.values().flatten().map(|&key| hash(key)).chain((0..9_999).map(hash)).collect();
    let mut answers = Vec::new();
    let before = sstfilter::simd::selected();
    for set in InstructionSet::available() {
        sstfilter::simd::select(set).unwrap();
        let single: Vec<Vec<usize>> = hashes.iter().map(|&hash| candidates(&map, hash)).collect();
        let mut batch = vec![Vec::new(); hashes.len()];
        map.candidates_each(&hashes, |position, found| batch[position] = ids(found).unwrap());
        assert!(single == batch, "{set:?}");
        answers.push(single);
    }
    sstfilter::simd::select(before).unwrap();
    assert!(answers.windows(2).all(|two| two[0] == two[1]), "instruction sets differ");
}

#[test]
fn merges_in_any_order_and_grouping_have_the_bytes_of_a_build_from_keys() {
    for (form, (files, keys, shared, bits)) in (0..).zip(FORMS) {
        let model = model(form, files, keys, shared);
        for threads in [1, [0, 3, 7, usize::MAX][form as usize % 4]] {
            let options = options(bits).with_threads(threads);
            let (whole, _) = build(&model, options);
            // Dealt to five maps, of which one has all files of another one, too.
            let dealt = |part| part_of(&model, |number| number % 5 == part || (part == 4 && number % 5 == 0));
            let parts: Vec<Vec<u8>> =
                (0..5).map(dealt).filter(|model| !model.is_empty()).map(|model| build(&model, options).0).collect();
            let all: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            assert!(merge(&all, options).0 == whole, "form {form}, {threads} threads");
            let reversed: Vec<&[u8]> = all.iter().rev().copied().collect();
            assert!(merge(&reversed, options).0 == whole, "form {form}: the order decides");
            let (left, right) = all.split_at(all.len() / 2);
            let (left, right) = (merge_or_none(left, options), merge(right, options).0);
            let grouped: Vec<&[u8]> = left.iter().map(Vec::as_slice).chain([right.as_slice()]).collect();
            assert!(merge(&grouped, options).0 == whole, "form {form}: the grouping decides");
        }
    }
}

#[test]
fn a_damaged_map_of_which_no_file_is_kept_makes_no_page_unknown() {
    let model = model(8, 20, 100, 9);
    let [mut dropped, kept] = [0, 1].map(|half| build(&part_of(&model, |number| number % 2 == half), options(24)).0);
    dropped[70] ^= 1;
    let mut merging = MapMerge::new(options(24));
    add(&mut merging, &dropped, |_| false);
    add(&mut merging, &kept, |_| true);
    let mut merged = Vec::new();
    assert_eq!(merging.finish(map_id(), &mut merged).unwrap().unknown_pages, 0);
    assert!(merged == kept);
}

#[test]
fn a_map_of_other_bits_is_not_merged_and_the_error_names_both_numbers() {
    let bytes = build(&model(1, 2, 30, 0), options(24)).0;
    let map = load(&bytes);
    let error = MapMerge::new(options(26)).add_loaded(&map, |_| true).unwrap_err().to_string();
    assert!(error.contains("keeps 26 bits of a hash") && error.contains("one that keeps 24"), "{error}");
}

fn merge_or_none(parts: &[&[u8]], options: MapOptions) -> Option<Vec<u8>> {
    (!parts.is_empty()).then(|| merge(parts, options).0)
}
