//! Builds a map from the hashes of each file.

use core::ops::Range;
use std::io::{self, Write};

use sstfilter::internal::sort_hashes;
use sstfilter::{FileId, Filters, HashIdentity, KeyHash};

use crate::encode::Packing;
use crate::error::MapError;
use crate::index::{Covered, CoveredFile, overlapping};
use crate::options::MapOptions;
use crate::write::{EntrySource, MapReport, Missing, Plan};
use crate::writes::Writes;

/// Builds a map of files or of writes from the hashes of their keys: `(add_file)* finish`, or `(add_writes)* finish`.
///
/// It keeps 8 bytes for each key until it is finished. If that is too much, build several maps and
/// [merge](crate::MapMerge) them: the result has the same bytes.
#[derive(Debug)]
pub struct MapBuilder {
    options: MapOptions,
    hash: HashIdentity,
    runs: Vec<Run>,
}

/// What has some keys, in a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    File(FileId),
    Writes(Writes),
}

impl Owner {
    fn number(&self) -> u64 {
        match self {
            Self::File(file) => file.fingerprint(),
            Self::Writes(writes) => writes.first().get(),
        }
    }
}

/// The sorted hashes of one owner.
#[derive(Debug)]
struct Run {
    owner: Owner,
    /// Distinct prefixes.
    entries: u64,
    hashes: Vec<KeyHash>,
}

impl MapBuilder {
    /// Creates a builder for hashes of `filters`.
    #[must_use]
    pub fn new(filters: &Filters, options: MapOptions) -> Self {
        Self { options, hash: filters.hasher().identity(), runs: Vec::new() }
    }

    /// Returns the hash that the map will be built with.
    pub const fn hash_identity(&self) -> HashIdentity {
        self.hash
    }

    /// Returns the bits of a hash that the map will keep.
    #[must_use]
    pub const fn prefix_bits(&self) -> u8 {
        self.options.prefix_bits
    }

    /// Returns whether all that was added is files, and at least one.
    #[must_use]
    pub fn covers_files(&self) -> bool {
        !self.runs.is_empty() && self.runs.iter().all(|run| matches!(run.owner, Owner::File(_)))
    }

    /// Adds a file. `hashes` must be those of all its keys, deleted ones too, in any order: the map will say that the
    /// file has no other key.
    pub fn add_file(&mut self, file: FileId, hashes: Vec<KeyHash>) {
        self.add(Owner::File(file), hashes);
    }

    /// Adds flushes. `hashes` must be those of all keys that they wrote, deleted ones too: the map will say that no
    /// flush with one of these numbers wrote another key.
    ///
    /// A flush covers the numbers from one after the previous flush's to its own, so that numbers that were given to no
    /// flush are covered as well. A flush that did not write its map, or is still to be written, must not be among
    /// them.
    pub fn add_writes(&mut self, writes: Writes, hashes: Vec<KeyHash>) {
        self.add(Owner::Writes(writes), hashes);
    }

    fn add(&mut self, owner: Owner, mut hashes: Vec<KeyHash>) {
        if !hashes.is_sorted() {
            sort_hashes(&mut hashes, self.options.threads, u64::MAX);
        }
        let prefix = |hash: &KeyHash| hash.get() >> (64 - self.options.prefix_bits);
        let entries = hashes.chunk_by(|one, two| prefix(one) == prefix(two)).count() as u64;
        self.runs.push(Run { owner, entries, hashes });
    }

    /// Writes the map to `sink`. `map` is the map's own id, drawn at random and stored with the map's name.
    ///
    /// # Errors
    ///
    /// Those of `sink`, and [`MapError`] for no file, too many, one that was added twice, writes that overlap, or both
    /// files and writes.
    pub fn finish(mut self, map: FileId, sink: &mut impl Write) -> io::Result<MapReport> {
        self.runs.sort_by_key(|run| run.owner.number());
        let entries = self.runs.iter().map(|run| run.entries).sum();
        let plan = Plan::new(&self.options, self.hash, map, covered(&self.runs)?, entries)?;
        plan.write(&Hashes { runs: self.runs, prefix_bits: self.options.prefix_bits }, sink)
    }
}

/// Returns what a map of these runs, which ascend by their numbers, covers.
fn covered(runs: &[Run]) -> Result<Covered, MapError> {
    let (mut files, mut writes) = (Vec::<CoveredFile>::new(), Vec::<Writes>::new());
    for run in runs {
        match run.owner {
            Owner::File(file) if files.last().is_some_and(|before| before.file == file) => {
                return Err(MapError::field("covered files", "no file that was added twice", file.fingerprint()));
            }
            Owner::File(file) => files.push(CoveredFile { file, entries: run.entries }),
            Owner::Writes(own) if writes.last().is_some_and(|before| before.overlaps(own)) => {
                return Err(overlapping(own.first()));
            }
            Owner::Writes(own) => writes.push(own),
        }
    }
    match (files.is_empty(), writes.is_empty()) {
        (_, true) => Ok(Covered::Files(files.into())),
        (true, false) => Ok(Covered::Writes(writes.into())),
        (false, false) => Err(MapError::MixedCoverage),
    }
}

/// The hashes of all runs.
struct Hashes {
    runs: Vec<Run>,
    prefix_bits: u8,
}

impl EntrySource for Hashes {
    fn runs(&self) -> usize {
        self.runs.len()
    }

    fn append(
        &self,
        prefixes: Range<u64>,
        packing: &Packing,
        entries: &mut Vec<KeyHash>,
        ends: &mut Vec<usize>,
    ) -> io::Result<Missing> {
        let prefix = |hash: &KeyHash| hash.get() >> (64 - self.prefix_bits);
        for (id, Run { hashes, .. }) in (0..).zip(&self.runs) {
            let from = hashes.partition_point(|hash| prefix(hash) < prefixes.start);
            let own = hashes.get(from..).unwrap_or_default();
            let own = own.get(..own.partition_point(|hash| prefix(hash) < prefixes.end)).unwrap_or_default();
            entries.extend(own.iter().map(|hash| packing.pack(prefix(hash), id)));
            ends.push(entries.len());
        }
        Ok(Missing::default())
    }
}
