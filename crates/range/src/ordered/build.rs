//! Builds ordered codes while keys arrive.

use bytes::BufMut;
use sstfilter::FallbackReason;
use sstfilter::internal::code_line::{LINE_CODES, QUOTIENT_BITS};

use super::super::lines::LineWriter;
use super::super::params::{
    CodeMap, LINE_BYTES, MAX_ORDERED_LOW_BITS, MAX_SHARED_BYTES, OrderedMap, RangeShape, SEGMENT_BYTES,
};
use super::super::plan::OrderedPlan;
use super::super::window::{WINDOW_BITS, window};
use sstfilter::internal::key_head::{common_prefix, head, partition_point};

/// A segment is cut where its keys stop sharing this many bytes more than the whole segment shares. Cells resolve fewer
/// bits than these bytes have, so without the cut, the keys before it would all fall into a few cells.
const SHARP_DROP_BYTES: usize = 2;

/// A segment that is cut early has at least this many keys: a quarter of a line.
const MIN_KEYS: usize = LINE_CODES as usize / 4;

/// Builds segment by segment. Keeps only the keys of the current segment and the separators of the others.
#[derive(Debug, Default)]
pub(crate) struct OrderedBuilder {
    plan: OrderedPlan,
    current: Keys,
    /// The last key of the previous segment.
    before: Option<Vec<u8>>,
    separators: Keys,
    records: Vec<Record>,
    lines: LineWriter,
    /// The windows of the segment that is being written.
    windows: Vec<u128>,
    /// Length of the prefix that all keys so far share.
    common_bytes: usize,
    /// Whether all keys so far have one length.
    has_one_length: bool,
}

/// How the keys of a segment become cells.
#[derive(Clone, Copy, Debug)]
struct Record {
    shared_bytes: usize,
    /// Bits of a window that cells drop.
    shift: u32,
    /// Low bits of a code.
    low_bits: u32,
}

/// Byte strings in one buffer.
#[derive(Debug, Default)]
struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Keys {
    fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(index).copied().unwrap_or(self.bytes.len());
        self.bytes.get(start..end).unwrap_or_default()
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.get(index))
    }

    fn remove_first(&mut self, count: usize) {
        let bytes = count.checked_sub(1).and_then(|last| self.ends.get(last)).copied().unwrap_or(0);
        self.bytes.drain(..bytes);
        self.ends.drain(..count);
        self.ends.iter_mut().for_each(|end| *end -= bytes);
    }

    fn capacity_bytes(&self) -> u64 {
        (self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()) as u64
    }
}

impl OrderedBuilder {
    pub(crate) fn new(plan: OrderedPlan) -> Self {
        Self { plan, ..Self::default() }
    }

    /// Adds a key, which must be above all previous ones. `has_one_length` says whether it has their length.
    pub(crate) fn add(&mut self, key: &[u8], has_one_length: bool) {
        self.has_one_length = has_one_length;
        if self.current.len() >= self.plan.segment_keys as usize {
            self.close_segment(self.cut());
        }
        self.current.push(key);
    }

    /// Returns how many of the current keys form a segment.
    fn cut(&self) -> usize {
        let keys = self.current.len();
        let first = self.current.get(0);
        let shared = |count: usize| common_prefix(first, self.current.get(count - 1));
        let sharp = shared(keys) + SHARP_DROP_BYTES;
        if keys <= MIN_KEYS || shared(MIN_KEYS) < sharp {
            return keys;
        }
        // More keys share fewer bytes. Finds the largest count whose keys still share enough.
        partition_point(MIN_KEYS + 1..keys, |count| shared(count) >= sharp) - 1
    }

    /// Writes the segment of the first `count` keys.
    fn close_segment(&mut self, count: usize) {
        let (first, last) = (self.current.get(0), self.current.get(count - 1));
        let shared_bytes = common_prefix(first, last).min(MAX_SHARED_BYTES);
        let window_of = |key: &[u8]| window(key.get(shared_bytes..).unwrap_or_default());
        self.windows.clear();
        self.windows.extend(self.current.iter().take(count).map(window_of));
        let rest_bytes = Some(first.len() - shared_bytes).filter(|_| self.has_one_length && !first.is_empty());
        let (low_bits, shift) = match rest_bytes.and_then(|bytes| exact_cells(&self.windows, bytes)) {
            // Dense integers: fewer bits are enough.
            Some((low_bits, shift)) if low_bits < self.plan.low_bits => (low_bits, shift),
            _ => finest_cells(&self.windows, self.plan.low_bits),
        };

        // The separator must be long enough that its window is in the first key's cell.
        let told_bytes = shared_bytes + (WINDOW_BITS - shift).div_ceil(8) as usize;
        let above_before = self.before.as_deref().map_or(0, |before| common_prefix(before, first) + 1);
        let separator = first.get(..told_bytes.max(above_before)).unwrap_or(first);

        let line = self.records.len() as u64;
        self.lines.begin_line(low_bits);
        let start = self.windows.first().map_or(0, |first| first >> shift);
        self.windows.iter().for_each(|window| self.lines.push(line, ((window >> shift) - start) as u64));
        // Keys ascend, so the first and the last key share what all keys share.
        self.common_bytes = match &self.before {
            None => shared_bytes,
            Some(_) => common_prefix(self.separators.get(0), last).min(self.common_bytes),
        };
        self.separators.push(separator);
        self.records.push(Record { shared_bytes, shift, low_bits });
        self.before = Some(last.to_vec());
        // An early cut leaves keys, which begin the next segment.
        self.current.remove_first(count);
    }

    /// Returns the approximate bytes of the payload if it were finished now.
    pub(crate) fn estimated_bytes(&self) -> u64 {
        let (segments, keys) = (self.records.len(), self.current.len() as u64);
        // The tails hold each separator's bytes after the common ones and the eight in its segment.
        let outside = segments * (self.common_bytes + 8);
        let tails = self.common_bytes + self.separators.bytes.len().saturating_sub(outside);
        let low_bytes = (keys * u64::from(self.plan.low_bits)).div_ceil(8) + 8;
        let segments = segments as u64 + u64::from(keys > 0);
        segments * (LINE_BYTES + SEGMENT_BYTES) + self.lines.low_bytes() + low_bytes + tails as u64
    }

    /// Returns the bytes of memory in use, including the output so far.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        let records = self.records.capacity() * size_of::<Record>();
        self.lines.bytes() + self.current.capacity_bytes() + self.separators.capacity_bytes() + records as u64
    }

    /// Returns the payload's parts. `keys` and `key_bytes` describe all keys.
    pub(crate) fn finish(
        mut self,
        keys: u64,
        key_bytes: Option<u32>,
    ) -> Result<(RangeShape, [Vec<u8>; 4]), FallbackReason> {
        if self.current.len() > 0 {
            self.close_segment(self.current.len());
        }
        let (lines, low_bits) = (self.records.len(), self.plan.low_bits);
        let common = self.separators.get(0).get(..self.common_bytes).unwrap_or_default();
        let (mut segments, mut tails) = (Vec::with_capacity(lines * 16), common.to_vec());
        for (record, separator) in self.records.iter().zip(self.separators.iter()) {
            let rest = separator.get(common.len()..).unwrap_or_default();
            segments.put_u64_le(head(rest));
            segments.put_u32_le(u32::try_from(tails.len()).map_err(|_| FallbackReason::TooManyKeys)?);
            let cells = record.shift << 16 | record.low_bits << 23;
            let fields = record.shared_bytes as u32 | cells | (rest.len().min(8) as u32) << 28;
            segments.put_u32_le(fields);
            tails.extend_from_slice(rest.get(8..).unwrap_or_default());
        }
        let field = |number: usize| u32::try_from(number).map_err(|_| FallbackReason::TooManyKeys);
        let line_count = field(lines)?;
        let written = self.lines.finish(line_count.into()).ok_or(FallbackReason::TooManyKeys)?;
        // The last word of the low bits is padding.
        let low_words = field(written.lows.len() / 8 - 1)?;
        let map = OrderedMap { common_bytes: field(common.len())?, tails_bytes: field(tails.len())?, low_words };
        tails.resize(tails.len().next_multiple_of(8), 0);
        let (map, codes) = (CodeMap::Ordered(map), written.codes);
        let shape = RangeShape { map, low_bits, key_bytes, lines: line_count, codes, keys };
        Ok((shape, [written.lines, written.lows, segments, tails]))
    }
}

/// Returns the number of low bits and the shift of cells of one key each, for keys with this many bytes in a window.
fn exact_cells(windows: &[u128], rest_bytes: usize) -> Option<(u32, u32)> {
    let shift = WINDOW_BITS.checked_sub(u32::try_from(rest_bytes).ok()?.checked_mul(8)?)?;
    let distance = (windows.last()? - windows.first()?).checked_shr(shift).unwrap_or(0);
    Some(((WINDOW_BITS - distance.leading_zeros()).saturating_sub(QUOTIENT_BITS), shift.min(WINDOW_BITS - 1)))
}

/// Returns the number of low bits and the shift of the finest cells whose codes take no more than `low_bits` per key in
/// total. Where keys share cells, the saved bits pay for finer cells.
fn finest_cells(windows: &[u128], low_bits: u32) -> (u32, u32) {
    let (Some(&first), Some(&last)) = (windows.first(), windows.last()) else { return (low_bits, 0) };
    // Neighbours share a cell unless they differ in a bit that cells keep. `differing[bit]` counts the neighbours whose
    // first different bit this is.
    let mut differing = [0_u32; WINDOW_BITS as usize + 1];
    for (one, other) in windows.iter().zip(windows.iter().skip(1)) {
        differing[(one ^ other).leading_zeros() as usize] += 1;
    }
    let budget = windows.len() as u64 * u64::from(low_bits);
    let mut best = (low_bits, min_shift(first, last, QUOTIENT_BITS + low_bits));
    let (mut seen, mut codes) = (0, 1);
    for low_bits in low_bits..=MAX_ORDERED_LOW_BITS {
        let shift = min_shift(first, last, QUOTIENT_BITS + low_bits);
        let kept = (WINDOW_BITS - shift) as usize;
        codes += differing.get(seen..kept).unwrap_or_default().iter().sum::<u32>();
        seen = kept;
        if u64::from(codes) * u64::from(low_bits) > budget {
            break;
        }
        best = (low_bits, shift);
        if shift == 0 {
            break;
        }
    }
    best
}

/// Returns the smallest shift at which two windows are fewer than 2^`cell_bits` cells apart.
fn min_shift(first: u128, last: u128, cell_bits: u32) -> u32 {
    let distance = last - first;
    let mut shift = (WINDOW_BITS - distance.leading_zeros()).saturating_sub(cell_bits);
    while ((last >> shift) - (first >> shift)) >> cell_bits != 0 {
        shift += 1;
    }
    shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_builder_counts_keys_separators_and_records_with_their_spare_memory_and_what_is_written() {
        let mut builder = OrderedBuilder::new(OrderedPlan { low_bits: 7, segment_keys: 10 });
        builder.current = Keys { bytes: Vec::with_capacity(1_000), ends: Vec::with_capacity(20) };
        builder.separators = Keys { bytes: Vec::with_capacity(300), ends: Vec::with_capacity(40) };
        builder.records = Vec::with_capacity(50);
        // Two segments are closed, and the line of the first is complete.
        (0..21).for_each(|key| builder.add(&[key; 5], true));
        let in_vectors = 1_000 + 300 + (20 + 40) * size_of::<usize>() + 50 * size_of::<Record>();
        let written = builder.lines.bytes();
        assert!(written >= LINE_BYTES);
        assert_eq!(builder.buffer_bytes(), written + in_vectors as u64);
    }
}
