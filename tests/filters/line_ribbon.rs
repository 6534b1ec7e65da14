//! Line ribbon filters through the public interface. The failures guarded against: small files or hostile keys end
//! without a filter, or with one that says nothing of it; the load changes more than size and speed; a size or a rate
//! that the kind does not have is accepted; in filters of some size, a key is lost.
//!
//! `SSTFILTER_LONG=1` probes for 2 * 10^8 keys, `SSTFILTER_LONG=2` for 10^9.

use sstfilter::kind::{KindEntry, LineRibbonKind};
use sstfilter::{BitsPerKey, ConfigError, FallbackReason, FalsePositiveRate, FixedPolicy, KeyHash, KindId, Sizing};

use crate::common::random::Random;
use crate::common::{self, effort};
use crate::{keys, opened, positives};

const LOADS: [u8; 3] = [90, 100, 105];

fn of_load(load: u8) -> FixedPolicy {
    FixedPolicy::from(LineRibbonKind::of_load(load).unwrap())
}

#[test]
fn files_of_fewer_than_3000_keys_get_a_bloom_filter_of_the_rate_that_says_why() {
    for load in LOADS {
        let info = |count| opened(common::build(&of_load(load), &keys(0, count)), &keys(0, count)).info();
        let (small, large) = (info(2_999), info(3_000));
        assert_eq!(
            (small.kind, small.requested, small.reason),
            (KindId::BLOCKED_BLOOM, KindId::LINE_RIBBON, FallbackReason::TooFewKeys)
        );
        assert_eq!(
            (large.kind, large.requested, large.reason),
            (KindId::LINE_RIBBON, KindId::LINE_RIBBON, FallbackReason::None)
        );
        assert!((small.expected_fpr * 256.0 - 1.0).abs() < 0.05 && (large.expected_fpr * 256.0 - 1.0).abs() < 1e-6);
        assert!(large.block_bytes < small.block_bytes);
    }
}

#[test]
fn a_size_chooses_the_fastest_load_that_fits_and_a_rate_the_fastest_of_all() {
    let bytes = |policy: FixedPolicy| policy.block_bytes(100_000);
    let of_size = |bits| FixedPolicy::line_ribbon(BitsPerKey::new(bits).unwrap());
    for (bits, load) in [(100.0, 90), (9.32, 90), (9.3, 100), (8.73, 100), (8.7, 105), (8.57, 105)] {
        assert_eq!(bytes(of_size(bits).unwrap()), bytes(of_load(load)), "{bits} bits");
    }
    let refused = of_size(8.56).unwrap_err();
    assert!(matches!(refused, ConfigError::SizeOutOfRange { kind: KindId::LINE_RIBBON, .. }), "{refused}");
    let of_rate = |rate| FixedPolicy::line_ribbon(FalsePositiveRate::new(rate).unwrap());
    for rate in [0.5, 0.01, 1.0 / 256.0] {
        assert_eq!(bytes(of_rate(rate).unwrap()), bytes(of_load(90)));
    }
    let refused = of_rate(0.0039).unwrap_err();
    assert!(matches!(refused, ConfigError::RateOutOfRange { kind: KindId::LINE_RIBBON, .. }), "{refused}");
    assert!(FixedPolicy::line_ribbon(Sizing::FingerprintBits(8)).is_ok());
    for bits in [7, 9] {
        assert!(FixedPolicy::line_ribbon(Sizing::FingerprintBits(bits)).is_err());
    }
    for load in [0, 89, 95, 106] {
        assert!(matches!(LineRibbonKind::of_load(load), Err(ConfigError::OutOfRange { .. })), "{load}");
    }
    assert_eq!(KindEntry::named("line-ribbon").unwrap().id, KindId::LINE_RIBBON);
}

#[test]
fn no_key_is_lost_in_filters_of_any_size() {
    let probes =
        if effort::is_longest() { 1_000_000_000 } else { effort::of_minutes(200_000_000, 20_000_000, 2_000_000) };
    let (mut random, mut done) = (Random::new(0x11e), 0_u64);
    while done < probes {
        let policy = of_load(*random.pick(&LOADS)).with_min_keys(0);
        // All magnitudes up to a million keys are equally likely.
        let below = 1 << random.below(21);
        let count = random.below(below);
        let keys: Vec<KeyHash> = (0..count).map(|_| KeyHash::from_well_mixed(random.next())).collect();
        let mut blocks = Vec::new();
        common::for_each_set(|set| {
            let filter = opened(common::build(&policy, &keys), &keys);
            assert_eq!(positives(&filter, &keys), keys.len() as u64, "{} keys in a batch, {set}", keys.len());
            done += 2 * keys.len() as u64 + 1;
            blocks.push(filter.into_inner());
        });
        assert!(blocks.windows(2).all(|two| two[0] == two[1]), "{} keys", keys.len());
    }
    println!("{done} probes for keys");
}

/// Hashes of an attacker who knows the seed.
#[test]
fn keys_that_crowd_in_a_line_end_in_a_bloom_filter_of_the_rate() {
    for load in LOADS {
        let policy = of_load(load);
        let mut keys = keys(0, 100_000);
        // A tenth of the keys in the first lines.
        keys.iter_mut().step_by(10).for_each(|hash| *hash = KeyHash::from_well_mixed(hash.get() >> 20));
        let built = common::build(&policy, &keys);
        assert_eq!(
            (built.report.used, built.report.reason),
            (Some(KindId::BLOCKED_BLOOM), FallbackReason::ConstructionFailed)
        );
        assert_eq!(opened(built, &keys).info().reason, FallbackReason::ConstructionFailed);
    }
}
