//! Expected false positive rates of Bloom filters.
//!
//! A rate is the mean over the possible loads of a line (its numbers of keys). RocksDB's own estimate evaluates two
//! loads, one standard deviation above and below the mean (`BloomMath::CacheLocalFpRate`); this module evaluates all.
//! Double hashing adds two kinds of false positives that independent probes do not have: a step of small order yields
//! few distinct probes, and two keys with equal steps can cover each other's probes.

/// The number of hashes sampled to count the distinct bits of LevelDB's double hashing.
const SAMPLED_HASHES: u32 = 1 << 14;
/// LevelDB's maximum.
const MAX_PROBES: usize = 30;
/// Above this number of keys per line, loads vary so little that the mean represents them.
const MANY_KEYS_PER_LINE: f64 = 4_096.0;
/// Loads rarer than this, relative to the most frequent one, are skipped.
const RAREST_LOAD: f64 = 1e-18;

/// Returns the positions of one key's bits in LevelDB's filter.
pub(super) fn positions(hash: u32, bits: u64, probes: u8) -> impl Iterator<Item = u64> {
    let step = hash.rotate_right(17);
    (0..u32::from(probes)).map(move |probe| u64::from(hash.wrapping_add(probe.wrapping_mul(step))) % bits)
}

/// Rate of a filter whose lines are chosen by one hash, and whose probes by another of 32 bits, as if independently.
pub(super) fn lines_of_independent_probes(keys: u64, lines: u64, line_bits: f64, probes: u32) -> f64 {
    let load = keys as f64 / lines as f64;
    let probes = f64::from(probes);
    let by_chance = mean_over_loads(load, |keys| all_set(line_bits, keys * probes, probes));
    // Two keys of a line with equal 32 bits have the same probes.
    either(by_chance, chance_of_equal(load, 32))
}

/// Rate of a filter whose lines are chosen by a hash of 32 bits, and whose probes start at its lowest bits, with other
/// bits as the step.
pub(super) fn lines_of_double_hashing(keys: u64, lines: u64, line_bits: f64, probes: u32) -> f64 {
    let classes = step_classes(line_bits, probes);
    let different: f64 = classes.iter().map(|&(chance, different)| chance * different).sum();
    let by_chance = mean_over_loads(keys as f64 / lines as f64, |keys| {
        let throws = throws_for(line_bits, keys, different);
        let scattered = classes.iter().map(|&(chance, different)| chance * all_set(line_bits, throws, different));
        let filled = set_bits(line_bits, throws);
        scattered.sum::<f64>() + keys / line_bits.powi(2) * steps_in_common(filled, probes)
    });
    either(by_chance.min(1.0), chance_of_equal(keys as f64, 32))
}

/// Rate of a filter without lines: double hashing with sums of 32 bits, modulo any number of bits.
pub(super) fn one_line_of_double_hashing(keys: u64, bits: u64, probes: u8) -> f64 {
    let mut sampled = [0.0_f64; MAX_PROBES + 1];
    for i in 0..SAMPLED_HASHES {
        // Multiples of the golden ratio sample the hashes evenly, so no random generator is needed.
        sampled[different_bits(i.wrapping_mul(0x9e37_79b9), bits, probes)] += 1.0 / f64::from(SAMPLED_HASHES);
    }
    let classes = || (0_u8..).map(f64::from).zip(sampled);
    let (bits, keys) = (bits as f64, keys as f64);
    let throws = throws_for(bits, keys, classes().map(|(different, chance)| chance * different).sum());
    let scattered: f64 = classes().map(|(different, chance)| chance * all_set(bits, throws, different)).sum();
    // Another key covers all probes if it has the same step and first bit, or the opposite step from the last bit.
    // Partial covers are rare, because sums that wrap around 2^32 break the pattern.
    (scattered + 2.0 * keys / bits.powi(2)).min(1.0)
}

/// Counts the distinct bits of a key in LevelDB's filter.
fn different_bits(hash: u32, bits: u64, probes: u8) -> usize {
    let mut of_key = [0; MAX_PROBES];
    let mut count = 0;
    for (slot, bit) in of_key.iter_mut().zip(positions(hash, bits, probes)) {
        *slot = bit;
        count += 1;
    }
    let of_key = &mut of_key[..count];
    // At most 30 positions: sorting an array needs no allocation.
    of_key.sort_unstable();
    of_key.chunk_by(|one, next| one == next).count()
}

/// Returns the mean of `rate` over lines whose numbers of keys follow a Poisson distribution.
fn mean_over_loads(load: f64, rate: impl Fn(f64) -> f64) -> f64 {
    if load > MANY_KEYS_PER_LINE {
        return rate(load);
    }
    let most_frequent = load.floor();
    // Weights relative to the most frequent load, because the Poisson terms themselves underflow for large loads.
    // Dividing by their sum normalizes them.
    let (mut sum, mut weights) = (rate(most_frequent), 1.0);
    let mut add = |keys: f64, weight: f64| {
        sum += weight * rate(keys);
        weights += weight;
    };
    let (mut keys, mut weight) = (most_frequent, 1.0);
    while weight > RAREST_LOAD {
        keys += 1.0;
        weight *= load / keys;
        add(keys, weight);
    }
    (keys, weight) = (most_frequent, 1.0);
    while weight > RAREST_LOAD && keys > 0.0 {
        weight *= keys / load;
        keys -= 1.0;
        add(keys, weight);
    }
    sum / weights
}

/// Returns the chance that `probes` random bits are all set after `throws` random bits were set. It is a second-order
/// approximation of the mean of a power of the set bits, from their exact mean and variance.
fn all_set(bits: f64, throws: f64, probes: f64) -> f64 {
    let set = set_bits(bits, throws);
    if set <= 0.0 || probes <= 0.0 {
        return if probes <= 0.0 { 1.0 } else { 0.0 };
    }
    let one_unset = 1.0 - set;
    // `ln_1p` and `exp_m1` keep the digits that `1 - 1 / bits` would lose for large filters.
    let two_unset = (throws * (-2.0 / bits).ln_1p()).exp();
    let variance = (one_unset - two_unset) / bits + two_unset - one_unset.powi(2);
    // Rounding can make a variance near zero negative.
    let spread = 1.0 + probes * (probes - 1.0) / 2.0 * variance.max(0.0) / set.powi(2);
    (set.powf(probes) * spread).min(1.0)
}

/// Returns the mean fraction of set bits.
fn set_bits(bits: f64, throws: f64) -> f64 {
    -(throws * (-1.0 / bits).ln_1p()).exp_m1()
}

/// Returns how many random bits set as many bits as `keys` keys with `different` distinct bits each.
fn throws_for(bits: f64, keys: f64, different: f64) -> f64 {
    keys * (-different / bits).ln_1p() / (-1.0 / bits).ln_1p()
}

/// Classifies steps modulo a power of two by their largest divisor that is a power of two: frequency, and number of
/// distinct probes.
fn step_classes(line_bits: f64, probes: u32) -> Vec<(f64, f64)> {
    let mut classes = Vec::new();
    let (mut order, mut chance) = (line_bits, 0.5);
    while order > 1.0 {
        classes.push((chance, f64::from(probes).min(order)));
        (order, chance) = (order / 2.0, chance / 2.0);
    }
    classes.push((1.0 / line_bits, 1.0));
    classes
}

/// Returns how many pairs of first bit and step cover another key's probes with the same or the opposite step. A pair
/// that covers only some counts by the chance that the others are set.
fn steps_in_common(filled: f64, probes: u32) -> f64 {
    let chance = |left: u32| filled.powf(f64::from(left)) - filled.powf(f64::from(probes));
    let partly: f64 = (1..probes).map(chance).sum();
    2.0 * (2.0 * partly + chance(0))
}

/// Returns the chance that one of `keys` has an equal hash of `bits` bits (RocksDB's `FingerprintFpRate`).
fn chance_of_equal(keys: f64, bits: i32) -> f64 {
    -(-keys * 0.5_f64.powi(bits)).exp_m1()
}

/// Returns the chance that at least one of two independent events occurs.
fn either(one: f64, other: f64) -> f64 {
    one + other - one * other
}

#[cfg(test)]
mod tests {
    use super::{lines_of_double_hashing, lines_of_independent_probes, one_line_of_double_hashing};

    #[test]
    fn rates_are_between_0_and_1_for_any_parameters() {
        for keys in [0, 1, 2, 1_000, 1 << 20, 1 << 40, u64::MAX] {
            for probes in [1, 6, 30] {
                for lines in [1, 2, 1_000, 1 << 26] {
                    for line_bits in [8.0, 64.0, 512.0, 4_294_967_296.0] {
                        let independent = lines_of_independent_probes(keys, lines, line_bits, probes.into());
                        let double = lines_of_double_hashing(keys, lines, line_bits, probes.into());
                        for rate in [independent, double] {
                            assert!((0.0..=1.0).contains(&rate), "{keys} {lines} {line_bits} {probes}: {rate}");
                        }
                    }
                }
                let whole = one_line_of_double_hashing(keys, 64 + 8 * keys.min(1 << 30), probes);
                assert!((0.0..=1.0).contains(&whole), "{keys} {probes}: {whole}");
            }
        }
    }

    #[test]
    fn a_filter_of_no_keys_has_no_false_positives_and_a_crowded_one_only_those() {
        assert!(lines_of_independent_probes(0, 10, 512.0, 6) < 1e-12);
        assert!(lines_of_independent_probes(100_000, 10, 512.0, 6) > 0.999);
        assert!(lines_of_double_hashing(0, 10, 512.0, 6) < 1e-12);
        assert!(one_line_of_double_hashing(0, 64, 6) < 1e-12);
    }

    #[test]
    fn the_usual_formula_is_far_too_low_for_leveldbs_filters_of_few_keys() {
        let usual = |keys: f64, bits: f64, probes: i32| (-(-keys * f64::from(probes) / bits).exp_m1()).powi(probes);
        assert!(usual(20.0, 200.0, 6) < 0.75 * one_line_of_double_hashing(20, 200, 6));
        assert!(usual(20.0, 400.0, 13) < 0.1 * one_line_of_double_hashing(20, 400, 13));
    }
}
