//! A whole map in memory, and its answers.

use core::ops::Range;
use std::borrow::Cow;
use std::io;

use sstfilter::internal::prefetch;
use sstfilter::{FileId, Filters, KeyHash};

use crate::answer::{Found, MapAnswer, in_page};
use crate::error::MapError;
use crate::index::MapIndex;
use crate::list::{TailCursor, split_check};
use crate::page::{ListPlace, Page, State};
use crate::pages::{Failure, PageReader};
use crate::shape::Place;

/// A file map in memory: which of the files that it covers may have a key.
///
/// Bytes may be owned, borrowed or mapped. Loading compares all checksums. A page that is damaged is unknown, and every
/// covered file may have its keys.
#[derive(Debug)]
pub struct FileMap<D> {
    index: MapIndex,
    bytes: D,
    /// A bit for each page that is damaged; empty if none is, which is all that lookups test.
    damaged: Box<[u64]>,
    has_unknown_pages: bool,
}

impl<D: AsRef<[u8]>> FileMap<D> {
    /// Loads a map that was built with the hash of `filters` and the id `map`, and compares the checksums of all pages.
    ///
    /// # Errors
    ///
    /// The end of the map is damaged, or that of another map, or another hash. No file is covered then.
    pub fn load(bytes: D, filters: &Filters, map: FileId) -> Result<Self, MapError> {
        let all = bytes.as_ref();
        let index = MapIndex::load(all, all.len() as u64, filters, map)?;
        Ok(Self::with_index(index, bytes))
    }

    /// Loads any map, for tools.
    ///
    /// # Errors
    ///
    /// The end of the map is damaged.
    pub fn load_any(bytes: D) -> Result<Self, MapError> {
        let all = bytes.as_ref();
        let index = MapIndex::load_any(all, all.len() as u64)?;
        Ok(Self::with_index(index, bytes))
    }

    fn with_index(index: MapIndex, bytes: D) -> Self {
        let mut map = Self { index, bytes, damaged: Box::default(), has_unknown_pages: false };
        let (mut damaged, mut has_unknown_pages) = (Vec::new(), false);
        for (page, checked) in map.checks().enumerate() {
            if let Ok(state) = checked {
                has_unknown_pages |= state == State::Unknown;
                continue;
            }
            damaged.resize(page / 64 + 1, 0_u64);
            if let Some(word) = damaged.last_mut() {
                *word |= 1 << (page % 64);
            }
        }
        (map.damaged, map.has_unknown_pages) = (damaged.into(), has_unknown_pages);
        map
    }

    /// The numbers of the map and the files that it covers.
    #[must_use]
    pub const fn index(&self) -> &MapIndex {
        &self.index
    }

    /// Returns the pages that cannot be used, and why.
    pub fn problems(&self) -> impl Iterator<Item = MapError> + '_ {
        // Only damage is worth comparing all checksums again.
        let checks = (!self.damaged.is_empty()).then(|| self.checks());
        checks.into_iter().flatten().filter_map(Result::err)
    }

    /// Returns whether entries were lost before the map was written: its pages are sound, and say that every covered
    /// file may have their keys.
    #[must_use]
    pub const fn has_unknown_pages(&self) -> bool {
        self.has_unknown_pages
    }

    /// The bytes of the map.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// Returns which of the covered files may have a key.
    ///
    /// The hash must come from the hasher that the map was loaded with ([`Filters::hash`]).
    #[inline]
    pub fn candidates(&self, hash: KeyHash) -> MapAnswer<'_> {
        self.view().candidates_inline(hash)
    }

    /// Calls `visit` for each of `hashes` whose key some file may have, with its position. The others are absent from
    /// all covered files. Faster than single lookups if the map does not fit into the cache.
    pub fn candidates_each(&self, hashes: &[KeyHash], mut visit: impl FnMut(usize, MapAnswer<'_>)) {
        // Enough lines on their way to hide the latency of memory, and few enough to stay in the first-level cache.
        const AT_ONCE: usize = 32;
        let view = self.view();
        for (chunk, hashes) in hashes.chunks(AT_ONCE).enumerate() {
            hashes.iter().for_each(|&hash| view.prefetch(hash));
            for (position, &hash) in hashes.iter().enumerate() {
                let found = view.candidates_inline(hash);
                if !found.is_none() {
                    visit(chunk * AT_ONCE + position, found);
                }
            }
        }
    }

    fn view(&self) -> View<'_> {
        View { index: &self.index, bytes: self.bytes.as_ref(), damaged: &self.damaged }
    }

    /// Checks each page, with its lists and entries in the tail.
    fn checks(&self) -> impl Iterator<Item = Result<State, MapError>> + '_ {
        let mut tail = TailCursor::new(self.index.tail_bytes);
        let mut pages = PageReader { index: &self.index, read: |range| self.read(range) };
        (0..self.index.pages()).map(move |page| match pages.check(page, &mut tail) {
            Ok(state) => Ok(state),
            Err(Failure::Damaged(error)) => Err(error),
            Err(Failure::Read(_)) => Err(MapError::Damaged { page, what: "its bytes are missing" }),
        })
    }

    pub(crate) fn read(&self, range: Range<u64>) -> io::Result<Cow<'_, [u8]>> {
        let bytes = self.bytes.as_ref().get(range.start as usize..range.end as usize);
        bytes.map(Cow::Borrowed).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

/// A map without the type of its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    index: &'a MapIndex,
    bytes: &'a [u8],
    damaged: &'a [u64],
}

impl<'a> View<'a> {
    #[inline(always)]
    fn is_damaged(&self, page: u64) -> bool {
        self.damaged.get(page as usize / 64).is_some_and(|word| word >> (page % 64) & 1 == 1)
    }

    #[inline(always)]
    fn page(&self, page: u64) -> Option<Page<'a>> {
        let start = (page << self.index.shape.page_bits) as usize;
        let bytes = self.bytes.get(start..)?.get(..self.index.shape.page_bytes())?;
        Some(Page { bytes, shape: &self.index.shape })
    }

    fn tail(&self, offset: u64, bytes: u64) -> Option<&'a [u8]> {
        let range = self.index.tail_range(offset, bytes)?;
        self.bytes.get(range.start as usize..range.end as usize)
    }

    fn prefetch(&self, hash: KeyHash) {
        let place = self.index.shape.place(hash.get());
        if let Some(line) = self.page(place.page).and_then(|page| page.line_bytes(place.line)) {
            prefetch(line);
        }
    }

    /// Half of all absent keys have a quotient that no entry has. Their lookups end here, inlined into the caller.
    #[inline(always)]
    fn candidates_inline(&self, hash: KeyHash) -> MapAnswer<'a> {
        let place = self.index.shape.place(hash.get());
        if !self.damaged.is_empty() && self.is_damaged(place.page) {
            return MapAnswer::All;
        }
        let Some(page) = self.page(place.page) else { return MapAnswer::All };
        if !page.is_occupied(place) {
            return MapAnswer::NONE;
        }
        match in_page(page, place) {
            Found::Here(found) => found,
            Found::List(list) => self.in_list(list),
            Found::Outgrown { offset, bytes } => self.in_outgrown(offset, bytes, place),
        }
    }

    /// Returns the files of a list, whose checksum was compared when the map was loaded.
    #[cold]
    #[inline(never)]
    fn in_list(&self, list: ListPlace) -> MapAnswer<'a> {
        match self.tail(list.offset, list.bytes.into()).and_then(split_check) {
            Some((ids, _)) => MapAnswer::of_list(ids, self.index.shape.files),
            None => MapAnswer::All,
        }
    }

    /// Finds entries in a page in the tail.
    #[cold]
    #[inline(never)]
    fn in_outgrown(&self, offset: u64, bytes: u64, place: Place) -> MapAnswer<'a> {
        let Some(bytes) = self.tail(offset, bytes) else { return MapAnswer::All };
        match in_page(Page { bytes, shape: &self.index.shape }, place) {
            Found::Here(found) => found,
            Found::List(list) => self.in_list(list),
            Found::Outgrown { .. } => MapAnswer::All,
        }
    }
}
