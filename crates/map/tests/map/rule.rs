//! A file is skipped only if a map covers it: the rule, in all ways in which maps and files disagree.

use std::sync::Arc;

use sstfilter::FileId;
use sstfilter_map::{
    Coverage, FileMap, Lookups, MapError, MapIndex, MapMerge, MapOptions, MapPart, MapRead, MapSet, SetMatch,
};

use crate::support::{
    Model, build, builder, bytes_of, file, finish_as, hash, index_of, mix, model, options, part_of, probe,
};

/// A map in memory of some files of a model.
fn part(model: &Model, is_in: impl Fn(u64) -> bool) -> Arc<FileMap<Vec<u8>>> {
    loaded(build(&part_of(model, is_in), options(26)).0)
}

fn loaded(bytes: Vec<u8>) -> Arc<FileMap<Vec<u8>>> {
    Arc::new(FileMap::load_any(bytes).unwrap())
}

/// Checks every key of the files in `store` (numbers), and returns how many matches strangers have on average.
fn check(set: &MapSet<Vec<u8>>, model: &Model, store: &[u64]) -> f64 {
    let mut matches = Vec::new();
    for (position, number) in store.iter().enumerate() {
        for &key in &model[number] {
            set.matches(hash(key), &mut matches);
            assert!(matches.contains(&position), "file {number} at {position} lost {key:#x}");
            assert!(matches.is_sorted_by(|one, two| one < two));
        }
    }
    let strangers = 2_000;
    let mut found = 0;
    for key in 0..strangers {
        set.matches(hash(mix(key) | 1 << 59), &mut matches);
        found += matches.len();
    }
    found as f64 / strangers as f64
}

#[test]
fn files_that_no_map_covers_are_in_every_answer() {
    let model = model(1, 60, 100, 13);
    let maps = [part(&model, |number| number < 20), part(&model, |number| (20..40).contains(&number))];
    let store: Vec<u64> = (0..60).rev().collect();
    let ids: Vec<FileId> = store.iter().map(|&number| file(number)).collect();
    for covering in 0..=2 {
        let set = MapSet::new(&maps[..covering], &ids);
        assert_eq!(set.uncovered().len(), 60 - 20 * covering);
        let mean = check(&set, &model, &store);
        let uncovered = set.uncovered().len() as f64;
        assert!((uncovered..uncovered + 0.1).contains(&mean), "{mean}");
    }
}

#[test]
fn a_map_of_files_that_are_gone_and_of_files_that_another_map_covers_loses_nothing() {
    let model = model(2, 50, 80, 7);
    // Overlapping maps, an older one that has dropped files, in both orders.
    let (all, some) = (part(&model, |_| true), part(&model, |number| number % 3 == 0));
    for maps in [[all.clone(), some.clone()], [some, all]] {
        for store in [(0..50).collect::<Vec<u64>>(), vec![3, 7, 48], vec![9], Vec::new()] {
            let ids: Vec<FileId> = store.iter().map(|&number| file(number)).collect();
            let set = MapSet::new(&maps, &ids);
            assert!(set.uncovered().is_empty());
            assert!(check(&set, &model, &store) < 0.1);
        }
    }
}

#[test]
fn a_part_of_another_map_in_the_same_cache_is_not_used() {
    // Both maps have the same files and numbers, and other keys: one is older.
    let models = [model(7, 20, 50, 0), model(8, 20, 50, 0)];
    let maps = [0, 1].map(|map| finish_as(file(900 + map as u64), builder(&models[map], options(26))).0);
    let indexes = maps.each_ref().map(|bytes| index_of(bytes));
    assert_eq!(indexes[0].pages(), indexes[1].pages());
    for key in models[1].values().flatten().map(|&key| hash(key)) {
        let reads = indexes.each_ref().map(|index| index.read_for(key));
        assert_eq!(reads[0].range(), reads[1].range());
        assert_ne!(reads[0], reads[1], "a cache would return the page of the other map");
        let bytes = bytes_of(&reads[0], &maps[0]);
        let part = indexes[0].open(&reads[0], bytes).unwrap();
        assert_eq!(probe(&indexes[1], Some(&part), key), Ok(None));
        assert!(indexes[1].open(&reads[0], bytes).is_err());
    }
}

#[test]
fn a_part_that_a_hash_does_not_need_says_nothing() {
    let model = model(9, 60, 60, 2);
    let bytes = build(&model, options(26)).0;
    let index = index_of(&bytes);
    let read = |read: &MapRead| index.open(read, bytes_of(read, &bytes)).unwrap();
    let says = |part: &MapPart<&[u8]>, hash| probe(&index, Some(part), hash);
    let hashes: Vec<_> = model.values().flatten().map(|&key| hash(key)).collect();
    let page = read(&index.read_for(hashes[0]));
    let mut lists = 0;
    for &other in &hashes {
        let is_own = index.page_of(other) == index.page_of(hashes[0]);
        assert_eq!(says(&page, other) == Ok(None), !is_own, "{other:?}");
        let Err(list) = says(&read(&index.read_for(other)), other) else { continue };
        let list = read(&list);
        lists += 1;
        for &hash in &hashes {
            assert_eq!(says(&list, hash) == Ok(None), hash.get() >> 38 != other.get() >> 38, "{hash:?}");
        }
    }
    assert!(lists > 3);
}

/// The answer for maps that are not in memory.
fn matches_by_reads(coverage: &Coverage<&MapIndex>, maps: &[&[u8]], key: u64) -> Vec<usize> {
    let mut matches = coverage.uncovered().to_vec();
    for (judge, bytes) in coverage.judges().iter().zip(maps) {
        let mut lookups = Lookups::new(judge.map(), &[hash(key)]);
        while let Some(read) = lookups.reads().first() {
            let part = judge.map().open(read, bytes_of(read, bytes)).ok();
            lookups.answer(read, part.as_ref(), |_, found| {
                judge.visit(found, |found| match found {
                    SetMatch::File(position) => matches.push(position),
                    SetMatch::AnyFile => matches.extend(judge.positions()),
                });
            });
        }
    }
    matches.sort_unstable();
    matches
}

#[test]
fn maps_that_are_read_page_by_page_give_the_answers_of_maps_in_memory() {
    // Shared keys are in lists. The maps overlap; some files are not covered, one comes twice, and a page is damaged.
    let model = model(10, 80, 60, 3);
    let mut stored = [0..40, 30..70].map(|files| build(&part_of(&model, |file| files.contains(&file)), options(26)).0);
    stored[0][100] ^= 1;
    let loaded = stored.each_ref().map(|bytes| loaded(bytes.clone()));
    let indexes = stored.each_ref().map(|bytes| index_of(bytes));
    let store: Vec<FileId> = (5..80).rev().chain([10]).map(file).collect();
    let (set, coverage) = (MapSet::new(&loaded, &store), Coverage::new(&indexes, &store));
    assert_eq!(coverage.uncovered(), set.uncovered());
    // Files 70 to 79, and the second file 10, which one map covers.
    assert_eq!(set.uncovered(), [(0..10).collect(), vec![75]].concat());
    let mut matches = Vec::new();
    for key in model.values().flatten().copied().chain((0..2_000).map(mix)) {
        set.matches(hash(key), &mut matches);
        assert_eq!(matches_by_reads(&coverage, &stored.each_ref().map(Vec::as_slice), key), matches, "{key:#x}");
    }
}

/// Maps of file 0 with `one` and with `other` keys, which keep this many bits of a hash.
fn maps_of_one_id(one: (u64, u8), other: (u64, u8)) -> [Arc<FileMap<Vec<u8>>>; 2] {
    [one, other].map(|(keys, bits)| {
        let model = Model::from([(0, (0..keys).collect()), (1, vec![7])]);
        let options = MapOptions::with_prefix_bits(bits).unwrap();
        loaded(finish_as(file(900 + keys), builder(&model, options)).0)
    })
}

// promise: file-maps
#[test]
fn a_file_that_maps_contradict_each_other_about_is_covered_by_neither() {
    for (one, other) in [((100, 40), (200, 40)), ((200, 40), (100, 40)), ((200, 30), (100, 40)), ((100, 40), (200, 30))]
    {
        let maps = maps_of_one_id(one, other);
        let set = MapSet::new(&maps, &[file(1), file(0), file(2)]);
        assert_eq!(set.uncovered(), [1, 2], "{one:?}, {other:?}");
        let id = |keys| file(900 + keys).fingerprint();
        let expected = MapError::Contradiction {
            fingerprint: file(0).fingerprint(),
            map: id(other.0),
            other: Some(id(one.0)),
            expected: one.0,
            got: other.0,
        };
        assert_eq!(set.contradictions(), [expected]);
        // A third map, equal to the second, changes nothing.
        let maps = [&maps[..], &maps[1..]].concat();
        assert_eq!(MapSet::new(&maps, &[file(0)]).uncovered(), [0]);
    }
    // Of fewer bits, a file can have fewer entries.
    for (one, other) in [((200, 40), (200, 40)), ((100, 30), (200, 40)), ((200, 40), (100, 30))] {
        let set = MapSet::new(&maps_of_one_id(one, other), &[file(0)]);
        assert!(set.uncovered().is_empty() && set.contradictions().is_empty(), "{one:?}, {other:?}");
    }
}

// promise: file-maps
#[test]
fn maps_that_contradict_each_other_about_a_file_are_not_merged_unless_it_is_dropped_from_one() {
    let [one, other] = maps_of_one_id((100, 40), (200, 40));
    let options = MapOptions::with_prefix_bits(40).unwrap();
    let mut merge = MapMerge::new(options);
    merge.add_loaded(&one, |_| true).unwrap();
    let refused = merge.add_loaded(&other, |_| true).unwrap_err();
    assert!(matches!(refused, MapError::Contradiction { expected: 100, got: 200, .. }), "{refused}");
    merge.add_loaded(&other, |id| id == file(1)).unwrap();
    let mut bytes = Vec::new();
    merge.finish(crate::support::map_id(), &mut bytes).unwrap();
    let model = Model::from([(0, (0..100).collect()), (1, vec![7])]);
    assert!(bytes == build(&model, options).0);
}
