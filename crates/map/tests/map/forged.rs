//! Forged bytes, whose checksums hold: they may cause wrong answers, but no panic, no endless loop, and no work or
//! memory beyond what their size explains.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use sstfilter::simd::{self, InstructionSet};
use sstfilter::{Filters, KeyHash};
use sstfilter_map::{FileMap, LocalId, MapAnswer, MapBuilder, MapError, MapIndex, MapMerge, MapOptions, MapReport};

use crate::effort;
use crate::forge::{Forged, Random, same_tail};
use crate::support::{
    build, candidates_by_reads, file, finish, hash, ids, index_of, map_id, mix, model, options, probe, reads,
};

pub(crate) fn prefix(number: u64) -> KeyHash {
    KeyHash::from_well_mixed(number << 24)
}

/// Builds a map whose first page is outgrown: 31 files have the same keys, side by side.
pub(crate) fn builder_with_outgrown_page() -> MapBuilder {
    let mut builder = MapBuilder::new(&Filters::default(), options(40));
    for number in 0..40 {
        let alone = (0..30).map(|key| hash(number << 20 | key));
        // One key in ten has a list.
        let common = (0..80).filter(|key| number < 31 || key % 10 == 0).map(prefix);
        builder.add_file(file(number), common.chain(alone).collect());
    }
    builder
}

pub(crate) fn with_outgrown_page() -> Vec<u8> {
    let (bytes, report) = finish(builder_with_outgrown_page());
    assert!(report.outgrown_pages == 1 && report.lists == 8, "{report:?}");
    bytes
}

/// A lookup of the file would find one of its two local ids, and lose the keys of the other.
// promise: file-maps
#[test]
fn a_map_that_names_a_file_twice_is_refused() {
    let mut forged = Forged::new(with_outgrown_page());
    let first = forged.covered();
    forged.set(first + 16, 8, forged.number(first, 8));
    forged.seal();
    let refused = FileMap::load_any(&forged.bytes).err();
    assert!(matches!(refused, Some(MapError::Field { field: "covered files", .. })), "{refused:?}");
}

#[test]
fn an_outgrown_page_that_names_itself_ends_a_lookup() {
    let mut forged = Forged::new(with_outgrown_page());
    let at = forged.elsewhere(0);
    let (start, length) = (forged.tail() + forged.number(at, 8) as usize, forged.number(at + 8, 8) as usize);
    // The entries are where the stub says, and their lines say that they are elsewhere, too.
    let stub = forged.bytes[..at + 16].to_vec();
    forged.bytes[start..start + stub.len()].copy_from_slice(&stub);
    forged.seal_range(start, length);
    let index = index_of(&forged.bytes);
    assert_eq!(candidates_by_reads(&index, &forged.bytes, prefix(1)), (None, 2));
    let map = FileMap::load_any(&forged.bytes).unwrap();
    assert!(matches!(map.candidates(prefix(1)), MapAnswer::All));
}

#[test]
fn an_outgrown_page_of_more_than_16_mib_is_not_read() {
    let mut forged = Forged::new(with_outgrown_page());
    let tail = 20 << 20;
    for (length, may_read) in [(16 << 20, true), ((16 << 20) + 1, false)] {
        // Only the first page and the end of this map are needed.
        let (stub, end) = (forged.elsewhere(0), forged.end());
        forged.set(end + 12, 8, tail);
        forged.set(stub, 8, 0);
        forged.set(stub + 8, 8, length);
        forged.seal();
        let map_bytes = (forged.pages() as u64 * 1_024) + tail + 16 * 40 + 60;
        let index = MapIndex::load_any(&forged.bytes, map_bytes).unwrap();
        let part = index.open(&index.read_for(prefix(1)), &forged.bytes[..1_024]).unwrap();
        match probe(&index, Some(&part), prefix(1)) {
            Err(read) => assert!(may_read && read.range().end - read.range().start == length),
            Ok(found) => assert!(!may_read && found.is_none()),
        }
    }
}

#[test]
fn a_map_that_claims_more_entries_than_its_bytes_hold_is_refused() {
    // A merge would write a map for as many.
    let sound = build(&model(1, 1, 100, 0), options(20)).0;
    let mut forged = Forged::new(sound);
    let (entry, end) = (forged.end() - 8, forged.end());
    let most = 8 * forged.end() as u64 - 8 * 16;
    for (entries, is_sound) in [(most, true), (most + 1, false), ((1 << 40) - 1, false)] {
        forged.set(entry, 5, entries);
        forged.set(end + 44, 5, entries);
        forged.seal();
        assert_eq!(FileMap::load_any(&forged.bytes).map(|_| ()).is_ok(), is_sound, "{entries}");
    }
    for (entries, expected) in [(1 << 40, "entries of a covered file"), ((1 << 40) - 1, "entries")] {
        forged.set(end + 44, 5, 7);
        forged.set(entry, 8, entries);
        forged.seal();
        let refused = FileMap::load_any(&forged.bytes).map(|_| ());
        assert!(matches!(refused, Err(MapError::Field { field, .. }) if field == expected), "{refused:?}");
    }
}

#[test]
fn runs_that_overlap_or_leave_their_page_are_unknown_in_a_merge() {
    let sound = build(&model(2, 20, 50, 0), options(20)).0;
    let is_unknown = |forged: &mut Forged| {
        forged.seal();
        merged(&[&forged.bytes], options(20)).1.unwrap().unknown_pages > 0
    };
    assert!(!is_unknown(&mut Forged::new(sound.clone())));
    // The lines of all pages say the same of the same fields.
    let mut forged = Forged::new(sound.clone());
    let first = forged.bytes[..64].to_vec();
    forged.bytes[64..128].copy_from_slice(&first);
    assert!(is_unknown(&mut forged));
    // Overfull, with run ends that go up and down.
    let mut forged = Forged::new(sound.clone());
    let trailer = forged.trailer(0);
    forged.bytes[..32].fill(0xff);
    forged.set(32, 4, 0);
    forged.set(60, 4, 1 << 31);
    forged.set(trailer + 4, 4, 256);
    forged.set(trailer, 4, 0);
    for end in 0..256 {
        forged.set(trailer - 512 + 2 * end, 2, if end % 2 == 0 { 0xffff } else { 0 });
    }
    assert!(is_unknown(&mut forged));
    // A rank beyond the fields.
    let mut forged = Forged::new(sound);
    forged.set(60, 4, 1 << 30);
    assert!(is_unknown(&mut forged));
}

/// A sink that fails beyond a limit.
struct Limited {
    bytes: Vec<u8>,
    limit: usize,
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        assert!(self.bytes.len() + bytes.len() <= self.limit, "a merge wrote more than {} bytes", self.limit);
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Merges maps that may be forged, and returns the result.
fn merged(maps: &[&[u8]], options: MapOptions) -> (Vec<u8>, io::Result<MapReport>) {
    let mut merge = MapMerge::new(options);
    for &bytes in maps {
        if let Err(error) = merge.add(index_of(bytes), reads(bytes)) {
            return (Vec::new(), Err(error.into()));
        }
    }
    let bytes: usize = maps.iter().map(|map| map.len()).sum();
    // A map has less than 80 bits for each entry, of which a forged one claims up to eight for each byte.
    let mut sink = Limited { bytes: Vec::new(), limit: 80 * bytes + (1 << 16) };
    let report = merge.finish(map_id(), &mut sink);
    (sink.bytes, report)
}

/// Looks for keys in a map in all ways, and returns the number of answers.
pub(crate) fn look_for(bytes: &[u8], hashes: &[KeyHash]) -> u64 {
    let Ok(map) = FileMap::load_any(bytes) else { return 0 };
    let (index, files) = (map.index(), map.index().files().len());
    assert!(map.problems().count() as u64 <= index.pages());
    let check = |ids: &[usize]| {
        assert!(ids.is_sorted_by(|one, two| one < two) && ids.iter().all(|&id| id < files), "{ids:?} of {files}");
    };
    let of = |found: MapAnswer<'_>| match found {
        MapAnswer::Only(ids) => ids.take(files + 1).map(LocalId::index).collect(),
        MapAnswer::All => Vec::new(),
    };
    let single: Vec<Vec<usize>> = hashes.iter().map(|&hash| of(map.candidates(hash))).collect();
    single.iter().for_each(|ids| check(ids));
    let mut batch = vec![Vec::new(); hashes.len()];
    map.candidates_each(hashes, |position, found| batch[position] = of(found));
    assert!(single == batch);
    let is_sound = map.problems().next().is_none();
    for (&hash, single) in hashes.iter().zip(&single) {
        let found = candidates_by_reads(index, bytes, hash).0.unwrap_or_default();
        check(&found);
        assert!(!is_sound || found == *single, "{found:?} by reads, {single:?} in memory");
    }
    3 * hashes.len() as u64
}

/// The sound maps that are forged, and the bits of a hash that they keep.
pub(crate) fn sound_maps() -> Vec<(Vec<u8>, u8)> {
    let shapes = [(40, 40, 3, 26), (3, 200, 0, 20), (1, 300, 0, 12), (100, 20, 2, 48), (12, 1_000, 0, 8)];
    let maps = shapes
        .into_iter()
        .map(|(files, keys, shared, bits)| (build(&model(files, files, keys, shared), options(bits)).0, bits));
    maps.chain([(with_outgrown_page(), 40)]).collect()
}

#[test]
fn forged_maps_cause_no_panic_no_endless_loop_and_no_unbounded_output() {
    let maps = sound_maps();
    let hashes: Vec<KeyHash> = (0..20).map(prefix).chain((0..44).map(|key| hash(mix(key)))).collect();
    let (mut answers, mut loaded) = (0, 0);
    let cases = 100_000 / effort::stride(200) as u64;
    for case in 0..cases {
        let mut random = Random(case << 20);
        let (sound, bits) = random.pick(&maps.iter().collect::<Vec<_>>());
        let mut forged = Forged::new(sound.clone());
        for _ in 0..=random.below(4) {
            forged.change(&mut random);
        }
        forged.seal();
        let found = look_for(&forged.bytes, &hashes);
        answers += found;
        loaded += u64::from(found > 0);
        if found > 0 && random.one_in(4) {
            let maps: &[&[u8]] = if random.one_in(2) { &[&forged.bytes] } else { &[&forged.bytes, sound] };
            let (bytes, report) = merged(maps, options(*bits).with_threads(1 + random.below(2)));
            if report.is_ok() {
                let verified = index_of(&bytes).verify(reads(&bytes), |_| {}).unwrap();
                assert_eq!(verified.damaged_pages, 0, "case {case}: what a merge writes is sound");
                look_for(&bytes, &hashes);
            }
        }
    }
    assert!(loaded > cases / 2, "{loaded} of {cases} maps were loaded, {answers} answers");
}

/// Forged pages that all name the same bytes of the tail cost no more than one that does.
#[test]
fn pages_that_name_the_same_bytes_are_refused_before_these_are_read_again() {
    for is_outgrown in [false, true] {
        let (pages, tail) = (256, 1 << 18);
        let bytes = same_tail(pages, tail, is_outgrown);
        let map = FileMap::load_any(&bytes[..]).unwrap();
        let first = u64::from(!is_outgrown);
        assert_eq!(map.problems().count() as u64, pages - first);
        let counted = AtomicU64::new(0);
        let read_of = |bytes: &'static [u8], counted: &'static AtomicU64| {
            move |range: core::ops::Range<u64>| {
                counted.fetch_add(range.end - range.start, Ordering::Relaxed);
                reads(bytes)(range)
            }
        };
        let (bytes, counted): (&[u8], &AtomicU64) = (bytes.leak(), Box::leak(Box::new(counted)));
        let check = |what| {
            let read = counted.swap(0, Ordering::Relaxed);
            assert!(read <= 3 * bytes.len() as u64, "{what} reads {read} of {} bytes", bytes.len());
        };
        let index = index_of(bytes);
        let verified = index.verify(read_of(bytes, counted), |_| {}).unwrap();
        assert!(verified.damaged_pages >= pages - first);
        check("a verification");
        for threads in [1, 2] {
            let mut merge =
                MapMerge::new(MapOptions::with_prefix_bits(index.prefix_bits()).unwrap().with_threads(threads));
            merge.add(index.clone(), read_of(bytes, counted)).unwrap();
            assert!(merge.finish(map_id(), &mut Vec::new()).unwrap().unknown_pages > 0);
            check("a merge");
        }
    }
}

/// Forged lines and states: all instruction sets, and lookups in memory and by reads, must find the same.
#[test]
fn lines_and_states_that_disagree_have_the_same_answers_everywhere() {
    let sound = build(&model(2, 20, 50, 0), options(20)).0;
    let hashes: Vec<KeyHash> = (0..4_000).map(|key| hash(mix(key))).chain((0..20).map(prefix)).collect();
    let with = |change: &dyn Fn(&mut Forged)| {
        let mut forged = Forged::new(sound.clone());
        change(&mut forged);
        forged.seal();
        forged.bytes
    };
    let state = |state: u64| with(&|forged| forged.set(forged.trailer(0) + 17, 1, state));
    let line = |occupied: u8, mark: u64| {
        with(&|forged| {
            forged.bytes[..32].fill(occupied);
            forged.set(32, 4, mark);
            forged.set(60, 4, 1 << 31);
        })
    };
    let refused = [
        state(1),
        state(2),
        line(0xff, u64::from(u32::MAX)),
        line(0xff, u64::from(u32::MAX - 1)),
        line(0x7f, u64::from(u32::MAX - 2)),
    ];
    let overflowed = line(0xff, u64::from(u32::MAX - 2));
    // One run end for many runs, and none, in all lines.
    let few_run_ends = [0, 1, 0x80].map(|ends| {
        with(&|forged| {
            let (lines, page_bytes) = (forged.elsewhere(0) / 64, forged.trailer(0) + 32);
            for line in (0..forged.pages()).flat_map(|page| (0..lines).map(move |line| page * page_bytes + 64 * line)) {
                forged.bytes[line..line + 32].fill(0xff);
                forged.bytes[line + 32..line + 60].fill(0);
                forged.bytes[line + 40] = ends;
            }
        })
    });
    let before = simd::selected();
    for (number, bytes) in refused.iter().chain([&overflowed]).chain(&few_run_ends).enumerate() {
        let map = FileMap::load_any(bytes).unwrap();
        assert_eq!(map.problems().count(), usize::from(number < refused.len()), "{number}");
        let mut found = Vec::new();
        for set in InstructionSet::available() {
            simd::select(set).unwrap();
            let by_reads: Vec<_> = hashes.iter().map(|&hash| candidates_by_reads(map.index(), bytes, hash).0).collect();
            let in_memory: Vec<_> = hashes.iter().map(|&hash| ids(map.candidates(hash))).collect();
            assert!(by_reads == in_memory, "{number}");
            found.push(in_memory);
        }
        assert!(found.iter().all(|of_set| *of_set == found[0]), "{number}");
        let of_first_page = |hash: &&KeyHash| map.index().page_of(**hash) == 0;
        if number < refused.len() {
            assert!(hashes.iter().filter(of_first_page).all(|&hash| ids(map.candidates(hash)).is_none()), "{number}");
        }
    }
    simd::select(before).unwrap();
}

#[test]
fn the_mark_of_a_list_without_one_is_all_files() {
    let mut forged = Forged::new(build(&model(3, 60, 40, 1), options(24)).0);
    for page in 0..forged.pages() {
        forged.set(forged.trailer(page) + 8, 4, 0);
    }
    forged.seal();
    let map = FileMap::load_any(&forged.bytes).unwrap();
    assert_eq!(map.problems().next(), None);
    let mut marks = 0;
    for key in model(3, 60, 40, 1).values().flatten().map(|&key| hash(key)) {
        let found = ids(map.candidates(key));
        assert!(found.as_ref().is_none_or(|files| !files.is_empty()));
        marks += u64::from(found.is_none());
        assert_eq!(candidates_by_reads(map.index(), &forged.bytes, key).0, found);
    }
    assert!(marks > 0);
}
