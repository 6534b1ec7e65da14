use super::XorPlusKind;
use super::shape::expected_shape;
use crate::filter::fingerprint::{self, WholeBytes, Width};
use crate::filter::peel::Placement;
use crate::filter::xor::shape_for;
use crate::filter::{BuildLimits, FilterShape, Kind};
use crate::hash::KeyHash;
use crate::units::Sizing;

fn sorted(set: u64, keys: u64) -> Vec<KeyHash> {
    let mut hashes: Vec<KeyHash> = (0..keys).map(|key| KeyHash::mix(set << 40 | key)).collect();
    hashes.sort_unstable();
    hashes
}

#[test]
fn it_answers_as_the_filter_with_all_cells_does() {
    let probed = sorted(2, 20_000);
    for width in [8, 16] {
        for keys in [0, 1, 2, 100, 1_000, 300_000] {
            let (hashes, whole) = (sorted(1, keys), shape_for(keys, width).unwrap());
            let kind = XorPlusKind::configure(Sizing::FingerprintBits(width)).unwrap();
            let plus = kind.build(&kind.plan(keys).unwrap(), &hashes, BuildLimits::default()).unwrap();
            let whole = fingerprint::build(&hashes, whole, whole.third_block(), 1).unwrap();
            assert!(keys < 1_000 || plus.shape.payload_bytes() < whole.shape.payload_bytes());
            let mut matches = vec![0; probed.len().div_ceil(64)];
            plus.shape.may_contain_batch(plus.payload.as_slice(), &probed, &mut matches);
            for (index, &hash) in probed.iter().enumerate() {
                let answer = plus.shape.may_contain(plus.payload.as_slice(), hash);
                assert_eq!(answer, whole.shape.may_contain(whole.payload.as_slice(), hash), "{keys} keys");
                assert_eq!(answer, matches[index / 64] >> (index % 64) & 1 == 1, "{keys} keys");
            }
            assert!(hashes.iter().all(|&hash| plus.shape.may_contain(plus.payload.as_slice(), hash)));
        }
    }
}

#[test]
fn a_payload_of_another_length_reads_as_may_be_present() {
    let shape = expected_shape(1_000, 8).unwrap();
    let (hashes, mut matches) = (sorted(1, 100), [0; 2]);
    for payload in [&[][..], &[0; 1_264]] {
        assert!(hashes.iter().all(|&hash| shape.may_contain(payload, hash)));
        shape.may_contain_batch(payload, &hashes, &mut matches);
        assert_eq!(matches, [u64::MAX, u64::MAX >> 28]);
    }
}

/// A payload that no writer makes, under a valid checksum. Its counts say 2^37 cells, and so point beyond the payload
/// for any width of `usize`: there the third cell reads as 0, while the first two are all ones.
#[test]
fn counts_that_lie_cost_answers_but_no_panic() {
    let shape = expected_shape(300_000, 8).unwrap();
    let lie = vec![0xff; usize::try_from(shape.payload_bytes()).unwrap()];
    let (hashes, mut matches) = (sorted(1, 1_000), [0; 16]);
    shape.may_contain_batch(&lie, &hashes, &mut matches);
    for (index, &hash) in hashes.iter().enumerate() {
        assert_eq!(shape.may_contain(&lie, hash), matches[index / 64] >> (index % 64) & 1 == 1);
        let (_, bits) = shape.whole.placement().place(hash.get());
        assert_eq!(shape.may_contain(&lie, hash), WholeBytes::<1>.fingerprint(bits) == 0);
    }
}
