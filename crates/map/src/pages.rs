//! Reads the pages of a map one by one, with the parts of the tail that belong to them.

use core::ops::Range;
use std::borrow::Cow;
use std::io;

use crate::error::MapError;
use crate::index::MapIndex;
use crate::list::{TailCursor, checked_list};
use crate::page::{ListPlace, Page, PageTrailer, State};

/// Why a page cannot be used.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Reading has failed, and may succeed another time.
    Read(io::Error),
    /// The page, one of its lists, or the page that it has outgrown to is damaged.
    Damaged(MapError),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

impl From<MapError> for Failure {
    fn from(error: MapError) -> Self {
        Self::Damaged(error)
    }
}

/// The pages of a map. `read` returns the bytes of a range of it.
pub(crate) struct PageReader<'m, R> {
    pub(crate) index: &'m MapIndex,
    pub(crate) read: R,
}

/// A sound page that has its entries, or says that they are unknown.
pub(crate) struct OpenPage<'a> {
    pub(crate) bytes: Cow<'a, [u8]>,
    pub(crate) trailer: PageTrailer,
    /// The bytes in the page's own place, if they are elsewhere.
    pub(crate) stub: Option<Cow<'a, [u8]>>,
}

/// The ids of a list, and the number of its field.
pub(crate) type ListOfField<'a> = (u32, Cow<'a, [u8]>);

impl<'a, R: FnMut(Range<u64>) -> io::Result<Cow<'a, [u8]>>> PageReader<'_, R> {
    /// Opens a page. If it has outgrown its bytes, `pass` gets the place of its entries in the tail, and returns `None`
    /// if they cannot be there.
    pub(crate) fn open<T>(
        &mut self,
        page: u64,
        pass: impl FnOnce((u64, u64)) -> Option<T>,
    ) -> Result<(OpenPage<'a>, Option<T>), Failure> {
        let damaged = |what| MapError::Damaged { page, what };
        let bytes = (self.read)(self.index.page_range(page))?;
        if bytes.len() != self.index.shape.page_bytes() {
            return Err(damaged("it is cut short").into());
        }
        let trailer = self.index.check(&bytes, page)?;
        if trailer.state != State::Outgrown {
            return Ok((OpenPage { bytes, trailer, stub: None }, None));
        }
        let place = Page { bytes: &bytes, shape: &self.index.shape }.elsewhere();
        let found = place.and_then(|place| Some((self.index.tail_range(place.0, place.1)?, pass(place)?)));
        let (range, passed) = found.ok_or(damaged("its entries are not in the tail"))?;
        let stub = Some(bytes);
        let bytes = (self.read)(range)?;
        let trailer = self.index.check(&bytes, page)?;
        if trailer.state != State::Whole {
            return Err(damaged("its entries are outgrown twice").into());
        }
        Ok((OpenPage { bytes, trailer, stub }, Some(passed)))
    }

    /// Reads the ids of a list.
    pub(crate) fn list(&mut self, page: u64, place: ListPlace) -> Result<Cow<'a, [u8]>, Failure> {
        let damaged = MapError::Damaged { page, what: "a list of it is damaged" };
        let Some(range) = self.index.tail_range(place.offset, place.bytes.into()) else { return Err(damaged.into()) };
        let bytes = (self.read)(range)?;
        let ids = checked_list(&bytes, self.index.map, place.offset).ok_or(damaged)?.len();
        Ok(match bytes {
            Cow::Borrowed(bytes) => Cow::Borrowed(bytes.split_at(ids).0),
            Cow::Owned(mut bytes) => {
                bytes.truncate(ids);
                Cow::Owned(bytes)
            }
        })
    }

    /// Opens a page and all of its lists, which must be behind the cursor.
    pub(crate) fn open_with_lists(
        &mut self,
        page: u64,
        tail: &mut TailCursor,
    ) -> Result<(OpenPage<'a>, Vec<ListOfField<'a>>), Failure> {
        let (open, mut before_outgrown) = self.open(page, |place| tail.pass_outgrown(place))?;
        let tail = before_outgrown.as_mut().unwrap_or(tail);
        let mut lists = Vec::new();
        for place in (Page { bytes: &open.bytes, shape: &self.index.shape }).list_places() {
            if !tail.pass(place.offset, place.bytes.into()) {
                return Err(MapError::Damaged { page, what: "a list of it is damaged" }.into());
            }
            lists.push((place.field, self.list(page, place)?));
        }
        Ok((open, lists))
    }
}
