//! Damaged and foreign bytes.

use std::collections::BTreeSet;

use sstfilter::{FileId, Filters, KeyHash, KeyHasher};
use sstfilter_map::{FileMap, MapAnswer, MapBuilder, MapIndex, WriteId, Writes};

use crate::effort;
use crate::forged::{prefix, with_outgrown_page};
use crate::support::{
    build, builder, candidates, candidates_by_reads, finish, finish_as, hash, ids, load, map_id, merge, model, options,
};
use crate::verify::{crowded, verify};

/// A map, and the files of each of some keys.
struct Sound {
    bytes: Vec<u8>,
    bits: u8,
    owners: Vec<(KeyHash, Vec<usize>)>,
}

impl Sound {
    fn new(bytes: Vec<u8>, bits: u8, hashes: impl IntoIterator<Item = KeyHash>) -> Self {
        let map = load(&bytes);
        let owners = hashes.into_iter().map(|hash| (hash, candidates(&map, hash))).collect();
        Self { bytes, bits, owners }
    }

    fn of(model: &crate::support::Model, bits: u8) -> Self {
        let keys: BTreeSet<u64> = model.values().flatten().copied().collect();
        Self::new(build(model, options(bits)).0, bits, keys.into_iter().map(hash))
    }

    /// First byte of the end.
    fn end(&self) -> usize {
        self.bytes.len() - MapIndex::end_bytes(&self.bytes).unwrap() as usize
    }

    /// Checks that no reader loses a key after damage before the end: in memory, in batches, by reads of parts, and
    /// after a merge. A verification and the loaded map name the damage, and the merge says what is unknown.
    fn check(&self, damaged: &[u8], what: &str) {
        let map = load(damaged);
        let (found, problems) = verify(damaged);
        assert!(found.damaged_pages > 0 && problems.len() as u64 == found.damaged_pages, "{what}");
        assert_eq!(map.problems().count() as u64, found.damaged_pages, "{what}");
        let (merged, report) = merge(&[damaged], options(self.bits));
        assert_eq!(report.unknown_pages, found.damaged_pages, "{what}");
        let merged = load(&merged);
        let has = |found: Option<Vec<usize>>, owners: &[usize]| {
            assert!(found.is_none_or(|found| owners.iter().all(|owner| found.contains(owner))), "{what}");
        };
        let (hashes, mut in_batch) = (self.owners.iter().map(|(hash, _)| *hash).collect::<Vec<_>>(), 0);
        map.candidates_each(&hashes, |position, found| {
            in_batch += 1;
            has(ids(found), &self.owners[position].1);
        });
        assert_eq!(in_batch, hashes.len(), "{what}");
        for (hash, owners) in &self.owners {
            has(ids(map.candidates(*hash)), owners);
            has(ids(merged.candidates(*hash)), owners);
            has(candidates_by_reads(map.index(), damaged, *hash).0, owners);
        }
    }
}

/// Maps with lists, with an outgrown page, and with both in many pages.
fn sound_maps() -> [Sound; 3] {
    let of_outgrown = (0..80).step_by(2).map(prefix).chain((0..20).map(|file| hash(file << 20)));
    let outgrown = Sound::new(with_outgrown_page(), 40, of_outgrown);
    [Sound::of(&model(3, 60, 40, 1), 24), outgrown, Sound::of(&crowded(), 24)]
}

/// All bytes take minutes.
fn step(long: usize, usual: usize, short: usize) -> usize {
    if effort::is_short() { short } else { effort::of_minutes(1, long, usual) }
}

// promise: file-maps
#[test]
fn after_any_flipped_bit_no_reader_loses_a_key() {
    let mut flips = 0;
    for (number, sound) in sound_maps().iter().enumerate() {
        // The bytes of pages are checked as a whole. The bytes of trailers and of the tail decide what is checked.
        let tail = load(&sound.bytes).index().page_range(load(&sound.bytes).index().pages()).start as usize;
        let is_decisive = |at: &usize| *at >= tail || at % 1_024 >= 1_024 - 32;
        let decisive = (0..sound.end()).filter(is_decisive).step_by(step(7, 31, 61));
        for at in decisive.chain((0..sound.end()).step_by(step(17, 97, 211))) {
            let mut damaged = sound.bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            sound.check(&damaged, &format!("byte {at} of map {number}"));
            flips += 1;
        }
    }
    println!("{flips} flips");
    assert!(flips > 300, "{flips}");
}

/// The end decides where everything is, and how much is read: each of its bits must count.
fn assert_end_is_checked(sound: &[u8], end_bytes: usize, loads: impl Fn(&[u8]) -> bool) {
    assert!(loads(sound));
    let mut damaged = sound.to_vec();
    for bit in 8 * (sound.len() - end_bytes)..8 * sound.len() {
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(!loads(&damaged), "bit {bit} of {}", sound.len());
        let is_before_numbers = bit < 8 * (sound.len() - 60);
        assert!(is_before_numbers || MapIndex::end_bytes(&damaged).is_err(), "bit {bit} of {}", sound.len());
        damaged[bit / 8] ^= 1 << (bit % 8);
    }
    for cut in 1..sound.len() {
        assert!(!loads(&sound[..sound.len() - cut]) && !loads(&sound[cut..]), "{cut} of {} bytes", sound.len());
    }
}

// promise: file-maps
#[test]
fn a_map_whose_end_has_any_flipped_bit_or_is_cut_is_refused() {
    let of_files = builder(&model(1, 3, 400, 0), options(20));
    let mut of_writes = MapBuilder::new(&Filters::default(), options(40));
    for (number, keys) in [(1, 0..2), (3, 2..3)] {
        of_writes.add_writes(Writes::of(WriteId::new(1, number).unwrap()), keys.map(hash).collect());
    }
    for map in [of_files, of_writes].map(|builder| finish(builder).0) {
        let end_bytes = MapIndex::end_bytes(&map).unwrap() as usize;
        assert_end_is_checked(&map, end_bytes, |bytes| FileMap::load_any(bytes).is_ok());
    }
}

#[test]
fn a_page_of_another_place_or_map_is_damage() {
    let sound = Sound::of(&model(4, 20, 200, 0), 24);
    let mut swapped = sound.bytes.clone();
    swapped.copy_within(0..1_024, 1_024);
    sound.check(&swapped, "the first page in the place of the second");
    // A map of the same size with another id, whose first page gets into this one.
    let same_keys = (0..20).map(|number| (number, (0..200).collect())).collect();
    let other = finish_as(FileId::from_fingerprint(99), builder(&same_keys, options(24))).0;
    let mut foreign = sound.bytes.clone();
    foreign[..1_024].copy_from_slice(&other[..1_024]);
    sound.check(&foreign, "a page of another map");
}

#[test]
fn a_map_of_another_id_or_hash_covers_nothing() {
    let (bytes, _) = build(&model(5, 3, 100, 0), options(24));
    let length = bytes.len() as u64;
    assert!(MapIndex::load(&bytes, length, &Filters::default(), FileId::from_fingerprint(1)).is_err());
    let other = Filters::default().with_hasher(KeyHasher::with_seed(1));
    assert!(MapIndex::load(&bytes, length, &other, map_id()).is_err());
    assert!(MapIndex::load(&bytes, length - 1, &Filters::default(), map_id()).is_err());
}

#[test]
fn only_the_prefixes_of_a_damaged_page_are_unknown_in_a_merge() {
    let model = model(7, 30, 200, 0);
    let (bytes, report) = build(&model, options(24));
    assert!(report.pages > 10);
    for page in 0..report.pages as usize {
        let mut damaged = bytes.clone();
        damaged[page << 10] ^= 1;
        let (merged, report) = merge(&[&damaged], options(24));
        assert_eq!(report.unknown_pages, 1, "page {page}");
        let is_same = |other: &usize| merged[other << 10..(other + 1) << 10] == bytes[other << 10..(other + 1) << 10];
        assert!((0..report.pages as usize).filter(|other| other != &page).all(|other| is_same(&other)), "page {page}");
    }
}

// promise: file-maps
#[test]
fn damage_to_any_of_very_many_pages_is_damage_to_that_page() {
    let model = model(8, 20, 3_000, 0);
    let (bytes, report) = build(&model, options(24));
    assert!(report.pages > 130, "{report:?}");
    let hashes: Vec<KeyHash> = model.values().flatten().map(|&key| hash(key)).collect();
    let pages = [0, 1, 62, 63, 64, 65, 126, 127, 128, 129].into_iter().chain([report.pages as usize - 1]);
    for page in pages {
        let mut damaged = bytes.clone();
        damaged[page << 10..(page << 10) + 500].fill(0);
        let map = load(&damaged);
        assert_eq!(map.problems().count(), 1);
        for &hash in &hashes {
            let is_all = matches!(map.candidates(hash), MapAnswer::All);
            assert_eq!(is_all, map.index().page_of(hash) == page as u64, "page {page}");
        }
    }
}
