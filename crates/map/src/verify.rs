//! Verifies a whole map, page by page: checksums, and the structure that lookups rely on.

use core::ops::Range;
use std::borrow::Cow;
use std::io;

use crate::error::MapError;
use crate::index::{Covered, MapIndex};
use crate::list::{ListIds, TailCursor, encode_ids};
use crate::page::{ListPlace, Page, State};
use crate::pages::{Failure, OpenPage, PageReader};
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
        read: impl FnMut(Range<u64>) -> io::Result<Cow<'a, [u8]>>,
        mut problem: impl FnMut(MapError),
    ) -> io::Result<MapVerification> {
        let (mut found, mut tail) = (MapVerification::default(), TailCursor::new(self.tail_bytes));
        let (pages, counts) = (PageReader { index: self, read }, vec![0; self.shape.files as usize]);
        let mut verifier = Verifier { pages, counts, prefixes: self.shape.prefixes(), page: 0 };
        for page in 0..self.pages() {
            verifier.page = page;
            match verifier.verify(&mut found, &mut tail) {
                Ok(()) => {}
                Err(Failure::Read(error)) => return Err(error),
                Err(Failure::Damaged(error)) => {
                    found.damaged_pages += 1;
                    problem(error);
                }
            }
        }
        let is_complete = [found.damaged_pages, found.unknown_pages, found.overflowed_lines] == [0; 3];
        if let Covered::Writes(_) = self.covered
            && (found.entries > self.entries() || (is_complete && found.entries < self.entries()))
        {
            problem(MapError::field("entries", "those of its pages", self.entries()));
        }
        for (covered, got) in self.files().iter().zip(verifier.counts) {
            // The entries of damaged and unknown pages and overflowed lines are missing.
            if got > covered.entries || (is_complete && got < covered.entries) {
                let (fingerprint, expected) = (covered.file.fingerprint(), covered.entries);
                let (what, expected) =
                    (format!("file {fingerprint:#018x} of a map"), format!("{expected} entries in its pages"));
                problem(MapError::mismatch(what, expected, got.to_string()));
            }
        }
        Ok(found)
    }
}

struct Verifier<'m, R> {
    pages: PageReader<'m, R>,
    /// For each local id, its entries so far.
    counts: Vec<u64>,
    prefixes: Prefixes,
    /// The page that is being verified.
    page: u64,
}

/// A list that a page names, and whether it is behind the list before.
type NextList = (ListPlace, bool);

impl<'a, R: FnMut(Range<u64>) -> io::Result<Cow<'a, [u8]>>> Verifier<'_, R> {
    fn damaged<T>(&self, what: &'static str) -> Result<T, Failure> {
        Err(MapError::Damaged { page: self.page, what }.into())
    }

    /// Verifies the page, and adds it to `found` if it is sound.
    fn verify(&mut self, found: &mut MapVerification, tail: &mut TailCursor) -> Result<(), Failure> {
        let (open, mut before_outgrown) = self.pages.open(self.page, |place| tail.pass_outgrown(place))?;
        if open.trailer.state == State::Unknown {
            found.unknown_pages += 1;
            return Ok(());
        }
        found.entries += self.verify_entries(&open, before_outgrown.as_mut().unwrap_or(tail))?;
        found.sound_pages += 1;
        found.outgrown_pages += u64::from(open.stub.is_some());
        found.overflowed_lines += Page { bytes: &open.bytes, shape: &self.pages.index.shape }.overflowed_lines();
        found.lists += u64::from(open.trailer.lists);
        Ok(())
    }

    /// Verifies the entries of a page, and returns how many there are.
    fn verify_entries(&mut self, open: &OpenPage<'_>, tail: &mut TailCursor) -> Result<u64, Failure> {
        let shape = &self.pages.index.shape;
        let page = Page { bytes: &open.bytes, shape };
        let (mut next, mut entries) = (0, 0);
        let mut lists = page.list_places().map(|place| (place, tail.pass(place.offset, place.bytes.into())));
        for line in (0..shape.lines).filter(|line| !page.has_overflowed(*line)) {
            let mut before = None;
            let is_whole = page.for_each_entry(line, |quotient, field| {
                // The first entry of a line is where the line's rank says.
                let is_next = field == next;
                if is_next {
                    next += 1;
                    entries += self.verify_entry(page, (line, quotient, field), &mut before, &mut lists)?;
                }
                Ok::<_, Failure>(is_next)
            })?;
            if !is_whole {
                return self.damaged("the runs of a line are not its fields");
            }
        }
        if next != u64::from(open.trailer.fields) || lists.next().is_some() {
            return self.damaged("it has fields or lists that no line leads to");
        }
        Ok(entries)
    }

    /// Verifies an entry of a line, at `(line, quotient, number of the field)`. `before` is the quotient and the field
    /// of the entry before it in the line. Returns the number of its files.
    fn verify_entry(
        &mut self,
        page: Page<'_>,
        (line, quotient, number): (u64, u8, u64),
        before: &mut Option<(u8, u64)>,
        lists: &mut impl Iterator<Item = NextList>,
    ) -> Result<u64, Failure> {
        let (radix, files) = (page.shape.radix(), u64::from(page.shape.files));
        let field = page.field(number);
        let (low, id) = (field / radix, field % radix);
        let of_run = before.replace((quotient, field)).filter(|(run, _)| *run == quotient);
        if of_run.is_some_and(|(_, before)| before >= field) {
            return self.damaged("its fields do not ascend");
        }
        if self.prefixes.of(Place { page: self.page, line, quotient, low }).is_none() {
            return self.damaged("a field of it is that of no hash");
        }
        if id < files {
            self.count(id);
            return Ok(1);
        }
        // A key with a list has no other field; one after the list would not ascend.
        let is_of_key = of_run.is_some_and(|(_, before)| before / radix == low);
        match lists.next().filter(|(list, _)| u64::from(list.field) == number && !is_of_key) {
            None => self.damaged("a list of it is missing"),
            Some((_, false)) => self.damaged("a list of it is not behind the one before"),
            Some((place, true)) => self.verify_list(place),
        }
    }

    fn count(&mut self, id: u64) {
        if let Some(count) = self.counts.get_mut(id as usize) {
            *count += 1;
        }
    }

    /// Returns the number of the list's files.
    fn verify_list(&mut self, place: ListPlace) -> Result<u64, Failure> {
        let list = self.pages.list(self.page, place)?;
        let ids: Vec<u32> = ListIds::new(&list).take_while(|id| *id < self.pages.index.shape.files).collect();
        // Not equal if there are bytes after the last id, or ids of no file.
        if ids.is_empty() || encode_ids(&ids) != *list {
            return self.damaged("a list of it is damaged");
        }
        ids.iter().for_each(|&id| self.count(id.into()));
        Ok(ids.len() as u64)
    }
}
