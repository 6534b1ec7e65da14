//! Joins the slices of a map.

use core::ops::Range;
use std::borrow::Cow;
use std::io::{self, Write};

use crate::encode::{List, Outside, PageWriter};
use crate::error::MapError;
use crate::index::MapEnd;
use crate::list::{TailCursor, checked_list};
use crate::merge::Read;
use crate::page::{Page, PageTrailer, State};
use crate::slice::Slice;
use crate::slice_end::SliceIndex;
use crate::write::MapReport;

/// Joins all slices of a map into the bytes that one process would have written: `(add)* finish`.
///
/// It reads pages one by one, compares their checksums, and writes from the front to the end. It holds the ends of all
/// slices and one page with its lists. Slices with a tail are read twice. A damaged page never loses a key: it becomes
/// *unknown*, and lookups that meet it find all covered files.
///
/// ```
/// use std::borrow::Cow;
///
/// use sstfilter::{FalsePositiveRate, FileId, Filters};
/// use sstfilter_map::{MapBuilder, MapJoin, MapOptions, Slice, SliceIndex};
///
/// let (filters, file, map) = (Filters::default(), FileId::random(), FileId::random());
/// let options = MapOptions::for_entries(1_000_000, FalsePositiveRate::ONE_PERCENT)?;
/// let builder = || {
///     let mut builder = MapBuilder::new(&filters, options);
///     builder.add_file(file, (0_u32..5_000).map(|key| filters.hash(&key.to_le_bytes())).collect());
///     builder
/// };
/// // Each in a process of its own, which knows the map's id and writes its slice to a file.
/// let mut slices = [Vec::new(), Vec::new()];
/// for (number, stored) in (0..).zip(&mut slices) {
///     builder().finish_slice(map, Slice::new(number, 2)?, stored)?;
/// }
///
/// let mut join = MapJoin::new();
/// for stored in &slices {
///     let end_bytes = SliceIndex::end_bytes(&stored[stored.len() - 76..])? as usize;
///     let index = SliceIndex::load(&stored[stored.len() - end_bytes..], stored.len() as u64)?;
///     join.add(index, |range| Ok(Cow::Borrowed(&stored[range.start as usize..range.end as usize])))?;
/// }
/// let (mut joined, mut whole) = (Vec::new(), Vec::new());
/// join.finish(&mut joined)?;
/// builder().finish(map, &mut whole)?;
/// assert!(joined == whole);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct MapJoin<'a> {
    slices: Vec<Input<'a>>,
}

struct Input<'a> {
    index: SliceIndex,
    read: Read<'a>,
}

impl<'a> MapJoin<'a> {
    /// Creates a join of no slices.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next slice, from the first to the last. `read` returns the bytes of a range of the slice, counted from
    /// its first.
    ///
    /// # Errors
    ///
    /// It is not the next slice, or it is one of another map, or written for other files or with other options.
    pub fn add(
        &mut self,
        index: SliceIndex,
        read: impl Fn(Range<u64>) -> io::Result<Cow<'a, [u8]>> + Sync + 'a,
    ) -> Result<(), MapError> {
        let (expected, got) = (self.next(index.slice().slices()), Some(index.slice()));
        if expected != got {
            return Err(MapError::OtherSlice { expected, got });
        }
        if let Some(first) = self.slices.first() {
            first.index.ensure_same_map(&index)?;
        }
        self.slices.push(Input { index, read: Box::new(read) });
        Ok(())
    }

    /// Fails if the next slice is missing. [`finish`](Self::finish) does, too.
    ///
    /// # Errors
    ///
    /// [`MapError::OtherSlice`].
    pub fn ensure_complete(&self) -> Result<(), MapError> {
        match self.next(1) {
            None => Ok(()),
            expected => Err(MapError::OtherSlice { expected, got: None }),
        }
    }

    /// Returns the slice that comes next. The first one decides how many there are, `slices` if there is none.
    fn next(&self, slices: u32) -> Option<Slice> {
        match self.slices.last() {
            Some(last) => last.index.slice().next(),
            None => Slice::new(0, slices).ok(),
        }
    }

    /// Writes the map to `sink`. It has the id that the slices were written with.
    ///
    /// # Errors
    ///
    /// Those of `sink` and of reading, and [`MapError`] if a slice is missing, or has changed while it was read.
    pub fn finish(self, sink: &mut impl Write) -> io::Result<MapReport> {
        self.ensure_complete()?;
        let (mut report, tail_bytes) = each_page(&self.slices, |page, _| sink.write_all(page))?;
        let with_tail = self.slices.iter().filter(|slice| slice.index.map.tail_bytes > 0);
        let (_, got) = each_page(with_tail, |_, tail| sink.write_all(tail))?;
        if got != tail_bytes {
            let what = "tail of a file map, which was read twice";
            return Err(MapError::Length { what, expected: tail_bytes, got }.into());
        }
        let Some(map) = self.slices.first().map(|first| &first.index.map) else { return Ok(report) };
        let (shape, hash) = (map.shape, map.hash_identity());
        let end =
            MapEnd { shape, hash, map: map.map, tail_bytes, entries: map.entries(), covered: &map.covered }.encode();
        sink.write_all(&end)?;
        report.bytes = map.tail_start() + tail_bytes + end.len() as u64;
        Ok(report)
    }
}

/// Calls `visit` for each page of these slices, with the bytes of the tail that belong to it. Returns what it counted,
/// and the bytes of the tail.
fn each_page<'s, 'a: 's>(
    slices: impl IntoIterator<Item = &'s Input<'a>>,
    mut visit: impl FnMut(&[u8], &[u8]) -> io::Result<()>,
) -> io::Result<(MapReport, u64)> {
    let (mut report, mut tail, mut tail_bytes) = (MapReport::default(), Vec::new(), 0);
    for input in slices {
        let map = &input.index.map;
        let overflowed_lines = |bytes: &[u8]| Page { bytes, shape: &map.shape }.overflowed_lines();
        (report.files, report.entries) = (map.shape.files, map.entries());
        let (writer, mut tail_left) =
            (PageWriter::new(map.shape, map.map.fingerprint()), TailCursor::new(map.tail_bytes));
        for number in input.index.pages() {
            report.pages += 1;
            tail.clear();
            let mut page = (input.read)(input.index.page_range(number))?.into_owned();
            match input.check(&page, number, &mut tail_left)? {
                Checked::Whole => report.overflowed_lines += overflowed_lines(&page),
                Checked::Unfinished(outside) => {
                    report.overflowed_lines += overflowed_lines(outside.outgrown.as_ref().unwrap_or(&page));
                    report.count(&outside);
                    writer.finish(outside, &mut page, tail_bytes, &mut tail);
                    tail_bytes += tail.len() as u64;
                }
                Checked::Unknown => {
                    report.unknown_pages += 1;
                    page.clear();
                    writer.write_unknown(number, &mut page);
                }
            }
            visit(&page, &tail)?;
        }
    }
    Ok((report, tail_bytes))
}

/// A page of a slice, after its check.
enum Checked {
    Whole,
    /// It has parts in the tail, whose place in the map is another one than in the slice.
    Unfinished(Outside),
    /// It is damaged, or its entries were unknown before.
    Unknown,
}

impl Input<'_> {
    /// Checks a page and its parts of the tail, from the cursor on.
    fn check(&self, bytes: &[u8], number: u64, tail: &mut TailCursor) -> io::Result<Checked> {
        let shape = &self.index.map.shape;
        let trailer = match self.index.map.check(bytes, number) {
            Ok(trailer) if bytes.len() == shape.page_bytes() && trailer.state != State::Unknown => trailer,
            _ => return Ok(Checked::Unknown),
        };
        if trailer.state == State::Whole && trailer.lists == 0 {
            return Ok(Checked::Whole);
        }
        let outside = if trailer.state == State::Whole {
            self.outside(Page { bytes, shape }, trailer, tail)?
        } else {
            self.outgrown(Page { bytes, shape }, number, tail)?
        };
        Ok(outside.map_or(Checked::Unknown, Checked::Unfinished))
    }

    /// Reads the lists of a page; `None` if one is damaged.
    fn outside(&self, page: Page<'_>, trailer: PageTrailer, tail: &mut TailCursor) -> io::Result<Option<Outside>> {
        let mut lists = Vec::new();
        for place in page.list_places() {
            if !tail.pass(place.offset, place.bytes.into()) {
                return Ok(None);
            }
            let Some(bytes) = self.tail(place.offset, place.bytes.into())? else { return Ok(None) };
            let Some(ids) = checked_list(&bytes, self.index.map.map, place.offset) else { return Ok(None) };
            lists.push(List { field: place.field, bytes: ids.to_vec() });
        }
        Ok(Some(Outside { start: 0, lists, outgrown: None, trailer }))
    }

    /// Reads the page with the entries of an outgrown one, and its lists; `None` if any of them is damaged.
    fn outgrown(&self, stub: Page<'_>, number: u64, tail: &mut TailCursor) -> io::Result<Option<Outside>> {
        let Some((offset, length)) = stub.elsewhere() else { return Ok(None) };
        let Some(mut lists) = tail.pass_outgrown((offset, length)) else { return Ok(None) };
        let Some(bytes) = self.tail(offset, length)? else { return Ok(None) };
        let Ok(trailer) = self.index.map.check(&bytes, number) else { return Ok(None) };
        if trailer.state != State::Whole {
            return Ok(None);
        }
        let outside = self.outside(Page { bytes: &bytes, shape: stub.shape }, trailer, &mut lists)?;
        Ok(outside.map(|outside| Outside { outgrown: Some(bytes.into_owned()), ..outside }))
    }

    /// Reads bytes of the slice's tail.
    fn tail(&self, offset: u64, bytes: u64) -> io::Result<Option<Cow<'_, [u8]>>> {
        self.index.tail_range(offset, bytes).map(&self.read).transpose()
    }
}
