use super::*;
use crate::filter::FilterShape;
use crate::filter::fingerprint::{PeeledShape, build};
use crate::filter::peel::{CellSums, NO_RESERVE, Placement};
use crate::hash::{KeyHash, KeyHasher, SaltStep, sort_hashes};
use crate::vectors::vectors;

fn sorted(set: u64, keys: u64) -> Vec<KeyHash> {
    let mut hashes: Vec<KeyHash> = (0..keys).map(|key| KeyHash::mix(set << 40 | key)).collect();
    sort_hashes(&mut hashes, 1, u64::MAX);
    hashes
}

/// The worst number of keys is about 2,500, at 1.17 attempts.
#[test]
fn building_takes_less_than_1_3_attempts_on_average_at_every_number_of_keys() {
    let numbers = [0, 1, 2, 3, 10, 30, 60, 100, 200, 400, 700, 1_000, 1_500, 2_000, 2_500, 3_000, 4_000, 6_000];
    for keys in numbers.into_iter().chain([10_000, 30_000, 100_000]) {
        let shape = shape_for(keys, 8).unwrap();
        let sets = (1_000_000 / (keys + 10)).clamp(10, 1_000);
        let attempts = |set| build(&sorted(set, keys), shape, NO_RESERVE, 1).unwrap().attempts;
        let all: Vec<u32> = (1..=sets).map(attempts).collect();
        let mean = f64::from(all.iter().sum::<u32>()) / sets as f64;
        println!("{keys} keys: {mean:.3} attempts, at most {}", all.iter().max().unwrap());
        assert!(mean <= 1.3, "{keys} keys: {mean} attempts");
    }
}

#[test]
fn the_third_block_stays_emptier_where_that_is_wanted() {
    let hashes = sorted(1, 100_000);
    let shape = shape_for(100_000, 16).unwrap();
    let taken = |reserve| {
        let built = build(&hashes, shape, reserve, 1).unwrap();
        assert!(hashes.iter().all(|&hash| built.shape.may_contain(built.payload.as_slice(), hash)));
        let cells = built.payload.as_slice().as_chunks::<2>().0;
        cells[shape.third_block()..].iter().filter(|cell| **cell != [0, 0]).count()
    };
    let (any, emptier) = (taken(NO_RESERVE), taken(shape.third_block()));
    assert!((26_000..26_300).contains(&emptier) && any > emptier + 3_000, "{emptier} of 41,011 cells, or {any}");
}

#[test]
fn a_payload_of_another_length_reads_as_may_be_present() {
    let shape = shape_for(1_000, 8).unwrap();
    let (hashes, mut matches) = (sorted(1, 100), [0; 2]);
    for payload in [&[][..], &[0; 1_256]] {
        assert!(!payload.is_empty() || hashes.iter().all(|&hash| shape.may_contain(payload, hash)));
        shape.may_contain_batch(payload, &hashes, &mut matches);
        assert_eq!(matches, [u64::MAX, u64::MAX >> 28]);
    }
}

#[test]
fn more_keys_than_there_are_cells_for_fail_after_16_attempts() {
    let shape = shape_for(1_000, 8).unwrap();
    let failed = build(&sorted(1, 1_200), shape, NO_RESERVE, 1);
    assert_eq!(failed.err(), Some(crate::filter::FallbackReason::ConstructionFailed));
}

#[test]
fn cells_and_fingerprints_are_those_of_the_vectors() {
    for row in vectors("xor").rows("derivations") {
        let (hash, salt) = (row.hex("hash"), row.number("salt") as u8);
        assert_eq!(KeyHash::from_well_mixed(hash).salted(SaltStep::new(salt)), row.hex("salted"), "{row}");
        let (cells, fingerprint) = XorShape::new(8, 1_000).with_salt(salt).placement().place(hash);
        assert_eq!(cells.map(|cell| cell as u64), *row.numbers("cells"), "{row}");
        let fingerprints = [fingerprint >> 24, fingerprint >> 16].map(u64::from);
        assert_eq!(fingerprints, [row.hex("fingerprint_8"), row.hex("fingerprint_16")], "{row}");
    }
}

#[test]
fn keys_take_the_cells_of_the_vectors_in_their_order() {
    for block in vectors("xor").rows("blocks") {
        let hashes: Vec<KeyHash> = block.keys("keys").iter().map(|key| KeyHasher::default().hash(key)).collect();
        let bits = block.number("fingerprint_bits") as u8;
        let shape = shape_for(hashes.len() as u64, bits).unwrap();
        let mut sums = CellSums::new(shape.cells()).unwrap();
        shape.add_all(&mut sums, &hashes, 1).unwrap();
        let reserve = if block.text("kind") == "xor" { NO_RESERVE } else { shape.third_block() };
        let order = shape.peel(&mut sums, reserve).unwrap();
        let mut taken = Vec::new();
        sums.assign(&order, |cell, hash| taken.push((cell as u64, hash)));
        let places = block.rows("places");
        assert_eq!(taken.len(), places.len());
        // Cells are set in the reverse order.
        for (row, (cell, hash)) in places.iter().zip(taken.into_iter().rev()) {
            let (cells, fingerprint) = shape.placement().place(hash);
            assert_eq!(hash, KeyHasher::default().hash(row.text("key").as_bytes()).get(), "{row}");
            assert_eq!(cells.map(|cell| cell as u64), *row.numbers("cells"), "{row}");
            assert_eq!(
                (cell, u64::from(fingerprint >> (32 - bits))),
                (row.number("takes"), row.hex("fingerprint")),
                "{row}"
            );
        }
    }
}
