//! Forged maps, whose checksums hold: they are loaded, probed and merged within memory that their size explains.

use std::io;

use sstfilter_map::{FileMap, MapIndex, MapMerge};

use crate::allocator::{alone, measure};
use crate::effort;
use crate::forge::{self, Forged, Random};
use crate::support::{build, candidates_by_reads, hash, map_id, model, options, reads};

/// Loads, probes and merges a map, if it can be loaded. Returns the peak of loading, and of merging.
fn peaks(bytes: &[u8], bits: u8) -> (usize, usize) {
    let ((), loading) = measure(|| {
        let Ok(map) = FileMap::load_any(bytes) else { return };
        for key in 0..20 {
            map.candidates_each(&[hash(key)], |_, found| drop(found));
        }
    });
    let Ok(index) = MapIndex::load_any(bytes, bytes.len() as u64) else { return (loading, 0) };
    for key in 0..20 {
        candidates_by_reads(&index, bytes, hash(key));
    }
    let ((), merging) = measure(|| {
        let mut merge = MapMerge::new(options(bits));
        if merge.add(index, reads(bytes)).is_ok() {
            drop(merge.finish(map_id(), &mut io::sink()));
        }
    });
    (loading, merging)
}

/// What merging a map of so many bytes may take: 8 bytes for each entry, of which a forged map may have eight for each
/// byte, a copy of half of them, the result, and buffers.
const fn allowed(bytes: usize) -> usize {
    200 * bytes + (1 << 19)
}

#[test]
fn forged_maps_are_merged_within_a_multiple_of_their_bytes() {
    let _alone = alone();
    let shapes = [(40, 40, 3, 26), (3, 200, 0, 20), (1, 300, 0, 12), (100, 20, 2, 48), (12, 1_000, 0, 8)];
    let sound =
        shapes.map(|(files, keys, shared, bits)| (build(&model(files, files, keys, shared), options(bits)).0, bits));
    let (mut most_loading, mut most_merging) = (0, 0);
    for case in 0..20_000 / effort::stride(100) as u64 {
        let mut random = Random(case << 20);
        let (sound, bits) = &sound[random.below(sound.len())];
        let mut forged = Forged::new(sound.clone());
        for _ in 0..=random.below(3) {
            forged.change(&mut random);
        }
        forged.seal();
        let (loading, merging) = peaks(&forged.bytes, *bits);
        assert!(loading <= 2 * forged.bytes.len(), "case {case}: {loading} bytes to load {}", forged.bytes.len());
        assert!(merging <= allowed(forged.bytes.len()), "case {case}: {merging} bytes to merge {}", forged.bytes.len());
        (most_loading, most_merging) = (most_loading.max(loading), most_merging.max(merging));
    }
    println!("at most {most_loading} bytes to load and probe, {most_merging} to merge");
}

#[test]
fn a_list_that_is_named_many_times_is_not_repeated() {
    let _alone = alone();
    let forged = forge::of_one_list(100_000, 200);
    let (loading, merging) = peaks(&forged, 8);
    // Every key of the map has the same list. Repeated, its ids would take 160 MB.
    assert!(loading < 2 * forged.len() && merging < 10 * forged.len(), "{loading}, {merging}");
}
