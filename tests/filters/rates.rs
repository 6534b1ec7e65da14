//! False positive rates of finished filters. The failure guarded against: a filter never loses a key, but has a higher
//! rate than its size allows (probes that share bits, repeated columns, a layer with equal results). Nothing breaks,
//! but reads get slower, and nobody notices.
//!
//! The measured rates: `cargo test --test filters rates:: -- --nocapture`.

use sstfilter::kind::LineRibbonKind;
use sstfilter::{BitsPerKey, FalsePositiveRate, FixedPolicy, Sizing, kind};

use crate::common::{self, effort};
use crate::{keys, opened, positives};

/// Key sets per setting.
fn sets() -> u32 {
    if common::is_long() { 5 } else { 2 }
}

/// Absent keys that each of these filters is probed for.
const ABSENT_PER_SET: u32 = 2_000_000;

/// The mean rate over several key sets, which lose no key, and the mean of what the reports expect.
fn measure(policy: &FixedPolicy, count: u32, sets: u32, absent_per_set: u32) -> (f64, f64) {
    let measured = common::on_all_cores(sets as usize, |set| {
        let set = u32::try_from(set).unwrap();
        let hashes = keys(set, count);
        let built = common::build(policy, &hashes);
        let report = built.report.clone();
        assert_eq!(report.used, Some(policy.kind()), "{count} keys: {report:?}");
        (positives(&opened(built, &hashes), &keys(1_000 + set, absent_per_set)), report.expected_fpr)
    });
    let found: u64 = measured.iter().map(|(found, _)| found).sum();
    let expected: f64 = measured.iter().map(|(_, expected)| expected).sum();
    (found as f64 / (f64::from(absent_per_set) * f64::from(sets)), expected / f64::from(sets))
}

/// All absent keys of a setting.
fn probes() -> f64 {
    f64::from(ABSENT_PER_SET) * f64::from(sets())
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
        let (rate, expected) = measure(&policy, KEYS, sets(), ABSENT_PER_SET / 10);
        println!("{}, {KEYS} keys: {:.5} %, computed {:.5} %", entry.name, rate * 100.0, expected * 100.0);
        assert!(rate <= expected * 1.02 + 5.0 * sigma(expected, 1e6), "{}: {rate}, computed {expected}", entry.name);
        let plan = policy.plan(KEYS.into(), None).unwrap();
        let bytes = common::build(&policy, &keys(0, KEYS)).block.unwrap().len() as f64;
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
        let (rate, expected) = measure(&policy, keys, sets(), ABSENT_PER_SET);
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
        let (rate, expected) = measure(&policy, keys, sets(), ABSENT_PER_SET);
        println!("standard bloom, {keys} keys, {bits} bits per key: {rate:.6}, computed {expected:.6}");
        // The rate goes with the fill to the power of the probes, and the fill varies as 0.27 / sqrt(bits) does.
        let spread = 0.27 / (f64::from(keys) * bits).sqrt() * 2.0 * bits * 0.69 / f64::from(sets()).sqrt();
        let tolerance = 4.0 * spread * expected + 4.0 * sigma(expected, probes());
        assert!((rate - expected).abs() < tolerance, "{keys} keys, {bits} bits: {rate}, computed {expected}");
        let rounded_up = if keys == 1_000 { 0.05 } else { 0.006 };
        assert!((expected / textbook - 1.0).abs() < rounded_up, "{keys} keys, {bits} bits: computed {expected}");
    }
}

/// A policy whose filters have a rate that depends only on the bits that they compare.
struct Exact {
    what: String,
    policy: FixedPolicy,
    rate: f64,
    /// Filters of fewer keys are Bloom filters, or their columns are rounded.
    min_keys: u32,
}

fn exact() -> Vec<Exact> {
    let of_bits = |kind: &str, bits: u8| {
        let policy = common::policy(kind, Sizing::FingerprintBits(bits));
        Exact { what: format!("{kind} of {bits} bits"), policy, rate: 0.5_f64.powi(bits.into()), min_keys: 1 }
    };
    let widths = [4, 5, 7, 8, 9, 12, 16, 17, 18, 20, 25, 26, 31, 32].into_iter();
    let fuse = widths.flat_map(move |bits| ["binary-fuse", "binary-fuse-4"].map(|kind| of_bits(kind, bits)));
    let xor = [("xor", 8), ("xor", 16), ("xor+", 8), ("xor+", 16)].map(|(kind, bits)| of_bits(kind, bits));
    let line = [90, 100, 105].map(|load| {
        let policy = FixedPolicy::from(LineRibbonKind::of_load(load).unwrap());
        Exact { what: format!("line ribbon of load {load}"), policy, rate: 1.0 / 256.0, min_keys: 3_000 }
    });
    let ribbon = [0.5, 0.3, 0.01, 0.001, 1.0 / 128.0, 1.0 / 256.0, 1.0 / 65_536.0].map(|rate| Exact {
        what: format!("ribbon of rate {rate}"),
        policy: common::ribbon(rate),
        rate,
        min_keys: 1_000,
    });
    fuse.chain(xor).chain(line).chain(ribbon).collect()
}

/// Within five standard errors of the rate that the report states. All policies with any number of keys in the long
/// form, otherwise one in two of these pairs: in the usual one, each policy with many keys at least once.
#[test]
fn fingerprints_and_columns_agree_with_absent_keys_only_by_chance() {
    let sizes =
        [(1, 100, 4_000), (40, 20, 20_000), (1_000, 5, 200_000), (100_000, 2, 2_000_000), (1_000_000, 2, 2_000_000)];
    let policies = exact();
    let settings = policies.iter().flat_map(|exact| sizes.map(|size| (exact, size)));
    for (exact, (count, sets, absent)) in settings.step_by(effort::sample(2)) {
        let Exact { what, policy, rate: asked, min_keys } = exact;
        if count < *min_keys || effort::is_short() && count > 100_000 {
            continue;
        }
        let (rate, stated) = measure(policy, count, sets, absent);
        let probes = f64::from(absent) * f64::from(sets);
        println!(
            "{what}, {count} keys: {rate:.8}, stated {stated:.8}, {:+.2} sigma",
            (rate - stated) / sigma(stated, probes)
        );
        assert!(
            (rate - stated).abs() < 5.0 * sigma(stated, probes) + 2.0 / probes,
            "{what}, {count} keys: {rate}, stated {stated}"
        );
        let least = if count < 100_000 { 0.9 } else { 0.99 };
        assert!((least..1.000_001).contains(&(stated / asked)), "{what}, {count} keys: {stated}, asked for {asked}");
    }
}
