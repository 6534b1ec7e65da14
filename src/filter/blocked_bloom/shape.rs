//! Sizes and probes.

use alloc::string::ToString;

use super::line::{self, LINE_BYTES, Line, Lines, MAX_PROBES};
use super::rate::{self, PROBE_THRESHOLDS};
use crate::error::BlockError;
use crate::filter::{EncodedShape, FilterShape, MAX_PAYLOAD_BYTES, ParamWords, ShapeFields, batch};
use crate::hash::KeyHash;
use crate::units::{BitsPerKey, FalsePositiveRate};

/// The maximum number of lines in a payload.
pub(crate) const MAX_LINES: u64 = MAX_PAYLOAD_BYTES / LINE_BYTES as u64;

/// Returns the number of probes, 1 to 16, with the lowest rate at a size.
///
/// ```
/// use sstfilter::BitsPerKey;
/// use sstfilter::filter::blocked_bloom::probes_for;
///
/// assert_eq!(probes_for(BitsPerKey::TEN), 6);
/// ```
#[must_use]
pub fn probes_for(size: BitsPerKey) -> u8 {
    let passed = PROBE_THRESHOLDS.iter().filter(|&&threshold| size.millibits() >= threshold).count();
    u8::try_from(passed + 1).unwrap_or(MAX_PROBES)
}

/// The shape of a blocked Bloom filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BloomShape {
    lines: Lines,
    probes: u8,
}

impl BloomShape {
    /// Returns the shape for `keys` keys at `size`: rounded up, at least one line. `None` beyond the format's limit.
    pub(crate) fn for_keys(keys: u64, size: BitsPerKey) -> Option<Self> {
        Self::with_settings(keys, size, probes_for(size), |_| 1)
    }

    /// Returns the shape with 1 to 16 probes whose number of lines is a multiple of `factor` of that number.
    pub(super) fn with_settings(keys: u64, size: BitsPerKey, probes: u8, factor: impl Fn(u64) -> u32) -> Option<Self> {
        // A product beyond 64 bits is beyond the format's limit, too.
        let millibits = keys.checked_mul(size.millibits().into())?;
        let lines = millibits.div_ceil(LINE_BYTES as u64 * 8 * 1_000).max(1);
        let lines = lines.next_multiple_of(factor(lines).into());
        (lines <= MAX_LINES).then(|| Self { lines: Lines::new(lines), probes })
    }

    /// Probes a filter that is not kept open. `None` where [`decode`](FilterShape::decode) fails, except that the salt
    /// is not checked.
    #[inline]
    pub(crate) fn probe_once(params: &[u32], payload: &[u8], hash: KeyHash) -> Option<bool> {
        let &[word] = params else { return None };
        let probes = u8::try_from(word).ok().filter(|probes| (1..=MAX_PROBES).contains(probes))?;
        let is_whole = !payload.is_empty() && payload.len().is_multiple_of(LINE_BYTES);
        let shape = Self { lines: Lines::new((payload.len() / LINE_BYTES) as u64), probes };
        is_whole.then(|| shape.may_contain(payload, hash))
    }

    pub(crate) fn probes(&self) -> u8 {
        self.probes
    }

    pub(crate) fn lines(&self) -> Lines {
        self.lines
    }

    /// Line `i` of the smaller filter is the union of the `factor` lines from `i * factor` on. A key's line is
    /// `mulhi(h, L)`, and `mulhi(h, L / factor)` is that over `factor`, rounded down. So the result equals, bit for
    /// bit, the filter built with that many lines.
    pub(in crate::filter) fn next_smaller(&self, max_bytes: u64) -> Option<Self> {
        let lines = self.lines.count();
        // A factor of 1 would not make the filter smaller.
        let min_factor = lines.div_ceil((max_bytes / LINE_BYTES as u64).max(1)).max(2);
        let fits = |lines: &u64| lines * LINE_BYTES as u64 <= max_bytes;
        let folded = lines / min_divisor(lines, min_factor)?;
        Some(folded).filter(fits).map(|lines| Self { lines: Lines::new(lines), probes: self.probes })
    }

    #[expect(clippy::cast_possible_truncation, reason = "lines that are in memory")]
    pub(in crate::filter) fn shrink_into(&self, smaller: &Self, payload: &[u8], out: &mut [u8]) -> bool {
        let factor = self.lines.count() / smaller.lines.count();
        let Some(lines) = self.all_lines(payload) else { return false };
        let (folded, _) = out.as_chunks_mut::<LINE_BYTES>();
        for (folded, lines) in folded.iter_mut().zip(lines.chunks(factor as usize)) {
            *folded = union(lines);
        }
        true
    }

    /// Returns the shape's lines in `payload`; `None` if some are missing.
    #[expect(clippy::cast_possible_truncation, reason = "a line beyond memory is not found in the payload")]
    fn all_lines<'a>(&self, payload: &'a [u8]) -> Option<&'a [Line]> {
        payload.as_chunks().0.get(..self.lines.count() as usize)
    }
}

impl FilterShape for BloomShape {
    fn decode(encoded: &EncodedShape) -> Result<Self, BlockError> {
        let [word] = encoded.words("1 for blocked Bloom")?;
        // 0 is outside the range, so the next line refuses a word that does not fit.
        let probes = u8::try_from(word).unwrap_or(0);
        BlockError::require((1..=MAX_PROBES).contains(&probes), "probes", "1 to 16", word)?;
        BlockError::require(encoded.salt == 0, "salt", "0 for blocked Bloom", encoded.salt)?;
        let lines = encoded.payload_bytes / LINE_BYTES as u64;
        let is_whole = lines > 0 && encoded.payload_bytes.is_multiple_of(LINE_BYTES as u64);
        BlockError::require(is_whole, "payload bytes", "a positive multiple of 64", encoded.payload_bytes)?;
        Ok(Self { lines: Lines::new(lines), probes })
    }

    fn bits_of_key(&self) -> Option<u8> {
        Some(self.probes)
    }

    fn params(&self) -> ParamWords {
        [u32::from(self.probes)].into_iter().collect()
    }

    fn payload_bytes(&self) -> u64 {
        self.lines.bytes()
    }

    fn expected_fpr(&self, keys: u64) -> f64 {
        rate::of_lines(keys, self.lines.count(), self.probes)
    }

    fn describe(&self) -> ShapeFields {
        vec![("lines", self.lines.count().to_string()), ("probes", self.probes.to_string())]
    }

    /// Returns ones over bits: about one half in a filter with its planned number of keys.
    fn fill_ratio(&self, payload: &[u8]) -> Option<f64> {
        let (lines, _) = payload.as_chunks();
        Some(line::ones(lines) as f64 / (lines.len().max(1) as f64 * (LINE_BYTES * 8) as f64))
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled for one CPU, it becomes part of the caller's loop")]
    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool {
        line::contains(self.lines.line_of(payload, hash), hash, self.probes)
    }

    fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], matches: &mut [u64]) {
        match self.all_lines(payload) {
            Some(lines) => line::contains_batch(lines, self.probes, hashes, matches),
            None => batch::all_match(hashes, matches),
        }
    }
}

/// Returns the smallest divisor of `number` that is at least `least`; `None` if `least` is larger than `number`.
///
/// Tests divisors in pairs, one of each at most the square root: 23,170 steps for the largest payload.
fn min_divisor(number: u64, least: u64) -> Option<u64> {
    let small = (1..=number.isqrt()).filter(|divisor| number.is_multiple_of(*divisor));
    small.flat_map(|divisor| [divisor, number / divisor]).filter(|&divisor| divisor >= least).min()
}

/// Returns the union of all `lines`. The compiler turns it into vector code.
fn union(lines: &[Line]) -> Line {
    let mut union = [0; LINE_BYTES];
    for line in lines {
        union.iter_mut().zip(line).for_each(|(union, byte)| *union |= byte);
    }
    union
}

/// Returns the expected false positive rate of a blocked Bloom filter of `keys` distinct keys at `size`.
///
/// ```
/// use sstfilter::BitsPerKey;
/// use sstfilter::filter::blocked_bloom::expected_fpr;
///
/// let rate = expected_fpr(1_000_000, BitsPerKey::TEN);
/// assert!((0.0096..0.0098).contains(&rate));
/// ```
#[must_use]
pub fn expected_fpr(keys: u64, size: BitsPerKey) -> f64 {
    BloomShape::for_keys(keys, size).map_or(1.0, |shape| shape.expected_fpr(keys))
}

/// Returns the smallest size at which the expected rate for `keys` keys is at most `rate`; 100 bits per key if there is
/// none.
pub(crate) fn smallest_size_for(keys: u64, rate: FalsePositiveRate) -> BitsPerKey {
    BitsPerKey::smallest_where(|size| expected_fpr(keys, size) <= rate.get()).unwrap_or(BitsPerKey::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_for(keys: u64, size: BitsPerKey) -> Option<u64> {
        BloomShape::for_keys(keys, size).map(|shape| shape.lines.count())
    }

    #[test]
    fn sizes_are_rounded_up_to_whole_lines_and_never_below_one() {
        let lines = |keys| lines_for(keys, BitsPerKey::TEN).unwrap();
        assert_eq!(lines(0), 1);
        assert_eq!(lines(51), 1);
        assert_eq!(lines(52), 2);
        assert_eq!(lines(100_000), 1_954);
        assert_eq!(lines(1 << 32), (10_u64 << 32).div_ceil(512));
    }

    #[test]
    fn sizes_beyond_the_format_are_refused_not_wrapped() {
        assert_eq!(lines_for(u64::MAX, BitsPerKey::MAX), None);
        let most = MAX_LINES * 512 / 10;
        assert_eq!(lines_for(most, BitsPerKey::TEN), Some(MAX_LINES));
        assert_eq!(lines_for(most + 52, BitsPerKey::TEN), None);
    }

    #[test]
    fn the_number_of_probes_grows_with_the_size_and_stays_in_range() {
        let sizes = (1_000..=100_000).step_by(10).map(|size| BitsPerKey::from_millibits(size).unwrap());
        let probes: Vec<u8> = sizes.map(probes_for).collect();
        assert!(probes.is_sorted());
        assert_eq!((probes[0], probes[probes.len() - 1]), (1, 16));
    }

    #[test]
    fn each_threshold_is_where_the_next_number_of_probes_starts_to_win() {
        for (index, &threshold) in PROBE_THRESHOLDS.iter().enumerate() {
            let (fewer, more) = (index as u8 + 1, index as u8 + 2);
            let lines = lines_for(10_000_000, BitsPerKey::from_millibits(threshold).unwrap()).unwrap();
            let ratio = rate::of_lines(10_000_000, lines, more) / rate::of_lines(10_000_000, lines, fewer);
            assert!((0.96..1.02).contains(&ratio), "{fewer} to {more} probes at {threshold}: {ratio}");
        }
    }

    #[test]
    fn a_payload_of_another_length_reads_as_may_be_present() {
        let shape = BloomShape::for_keys(1_000, BitsPerKey::TEN).unwrap();
        assert!((0..1_000).all(|key| shape.may_contain(&[], KeyHash::mix(key))));
    }
}
