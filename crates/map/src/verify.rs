//! Verifies a whole map, page by page: checksums, and the structure that lookups rely on.

use core::ops::Range;
use std::borrow::Cow;
use std::io;

use crate::error::MapError;
use crate::index::{Covered, MapIndex};
use crate::list::{ListIds, TailCursor, checked_list, encode_ids};
use crate::page::{ListPlace, Page, PageTrailer, State};
use crate::shape::{Place, Prefixes};

/// What a verification found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MapVerification {
    /// Pages that are sound, and have entries or are rightly empty.
    pub sound_pages: u64,
    /// Pages that are damaged, or have a list or an outgrown page that is. Every covered file may have their keys.
    pub damaged_pages: u64,
    /// Pages that are sound, but whose entries are lost: every covered file may have their keys.
    pub unknown_pages: u64,
    /// Sound pages whose entries are in the tail.
    pub outgrown_pages: u64,
    /// Lines of sound pages that had too many entries: every covered file may have their keys.
    pub overflowed_lines: u64,
    /// Lists of sound pages.
    pub lists: u64,
    /// Entries of sound pages.
    pub entries: u64,
}

impl MapIndex {
    /// Reads all pages of the map, with their lists and outgrown pages, and calls `problem` for each that is damaged.
    /// `read` returns the bytes of a range of the map. Memory holds one page, and 8 bytes for each covered file.
    ///
    /// Beyond checksums it checks what a writer guarantees: that lines count the fields before them, that fields ascend
    /// and name covered files, that each list belongs to a field, and that the pages have as many entries of each file
    /// as the table of covered files says.
    ///
    /// # Errors
    ///
    /// Those of `read`.
    pub fn verify<'a>(
        &self,
        mut read: impl FnMut(Range<u64>) -> io::Result<Cow<'a, [u8]>>,
        mut problem: impl FnMut(MapError),
    ) -> io::Result<MapVerification> {
        let mut found = MapVerification::default();
        let mut counts = vec![0; self.shape.files as usize];
        let (prefixes, mut tail) = (self.shape.prefixes(), TailCursor::new(self.tail_bytes));
        for page in 0..self.pages() {
            let mut pages = Pages { index: self, read: &mut read, counts: &mut counts, prefixes: &prefixes, page };
            match pages.verify(&mut found, &mut tail)? {
                Ok(()) => {}
                Err(error) => {
                    found.damaged_pages += 1;
                    problem(error);
                }
            }
        }
        let is_complete = [found.damaged_pages, found.unknown_pages, found.overflowed_lines] == [0; 3];
        if let Covered::Writes(_) = self.covered
            && (found.entries > self.entries() || (is_complete && found.entries < self.entries()))
        {
            let (field, expected) = ("entries", "those of its pages");
            problem(MapError::Field { field, expected, got: self.entries() });
        }
        for (covered, got) in self.files().iter().zip(counts) {
            // The entries of damaged and unknown pages and overflowed lines are missing.
            if got > covered.entries || (is_complete && got < covered.entries) {
                let (fingerprint, expected) = (covered.file.fingerprint(), covered.entries);
                problem(MapError::Entries { fingerprint, expected, got });
            }
        }
        Ok(found)
    }
}

/// The verification of one page.
struct Pages<'v, R> {
    index: &'v MapIndex,
    read: &'v mut R,
    /// For each local id, its entries so far.
    counts: &'v mut [u64],
    prefixes: &'v Prefixes,
    page: u64,
}

impl<'a, R: FnMut(Range<u64>) -> io::Result<Cow<'a, [u8]>>> Pages<'_, R> {
    fn damaged(&self, what: &'static str) -> MapError {
        MapError::Damaged { page: self.page, what }
    }

    /// Verifies the page, and adds it to `found` if it is sound.
    fn verify(&mut self, found: &mut MapVerification, tail: &mut TailCursor) -> io::Result<Result<(), MapError>> {
        let bytes = (self.read)(self.index.page_range(self.page))?;
        let trailer = match self.index.check(&bytes, self.page) {
            Ok(trailer) => trailer,
            Err(error) => return Ok(Err(error)),
        };
        let entries = match trailer.state {
            State::Unknown => {
                found.unknown_pages += 1;
                return Ok(Ok(()));
            }
            State::Whole => self.verify_entries(&bytes, trailer, tail)?,
            State::Outgrown => self.verify_outgrown(&bytes, tail)?,
        };
        Ok(entries.map(|[entries, lists, overflowed_lines]| {
            found.sound_pages += 1;
            found.outgrown_pages += u64::from(trailer.state == State::Outgrown);
            found.overflowed_lines += overflowed_lines;
            found.lists += lists;
            found.entries += entries;
        }))
    }

    fn verify_outgrown(&mut self, stub: &[u8], tail: &mut TailCursor) -> io::Result<Result<[u64; 3], MapError>> {
        let elsewhere = Page { bytes: stub, shape: &self.index.shape }.elsewhere();
        let place = |place @ (offset, bytes)| tail.pass_outgrown(place).zip(self.index.tail_range(offset, bytes));
        let Some((mut lists, range)) = elsewhere.and_then(place) else {
            return Ok(Err(self.damaged("its entries are not in the tail")));
        };
        let bytes = (self.read)(range)?;
        match self.index.check(&bytes, self.page) {
            Ok(trailer) if trailer.state == State::Whole => self.verify_entries(&bytes, trailer, &mut lists),
            Ok(_) => Ok(Err(self.damaged("its entries are outgrown twice"))),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Verifies the entries of a page whose checksum was compared. Returns the numbers of entries, of lists, and of
    /// lines that have overflowed.
    fn verify_entries(
        &mut self,
        bytes: &[u8],
        trailer: PageTrailer,
        tail: &mut TailCursor,
    ) -> io::Result<Result<[u64; 3], MapError>> {
        let shape = &self.index.shape;
        let page = Page { bytes, shape };
        let (mut next, mut entries) = (0, 0);
        let mut lists = page.list_places().map(|place| (place, tail.pass(place.offset, place.bytes.into())));
        for line in (0..shape.lines).filter(|line| !page.has_overflowed(*line)) {
            let (mut wrong, mut before) = (None, None);
            let is_whole = page.for_each_entry(line, |quotient, field| {
                // The first entry of a line is where the line's rank says.
                if field != next {
                    return Ok(false);
                }
                next += 1;
                match self.verify_entry(page, (line, quotient, field), &mut before, &mut lists)? {
                    Ok(files) => entries += files,
                    Err(what) => wrong = Some(what),
                }
                Ok::<_, io::Error>(wrong.is_none())
            })?;
            if !is_whole {
                return Ok(Err(self.damaged(wrong.unwrap_or("the runs of a line are not its fields"))));
            }
        }
        let is_complete = next == u64::from(trailer.fields) && lists.next().is_none();
        Ok(if is_complete {
            Ok([entries, trailer.lists.into(), page.overflowed_lines()])
        } else {
            Err(self.damaged("it has fields or lists that no line leads to"))
        })
    }

    /// Verifies an entry of a line, at `(line, quotient, number of the field)`. `before` is the quotient and the field
    /// of the entry before it in the line. Returns the number of its files, or what is wrong.
    fn verify_entry(
        &mut self,
        page: Page<'_>,
        (line, quotient, number): (u64, u8, u64),
        before: &mut Option<(u8, u64)>,
        lists: &mut impl Iterator<Item = (ListPlace, bool)>,
    ) -> io::Result<Result<u64, &'static str>> {
        let (radix, files) = (self.index.shape.radix(), u64::from(self.index.shape.files));
        let field = page.field(number);
        let (low, id) = (field / radix, field % radix);
        let (of_run, is_of_key) = match before.replace((quotient, field)) {
            Some((run, before)) if run == quotient => (before < field, before / radix == low),
            _ => (true, false),
        };
        if !of_run {
            return Ok(Err("its fields do not ascend"));
        }
        if self.prefixes.of(Place { page: self.page, line, quotient, low }).is_none() {
            return Ok(Err("a field of it is that of no hash"));
        }
        if id < files {
            self.count(id);
            return Ok(Ok(1));
        }
        // A key with a list has no other field; one after the list would not ascend.
        let of_field = lists.next().filter(|(list, _)| u64::from(list.field) == number && !is_of_key);
        let Some((place, is_next)) = of_field else { return Ok(Err("a list of it is missing")) };
        if !is_next {
            return Ok(Err("a list of it is not behind the one before"));
        }
        Ok(self.verify_list(place)?.ok_or("a list of it is damaged"))
    }

    fn count(&mut self, id: u64) {
        if let Some(count) = self.counts.get_mut(id as usize) {
            *count += 1;
        }
    }

    /// Returns the number of the list's files; `None` if it is damaged.
    fn verify_list(&mut self, place: ListPlace) -> io::Result<Option<u64>> {
        let Some(range) = self.index.tail_range(place.offset, place.bytes.into()) else { return Ok(None) };
        let bytes = (self.read)(range)?;
        let Some(list) = checked_list(&bytes, self.index.map, place.offset) else { return Ok(None) };
        let ids: Vec<u32> = ListIds::new(list).take_while(|id| *id < self.index.shape.files).collect();
        // Not equal if there are bytes after the last id, or ids of no file.
        if ids.is_empty() || encode_ids(&ids) != list {
            return Ok(None);
        }
        ids.iter().for_each(|&id| self.count(id.into()));
        Ok(Some(ids.len() as u64))
    }
}
