//! The description of a file's filters, which an engine stores in its manifest or in the file's properties.
//!
//! ```text
//!  0  4  magic, the bytes "SFMD"
//!  4  1  version
//!  5  1  flags: bit 0 the point filter holds whole keys, or the range filter replaces it, bit 1 the file has keys,
//!       bit 2 it has range tombstones, bit 3 its keys are not known
//!  6  2  bytes of this header: 44, or more in a later release
//!  8  8  fingerprint of the file's id
//! 16  8  hash seed, or its fingerprint, or the engine's tag
//! 24  1  hash id
//! 25  1  sections
//! 26  1  extractors of the point filter
//! 27  1  1 if the ranges of the range filter are inside prefixes of an extractor, otherwise 0
//! 28  1  witness keys
//! 29  3  0
//! 32  8  keys added, repetitions included
//! 40  4  check of the hash: CRC32C of the hashes of the known keys, each as 8 bytes
//!
//! for each section, 28 bytes:
//!  0  1  type: 1 a filter block, 2 a partitioned filter, 3 a range filter
//!  1  1  the kind of filter
//!  2  2  0
//!  4  4  bytes at the end of a partitioned filter that hold its top index; 0 for the others
//!  8  8  offset in the filter bytes
//! 16  8  length
//! 24  4  CRC32C of its bytes without the last four; of a partitioned filter, of the top index without its last four
//!
//! extractors, that of the range filter last: a byte with the length of the name, the name, and 4 bytes, the check of
//! the extractor: CRC32C over all known keys of 8 bytes with the length of the key's part plus one, then the part, or
//! of the byte 0 for a key without a part
//! smallest and largest key, start and end of range tombstones, witness keys: a varint with the length, then the bytes
//! CRC32C of all of the above, 4 bytes
//! ```
//!
//! The known keys are the smallest, the largest and the witness keys, in this order. A store whose hash or extractor
//! returns another check uses no filter: the function has changed under its name.
//!
//! The checksum at the end is compared before any field is believed. Sections of an unknown type are skipped: a reader
//! may ignore any filter. A change that affects the answers of a known section gets a new type.

use core::ops::Bound::{Excluded, Included, Unbounded};
use core::ops::{Bound, Range};

use bytes::BufMut;
use crc32c::{crc32c as checksum, crc32c_append as checksum_append};
use sstfilter::KeyRange;
use sstfilter::internal::Fields;
use sstfilter::{FileId, HashId, HashIdentity, KeyExtractor, KeyHash, KeyHasher, KeyParts, KindId};

use super::error::{FilterProblem, wrong_field};
use crate::codec::{Cursor, checksum_without_last, compare, put_item};

const MAGIC: [u8; 4] = *b"SFMD";
const VERSION: u8 = 1;
const HEADER_BYTES: u16 = 44;
const SECTION_BYTES: usize = 28;

// Flags of byte 5.
const WHOLE_KEYS: u8 = 1;
const HAS_KEYS: u8 = 1 << 1;
const HAS_RANGE_TOMBSTONES: u8 = 1 << 2;
const HAS_UNKNOWN_KEYS: u8 = 1 << 3;

type Header<'a> = Fields<'a, { HEADER_BYTES as usize }>;

const WHAT: &str = "description of filters";

/// The fields behind the header, as every conforming writer writes them.
const FIELDS: &str = "sections that end below 2^64, at most 63 extractors and one for ranges with names in UTF-8, \
                      bounds whose second key is not below the first, and nothing after them";

/// The description of a file's filters: where their bytes are, which keys and parts of keys they hold, and their
/// checksums.
///
/// [`FileFilterBuilder`](super::FileFilterBuilder) makes it. Store its [encoded](Self::encode) bytes where the engine
/// lists its files. They are 48 bytes, and 28 for each filter; then come the smallest and the largest key, the ends of
/// what range tombstones delete, the name of each extractor with 5 bytes, and for some extractors one more key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterMetadata {
    pub(crate) file: FileId,
    pub(crate) hash: HashIdentity,
    /// The check of the hash over the known keys.
    pub(crate) hash_check: u32,
    pub(crate) whole_keys: bool,
    /// The names of the point filter's extractors, each with its check.
    pub(crate) extractors: Vec<(String, u32)>,
    /// Name and check of the range filter's extractor.
    pub(crate) range_extractor: Option<(String, u32)>,
    pub(crate) bounds: KeyBounds,
    pub(crate) keys_added: u64,
    /// The keys that range tombstones delete: from the first up to but excluding the second.
    pub(crate) range_tombstones: Option<Box<KeyBounds>>,
    /// For each extractor that returns a part for neither the smallest nor the largest key, the first key that has a
    /// part.
    pub(crate) witnesses: Vec<Box<[u8]>>,
    pub(crate) sections: Vec<FilterSection>,
}

/// One filter among the filter bytes of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilterSection {
    /// The type of the section.
    pub part: FilterPart,
    /// The kind of the filter; of a partitioned filter, the kind of its first partition that has a filter.
    pub kind: KindId,
    /// Offset of its first byte.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Bytes at its end that hold the top index; 0 for a filter in one block.
    pub index_bytes: u32,
    /// CRC32C of its bytes without the last four; of a partitioned filter, that of the top index without its last four.
    pub checksum: u32,
}

/// The type of a section of filter bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterPart {
    /// A point filter in one block.
    Points,
    /// A point filter in partitions.
    PartitionedPoints,
    /// A range filter.
    Ranges,
}

impl FilterPart {
    const ALL: [Self; 3] = [Self::Points, Self::PartitionedPoints, Self::Ranges];

    const fn code(self) -> u8 {
        self as u8 + 1
    }
}

impl FilterSection {
    /// Returns `None` for a section of an unknown type.
    fn decode(fields: Fields<'_, SECTION_BYTES>) -> Option<Self> {
        Some(Self {
            part: FilterPart::ALL.into_iter().find(|part| part.code() == fields.u8::<0>())?,
            kind: KindId::from_code(fields.u8::<1>()),
            offset: fields.u64::<8>(),
            bytes: fields.u64::<16>(),
            index_bytes: fields.u32::<4>(),
            checksum: fields.u32::<24>(),
        })
    }

    fn is_inside_file(&self) -> bool {
        self.offset.checked_add(self.bytes).is_some() && u64::from(self.index_bytes) <= self.bytes
    }

    /// Returns the range of the filter among the filter bytes.
    #[must_use]
    pub const fn range(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.bytes)
    }

    /// Compares the checksum with that of the bytes read: all of a filter in one block, the top index of a partitioned
    /// filter.
    pub(crate) fn check(&self, bytes: &[u8]) -> Result<(), FilterProblem> {
        self.check_sum(checksum_without_last(bytes))
    }

    pub(crate) const fn check_sum(&self, got: u32) -> Result<(), FilterProblem> {
        let expected = self.checksum;
        if expected == got { Ok(()) } else { Err(FilterProblem::Checksum { what: "filter", expected, got }) }
    }

    /// Returns the range of the top index, at the end of a partitioned filter; empty for a filter in one block.
    #[must_use]
    pub fn index_range(&self) -> Range<u64> {
        let end = self.range().end;
        end.saturating_sub(self.index_bytes.into())..end
    }
}

/// The smallest and the largest of the keys in a file, or of the keys that its range tombstones delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum KeyBounds {
    /// Nothing is known: any key may be among them.
    #[default]
    Unknown,
    /// There are no keys.
    Empty,
    /// The first key is not above the second. Vectors, because a larger key takes the memory of the one before.
    Keys([Vec<u8>; 2]),
}

impl KeyBounds {
    /// Returns the two keys, if they are known and there are any.
    pub(crate) fn keys(&self) -> Option<[&[u8]; 2]> {
        match self {
            Self::Keys(keys) => Some(keys.each_ref().map(Vec::as_slice)),
            Self::Unknown | Self::Empty => None,
        }
    }

    /// Widens the bounds to include `key`. Returns whether it is now the smallest key, and whether it is the largest.
    #[inline]
    pub(crate) fn include(&mut self, key: &[u8]) -> [bool; 2] {
        let Self::Keys([smallest, largest]) = self else {
            *self = Self::Keys([key.into(), key.into()]);
            return [true; 2];
        };
        // The largest first: keys ascend.
        let is_largest = compare(key, largest).is_gt();
        let is_smallest = !is_largest && key < &smallest[..];
        if is_largest || is_smallest {
            let end = if is_largest { largest } else { smallest };
            end.clear();
            end.extend_from_slice(key);
        }
        [is_smallest, is_largest]
    }

    /// Returns whether `key` may lie within the bounds.
    #[inline]
    pub(crate) fn hold(&self, key: &[u8]) -> bool {
        match self {
            Self::Unknown => true,
            Self::Empty => false,
            Self::Keys([smallest, largest]) => &smallest[..] <= key && key <= &largest[..],
        }
    }

    /// Returns whether a key in `range` may lie within the bounds.
    pub(crate) fn overlap(&self, range: KeyRange<'_>) -> bool {
        let Self::Keys([smallest, largest]) = self else { return *self == Self::Unknown && !range.is_empty() };
        overlap(range, KeyRange { lower: Included(smallest), upper: Included(largest) })
    }
}

impl From<KeyRange<'_>> for KeyBounds {
    /// Bounds of a file whose keys are all in the range. Unknown unless both ends are given.
    fn from(range: KeyRange<'_>) -> Self {
        let key = |bound| match bound {
            Included(key) | Excluded(key) => Some(key),
            Unbounded => None,
        };
        match (key(range.lower), key(range.upper)) {
            // The engine orders keys differently: which keys lie between is not known.
            (Some(lower), Some(upper)) if lower > upper => Self::Unknown,
            _ if range.is_empty() => Self::Empty,
            // Bounds only have to enclose all keys, so they need not be keys themselves.
            (Some(lower), Some(upper)) => Self::Keys([lower.into(), upper.into()]),
            _ => Self::Unknown,
        }
    }
}

/// Returns whether a key may be in both ranges, of which the second is not empty.
fn overlap(one: KeyRange<'_>, other: KeyRange<'_>) -> bool {
    let [above, below] = [KeyRange { lower: other.lower, ..one }, KeyRange { upper: other.upper, ..one }];
    [one, above, below].iter().all(|range| !range.is_empty())
}

/// Returns the check of a hash: the checksum of the hashes of the known keys.
pub(crate) fn check_of_hashes(hashes: impl IntoIterator<Item = KeyHash>) -> u32 {
    hashes.into_iter().fold(0, |sum, hash| checksum_append(sum, &hash.get().to_le_bytes()))
}

/// Returns the check of an extractor over the known keys.
pub(crate) fn check_of_extractor(extractor: &dyn KeyExtractor, known: &[&[u8]]) -> u32 {
    known.iter().fold(0, |sum, key| match extractor.extract(key) {
        // Plus one, so that an empty part differs from none.
        Some(part) => checksum_append(checksum_append(sum, &(part.len() as u64 + 1).to_le_bytes()), &part),
        None => checksum_append(sum, &[0]),
    })
}

/// The description of a file without keys, for the default hasher.
impl Default for FilterMetadata {
    fn default() -> Self {
        Self::without_filters(KeyHasher::default().identity(), KeyBounds::Empty)
    }
}

impl FilterMetadata {
    /// Returns the description of a file with these bounds and no usable filter.
    pub(crate) const fn without_filters(hash: HashIdentity, bounds: KeyBounds) -> Self {
        Self {
            file: FileId::from_fingerprint(0),
            hash,
            hash_check: 0,
            whole_keys: false,
            extractors: Vec::new(),
            range_extractor: None,
            bounds,
            keys_added: 0,
            range_tombstones: None,
            witnesses: Vec::new(),
            sections: Vec::new(),
        }
    }

    /// Returns whether hashes are of all bytes of keys, so that keys with different bytes are different keys.
    pub(crate) const fn is_hashed_by_bytes(&self) -> bool {
        matches!(self.hash.id, HashId::Xxh3 | HashId::Xxh3Secret)
    }

    /// Returns the filter that answers for single keys: that of points, or else a range filter that replaces it.
    pub(crate) fn of_keys(&self) -> Option<&FilterSection> {
        let ranges = || self.ranges().filter(|_| self.whole_keys && self.is_hashed_by_bytes());
        self.points().or_else(ranges)
    }

    /// Returns the bytes to store.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.encode_covered();
        out.put_u32_le(checksum(&out));
        out
    }

    /// Returns the bytes without their checksum, for a block of the engine that has its own checksum: a CRC32C over
    /// bytes that end with their own CRC32C is the same for all bytes of one length.
    #[must_use]
    pub fn encode_covered(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(160);
        let spans = [self.bounds.keys(), self.deleted()];
        let flag = |flag, is_set| if is_set { flag } else { 0 };
        out.put_slice(&MAGIC);
        out.put_u8(VERSION);
        out.put_u8(
            flag(WHOLE_KEYS, self.whole_keys)
                | flag(HAS_KEYS, spans[0].is_some())
                | flag(HAS_RANGE_TOMBSTONES, spans[1].is_some())
                | flag(HAS_UNKNOWN_KEYS, self.bounds == KeyBounds::Unknown),
        );
        out.put_u16_le(HEADER_BYTES);
        out.put_u64_le(self.file.fingerprint());
        out.put_u64_le(self.hash.seed);
        out.put_u8(self.hash.id.code());
        out.put_u8(count(&self.sections));
        out.put_u8(count(&self.extractors));
        out.put_u8(self.range_extractor.is_some().into());
        out.put_u8(count(&self.witnesses));
        out.put_slice(&[0; 3]);
        out.put_u64_le(self.keys_added);
        out.put_u32_le(self.hash_check);
        for section in &self.sections {
            out.put_u8(section.part.code());
            out.put_u8(section.kind.code());
            out.put_u16_le(0);
            out.put_u32_le(section.index_bytes);
            out.put_u64_le(section.offset);
            out.put_u64_le(section.bytes);
            out.put_u32_le(section.checksum);
        }
        for (name, check) in self.extractors.iter().chain(&self.range_extractor) {
            // The builder leaves out longer names.
            out.put_u8(u8::try_from(name.len()).unwrap_or(u8::MAX));
            out.put_slice(name.as_bytes());
            out.put_u32_le(*check);
        }
        for key in spans.into_iter().flatten().flatten().chain(self.witnesses.iter().map(AsRef::as_ref)) {
            put_item(&mut out, key);
        }
        out
    }

    /// Decodes the description in `bytes`, which must contain nothing else.
    ///
    /// # Errors
    ///
    /// [`FilterProblem`] if the bytes are damaged, of a later version, or contradict each other. Open the file [without
    /// filters](super::FilterStore::open_without_description) then.
    pub fn decode(bytes: &[u8]) -> Result<Self, FilterProblem> {
        let (covered, stored) = bytes.split_last_chunk().ok_or_else(|| too_short(bytes))?;
        // The magic bytes come first: foreign bytes are not damage.
        header_of(covered)?;
        let (expected, got) = (u32::from_le_bytes(*stored), checksum(covered));
        if expected != got {
            return Err(FilterProblem::Checksum { what: WHAT, expected, got });
        }
        Self::decode_covered(covered)
    }

    /// Decodes bytes of [`encode_covered`](Self::encode_covered), after the engine has verified the checksum of the
    /// block that contained them.
    ///
    /// # Errors
    ///
    /// The errors of [`decode`](Self::decode), except a wrong checksum.
    pub fn decode_covered(bytes: &[u8]) -> Result<Self, FilterProblem> {
        let header = header_of(bytes)?;
        let (expected, got) = (VERSION.into(), header.u8::<4>().into());
        if expected != got {
            return Err(FilterProblem::Version { what: WHAT, expected, got });
        }
        let header_bytes = header.u16::<6>();
        // A later release may lengthen the header, so the fields begin where it says.
        let mut rest =
            Cursor(bytes.get(header_bytes.into()..).filter(|_| header_bytes >= HEADER_BYTES).ok_or_else(|| {
                wrong_field(
                    "header bytes of a description of filters",
                    "44 or more, and not beyond its end",
                    &header_bytes,
                )
            })?);
        let decoded = Self::decode_fields(header, &mut rest).filter(|_| rest.0.is_empty());
        decoded.ok_or_else(|| wrong_field(WHAT, FIELDS, &format!("others before byte {}", bytes.len() - rest.0.len())))
    }

    /// Returns `None` for fields that no writer writes, or that end outside of the bytes.
    fn decode_fields(header: Header<'_>, rest: &mut Cursor<'_>) -> Option<Self> {
        let (flags, [sections, extractors, ranges, witnesses]) = (header.u8::<5>(), header.array::<25, 4>());
        let sections = (0..sections).map(|_| rest.fields()).collect::<Option<Vec<_>>>()?;
        // Sections of an unknown type are dropped, not refused.
        let sections: Vec<_> = sections.into_iter().filter_map(FilterSection::decode).collect();
        let is_countable = usize::from(extractors) <= KeyParts::MAX_EXTRACTORS && ranges <= 1;
        if !is_countable || !sections.iter().all(FilterSection::is_inside_file) {
            return None;
        }
        let mut extractors = (0..extractors + ranges).map(|_| extractor(rest)).collect::<Option<Vec<_>>>()?;
        let mut bounds = |has_keys: u8| if flags & has_keys != 0 { bounds(rest) } else { Some(KeyBounds::Empty) };
        let (bounds, range_tombstones) = (bounds(HAS_KEYS)?, bounds(HAS_RANGE_TOMBSTONES)?);
        // Only without keys: known bounds say more than the flag.
        let is_unknown = bounds == KeyBounds::Empty && flags & HAS_UNKNOWN_KEYS != 0;
        Some(Self {
            file: FileId::from_fingerprint(header.u64::<8>()),
            hash: HashIdentity::new(HashId::from_code(header.u8::<24>()), header.u64::<16>()),
            hash_check: header.u32::<40>(),
            whole_keys: flags & WHOLE_KEYS != 0,
            range_extractor: if ranges == 1 { extractors.pop() } else { None },
            extractors,
            bounds: if is_unknown { KeyBounds::Unknown } else { bounds },
            keys_added: header.u64::<32>(),
            range_tombstones: range_tombstones.keys().is_some().then(|| range_tombstones.into()),
            witnesses: (0..witnesses).map(|_| rest.item().map(Box::from)).collect::<Option<_>>()?,
            sections,
        })
    }

    /// Returns the id that the filters are bound to.
    pub const fn file_id(&self) -> FileId {
        self.file
    }

    /// Returns the identity of the hash that the filters were built with.
    pub const fn hash_identity(&self) -> HashIdentity {
        self.hash
    }

    /// Returns the parts of keys in the point filter, for display: `whole keys, 'fixed-prefix:4'`, or `none`.
    #[must_use]
    pub fn key_parts(&self) -> String {
        let whole = self.whole_keys.then(|| "whole keys".to_owned());
        let parts: Vec<_> = whole.into_iter().chain(self.extractors().map(|name| format!("'{name}'"))).collect();
        if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
    }

    /// Returns whether the point filter, or the range filter in its place, holds whole keys.
    #[must_use]
    pub const fn has_whole_keys(&self) -> bool {
        self.whole_keys
    }

    /// Returns the names of the extractors whose parts of keys the point filter holds.
    #[must_use]
    pub fn extractors(&self) -> impl ExactSizeIterator<Item = &str> {
        self.extractors.iter().map(|(name, _)| &**name)
    }

    /// Returns the name of the extractor whose prefixes the ranges of the range filter lie within, if it has one.
    #[must_use]
    pub fn range_extractor(&self) -> Option<&str> {
        self.range_extractor.as_ref().map(|(name, _)| &**name)
    }

    /// Returns the smallest and the largest key; `None` if the file has no keys, or they are not known.
    #[must_use]
    pub fn key_bounds(&self) -> Option<(&[u8], &[u8])> {
        self.bounds.keys().map(|[smallest, largest]| (smallest, largest))
    }

    /// Returns the number of keys that were added, repetitions included.
    #[must_use]
    pub const fn keys_added(&self) -> u64 {
        self.keys_added
    }

    /// Returns the filters and where they are.
    #[must_use]
    pub fn sections(&self) -> &[FilterSection] {
        &self.sections
    }

    /// Returns keys of the file that show whether a hash or an extractor has changed. Without a description, which
    /// counts keys, there are none: the bounds need not be keys.
    pub(crate) fn known_keys(&self) -> Vec<&[u8]> {
        let ends = self.bounds.keys().filter(|_| self.keys_added > 0);
        ends.into_iter().flatten().chain(self.witnesses.iter().map(AsRef::as_ref)).collect()
    }

    /// Returns the smallest key that the file has or deletes, and the end of these keys, which is included only if it
    /// is one that the file has; `None` if there are none, or the keys are not known.
    pub(crate) fn span(&self) -> Option<(&[u8], Bound<&[u8]>)> {
        match (self.bounds.keys(), self.deleted()) {
            (None, Some([start, end])) if self.bounds == KeyBounds::Empty => Some((start, Excluded(end))),
            (Some([smallest, largest]), Some([start, end])) if largest < end => {
                Some((smallest.min(start), Excluded(end)))
            }
            (Some([smallest, largest]), deleted) => {
                Some((deleted.map_or(smallest, |[start, _]| smallest.min(start)), Included(largest)))
            }
            (None, _) => None,
        }
    }

    /// Returns the first key that range tombstones delete, and the end of these keys, which is excluded.
    pub(crate) fn deleted(&self) -> Option<[&[u8]; 2]> {
        self.range_tombstones.as_deref()?.keys()
    }

    /// Returns whether a range tombstone may delete the key.
    pub(crate) fn deletes(&self, key: &[u8]) -> bool {
        self.deleted().is_some_and(|[start, end]| start <= key && key < end)
    }

    /// Returns whether a range tombstone may delete a key of the range.
    pub(crate) fn deletes_in(&self, range: KeyRange<'_>) -> bool {
        let deleted = |[start, end]: [_; 2]| KeyRange { lower: Included(start), upper: Excluded(end) };
        self.deleted().is_some_and(|span| overlap(range, deleted(span)))
    }

    /// Returns the section of the point filter.
    #[must_use]
    pub fn points(&self) -> Option<&FilterSection> {
        self.sections.iter().find(|section| section.part != FilterPart::Ranges)
    }

    /// Returns the section of the range filter.
    #[must_use]
    pub fn ranges(&self) -> Option<&FilterSection> {
        self.sections.iter().find(|section| section.part == FilterPart::Ranges)
    }
}

/// Returns the number of items, which fits: there are at most 63 extractors and three sections.
fn count<T>(items: &[T]) -> u8 {
    u8::try_from(items.len()).unwrap_or(u8::MAX)
}

fn too_short(bytes: &[u8]) -> FilterProblem {
    FilterProblem::Length { what: WHAT, expected: u64::from(HEADER_BYTES) + 4, got: bytes.len() as u64 }
}

/// Returns the header of bytes without their checksum, if they are long enough and begin with the magic bytes.
fn header_of(covered: &[u8]) -> Result<Header<'_>, FilterProblem> {
    match covered.first_chunk() {
        Some(&magic) if magic != MAGIC => {
            Err(wrong_field("magic bytes of a description of filters", "SFMD", &magic.escape_ascii()))
        }
        _ => Cursor(covered).fields().ok_or_else(|| too_short(covered)),
    }
}

/// Reads an extractor's name and its check.
fn extractor(rest: &mut Cursor<'_>) -> Option<(String, u32)> {
    let name_bytes = rest.fields::<1>()?.u8::<0>();
    let name = core::str::from_utf8(rest.bytes(name_bytes.into())?).ok()?;
    Some((name.to_owned(), rest.fields::<4>()?.u32::<0>()))
}

fn bounds(rest: &mut Cursor<'_>) -> Option<KeyBounds> {
    let (smallest, largest) = (rest.item()?, rest.item()?);
    (smallest <= largest).then(|| KeyBounds::Keys([smallest.into(), largest.into()]))
}
