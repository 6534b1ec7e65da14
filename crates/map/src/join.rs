//! Joins the slices of a map.

use core::ops::Range;
use std::borrow::Cow;
use std::io::{self, Write};

use crate::encode::{List, Outside, PageWriter};
use crate::error::MapError;
use crate::index::MapIndex;
use crate::list::TailCursor;
use crate::merge::Read;
use crate::page::{Page, State};
use crate::pages::{Failure, PageReader};
use crate::slice::{Slice, SliceIndex};
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
        let slice = index.slice();
        if self.next(slice.slices()) != Some(slice) {
            return Err(self.other_slice(slice.slices(), Some(slice)));
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
    /// [`MapError::Mismatch`].
    pub fn ensure_complete(&self) -> Result<(), MapError> {
        if self.next(1).is_none() { Ok(()) } else { Err(self.other_slice(1, None)) }
    }

    fn other_slice(&self, slices: u32, got: Option<Slice>) -> MapError {
        let text = |slice: Option<Slice>| slice.map_or("no more".to_owned(), |slice| format!("slice {slice}"));
        MapError::mismatch("slices of a file map", text(self.next(slices)), text(got))
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
        let Some(first) = self.slices.first() else { return Ok(report) };
        let map = MapIndex { tail_bytes, ..first.index.map.clone() };
        let end = map.encode();
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
    let (mut report, mut tail_bytes) = (MapReport::default(), 0);
    for Input { index, read } in slices {
        let map = &index.map;
        (report.files, report.entries) = (map.shape.files, map.entries());
        let writer = PageWriter::new(map.shape, map.map.fingerprint());
        let mut pages = PageReader { index: map, read: |range| read(index.in_slice(range)) };
        let mut tail_left = TailCursor::new(map.tail_bytes);
        for number in index.pages() {
            let (mut page, mut tail) = (Vec::new(), Vec::new());
            report.pages += 1;
            match pages.open_with_lists(number, &mut tail_left) {
                Ok((open, lists)) if open.trailer.state == State::Whole => {
                    report.overflowed_lines += Page { bytes: &open.bytes, shape: &map.shape }.overflowed_lines();
                    let list = |(field, ids): (u32, Cow<'_, [u8]>)| List { field, bytes: ids.into_owned() };
                    let lists: Vec<_> = lists.into_iter().map(list).collect();
                    let (own, outgrown) = match open.stub {
                        Some(stub) => (stub, Some(open.bytes.into_owned())),
                        None => (open.bytes, None),
                    };
                    page = own.into_owned();
                    // The place in the tail of the map is another one than in that of the slice.
                    if outgrown.is_some() || !lists.is_empty() {
                        let outside = Outside { start: 0, lists, outgrown, trailer: open.trailer };
                        report.count(&outside);
                        writer.finish(outside, &mut page, tail_bytes, &mut tail);
                        tail_bytes += tail.len() as u64;
                    }
                }
                Err(Failure::Read(error)) => return Err(error),
                Ok(_) | Err(Failure::Damaged(_)) => {
                    report.unknown_pages += 1;
                    writer.write_unknown(number, &mut page);
                }
            }
            visit(&page, &tail)?;
        }
    }
    Ok((report, tail_bytes))
}
