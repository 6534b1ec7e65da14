//! The end of a map: its numbers, and the files that it covers. Enough to find the page of any hash.

use core::cmp::Ordering;
use core::ops::Range;

use sstfilter::internal::{CheckedTail, Ending, Fields, HeldParts};
use sstfilter::{BlockError, BlockIdentity, FileId, Filters, HashIdentity, KeyHash};

use crate::error::MapError;
use crate::page::PageTrailer;
use crate::shape::Shape;
use crate::writes::{WriteId, Writes};

/// The newest version, which the writer always writes.
const VERSION: u8 = 1;

/// The bytes `SM`.
const MAGIC: u16 = 0x4d53;

/// Bytes of a covered file: its fingerprint, its entries, and zeros. Of covered writes: the first and the last.
pub(crate) const COVERED_BYTES: usize = 16;

/// Maximum number of entries, of a file and of all.
pub(crate) const MAX_ENTRIES: u64 = (1 << 40) - 1;

/// The bit of the trailer that says that the map covers writes.
const OF_WRITES: u8 = 1;

/// Bytes before the file's fingerprint: lines, pages, bytes of the tail.
const PARAM_BYTES: usize = 20;

/// Bytes after the covered files.
pub(crate) const END_BYTES: usize = PARAM_BYTES + Ending::bytes_after_parts(true);

/// A covered file's number in one map. Only [`MapIndex::local_id`] returns one, so that a file that the map does not
/// cover cannot be looked for in a map's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalId(pub(crate) u32);

impl LocalId {
    /// Returns the number, which is below [`MapIndex::files`].
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A file that a map covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CoveredFile {
    /// The file's id.
    pub file: FileId,
    /// Distinct entries of the file: its keys, but for the few that share a prefix with another one.
    pub entries: u64,
}

/// What a map covers, in the order of local ids.
#[derive(Clone, Debug)]
pub(crate) enum Covered {
    /// Ascending by fingerprint.
    Files(Box<[CoveredFile]>),
    /// Ascending, without overlap.
    Writes(Box<[Writes]>),
}

/// The end of a map without its pages, for readers that read a page when they need it.
#[derive(Clone, Debug)]
pub struct MapIndex {
    pub(crate) shape: Shape,
    pub(crate) hash: HashIdentity,
    pub(crate) map: FileId,
    pub(crate) tail_bytes: u64,
    pub(crate) entries: u64,
    pub(crate) covered: Covered,
}

impl MapIndex {
    /// Bytes at the end of a map that say how many more [`load`](Self::load) needs.
    pub const MIN_END_BYTES: usize = END_BYTES;

    /// Returns how many of a map's last bytes [`load`](Self::load) needs, for this number of covered files or writes.
    #[must_use]
    pub const fn end_bytes_of(covered: u32) -> u64 {
        covered as u64 * COVERED_BYTES as u64 + END_BYTES as u64
    }

    /// Returns how many of a map's last bytes [`load`](Self::load) needs. Pass its last
    /// [`MIN_END_BYTES`](Self::MIN_END_BYTES), or more.
    ///
    /// # Errors
    ///
    /// The bytes are not the end of a map.
    pub fn end_bytes(end: &[u8]) -> Result<u64, MapError> {
        // A damaged number of files would make the caller read, and allocate, up to 32 GiB.
        let tail = checked_tail(end)?;
        Ok(Self::end_bytes_of(tail.trailer.u32::<8>()))
    }

    /// Loads the index from the last bytes of a map of `map_bytes` bytes. The map must have been built with the hash of
    /// `filters`, and with the id `map`.
    ///
    /// # Errors
    ///
    /// The bytes are damaged, those of another map, or written with another hash. All files must then be treated as not
    /// covered.
    pub fn load(end: &[u8], map_bytes: u64, filters: &Filters, map: FileId) -> Result<Self, MapError> {
        let index = Self::load_any(end, map_bytes)?;
        let (expected, got) = (filters.hasher().identity(), index.hash);
        if expected != got {
            return Err(BlockError::HashMismatch { expected, got }.into());
        }
        if index.map != map {
            return Err(BlockError::FileMismatch { expected: Some(map), got: Some(index.map) }.into());
        }
        Ok(index)
    }

    /// Loads the index of any map, for tools that show maps, and for merges.
    ///
    /// # Errors
    ///
    /// The bytes are damaged, or not the end of a map.
    pub fn load_any(end: &[u8], map_bytes: u64) -> Result<Self, MapError> {
        let tail = checked_tail(end)?;
        let trailer = tail.trailer;
        let BlockIdentity { hash, file } = tail.identity(trailer.u8::<24>() >> 4)?;
        let coverage = trailer.u8::<24>() & 15;
        BlockError::require(coverage <= OF_WRITES, "coverage of a file map", "0 or 1", coverage)?;
        let length = |expected| MapError::Length { what: "file map", expected, got: map_bytes };
        let (before, params) = Fields::<END_BYTES>::at_end_of(end).ok_or(length(END_BYTES as u64))?;
        let (files, bits) = (trailer.u32::<8>(), (trailer.u8::<21>(), trailer.u8::<22>(), trailer.u8::<23>()));
        let shape = Shape::new(bits, files, params.u32::<0>().into(), params.u64::<4>())?;
        let tail_bytes = params.u64::<12>();
        let covered_bytes = u64::from(files) * COVERED_BYTES as u64;
        // Less than 2^61 each.
        let expected = u128::from(shape.pages << shape.page_bits)
            + u128::from(tail_bytes)
            + u128::from(covered_bytes)
            + END_BYTES as u128;
        if expected != u128::from(map_bytes) {
            return Err(length(expected.try_into().unwrap_or(u64::MAX)));
        }
        let covered = usize::try_from(covered_bytes)
            .ok()
            .and_then(|bytes| before.get(before.len().checked_sub(bytes)?..))
            .ok_or(length(covered_bytes + END_BYTES as u64))?;
        let (expected, got) = (trailer.u32::<12>(), crc32c::crc32c(covered));
        if expected != got {
            let (expected, got) = (format!("checksum {expected:#010x}"), format!("{got:#010x}"));
            return Err(MapError::mismatch("covered files of a map", expected, got));
        }
        let entries = trailer.uint::<16, { Ending::KEYS_BYTES }>();
        let map = file.unwrap_or(FileId::from_fingerprint(0));
        let covered = if coverage == OF_WRITES { decode_writes(covered)? } else { decode_files(covered, entries)? };
        // A merge writes a map of as many entries. A field has at least one bit, and an id in a list eight.
        let max_entries = 8 * (u128::from(shape.pages << shape.page_bits) + u128::from(tail_bytes));
        let expected = "at most eight for each byte of pages and tail";
        MapError::require(u128::from(entries) <= max_entries, "entries", expected, entries)?;
        Ok(Self { shape, hash, map, tail_bytes, entries, covered })
    }

    /// Returns the number of the file in this map; `None` if the map does not cover it, and says nothing about it.
    #[must_use]
    pub fn local_id(&self, file: FileId) -> Option<LocalId> {
        let found = self.files().binary_search_by_key(&file.fingerprint(), |covered| covered.file.fingerprint());
        found.ok().and_then(|index| u32::try_from(index).ok()).map(LocalId)
    }

    /// Returns how this map and an earlier one contradict each other about a file that both cover. They cannot if the
    /// file is the same: a map counts the distinct prefixes of its keys, and there are at least as many of more bits.
    pub(crate) fn contradiction(&self, earlier: &Self, file: FileId) -> Option<MapError> {
        let entries = |map: &Self| Some(map.files().get(map.local_id(file)?.index())?.entries);
        let (got, expected) = (entries(self)?, entries(earlier)?);
        let agree = match self.prefix_bits().cmp(&earlier.prefix_bits()) {
            Ordering::Less => got <= expected,
            Ordering::Equal => got == expected,
            Ordering::Greater => got >= expected,
        };
        let [map, other] = [self, earlier].map(|map| map.map.fingerprint());
        let error = MapError::Contradiction { fingerprint: file.fingerprint(), map, other: Some(other), expected, got };
        (!agree && self.hash_identity() == earlier.hash_identity()).then_some(error)
    }

    /// Returns the covered files, in the order of their local ids; none if the map covers writes.
    #[must_use]
    pub fn files(&self) -> &[CoveredFile] {
        if let Covered::Files(files) = &self.covered { files } else { &[] }
    }

    /// Returns the covered writes, in the order of their local ids; none if the map covers files. A
    /// [`WriteSet`](crate::WriteSet) says what they mean for a file.
    #[must_use]
    pub fn writes(&self) -> &[Writes] {
        if let Covered::Writes(writes) = &self.covered { writes } else { &[] }
    }

    /// Returns the number of pairs of a key and a file that has it, or writes that may have written it.
    #[must_use]
    pub const fn entries(&self) -> u64 {
        self.entries
    }

    /// Returns the hash that the map was built with.
    pub const fn hash_identity(&self) -> HashIdentity {
        self.hash
    }

    /// Returns the map's own id.
    pub const fn map_id(&self) -> FileId {
        self.map
    }

    /// Returns the bits of a hash that the map keeps. Maps are merged only if these are equal.
    #[must_use]
    pub const fn prefix_bits(&self) -> u8 {
        self.shape.prefix_bits
    }

    /// Returns the number of pages.
    #[must_use]
    pub const fn pages(&self) -> u64 {
        self.shape.pages
    }

    /// Returns the bytes of the whole map.
    #[must_use]
    pub fn map_bytes(&self) -> u64 {
        self.tail_start() + self.tail_bytes + Self::end_bytes_of(self.shape.files)
    }

    /// Returns how many files an absent key is expected to be looked for in, of all files together: two keys with equal
    /// prefixes are the same key to a map.
    #[must_use]
    pub fn expected_false_candidates(&self) -> f64 {
        self.entries as f64 / (1_u64 << self.shape.prefix_bits) as f64
    }

    /// Returns the page that has the entries of a hash.
    #[must_use]
    pub fn page_of(&self, hash: KeyHash) -> u64 {
        self.shape.place(hash.get()).page
    }

    /// Returns where a page is in the map.
    #[must_use]
    pub fn page_range(&self, page: u64) -> Range<u64> {
        page << self.shape.page_bits..(page + 1) << self.shape.page_bits
    }

    /// Encodes the end of the map.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.shape.files as usize * COVERED_BYTES + END_BYTES);
        let of_file = |covered: &CoveredFile| [covered.file.fingerprint(), covered.entries];
        let mut put = |pair: [u64; 2]| out.extend_from_slice(pair.map(u64::to_le_bytes).as_flattened());
        let coverage = match &self.covered {
            Covered::Files(files) => {
                files.iter().map(of_file).for_each(put);
                0
            }
            Covered::Writes(writes) => {
                writes.iter().for_each(|writes| put([writes.first().get(), writes.last().get()]));
                OF_WRITES
            }
        };
        let checksum = crc32c::crc32c(&out);
        let mut end = Vec::with_capacity(END_BYTES);
        end.extend_from_slice(&(self.shape.lines as u32).to_le_bytes());
        end.extend_from_slice(&self.shape.pages.to_le_bytes());
        end.extend_from_slice(&self.tail_bytes.to_le_bytes());
        let ending = Ending {
            length: self.shape.files,
            checksum,
            keys: self.entries,
            own: [
                self.shape.prefix_bits,
                self.shape.field_bits,
                self.shape.page_bits,
                self.hash.id.code() << 4 | coverage,
            ],
            version: VERSION,
            magic: MAGIC,
        };
        let identity = BlockIdentity { hash: self.hash, file: Some(self.map) };
        ending.put(&mut end, identity, HeldParts::of_field(&[]));
        out.extend_from_slice(&end);
        out
    }

    /// Checks the bytes of a page.
    pub(crate) fn check(&self, bytes: &[u8], page: u64) -> Result<PageTrailer, MapError> {
        PageTrailer::check(bytes, &self.shape, self.map.fingerprint(), page)
    }

    /// Returns where `bytes` bytes of the tail from `offset` on are in the map.
    pub(crate) fn tail_range(&self, offset: u64, bytes: u64) -> Option<Range<u64>> {
        let end = offset.checked_add(bytes).filter(|&end| end <= self.tail_bytes)?;
        Some(self.tail_start() + offset..self.tail_start() + end)
    }

    /// First byte of the tail.
    pub(crate) fn tail_start(&self) -> u64 {
        self.shape.pages << self.shape.page_bits
    }
}

/// Reads the numbers, the map's id and the trailer at the end of a map, and compares their checksum.
fn checked_tail(end: &[u8]) -> Result<CheckedTail<'_>, MapError> {
    let other_magic = |got| MapError::magic("not a file map", MAGIC, got);
    let (trailer, flags) = Ending::fields(end, (MAGIC, VERSION), other_magic)?;
    // Before the checksum, because a future flag may change what it covers.
    BlockError::require(flags == Ending::BOUND, "flags of a file map", "1", flags >> 4)?;
    Ok(CheckedTail::read(end, trailer, PARAM_BYTES)?)
}

fn decode_files(bytes: &[u8], entries: u64) -> Result<Covered, MapError> {
    let covered: Box<[CoveredFile]> = bytes
        .as_chunks::<COVERED_BYTES>()
        .0
        .iter()
        .map(|bytes| {
            let fields = Fields::of(bytes);
            CoveredFile { file: FileId::from_fingerprint(fields.u64::<0>()), entries: fields.u64::<8>() }
        })
        .collect();
    // Five bytes, and zeros that a later version may use.
    let most = covered.iter().map(|covered| covered.entries).max().unwrap_or(0);
    MapError::require(most <= MAX_ENTRIES, "entries of a covered file", "at most 2^40 - 1", most)?;
    for (one, next) in covered.iter().zip(covered.iter().skip(1)) {
        // Binary search would miss files, which is safe, but no writer writes it.
        let (one, next) = (one.file.fingerprint(), next.file.fingerprint());
        MapError::require(one < next, "covered files", "ascending fingerprints", one)?;
    }
    let sum: u128 = covered.iter().map(|covered| u128::from(covered.entries)).sum();
    MapError::require(sum == entries.into(), "entries", "the sum of those of all files", entries)?;
    Ok(Covered::Files(covered))
}

fn decode_writes(bytes: &[u8]) -> Result<Covered, MapError> {
    let mut covered = Vec::with_capacity(bytes.len() / COVERED_BYTES);
    for bytes in bytes.as_chunks::<COVERED_BYTES>().0 {
        let fields = Fields::of(bytes);
        let [first, last] = [fields.u64::<0>(), fields.u64::<8>()].map(WriteId::from_stored);
        let writes = Writes::new(first, last);
        let is_after = |writes: &Writes| covered.last().is_none_or(|before: &Writes| before.last() < writes.first());
        match writes.filter(is_after) {
            Some(writes) => covered.push(writes),
            None => return Err(overlapping(first)),
        }
    }
    Ok(Covered::Writes(covered.into()))
}

/// The error of covered writes that begin with `first`.
pub(crate) fn overlapping(first: WriteId) -> MapError {
    MapError::field("covered writes", "ascending intervals that do not overlap", first.get())
}
