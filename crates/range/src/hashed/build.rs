//! Collects the keys of a file, and builds hashed codes from them.

use std::sync::Arc;

use crc32c::crc32c as checksum;
use sstfilter::internal::code_line::QUOTIENT_BITS;
use sstfilter::internal::sort_hashes;
use sstfilter::{FallbackReason, KeyExtractor, KeyHash, KeyHasher, PrefixWatch};

use super::{chunk_hash, chunk_start};
use crate::lines::LineWriter;
use crate::params::{CodeMap, HashedMap, MAX_CODE_SPACE, MAX_CODES, RangeShape};
use crate::plan::HashedPlan;
use sstfilter::internal::key_head::head;

/// The keys of one file, each as its chunk's hash and its position in the chunk. The codes depend on the number of
/// keys, so they are computed at the end.
#[derive(Debug)]
pub(crate) struct HashedBuilder {
    plan: HashedPlan,
    hasher: KeyHasher,
    watch: PrefixWatch,
    /// The last prefix, and below its hash.
    prefix: Vec<u8>,
    prefix_hash: KeyHash,
    /// The last chunk's number and hash, inside the last prefix.
    chunk: Option<(u64, u64)>,
    keys: Vec<HashedKey>,
    keys_outside: u64,
    /// An extracted part was not a prefix of its key, or its own part is another one.
    has_foreign_part: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HashedKey {
    chunk_hash: u64,
    place: u64,
}

impl HashedBuilder {
    pub(crate) fn new(plan: HashedPlan, hasher: KeyHasher) -> Self {
        let prefix_hash = hasher.hash(b"");
        Self {
            plan,
            hasher,
            watch: PrefixWatch::default(),
            prefix: Vec::new(),
            prefix_hash,
            chunk: None,
            keys: Vec::new(),
            keys_outside: 0,
            has_foreign_part: false,
        }
    }

    pub(crate) fn add(&mut self, key: &[u8]) {
        let Some(rest) = self.rest_of(key) else { return };
        let units = head(rest) >> self.plan.units.shift();
        let chunk = units >> self.plan.chunk_bits;
        let chunk_hash = match self.chunk {
            Some((last, hash)) if last == chunk => hash,
            _ => chunk_hash(self.prefix_hash, chunk),
        };
        self.chunk = Some((chunk, chunk_hash));
        let added = HashedKey { chunk_hash, place: units & ((1 << self.plan.chunk_bits) - 1) };
        // Keys of one unit are neighbours, and share a code.
        if self.keys.last() != Some(&added) {
            self.keys.push(added);
        }
    }

    /// Returns the key after its prefix, and sets `prefix_hash`. `None` for a key outside the extractor's domain.
    fn rest_of<'key>(&mut self, key: &'key [u8]) -> Option<&'key [u8]> {
        let Some(extractor) = &self.plan.units.extractor else { return Some(key) };
        self.watch.look_at(extractor.as_ref(), key);
        let Some(part) = extractor.extract(key) else {
            self.keys_outside += 1;
            return None;
        };
        let Some(rest) = key.strip_prefix(part.as_ref()) else {
            self.has_foreign_part = true;
            return None;
        };
        if self.prefix != *part || self.chunk.is_none() {
            // Unless the part of this part is itself, queries cannot exclude any range inside the prefix.
            self.has_foreign_part |= extractor.extract_prefix(&part).as_ref() != Some(&part);
            self.prefix_hash = self.hasher.hash(&part);
            self.prefix.clear();
            self.prefix.extend_from_slice(&part);
            self.chunk = None;
        }
        Some(rest)
    }

    pub(crate) fn is_unstable(&self) -> bool {
        self.watch.is_unstable() || self.has_foreign_part
    }

    /// Returns the number of lines for `keys` keys; `None` if they exceed the limits of a filter.
    fn lines(&self, keys: u64) -> Option<u32> {
        let lines = keys.div_ceil(self.plan.line_codes.into());
        let space = u128::from(lines) << (QUOTIENT_BITS + self.plan.low_bits);
        (keys <= MAX_CODES && space < MAX_CODE_SPACE.into()).then_some(())?;
        u32::try_from(lines).ok()
    }

    /// Returns the approximate bytes of the payload.
    pub(crate) fn estimated_bytes(&self) -> u64 {
        let keys = self.keys.len() as u64;
        keys.div_ceil(self.plan.line_codes.into()) * 64 + keys * u64::from(self.plan.low_bits) / 8
    }

    /// Returns the bytes of memory in use.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        (self.keys.capacity() * size_of::<HashedKey>()) as u64
    }

    /// Returns the payload's parts. `distinct_keys` and `key_bytes` describe all keys that were added.
    pub(crate) fn finish(
        self,
        distinct_keys: u64,
        key_bytes: Option<u32>,
        memory_budget: Option<u64>,
    ) -> Result<(RangeShape, [Vec<u8>; 4]), FallbackReason> {
        let lines = self.lines(self.keys.len() as u64).ok_or(FallbackReason::TooManyKeys)?;
        let Self { plan, keys, keys_outside, .. } = self;
        let cell_bits = QUOTIENT_BITS + plan.low_bits;
        let space = u64::from(lines) << cell_bits;
        // Shifted to the top bits, codes are distributed like hashes, so the sort for hashes applies.
        let unused = space.leading_zeros();
        let code = |key: &HashedKey| {
            let code = chunk_start(key.chunk_hash, space) + key.place;
            if code < space { code } else { code - space }
        };
        let mut codes: Vec<KeyHash> = Vec::new();
        codes.try_reserve_exact(keys.len()).map_err(|_| FallbackReason::MemoryBudget)?;
        codes.extend(keys.iter().map(|key| KeyHash::from_well_mixed(code(key) << unused)));
        // Frees 16 bytes per key before the sort allocates its copy.
        drop(keys);
        sort_hashes(&mut codes, 1, memory_budget.unwrap_or(u64::MAX));

        // Allocations that grow with the keys are fallible: without memory, the file gets no filter.
        let mut writer = LineWriter::uniform(plan.low_bits);
        writer.reserve(lines.into(), codes.len() as u64).ok_or(FallbackReason::MemoryBudget)?;
        for code in codes {
            let code = code.get() >> unused;
            writer.push(code >> cell_bits, code & ((1 << cell_bits) - 1));
        }
        let written = writer.finish(lines.into()).ok_or(FallbackReason::TooManyKeys)?;
        let checksum_of = |extractor: Arc<dyn KeyExtractor>| checksum(extractor.name().as_bytes());
        let map = HashedMap {
            unit_shift: plan.units.shift(),
            chunk_bits: plan.chunk_bits,
            extractor_checksum: plan.units.extractor.map(checksum_of),
            overflow_words: u32::try_from(written.overflow.len() / 4).map_err(|_| FallbackReason::TooManyKeys)?,
            // Saturates: a reader takes the highest value as "at least that many".
            keys_outside: u32::try_from(keys_outside).unwrap_or(u32::MAX),
        };
        let (map, low_bits, codes) = (CodeMap::Hashed(map), plan.low_bits, written.codes);
        let shape = RangeShape { map, low_bits, key_bytes, lines, codes, keys: distinct_keys };
        Ok((shape, [written.lines, written.lows, written.overflow, Vec::new()]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::RangeUnits;

    #[test]
    fn a_filter_has_at_most_so_many_codes_and_so_large_a_space() {
        let lines = |low_bits, line_codes, keys| {
            let units = RangeUnits::integer(8).unwrap();
            let plan = HashedPlan { units, longest: 1, low_bits, line_codes, chunk_bits: 0 };
            HashedBuilder::new(plan, KeyHasher::default()).lines(keys)
        };
        assert_eq!(lines(0, 1, MAX_CODES), Some((1 << 31) - 1));
        assert_eq!(lines(0, 192, MAX_CODES + 1), None, "too many codes in a small space");
        // 2^23 lines of 2^8 codes with 32 low bits are 2^63.
        assert_eq!(lines(32, 1, (1 << 23) - 1), Some((1 << 23) - 1));
        assert_eq!(lines(32, 1, 1 << 23), None, "few codes in too large a space");
    }
}
