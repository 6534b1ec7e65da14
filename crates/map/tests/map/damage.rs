//! Damaged, foreign and forged bytes.

use sstfilter::KeyHash;
use sstfilter_map::{Candidates, MapIndex, MapOptions};

use crate::effort;
use crate::forged::{prefix, with_outgrown_page};
use crate::support::{build, candidates, candidates_by_reads, check_all, hash, load, merge, model};

fn options() -> MapOptions {
    MapOptions::with_prefix_bits(24).unwrap().with_page_bytes(1 << 10).unwrap()
}

/// The bytes of pages are checked as a whole. Those of trailers, and of the tail, decide what is checked.
#[test]
fn after_any_flipped_bit_of_trailers_and_tail_no_key_is_lost_in_any_kind_of_lookup() {
    let bytes = with_outgrown_page();
    let sound = load(&bytes);
    let index = sound.index();
    let hashes: Vec<KeyHash> = (0..80).step_by(2).map(prefix).chain((0..20).map(|file| hash(file << 20))).collect();
    let owners: Vec<Vec<usize>> = hashes.iter().map(|&hash| candidates(&sound, hash)).collect();
    let (page_bytes, tail) = (index.page_range(0).end as usize, index.page_range(index.pages()).start as usize);
    let tail_end = bytes.len() - MapIndex::end_bytes(&bytes).unwrap() as usize;
    let is_wanted = |at: usize| at >= tail || at % page_bytes >= page_bytes - 32;
    let bits = (0..tail_end).filter(|&at| is_wanted(at)).flat_map(|at| (0..8).map(move |bit| (at, bit)));
    let (mut damaged, mut flips) = (bytes.clone(), 0);
    for (at, bit) in bits.step_by(effort::strides(5, 61)) {
        damaged[at] ^= 1 << bit;
        let map = load(&damaged);
        assert_eq!(map.problems().count(), 1, "bit {bit} of byte {at}");
        let has = |found: &[usize], owners: &[usize]| owners.iter().all(|owner| found.contains(owner));
        let mut in_batch = 0;
        map.candidates_each(&hashes, |position, found| {
            in_batch += 1;
            assert!(owners[position].iter().all(|&owner| is_candidate(found.clone(), owner)), "bit {bit} of byte {at}");
        });
        assert_eq!(in_batch, hashes.len());
        for (&hash, owners) in hashes.iter().zip(&owners) {
            assert!(has(&candidates(&map, hash), owners), "bit {bit} of byte {at}");
            let (found, _) = candidates_by_reads(map.index(), &damaged, hash);
            assert!(found.is_none_or(|found| has(&found, owners)), "bit {bit} of byte {at}");
        }
        damaged[at] ^= 1 << bit;
        flips += 1;
    }
    println!("{flips} flips");
    assert!(flips > 500, "{flips}");
}

fn is_candidate(found: Candidates<'_>, file: usize) -> bool {
    match found {
        Candidates::Only(mut ids) => ids.any(|id| id.index() == file),
        Candidates::All => true,
    }
}

#[test]
fn only_the_prefixes_of_a_damaged_page_are_unknown_in_a_merge() {
    let model = model(7, 30, 200, 0);
    let (bytes, report) = build(&model, options());
    assert!(report.pages > 10);
    for page in 0..report.pages as usize {
        let mut damaged = bytes.clone();
        damaged[page << 10] ^= 1;
        let (merged, report) = merge(&[&damaged], options());
        assert_eq!(report.unknown_pages, 1, "page {page}");
        let is_same = |other: &usize| merged[other << 10..(other + 1) << 10] == bytes[other << 10..(other + 1) << 10];
        assert!((0..report.pages as usize).filter(|other| other != &page).all(|other| is_same(&other)), "page {page}");
    }
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

// promise: file-maps
#[test]
fn damage_to_any_of_very_many_pages_is_damage_to_that_page() {
    let model = model(8, 20, 3_000, 0);
    let (bytes, report) = build(&model, options());
    assert!(report.pages > 130, "{report:?}");
    let hashes: Vec<KeyHash> = model.values().flatten().map(|&key| hash(key)).collect();
    let pages = [0, 1, 62, 63, 64, 65, 126, 127, 128, 129].into_iter().chain([report.pages as usize - 1]);
    for page in pages {
        let mut damaged = bytes.clone();
        damaged[page << 10..(page << 10) + 500].fill(0);
        let map = load(&damaged);
        assert_eq!(map.problems().count(), 1);
        for &hash in &hashes {
            let is_all = matches!(map.candidates(hash), Candidates::All);
            assert_eq!(is_all, map.index().page_of(hash) == page as u64, "page {page}");
        }
    }
}

// promise: file-maps
#[test]
fn a_damaged_list_is_unknown_in_a_merge() {
    let model = model(3, 60, 40, 1);
    let (bytes, report) = build(&model, options());
    assert!(report.lists > 0 && report.outgrown_pages == 0);
    let end = bytes.len() - MapIndex::end_bytes(&bytes).unwrap() as usize;
    for at in (report.pages as usize * 1_024..end).step_by(effort::strides(3, 29)) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let (merged, report) = merge(&[&damaged], options());
        assert!(report.unknown_pages > 0, "byte {at}");
        check_all(&load(&merged), &model);
    }
}
