//! Hashes of keys that are in the filters, and of keys that are not.

use sstfilter::{HitBitmap, KeyHash};

use super::contender::Asked;

/// Numbers from here on are absent keys: remixing is a bijection, so that none has the hash of a present one.
const FIRST_ABSENT: u64 = 1 << 48;

/// Keys asked for at once when rates are measured.
const BATCH: u64 = 4_096;

/// Hashes of the keys `from` to `from + count`.
pub(super) fn present(from: u64, count: u64) -> Vec<KeyHash> {
    (from..from + count).map(KeyHash::from_remixed).collect()
}

/// Hashes of `count` keys that are in no filter.
pub(super) fn absent(count: u64) -> Vec<KeyHash> {
    present(FIRST_ABSENT, count)
}

/// The share of `probes` absent keys that get through.
pub(super) fn observed_fpr(filter: &dyn Asked, probes: u64) -> f64 {
    let mut hits = HitBitmap::default();
    let mut hashes = Vec::new();
    let mut passed = 0;
    for from in (0..probes).step_by(usize::try_from(BATCH).unwrap_or(1)) {
        hashes.clear();
        let until = probes.min(from + BATCH);
        hashes.extend((FIRST_ABSENT + from..FIRST_ABSENT + until).map(KeyHash::from_remixed));
        passed += filter.count_batch(&hashes, &mut hits);
    }
    passed as f64 / probes as f64
}
