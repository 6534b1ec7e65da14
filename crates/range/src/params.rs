//! The parameters of a range filter in the trailer.

use sstfilter::BlockError;
use sstfilter::internal::code_line::QUOTIENT_BITS;
use sstfilter::kind::EncodedShape;

/// Bytes of a line: one cache line.
pub(super) const LINE_BYTES: u64 = 64;

/// Maximum number of low bits of a code.
pub(super) const MAX_LOW_BITS: u32 = 40;

/// Maximum number of low bits of an ordered code: a segment stores the number in 5 bits.
pub(super) const MAX_ORDERED_LOW_BITS: u32 = 31;

/// Maximum number of low bits of an exact code: it bounds the codes between two samples, and so the time of a query.
pub(super) const MAX_EXACT_LOW_BITS: u32 = 10;

/// High parts of exact codes from one sample to the next.
pub(super) const SAMPLE_QUOTIENTS: u64 = 256;

/// Maximum number of codes in a filter: the rank of a line has 31 bits.
pub(super) const MAX_CODES: u64 = (1 << 31) - 1;

/// log2 of the maximum number of units in a chunk.
pub(super) const MAX_CHUNK_BITS: u32 = 46;

/// Exclusive limit of the code space of hashed codes: below it, the sum of two codes cannot overflow.
pub(super) const MAX_CODE_SPACE: u64 = 1 << 63;

/// Bytes of a segment.
pub(super) const SEGMENT_BYTES: u64 = 16;

/// Maximum number of shared bytes that a segment or a file records: the field has 16 bits.
pub(super) const MAX_SHARED_BYTES: usize = u16::MAX as usize;

/// How keys became codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CodeMap {
    Hashed(HashedMap),
    Ordered(OrderedMap),
    Exact(ExactMap),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HashedMap {
    /// Bits of the 64-bit window after the prefix that are below a unit, below 64.
    pub(super) unit_shift: u32,
    /// log2 of the units in a chunk.
    pub(super) chunk_bits: u32,
    /// CRC32C of the extractor's name; `None` for ranges of whole keys.
    pub(super) extractor_checksum: Option<u32>,
    /// Words in the overflow area.
    pub(super) overflow_words: u32,
    /// Keys outside the extractor's domain, capped at `u32::MAX`.
    pub(super) keys_outside: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OrderedMap {
    /// Length of the prefix that all keys share; the tails start with it.
    pub(super) common_bytes: u32,
    pub(super) tails_bytes: u32,
    /// Number of 64-bit words that the low bits fill.
    pub(super) low_words: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExactMap {
    /// The integer of the smallest key.
    pub(super) first: u64,
    /// That of the largest key, less this.
    pub(super) span: u64,
}

/// The fields that a query needs in addition to the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RangeShape {
    pub(super) map: CodeMap,
    /// Bits of a code that are stored outside its line. A segment of ordered codes may use more.
    pub(super) low_bits: u32,
    /// Length of every key in bytes; `None` if it varies.
    pub(super) key_bytes: Option<u32>,
    pub(super) lines: u32,
    pub(super) codes: u32,
    /// Number of distinct keys that were added.
    pub(super) keys: u64,
}

/// Ids of the maps in the first parameter word.
const HASHED: u8 = 1;
const HASHED_IN_PREFIXES: u8 = 2;
const ORDERED: u8 = 3;
const EXACT: u8 = 4;

impl RangeShape {
    /// Bytes of the lines; of exact codes, of the bits and their summaries.
    pub(super) fn lines_bytes(&self) -> u64 {
        match self.map {
            CodeMap::Exact(_) => tree_bytes(self.upper_bits()),
            _ => u64::from(self.lines) * LINE_BYTES,
        }
    }

    /// Number of different high parts that exact codes can have.
    fn quotients(&self) -> u64 {
        let CodeMap::Exact(map) = self.map else { return 0 };
        (map.span >> self.low_bits).saturating_add(1)
    }

    /// Number of bits in the lowest level of exact codes: one for each code that is possible, or the high parts in
    /// unary.
    pub(super) fn upper_bits(&self) -> u64 {
        let codes = if self.low_bits == 0 { 0 } else { self.codes.into() };
        self.quotients().saturating_add(codes)
    }

    /// Bytes of the samples of exact codes.
    pub(super) fn sample_bytes(&self) -> u64 {
        if self.low_bits == 0 { 0 } else { (self.quotients().div_ceil(SAMPLE_QUOTIENTS) * 4).next_multiple_of(8) }
    }

    /// Bytes of the low bits, plus eight bytes of padding so that a query can always read a whole word.
    pub(super) fn lows_bytes(&self) -> u64 {
        let words = match self.map {
            CodeMap::Exact(_) if self.low_bits == 0 => return 0,
            CodeMap::Hashed(_) | CodeMap::Exact(_) => (u64::from(self.codes) * u64::from(self.low_bits)).div_ceil(64),
            CodeMap::Ordered(map) => map.low_words.into(),
        };
        words * 8 + 8
    }

    /// Bytes after the low bits.
    fn rest_bytes(&self) -> u64 {
        match self.map {
            CodeMap::Hashed(map) => (u64::from(map.overflow_words) * 4).next_multiple_of(8),
            CodeMap::Ordered(map) => {
                u64::from(self.lines) * SEGMENT_BYTES + u64::from(map.tails_bytes).next_multiple_of(8)
            }
            CodeMap::Exact(_) => {
                let prefix_bytes = u64::from(self.key_bytes.unwrap_or(0)).saturating_sub(8);
                self.sample_bytes() + prefix_bytes.next_multiple_of(8)
            }
        }
    }

    /// Bytes of the payload.
    pub(super) fn payload_bytes(&self) -> u64 {
        self.lines_bytes() + self.lows_bytes() + self.rest_bytes()
    }

    /// Bits of a code's number within its line.
    pub(super) fn cell_bits(&self) -> u32 {
        QUOTIENT_BITS + self.low_bits
    }

    /// The size of the space that hashed codes are mapped to.
    pub(super) fn code_space(&self) -> u64 {
        u64::from(self.lines) << self.cell_bits()
    }

    /// Encodes the fields of the trailer.
    pub(super) fn encode(&self) -> EncodedShape {
        let (number, unit_shift, chunk_bits, own) = match self.map {
            CodeMap::Hashed(map) => {
                let number = if map.extractor_checksum.is_some() { HASHED_IN_PREFIXES } else { HASHED };
                let own = [map.overflow_words, map.extractor_checksum.unwrap_or(0), map.keys_outside];
                (number, map.unit_shift, map.chunk_bits, own)
            }
            CodeMap::Ordered(map) => (ORDERED, 0, 0, [map.common_bytes, map.tails_bytes, map.low_words]),
            CodeMap::Exact(map) => (EXACT, 0, 0, [high(map.first), map.span as u32, high(map.span)]),
        };
        let first = u32::from(number) | self.low_bits << 8 | unit_shift << 16 | chunk_bits << 24;
        let lines = if let CodeMap::Exact(map) = self.map { map.first as u32 } else { self.lines };
        let common = [first, self.key_bytes.unwrap_or(0), lines, self.codes];
        let params: Vec<u32> = common.into_iter().chain(own).collect();
        let mut encoded = EncodedShape::new(&params, self.payload_bytes());
        encoded.keys = self.keys;
        encoded
    }

    /// Decodes and checks the fields of a trailer, and checks that the parts they describe add up to the payload's
    /// length.
    pub(super) fn decode(encoded: &EncodedShape) -> Result<Self, BlockError> {
        let &first = encoded.params().first().unwrap_or(&0);
        let [number, low_bits, unit_shift, chunk_bits] = first.to_le_bytes();
        BlockError::require((HASHED..=EXACT).contains(&number), "range map", "1 to 4", number)?;
        let words: [u32; 7] = encoded.words("7 in a range filter")?;
        let [_, key_bytes, mut lines, codes, own @ ..] = words;
        let map = if number >= ORDERED {
            BlockError::require(unit_shift == 0 && chunk_bits == 0, "units", "0 unless codes are hashed", first >> 16)?;
            if number == EXACT {
                let [first_high, span, span_high] = own;
                CodeMap::Exact(ExactMap {
                    first: joined(core::mem::take(&mut lines), first_high),
                    span: joined(span, span_high),
                })
            } else {
                let [common_bytes, tails_bytes, low_words] = own;
                CodeMap::Ordered(OrderedMap { common_bytes, tails_bytes, low_words })
            }
        } else {
            let [overflow_words, checksum, keys_outside] = own;
            let extractor_checksum = (number == HASHED_IN_PREFIXES).then_some(checksum);
            let has_extractor = extractor_checksum.is_some() || checksum == 0;
            BlockError::require(has_extractor, "key extractor", "0 without prefixes", checksum)?;
            let [unit_shift, chunk_bits] = [unit_shift, chunk_bits].map(u32::from);
            let map = HashedMap { unit_shift, chunk_bits, extractor_checksum, overflow_words, keys_outside };
            CodeMap::Hashed(map)
        };
        // 0 stands for "varies"; writers do not record the length of empty keys.
        let key_bytes = Some(key_bytes).filter(|&bytes| bytes != 0);
        let shape = Self { map, low_bits: low_bits.into(), key_bytes, lines, codes, keys: encoded.keys };
        shape.check(encoded)?;
        Ok(shape)
    }

    fn check(&self, encoded: &EncodedShape) -> Result<(), BlockError> {
        let require = |is_sound, field, expected, got: u32| BlockError::require(is_sound, field, expected, got);
        // Overfull lines are stored, not retried with a salt.
        require(encoded.salt == 0, "salt", "0 in a range filter", encoded.salt.into())?;
        require(self.low_bits <= MAX_LOW_BITS, "low bits of a code", "0 to 40", self.low_bits)?;
        let has_codes = u64::from(self.codes) <= MAX_CODES.min(self.keys);
        require(has_codes, "codes", "at most one for each key, and at most 2^31 - 1", self.codes)?;
        let has_lines = self.codes == 0 || self.lines > 0 || matches!(self.map, CodeMap::Exact(_));
        require(has_lines, "lines", "at least one if there are codes", self.lines)?;
        let keys_outside = match self.map {
            CodeMap::Hashed(map) => {
                require(map.unit_shift < 64, "bits below a unit", "0 to 63", map.unit_shift)?;
                let space = u128::from(self.lines) << self.cell_bits();
                require(space < MAX_CODE_SPACE.into(), "lines", "fewer than 2^63 codes in all", self.lines)?;
                // A chunk larger than the code space would wrap around onto itself.
                let has_place = self.lines == 0 || 1 << map.chunk_bits.min(MAX_CHUNK_BITS) <= space;
                let has_place = has_place && map.chunk_bits <= MAX_CHUNK_BITS;
                let expected = "0 to 46, and no more than the code space has";
                require(has_place, "bits of a chunk", expected, map.chunk_bits)?;
                // The field saturates, so the highest value means "at least that many".
                if map.keys_outside == u32::MAX { u64::MAX } else { map.keys_outside.into() }
            }
            CodeMap::Ordered(map) => {
                let max = MAX_ORDERED_LOW_BITS;
                require(self.low_bits <= max, "low bits of a code", "0 to 31 in ordered codes", self.low_bits)?;
                let has_common = map.common_bytes <= map.tails_bytes.min(MAX_SHARED_BYTES as u32);
                let expected = "no longer than the tails, and below 65536";
                require(has_common, "common prefix", expected, map.common_bytes)?;
                // Queries rely on a code in each line: a range with a whole line inside needs no look at that line.
                require(self.lines <= self.codes, "lines", "a code in each", self.lines)?;
                0
            }
            CodeMap::Exact(map) => {
                require(
                    self.low_bits <= MAX_EXACT_LOW_BITS,
                    "low bits of a code",
                    "0 to 10 in exact codes",
                    self.low_bits,
                )?;
                let codes = u64::from(self.codes);
                let is_each_key = codes > 0 && codes == self.keys && codes - 1 <= map.span;
                require(is_each_key, "codes", "one for each key, and no more than integers", self.codes)?;
                let key_bytes = self.key_bytes.unwrap_or(0);
                let max = u64::MAX.checked_shr(64 - 8 * key_bytes.min(8)).unwrap_or(0);
                let is_inside = map.first <= max && map.span <= max - map.first;
                require(is_inside && key_bytes > 0, "bytes of a key", "as many as the largest integer has", key_bytes)?;
                let has_samples = self.low_bits == 0 || self.upper_bits() <= u32::MAX.into();
                require(has_samples, "codes", "fewer, or in less high parts: 2^32 bits in all", self.codes)?;
                0
            }
        };
        // Every key inside the extractor's domain has a code. A block with such keys but without codes would answer
        // "absent" to every range.
        let has_keys = self.codes > 0 || self.keys <= keys_outside;
        require(has_keys, "codes", "at least one if keys are in the extractor's domain", self.codes)?;
        let (expected, got) = (self.payload_bytes(), encoded.payload_bytes);
        let lengths = "the sum of the lines, the low bits and the parts after them";
        BlockError::require(expected == got, "payload bytes", lengths, got)
    }
}

/// Returns the bytes of `bits` bits and their summaries.
pub(super) fn tree_bytes(bits: u64) -> u64 {
    let words = bits.div_ceil(64);
    words * 8 + if words > 1 { tree_bytes(words) } else { 0 }
}

const fn high(number: u64) -> u32 {
    (number >> 32) as u32
}

fn joined(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_without_a_code_are_refused_unless_they_are_outside_the_domain() {
        let ordered = CodeMap::Ordered(OrderedMap { common_bytes: 0, tails_bytes: 0, low_words: 0 });
        let hashed = |extractor_checksum, keys_outside| {
            let (unit_shift, chunk_bits, overflow_words) = (0, 0, 0);
            CodeMap::Hashed(HashedMap { unit_shift, chunk_bits, extractor_checksum, overflow_words, keys_outside })
        };
        for (map, keys, is_sound) in [
            (ordered, 0, true),
            (ordered, 1, false),
            (hashed(None, 0), 0, true),
            (hashed(None, 0), 1, false),
            (hashed(Some(7), 2), 2, true),
            (hashed(Some(7), 2), 3, false),
            (hashed(Some(7), u32::MAX), u64::from(u32::MAX) + 1, true),
        ] {
            let shape = RangeShape { map, low_bits: 3, key_bytes: None, lines: 0, codes: 0, keys };
            let decoded = RangeShape::decode(&shape.encode());
            assert_eq!(decoded.ok(), is_sound.then_some(shape), "{map:?}, {keys} keys");
        }
    }

    #[test]
    fn exact_codes_are_refused_if_integers_exceed_their_bytes_or_codes_are_not_those_of_all_keys() {
        let sound = (Some(1), 250, 5, 3);
        let cases = [sound, (Some(2), 65_530, 5, 6), (None, 0, 0, 1), (Some(1), 250, 6, 3), (Some(1), 250, 5, 7)];
        for (number, (key_bytes, first, span, codes)) in cases.into_iter().enumerate() {
            let map = CodeMap::Exact(ExactMap { first, span });
            let shape = RangeShape { map, low_bits: 0, key_bytes, lines: 0, codes, keys: codes.into() };
            assert_eq!(RangeShape::decode(&shape.encode()).is_ok(), number < 2, "{shape:?}");
            assert!(RangeShape::decode(&RangeShape { keys: 9, ..shape }.encode()).is_err(), "{shape:?}");
            assert!(RangeShape::decode(&RangeShape { low_bits: 11, ..shape }.encode()).is_err(), "{shape:?}");
        }
    }
}
