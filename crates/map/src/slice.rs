//! Slices of maps: what several processes write that share a build or a merge. The end of a slice is that of the map,
//! and a footer that says which slice it is.

use core::fmt;
use core::ops::Range;

use sstfilter::internal::Ending;
use sstfilter::{BlockError, ConfigError, FileId};

use crate::error::{MapError, number_text};
use crate::index::{CoveredFile, END_BYTES, MapIndex, SLICE_MAGIC};
use crate::writes::Writes;

/// One of several parts of a map, cut between pages. Several processes each write one, and
/// [`MapJoin`](crate::MapJoin) makes the map of them.
///
/// Slice `i` of `n` has the pages from `ceil(pages * i / n)` to `ceil(pages * (i + 1) / n)`. If a map has fewer pages
/// than slices, some slices have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    number: u32,
    slices: u32,
}

impl Slice {
    /// Returns slice `number`, counted from 0, of `slices`.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] if `number` is not below `slices`.
    pub fn new(number: u32, slices: u32) -> Result<Self, ConfigError> {
        if number < slices {
            return Ok(Self { number, slices });
        }
        let (option, expected) = ("number of a slice", "less than the number of slices");
        Err(ConfigError::OutOfRange { option, expected, got: number.into() })
    }

    /// Returns the number, counted from 0.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.number
    }

    /// Returns the number of slices of the map.
    #[must_use]
    pub const fn slices(self) -> u32 {
        self.slices
    }

    /// Returns the slice after this one; `None` after the last one.
    pub(crate) fn next(self) -> Option<Self> {
        Self::new(self.number + 1, self.slices).ok()
    }

    /// Returns the slice's pages, of a map with this many.
    pub(crate) fn pages(self, pages: u64) -> Range<u64> {
        let border = |number: u64| (u128::from(pages) * u128::from(number)).div_ceil(u128::from(self.slices)) as u64;
        border(self.number.into())..border(u64::from(self.number) + 1)
    }
}

impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.slices)
    }
}

/// The newest version, which the writer always writes.
const VERSION: u8 = 1;

/// Bytes after the end of the map.
const FOOTER_BYTES: usize = 16;

const CHECKSUM_BYTES: usize = 4;

/// Turns the end of a map into that of the slice.
pub(crate) fn append_footer(slice: Slice, end: &mut Vec<u8>) {
    end.extend_from_slice(&slice.number().to_le_bytes());
    end.extend_from_slice(&slice.slices().to_le_bytes());
    end.extend_from_slice(&[0, VERSION]);
    end.extend_from_slice(&SLICE_MAGIC.to_le_bytes());
    end.extend_from_slice(&[0; CHECKSUM_BYTES]);
    let checksum = checksum(end);
    if let (Some(stored), Some(checksum)) = (end.last_chunk_mut(), checksum) {
        *stored = checksum.to_le_bytes();
    }
}

/// The checksum at the end of a slice; `None` if there are too few bytes.
fn checksum(end: &[u8]) -> Option<u32> {
    let (_, own) =
        end.split_last_chunk::<{ END_BYTES + FOOTER_BYTES }>().map(|(before, own)| (before, own.as_slice()))?;
    let (of_map, footer) = own.split_at_checked(END_BYTES)?;
    // Without the map's own checksum: the CRC of bytes and their CRC is the same for all bytes.
    let of_map = of_map.split_last_chunk::<CHECKSUM_BYTES>()?.0;
    let footer = footer.split_last_chunk::<CHECKSUM_BYTES>()?.0;
    Some(crc32c::crc32c_append(crc32c::crc32c(of_map), footer))
}

/// The end of a slice without its pages, for [`MapJoin`](crate::MapJoin). It answers no lookup.
#[derive(Clone, Debug)]
pub struct SliceIndex {
    slice: Slice,
    /// That of the map, with the tail of the slice.
    pub(crate) map: MapIndex,
}

impl SliceIndex {
    /// Bytes at the end of a slice that say how many more [`load`](Self::load) needs.
    pub const MIN_END_BYTES: usize = END_BYTES + FOOTER_BYTES;

    /// Returns how many of a slice's last bytes [`load`](Self::load) needs. Pass its last
    /// [`MIN_END_BYTES`](Self::MIN_END_BYTES), or more.
    ///
    /// # Errors
    ///
    /// The bytes are not the end of a slice.
    pub fn end_bytes(end: &[u8]) -> Result<u64, MapError> {
        let (_, of_map) = checked_footer(end)?;
        Ok(MapIndex::end_bytes(of_map)? + FOOTER_BYTES as u64)
    }

    /// Loads the index from the last bytes of a slice of `slice_bytes` bytes.
    ///
    /// # Errors
    ///
    /// The bytes are damaged, or not the end of a slice.
    pub fn load(end: &[u8], slice_bytes: u64) -> Result<Self, MapError> {
        let (slice, of_map) = checked_footer(end)?;
        let own_pages = |pages| slice.pages(pages).end - slice.pages(pages).start;
        let map = MapIndex::load_with(of_map, slice_bytes.saturating_sub(FOOTER_BYTES as u64), own_pages)?;
        Ok(Self { slice, map })
    }

    /// Returns which slice it is.
    #[must_use]
    pub const fn slice(&self) -> Slice {
        self.slice
    }

    /// Returns the map's own id.
    pub const fn map_id(&self) -> FileId {
        self.map.map_id()
    }

    /// Returns the pages of the slice.
    #[must_use]
    pub fn pages(&self) -> Range<u64> {
        self.slice.pages(self.map.pages())
    }

    /// Returns where bytes of the map, its pages of the slice or the slice's tail, are in the slice.
    pub(crate) fn in_slice(&self, range: Range<u64>) -> Range<u64> {
        let own = self.pages();
        let is_tail = range.start >= self.map.tail_start();
        let missing_pages = if is_tail { self.map.pages() - (own.end - own.start) } else { own.start };
        let missing = self.map.page_range(missing_pages).start;
        range.start - missing..range.end - missing
    }

    /// Fails if another slice is one of another map.
    pub(crate) fn ensure_same_map(&self, other: &Self) -> Result<(), MapError> {
        let mut pairs = numbers(&self.map).zip(numbers(&other.map));
        let Some(((field, expected), (_, got))) = pairs.find(|(one, other)| one != other) else { return Ok(()) };
        let what = format!("slice {} of another file map than the first slice: {field}", other.slice);
        Err(MapError::mismatch(what, number_text(expected), number_text(got)))
    }
}

/// Everything in the end of a map that its slices have in common, with its name.
fn numbers(map: &MapIndex) -> impl Iterator<Item = (&'static str, u64)> {
    let (shape, hash) = (map.shape, map.hash_identity());
    let fixed = [
        ("the map's id", map.map.fingerprint()),
        ("the code of the hash", hash.id.code().into()),
        ("the seed of the hash", hash.seed),
        ("bits of a hash", shape.prefix_bits.into()),
        ("covered files", shape.files.into()),
        ("covered files that are not writes", map.files().len() as u64),
        ("entries", map.entries()),
        ("page bits", shape.page_bits.into()),
        ("pages", shape.pages),
        ("lines of a page", shape.lines),
        ("field bits", shape.field_bits.into()),
    ];
    let of_file = |covered: &CoveredFile| {
        [("the id of a covered file", covered.file.fingerprint()), ("entries of a covered file", covered.entries)]
    };
    let of_writes = |writes: &Writes| {
        [("first of covered writes", writes.first().get()), ("last of covered writes", writes.last().get())]
    };
    let covered = map.files().iter().flat_map(of_file).chain(map.writes().iter().flat_map(of_writes));
    fixed.into_iter().chain(covered)
}

/// Checks the last bytes of a slice, and returns which one it is, and the end of the map before them.
fn checked_footer(end: &[u8]) -> Result<(Slice, &[u8]), MapError> {
    let other_magic = |got| MapError::magic("not a slice of a file map", SLICE_MAGIC, got);
    let (footer, flags) = Ending::fields(end, (SLICE_MAGIC, VERSION), other_magic)?;
    BlockError::require(flags == 0, "flags of a slice", "0", flags >> 4)?;
    let too_short = BlockError::TooShort { expected: (END_BYTES + FOOTER_BYTES) as u64, got: end.len() as u64 };
    let (expected, got) = (footer.u32::<28>(), checksum(end).ok_or(too_short)?);
    if expected != got {
        return Err(BlockError::TrailerChecksum { expected, got }.into());
    }
    BlockError::require(footer.u8::<24>() == 0, "reserved byte of a slice", "0", footer.u8::<24>())?;
    let (number, slices) = (footer.u32::<16>(), footer.u32::<20>());
    let of_field = |_| MapError::field("number of a slice", "less than the number of slices", number);
    let slice = Slice::new(number, slices).map_err(of_field)?;
    Ok((slice, end.split_at(end.len() - FOOTER_BYTES).0))
}
