//! The segments of a filter: their separators, and the division of their keys into cells.

use core::cmp::Ordering;
use core::hint::select_unpredictable;

use super::super::key_range::{Beyond, rest_after};
use super::super::params::{OrderedMap, RangeShape, SEGMENT_BYTES};
use super::super::window::{Cells, window};
use sstfilter::internal::key_head::{head, partition_point};

/// The segments in the bytes of a payload. Damaged bytes cause wrong answers, but never a panic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segments<'a> {
    records: &'a [[u8; SEGMENT_BYTES as usize]],
    /// The bytes that all keys share, followed by the separators' bytes after their heads.
    tails: &'a [u8],
    pub(super) common: &'a [u8],
    pub(super) key_bytes: Option<usize>,
    spread: Spread,
}

/// One segment, decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    /// The separator's first eight bytes after the common ones, as a big-endian number padded with zeros.
    head: u64,
    /// Length of the head without the padding.
    head_bytes: usize,
    /// The separator's bytes after its head.
    tail: &'a [u8],
    /// Bytes after the common ones that the separator and all keys of the segment share.
    shared: usize,
    pub(super) shift: u32,
    /// Low bits of its codes.
    pub(super) low_bits: u32,
}

impl<'a> Segments<'a> {
    #[inline(always)]
    pub(crate) fn new(
        records: &'a [u8],
        tails: &'a [u8],
        spread: Spread,
        shape: &RangeShape,
        map: &OrderedMap,
    ) -> Self {
        let tails = tails.get(..map.tails_bytes as usize).unwrap_or(tails);
        let common = tails.get(..map.common_bytes as usize).unwrap_or_default();
        let key_bytes = shape.key_bytes.map(|bytes| bytes as usize);
        Self { records: records.as_chunks().0, tails, common, key_bytes, spread }
    }

    pub(super) fn count(&self) -> u64 {
        self.records.len() as u64
    }

    /// Returns the bytes of a bound after the common ones, if it begins with them.
    #[inline(always)]
    pub(super) fn rest_of<'b>(&self, bound: &'b [u8]) -> Result<&'b [u8], Beyond> {
        rest_after(self.common, bound)
    }

    #[inline(always)]
    fn head(&self, segment: usize) -> u64 {
        match self.records.get(segment) {
            Some(record) => first_word(record),
            None => 0,
        }
    }

    #[inline(always)]
    pub(super) fn segment(&self, number: u64) -> Option<Segment<'a>> {
        let record = self.records.get(usize::try_from(number).ok()?)?;
        let (head, fields) = (first_word(record), first_word(record.get(8..)?));
        let [_, _, _, _, shared_low, shared_high, ..] = fields.to_le_bytes();
        let (shift, low_bits, head_bytes) = ((fields >> 48) as u32 & 127, (fields >> 55) as u32 & 31, fields >> 60);
        let shared_bytes = usize::from(u16::from_le_bytes([shared_low, shared_high]));
        let shared = shared_bytes.saturating_sub(self.common.len());
        // Most separators fit their heads, and need no look at the next record, which says where the tail ends.
        let tail = if head_bytes < 8 { &[] } else { self.tail(number, fields as u32) };
        Some(Segment { head, head_bytes: head_bytes.min(8) as usize, tail, shared, shift, low_bits })
    }

    #[inline(always)]
    fn tail(&self, number: u64, start: u32) -> &'a [u8] {
        let next = usize::try_from(number + 1).ok().and_then(|next| self.records.get(next));
        let end = next.and_then(|record| record.get(8..)?.first_chunk()).map(|&end| u32::from_le_bytes(end) as usize);
        self.tails.get(start as usize..end.unwrap_or(self.tails.len())).unwrap_or_default()
    }

    /// Returns the division of a segment's windows into cells.
    #[inline(always)]
    pub(super) fn cells(&self, segment: &Segment<'_>) -> Cells {
        let skipped = self.common.len() + segment.shared;
        // Saturating: only damaged bytes can say that keys are shorter than the bytes they share.
        let rest_bytes = self.key_bytes.map(|bytes| bytes.saturating_sub(skipped));
        Cells { shift: segment.shift, rest_bytes }
    }

    /// Returns the number of low bits of a segment's codes.
    pub(super) fn low_bits(&self, number: u64) -> u32 {
        self.segment(number).map_or(0, |segment| segment.low_bits)
    }

    /// Returns the last segment whose head is at most `head`, or the first one.
    ///
    /// Evenly spread heads, such as those of hashes and random numbers, are close to their expected position. Reading
    /// two neighbouring heads then saves most steps of the binary search.
    #[inline(always)]
    pub(super) fn last_head_up_to(&self, head: u64) -> usize {
        // For a bound beyond the last head, the guess may be any number.
        let guess = self.spread.place(head).min(self.records.len().saturating_sub(1));
        let (first, end) = (guess.saturating_sub(NEAR), guess.saturating_add(NEAR).min(self.records.len()));
        let is_above_first = first == 0 || self.head(first) <= head;
        if is_above_first && (end == self.records.len() || self.head(end) > head) {
            return self.last_head_among(first, end, head);
        }
        self.last_head_among(0, self.records.len(), head)
    }

    /// Does the same among the segments in `first..end`.
    #[inline(always)]
    fn last_head_among(&self, mut first: usize, end: usize, head: u64) -> usize {
        let mut length = end.saturating_sub(first);
        while length > 1 {
            let half = length / 2;
            // Branchless, because the half is unpredictable.
            first = select_unpredictable(self.head(first + half) <= head, first + half, first);
            length -= half;
        }
        first
    }

    /// Returns the last segment whose separator is not above a bound, given the bound's bytes after the common ones;
    /// `None` if the bound is below every key.
    #[inline(always)]
    pub(super) fn place(&self, rest: &[u8]) -> Option<u64> {
        let head = head(rest);
        self.settle(rest, head, self.last_head_up_to(head))
    }

    /// Does the same, given the last segment whose head is at most the bound's.
    #[inline(always)]
    pub(super) fn settle(&self, rest: &[u8], head: u64, candidate: usize) -> Option<u64> {
        match self.head(candidate).cmp(&head) {
            Ordering::Less => Some(candidate as u64),
            Ordering::Greater => None,
            Ordering::Equal => self.settle_tie(rest, head, candidate),
        }
    }

    /// Does the same among segments with the bound's head, by comparing whole separators.
    fn settle_tie(&self, rest: &[u8], head: u64, last: usize) -> Option<u64> {
        let is_up_to = |segment: usize| {
            self.segment(segment as u64).is_some_and(|segment| segment.cmp_separator(rest) != Ordering::Greater)
        };
        // Heads ascend, so equal heads are neighbours.
        let first = partition_point(0..last, |segment| self.head(segment) < head);
        let above = partition_point(first..last + 1, is_up_to);
        above.checked_sub(1).map(|segment| segment as u64)
    }

    /// Whether the next segment's head is above the bound's, so that the bound is in this segment or before it.
    #[inline(always)]
    pub(super) fn is_last_up_to(&self, segment: u64, head: u64) -> bool {
        usize::try_from(segment + 1).is_ok_and(|next| next >= self.records.len() || self.head(next) > head)
    }
}

/// Distance in segments within which a head is searched around its expected position. Among a million random keys, most
/// heads are within five.
const NEAR: usize = 8;

/// Interpolates the positions of heads, as if they were spread evenly from the first to the last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread {
    first: u64,
    /// Left shift with which the distance from the first to the last head fills 64 bits.
    shift: u32,
    /// Number of segments per 2^64 of shifted distance.
    segments: u64,
}

impl Spread {
    pub(crate) fn new(records: &[u8]) -> Self {
        let records = records.as_chunks::<{ SEGMENT_BYTES as usize }>().0;
        let (Some(first), Some(last)) = (records.first(), records.last()) else { return Self::default() };
        let (first, last) = (first_word(first), first_word(last));
        let distance = last.saturating_sub(first).max(1);
        let shift = distance.leading_zeros();
        let segments = (u128::from(records.len() as u64 - 1) << 64) / u128::from(distance << shift);
        // Fits: at most twice the number of segments.
        Self { first, shift, segments: segments as u64 }
    }

    #[inline(always)]
    fn place(self, head: u64) -> usize {
        let distance = u128::from(head.saturating_sub(self.first)) << self.shift;
        // A head beyond the last one may exceed 64 bits here. Any position is right for it, because the result is
        // checked.
        ((u128::from(distance as u64) * u128::from(self.segments)) >> 64) as usize
    }
}

#[inline(always)]
fn first_word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(&word) => u64::from_le_bytes(word),
        None => 0,
    }
}

impl Segment<'_> {
    fn head_bytes(&self) -> [u8; 8] {
        // The head is stored as a number; big-endian, its bytes are the separator's.
        self.head.swap_bytes().to_le_bytes()
    }

    /// Compares the separator with a bound, both after the common bytes.
    fn cmp_separator(&self, rest: &[u8]) -> Ordering {
        let bytes = self.head_bytes();
        let own = bytes.get(..self.head_bytes).unwrap_or(&bytes);
        match rest.split_at_checked(self.head_bytes) {
            Some((rest_head, rest_tail)) => own.cmp(rest_head).then_with(|| self.tail.cmp(rest_tail)),
            None => own.cmp(rest),
        }
    }

    /// Returns the bytes of a bound after the shared ones; the bound must not be below the separator. `None` if it does
    /// not begin with the shared bytes, and so is above every key of the segment.
    #[inline(always)]
    pub(super) fn rest_of<'b>(&self, rest: &'b [u8]) -> Option<&'b [u8]> {
        let (shared, after) = rest.split_at_checked(self.shared)?;
        let has_shared = if self.shared <= 8 {
            let kept = !(u64::MAX.checked_shr(8 * self.shared as u32).unwrap_or(0));
            (head(shared) ^ self.head) & kept == 0
        } else {
            let (first, others) = shared.split_at_checked(8)?;
            head(first) == self.head && self.tail.get(..others.len()) == Some(others)
        };
        has_shared.then_some(after)
    }

    /// Returns the window of the separator.
    #[inline(always)]
    pub(super) fn window(&self) -> u128 {
        let Some(skipped) = self.shared.checked_sub(8) else {
            let tail = if self.tail.is_empty() { 0 } else { window(self.tail) };
            let shift = 8 * self.shared as u32;
            return u128::from(self.head) << 64 << shift | tail >> (64 - shift);
        };
        window(self.tail.get(skipped..).unwrap_or_default())
    }

    /// Appends the bytes after the common ones that all keys of the segment share.
    pub(super) fn append_shared(&self, out: &mut Vec<u8>) {
        let bytes = self.head_bytes();
        out.extend_from_slice(bytes.get(..self.shared.min(self.head_bytes)).unwrap_or(&bytes));
        out.extend_from_slice(self.tail.get(..self.shared.saturating_sub(8)).unwrap_or_default());
    }
}
