use super::shape::{FOUR, FuseArity, FuseShape, THREE, shape_for};
use crate::effort;
use crate::filter::fingerprint::{PeeledShape, build};
use crate::filter::peel::{NO_RESERVE, Placement};
use crate::hash::{KeyHash, KeyHasher, SaltStep, sort_hashes};
use crate::vectors::vectors;

fn sorted(set: u64, keys: u64) -> Vec<KeyHash> {
    let mut hashes: Vec<KeyHash> = (0..keys).map(|key| KeyHash::mix(set << 40 | key)).collect();
    sort_hashes(&mut hashes, 1, u64::MAX);
    hashes
}

/// The first number of keys of each row, and the largest number with as many cells.
fn numbers_without_slack(arity: FuseArity, below: u64) -> Vec<u64> {
    let rows = if arity == FuseArity::Three { THREE } else { FOUR };
    let cells = |keys| shape_for(keys, arity, 8).unwrap().cells();
    let edges = rows.iter().map(|row| row.0).filter(|&keys| keys < below);
    let last_of = |first| {
        let (mut low, mut high) = (first, 2 * first + 100);
        while low < high {
            let middle = u64::midpoint(low, high + 1);
            if cells(middle) <= cells(first) { low = middle } else { high = middle - 1 }
        }
        low
    };
    edges.flat_map(|edge| [edge, last_of(edge), last_of(last_of(edge) + 1)]).filter(|&keys| keys < below).collect()
}

/// Mean and maximum number of attempts over `sets` sets of keys.
fn attempts(arity: FuseArity, keys: u64, sets: u64) -> (f64, u32) {
    let shape = shape_for(keys, arity, 8).unwrap();
    let of_set = |set| build(&sorted(set, keys), shape, NO_RESERVE, 1).unwrap().attempts;
    let all: Vec<u32> = (1..=sets).map(of_set).collect();
    (f64::from(all.iter().sum::<u32>()) / sets as f64, all.into_iter().max().unwrap_or_default())
}

/// Covers the numbers at which the usual formulas fail most attempts, and the worst ones of the tables.
#[test]
fn building_takes_about_one_attempt_at_every_number_of_keys() {
    let is_long = effort::is_long();
    let (below, work) = if is_long { (1_100_000, 10_000_000) } else { (140_000, 250_000) };
    for arity in [FuseArity::Three, FuseArity::Four] {
        let known = [0, 1, 2, 3, 10, 100, 1_000, 3_551, 10_000, 11_480, 11_500, 11_521, 37_454, 100_000];
        let few = (0..600).step_by(if is_long { 1 } else { 23 });
        let numbers = numbers_without_slack(arity, below).into_iter().chain(known).chain(few);
        let (mut sum, mut count) = (0.0, 0.0);
        for keys in numbers {
            let sets = (work / keys.max(1)).clamp(if is_long { 10 } else { 3 }, 800);
            let (mean, most) = attempts(arity, keys, sets);
            // Five standard errors above a failure rate of one in ten.
            let at_most = 1.1 + 5.0 * (0.1 / sets as f64).sqrt();
            if is_long {
                println!("{arity:?}, {keys} keys: {mean:.3} attempts, at most {most}, {sets} sets");
            }
            assert!(mean <= at_most && most <= 6, "{arity:?}, {keys} keys: {mean} attempts on average, at most {most}");
            (sum, count) = (sum + (mean - 1.0) * sets as f64, count + sets as f64);
        }
        let mean = 1.0 + sum / count;
        println!("{arity:?}: {mean:.4} attempts over {count} sets");
        assert!(mean < 1.1, "{arity:?}: {mean}");
    }
}

#[test]
fn a_payload_of_another_length_reads_as_may_be_present() {
    use crate::filter::FilterShape;
    let shape = shape_for(1_000, FuseArity::Three, 8).unwrap();
    let hashes = sorted(1, 130);
    assert!(hashes.iter().all(|&hash| shape.may_contain(&[], hash)));
    let mut matches = [0; 3];
    shape.may_contain_batch(&[0; 64], &hashes, &mut matches);
    assert_eq!(matches, [u64::MAX, u64::MAX, 3]);
}

#[test]
fn a_key_has_as_many_cells_as_the_arity_in_consecutive_segments_whatever_the_hash() {
    let shape = shape_for(100_000, FuseArity::Four, 8).unwrap();
    let hashes = (0..10_000).map(|key| KeyHash::mix(key).get()).chain([0, 1, u64::MAX]);
    for (hash, salt) in hashes.flat_map(|hash| [(hash, 0), (hash, 1), (hash, 15)]) {
        let (cells, _) = shape.with_salt(salt).placement::<4>().place(hash);
        let first = cells[0] as u64 >> 10;
        assert_eq!(cells.map(|cell| cell as u64 >> 10), [first, first + 1, first + 2, first + 3], "segments of 1,024");
        assert!((cells[3] as u64) < shape.cells());
    }
}

#[test]
fn cells_and_fingerprints_are_those_of_the_vectors() {
    let own = vectors("binary-fuse");
    let shape = FuseShape::new(FuseArity::Four, 32, 8, 47).unwrap();
    for row in own.rows("derivations") {
        let (hash, salt) = (row.hex("hash"), row.number("salt") as u8);
        assert_eq!(KeyHash::from_well_mixed(hash).salted(SaltStep::new(salt)), row.hex("salted"), "{row}");
        let (cells, fingerprint) = shape.with_salt(salt).placement::<4>().place(hash);
        assert_eq!(cells.map(|cell| cell as u64), *row.numbers("cells"), "{row}");
        assert_eq!(u64::from(fingerprint), row.hex("fingerprint"), "{row}");
    }
    for block in own.rows("blocks") {
        let log2_segment = block.number("segment_length").trailing_zeros() as u8;
        let shape = FuseShape::new(FuseArity::Three, 8, log2_segment, block.number("segments") as u32).unwrap();
        // Its salt is the low half of the byte before the version.
        let bytes = block.whole();
        let shape = shape.with_salt(bytes[bytes.len() - 8] & 15);
        for row in block.rows("places") {
            let (cells, fingerprint) =
                shape.placement::<3>().place(KeyHasher::default().hash(row.text("key").as_bytes()).get());
            assert_eq!(cells.map(|cell| cell as u64), *row.numbers("cells"), "{row}");
            assert_eq!(u64::from(fingerprint >> 24), row.hex("fingerprint"), "{row}");
        }
    }
}

#[test]
fn sizes_are_those_of_the_vectors() {
    let own = vectors("binary-fuse");
    let rows = own.rows("sizes").iter().map(|row| {
        let size = ["from", "first", "last"].map(|name| row.number(name));
        (row.number("arity"), (size[0], row.number("log2_segment") as u8, size[1], size[2]))
    });
    assert!(rows.eq(THREE.iter().map(|row| (3, *row)).chain(FOUR.iter().map(|row| (4, *row)))));
}
