//! Every fixture with every single bit flipped (in the long form), cut, and extended. The failure
//! guarded against: one flipped bit in a filter on disk makes it answer "absent" for a key of its table, and the key is
//! lost although its data is sound. Damage may cost a read or an error, but never a key.

use crate::common;
use crate::common::cases::{BLOCKS, BlockCase};
use crate::common::effort;
use sstfilter::{FilterBlock, Filters, KeyHash, Probe, ShrinkError};

/// Asserts that opening or verifying fails, and that the reader never answers "absent".
fn assert_block_damage_is_caught(case: &BlockCase, damaged: &[u8], hashes: &[KeyHash], what: &str) {
    let is_sound = FilterBlock::open_unverified(damaged).is_ok_and(|filter| filter.verify().is_ok());
    assert!(!is_sound, "{}: {what} passes for sound", case.name);
    // A shrunk block has a new checksum, which would hide the damage.
    let shrunk = FilterBlock::open_unverified(damaged)
        .map(|filter| filter.shrink_to(damaged.len() as u64 / 2).map(FilterBlock::into_inner));
    assert!(matches!(shrunk, Err(_) | Ok(Err(ShrinkError::Block(_)))), "{}: {what}, and shrinks", case.name);
    let guarded = Filters::default().reader(FilterBlock::load(damaged, case.load_context()));
    for &hash in hashes {
        assert!(matches!(guarded.probe_hash(hash), Probe::Unusable), "{}: {what}", case.name);
    }
}

/// Some present and some absent keys of a block.
fn sample(case: &BlockCase) -> Vec<KeyHash> {
    let present = case.hashes();
    // Few keys are enough, because an unusable filter treats all keys alike.
    let some = present.iter().copied().step_by(present.len() / 3 + 1);
    some.chain(case.absent_hashes(4)).collect()
}

/// All bits in the long form. Otherwise one in three.
// promise: damage
#[test]
fn every_flipped_bit_of_every_block_is_caught_and_makes_the_filter_unusable() {
    for case in BLOCKS {
        let hashes = sample(case);
        common::for_each_flip(&case.read(), |damaged, bit| {
            if bit % effort::sample(3) == 0 {
                assert_block_damage_is_caught(case, damaged, &hashes, &format!("bit {bit} flipped"));
            }
        });
    }
}

// promise: damage
#[test]
fn every_block_with_bytes_too_few_or_too_many_at_either_end_or_inside_is_caught() {
    for case in BLOCKS {
        let (bytes, hashes) = (case.read(), sample(case));
        let assert_caught = |damaged: &[u8], what: String| assert_block_damage_is_caught(case, damaged, &hashes, &what);
        for length in 0..bytes.len() {
            assert_caught(&bytes[..length], format!("first {length} bytes"));
            let back = &bytes[bytes.len() - length..];
            assert!(FilterBlock::open_unverified(back).is_err(), "{}: opens with its last {length} bytes", case.name);
            assert_caught(back, format!("last {length} bytes"));
        }
        for more in (1..=130).chain([bytes.len(), bytes.len() * 2]) {
            for filling in [0, 0xff] {
                let (padding, what) = (vec![filling; more], format!("{more} bytes of {filling} too many"));
                assert_caught(&[&bytes[..], &padding].concat(), what.clone());
                assert_caught(&[&padding, &bytes[..]].concat(), what);
            }
        }
        assert_caught(&[&bytes[..], &bytes].concat(), "the block twice".to_owned());
        // 8 and 64 bytes keep words and lines aligned.
        for lost in [1, 2, 4, 8, 64] {
            for at in (0..bytes.len().saturating_sub(lost)).step_by(lost.max(bytes.len() / 500)) {
                assert_caught(&[&bytes[..at], &bytes[at + lost..]].concat(), format!("{lost} bytes lost at {at}"));
            }
        }
    }
}
