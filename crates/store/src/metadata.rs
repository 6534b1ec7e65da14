//! What an engine keeps about a file's filters, in its manifest or in the file's properties.
//!
//! ```text
//!  0  4  magic, the bytes "SFMD"
//!  4  1  version
//!  5  1  flags: bit 0 the point filter holds whole keys, bit 1 the file has keys, bit 2 it has range tombstones, bit 3
//!       its keys are not known
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
//!  0  1  what it is: 1 a filter block, 2 a partitioned filter, 3 a range filter
//!  1  1  the kind of filter
//!  2  2  0
//!  4  4  bytes at the end of a partitioned filter that hold its top index; 0 for the others
//!  8  8  offset in the filter bytes
//! 16  8  length
//! 24  4  CRC32C of its bytes without the last four; of a partitioned filter, of the top index without its last four
//!
//! extractors: a byte with the length of the name, the name, and 4 bytes, the check of the extractor: CRC32C of, for
//! each known key, its part behind 8 bytes with the part's length plus one, or the byte 0 where it has none; that of
//! the range filter is the last
//! smallest and largest key, start and end of range tombstones, witness keys: a varint with the length, then the bytes
//! CRC32C of all of the above, 4 bytes
//! ```
//!
//! The known keys are the smallest, the largest and the witness keys, in this order. A store whose hash or extractor
//! gives another check uses no filter: they have changed, though not their names.
//!
//! The checksum at the end is compared before anything else is believed, and sections of an unknown type are passed
//! over: a filter that is not known of is never wrong. What would change the answers of a known section gets a new
//! type.

use core::ops::Bound::{Excluded, Included, Unbounded};
use core::ops::Range;

use bytes::BufMut;
use crc32c::{crc32c as checksum, crc32c_append as checksum_append};
use sstfilter::internal::Fields;
use sstfilter::{FileId, HashId, HashIdentity, KeyExtractor, KeyHash, KeyHasher, KeyParts, KindId};
use sstfilter_range::KeyRange;

use super::error::FilterProblem;
use crate::codec::{Cursor, checksum_without_last, put_item};

const MAGIC: [u8; 4] = *b"SFMD";
const VERSION: u8 = 1;
const HEADER_BYTES: u16 = 44;
const SECTION_BYTES: usize = 28;

const WHOLE_KEYS: u8 = 1;
const HAS_KEYS: u8 = 1 << 1;
const HAS_RANGE_TOMBSTONES: u8 = 1 << 2;
const HAS_UNKNOWN_KEYS: u8 = 1 << 3;

type Header<'a> = Fields<'a, { HEADER_BYTES as usize }>;

const WHAT: &str = "description of filters";

/// What the fields behind the header are, in the bytes of a writer that keeps to the format.
const FIELDS: &str = "sections that end below 2^64, at most 63 extractors and one for ranges with names in UTF-8, keys \
                      of which the second is not below the first, and nothing beyond them";

/// What a file's filters are: where their bytes are, which keys and parts of keys they hold, and the checksums that
/// they must have.
///
/// [`FileFilterBuilder`](super::FileFilterBuilder) makes it. Keep its [encoded](Self::encode) bytes where the
/// engine lists its files. They are 48, and 28 for each filter. To these come the smallest and the largest key, the
/// ends of what range tombstones delete, the name of each extractor with 5 bytes, and for some of them one more key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterMetadata {
    pub(crate) file: FileId,
    pub(crate) hash: HashIdentity,
    /// Check of the hash, from the known keys.
    pub(crate) hash_check: u32,
    pub(crate) whole_keys: bool,
    /// The names of the point filter's extractors, each with its check.
    pub(crate) extractors: Vec<(String, u32)>,
    /// Name and check of the range filter's extractor.
    pub(crate) range_extractor: Option<(String, u32)>,
    pub(crate) bounds: KeyBounds,
    pub(crate) keys_added: u64,
    /// The smallest and the largest key that range tombstones delete.
    pub(crate) range_tombstones: KeyBounds,
    /// For each extractor of whose parts neither the smallest nor the largest key has one, the first key that has.
    pub(crate) witnesses: Vec<Box<[u8]>>,
    pub(crate) sections: Vec<FilterSection>,
}

/// Where a filter is among the filter bytes of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilterSection {
    /// What it is.
    pub part: FilterPart,
    /// The kind of filter; that of the first partition that has one.
    pub kind: KindId,
    /// Its first byte.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
    /// Bytes at its end that hold the top index; 0 of a filter in one block.
    pub index_bytes: u32,
    /// CRC32C of its bytes, of partitions of the top index, without the last four.
    pub checksum: u32,
}

/// What a section of filter bytes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterPart {
    /// A filter for lookups, in one block.
    Points,
    /// A filter for lookups, in partitions.
    PartitionedPoints,
    /// A filter for scans.
    Ranges,
}

impl FilterPart {
    const ALL: [Self; 3] = [Self::Points, Self::PartitionedPoints, Self::Ranges];

    const fn code(self) -> u8 {
        self as u8 + 1
    }
}

impl FilterSection {
    /// `None` for a section of an unknown type.
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

    /// Where all of it is, among the filter bytes.
    #[must_use]
    pub const fn range(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.bytes)
    }

    /// Compares the checksum of what was read: all of a filter in one block, the top index of one in partitions.
    pub(crate) fn check(&self, bytes: &[u8]) -> Result<(), FilterProblem> {
        self.check_sum(checksum_without_last(bytes))
    }

    pub(crate) const fn check_sum(&self, got: u32) -> Result<(), FilterProblem> {
        let expected = self.checksum;
        if expected == got { Ok(()) } else { Err(FilterProblem::Checksum { what: "filter", expected, got }) }
    }

    /// Where the top index is, at the end of partitions; empty for a filter in one block.
    #[must_use]
    pub fn index_range(&self) -> Range<u64> {
        let end = self.range().end;
        end.saturating_sub(self.index_bytes.into())..end
    }
}

/// The smallest and the largest of the keys that a file has, or that its range tombstones delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum KeyBounds {
    /// Every key may be among them.
    #[default]
    Unknown,
    /// There are no keys.
    Empty,
    /// The first is not above the second.
    Keys([Box<[u8]>; 2]),
}

impl KeyBounds {
    /// The two keys, if they are known and there are any.
    pub(crate) fn keys(&self) -> Option<[&[u8]; 2]> {
        match self {
            Self::Keys(keys) => Some(keys.each_ref().map(AsRef::as_ref)),
            Self::Unknown | Self::Empty => None,
        }
    }

    /// Widens the bounds to include `key`. Returns whether it is now the smallest key, and whether it is the largest.
    pub(crate) fn include(&mut self, key: &[u8]) -> [bool; 2] {
        let Self::Keys([smallest, largest]) = self else {
            *self = Self::Keys([key.into(), key.into()]);
            return [true; 2];
        };
        let is_end = [key < &smallest[..], key > &largest[..]];
        for (end, _) in [smallest, largest].into_iter().zip(is_end).filter(|(_, is_end)| *is_end) {
            *end = key.into();
        }
        is_end
    }

    /// Whether `key` may lie within them.
    #[inline]
    pub(crate) fn hold(&self, key: &[u8]) -> bool {
        match self {
            Self::Unknown => true,
            Self::Empty => false,
            Self::Keys([smallest, largest]) => &smallest[..] <= key && key <= &largest[..],
        }
    }

    /// Whether a key in `range` may lie within them.
    pub(crate) fn overlap(&self, range: KeyRange<'_>) -> bool {
        let Self::Keys([smallest, largest]) = self else { return *self == Self::Unknown && !range.is_empty() };
        let from_smallest = KeyRange { lower: Included(smallest), ..range };
        let to_largest = KeyRange { upper: Included(largest), ..range };
        !range.is_empty() && !from_smallest.is_empty() && !to_largest.is_empty()
    }
}

impl From<KeyRange<'_>> for KeyBounds {
    /// Those of a file all of whose keys are in the range. An end that is not the key itself is not known.
    fn from(range: KeyRange<'_>) -> Self {
        let key = |bound| match bound {
            Included(key) | Excluded(key) => Some(key),
            Unbounded => None,
        };
        match (key(range.lower), key(range.upper)) {
            // In an order of the engine's own: what lies between is not known.
            (Some(lower), Some(upper)) if lower > upper => Self::Unknown,
            _ if range.is_empty() => Self::Empty,
            // A bound that no key has is as good as one that some key has: it only has to enclose all keys.
            (Some(lower), Some(upper)) => Self::Keys([lower.into(), upper.into()]),
            _ => Self::Unknown,
        }
    }
}

/// The check of a hash: of the hashes of the known keys.
pub(crate) fn check_of_hashes(hashes: impl IntoIterator<Item = KeyHash>) -> u32 {
    hashes.into_iter().fold(0, |sum, hash| checksum_append(sum, &hash.get().to_le_bytes()))
}

/// The check of an extractor and the known keys.
pub(crate) fn check_of_extractor(extractor: &dyn KeyExtractor, known: &[&[u8]]) -> u32 {
    known.iter().fold(0, |sum, key| match extractor.extract(key) {
        Some(part) => checksum_append(checksum_append(sum, &(part.len() as u64 + 1).to_le_bytes()), &part),
        None => checksum_append(sum, &[0]),
    })
}

/// That of a file without keys, whose keys are hashed by the default hasher.
impl Default for FilterMetadata {
    fn default() -> Self {
        Self::without_filters(KeyHasher::default().identity(), KeyBounds::Empty)
    }
}

impl FilterMetadata {
    /// That of a file of these bounds of whose filters nothing is known.
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
            range_tombstones: KeyBounds::Empty,
            witnesses: Vec::new(),
            sections: Vec::new(),
        }
    }

    /// The bytes to be kept.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.encode_covered();
        out.put_u32_le(checksum(&out));
        out
    }

    /// The bytes without their checksum, for a block of the engine's that has one: a CRC32C over bytes that end with
    /// their own is the same for all bytes of one length.
    #[must_use]
    pub fn encode_covered(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(160);
        let spans = [self.bounds.keys(), self.range_tombstones.keys()];
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
            // The builder has left out names that are longer.
            out.put_u8(u8::try_from(name.len()).unwrap_or(u8::MAX));
            out.put_slice(name.as_bytes());
            out.put_u32_le(*check);
        }
        for key in spans.into_iter().flatten().flatten().chain(self.witnesses.iter().map(AsRef::as_ref)) {
            put_item(&mut out, key);
        }
        out
    }

    /// The description in `bytes`, exactly these.
    ///
    /// # Errors
    ///
    /// [`FilterProblem`] when the bytes are damaged, of a later version, or contradict each other. The engine then
    /// opens the file [without filters](super::FilterStore::open_unfiltered).
    pub fn decode(bytes: &[u8]) -> Result<Self, FilterProblem> {
        let (covered, stored) = bytes.split_last_chunk().ok_or_else(|| too_short(bytes))?;
        header_of(covered)?;
        let (expected, got) = (u32::from_le_bytes(*stored), checksum(covered));
        if expected != got {
            return Err(FilterProblem::Checksum { what: WHAT, expected, got });
        }
        Self::decode_covered(covered)
    }

    /// The description in bytes of [`encode_covered`](Self::encode_covered), after the checksum of the block that they
    /// were in.
    ///
    /// # Errors
    ///
    /// Those of [`decode`](Self::decode), but for a wrong checksum.
    pub fn decode_covered(bytes: &[u8]) -> Result<Self, FilterProblem> {
        let header = header_of(bytes)?;
        let (expected, got) = (VERSION.into(), header.u8::<4>().into());
        if expected != got {
            return Err(FilterProblem::Version { what: WHAT, expected, got });
        }
        let header_bytes = header.u16::<6>();
        let mut rest =
            Cursor(bytes.get(header_bytes.into()..).filter(|_| header_bytes >= HEADER_BYTES).ok_or_else(|| {
                refused("header bytes of a description of filters", "44 or more, and not beyond its end", &header_bytes)
            })?);
        let decoded = Self::decode_fields(header, &mut rest).filter(|_| rest.0.is_empty());
        decoded.ok_or_else(|| refused(WHAT, FIELDS, &format!("others in front of byte {}", bytes.len() - rest.0.len())))
    }

    /// `None` for fields that no writer writes, or that end outside of the bytes.
    fn decode_fields(header: Header<'_>, rest: &mut Cursor<'_>) -> Option<Self> {
        let (flags, [sections, extractors, ranges, witnesses]) = (header.u8::<5>(), header.array::<25, 4>());
        let sections = (0..sections).map(|_| rest.fields()).collect::<Option<Vec<_>>>()?;
        let sections: Vec<_> = sections.into_iter().filter_map(FilterSection::decode).collect();
        let is_countable = usize::from(extractors) <= KeyParts::MAX_EXTRACTORS && ranges <= 1;
        if !is_countable || !sections.iter().all(FilterSection::is_inside_file) {
            return None;
        }
        let mut extractors = (0..extractors + ranges).map(|_| extractor(rest)).collect::<Option<Vec<_>>>()?;
        let mut bounds = |has_keys: u8| if flags & has_keys != 0 { bounds(rest) } else { Some(KeyBounds::Empty) };
        let (bounds, range_tombstones) = (bounds(HAS_KEYS)?, bounds(HAS_RANGE_TOMBSTONES)?);
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
            range_tombstones,
            witnesses: (0..witnesses).map(|_| rest.item().map(Box::from)).collect::<Option<_>>()?,
            sections,
        })
    }

    /// The id that the filters are bound to.
    #[must_use]
    pub const fn file_id(&self) -> FileId {
        self.file
    }

    /// The hash that the filters were built with.
    #[must_use]
    pub const fn hash_identity(&self) -> HashIdentity {
        self.hash
    }

    /// What of each key the point filter holds, for people: `whole keys, 'fixed-prefix:4'`, or `none`.
    #[must_use]
    pub fn key_parts(&self) -> String {
        let whole = self.whole_keys.then(|| "whole keys".to_owned());
        let parts: Vec<_> = whole.into_iter().chain(self.extractors().map(|name| format!("'{name}'"))).collect();
        if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
    }

    /// Whether the point filter holds whole keys.
    #[must_use]
    pub const fn has_whole_keys(&self) -> bool {
        self.whole_keys
    }

    /// Names of the extractors whose parts of keys the point filter holds.
    #[must_use]
    pub fn extractors(&self) -> impl ExactSizeIterator<Item = &str> {
        self.extractors.iter().map(|(name, _)| &**name)
    }

    /// Name of the extractor of the prefixes that ranges of the range filter are inside of, if it has one.
    #[must_use]
    pub fn range_extractor(&self) -> Option<&str> {
        self.range_extractor.as_ref().map(|(name, _)| &**name)
    }

    /// The smallest and the largest key; `None` of a file without keys, or whose keys are not known.
    #[must_use]
    pub fn key_bounds(&self) -> Option<(&[u8], &[u8])> {
        self.bounds.keys().map(|[smallest, largest]| (smallest, largest))
    }

    /// Keys that were added, repetitions included.
    #[must_use]
    pub const fn keys_added(&self) -> u64 {
        self.keys_added
    }

    /// The filters, and where they are.
    #[must_use]
    pub fn sections(&self) -> &[FilterSection] {
        &self.sections
    }

    /// Keys that the file has, by which it shows whether a hash or an extractor has changed.
    pub(crate) fn known_keys(&self) -> Vec<&[u8]> {
        self.bounds.keys().into_iter().flatten().chain(self.witnesses.iter().map(AsRef::as_ref)).collect()
    }

    /// The section of the point filter.
    #[must_use]
    pub fn points(&self) -> Option<&FilterSection> {
        self.sections.iter().find(|section| section.part != FilterPart::Ranges)
    }

    /// The section of the range filter.
    #[must_use]
    pub fn ranges(&self) -> Option<&FilterSection> {
        self.sections.iter().find(|section| section.part == FilterPart::Ranges)
    }
}

/// At most 63 extractors and three sections.
fn count<T>(items: &[T]) -> u8 {
    u8::try_from(items.len()).unwrap_or(u8::MAX)
}

fn too_short(bytes: &[u8]) -> FilterProblem {
    FilterProblem::Length { what: WHAT, expected: u64::from(HEADER_BYTES) + 4, got: bytes.len() as u64 }
}

/// The header of bytes without their checksum, if they are as long as one, and begin like one.
fn header_of(covered: &[u8]) -> Result<Header<'_>, FilterProblem> {
    match covered.first_chunk() {
        Some(&magic) if magic != MAGIC => {
            Err(refused("magic bytes of a description of filters", "SFMD", &magic.escape_ascii()))
        }
        _ => Cursor(covered).fields().ok_or_else(|| too_short(covered)),
    }
}

pub(super) fn refused(what: &'static str, expected: &'static str, got: &impl ToString) -> FilterProblem {
    FilterProblem::Field { what, expected, got: got.to_string() }
}

/// An extractor's name and its check.
fn extractor(rest: &mut Cursor<'_>) -> Option<(String, u32)> {
    let name_bytes = rest.fields::<1>()?.u8::<0>();
    let name = core::str::from_utf8(rest.bytes(name_bytes.into())?).ok()?;
    Some((name.to_owned(), rest.fields::<4>()?.u32::<0>()))
}

fn bounds(rest: &mut Cursor<'_>) -> Option<KeyBounds> {
    let (smallest, largest) = (rest.item()?, rest.item()?);
    (smallest <= largest).then(|| KeyBounds::Keys([smallest.into(), largest.into()]))
}
