//! Collects keys as long as their codes may be exact.

use sstfilter::FallbackReason;
use sstfilter::internal::code_line::BitWriter;

use super::super::params::{CodeMap, ExactMap, MAX_CODES, MAX_EXACT_LOW_BITS, RangeShape, SAMPLE_QUOTIENTS};
use super::super::plan::OrderedPlan;
use super::Form;
use super::tree::TreeWriter;

/// Integers to a key, from the smallest to the largest, up to which keys get a bitmap. It is probed nine times as fast
/// as split codes, which are smaller from five on.
const MAX_BITMAP_GAP: u64 = 8;

/// Keys that may come before a file turns out to be dense: larger gaps than the mean are allowed before.
const PATIENCE_KEYS: u64 = 1 << 16;

/// Keeps the gaps between keys, two bytes for most: the keys themselves can be had back if they do not stay dense.
#[derive(Debug, Default)]
pub(crate) struct ExactBuilder {
    pub(crate) plan: OrderedPlan,
    first_key: Vec<u8>,
    first: u64,
    last: u64,
    keys: u64,
    /// Of 16 bits; a longer one is a 0 and four times 16 bits.
    gaps: Vec<u16>,
}

impl ExactBuilder {
    pub(crate) fn new(plan: OrderedPlan) -> Self {
        Self { plan, ..Self::default() }
    }

    /// Adds a key. Returns whether it is a new one; `None` if it cannot be added: it has another form than those before
    /// or is below them, or the keys are not dense.
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8]) -> Option<bool> {
        if self.keys == 0 {
            if key.is_empty() {
                return None;
            }
            self.first_key = key.into();
            self.first = Form::of(key).integer(key)?;
            (self.last, self.keys) = (self.first, 1);
            return Some(true);
        }
        let integer = Form::of(&self.first_key).integer(key)?;
        let gap = integer.checked_sub(self.last)?;
        if gap == 0 {
            return Some(false);
        }
        let max_span = self.keys.max(PATIENCE_KEYS) << MAX_EXACT_LOW_BITS;
        if integer - self.first > max_span {
            return None;
        }
        match u16::try_from(gap) {
            Ok(gap) => self.gaps.push(gap),
            Err(_) => self.gaps.extend([0, gap as u16, (gap >> 16) as u16, (gap >> 32) as u16, (gap >> 48) as u16]),
        }
        (self.last, self.keys) = (integer, self.keys + 1);
        Some(true)
    }

    /// Returns the codes of all keys.
    fn codes(&self) -> impl Iterator<Item = u64> {
        let mut gaps = self.gaps.iter().map(|&gap| u64::from(gap));
        let later = core::iter::from_fn(move || {
            let gap = gaps.next()?;
            Some(if gap > 0 {
                gap
            } else {
                gaps.by_ref().take(4).zip(0..).map(|(part, place)| part << (16 * place)).sum()
            })
        });
        let sum = |code: &mut u64, gap| {
            *code += gap;
            Some(*code)
        };
        (self.keys > 0).then_some(0).into_iter().chain(later).scan(0, sum)
    }

    /// Passes all keys to `add`.
    pub(crate) fn for_each_key(&self, mut add: impl FnMut(&[u8])) {
        let mut key = self.first_key.clone();
        let integer_bytes = key.len().min(8);
        for code in self.codes() {
            let integer = (self.first + code).swap_bytes().to_le_bytes();
            let own = integer.get(8 - integer_bytes..).unwrap_or_default();
            if let Some((_, last)) = key.split_at_mut_checked(self.first_key.len() - integer_bytes) {
                last.copy_from_slice(own);
            }
            add(&key);
        }
    }

    /// Returns the shape of an exact filter of the keys so far, if it is not larger than one of ordered codes.
    pub(crate) fn shape(&self) -> Option<RangeShape> {
        let span = self.last - self.first;
        let gap = span / self.keys.max(1);
        let low_bits = if span < MAX_BITMAP_GAP * self.keys { 0 } else { gap.max(1).ilog2() };
        let codes = u32::try_from(self.keys).ok().filter(|&codes| codes > 0 && u64::from(codes) <= MAX_CODES)?;
        let key_bytes = Some(u32::try_from(self.first_key.len()).ok()?);
        let map = CodeMap::Exact(ExactMap { first: self.first, span });
        let shape = RangeShape { map, low_bits, key_bytes, lines: 0, codes, keys: self.keys };
        let fits = low_bits <= MAX_EXACT_LOW_BITS && shape.upper_bits() <= u32::MAX.into();
        (fits && shape.payload_bytes() <= self.plan.payload_bytes(self.keys)).then_some(shape)
    }

    /// Returns the approximate bytes of the payload if it were finished now.
    pub(crate) fn estimated_bytes(&self) -> u64 {
        self.shape().map_or_else(|| self.plan.payload_bytes(self.keys), |shape| shape.payload_bytes())
    }

    /// Returns the bytes of memory in use.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        (self.gaps.capacity() * 2 + self.first_key.capacity()) as u64
    }

    /// Returns the payload's parts for this shape.
    pub(crate) fn finish(&self, shape: RangeShape) -> Result<(RangeShape, [Vec<u8>; 4]), FallbackReason> {
        let low_bits = shape.low_bits;
        let mut upper = TreeWriter::new(shape.upper_bits()).ok_or(FallbackReason::MemoryBudget)?;
        let (mut lows, mut samples) = (BitWriter::default(), Vec::new());
        if low_bits == 0 {
            self.codes().for_each(|code| upper.set(code));
        } else {
            lows.reserve(shape.keys * u64::from(low_bits)).ok_or(FallbackReason::MemoryBudget)?;
            let mut next_sample = 0;
            for (rank, code) in (0..).zip(self.codes()) {
                let quotient = code >> low_bits;
                while next_sample <= quotient {
                    // All codes before this one have lower quotients than the sample, or begin it.
                    samples.extend_from_slice(&((next_sample + rank) as u32).to_le_bytes());
                    next_sample += SAMPLE_QUOTIENTS;
                }
                upper.set(quotient + rank);
                lows.push(code & ((1 << low_bits) - 1), low_bits);
            }
        }
        samples.resize(samples.len().next_multiple_of(8), 0);
        let lows = if low_bits == 0 { Vec::new() } else { lows.finish() };
        let mut prefix = Form::of(&self.first_key).prefix.to_vec();
        prefix.resize(prefix.len().next_multiple_of(8), 0);
        Ok((shape, [upper.finish(), lows, samples, prefix]))
    }
}
