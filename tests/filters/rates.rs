//! False positive rates of finished filters. The failure guarded against: a filter never loses a key, but has a higher
//! rate than its size allows (probes that share bits, repeated columns, a layer with equal results). Nothing breaks,
//! but reads get slower, and nobody notices.
//!
//! The measured rates: `cargo test --test filters rates:: -- --nocapture`.

use crate::common::{self, effort};
use sstfilter::{BitsPerKey, FalsePositiveRate, FilterBlock, FilterPolicy, FixedPolicy, KeyHash, KindId, kind};

/// Key sets per setting.
fn sets() -> u32 {
    if common::is_long() { 5 } else { 2 }
}

/// Absent keys that each of these filters is probed for.
const ABSENT_PER_SET: u32 = 2_000_000;

/// Numbers around those at which shapes change: nothing, one word, one line, one bucket, two layers, a section.
const EDGES: [u32; 15] = [0, 1, 2, 3, 7, 63, 64, 65, 127, 128, 129, 1_000, 5_001, 11_500, 65_537];

/// Keys that no `key_set` below 1,000 holds.
fn absent(set: u32, count: u32) -> impl Iterator<Item = KeyHash> {
    common::key_set(1_000 + set, count)
}

/// The mean rate over several key sets, which lose no key, and the mean of what the reports expect.
fn measure(policy: &dyn FilterPolicy, keys: u32, absent_per_set: u32, kind: Option<KindId>) -> (f64, f64) {
    let measured = common::on_all_cores(sets() as usize, |set| {
        let set = u32::try_from(set).unwrap();
        let hashes: Vec<KeyHash> = common::key_set(set, keys).collect();
        let built = common::build(policy, &hashes);
        assert!(kind.is_none_or(|kind| built.report.used == Some(kind)), "{keys} keys: {:?}", built.report);
        let filter = FilterBlock::open_unverified(built.block.unwrap()).unwrap();
        assert_eq!(common::matches(&filter, hashes.into_iter()), u64::from(keys), "a key is absent");
        (common::matches(&filter, absent(set, absent_per_set)), built.report.expected_fpr)
    });
    let matches: u64 = measured.iter().map(|(matches, _)| matches).sum();
    let expected: f64 = measured.iter().map(|(_, expected)| expected).sum();
    (matches as f64 / (f64::from(absent_per_set) * f64::from(sets())), expected / f64::from(sets()))
}

/// All absent keys of the large filters.
fn probes() -> f64 {
    f64::from(ABSENT_PER_SET) * f64::from(sets())
}

/// All absent keys of filters of any number of keys.
fn few_probes() -> f64 {
    20_000.0 * f64::from(sets())
}

/// One standard error of a rate of `probes` independent probes.
fn sigma(rate: f64, probes: f64) -> f64 {
    (rate * (1.0 - rate) / probes).sqrt()
}

#[test]
fn every_kind_has_about_the_rate_and_the_size_that_its_plan_says() {
    const KEYS: u32 = 100_000;
    for entry in kind::all() {
        let policy = common::policy(entry.name, FalsePositiveRate::ONE_PERCENT);
        let (rate, expected) = measure(&policy, KEYS, ABSENT_PER_SET / 10, Some(entry.id));
        println!("{}, {KEYS} keys: {:.5} %, computed {:.5} %", entry.name, rate * 100.0, expected * 100.0);
        assert!(rate <= expected * 1.02 + 5.0 * sigma(expected, 1e6), "{}: {rate}, computed {expected}", entry.name);
        let hashes: Vec<KeyHash> = common::key_set(0, KEYS).collect();
        let plan = policy.plan(KEYS.into(), None).unwrap();
        let bytes = common::build(&policy, &hashes).block.unwrap().len() as f64;
        let off = (bytes / plan.block_bytes as f64 - 1.0).abs();
        let allowed = if entry.has_exact_size { 0.0 } else { 0.01 };
        assert!(off <= allowed, "{}: {bytes} bytes, {} planned", entry.name, plan.block_bytes);
    }
}

/// All sizes with either number of keys in the long form, otherwise each size with one of them.
#[test]
fn blocked_bloom_keeps_to_its_rate_at_every_usual_size() {
    let at_most = [(10.0, 0.0098), (12.0, 0.00425), (16.0, 0.000_86), (20.0, 0.000_204)];
    let settings = [100_000, 1_000_000].into_iter().flat_map(|keys| at_most.map(|(bits, rate)| (keys, bits, rate)));
    for (number, (keys, bits, at_most)) in settings.enumerate() {
        // The sizes of even numbers with few keys, the others with many.
        if !common::is_long() && number % 2 != usize::from(keys > 100_000) {
            continue;
        }
        let policy = FixedPolicy::bloom(BitsPerKey::new(bits).unwrap()).unwrap();
        let (rate, expected) = measure(&policy, keys, ABSENT_PER_SET, Some(KindId::BLOCKED_BLOOM));
        println!("bloom, {keys} keys, {bits} bits per key: {:.5} %, computed {:.5} %", rate * 100.0, expected * 100.0);
        assert!(rate <= at_most, "{keys} keys, {bits} bits per key: {rate}, at most {at_most}");
        assert!(
            (rate / expected - 1.0).abs() < 0.02 + 4.0 * sigma(rate, probes()) / rate,
            "{rate}, computed {expected}"
        );
    }
}

/// All sizes with any number of keys in the long form, otherwise one in three of these pairs.
#[test]
fn standard_bloom_has_the_textbooks_rate_at_every_usual_size() {
    let computed = [(4.79, 0.1007), (8.0, 0.021_58), (10.0, 0.008_194), (12.0, 0.003_142), (16.0, 0.000_458_8)];
    let settings = [1_000, 10_000, 100_000, 1_000_000]
        .into_iter()
        .flat_map(|keys| computed.map(|(bits, textbook)| (keys, bits, textbook)));
    for (keys, bits, textbook) in settings.step_by(effort::sample(3)) {
        let policy = FixedPolicy::standard_bloom(BitsPerKey::new(bits).unwrap()).unwrap();
        let (rate, expected) = measure(&policy, keys, ABSENT_PER_SET, Some(KindId::STANDARD_BLOOM));
        println!("standard bloom, {keys} keys, {bits} bits per key: {rate:.6}, computed {expected:.6}");
        // The rate goes with the fill to the power of the probes, and the fill varies as 0.27 / sqrt(bits) does.
        let spread = 0.27 / (f64::from(keys) * bits).sqrt() * 2.0 * bits * 0.69 / f64::from(sets()).sqrt();
        let tolerance = 4.0 * spread * expected + 4.0 * sigma(expected, probes());
        assert!((rate - expected).abs() < tolerance, "{keys} keys, {bits} bits: {rate}, computed {expected}");
        let rounded_up = if keys == 1_000 { 0.05 } else { 0.006 };
        assert!((expected / textbook - 1.0).abs() < rounded_up, "{keys} keys, {bits} bits: computed {expected}");
    }
}

/// Ribbon's rate is within four standard errors of the requested one.
fn assert_ribbon_rate(keys: u32, asked: f64) {
    let (rate, expected) = measure(&common::ribbon(asked), keys, ABSENT_PER_SET, Some(KindId::RIBBON));
    let deviation = (rate - asked) / sigma(asked, probes());
    println!("ribbon, {keys} keys, {asked}: {rate:.8}, {deviation:+.2} sigma; computed {expected:.8}");
    assert!(deviation.abs() < 4.0, "{keys} keys: asked for {asked}, got {rate}, {deviation} sigma off");
}

#[test]
fn ribbon_has_the_rate_asked_for_with_a_hundred_thousand_keys() {
    for rate in [0.5, 0.01, 0.001, 1.0 / 128.0, 1.0 / 256.0, 1.0 / 65_536.0] {
        assert_ribbon_rate(100_000, rate);
    }
}

/// All rates in the long form, otherwise one that is a power of two and one that is not.
#[test]
fn ribbon_has_the_rate_asked_for_with_a_million_keys() {
    let rates = [0.01, 0.5, 0.001, 1.0 / 256.0, 1.0 / 128.0, 1.0 / 65_536.0];
    for rate in rates.into_iter().step_by(effort::sample(3)) {
        assert_ribbon_rate(1_000_000, rate);
    }
}

/// The mean of five filters is at most 1.5 times the computed rate plus five standard errors. Small filters differ by
/// more than chance in the probes, because their few lines are unevenly filled.
#[test]
fn bloom_filters_of_any_number_of_keys_deny_none_and_are_near_their_rate() {
    for bits in [4.0, 10.0, 16.0, 24.0] {
        for keys in EDGES {
            let policy = FixedPolicy::bloom(BitsPerKey::new(bits).unwrap()).unwrap();
            let (rate, expected) = measure(&policy, keys, 20_000, Some(KindId::BLOCKED_BLOOM));
            let at_most = 1.5 * expected + 5.0 * sigma(expected, few_probes());
            assert!(rate <= at_most, "{keys} keys, {bits} bits: {rate}, computed {expected}");
        }
    }
}

/// Ribbon's rate depends on nothing but its columns, whose share is rounded to whole blocks: five standard errors
/// around the report's rate, which never exceeds the requested one.
#[test]
fn ribbon_filters_of_any_number_of_keys_deny_none_and_have_the_computed_rate() {
    for asked in [0.5, 0.3, 0.01, 0.001] {
        for keys in EDGES {
            let kind = (keys >= 200).then_some(KindId::RIBBON);
            let (rate, expected) = measure(&common::ribbon(asked), keys, 20_000, kind);
            if kind.is_some() {
                let deviation = (rate - expected).abs() / sigma(expected, few_probes());
                assert!(deviation < 5.0, "{keys} keys at {asked}: {rate}, computed {expected}");
                assert!(expected <= asked * 1.000_001, "{keys} keys: asked {asked}, computed {expected}");
            } else {
                let at_most = 1.5 * asked + 5.0 * sigma(asked, few_probes());
                assert!(rate <= at_most, "{keys} keys at {asked}: {rate}, computed {expected}");
            }
        }
    }
}
