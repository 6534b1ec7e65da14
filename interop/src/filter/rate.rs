//! Expected false positive rates of Bloom filters.

/// RocksDB's estimate is the mean of the rates one standard deviation above and below the mean load of a line
/// (`BloomMath::CacheLocalFpRate`). This sums over all loads instead.
pub(super) fn lines_of_independent_probes(keys: u64, lines: u64, line_bits: usize, probes: u32) -> f64 {
    let load = keys as f64 / lines as f64;
    let mut chance = (-load).exp();
    let (mut sum, mut seen) = (0.0, 0.0);
    let last = (load + 12.0 * load.sqrt() + 30.0).min(1e6);
    let mut i = 0.0;
    while i <= last {
        let filled = 1.0 - (-(i * f64::from(probes)) / line_bits as f64).exp();
        sum += chance * filled.powf(f64::from(probes));
        seen += chance;
        i += 1.0;
        chance *= load / i;
    }
    sum + (1.0 - seen).max(0.0)
}

pub(super) fn lines_of_double_hashing(keys: u64, lines: u64, line_bits: u64, probes: u32) -> f64 {
    lines_of_independent_probes(keys, lines, usize::try_from(line_bits).unwrap_or(usize::MAX), probes)
}

pub(super) fn one_line_of_double_hashing(keys: u64, bits: u64, probes: u32) -> f64 {
    (1.0 - (-(keys as f64) * f64::from(probes) / bits as f64).exp()).powf(f64::from(probes))
}
