//! What a lookup looks for, a key or a range, and which chunks and files have it within their bounds.

use core::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::KeyRange;
use sstfilter::{Filters, KeyHash};

use crate::chunk::{Chunk, PrefixedHead};
use crate::config::Config;
use crate::reader::SharedParts;
use crate::state::FileState;
use crate::view::Level;

/// What a lookup is for: a key, or all keys of a range.
pub(super) trait Wanted<'a> {
    /// Returns those of the level's chunks in the order of keys that it may be in.
    fn sorted_chunks<F>(&self, level: &'a Level<F>) -> &'a [Arc<Chunk<F>>];

    /// Returns the files of a chunk that may have it by their bounds.
    fn within_bounds<F>(&mut self, chunk: &'a Chunk<F>) -> u64;
}

/// A key that is looked up.
pub(super) struct SearchKey<'a> {
    pub(super) bytes: &'a [u8],
    /// The hash of the whole key, computed when the first filter or map needs it.
    whole: Option<KeyHash>,
    /// The head of the key after the prefix of most chunks of a level.
    head: PrefixedHead<'a>,
}

impl<'a> SearchKey<'a> {
    #[inline]
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, whole: None, head: None }
    }

    #[inline]
    pub(super) const fn hashed(bytes: &'a [u8], whole: KeyHash) -> Self {
        Self { bytes, whole: Some(whole), head: None }
    }

    /// Returns the hash of the whole key.
    #[inline]
    pub(super) fn whole(&mut self, filters: &Filters) -> KeyHash {
        *self.whole.get_or_insert_with(|| filters.hash(self.bytes))
    }

    /// Returns the hash of the whole key by the file's own hasher: another store may have opened the file.
    #[inline]
    pub(super) fn whole_for(&mut self, config: &Arc<Config>, file: &FileState) -> KeyHash {
        if Arc::ptr_eq(&file.config, config) {
            self.whole(&config.reader.filters)
        } else {
            file.reader().filters.hash(self.bytes)
        }
    }

    /// Returns the hash for filters of one part; `None` for a key without it, for which no such filter can be probed.
    #[inline]
    pub(super) fn hash_for(&mut self, config: &Config, part: SharedParts) -> Option<KeyHash> {
        if part.has_whole_keys() {
            return Some(self.whole(&config.reader.filters));
        }
        config.reader.point_hashes(part, self.bytes).next()
    }
}

impl<'a> Wanted<'a> for SearchKey<'a> {
    #[inline]
    fn sorted_chunks<F>(&self, level: &'a Level<F>) -> &'a [Arc<Chunk<F>>] {
        let position = level.chunk_of(self.bytes);
        level.sorted.get(position..=position).unwrap_or_default()
    }

    #[inline]
    fn within_bounds<F>(&mut self, chunk: &'a Chunk<F>) -> u64 {
        let (core, key) = (&chunk.core, self.bytes);
        let mut files = core.bounds.holding(key, &mut self.head, |files| core.covering(files, key));
        // Heads know nothing of these files: they have range tombstones or unknown bounds.
        if core.without_heads != 0 {
            files |= core.covering(core.without_heads, key);
        }
        files
    }
}

/// The range of a scan.
#[derive(Clone)]
pub(super) struct ScanRange<'a> {
    pub(super) lower: Bound<&'a [u8]>,
    pub(super) upper: Bound<Bytes>,
    /// The smallest byte string that the range may contain.
    pub(super) start: Bytes,
}

impl<'a> ScanRange<'a> {
    pub(super) fn new(range: KeyRange<'a>) -> Self {
        let start = match range.lower {
            Bound::Included(lower) => Bytes::copy_from_slice(lower),
            // The smallest byte string above `lower`.
            Bound::Excluded(lower) => Bytes::from([lower, b"\0"].concat()),
            Bound::Unbounded => Bytes::new(),
        };
        Self { lower: range.lower, upper: range.upper.map(Bytes::copy_from_slice), start }
    }

    pub(super) fn keys(&self) -> KeyRange<'_> {
        KeyRange { lower: self.lower, upper: self.upper.as_ref().map(AsRef::as_ref) }
    }

    pub(super) fn is_beyond(&self, key: &[u8]) -> bool {
        !KeyRange { lower: Bound::Unbounded, ..self.keys() }.contains(key)
    }
}

impl<'a> Wanted<'a> for ScanRange<'_> {
    fn sorted_chunks<F>(&self, level: &'a Level<F>) -> &'a [Arc<Chunk<F>>] {
        let chunks = level.sorted.get(level.chunk_of(&self.start)..).unwrap_or_default();
        let is_reached = |chunk: &Arc<Chunk<F>>| chunk.core.smallest_key().is_none_or(|key| !self.is_beyond(key));
        chunks.get(..chunks.partition_point(is_reached)).unwrap_or_default()
    }

    fn within_bounds<F>(&mut self, chunk: &'a Chunk<F>) -> u64 {
        let files = chunk.core.files.iter().enumerate().filter(|(_, file)| file.overlaps(self.keys()));
        files.fold(0, |files, (place, _)| files | 1 << place)
    }
}
