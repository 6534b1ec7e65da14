//! A page: the entries of the hashes that share their first bits.
//!
//! ```text
//! lines       64 bytes each
//! fields      field-bits each, low bits first
//! zeros
//! run ends    2 bytes each: those of lines with more than 224 entries
//! lists       16 bytes each: where the files of keys are that many files have
//! trailer, 32 bytes:
//!   0   4  fields
//!   4   4  run ends
//!   8   4  lists
//!  12   5  number of the page
//!  17   1  state: 0 whole, 1 outgrown, 2 unknown
//!  18   2  zeros
//!  20   8  fingerprint of the map's id
//!  28   4  CRC32C of all bytes before
//!
//! ```
//!
//! A line is that of the core (`sstfilter::internal::code_line`), its codes are entries, and half of all absent keys
//! end at one bit of it. A field holds the low value and the file: `low * (files + 1) + id`. The fields of a line
//! ascend within a quotient.
//!
//! The lines of a page that is *outgrown* (its entries are elsewhere) or *unknown* (they are lost) have all quotients
//! occupied and an impossible number of their first run end, so that a lookup finds out without reading the trailer
//! first. So does a single line that has *overflowed*: it would have more entries than run ends can count.

use sstfilter::internal::Fields;
use sstfilter::internal::code_line::Line;

use crate::error::MapError;
use crate::shape::{LINE_BYTES, PAGE_TRAILER_BYTES, Place, Shape};

/// Bytes of a list's place.
pub(crate) const LIST_BYTES: usize = 16;

/// The most bytes of an outgrown page. The hash of such a page is not a hash, or its keys were chosen.
pub(crate) const MAX_PAGE_BYTES: u64 = 16 << 20;

/// The most entries of a line: the positions of run ends have 16 bits.
pub(crate) const MAX_LINE_ENTRIES: u32 = 1 << 16;

/// The marks of lines without entries. The lines of one page are all outgrown, or all unknown.
pub(crate) const OUTGROWN: u32 = u32::MAX;
pub(crate) const UNKNOWN: u32 = u32::MAX - 1;
pub(crate) const OVERFLOWED: u32 = u32::MAX - 2;

const TRAILER: usize = PAGE_TRAILER_BYTES as usize;

/// Where the entries of a page are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Whole = 0,
    Outgrown = 1,
    Unknown = 2,
}

/// The decoded end of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageTrailer {
    pub(crate) fields: u32,
    pub(crate) run_ends: u32,
    pub(crate) lists: u32,
    pub(crate) page: u64,
    pub(crate) state: State,
    /// The fingerprint of the map's id.
    pub(crate) map: u64,
}

impl PageTrailer {
    /// Appends everything but the checksum, which covers the page.
    pub(crate) fn encode(&self) -> [u8; TRAILER - 4] {
        let mut out = [0; TRAILER - 4];
        let fields = [
            &self.fields.to_le_bytes()[..],
            &self.run_ends.to_le_bytes(),
            &self.lists.to_le_bytes(),
            &self.page.to_le_bytes()[..5],
            &[self.state as u8, 0, 0],
            &self.map.to_le_bytes(),
        ];
        out.copy_from_slice(&fields.concat());
        out
    }

    /// Checks a page's bytes, and returns its trailer: it must be page `page` of the map.
    pub(crate) fn check(bytes: &[u8], shape: &Shape, map: u64, page: u64) -> Result<Self, MapError> {
        let damaged = |what| MapError::Damaged { page, what };
        let (_, trailer) = Fields::<TRAILER>::at_end_of(bytes).ok_or(damaged("too short"))?;
        let stored = trailer.u32::<28>();
        if bytes.split_last_chunk::<4>().map(|(covered, _)| crc32c::crc32c(covered)) != Some(stored) {
            return Err(damaged("its checksum differs"));
        }
        let state = match trailer.u8::<17>() {
            0 => State::Whole,
            1 => State::Outgrown,
            2 => State::Unknown,
            _ => return Err(damaged("its state is none of 0 to 2")),
        };
        let found = Self {
            fields: trailer.u32::<0>(),
            run_ends: trailer.u32::<4>(),
            lists: trailer.u32::<8>(),
            page: trailer.uint::<12, 5>(),
            state,
            map: trailer.u64::<20>(),
        };
        if found.map != map {
            return Err(damaged("it is a page of another map"));
        }
        if found.page != page {
            return Err(damaged("it is another page of the map"));
        }
        if trailer.u16::<18>() != 0 || found.bytes(shape) > bytes.len() as u64 {
            return Err(damaged("its fields do not fit"));
        }
        if !(Page { bytes, shape }).has_lines_of(state) {
            return Err(damaged("its lines and its state disagree"));
        }
        Ok(found)
    }

    /// The bytes that a page with these numbers has at least.
    pub(crate) fn bytes(&self, shape: &Shape) -> u64 {
        let field_bytes = (u64::from(self.fields) * u64::from(shape.field_bits)).div_ceil(8);
        let rest = u64::from(self.run_ends) * 2 + u64::from(self.lists) * LIST_BYTES as u64 + PAGE_TRAILER_BYTES;
        shape.lines * LINE_BYTES + field_bytes + rest
    }
}

/// The bytes of a page. Damaged ones cause wrong answers, but never a panic; so the checksum must have been compared.
///
/// Methods for rare cases take `self`: a reference would keep the page on the stack, and out of registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) shape: &'a Shape,
}

/// A list's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ListPlace {
    /// Number of the field in the page.
    pub(crate) field: u32,
    pub(crate) bytes: u32,
    /// Byte of the tail where the list begins.
    pub(crate) offset: u64,
}

impl<'a> Page<'a> {
    pub(crate) fn line_bytes(&self, line: u64) -> Option<&'a [u8; 64]> {
        self.bytes.get(line as usize * LINE_BYTES as usize..)?.first_chunk()
    }

    #[inline(always)]
    pub(crate) fn line(&self, line: u64) -> Option<Line<'a>> {
        self.line_bytes(line).map(Line::new)
    }

    fn lines(&self) -> impl Iterator<Item = Line<'a>> {
        (0..self.shape.lines).filter_map(|line| self.line(line))
    }

    /// Returns whether all lines are those of a page with this state. Lookups in memory see the lines only.
    fn has_lines_of(&self, state: State) -> bool {
        let expected = match state {
            State::Whole => OVERFLOWED,
            State::Outgrown => OUTGROWN,
            State::Unknown => UNKNOWN,
        };
        self.lines().all(|line| match mark(&line) {
            Some(mark) => mark == expected && line.runs() == 256,
            None => state == State::Whole,
        })
    }

    /// Returns whether a line had too many entries. Every covered file may have its keys.
    pub(crate) fn has_overflowed(&self, line: u64) -> bool {
        self.line(line).is_some_and(|line| mark(&line) == Some(OVERFLOWED))
    }

    pub(crate) fn overflowed_lines(&self) -> u64 {
        self.lines().filter(|line| mark(line) == Some(OVERFLOWED)).count() as u64
    }

    /// Returns field `number` of the page; 0 beyond its bytes.
    #[inline(always)]
    pub(crate) fn field(&self, number: u64) -> u64 {
        let bit = number * u64::from(self.shape.field_bits);
        let start = (self.shape.lines * LINE_BYTES + bit / 8) as usize;
        let bytes: Option<&[u8; 8]> = self.bytes.get(start..).and_then(<[u8]>::first_chunk);
        let mask = (1 << self.shape.field_bits) - 1;
        bytes.map_or(0, |&bytes| u64::from_le_bytes(bytes) >> (bit % 8) & mask)
    }

    /// Returns whether an entry has the quotient of a hash.
    #[inline(always)]
    pub(crate) fn is_occupied(&self, place: Place) -> bool {
        // A place is always inside a page, so that only a page cut short has no line.
        self.line(place.line).is_none_or(|line| line.has(place.quotient))
    }

    /// Calls `visit` for each entry of a line, with its quotient and the number of its field, until it returns false or
    /// an error. Returns false if the line is that of a page without entries, or forged, too.
    #[inline(always)]
    pub(crate) fn for_each_entry<E>(
        &self,
        line: u64,
        mut visit: impl FnMut(u8, u64) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let Some(line) = self.line(line) else { return Ok(false) };
        line.for_each_code(|number| self.run_end(number), |quotient, entry| visit(quotient, line.rank() + entry))
    }

    /// The numbers in the page's last bytes.
    fn counts(&self) -> Option<[u32; 3]> {
        let (_, trailer) = Fields::<TRAILER>::at_end_of(self.bytes)?;
        Some([trailer.u32::<0>(), trailer.u32::<4>(), trailer.u32::<8>()])
    }

    /// The bytes before the places of lists, and these.
    fn lists(&self) -> Option<(&'a [u8], &'a [[u8; LIST_BYTES]])> {
        let [_, _, lists] = self.counts()?;
        let before = self.bytes.split_last_chunk::<TRAILER>()?.0;
        let list_bytes = (lists as usize).checked_mul(LIST_BYTES)?;
        let (before, lists) = before.split_at_checked(before.len().checked_sub(list_bytes)?)?;
        Some((before, lists.as_chunks().0))
    }

    /// Returns run end `number` of the page's overfull lines, a position in its line. Marks are no such numbers.
    #[cold]
    pub(crate) fn run_end(self, number: u64) -> Option<u32> {
        let ([_, run_ends, _], (before, _)) = (self.counts()?, self.lists()?);
        let start = before.len().checked_sub((run_ends as usize).checked_mul(2)?)?;
        let own = usize::try_from(number).ok()?.checked_mul(2)?;
        let bytes = before.get(start.checked_add(own)?..)?;
        Some(u16::from_le_bytes(*bytes.first_chunk()?).into())
    }

    /// Returns the places of all lists, in the order of their fields.
    pub(crate) fn list_places(&self) -> impl Iterator<Item = ListPlace> + 'a {
        let lists = self.lists().map_or(&[][..], |(_, lists)| lists);
        lists.iter().map(|bytes| {
            let fields = Fields::of(bytes);
            ListPlace { field: fields.u32::<0>(), bytes: fields.u32::<4>(), offset: fields.u64::<8>() }
        })
    }

    pub(crate) fn list_place(self, field: u64) -> Option<ListPlace> {
        // A page has few lists, and only lookups of keys with a list come here.
        self.list_places().find(|place| u64::from(place.field) == field)
    }

    /// Returns where an outgrown page is: its first byte in the tail, and its length. `None` if no writer writes such a
    /// long one.
    pub(crate) fn elsewhere(self) -> Option<(u64, u64)> {
        let at = (self.shape.lines * LINE_BYTES) as usize;
        let fields = Fields::<16>::of(self.bytes.get(at..)?.first_chunk()?);
        (fields.u64::<8>() <= MAX_PAGE_BYTES).then_some((fields.u64::<0>(), fields.u64::<8>()))
    }
}

/// Returns why a line has no entries, if it is one without.
pub(crate) fn mark(line: &Line<'_>) -> Option<u32> {
    let start = line.overflow_start();
    (line.is_overfull() && start >= OVERFLOWED).then_some(start)
}
