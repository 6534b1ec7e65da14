//! The filter beside a table, looked for when the table is opened.
//!
//! A sidecar can be wrong in ways that a table's own filter cannot, because it is another file: of another table, of
//! an earlier one under the same name, half there. Each of them is found before a key is probed, and the table's own
//! filter is used then.

use core::fmt;
use core::sync::atomic::Ordering;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::filter_in_memory::FilterInMemory;
use super::io::{TableFile, io_error};
use super::table_filter::TableFilter;
use super::table_partitions::TablePartitions;
use super::table_parts::TableParts;
use super::table_source::{FilterPlace, TableFilterSource, WholeFile};
use super::{FileSystem, RandomAccess, ReadOptions, TableError, TableLocation, TablePart};
use crate::block::trailer::MAX_TAIL_BYTES;
use crate::block::{FilterBlock, LoadContext};
use crate::hash::KeyParts;
use crate::sidecar::{Sidecar, SidecarError};
use crate::store::KeyPartNames;
use crate::store::reader::{Reader, SharedParts};

/// The sidecar that was found beside a table. A table without one keeps nothing.
pub(crate) struct TableSidecar {
    path: Arc<Path>,
    files: Arc<dyn FileSystem>,
    /// What is used, or why nothing is.
    pub(crate) state: Result<Sidecar, TableError>,
    /// The file, if parts of it are read after the table was opened.
    file: Option<Arc<TableFile>>,
}

impl TableSidecar {
    /// Looks for the sidecar of a table that was opened by path, and loads its filter. A table without one costs one
    /// look at a directory, or one attempt to open a file.
    pub(crate) fn find(
        table: &TableFile,
        options: &ReadOptions,
        parts: &TableParts,
        reader: &Arc<Reader>,
    ) -> (Option<Self>, Option<(TableFilter, SharedParts)>) {
        let is_wanted = !options.ignores_filters && !options.ignores_sidecars;
        let (Some(path), files) = (table.path().filter(|_| is_wanted), &options.files) else { return (None, None) };
        let path: Arc<Path> = Sidecar::path_of(path).into();
        if !files.may_exist(&path) {
            return (None, None);
        }
        let source = match files.open(&path) {
            Err(error) if is_missing(&error) => return (None, None),
            opened => opened.map_err(io_error("opening", Some(&path))),
        };
        let loaded = source.and_then(|source| SidecarFile::open(source, &path, parts)).and_then(|file| {
            let loaded = file.filter(parts, reader, options);
            let is_read_later = loaded.as_ref().is_ok_and(|(filter, _)| filter.is_budgeted());
            let kept = is_read_later.then(|| Arc::clone(&file.file));
            if kept.is_none() {
                table.counters.bytes_read.fetch_add(bytes_read_of(&file.file), Ordering::Relaxed);
            }
            Ok((file.sidecar, kept, loaded?))
        });
        let (state, file, used) = match loaded {
            Ok((sidecar, file, used)) => (Ok(sidecar), file, Some(used)),
            Err(problem) => (Err(problem), None, None),
        };
        (Some(Self { path, files: Arc::clone(files), state, file }), used)
    }

    /// Bytes read of it that the table has not counted.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.file.as_deref().map_or(0, bytes_read_of)
    }

    /// Why it is not used, by value.
    pub(crate) fn into_problem(self) -> Option<TableError> {
        self.state.err()
    }

    /// Where its filter is, if it is used.
    pub(crate) fn filter_in_use(&self) -> Option<TableLocation> {
        self.state.as_ref().ok().map(|_| self.location())
    }

    /// Where its filter is.
    pub(crate) fn location(&self) -> TableLocation {
        TableLocation { path: Some(Arc::clone(&self.path)), part: TablePart::Filter, offset: 0 }
    }

    /// Its filter, read once more; `None` if there is no sidecar now, and none is used.
    pub(crate) fn read_again(
        &self,
        parts: &TableParts,
        reader: &Reader,
    ) -> Result<Option<(FilterInMemory, SharedParts)>, TableError> {
        let source = match self.files.open(&self.path) {
            Err(error) if is_missing(&error) && self.state.is_err() => return Ok(None),
            opened => opened.map_err(io_error("opening", Some(&self.path)))?,
        };
        SidecarFile::open(source, &self.path, parts)?.load(parts, reader).map(Some)
    }
}

impl fmt::Debug for TableSidecar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableSidecar").field("path", &self.path).field("state", &self.state).finish_non_exhaustive()
    }
}

/// Whether there is no sidecar. Beside a table whose own name is as long as names can be, there cannot be one.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename)
}

/// An open sidecar whose tail is sound and names the table.
struct SidecarFile {
    file: Arc<TableFile>,
    sidecar: Sidecar,
}

/// Bytes of the end that are read at once: a trailer, and more names than most stores have.
const END_BYTES: u64 = 256;

impl SidecarFile {
    fn open(source: Box<dyn RandomAccess>, path: &Arc<Path>, parts: &TableParts) -> Result<Self, TableError> {
        let file = TableFile::new(source, Some(Arc::clone(path)))?;
        let refused = |source| TableError::Sidecar { path: path.to_path_buf(), source };
        let mut tail = read_end(&file, END_BYTES)?;
        let tail_bytes = Sidecar::tail_bytes(&tail).map_err(refused)?;
        if tail_bytes > tail.len() as u64 {
            tail = read_end(&file, tail_bytes)?;
        }
        let sidecar = Sidecar::open(&tail, file.length, &parts.identity()).map_err(refused)?;
        Ok(Self { file: Arc::new(file), sidecar })
    }

    /// The filter as an open table holds it: in memory, or under a budget, and partitions always so.
    fn filter(
        &self,
        parts: &TableParts,
        reader: &Arc<Reader>,
        options: &ReadOptions,
    ) -> Result<(TableFilter, SharedParts), TableError> {
        let shared = self.shared_with(reader)?;
        let key_parts = reader.key_parts_of(shared);
        let context = self.context(reader, &key_parts);
        let bytes = self.sidecar.filter_bytes();
        // As for a table's own filter; a sidecar names the table's data by their checksum.
        let has_known = options.is_hash_strict || !reader.is_known_by_identity(shared);
        let known: Vec<&[u8]> = parts.properties.bounds().filter(|_| has_known).collect();
        let with_known = context.with_known_keys(&known);
        let partitions =
            TablePartitions::of_sidecar(&self.file, bytes, with_known).map_err(|error| self.named(error))?;
        let place = match partitions {
            None if options.budget.is_none() => {
                return Ok((TableFilter::of_block(self.loaded(self.read_filter()?, parts, context)?), shared));
            }
            None => {
                let end_bytes = bytes.min(MAX_TAIL_BYTES as u64);
                let end = self.file.read_bytes(bytes - end_bytes, end_bytes)?;
                FilterBlock::check_end(&end, bytes, context).map_err(|error| self.refused(error.into()))?;
                let file = WholeFile::Sidecar(Box::new(self.sidecar.clone()));
                let known = known.iter().flat_map(|key| reader.key_hashes(shared, key));
                FilterPlace::whole(file, reader, known)
            }
            Some(partitions) => FilterPlace::Partitions(partitions),
        };
        let source = TableFilterSource::new(Arc::clone(&self.file), place);
        // Now, as for a table's own filter.
        source.check_known_keys().map_err(|error| self.refused(error.into()))?;
        Ok((TableFilter::registered(source, options), shared))
    }

    /// All of the filter, every byte of it checked.
    fn load(&self, parts: &TableParts, reader: &Reader) -> Result<(FilterInMemory, SharedParts), TableError> {
        let shared = self.shared_with(reader)?;
        let key_parts = reader.key_parts_of(shared);
        let (bytes, context) = (self.sidecar.filter_bytes(), self.context(reader, &key_parts));
        // Its checksum covers the zeros, too, and the bytes beside partitions. It comes first: a flipped bit in a
        // container's trailer may read as a newer version of it, which is no damage.
        let filter = self.read_filter();
        let partitions = TablePartitions::of_sidecar(&self.file, bytes, context).map_err(|error| self.named(error));
        let filter = filter.map_err(|damage| {
            let partitions = partitions.as_ref().ok().and_then(Option::as_ref);
            partitions.and_then(|partitions| self.damaged_partition(partitions)).unwrap_or(damage)
        })?;
        let Some(partitions) = partitions? else {
            let block = self.loaded(filter, parts, context)?;
            return Ok((FilterInMemory::Whole(Box::new(block)), shared));
        };
        drop(filter);
        let mut blocks = Vec::new();
        for entry in partitions.index.entries() {
            let block = (entry.block_bytes > 0).then(|| partitions.read_block(&self.file, entry.number));
            blocks.push(block.transpose().map_err(|error| self.named(error))?);
        }
        Ok((FilterInMemory::Partitioned { partitions, blocks }, shared))
    }

    /// What is wrong with the first partition that is damaged.
    fn damaged_partition(&self, partitions: &TablePartitions) -> Option<TableError> {
        let filtered = partitions.index.entries().filter(|entry| entry.block_bytes > 0);
        let mut refused = filtered.filter_map(|entry| partitions.read_block(&self.file, entry.number).err());
        refused.next().map(|error| self.named(error))
    }

    /// A whole filter, whose checksum has held.
    fn loaded(
        &self,
        filter: Bytes,
        parts: &TableParts,
        context: LoadContext<'_>,
    ) -> Result<FilterBlock<Bytes>, TableError> {
        let known: Vec<&[u8]> = parts.properties.bounds().collect();
        let block = FilterBlock::load(filter, context.with_known_keys(&known));
        block.map_err(|error| self.refused(error.into()))
    }

    /// The filter's bytes, once their checksum has held.
    fn read_filter(&self) -> Result<Bytes, TableError> {
        let expected = self.sidecar.filter_checksum();
        let filter = self.file.read_with_checksum(self.sidecar.filter_bytes(), expected)?;
        filter.map_err(|got| self.refused(SidecarError::FilterChecksum { expected, got }))
    }

    fn shared_with(&self, reader: &Reader) -> Result<SharedParts, TableError> {
        let shared = reader.parts_shared_with(&KeyPartNames::of_sidecar(&self.sidecar));
        shared.map_err(|error| self.refused(error.into()))
    }

    fn context<'a>(&self, reader: &'a Reader, key_parts: &'a KeyParts) -> LoadContext<'a> {
        reader.context_of(key_parts).with_file_id(self.sidecar.table().file_id())
    }

    /// The problem of a filter, as one of the sidecar.
    fn named(&self, error: TableError) -> TableError {
        match error {
            TableError::Filter { source, .. } => self.refused(source.into()),
            other => other,
        }
    }

    fn refused(&self, source: SidecarError) -> TableError {
        let path = self.file.path().unwrap_or(Path::new("")).to_path_buf();
        TableError::Sidecar { path, source }
    }
}

fn bytes_read_of(file: &TableFile) -> u64 {
    file.counters.bytes_read.load(Ordering::Relaxed)
}

/// The last `most` bytes of a file, or all of it.
fn read_end(file: &TableFile, most: u64) -> Result<Vec<u8>, TableError> {
    let bytes = most.min(file.length);
    let mut end = vec![0; usize::try_from(bytes).unwrap_or(0)];
    file.read_into(&mut end, file.length - bytes)?;
    Ok(end)
}
