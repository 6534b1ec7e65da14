//! Maps that several processes write, a slice each. The failures guarded against: a joined map lacks a key because a
//! slice was missing, came twice, was one of another map, or was damaged; and its bytes depend on the number of slices.

use core::ops::Range;
use std::io;
use std::sync::Mutex;

use sstfilter::Filters;
use sstfilter_map::{FileMap, MapBuilder, MapIndex, MapMerge, MapOptions, MapReport, Slice};

use crate::effort;
use crate::forge::{Forged, Random};
use crate::forged::{builder_with_outgrown_page, look_for, prefix, sound_maps};
use crate::model::FORMS;
use crate::support::{
    Model, build, builder, check_all, file, finish, hash, index_of, join, load, load_slice, map_id, merge, merging,
    model, options, part_of, reads,
};

/// Bytes of a slice after the covered files.
const END: usize = 76;

/// All slices of a map, each written by `write`.
fn slices(count: u32, mut write: impl FnMut(Slice, &mut Vec<u8>) -> io::Result<MapReport>) -> Vec<Vec<u8>> {
    let slice = |number| {
        let mut bytes = Vec::new();
        let report = write(Slice::new(number, count).unwrap(), &mut bytes).unwrap();
        assert_eq!(report.bytes, bytes.len() as u64);
        bytes
    };
    (0..count).map(slice).collect()
}

fn built(count: u32, model: &Model, options: MapOptions) -> Vec<Vec<u8>> {
    slices(count, |slice, sink| builder(model, options).finish_slice(map_id(), slice, sink))
}

/// Checks that joined slices have the bytes and the report of a whole map.
fn assert_whole(slices: &[Vec<u8>], (whole, of_whole): &(Vec<u8>, MapReport), what: &str) {
    let (joined, report) = join(slices).unwrap();
    assert!(joined == *whole, "{what}");
    assert_eq!(report, *of_whole, "{what}");
}

#[test]
fn joined_slices_have_the_bytes_of_one_build_or_merge() {
    for (form, (files, keys, shared, bits)) in (0..).zip(FORMS) {
        let model = model(form, files, keys, shared);
        let options = options(bits);
        let whole = build(&model, options);
        let halves = [0, 1].map(|half| part_of(&model, |number| number % 2 == half));
        let halves = halves.map(|half| (!half.is_empty()).then(|| build(&half, options).0));
        let halves: Vec<&[u8]> = halves.iter().flatten().map(Vec::as_slice).collect();
        for count in (1..=9).chain([whole.1.pages as u32 + 3]).step_by(effort::strides(1, 3)) {
            let what = format!("form {form}, {count} slices of {} pages", whole.1.pages);
            assert_whole(&built(count, &model, options), &whole, &what);
            let merged = slices(count, |slice, sink| merging(&halves, options).finish_slice(map_id(), slice, sink));
            assert_whole(&merged, &whole, &what);
        }
    }
}

#[test]
fn slices_of_outgrown_pages_and_lists_are_joined_whichever_pages_they_have() {
    let whole = finish(builder_with_outgrown_page());
    for count in 1..=9 {
        let built = slices(count, |slice, sink| builder_with_outgrown_page().finish_slice(map_id(), slice, sink));
        assert_whole(&built, &whole, &format!("{count} slices"));
        // Behind a slice with a tail, offsets begin elsewhere.
        let model = model(4, 60, 40, 1);
        assert_whole(&self::built(count, &model, options(24)), &build(&model, options(24)), &format!("{count} slices"));
    }
}

#[test]
fn unknown_pages_stay_unknown() {
    let model = model(6, 50, 120, 11);
    let mut damaged = build(&model, options(24)).0;
    [70, 9_000, 20_000].into_iter().for_each(|at: usize| damaged[at] ^= 1);
    let whole = merge(&[&damaged], options(24));
    assert_eq!(whole.1.unknown_pages, 3);
    for count in 1..=9 {
        let merged = slices(count, |slice, sink| merging(&[&damaged], options(24)).finish_slice(map_id(), slice, sink));
        assert_whole(&merged, &whole, &format!("{count} slices"));
    }
}

#[test]
fn a_merge_of_a_slice_reads_only_the_pages_of_its_hashes() {
    let model = model(3, 40, 2_000, 0);
    // Pages of other sizes than those of the result.
    let input = build(&model, options(26).with_page_bytes(1 << 12).unwrap()).0;
    let index = index_of(&input);
    let (pages, count, mut all) = (index.pages(), 7, Vec::new());
    slices(count, |slice, sink| {
        let read = Mutex::new(Vec::new());
        let mut merge = MapMerge::new(options(26));
        let page_bytes = index.page_range(0).end;
        let of_range = |range: Range<u64>| {
            read.lock().unwrap().push(range.start / page_bytes);
            reads(&input)(range)
        };
        merge.add(index.clone(), of_range).unwrap();
        let report = merge.finish_slice(map_id(), slice, sink);
        let mut read = read.into_inner().unwrap();
        read.sort_unstable();
        read.dedup();
        assert!(read.len() as u64 <= pages / u64::from(count) + 2, "{} of {pages} pages", read.len());
        all.extend(read);
        report
    });
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len() as u64, pages);
}

#[test]
fn slices_that_are_missing_or_come_twice_or_in_another_order_are_refused() {
    let model = model(1, 5, 900, 0);
    let all = built(4, &model, options(24));
    let refused = |order: &[usize]| {
        let slices: Vec<_> = order.iter().map(|&slice| all[slice].clone()).collect();
        join(&slices).unwrap_err().to_string()
    };
    let expected = |expected, got| format!("slices of a file map: expected {expected}, got {got}");
    assert_eq!(refused(&[]), expected("slice 0/1", "no more"));
    assert_eq!(refused(&[0, 1, 2]), expected("slice 3/4", "no more"));
    assert_eq!(refused(&[1, 2, 3]), expected("slice 0/4", "slice 1/4"));
    assert_eq!(refused(&[0, 2, 3]), expected("slice 1/4", "slice 2/4"));
    assert_eq!(refused(&[0, 1, 1, 2, 3]), expected("slice 2/4", "slice 1/4"));
    assert_eq!(refused(&[0, 1, 2, 3, 3]), expected("no more", "slice 3/4"));
    let five = built(5, &model, options(24));
    let mixed = join(&[all[0].clone(), five[1].clone()]).unwrap_err().to_string();
    assert_eq!(mixed, expected("slice 1/4", "slice 1/5"));
    assert!(Slice::new(0, 0).is_err() && Slice::new(4, 4).is_err() && Slice::new(3, 4).is_ok());
}

#[test]
fn slices_of_other_maps_files_or_options_are_refused_and_the_message_says_what_differs() {
    let model = model(1, 5, 900, 0);
    let first = built(2, &model, options(24)).swap_remove(0);
    let changed = |change: fn(&mut Model)| {
        let mut other = model.clone();
        change(&mut other);
        builder(&other, options(24))
    };
    let filters = Filters::default().with_hasher(sstfilter::KeyHasher::with_seed(1));
    let mut of_other_hash = MapBuilder::new(&filters, options(24));
    model.iter().for_each(|(&n, keys)| of_other_hash.add_file(file(n), keys.iter().map(|&key| hash(key)).collect()));
    let large_pages = options(24).with_page_bytes(1 << 11).unwrap();
    let others = [
        (builder(&model, options(24)), file(7), "the map's id"),
        (builder(&model, options(25)), map_id(), "bits of a hash: expected 24, got 25"),
        (builder(&model, large_pages), map_id(), "page bits: expected 10, got 11"),
        (changed(|other| _ = other.insert(99, vec![1])), map_id(), "covered files: expected 5, got 6"),
        (changed(|other| other.get_mut(&0).unwrap().push(1)), map_id(), "entries: expected"),
        (
            changed(|other| {
                let keys = other.remove(&4).unwrap();
                other.insert(5, keys);
            }),
            map_id(),
            "the id of a covered file",
        ),
        (
            changed(|other| {
                let moved = other.get_mut(&0).unwrap().pop().unwrap();
                other.get_mut(&1).unwrap().push(moved);
            }),
            map_id(),
            "entries of a covered file",
        ),
        (of_other_hash, map_id(), "the seed of the hash"),
    ];
    for (builder, id, what) in others {
        let mut other = Vec::new();
        builder.finish_slice(id, Slice::new(1, 2).unwrap(), &mut other).unwrap();
        let error = join(&[first.clone(), other]).unwrap_err().to_string();
        assert!(error.contains("slice 1/2") && error.contains(what) && error.contains("expected"), "{error}");
    }
}

#[test]
fn a_slice_is_no_map_and_a_map_no_slice() {
    let model = model(1, 5, 900, 0);
    for slice in built(1, &model, options(24)).iter().chain(&built(3, &model, options(24))) {
        let refused = FileMap::load_any(slice.as_slice()).map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains("file map: expected a whole one, got a slice: join"), "{refused}");
        assert!(MapIndex::end_bytes(slice).is_err());
    }
    let map = build(&model, options(24)).0;
    let refused = load_slice(&map).unwrap_err();
    let expected = "not a slice of a file map: expected the magic number 0x4c53 at its end, got 0x4d53";
    assert_eq!(refused.to_string(), expected);
}

#[test]
fn after_any_flipped_bit_of_a_slice_no_key_is_lost() {
    let model = model(3, 60, 40, 1);
    let sound = built(3, &model, options(24));
    for (number, slice) in sound.iter().enumerate() {
        let index = load_slice(slice).unwrap();
        let (pages, end) = (index.pages(), slice.len() - 60 * 16 - END);
        let page_bytes = (pages.end - pages.start) as usize * 1_024;
        assert!(end > page_bytes, "each slice has a tail");
        for at in (0..slice.len()).step_by(effort::strides(7, 127)) {
            let mut slices = sound.clone();
            slices[number][at] ^= 1 << (at % 8);
            match join(&slices) {
                Err(error) => assert!(at >= end, "byte {at} of slice {number}: {error}"),
                Ok((bytes, report)) => {
                    // Bits of a page that is outgrown are those of its stub, or of the page in the tail.
                    assert!(at < end && report.unknown_pages == 1, "byte {at} of slice {number}");
                    let map = load(&bytes);
                    assert_eq!(map.problems().next(), None);
                    check_all(&map, &model);
                }
            }
        }
    }
}

/// Appends the footer of a slice, whose checksum holds.
fn with_footer(map: &[u8], number: u32, count: u32) -> Vec<u8> {
    let mut bytes = map.to_vec();
    bytes.extend([number.to_le_bytes(), count.to_le_bytes(), [0, 1, b'S', b'L']].as_flattened());
    let of_map = crc32c::crc32c(&map[map.len() - 60..map.len() - 4]);
    bytes.extend(crc32c::crc32c_append(of_map, &bytes[map.len()..]).to_le_bytes());
    bytes
}

#[test]
fn a_map_with_a_footer_is_its_only_slice() {
    let (whole, _) = build(&model(1, 5, 900, 9), options(24));
    assert!(vec![with_footer(&whole, 0, 1)] == built(1, &model(1, 5, 900, 9), options(24)));
}

#[test]
fn forged_slices_cause_no_panic_no_endless_loop_and_no_much_longer_map() {
    let (maps, hashes) = (sound_maps(), (0..30).map(prefix).collect::<Vec<_>>());
    let (mut joined, cases) = (0, 40_000 / effort::stride(200) as u64);
    for case in 0..cases {
        let mut random = Random(case << 20);
        let (sound, _) = random.pick(&maps.iter().collect::<Vec<_>>());
        let mut forged = Forged::new(sound.clone());
        for _ in 0..random.below(4) {
            forged.change(&mut random);
        }
        forged.seal();
        let (number, count) = if random.one_in(4) { (random.below(4), random.below(5)) } else { (0, 1) };
        let slice = with_footer(&forged.bytes, number as u32, count as u32);
        let Ok((bytes, report)) = join(&[slice]) else { continue };
        joined += 1;
        // A list of few files becomes fields, of up to seven bytes for an id of one.
        assert!(bytes.len() <= 10 * forged.bytes.len(), "case {case}");
        let map = FileMap::load_any(bytes.as_slice()).unwrap();
        assert_eq!(map.problems().next(), None, "case {case}: {report:?}");
        look_for(&bytes, &hashes);
    }
    assert!(joined > cases / 2, "{joined} of {cases} were joined");
}
