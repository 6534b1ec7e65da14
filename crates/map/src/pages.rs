//! Reads the pages of a map one by one, with the parts of the tail that belong to them.

use core::iter::Peekable;
use core::ops::{Range, RangeInclusive};
use std::borrow::Cow;
use std::io;

use crate::error::MapError;
use crate::index::MapIndex;
use crate::list::{TailCursor, checked_list};
use crate::page::{ListPlace, Page, PageTrailer, State};
use crate::shape::{Place, Shape};

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
    /// The entries are not in the page's own place.
    pub(crate) is_outgrown: bool,
}

/// An entry of a page.
pub(crate) struct Entry {
    pub(crate) place: Place,
    /// The file, or what marks a list.
    pub(crate) id: u64,
    pub(crate) list: Option<ListPlace>,
}

impl OpenPage<'_> {
    /// Calls `visit` for each entry of these lines. Lines that have overflowed have none.
    ///
    /// Fails if `visit` does, and if the page is forged: each field must follow the one before, and each mark of a list
    /// must have one.
    pub(crate) fn for_each_entry(
        &self,
        shape: &Shape,
        lines: RangeInclusive<u64>,
        mut visit: impl FnMut(Entry) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (number, page) = (self.trailer.page, Page { bytes: &self.bytes, shape });
        let damaged = |what| MapError::Damaged { page: number, what };
        let (divide, mut lists) = (Reciprocal::new(shape.radix()), page.list_places().peekable());
        let mut next = page.line(*lines.start()).map_or(0, |line| line.rank());
        for line in lines.filter(|line| !page.has_overflowed(*line)) {
            let is_whole = page.for_each_entry(line, |quotient, at| {
                if at != next || at >= u64::from(self.trailer.fields) {
                    return Ok(false);
                }
                next += 1;
                let (low, id) = divide.by(page.field(at));
                let place = Place { page: number, line, quotient, low };
                if id < u64::from(shape.files) {
                    return visit(Entry { place, id, list: None }).map(|()| true);
                }
                let list = list_of_field(&mut lists, at);
                list.ok_or(damaged("a list of it is missing"))?;
                visit(Entry { place, id, list }).map(|()| true)
            })?;
            if !is_whole {
                return Err(damaged("the runs of a line are not its fields").into());
            }
        }
        Ok(())
    }
}

/// Returns the list of field `at`. Fields come in ascending order.
pub(crate) fn list_of_field(lists: &mut Peekable<impl Iterator<Item = ListPlace>>, at: u64) -> Option<ListPlace> {
    while lists.next_if(|list| u64::from(list.field) < at).is_some() {}
    lists.next_if(|list| u64::from(list.field) == at)
}

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
            return Ok((OpenPage { bytes, trailer, is_outgrown: false }, None));
        }
        let place = Page { bytes: &bytes, shape: &self.index.shape }.elsewhere();
        let found = place.and_then(|place| Some((self.index.tail_range(place.0, place.1)?, pass(place)?)));
        let (range, passed) = found.ok_or(damaged("its entries are not in the tail"))?;
        let bytes = (self.read)(range)?;
        let trailer = self.index.check(&bytes, page)?;
        if trailer.state != State::Whole {
            return Err(damaged("its entries are outgrown twice").into());
        }
        Ok((OpenPage { bytes, trailer, is_outgrown: true }, Some(passed)))
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

    /// Checks a page and all of its lists, which must be behind the cursor.
    pub(crate) fn check(&mut self, page: u64, tail: &mut TailCursor) -> Result<State, Failure> {
        let (open, mut before_outgrown) = self.open(page, |place| tail.pass_outgrown(place))?;
        let tail = before_outgrown.as_mut().unwrap_or(tail);
        for place in (Page { bytes: &open.bytes, shape: &self.index.shape }).list_places() {
            self.list_behind(tail, page, place)?;
        }
        Ok(open.trailer.state)
    }

    /// Reads the ids of a list, which must be behind the cursor.
    pub(crate) fn list_behind(
        &mut self,
        tail: &mut TailCursor,
        page: u64,
        place: ListPlace,
    ) -> Result<Cow<'a, [u8]>, Failure> {
        if !tail.pass(place.offset, place.bytes.into()) {
            return Err(MapError::Damaged { page, what: "a list of it is not behind the one before" }.into());
        }
        self.list(page, place)
    }
}

/// Divides fields by the number of files, by a multiplication.
pub(crate) struct Reciprocal {
    divisor: u64,
    reciprocal: u64,
}

impl Reciprocal {
    pub(crate) fn new(divisor: u64) -> Self {
        Self { divisor, reciprocal: u64::MAX / divisor }
    }

    /// Returns the quotient and the remainder.
    #[inline(always)]
    pub(crate) fn by(&self, number: u64) -> (u64, u64) {
        // Rounded down twice, so at most two too low for numbers of 56 bits. One is added because multiples would
        // always be one too low.
        let mut quotient = ((u128::from(number + 1) * u128::from(self.reciprocal)) >> 64) as u64;
        let mut rest = number - quotient * self.divisor;
        while rest >= self.divisor {
            rest -= self.divisor;
            quotient += 1;
        }
        (quotient, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reciprocal_divides_as_the_cpu_does() {
        let mut is_corrected = false;
        for divisor in [1, 2, 3, 257, 4_097, (1 << 24) - 1, (1 << 31) - 1, 1 << 31] {
            let reciprocal = Reciprocal::new(divisor);
            for multiple in [0, 1, 2, 1_000, (1 << 56) / divisor - 1, (1 << 56) / divisor].map(|times| times * divisor)
            {
                for number in [multiple.saturating_sub(1), multiple, multiple + divisor / 2] {
                    assert_eq!(reciprocal.by(number), (number / divisor, number % divisor), "{number} / {divisor}");
                    let product = u128::from(number + 1) * u128::from(reciprocal.reciprocal);
                    is_corrected |= product >> 64 != u128::from(number / divisor);
                }
            }
        }
        assert!(is_corrected);
    }
}
