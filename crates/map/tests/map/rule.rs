//! A file is skipped only if a map covers it: the rule, in all ways in which maps and files disagree.

use std::sync::Arc;

use sstfilter::FileId;
use sstfilter_map::{
    Candidates, Coverage, FileMap, MapError, MapIndex, MapMerge, MapOptions, MapRead, MapSet, PartAnswer, SetMatch,
};

use crate::support::{Model, build, build_as, file, hash, mix, model};

fn options() -> MapOptions {
    MapOptions::with_prefix_bits(26).unwrap().with_page_bytes(1 << 10).unwrap()
}

fn part(model: &Model, is_in: impl Fn(u64) -> bool) -> Arc<FileMap<Vec<u8>>> {
    let own = model.iter().filter(|(number, _)| is_in(**number)).map(|(number, keys)| (*number, keys.clone()));
    let bytes = build(&own.collect(), options()).0;
    Arc::new(FileMap::load(bytes, &sstfilter::Filters::default(), crate::support::map_id()).unwrap())
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
fn a_file_with_the_number_of_another_one_has_another_id_and_is_not_covered() {
    // The engine reused a file's name; the contents, and so the id, are new.
    let (before, after) = (model(3, 10, 50, 0), model(4, 10, 50, 0));
    let maps = [part(&before, |_| true)];
    let new_ids: Vec<FileId> = (0..10).map(|number| file(number + 1_000)).collect();
    let set = MapSet::new(&maps, &new_ids);
    assert_eq!(set.uncovered().len(), 10);
    check(&set, &after, &(0..10).collect::<Vec<_>>());
}

#[test]
fn an_id_that_comes_twice_is_judged_once_and_in_every_answer_the_other_time() {
    let model = model(5, 4, 50, 0);
    let maps = [part(&model, |_| true)];
    let set = MapSet::new(&maps, &[file(0), file(1), file(0)]);
    assert_eq!(set.uncovered(), [2]);
    check(&set, &model, &[0, 1, 0]);
}

#[test]
fn a_part_of_another_map_in_the_same_cache_is_not_used() {
    // Both maps have the same files and numbers, and other keys: one is older.
    let models = [model(7, 20, 50, 0), model(8, 20, 50, 0)];
    let maps = [0, 1].map(|map| build_as(file(900 + map as u64), &models[map], options()).0);
    let indexes = maps.each_ref().map(|bytes| MapIndex::load_any(bytes, bytes.len() as u64).unwrap());
    assert_eq!(indexes[0].pages(), indexes[1].pages());
    for key in models[1].values().flatten().map(|&key| hash(key)) {
        let reads = indexes.each_ref().map(|index| index.read_for(key));
        assert_eq!(reads[0].range(), reads[1].range());
        assert_ne!(reads[0], reads[1], "a cache would return the page of the other map");
        let bytes = &maps[0][reads[0].range().start as usize..reads[0].range().end as usize];
        let part = indexes[0].open(&reads[0], bytes).unwrap();
        assert!(matches!(indexes[1].probe(&part, key), PartAnswer::Candidates(Candidates::All)));
        assert!(indexes[1].open(&reads[0], bytes).is_err());
    }
}

#[test]
fn a_part_that_a_hash_does_not_need_says_nothing() {
    let model = model(9, 60, 60, 2);
    let bytes = build(&model, options()).0;
    let index = MapIndex::load_any(&bytes, bytes.len() as u64).unwrap();
    let read =
        |read: &MapRead| index.open(read, &bytes[read.range().start as usize..read.range().end as usize]).unwrap();
    let hashes: Vec<_> = model.values().flatten().map(|&key| hash(key)).collect();
    let page = read(&index.read_for(hashes[0]));
    let mut lists = 0;
    for &other in &hashes {
        let is_own = index.page_of(other) == index.page_of(hashes[0]);
        let is_all = matches!(index.probe(&page, other), PartAnswer::Candidates(Candidates::All));
        assert_eq!(is_all, !is_own, "{other:?}");
        let PartAnswer::Read(list) = index.probe(&read(&index.read_for(other)), other) else { continue };
        let list = read(&list);
        lists += 1;
        for &hash in &hashes {
            let is_all = matches!(index.probe(&list, hash), PartAnswer::Candidates(Candidates::All));
            assert_eq!(is_all, hash.get() >> 38 != other.get() >> 38, "{hash:?}");
        }
    }
    assert!(lists > 3);
}

/// The answer for maps that are not in memory.
fn matches_by_reads(coverage: &Coverage<&MapIndex>, maps: &[&[u8]], key: u64) -> Vec<usize> {
    let mut matches = coverage.uncovered().to_vec();
    for (judge, bytes) in coverage.judges().iter().zip(maps) {
        let mut next = Some(judge.map().read_for(hash(key)));
        while let Some(read) = next.take() {
            let range = read.range().start as usize..read.range().end as usize;
            match judge.map().open(&read, &bytes[range]) {
                Ok(part) => {
                    next = judge.probe(&part, hash(key), |found| match found {
                        SetMatch::File(position) => matches.push(position),
                        SetMatch::AnyFile => matches.extend(judge.positions()),
                    });
                }
                Err(_) => matches.extend(judge.positions()),
            }
        }
    }
    matches.sort_unstable();
    matches
}

#[test]
fn maps_that_are_read_page_by_page_give_the_answers_of_maps_in_memory() {
    // Shared keys are in lists. The maps overlap; some files are not covered, one comes twice, and a page is damaged.
    let model = model(10, 80, 60, 3);
    let of = |files: std::ops::Range<u64>| files.map(|number| (number, model[&number].clone())).collect::<Model>();
    let mut stored = [of(0..40), of(30..70)].map(|part| build(&part, options()).0);
    stored[0][100] ^= 1;
    let loaded = stored.each_ref().map(|bytes| {
        Arc::new(FileMap::load(bytes.clone(), &sstfilter::Filters::default(), crate::support::map_id()).unwrap())
    });
    let indexes = stored.each_ref().map(|bytes| MapIndex::load_any(bytes, bytes.len() as u64).unwrap());
    let store: Vec<FileId> = (5..80).rev().chain([33]).map(file).collect();
    let (set, coverage) = (MapSet::new(&loaded, &store), Coverage::new(&indexes, &store));
    assert_eq!(coverage.uncovered(), set.uncovered());
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
        let bytes = build_as(file(900 + keys), &model, options).0;
        Arc::new(FileMap::load(bytes, &sstfilter::Filters::default(), file(900 + keys)).unwrap())
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
