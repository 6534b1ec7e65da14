//! Joins the slices of a map.

use core::ops::Range;
use std::borrow::Cow;
use std::io::{self, Write};

use crate::error::MapError;
use crate::merge::{Input, Inputs};
use crate::slice::{Slice, SliceIndex};
use crate::write::{MapReport, Plan};

/// Joins all slices of a map into the bytes that one process would have written: `(add)* finish`.
///
/// This is a merge of slices that have no hash in common: it reads pages one by one, compares their checksums, and
/// writes from the front to the end. It holds the ends of all slices, some megabytes, and the tail of the result. A
/// damaged page never loses a key: it becomes *unknown*, and lookups that meet it find all covered files.
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
///     let end_bytes = SliceIndex::end_bytes(&stored[stored.len() - SliceIndex::MIN_END_BYTES..])? as usize;
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
    /// The first slice, and the number of the last one.
    first: Option<SliceIndex>,
    last: Option<Slice>,
    inputs: Vec<Input<'a>>,
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
        if let Some(first) = &self.first {
            first.ensure_same_map(&index)?;
        }
        self.last = Some(slice);
        self.first.get_or_insert_with(|| index.clone());
        self.inputs.push(Input::slice(index, Box::new(read)));
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
        match self.last {
            Some(last) => last.next(),
            None => Slice::new(0, slices).ok(),
        }
    }

    /// Writes the map to `sink`. It has the id that the slices were written with.
    ///
    /// # Errors
    ///
    /// Those of `sink` and of reading, and [`MapError`] if a slice is missing.
    pub fn finish(self, sink: &mut impl Write) -> io::Result<MapReport> {
        self.ensure_complete()?;
        let first = self.first.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Plan::of_index(first.map).write(&Inputs(self.inputs), None, sink)
    }
}
