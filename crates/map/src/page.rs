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
//! line, 64 bytes:
//!   0  32  occupied: bit q is set if an entry has the quotient q
//!  32  28  run ends: bit i is set if entry i of the line is the last one with its quotient
//!  60   4  rank: entries of the page before the line; the high bit is set if the line has more than 224
//! ```
//!
//! The line is that of the range filter (`sstfilter-range`), and half of all absent keys end at one bit of it. A field
//! holds the low value and the file: `low * (files + 1) + id`. The fields of a line ascend within a quotient.
//!
//! The lines of a page that is *outgrown* (its entries are elsewhere) or *unknown* (they are lost) have all quotients
//! occupied and an impossible place of their run ends, so that a lookup finds out without reading the trailer first. So
//! does a single line that has *overflowed*: it would have more entries than run ends can count.

use core::hint::select_unpredictable;

use sstfilter::internal::Fields;
use sstfilter_range::internal::{Select, select};

use crate::error::MapError;
use crate::shape::{LINE_BYTES, PAGE_TRAILER_BYTES, Place, Shape};

/// Entries for which a line has bits of run ends.
pub(crate) const LINE_ENTRIES: u32 = 224;

/// Bytes of a list's place.
pub(crate) const LIST_BYTES: usize = 16;

/// The most bytes of an outgrown page. The hash of such a page is not a hash, or its keys were chosen.
pub(crate) const MAX_PAGE_BYTES: u64 = 16 << 20;

/// The high bit of a rank.
pub(crate) const OVERFULL: u32 = 1 << 31;

/// The most entries of a line: the positions of run ends have 16 bits.
pub(crate) const MAX_LINE_ENTRIES: u32 = 1 << 16;

/// The places of run ends in lines without entries. Those of one page are all outgrown, or all unknown.
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

/// The entries of one hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entries {
    /// No file has the key.
    None,
    /// Fields `first..end` of the page may be those of the hash.
    Fields { first: u64, end: u64 },
    /// They are in a page in the tail.
    Outgrown,
    /// They are lost, or were too many.
    Unknown,
}

/// The bytes of a page. Damaged ones cause wrong answers, but never a panic; so the checksum must have been compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) shape: &'a Shape,
}

/// A list's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

    fn lines(&self) -> impl Iterator<Item = Line> {
        (0..self.shape.lines).filter_map(|line| self.line_bytes(line)).map(Line::new)
    }

    /// Returns whether all lines are those of a page with this state. Lookups in memory see the lines only.
    fn has_lines_of(&self, state: State) -> bool {
        let expected = match state {
            State::Whole => OVERFLOWED,
            State::Outgrown => OUTGROWN,
            State::Unknown => UNKNOWN,
        };
        self.lines().all(|line| match line.mark() {
            Some(mark) => mark == expected && line.occupied == [u64::MAX; 4],
            None => state == State::Whole,
        })
    }

    /// Returns whether a line had too many entries. Every covered file may have its keys.
    pub(crate) fn has_overflowed(&self, line: u64) -> bool {
        self.line_bytes(line).is_some_and(|bytes| Line::new(bytes).mark() == Some(OVERFLOWED))
    }

    pub(crate) fn overflowed_lines(&self) -> u64 {
        self.lines().filter(|line| line.mark() == Some(OVERFLOWED)).count() as u64
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
        self.line_bytes(place.line).is_none_or(|line| {
            line.get(usize::from(place.quotient >> 3)).is_none_or(|byte| byte >> (place.quotient & 7) & 1 == 1)
        })
    }

    /// Returns the entries with the quotient of a hash.
    #[inline(always)]
    pub(crate) fn find<S: Select>(&self, place: Place) -> Entries {
        let Some(bytes) = self.line_bytes(place.line) else { return Entries::Unknown };
        let line = Line::new(bytes);
        if !self.is_occupied(place) {
            return Entries::None;
        }
        let before = line.runs_below(place.quotient);
        if line.is_overfull {
            return self.find_overfull(&line, before);
        }
        let last = select::<S>(&line.run_ends, before);
        // The run before ends where this one begins.
        let first = if before == 0 { 0 } else { select::<S>(&line.run_ends, before - 1) + 1 };
        Entries::Fields { first: line.rank + u64::from(first), end: line.rank + u64::from(last) + 1 }
    }

    /// Calls `visit` for each entry of a line, with its quotient and the number of its field, until it returns false or
    /// an error. Returns false if the line is that of a page without entries, or forged, too.
    #[inline(always)]
    pub(crate) fn for_each_entry<E>(
        &self,
        line: u64,
        mut visit: impl FnMut(u8, u64) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let Some(line) = self.line_bytes(line).map(Line::new) else { return Ok(false) };
        let overfull = if line.is_overfull { self.overfull_run_ends(&line) } else { Some(Vec::new()) };
        let Some(overfull) = overfull else { return Ok(false) };
        let run_ends = if line.is_overfull { &overfull } else { &line.run_ends[..] };
        let after_last = |(start, ends): (u32, &u64)| if *ends == 0 { 0 } else { start + 64 - ends.leading_zeros() };
        let entries = (0..).step_by(64).zip(run_ends).map(after_last).max().unwrap_or(0);
        let ([mut quotients, later @ ..], mut start) = (line.occupied, 0);
        let mut later = later.into_iter();
        for entry in 0..entries {
            while quotients == 0 {
                let Some(next) = later.next() else { return Ok(false) };
                (quotients, start) = (next, start + 64);
            }
            if !visit((start + quotients.trailing_zeros()) as u8, line.rank + u64::from(entry))? {
                return Ok(false);
            }
            let is_last = run_ends.get(entry as usize / 64).map_or(0, |ends| ends >> (entry % 64) & 1);
            // Clears the lowest bit after the run's last entry. A branch would be mispredicted for every third entry.
            quotients &= quotients.wrapping_sub(is_last);
        }
        Ok(quotients == 0 && later.all(|word| word == 0))
    }

    /// Returns the run ends of an overfull line as bits, as other lines have them; `None` if there are none.
    #[cold]
    fn overfull_run_ends(&self, line: &Line) -> Option<Vec<u64>> {
        if line.mark().is_some() {
            return None;
        }
        let (mut bits, mut before) = (vec![0; 1 << 10], None);
        for run in 0..line.occupied.iter().map(|word| word.count_ones()).sum() {
            let end = Some(self.run_end(line, run)?).filter(|end| before < Some(*end))?;
            *bits.get_mut(usize::from(end) / 64)? |= 1 << (end % 64);
            before = Some(end);
        }
        Some(bits)
    }

    #[cold]
    fn find_overfull(&self, line: &Line, before: u32) -> Entries {
        match line.place {
            OUTGROWN => return Entries::Outgrown,
            UNKNOWN | OVERFLOWED => return Entries::Unknown,
            _ => {}
        }
        let end = |run: u32| self.run_end(line, run).map(|last| line.rank + u64::from(last) + 1);
        let first = if before == 0 { Some(line.rank) } else { end(before - 1) };
        match (first, end(before)) {
            (Some(first), Some(end)) => Entries::Fields { first, end },
            // Only a forged page has no such run end.
            _ => Entries::Unknown,
        }
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

    /// Returns the position of the last entry of a run of an overfull line.
    fn run_end(&self, line: &Line, run: u32) -> Option<u16> {
        let ([_, run_ends, _], (before, _)) = (self.counts()?, self.lists()?);
        let start = before.len().checked_sub((run_ends as usize).checked_mul(2)?)?;
        let own = (line.place as usize).checked_add(run as usize)?.checked_mul(2)?;
        let bytes = before.get(start.checked_add(own)?..)?;
        Some(u16::from_le_bytes(*bytes.first_chunk()?))
    }

    /// Returns the places of all lists, in the order of their fields.
    pub(crate) fn list_places(&self) -> impl Iterator<Item = ListPlace> + 'a {
        let lists = self.lists().map_or(&[][..], |(_, lists)| lists);
        lists.iter().map(|bytes| {
            let fields = Fields::of(bytes);
            ListPlace { field: fields.u32::<0>(), bytes: fields.u32::<4>(), offset: fields.u64::<8>() }
        })
    }

    pub(crate) fn list_place(&self, field: u64) -> Option<ListPlace> {
        // A page has few lists, and only lookups of keys with a list come here.
        self.list_places().find(|place| u64::from(place.field) == field)
    }

    /// Returns where an outgrown page is: its first byte in the tail, and its length. `None` if no writer writes such a
    /// long one.
    pub(crate) fn elsewhere(&self) -> Option<(u64, u64)> {
        let at = (self.shape.lines * LINE_BYTES) as usize;
        let fields = Fields::<16>::of(self.bytes.get(at..)?.first_chunk()?);
        (fields.u64::<8>() <= MAX_PAGE_BYTES).then_some((fields.u64::<0>(), fields.u64::<8>()))
    }
}

/// A decoded line.
struct Line {
    occupied: [u64; 4],
    run_ends: [u64; 4],
    /// Entries of the page before the line.
    rank: u64,
    is_overfull: bool,
    /// If the line is overfull: number of its first run end, or why it has none.
    place: u32,
}

impl Line {
    #[inline(always)]
    fn new(bytes: &[u8; 64]) -> Self {
        let mut words = [0; 8];
        for (word, &bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(bytes);
        }
        let [a, b, c, d, ends @ .., last] = words;
        let [first, second, third] = ends;
        let rank = (last >> 32) as u32;
        Self {
            occupied: [a, b, c, d],
            run_ends: [first, second, third, last & u64::from(u32::MAX)],
            rank: u64::from(rank & !OVERFULL),
            is_overfull: rank & OVERFULL != 0,
            place: first as u32,
        }
    }

    /// Returns why the line has no entries, if it is one without.
    fn mark(&self) -> Option<u32> {
        (self.is_overfull && self.place >= OVERFLOWED).then_some(self.place)
    }

    /// Returns the number of occupied quotients below `quotient`.
    #[inline(always)]
    fn runs_below(&self, quotient: u8) -> u32 {
        let bits = u32::from(quotient);
        let below = |word: u64, start: u32| (word & low_mask(bits.saturating_sub(start))).count_ones();
        let [first, second, third, fourth] = self.occupied;
        below(first, 0) + below(second, 64) + below(third, 128) + below(fourth, 192)
    }
}

/// Returns a mask of the lowest `bits` bits, all 64 for more.
#[inline(always)]
fn low_mask(bits: u32) -> u64 {
    select_unpredictable(bits < 64, (1_u64 << (bits & 63)).wrapping_sub(1), u64::MAX)
}
