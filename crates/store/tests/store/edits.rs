//! Edits of views: which ones are refused, and which file is the newer one after the others.

use std::sync::Arc;

use bytes::Bytes;
use sstfilter::FileId;
use sstfilter_store::{FilterStore, FilterView, ViewEdit, ViewError};

use crate::engine::{
    AddNewest, Disk, File, Key, all_candidates, file, file_with, is_candidate, numbered, open, unfiltered, view_of,
};

#[test]
fn edits_that_do_not_fit_are_refused_and_change_nothing() {
    let store = FilterStore::default();
    let [one, two, three] = [0, 10, 20].map(|from| file(&store, numbered(from..from + 10)));
    let edit = ViewEdit::new;
    for level in [0, 1] {
        let view = view_of(&store, &[(level, &one), (level, &two)]);
        let missing: [(ViewEdit<File>, usize); 7] = [
            (edit().remove(level, &three), 0),
            (edit().remove(level + 1, &one), 0),
            (edit().remove(level, &two).remove(level, &one).remove(level, &two), 2),
            (edit().replace(level, &three, one.clone()), 0),
            (edit().remove(level, &one).replace(level, &one, three.clone()), 1),
            (edit().replace(level, &one, three.clone()).replace(level, &one, three.clone()), 1),
            (edit().remove(level, &one).add_newest(level, one.clone()).remove(level, &three), 2),
        ];
        for (number, (edit, expected)) in missing.into_iter().enumerate() {
            match view.edited(edit) {
                Err(ViewError::NotAtLevel { position, .. }) => assert_eq!(position, expected, "{level}, {number}"),
                other => panic!("{level}, {number}: {other:?}"),
            }
        }
        let duplicate: [(ViewEdit<File>, usize); 4] = [
            (edit().add_newest(level, one.clone()), 0),
            (edit().add_newest(level, three.clone()).add_newest(level, three.clone()), 1),
            (edit().replace(level, &one, two.clone()), 0),
            (edit().replace(level, &one, three.clone()).add_newest(level, three.clone()), 1),
        ];
        for (number, (edit, expected)) in duplicate.into_iter().enumerate() {
            match view.edited(edit) {
                Err(ViewError::Duplicate { position, .. }) => assert_eq!(position, expected, "{level}, {number}"),
                other => panic!("{level}, {number}: {other:?}"),
            }
        }
        assert!(view.edited(edit()).is_ok() && edit().is_empty());
        assert_eq!(view.files(level).count(), 2);
    }
}

// misuse: age-at-level-0
#[test]
fn the_age_of_files_of_level_0_decides_and_no_order_of_calls() {
    let store = FilterStore::default();
    let files: Vec<_> = (0..200).map(|_| file(&store, numbered(0..10))).collect();
    let order = |view: &FilterView<File>| -> Vec<usize> {
        let position = |given: &Arc<File>| files.iter().position(|file| Arc::ptr_eq(file, given)).unwrap();
        let given: Vec<_> = all_candidates(view, &3_u32.to_be_bytes()).iter().map(position).collect();
        assert!(view.files(0).map(position).eq(given.iter().copied()));
        given
    };
    let edit = ViewEdit::new;
    let add = |edit: ViewEdit<File>, number: usize| edit.add_to_level_0(number as u64 * 10, files[number].clone());
    // In several edits, and over several chunks.
    for number in [1, 67, 199] {
        let added = (0..200).map(|at| at * number % 200).collect::<Vec<_>>();
        let added = if number == 1 { (0..200).rev().collect() } else { added };
        let view = added.chunks(70).fold(FilterView::new(&store), |view, added| {
            view.edited(added.iter().fold(edit(), |edit, number| add(edit, *number))).unwrap()
        });
        assert!(order(&view).into_iter().eq((0..200).rev()), "{number}");
        assert_eq!(view.next_age(), 1_991);
        let gone = files.iter().fold(edit(), |edit, file| edit.remove(0, file));
        assert_eq!(view.edited(gone).unwrap().next_age(), 1_991, "no age comes again");
        // A store that is reopened, from the list that the view gives.
        let stored: Vec<_> = view.level_0().map(|(age, file)| (age, file.clone())).collect();
        let again = stored.into_iter().fold(edit(), |edit, (age, file)| edit.add_to_level_0(age, file));
        assert_eq!(order(&FilterView::new(&store).edited(again).unwrap()), order(&view));
    }
    let view = FilterView::new(&store).edited([0, 1, 2].into_iter().fold(edit(), add)).unwrap();
    assert_eq!(FilterView::<File>::new(&store).next_age(), 0);
    let edited = |edit: ViewEdit<File>| order(&view.edited(edit).unwrap());
    let again = |age| edit().remove(0, &files[1]).add_to_level_0(age, files[1].clone());
    assert_eq!((edited(again(10)), edited(again(21)), edited(again(5))), (vec![2, 1, 0], vec![1, 2, 0], vec![2, 1, 0]));
    assert_eq!(edited(add(again(25), 3)), [3, 1, 2, 0]);
    assert_eq!(edited(edit().replace(0, &files[1], files[3].clone()).remove(0, &files[2])), [3, 0]);
    let shift = edit().replace(0, &files[0], files[3].clone()).replace(0, &files[1], files[4].clone());
    assert_eq!(edited(shift.add_to_level_0(21, files[1].clone())), [1, 2, 4, 3]);
    let swap = edit().replace(0, &files[0], files[2].clone()).replace(0, &files[2], files[0].clone());
    assert_eq!(edited(swap), [0, 1, 2]);
    // Refused: an age twice, and none.
    for age in [0, 10, 20] {
        let refused = view.edited(edit().add_to_level_0(age, files[5].clone())).unwrap_err();
        assert_eq!(refused, ViewError::DuplicateAge { age });
    }
    let twice = edit().add_to_level_0(u64::MAX, files[5].clone()).add_to_level_0(u64::MAX, files[6].clone());
    assert_eq!(view.edited(twice).unwrap_err(), ViewError::DuplicateAge { age: u64::MAX });
    let none = add(edit(), 6).add(0, files[7].clone());
    assert_eq!(view.edited(none).unwrap_err(), ViewError::NoAge { position: 1 });
}

/// A file with these keys, which deletes a range of others.
fn deleting(store: &FilterStore, keys: &[&str], range: [&str; 2]) -> Arc<File> {
    let [start, end] = range.map(|key| key.as_bytes().to_vec());
    file_with(store, keys.iter().map(|key| key.as_bytes().to_vec()).collect(), Some((start, end)))
}

// misuse: uncut-tombstones
#[test]
fn range_tombstones_that_reach_into_a_neighbour_of_a_sorted_level_are_refused() {
    let store = FilterStore::default();
    let plain = |keys: &[&str]| file(&store, keys.iter().map(|key| key.as_bytes().to_vec()));
    let run = [plain(&["c", "d"]), plain(&["k", "m"]), plain(&["x"])];
    let view = run.iter().fold(ViewEdit::new(), |edit, file| edit.add(1, file.clone()));
    let view = FilterView::new(&store).edited(view).unwrap();
    let add = |file: Arc<File>| view.edited(ViewEdit::new().add(1, file.clone())).map(|view| (view, file));
    for (keys, range) in [
        (&["a"][..], ["a", "d"]),
        (&["e"], ["e", "k\0"]),
        (&["e"], ["d", "e"]),
        (&["n"], ["a", "b"]),
        (&[], ["d", "e"]),
        (&[], ["a", "z"]),
        // In an order of the engine's own.
        (&["e"], ["k", "f"]),
    ] {
        let refused = add(deleting(&store, keys, range)).unwrap_err();
        assert!(matches!(refused, ViewError::Overlap { level: 1, .. }), "{keys:?} {range:?}");
        assert!(refused.to_string().contains("cut range tombstones"), "{refused}");
    }
    // Cut where files end, before or behind the keys, or without keys: found by every key that it has or deletes, and
    // by no key of its neighbours.
    for (keys, range, deleted) in [
        (&["e"][..], ["e", "k"], &["e", "f", "jz"][..]),
        (&["h"], ["e", "g"], &["e", "fz"]),
        (&["h"], ["d\0", "k"], &["d\0", "h", "j"]),
        (&[], ["e", "k"], &["e", "g"]),
        (&["n"], ["o", "x"], &["o", "wz"]),
        (&["y"], ["z", "zz"], &["z", "zy"]),
    ] {
        let (view, added) = add(deleting(&store, keys, range)).unwrap();
        for key in keys.iter().chain(deleted) {
            assert!(is_candidate(&view, key.as_bytes(), &added), "{key} of {keys:?} {range:?}");
        }
        for key in ["c", "d", "k", "m", "x"] {
            let given = all_candidates(&view, key.as_bytes());
            assert!(given.len() == 1 && !Arc::ptr_eq(&given[0], &added), "{key} of {keys:?} {range:?}");
        }
        let in_range = view.candidates_in_range(range[0].as_bytes()..range[1].as_bytes());
        assert!(in_range.map(|found| Arc::as_ptr(found.file)).any(|found| found == Arc::as_ptr(&added)));
        assert!(view.edited(ViewEdit::new().remove(1, &added)).is_ok());
    }
    // Also of files whose keys are not known, because nothing is built.
    let unbuilt = FilterStore::default().without_point_filters();
    for (range, is_refused) in [(["a", "d"], true), (["d", "e"], true), (["a", "c"], false), (["n", "x"], false)] {
        let file = deleting(&unbuilt, &[], range);
        assert!(is_candidate(&view_of(&store, &[(0, &file)]), b"any", &file));
        assert_eq!(add(file.clone()).is_err(), is_refused, "{range:?}");
        let after = ViewEdit::new().add(1, file).add(2, run[0].clone()).remove(1, &run[0]);
        assert!(view.edited(after).is_ok(), "{range:?}");
    }
    let [one, other] = [["n", "s"], ["r", "t"]].map(|range| deleting(&unbuilt, &[], range));
    assert!(view.edited(ViewEdit::new().add(1, one).add(1, other)).is_err());
    // Without a description, an end may be excluded, too.
    let end = |key: &'static str| store.open_without_description(&b"e"[..]..key.as_bytes());
    let unfiltered = |key| Arc::new(File::new([b"e".to_vec()].into(), Disk::new(Bytes::new()), end(key)));
    assert!(add(unfiltered("k\0")).is_err());
    let (between, file) = add(unfiltered("k")).unwrap();
    for key in ["e", "f", "jz"] {
        assert!(is_candidate(&between, key.as_bytes(), &file), "{key}");
    }
    assert!(!is_candidate(&between, b"k", &file) && !is_candidate(&between, b"d", &file));
    // A run of many files, each of which deletes all up to the next one.
    let name = |number: u32| format!("{number:04}");
    let many = (0..500).map(|number| {
        let (own, next) = (name(number * 10), name(number * 10 + 10));
        deleting(&store, &[&own], [&own, &next])
    });
    let many: Vec<_> = many.collect();
    let view = many.iter().fold(ViewEdit::new(), |edit, file| edit.add(3, file.clone()));
    let view = FilterView::new(&store).edited(view).unwrap();
    for number in 0..5_000 {
        let given = all_candidates(&view, name(number).as_bytes());
        assert!(given.len() == 1 && Arc::ptr_eq(&given[0], &many[number as usize / 10]), "{number}");
    }
}

#[test]
fn an_id_is_in_a_view_once_and_a_file_can_still_move() {
    let store = FilterStore::default();
    let file_of = |id: u32, keys: Vec<Key>| {
        let mut builder = store.builder(FileId::from_fingerprint(id.into()));
        keys.iter().for_each(|key| builder.add_key(key));
        Arc::new(open(&store, keys.into_iter().collect(), builder.finish().seal()))
    };
    // Ids are file numbers, and enough for many shards.
    let files: Vec<_> = (1..=3_000).map(|id| file_of(id, numbered([id]))).collect();
    let view = files.iter().fold(ViewEdit::new(), |edit, file| edit.add(2, file.clone()));
    let view = FilterView::new(&store).edited(view).unwrap();
    let duplicate = |id: u32| ViewError::DuplicateId { level: 1, position: 0, fingerprint: id.into() };
    for id in [1, 2, 1_500, 3_000] {
        let again = file_of(id, numbered([id]));
        let refused = |edit: ViewEdit<File>| view.edited(edit).map(|_| ()).unwrap_err();
        assert_eq!(refused(ViewEdit::new().add(1, again.clone())), duplicate(id));
        let old = &files[id as usize - 1];
        assert_eq!(refused(ViewEdit::new().add(1, old.clone())), duplicate(id));
        // Moved, as itself or opened again, and back.
        for moved in [old.clone(), again.clone()] {
            let view = view.edited(ViewEdit::new().add(1, moved.clone()).remove(2, old)).unwrap();
            assert!(view.edited(ViewEdit::new().add(2, old.clone())).is_err());
            let back = view.edited(ViewEdit::new().remove(1, &moved).add_to_level_0(7, old.clone())).unwrap();
            assert!(is_candidate(&back, &id.to_be_bytes(), old));
        }
        assert!(view.edited(ViewEdit::new().replace(2, old, again)).is_ok());
    }
    let new = file_of(5_000, numbered([5_000]));
    let twice = ViewEdit::new().add(1, new.clone()).add_to_level_0(1, new.clone());
    assert!(matches!(view.edited(twice), Err(ViewError::DuplicateId { fingerprint: 5_000, .. })));
    // An id that has left may come again.
    let gone = files.iter().fold(ViewEdit::new(), |edit, file| edit.remove(2, file));
    let again = files.iter().fold(ViewEdit::new(), |edit, file| edit.add(3, file.clone()));
    assert!(view.edited(gone).unwrap().edited(again).is_ok());
    // Files without a description have no id of their own.
    let nameless = |edit: ViewEdit<File>| edit.add(1, unfiltered(&store, [], ..)).add(4, unfiltered(&store, [], ..));
    assert_eq!(view.edited(nameless(nameless(ViewEdit::new()))).unwrap().files(1).count(), 2);
}
