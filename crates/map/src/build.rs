//! Builds a map from the hashes of each file.

use core::ops::Range;
use std::io::{self, Write};

use sstfilter::internal::sort_hashes;
use sstfilter::{FileId, Filters, HashIdentity, KeyHash};

use crate::encode::Packing;
use crate::error::MapError;
use crate::index::CoveredFile;
use crate::options::MapOptions;
use crate::slice::Slice;
use crate::write::{EntrySource, MapReport, Plan};

/// Builds a map of files from the hashes of their keys: `(add_file)* finish`.
///
/// It keeps 8 bytes for each key until it is finished. If that is too much, build several maps and
/// [merge](crate::MapMerge) them: the result has the same bytes.
#[derive(Debug)]
pub struct MapBuilder {
    options: MapOptions,
    hash: HashIdentity,
    files: Vec<(CoveredFile, Vec<KeyHash>)>,
}

impl MapBuilder {
    /// Creates a builder for hashes of `filters`.
    #[must_use]
    pub fn new(filters: &Filters, options: MapOptions) -> Self {
        Self { options, hash: filters.hasher().identity(), files: Vec::new() }
    }

    /// Adds a file. `hashes` must be those of all its keys, deleted ones too, in any order: the map will say that the
    /// file has no other key.
    pub fn add_file(&mut self, file: FileId, mut hashes: Vec<KeyHash>) {
        if !hashes.is_sorted() {
            sort_hashes(&mut hashes, self.options.threads, u64::MAX);
        }
        let prefix = |hash: &KeyHash| hash.get() >> (64 - self.options.prefix_bits);
        let entries = hashes.chunk_by(|one, two| prefix(one) == prefix(two)).count() as u64;
        self.files.push((CoveredFile { file, entries }, hashes));
    }

    /// Writes the map to `sink`. `map` is the map's own id, drawn at random and stored with the map's name.
    ///
    /// # Errors
    ///
    /// Those of `sink`, and [`MapError`] for no file, too many, or one that was added twice.
    pub fn finish(self, map: FileId, sink: &mut impl Write) -> io::Result<MapReport> {
        self.write(map, None, sink)
    }

    /// Writes one slice of the map to `sink`. Add the same files, with the same options and id, for each slice, and
    /// [join](crate::MapJoin) all slices.
    ///
    /// Each slice needs the hashes of all files, to know how many entries the map has. Only the work of encoding is
    /// divided. To divide the reading of keys, too, build a map of some of the files in each process, and
    /// [merge](crate::MapMerge::finish_slice) these maps in slices.
    ///
    /// # Errors
    ///
    /// As [`finish`](Self::finish).
    pub fn finish_slice(self, map: FileId, slice: Slice, sink: &mut impl Write) -> io::Result<MapReport> {
        self.write(map, Some(slice), sink)
    }

    fn write(mut self, map: FileId, slice: Option<Slice>, sink: &mut impl Write) -> io::Result<MapReport> {
        self.files.sort_by_key(|(covered, _)| covered.file.fingerprint());
        let covered: Vec<_> = self.files.iter().map(|(covered, _)| *covered).collect();
        if let Some(two) =
            covered.windows(2).find(|two| two.first().map(|one| one.file) == two.last().map(|one| one.file))
        {
            let fingerprint = two.first().map_or(0, |covered| covered.file.fingerprint());
            return Err(MapError::DuplicateFile { fingerprint }.into());
        }
        let plan = Plan::new(&self.options, self.hash, map, covered)?;
        plan.write(&Hashes { files: self.files, prefix_bits: self.options.prefix_bits }, slice, sink)
    }
}

/// The hashes of all files, sorted.
struct Hashes {
    files: Vec<(CoveredFile, Vec<KeyHash>)>,
    prefix_bits: u8,
}

impl EntrySource for Hashes {
    fn runs(&self) -> usize {
        self.files.len()
    }

    fn append(
        &self,
        prefixes: Range<u64>,
        packing: &Packing,
        entries: &mut Vec<KeyHash>,
        ends: &mut Vec<usize>,
    ) -> io::Result<Vec<Range<u64>>> {
        let prefix = |hash: &KeyHash| hash.get() >> (64 - self.prefix_bits);
        for (id, (_, hashes)) in (0..).zip(&self.files) {
            let from = hashes.partition_point(|hash| prefix(hash) < prefixes.start);
            let own = hashes.get(from..).unwrap_or_default();
            let own = own.get(..own.partition_point(|hash| prefix(hash) < prefixes.end)).unwrap_or_default();
            entries.extend(own.iter().map(|hash| packing.pack(prefix(hash), id)));
            ends.push(entries.len());
        }
        Ok(Vec::new())
    }
}
