//! Writes a map page by page, whichever source its entries come from.

use core::ops::Range;
use std::io::{self, Write};

use sstfilter::internal::{share, sort_hashes};
use sstfilter::{FileId, HashIdentity, KeyHash};

use crate::encode::{Outside, Packing, PageWriter};
use crate::error::MapError;
use crate::index::{Covered, MapIndex};
use crate::options::MapOptions;
use crate::runs::{are_ascending, merge_runs};
use crate::shape::Shape;

/// Entries that are sorted and encoded together: 2 MiB of them.
const CHUNK_ENTRIES: u64 = 1 << 18;

/// Entries of a chunk for each input: about as many as one of its pages has, so that a page is read about twice.
const CHUNK_ENTRIES_PER_RUN: u64 = 1 << 15;

/// Up to this many sorted runs are merged; more are sorted afresh, which then is faster.
const MERGED_RUNS: usize = 32;

/// Where entries come from.
pub(crate) trait EntrySource: Sync {
    /// How many sorted runs of entries there are.
    fn runs(&self) -> usize;

    /// Appends all entries with a prefix in this range, and the end of each run, which must ascend. Returns the
    /// prefixes whose entries it does not have.
    fn append(
        &self,
        prefixes: Range<u64>,
        packing: &Packing,
        entries: &mut Vec<KeyHash>,
        ends: &mut Vec<usize>,
    ) -> io::Result<Missing>;
}

/// Prefixes whose entries a source does not have.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    /// They are damaged, or were before.
    pub(crate) unknown: Vec<Range<u64>>,
    /// They are in lines that have overflowed.
    pub(crate) overflowed: Vec<Range<u64>>,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MapReport {
    /// Bytes of the map.
    pub bytes: u64,
    /// Files that it covers.
    pub files: u32,
    /// Pairs of a key and a file.
    pub entries: u64,
    /// Pages of the map.
    pub pages: u64,
    /// Pages that did not fit, and are in the tail: a lookup in one reads twice.
    pub outgrown_pages: u64,
    /// Pages whose entries are not known, because a page of an input was damaged: every file may have a key of these.
    pub unknown_pages: u64,
    /// Lines that have too many entries: every file may have a key of these. It is no damage, and comes from keys that
    /// were chosen, or from a weak hash.
    pub overflowed_lines: u64,
    /// Keys that 32 or more files have.
    pub lists: u64,
}

impl MapReport {
    /// Returns the bits of the map per entry.
    #[must_use]
    pub fn bits_per_entry(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.entries.max(1) as f64
    }
}

/// A map to be written.
#[derive(Debug)]
pub(crate) struct Plan {
    index: MapIndex,
    threads: usize,
}

/// The pages of a chunk.
#[derive(Default)]
struct Written {
    bytes: Vec<u8>,
    outside: Vec<Outside>,
    unknown: u64,
    overflowed: u64,
}

impl Plan {
    pub(crate) fn new(
        options: &MapOptions,
        hash: HashIdentity,
        map: FileId,
        covered: Covered,
        entries: u64,
    ) -> Result<Self, MapError> {
        let files = match &covered {
            Covered::Files(files) => files.len(),
            Covered::Writes(writes) => writes.len(),
        };
        let shape = options.shape(u32::try_from(files).unwrap_or(u32::MAX), entries)?;
        let index = MapIndex { shape, hash, map, tail_bytes: 0, entries, covered };
        Ok(Self { index, threads: options.threads })
    }

    /// Writes the map.
    pub(crate) fn write(mut self, source: &impl EntrySource, sink: &mut impl Write) -> io::Result<MapReport> {
        let Shape { files, pages, page_bits, .. } = self.index.shape;
        let mut report = MapReport { files, entries: self.index.entries, pages, ..MapReport::default() };
        let (mut tail, writer) = (Vec::new(), self.page_writer());
        let encode = |buffers: &mut Buffers, pages| self.encode(source, pages, buffers);
        self.each_chunk(source, encode, |Written { mut bytes, outside, unknown, overflowed }| {
            report.unknown_pages += unknown;
            report.overflowed_lines += overflowed;
            for outside in outside {
                report.outgrown_pages += u64::from(outside.outgrown.is_some());
                report.lists += outside.lists.len() as u64;
                writer.finish(outside, &mut bytes, &mut tail);
            }
            sink.write_all(&bytes)
        })?;
        sink.write_all(&tail)?;
        self.index.tail_bytes = tail.len() as u64;
        let end = self.index.encode();
        sink.write_all(&end)?;
        report.bytes = (pages << page_bits) + (tail.len() + end.len()) as u64;
        Ok(report)
    }

    const fn page_writer(&self) -> PageWriter {
        PageWriter::new(self.index.shape, self.index.map.fingerprint())
    }

    fn pages_of_chunk(&self, runs: usize) -> u64 {
        let shape = &self.index.shape;
        let of_page = (self.index.entries / shape.pages).max(1);
        let wanted = CHUNK_ENTRIES.max((runs.min(128) as u64) * CHUNK_ENTRIES_PER_RUN);
        let mut pages = (wanted / of_page).clamp(1, 1 << 12).min(shape.pages);
        // If files are many, and a map keeps many bits of a hash, fewer pages have entries that fit into 64 bits.
        while pages > 1 && Packing::new(0, shape.first_prefix(pages), shape.files).is_none() {
            pages /= 2;
        }
        pages
    }

    /// Calls `work` for the pages of each chunk, on several threads, and `done` for each result, in order.
    fn each_chunk<T: Send>(
        &self,
        source: &impl EntrySource,
        work: impl Fn(&mut Buffers, Range<u64>) -> io::Result<T> + Sync,
        mut done: impl FnMut(T) -> io::Result<()>,
    ) -> io::Result<()> {
        let (pages, step, threads) = (self.index.pages(), self.pages_of_chunk(source.runs()), self.threads.max(1));
        let mut starts = (0..pages).step_by(step as usize).peekable();
        while starts.peek().is_some() {
            let chunk = |start: u64| (start..(start + step).min(pages), None);
            let mut chunks: Vec<_> = starts.by_ref().take(threads).map(chunk).collect();
            let of_threads = chunks.iter_mut().collect();
            share(threads, of_threads, &mut Buffers::default(), |buffers, (pages, result): &mut (Range<u64>, _)| {
                *result = Some(work(buffers, pages.clone()));
            });
            chunks.into_iter().filter_map(|(_, result)| result).try_for_each(|result| done(result?))?;
        }
        Ok(())
    }

    /// Counts the entries of `source`, without repetitions.
    pub(crate) fn count(&self, source: &impl EntrySource) -> io::Result<u64> {
        let mut entries = 0;
        let count = |buffers: &mut Buffers, pages| {
            self.collect(source, pages, buffers)?;
            Ok(buffers.entries.chunk_by(|one, other| one == other).count() as u64)
        };
        self.each_chunk(source, count, |of_chunk| {
            entries += of_chunk;
            Ok(())
        })?;
        Ok(entries)
    }

    /// Collects the entries of some pages in ascending order. Returns how they are packed, and the prefixes whose
    /// entries are missing.
    fn collect(
        &self,
        source: &impl EntrySource,
        pages: Range<u64>,
        buffers: &mut Buffers,
    ) -> io::Result<(Packing, Missing)> {
        let shape = &self.index.shape;
        let prefixes = shape.first_prefix(pages.start)..shape.first_prefix(pages.end);
        let packing = Packing::new(prefixes.start, prefixes.end, shape.files);
        let too_many = || MapError::field("files", "fewer, or more entries in each", shape.files);
        let packing = packing.ok_or_else(too_many)?;
        let Buffers { entries, ends, spare, .. } = buffers;
        entries.clear();
        ends.clear();
        let missing = source.append(prefixes, &packing, entries, ends)?;
        // The runs of a forged map may be out of order.
        if ends.len() <= MERGED_RUNS && are_ascending(entries, ends) {
            merge_runs(entries, ends, spare);
        } else {
            sort_hashes(entries, 1, u64::MAX);
        }
        Ok((packing, missing))
    }

    fn encode(&self, source: &impl EntrySource, pages: Range<u64>, buffers: &mut Buffers) -> io::Result<Written> {
        let (packing, missing) = self.collect(source, pages.clone(), buffers)?;
        let mut written = Written::default();
        let (shape, writer) = (&self.index.shape, self.page_writer());
        written.bytes.reserve_exact((pages.end - pages.start) as usize * shape.page_bytes());
        let mut rest = buffers.entries.as_slice();
        for page in pages {
            let own = shape.first_prefix(page)..shape.first_prefix(page + 1);
            let (of_page, after) = rest.split_at(rest.partition_point(|&entry| packing.prefix(entry) < own.end));
            rest = after;
            if missing.unknown.iter().any(|lost| lost.start < own.end && own.start < lost.end) {
                writer.write_unknown(page, &mut written.bytes);
                written.unknown += 1;
                continue;
            }
            let entries = (of_page, &packing);
            let (overflowed, outside) = writer.write(page, entries, &missing.overflowed, &mut written.bytes);
            written.overflowed += overflowed;
            written.outside.extend(outside);
        }
        Ok(written)
    }
}

/// What a thread reuses.
#[derive(Default)]
struct Buffers {
    entries: Vec<KeyHash>,
    /// The ends of runs.
    ends: Vec<usize>,
    spare: Vec<KeyHash>,
}
