//! The query, for any instruction set.

use super::equation::{coefficients, final_hash, next_hash, place, result};
use super::{Line, Set, View};

use crate::hash::KeyHash;
use crate::kernel::prefetch::prefetch;

/// Returns whether the key of `hash` may have been added. `bumped` probes for a key that the first layer has bumped.
///
/// # Safety
///
/// The CPU must have the set; the first layer must have `lines` lines from `data` on, and limits from `limits_at` on.
#[inline(always)]
pub(super) unsafe fn may_contain<S: Set>(
    data: *const u8,
    lines: u64,
    limits_at: usize,
    hash: KeyHash,
    bumped: impl FnOnce() -> bool,
) -> bool {
    let (line, tag) = place(hash.get(), lines);
    // SAFETY: the line is one of the first layer, which bumps; the caller promises the set.
    unsafe {
        if tag > *data.add(limits_at + line as usize) {
            return bumped();
        }
        let line = &*data.cast::<Line>().add(line as usize);
        S::parities_alone(line, coefficients(hash.get())) == result(hash.get())
    }
}

/// # Safety
///
/// The CPU must have the set.
#[inline(always)]
pub(super) unsafe fn may_contain_bumped<S: Set>(view: View<'_>, hash: KeyHash) -> bool {
    let (line, hash) = line_after_first(view, hash.get());
    // SAFETY: it is a line of a layer; the caller promises the set.
    unsafe { S::parities_alone(view.line(line), coefficients(hash)) == result(hash) }
}

/// Returns the line of a key that the first layer has bumped, and the hash of its equation.
#[inline(always)]
fn line_after_first(view: View<'_>, hash: u64) -> (u64, u64) {
    let (mut mapped, (bumping, last)) = (hash, view.layout.later_layers());
    for layer in bumping {
        mapped = next_hash(mapped);
        let (line, tag) = place(mapped, layer.lines);
        // SAFETY: a line of a bumping layer.
        if tag <= unsafe { view.limit(layer.first + line) } {
            return (layer.first + line, hash);
        }
    }
    (last.first + place(next_hash(mapped), last.lines).0, final_hash(hash, view.layout.salt))
}

/// Sets bit `i % 64` of word `i / 64` of `matches` to the answer for hash `i`.
///
/// Takes 64 keys at a time. If `PREFETCH`, the lines of the next 64 are prefetched, key by key, while these are probed.
/// Limits need no prefetch: a filter has 64 times as many bytes in its lines.
///
/// # Safety
///
/// The CPU must have the set.
#[inline(always)]
pub(super) unsafe fn may_contain_batch<S: Set, const PREFETCH: bool>(
    view: View<'_>,
    hashes: &[KeyHash],
    matches: &mut [u64],
) {
    let address = |line: u64| view.data.cast::<Line>().wrapping_add(line as usize);
    let (mut stages, mut parities) = ([Stage::EMPTY, Stage::EMPTY], [0; 64]);
    let [mut stage, mut next] = stages.each_mut();
    let mut chunks = hashes.chunks(64);
    if PREFETCH {
        // SAFETY: the caller promises the set.
        unsafe { next.fill::<S>(view, chunks.next().unwrap_or_default()) };
        next.lines.iter().for_each(|&line| prefetch(address(line)));
    }
    for (word, count) in matches.iter_mut().zip((1..=hashes.len()).rev().step_by(64)) {
        if PREFETCH {
            core::mem::swap(&mut stage, &mut next);
        }
        let filled = if PREFETCH { &mut *next } else { &mut *stage };
        // SAFETY: the caller promises the set.
        unsafe { filled.fill::<S>(view, chunks.next().unwrap_or_default()) };
        for index in 0..64 {
            if PREFETCH {
                prefetch(address(next.lines[index]));
            }
            // SAFETY: a line of a layer; the caller promises the set.
            parities[index] = unsafe { S::parities(view.line(stage.lines[index]), stage.coefficients[index]) };
        }
        // SAFETY: the caller promises the set.
        let differing = unsafe { S::differing(&parities, &stage.results) };
        *word = !differing & u64::MAX >> (64 - count.min(64));
    }
}

/// 64 keys of a batch: their lines and coefficients, tags and limits, and results.
#[repr(align(64))]
struct Stage {
    coefficients: [u64; 64],
    lines: [u64; 64],
    tags: [u8; 64],
    limits: [u8; 64],
    results: [u8; 64],
}

impl Stage {
    const EMPTY: Self =
        Self { coefficients: [0; 64], lines: [0; 64], tags: [0; 64], limits: [0; 64], results: [0; 64] };

    /// Finds the lines of up to 64 keys, also of bumped ones. Keys that are missing at the end have the hash 0.
    ///
    /// # Safety
    ///
    /// The CPU must have the set.
    #[inline(always)]
    unsafe fn fill<S: Set>(&mut self, view: View<'_>, hashes: &[KeyHash]) {
        let mut padded = [KeyHash::from_well_mixed(0); 64];
        let hashes = hashes.first_chunk().unwrap_or_else(|| {
            padded.iter_mut().zip(hashes).for_each(|(key, hash)| *key = *hash);
            &padded
        });
        // The mask shows the compiler that a product of 32 bits is enough.
        let lines = view.layout.layers[0].lines & 0xffff_ffff;
        for index in 0..64 {
            let hash = hashes[index].get();
            // As `place`, but vectors have no 128-bit product.
            let product = (hash >> 32) * lines + ((hash & 0xffff_ffff) * lines >> 32);
            self.lines[index] = product >> 32;
            self.tags[index] = (product >> 24) as u8;
            self.coefficients[index] = coefficients(hash);
            self.results[index] = result(hash);
        }
        // SAFETY: lines of the first layer, which bumps.
        self.limits = self.lines.map(|line| unsafe { view.limit(line) });
        // SAFETY: the caller promises the set.
        let mut bumped = unsafe { S::above(&self.tags, &self.limits) };
        while bumped != 0 {
            let index = bumped.trailing_zeros() as usize & 63;
            bumped &= bumped - 1;
            let (line, hash) = line_after_first(view, hashes[index].get());
            self.lines[index] = line;
            self.coefficients[index] = coefficients(hash);
            self.results[index] = result(hash);
        }
    }
}

/// The lower seven bits of each byte.
pub(super) const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;

/// Returns a bit for each of 64 pairs of bytes: the highest of the byte that `test` makes of eight pairs at once.
#[inline(always)]
pub(super) fn compare(ones: &[u8; 64], others: &[u8; 64], test: impl Fn(u64, u64) -> u64) -> u64 {
    let mut bits = [0; 8];
    for (bits, (one, other)) in bits.iter_mut().zip(ones.as_chunks().0.iter().zip(others.as_chunks().0)) {
        *bits = gather_lowest(test(u64::from_le_bytes(*one), u64::from_le_bytes(*other)) >> 7);
    }
    u64::from_le_bytes(bits)
}

/// Returns the lowest bits of eight bytes.
#[inline(always)]
pub(super) fn gather_lowest(bytes: u64) -> u8 {
    ((bytes & 0x0101_0101_0101_0101).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}
