//! Opens and probes range filters.

use core::fmt;

use crc32c::{crc32c as checksum, crc32c_append as checksum_append};
use sstfilter::internal::Trailer;
use sstfilter::{BlockError, FileId, HashIdentity, KeyHasher, KindId, MatchBitmap};

use super::context::RangeContext;
use super::exact::{Form, bit};
use super::hashed::query::Hashing;
use super::params::{CodeMap, ExactMap, HashedMap, RangeShape};
use super::plan::{rate_of_hashed, rate_of_ordered};
use super::view::{self, Layout, View};
use sstfilter::KeyRange;

/// A range filter over any bytes: owned, borrowed, shared or mapped.
///
/// ```
/// use sstfilter_range::{RangeFilter, RangePolicy};
/// use sstfilter::{BuildContext, FalsePositiveRate, FileId, KeyHasher, LoadContext};
///
/// let (hasher, file) = (KeyHasher::default(), FileId::random());
/// let policy = RangePolicy::ordered(FalsePositiveRate::ONE_PERCENT)?;
/// let mut builder = policy.builder(&BuildContext::new(&hasher).with_file_id(file));
/// (0..1_000_u64).for_each(|key| builder.add_key(&(key * 1_000).to_be_bytes()));
/// let block = builder.finish().block.expect("keys in order");
///
/// let filter = RangeFilter::load(&block, LoadContext::new(&hasher).with_file_id(file))?;
/// let range = |from: u64, to: u64| filter.may_contain_range(&from.to_be_bytes()..&to.to_be_bytes());
/// assert!(range(3_000, 3_001) && range(2_500, 3_500));
/// assert!(!range(3_100, 3_900), "no multiple of 1,000 is in it");
///
/// let next = filter.seek_hint(&3_100_u64.to_be_bytes());
/// assert!(next.is_some_and(|bound| bound.as_slice() <= &4_000_u64.to_be_bytes()[..]));
/// assert_eq!(filter.seek_hint(&1_000_000_u64.to_be_bytes()), None, "the file has no such key");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RangeFilter<D> {
    data: D,
    trailer: Trailer,
    shape: RangeShape,
    layout: Layout,
    hashing: Hashing,
}

impl<D: AsRef<[u8]>> RangeFilter<D> {
    /// Opens and verifies the block that fills `data` exactly. Reads the whole block once. Hashed codes must match the
    /// context's hash and range extractor; ordered codes use neither. The context's key parts and kinds concern point
    /// filters only.
    ///
    /// # Errors
    ///
    /// The errors of [`open_unverified`](Self::open_unverified), and [`BlockError::PayloadChecksum`]. Also fails if
    ///
    /// - the block belongs to another file, or only one of block and context names a file,
    /// - hashed codes have another hash ([`BlockError::HashMismatch`]) or extractor
    ///   ([`BlockError::ExtractorMismatch`]),
    /// - a known key is absent, or the extractor finds a part in no known key.
    ///
    /// After any of these errors, a scan must read the file.
    pub fn load<'a>(data: D, context: impl Into<RangeContext<'a>>) -> Result<Self, BlockError> {
        let context = context.into();
        let filter = Self::open_unverified(data, context)?;
        filter.verify()?;
        filter.check_known_keys(context.load.known_keys())?;
        Ok(filter)
    }

    /// Opens the block that fills `data` exactly. Reads only its trailer, in constant time, at any alignment (64 bytes
    /// is fastest). Arbitrary bytes are safe input. Damage to the payload is not detected: probe only blocks that
    /// [`load`](Self::load) has accepted before.
    ///
    /// # Errors
    ///
    /// [`BlockError`] if the bytes are not a range filter's block, the trailer is damaged, the length is wrong, a field
    /// is out of range, or the block does not match the context.
    pub fn open_unverified<'a>(data: D, context: impl Into<RangeContext<'a>>) -> Result<Self, BlockError> {
        let (context, (trailer, shape)) = (context.into(), decode(data.as_ref())?);
        let (expected, got) = (context.load.identity().file, trailer.identity.file);
        if expected != got {
            return Err(BlockError::FileMismatch { expected, got });
        }
        let hashing = match shape.map {
            CodeMap::Hashed(map) => hashing(&map, trailer.identity.hash, context)?,
            CodeMap::Ordered(_) | CodeMap::Exact(_) => Hashing::new(KeyHasher::default(), None),
        };
        let layout = Layout::new(&shape, data.as_ref());
        Ok(Self { data, trailer, shape, layout, hashing })
    }

    fn check_known_keys(&self, known_keys: &[&[u8]]) -> Result<(), BlockError> {
        if known_keys.iter().any(|key| !self.may_contain_range(*key..=*key)) {
            return Err(BlockError::KnownKeyAbsent { hash: self.trailer.identity.hash });
        }
        // Keys outside the extractor's domain have no code, so they cannot confirm the filter.
        let is_confirmed = known_keys.is_empty() || known_keys.iter().any(|key| self.hashing.has_prefix(key));
        if is_confirmed { Ok(()) } else { Err(BlockError::PartNotHeld) }
    }

    /// Checks the payload against its checksum. Reads all of it once.
    ///
    /// # Errors
    ///
    /// [`BlockError::PayloadChecksum`] if it differs.
    pub fn verify(&self) -> Result<(), BlockError> {
        let (expected, got) =
            (self.trailer.payload_checksum, checksum(self.layout.payload(self.data.as_ref()).unwrap_or_default()));
        if expected == got { Ok(()) } else { Err(BlockError::PayloadChecksum { expected, got }) }
    }

    /// Returns the CRC32C of all bytes but the last four, which an index of blocks records. Does not read the payload,
    /// which must have been verified.
    #[must_use]
    pub fn checksum_without_last(&self) -> u32 {
        let bytes = self.data.as_ref();
        let payload = self.layout.payload(bytes).unwrap_or_default();
        let tail = bytes.get(payload.len()..bytes.len() - 4).unwrap_or_default();
        checksum_append(self.trailer.payload_checksum, tail)
    }

    /// Whether the file may contain a key in the range; `false` is certain.
    #[must_use]
    pub fn may_contain_range<'a>(&self, range: impl Into<KeyRange<'a>>) -> bool {
        match (self.view(), self.shape.map) {
            // The caller's bytes have become shorter since they were opened: any key may be in the file.
            (None, _) => true,
            (Some(view), CodeMap::Exact(map)) => view::exact_may_contain_each(view, map, &[range.into()]) == 1,
            (Some(view), _) => view::may_contain_range(view, range.into()),
        }
    }

    /// Whether the file may contain the key; `false` is certain. If the filter is [exact](Self::is_exact), `true` is
    /// certain, too; a bitmap answers faster than a point filter.
    #[inline]
    #[must_use]
    pub fn may_contain(&self, key: &[u8]) -> bool {
        let (CodeMap::Exact(map), Some(view)) = (self.shape.map, self.view()) else {
            return self.may_contain_range(key..=key);
        };
        match map.code(&Form::in_payload(view.shape, view.payload), key) {
            None => false,
            Some(code) if self.shape.low_bits == 0 => bit(view.payload, code) == 1,
            Some(code) => view::has_code(view, map, code),
        }
    }

    /// Probes for many keys, and stores the answers in `matches`, in the order of the keys.
    pub fn may_contain_batch(&self, keys: &[&[u8]], matches: &mut MatchBitmap) {
        fn answer(keys: &[&[u8]], matches: &mut MatchBitmap, bit_of: impl Fn(&[u8]) -> u64) {
            for (keys, word) in keys.chunks(64).zip(matches.cleared(keys.len())) {
                *word = (0..).zip(keys).fold(0, |word, (place, key)| word | bit_of(key) << place);
            }
        }
        match (self.bitmap(), self.view()) {
            (Some((form, map)), Some(view)) => {
                answer(keys, matches, |key| map.code(&form, key).map_or(0, |code| bit(view.payload, code)));
            }
            _ => answer(keys, matches, |key| self.may_contain(key).into()),
        }
    }

    /// Whether the filter is exact: it has no false positives, for keys, ranges and hints.
    #[inline]
    #[must_use]
    pub const fn is_exact(&self) -> bool {
        matches!(self.shape.map, CodeMap::Exact(_))
    }

    /// Returns the form of the keys and the codes, if the filter is a bitmap.
    pub(crate) fn bitmap(&self) -> Option<(Form<'_>, ExactMap)> {
        let CodeMap::Exact(map) = self.shape.map else { return None };
        (self.shape.low_bits == 0).then_some((Form::in_payload(&self.shape, self.view()?.payload), map))
    }

    /// Returns the bytes that were opened.
    pub(crate) const fn data(&self) -> &D {
        &self.data
    }

    /// Probes many ranges at once, and stores the answers in `matches`, in the order of the ranges.
    pub fn may_contain_range_batch(&self, ranges: &[KeyRange<'_>], matches: &mut MatchBitmap) {
        let words = matches.cleared(ranges.len());
        let view = self.view();
        for (ranges, word) in ranges.chunks(64).zip(words) {
            *word = match (view, self.shape.map) {
                // All positive, as for single ranges.
                (None, _) => u64::MAX >> (64 - ranges.len()),
                (Some(view), CodeMap::Exact(map)) => view::exact_may_contain_each(view, map, ranges),
                (Some(view), _) => view::may_contain_range_each(view, ranges),
            };
        }
    }

    /// Returns a lower bound of the file's first key at or above `lower`. The bound itself is never below `lower`.
    /// `None` if the file has no such key.
    ///
    /// A scan over many files need not seek in this file before it has reached the bound. The bound may itself be a
    /// key, so at equal keys, a file that waits at a bound comes before the entries of other files. For an exclusive
    /// start, append a zero byte to it. Hashed codes are unordered: their bound is `lower` itself, unless the filter
    /// has no keys. Scans in descending order have no such bound.
    #[must_use]
    pub fn seek_hint(&self, lower: &[u8]) -> Option<Vec<u8>> {
        match self.view() {
            Some(view) => view::seek_hint(view, lower),
            None => Some(lower.to_vec()),
        }
    }

    /// Returns the decoded fields of the trailer.
    #[must_use]
    pub fn info(&self) -> RangeInfo {
        RangeInfo::new(&self.trailer, &self.shape)
    }

    /// Returns the bytes of the whole block.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.data.as_ref()
    }

    /// Returns the bytes that were opened.
    #[must_use]
    pub fn into_inner(self) -> D {
        self.data
    }

    #[inline(always)]
    pub(super) fn view(&self) -> Option<View<'_>> {
        let payload = self.layout.payload(self.data.as_ref())?;
        Some(View { shape: &self.shape, layout: &self.layout, hashing: &self.hashing, payload })
    }
}

/// Decodes the trailer of a range filter's block.
fn decode(block: &[u8]) -> Result<(Trailer, RangeShape), BlockError> {
    let trailer = Trailer::decode(block)?;
    if trailer.kind != KindId::RANGE {
        return Err(BlockError::Kind { expected: KindId::RANGE, got: trailer.kind });
    }
    // Flag 4 says that a point filter holds parts of keys; no range filter has any.
    BlockError::require(trailer.parts_bytes == 0, "flags of a range filter", "0 or 1", 4_u8)?;
    if trailer.is_partition {
        return Err(BlockError::Partition);
    }
    let shape = RangeShape::decode(&trailer.shape)?;
    Ok((trailer, shape))
}

/// Returns the reader's hasher and extractor, if the filter's codes were made with them.
fn hashing(map: &HashedMap, got: HashIdentity, context: RangeContext<'_>) -> Result<Hashing, BlockError> {
    let expected = context.load.identity().hash;
    if expected != got {
        return Err(BlockError::HashMismatch { expected, got });
    }
    // An identity is enough to load a point filter, which is probed with hashes. Ranges are hashed here, chunk by
    // chunk.
    let Some(hasher) = context.load.hasher() else {
        let reason = "hashed ranges: expected a context made with the reader's hasher, got one of a hash identity";
        return Err(BlockError::Unreadable { reason: reason.into() });
    };
    let Some(stored) = map.extractor_checksum else { return Ok(Hashing::new(hasher.clone(), None)) };
    let own = context.extractor.map(|extractor| checksum(extractor.name().as_bytes()));
    if own != Some(stored) {
        let own = own.map_or("none".into(), |own| format!("its name has CRC32C {own:#010x}"));
        let expected = format!("the reader's ({own})");
        let got = format!("one whose name has CRC32C {stored:#010x}; open it with that extractor");
        return Err(BlockError::ExtractorMismatch { expected, got });
    }
    Ok(Hashing::new(hasher.clone(), context.extractor.cloned()))
}

impl<D: AsRef<[u8]>> fmt::Debug for RangeFilter<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RangeFilter").field("info", &self.info()).finish_non_exhaustive()
    }
}

/// The fields of a range filter's trailer, with the figures that follow from them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RangeInfo {
    /// How keys became codes.
    pub map: RangeMap,
    /// Number of distinct keys that were added.
    pub keys: u64,
    /// Number of distinct codes of these keys.
    pub codes: u64,
    /// Number of lines, 64 bytes each; 0 in exact codes.
    pub lines: u64,
    /// Bits of a code that are stored outside its line. A segment of ordered codes may use more.
    pub low_bits: u32,
    /// Length of every key in bytes; `None` if it varies.
    pub key_bytes: Option<u64>,
    /// The hash that the block records; ordered codes do not use it.
    pub hash: HashIdentity,
    /// The file that the block is bound to; `None` if it is unbound.
    pub file: Option<FileId>,
    /// Bytes of the whole block.
    pub block_bytes: u64,
    /// Bytes of the payload.
    pub payload_bytes: u64,
    /// CRC32C of the payload, as stored.
    pub payload_checksum: u32,
}

/// How the keys of a range filter became codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RangeMap {
    /// Ranges of a declared length.
    Hashed {
        /// Bits of the 64-bit window after the prefix that a unit omits.
        unit_shift: u32,
        /// Units in a chunk. Ranges of more units may all be positive.
        chunk_units: u64,
        /// CRC32C of the name of the extractor of prefixes; `None` without prefixes.
        extractor_checksum: Option<u32>,
        /// Keys outside the extractor's domain.
        keys_outside: u32,
    },
    /// Ranges of any length.
    Ordered {
        /// Length of the prefix that all keys share.
        common_bytes: u32,
        /// Bytes of the shared prefix, and of the separators after their heads.
        tails_bytes: u32,
    },
    /// All keys are in the filter, as integers of their last eight bytes, or of all bytes of shorter keys: there are no
    /// false positives. Without low bits, they are a bitmap.
    Exact {
        /// The integer of the smallest key.
        first: u64,
        /// The integer of the largest key.
        last: u64,
    },
}

impl RangeInfo {
    fn new(trailer: &Trailer, shape: &RangeShape) -> Self {
        let map = match shape.map {
            CodeMap::Hashed(map) => RangeMap::Hashed {
                unit_shift: map.unit_shift,
                chunk_units: 1 << map.chunk_bits,
                extractor_checksum: map.extractor_checksum,
                keys_outside: map.keys_outside,
            },
            CodeMap::Ordered(map) => RangeMap::Ordered { common_bytes: map.common_bytes, tails_bytes: map.tails_bytes },
            CodeMap::Exact(map) => RangeMap::Exact { first: map.first, last: map.first.saturating_add(map.span) },
        };
        Self {
            map,
            keys: shape.keys,
            codes: shape.codes.into(),
            lines: shape.lines.into(),
            low_bits: shape.low_bits,
            key_bytes: shape.key_bytes.map(u64::from),
            hash: trailer.identity.hash,
            file: trailer.identity.file,
            block_bytes: trailer.block_bytes(),
            payload_bytes: trailer.shape.payload_bytes,
            payload_checksum: trailer.payload_checksum,
        }
    }

    /// Reads the trailer of the block that fills `block` exactly. Accepts any file, hash and extractor.
    ///
    /// # Errors
    ///
    /// The errors of [`RangeFilter::open_unverified`] that do not depend on a context.
    pub fn of_block(block: &[u8]) -> Result<Self, BlockError> {
        decode(block).map(|(trailer, shape)| Self::new(&trailer, &shape))
    }

    /// Returns the false positive rate that follows from the block's fields, from 0 to 1, for empty ranges of `units`
    /// units.
    ///
    /// For hashed codes, the rate holds for all ranges without a key in their end units. For ordered codes, it is the
    /// rate of ranges of any length whose ends are spread evenly over the span of segments. It does not cover ranges
    /// near keys: the rate is lowest where keys are dense, and nearly all ranges near those keys are positive. Count
    /// what scans find. For exact codes, it is 0.
    #[must_use]
    pub fn expected_fpr(&self, units: u64) -> f64 {
        match self.map {
            RangeMap::Exact { .. } => 0.0,
            // Without codes, every range is absent.
            _ if self.lines == 0 => 0.0,
            RangeMap::Hashed { chunk_units, .. } if units > chunk_units => 1.0,
            RangeMap::Hashed { .. } => {
                let space = (self.lines as f64) * 256.0 * super::plan::two_to(self.low_bits);
                rate_of_hashed(self.codes as f64 / space, units)
            }
            RangeMap::Ordered { .. } => rate_of_ordered(self.codes as f64 / self.lines as f64, self.low_bits),
        }
    }

    /// Returns the bits of the whole block per distinct key; infinite for a block without keys.
    #[must_use]
    pub fn bits_per_key(&self) -> f64 {
        self.block_bytes as f64 * 8.0 / self.keys as f64
    }
}
