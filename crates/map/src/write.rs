//! Writes a map page by page, whichever source its entries come from.

use core::ops::Range;
use std::io::{self, Write};

use sstfilter::internal::{share, sort_hashes};
use sstfilter::{FileId, HashIdentity, KeyHash};

use crate::encode::{Outside, Packing, PageWriter};
use crate::error::MapError;
use crate::index::{Covered, MapEnd};
use crate::options::MapOptions;
use crate::runs::{are_ascending, merge_runs};
use crate::shape::Shape;
use crate::slice::Slice;
use crate::slice_end::append_footer;

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

/// What was written. For a slice, bytes, pages and lists are its own; files and entries are those of the map.
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

    /// Counts what a page has in the tail.
    pub(crate) fn count(&mut self, outside: &Outside) {
        self.outgrown_pages += u64::from(outside.is_outgrown());
        self.lists += outside.lists() as u64;
    }
}

/// A map to be written.
#[derive(Debug)]
pub(crate) struct Plan {
    shape: Shape,
    hash: HashIdentity,
    map: FileId,
    covered: Covered,
    entries: u64,
    threads: usize,
}

/// A range of pages, and what became of it.
struct Chunk {
    pages: Range<u64>,
    written: io::Result<Written>,
}

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
        Ok(Self { shape, hash, map, covered, entries, threads: options.threads })
    }

    /// Writes the map, or a slice of it.
    pub(crate) fn write(
        &self,
        source: &impl EntrySource,
        slice: Option<Slice>,
        sink: &mut impl Write,
    ) -> io::Result<MapReport> {
        let own = slice.map_or(0..self.shape.pages, |slice| slice.pages(self.shape.pages));
        let mut report = MapReport {
            files: self.shape.files,
            entries: self.entries,
            pages: own.end - own.start,
            ..MapReport::default()
        };
        let (mut tail, threads) = (Vec::new(), self.threads.max(1));
        let writer = PageWriter::new(self.shape, self.map.fingerprint());
        let mut pages = own.start;
        while pages < own.end {
            let step = self.pages_of_chunk(source.runs());
            let mut chunks: Vec<_> = (pages..own.end)
                .step_by(step as usize)
                .take(threads)
                .map(|start| start..(start + step).min(own.end))
                .map(|pages| Chunk { pages, written: Ok(Written::default()) })
                .collect();
            share(threads, chunks.iter_mut().collect(), &mut Buffers::default(), |buffers, chunk: &mut Chunk| {
                chunk.written = self.encode(source, chunk.pages.clone(), buffers);
            });
            for Chunk { pages: done, written } in chunks {
                let Written { mut bytes, outside, unknown, overflowed } = written?;
                report.unknown_pages += unknown;
                report.overflowed_lines += overflowed;
                for outside in outside {
                    report.count(&outside);
                    writer.finish(outside, &mut bytes, 0, &mut tail);
                }
                sink.write_all(&bytes)?;
                pages = done.end;
            }
        }
        sink.write_all(&tail)?;
        let mut end = MapEnd {
            shape: self.shape,
            hash: self.hash,
            map: self.map,
            tail_bytes: tail.len() as u64,
            entries: self.entries,
            covered: &self.covered,
        }
        .encode();
        if let Some(slice) = slice {
            append_footer(slice, &mut end);
        }
        sink.write_all(&end)?;
        report.bytes = (report.pages << self.shape.page_bits) + (tail.len() + end.len()) as u64;
        Ok(report)
    }

    fn pages_of_chunk(&self, runs: usize) -> u64 {
        let of_page = (self.entries / self.shape.pages).max(1);
        let wanted = CHUNK_ENTRIES.max((runs.min(128) as u64) * CHUNK_ENTRIES_PER_RUN);
        let mut pages = (wanted / of_page).clamp(1, 1 << 12).min(self.shape.pages);
        // If files are many, and a map keeps many bits of a hash, fewer pages have entries that fit into 64 bits.
        while pages > 1 && Packing::new(0, self.shape.first_prefix(pages), self.shape.files).is_none() {
            pages /= 2;
        }
        pages
    }

    /// Counts the entries of `source`, without repetitions.
    pub(crate) fn count(&self, source: &impl EntrySource) -> io::Result<u64> {
        let step = self.pages_of_chunk(source.runs());
        let starts = (0..self.shape.pages).step_by(step as usize);
        let mut chunks: Vec<_> = starts.map(|start| (start..(start + step).min(self.shape.pages), Ok(0))).collect();
        let all = chunks.iter_mut().collect();
        share(self.threads.max(1), all, &mut Buffers::default(), |buffers, (pages, count): &mut (Range<u64>, _)| {
            *count = self.collect(source, pages.clone(), buffers).map(|_| {
                let repetitions = buffers.entries.windows(2).filter(|two| two.first() == two.last()).count();
                (buffers.entries.len() - repetitions) as u64
            });
        });
        chunks.into_iter().map(|(_, count)| count).sum()
    }

    /// Collects the entries of some pages in ascending order. Returns how they are packed, and the prefixes whose
    /// entries are missing.
    fn collect(
        &self,
        source: &impl EntrySource,
        pages: Range<u64>,
        buffers: &mut Buffers,
    ) -> io::Result<(Packing, Missing)> {
        let prefixes = self.shape.first_prefix(pages.start)..self.shape.first_prefix(pages.end);
        let packing = Packing::new(prefixes.start, prefixes.end, self.shape.files).ok_or(MapError::Field {
            field: "files",
            expected: "fewer, or more entries in each",
            got: self.shape.files.into(),
        })?;
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
        written.bytes.reserve_exact((pages.end - pages.start) as usize * self.shape.page_bytes());
        let writer = buffers.writer.get_or_insert_with(|| PageWriter::new(self.shape, self.map.fingerprint()));
        let mut rest = buffers.entries.as_slice();
        for page in pages {
            let own = self.shape.first_prefix(page)..self.shape.first_prefix(page + 1);
            let (of_page, after) = rest.split_at(rest.partition_point(|&entry| packing.unpack(entry).0 < own.end));
            rest = after;
            if missing.unknown.iter().any(|lost| lost.start < own.end && own.start < lost.end) {
                writer.write_unknown(page, &mut written.bytes);
                written.unknown += 1;
                continue;
            }
            let outside = writer.write(page, (of_page, &packing), &missing.overflowed, &mut written.bytes);
            written.outside.extend(outside);
            written.overflowed += writer.overflowed_lines;
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
    writer: Option<PageWriter>,
}
