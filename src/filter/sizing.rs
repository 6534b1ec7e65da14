//! How kinds derive their parameters from a requested rate or size.

use crate::error::ConfigError;
use crate::ids::KindId;
use crate::math;
use crate::units::{BitsPerKey, FalsePositiveRate, Sizing};

/// The number of keys at which sizes are compared with rates: so large that neither depends on it, and one number for
/// all files, so that all filters of a store have one rate.
pub(crate) const RATE_KEYS: u64 = 1 << 24;

/// Calls `of_size` or `of_rate` for a target. Fingerprint bits are an error: a Bloom filter has no fingerprints.
pub(crate) fn by_size_or_rate<T>(
    sizing: Sizing,
    of_size: impl FnOnce(BitsPerKey) -> Result<T, ConfigError>,
    of_rate: impl FnOnce(FalsePositiveRate) -> Result<T, ConfigError>,
) -> Result<T, ConfigError> {
    match sizing {
        Sizing::BitsPerKey(size) => of_size(size),
        Sizing::Rate(rate) => of_rate(rate),
        Sizing::FingerprintBits(bits) => {
            Err(ConfigError::out_of_range("fingerprint bits of a bloom filter", "a rate or a size instead", bits))
        }
    }
}

/// Returns the fingerprint width for a target, from the ascending `widths`, for a kind whose rate and size follow from
/// it: the narrowest that reaches a rate, or the widest whose filter of many keys does not exceed a size.
pub(crate) fn fingerprint_bits(
    kind: KindId,
    widths: &[u8],
    sizing: Sizing,
    block_bytes: impl Fn(u8) -> Option<u64>,
) -> Result<u8, ConfigError> {
    match sizing {
        Sizing::Rate(rate) => {
            let rate_of = |bits: u8| 1.0 / (1_u64 << bits) as f64;
            let least = widths.last().map_or(1.0, |&bits| rate_of(bits));
            // Ascending: the first width that reaches the rate is the narrowest.
            let fitting = widths.iter().copied().find(|&bits| rate_of(bits) <= rate.get());
            fitting.ok_or(ConfigError::RateOutOfRange { kind, min: least, max: 1.0, got: rate.get() })
        }
        Sizing::BitsPerKey(size) => {
            let needed = |bits| block_bytes(bits).map(|bytes| bytes as f64 * 8.0 / RATE_KEYS as f64);
            let fits = |&bits: &u8| needed(bits).is_some_and(|needed| needed <= size.get());
            // Rounded up to thousandths of a bit, so that the size in the error is one that fits.
            let least =
                widths.first().and_then(|&bits| needed(bits)).map_or(100.0, |bits| math::ceil(bits * 1e3) / 1e3);
            let fitting = widths.iter().rev().copied().find(fits);
            fitting.ok_or(ConfigError::SizeOutOfRange { kind, min: least, got: size.get() })
        }
        Sizing::FingerprintBits(bits) if widths.contains(&bits) => Ok(bits),
        Sizing::FingerprintBits(bits) => Err(ConfigError::out_of_range(
            "fingerprint bits",
            "a width that the kind supports (line ribbon: 8; xor and xor+: 8 or 16; binary fuse and cuckoo: 4 to 32)",
            bits,
        )),
    }
}
