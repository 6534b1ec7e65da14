//! Verifies a whole map, page by page: checksums, and the structure that lookups rely on.

use core::ops::Range;
use std::borrow::Cow;
use std::io;

use crate::error::MapError;
use crate::index::{Covered, MapIndex};
use crate::list::{ListIds, TailCursor, encode_ids};
use crate::page::{ListPlace, Page, State};
use crate::pages::{Entry, Failure, OpenPage, PageReader};
use crate::shape::Prefixes;

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
        found.outgrown_pages += u64::from(open.is_outgrown);
        found.overflowed_lines += Page { bytes: &open.bytes, shape: &self.pages.index.shape }.overflowed_lines();
        found.lists += u64::from(open.trailer.lists);
        Ok(())
    }

    /// Verifies the entries of a page, and returns how many there are.
    fn verify_entries(&mut self, open: &OpenPage<'_>, tail: &mut TailCursor) -> Result<u64, Failure> {
        let (shape, mut before) = (self.pages.index.shape, None);
        let (mut fields, mut lists, mut entries) = (0, 0, 0);
        open.for_each_entry(&shape, 0..=shape.lines - 1, |entry| {
            fields += 1;
            lists += u32::from(entry.list.is_some());
            entries += self.verify_entry(&entry, before.as_ref(), tail)?;
            before = Some(entry);
            Ok(())
        })?;
        if (fields, lists) != (open.trailer.fields, open.trailer.lists) {
            return self.damaged("it has fields or lists that no line leads to");
        }
        Ok(entries)
    }

    /// Verifies an entry, and returns the number of its files. `before` is the entry before it in the page.
    fn verify_entry(&mut self, entry: &Entry, before: Option<&Entry>, tail: &mut TailCursor) -> Result<u64, Failure> {
        let run = |entry: &Entry| (entry.place.line, entry.place.quotient);
        let of_run = before.filter(|before| run(before) == run(entry));
        let number = |entry: &Entry| (entry.place.low, entry.id);
        if of_run.is_some_and(|before| number(before) >= number(entry)) {
            return self.damaged("its fields do not ascend");
        }
        if self.prefixes.of(entry.place).is_none() {
            return self.damaged("a field of it is that of no hash");
        }
        let Some(place) = entry.list else {
            self.count(entry.id);
            return Ok(1);
        };
        // A field after the list would not ascend.
        if of_run.is_some_and(|before| before.place.low == entry.place.low) {
            return self.damaged("a key with a list has other files");
        }
        self.verify_list(place, tail)
    }

    fn count(&mut self, id: u64) {
        if let Some(count) = self.counts.get_mut(id as usize) {
            *count += 1;
        }
    }

    /// Returns the number of the list's files.
    fn verify_list(&mut self, place: ListPlace, tail: &mut TailCursor) -> Result<u64, Failure> {
        let list = self.pages.list_behind(tail, self.page, place)?;
        let ids: Vec<u32> = ListIds::new(&list).take_while(|id| *id < self.pages.index.shape.files).collect();
        // Not equal if there are bytes after the last id, or ids of no file.
        if ids.is_empty() || encode_ids(&ids) != *list {
            return self.damaged("a list of it is damaged");
        }
        ids.iter().for_each(|&id| self.count(id.into()));
        Ok(ids.len() as u64)
    }
}
