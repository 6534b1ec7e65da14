//! Lookups in maps that are not in memory: a map says which bytes it needs, and judges them.

use core::ops::Range;
use std::collections::BTreeMap;

use sstfilter::KeyHash;

use crate::answer::{Found, MapAnswer, in_page};
use crate::error::MapError;
use crate::index::MapIndex;
use crate::list::{checked_list, split_check};
use crate::page::{ListPlace, Page, State};

/// Bytes that a lookup needs: a page, or in rare cases one or two places in the tail of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MapRead {
    /// The fingerprint of the map's id: one cache may have parts of many maps.
    map: u64,
    start: u64,
    end: u64,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum What {
    Page(u64),
    Outgrown(u64),
    List { page: u64, prefix: u64, place: ListPlace },
}

impl MapRead {
    /// Returns the bytes' place in the map.
    #[must_use]
    pub const fn range(&self) -> Range<u64> {
        self.start..self.end
    }
}

/// Bytes of a map that were read and found to be sound. Keep pages in a cache, with their [`MapRead`] as the key, which
/// also names the map: each page serves all hashes that fall into it.
#[derive(Clone, Debug)]
pub struct MapPart<D> {
    map: u64,
    what: What,
    bytes: D,
}

/// Lookups of keys in a map that is on disk or in an object store: they say which bytes they need, and answer from
/// them.
///
/// [Open](MapIndex::open) each of [`reads`](Self::reads), and pass it to [`answer`](Self::answer), until no read is
/// left, which takes at most three rounds. Reads of one round can be made at the same time.
#[derive(Debug)]
pub struct Lookups<'m> {
    index: &'m MapIndex,
    hashes: Vec<KeyHash>,
    /// The positions of the keys that wait for each read.
    waiting: BTreeMap<MapRead, Vec<usize>>,
}

impl<'m> Lookups<'m> {
    /// Begins to look up keys.
    #[must_use]
    pub fn new(index: &'m MapIndex, hashes: &[KeyHash]) -> Self {
        let mut waiting = BTreeMap::<MapRead, Vec<usize>>::new();
        for (key, &hash) in hashes.iter().enumerate() {
            waiting.entry(index.read_for(hash)).or_default().push(key);
        }
        Self { index, hashes: hashes.to_vec(), waiting }
    }

    /// Returns what must be read for the keys that have no answer yet, from the front of the map to its end. A page
    /// that several keys need is one read.
    #[must_use]
    pub fn reads(&self) -> Vec<MapRead> {
        self.waiting.keys().copied().collect()
    }

    /// Takes what was read; `None` if that failed or found damage, so that all files may have the keys that need it.
    /// Calls `visit` for each key that now has an answer, with its position.
    pub fn answer<D: AsRef<[u8]>>(
        &mut self,
        read: &MapRead,
        part: Option<&MapPart<D>>,
        mut visit: impl FnMut(usize, MapAnswer<'_>),
    ) {
        for key in self.waiting.remove(read).unwrap_or_default() {
            match part.zip(self.hashes.get(key)).map(|(part, &hash)| self.index.probe(part, hash)) {
                Some(Ok(found)) => visit(key, found),
                Some(Err(next)) => self.waiting.entry(next).or_default().push(key),
                None => visit(key, MapAnswer::All),
            }
        }
    }
}

impl MapIndex {
    /// Returns the page that a lookup needs. Most hashes have different pages.
    #[must_use]
    pub fn read_for(&self, hash: KeyHash) -> MapRead {
        self.read_page(self.page_of(hash))
    }

    /// Returns the read of a page by its number, for programs that read a map from front to end.
    #[must_use]
    pub fn read_page(&self, page: u64) -> MapRead {
        self.read_of(self.page_range(page), What::Page(page))
    }

    fn read_of(&self, range: Range<u64>, what: What) -> MapRead {
        MapRead { map: self.map.fingerprint(), start: range.start, end: range.end, what }
    }

    /// Opens bytes that were read.
    ///
    /// # Errors
    ///
    /// They are damaged, or not those of `read`. Every covered file may then have the key.
    pub fn open<D: AsRef<[u8]>>(&self, read: &MapRead, bytes: D) -> Result<MapPart<D>, MapError> {
        let (own, length) = (bytes.as_ref(), read.end - read.start);
        if own.len() as u64 != length {
            return Err(MapError::Length { what: "part of a file map", expected: length, got: own.len() as u64 });
        }
        let damaged = |page, what| Err(MapError::Damaged { page, what });
        match read.what {
            What::Page(page) => drop(self.check(own, page)?),
            What::Outgrown(page) if self.check(own, page)?.state != State::Whole => {
                return damaged(page, "its entries are outgrown twice");
            }
            What::List { page, place, .. } if checked_list(own, self.map, place.offset).is_none() => {
                return damaged(page, "a list of it is damaged");
            }
            What::Outgrown(_) | What::List { .. } => {}
        }
        // The checksums cover the map's id.
        Ok(MapPart { map: self.map.fingerprint(), what: read.what, bytes })
    }

    /// Returns what a part of this map says about a hash: begin with the page of [`read_for`](Self::read_for). A part
    /// that the hash does not need, or of another map, says nothing: all files are candidates.
    ///
    /// # Errors
    ///
    /// The next read, which has the answer. One key in millions needs a second read, and at most a third, unless very
    /// many files have it.
    pub fn probe<'a, D: AsRef<[u8]>>(&'a self, part: &'a MapPart<D>, hash: KeyHash) -> Result<MapAnswer<'a>, MapRead> {
        let (place, prefix) = (self.shape.place(hash.get()), self.shape.prefix_of(hash.get()));
        let is_needed = match part.what {
            What::Page(page) | What::Outgrown(page) => page == place.page,
            What::List { prefix: of_list, .. } => of_list == prefix,
        };
        if part.map != self.map.fingerprint() || !is_needed {
            return Ok(MapAnswer::All);
        }
        if let What::List { .. } = part.what {
            let ids = split_check(part.bytes.as_ref()).map_or(&[][..], |(ids, _)| ids);
            return Ok(MapAnswer::of_list(ids, self.shape.files));
        }
        let page = Page { bytes: part.bytes.as_ref(), shape: &self.shape };
        if !page.is_occupied(place) {
            return Ok(MapAnswer::NONE);
        }
        let (range, what) = match in_page(page, place) {
            Found::Here(found) => return Ok(found),
            Found::List(list) => {
                (self.tail_range(list.offset, list.bytes.into()), What::List { page: place.page, prefix, place: list })
            }
            // Only a forged page is outgrown twice. Reading it could go on forever.
            Found::Outgrown { .. } if part.what == What::Outgrown(place.page) => return Ok(MapAnswer::All),
            Found::Outgrown { offset, bytes } => (self.tail_range(offset, bytes), What::Outgrown(place.page)),
        };
        range.map_or(Ok(MapAnswer::All), |range| Err(self.read_of(range, what)))
    }
}
