//! The end of a slice: that of the map, and a footer that says which slice it is.

use core::ops::Range;

use sstfilter::internal::Ending;
use sstfilter::{BlockError, FileId};

use crate::error::MapError;
use crate::index::{CoveredFile, END_BYTES, MapIndex};
use crate::slice::{SLICE_MAGIC, Slice};
use crate::writes::Writes;

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
    /// Returns how many of a slice's last bytes [`load`](Self::load) needs. Pass its last 76 bytes, or more.
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

    /// Returns where a page is in the slice.
    pub(crate) fn page_range(&self, page: u64) -> Range<u64> {
        self.map.page_range(page - self.pages().start)
    }

    /// Returns where `bytes` bytes of the tail from `offset` on are in the slice.
    pub(crate) fn tail_range(&self, offset: u64, bytes: u64) -> Option<Range<u64>> {
        let in_map = self.map.tail_range(offset, bytes)?;
        let own = self.pages();
        let missing = self.map.page_range(self.map.pages() - (own.end - own.start)).start;
        Some(in_map.start - missing..in_map.end - missing)
    }

    /// Fails if another slice is one of another map.
    pub(crate) fn ensure_same_map(&self, other: &Self) -> Result<(), MapError> {
        let numbers = |index: &MapIndex| {
            let (shape, hash) = (index.shape, index.hash_identity());
            [
                ("the map's id", index.map.fingerprint()),
                ("the code of the hash", hash.id.code().into()),
                ("the seed of the hash", hash.seed),
                ("bits of a hash", shape.prefix_bits.into()),
                ("covered files", shape.files.into()),
                ("covered files that are not writes", index.files().len() as u64),
                ("entries", index.entries()),
                ("page bits", shape.page_bits.into()),
                ("pages", shape.pages),
                ("lines of a page", shape.lines),
                ("field bits", shape.field_bits.into()),
            ]
        };
        let of_files = |covered: &CoveredFile| {
            [("the id of a covered file", covered.file.fingerprint()), ("entries of a covered file", covered.entries)]
        };
        let of_writes = |writes: &Writes| {
            [("first of covered writes", writes.first().get()), ("last of covered writes", writes.last().get())]
        };
        let of_map = numbers(&self.map).into_iter().zip(numbers(&other.map));
        let files = self.map.files().iter().zip(other.map.files());
        let writes = self.map.writes().iter().zip(other.map.writes());
        let mut pairs = of_map
            .chain(files.flat_map(|(one, other)| of_files(one).into_iter().zip(of_files(other))))
            .chain(writes.flat_map(|(one, other)| of_writes(one).into_iter().zip(of_writes(other))));
        match pairs.find(|((_, expected), (_, got))| expected != got) {
            Some(((field, expected), (_, got))) => Err(MapError::OtherMap { slice: other.slice, field, expected, got }),
            None => Ok(()),
        }
    }
}

/// Checks the last bytes of a slice, and returns which one it is, and the end of the map before them.
fn checked_footer(end: &[u8]) -> Result<(Slice, &[u8]), MapError> {
    let (footer, flags) = Ending::fields(end, (SLICE_MAGIC, VERSION), |got| MapError::NotASlice { got })?;
    BlockError::require(flags == 0, "flags of a slice", "0", flags >> 4)?;
    let too_short = BlockError::TooShort { expected: (END_BYTES + FOOTER_BYTES) as u64, got: end.len() as u64 };
    let (expected, got) = (footer.u32::<28>(), checksum(end).ok_or(too_short)?);
    if expected != got {
        return Err(BlockError::TrailerChecksum { expected, got }.into());
    }
    BlockError::require(footer.u8::<24>() == 0, "reserved byte of a slice", "0", footer.u8::<24>())?;
    let (number, slices) = (footer.u32::<16>(), footer.u32::<20>());
    let (field, expected) = ("number of a slice", "less than the number of slices");
    let of_field = |_| MapError::Field { field, expected, got: number.into() };
    let slice = Slice::new(number, slices).map_err(of_field)?;
    Ok((slice, end.split_at(end.len() - FOOTER_BYTES).0))
}
