//! Checks a map, and that it finds the keys of the files that it covers.

use core::ops::ControlFlow;
use std::collections::HashMap;

use sstfilter::{BlockError, FileId, KeyHash, KeyHasher};
use sstfilter_map::{LocalId, MapVerification};

use super::keys::{Source, id_text};
use crate::file::blocks::hasher_of;
use crate::file::context::Context;
use crate::file::map::{Answer, KEYS_AT_ONCE, MapReader, OpenMap};
use crate::file::problem::Problem;
use crate::print::record;
use crate::print::types::{Key, PathName};
use crate::words::units::{counted, grouped};

/// Keys that are looked up together, in the order of their hashes, so that almost every page is read once for all of
/// them: 256 MiB.
const BATCH_KEYS: usize = 16 << 20;

/// Problems of one map that are listed.
const MAX_PROBLEMS: usize = 100;

record! {
    /// The contents of a map, as far as its pages are sound.
    pub(crate) struct MapCheck {
        /// number of files that the map covers
        pub(crate) covered_files: u64,
        /// number of pages
        pub(crate) pages: u64,
        /// pages that are damaged: all covered files may have their keys
        pub(crate) damaged_pages: u64,
        pub(crate) unknown_pages: u64,
        pub(crate) outgrown_pages: u64,
        pub(crate) lists: u64,
        pub(crate) map_entries: u64,
        /// covered files whose keys were looked up
        pub(crate) files_compared: u64,
        /// covered files whose keys the map has lost
        pub(crate) lost: Vec<LostKeys>,
    }

    /// Keys of a covered file that a map does not find.
    pub(crate) struct LostKeys {
        pub(crate) path: PathName [row],
        pub(crate) file_id: String [row],
        /// keys that lookups do not find
        pub(crate) lost_keys: u64 [row],
        /// one of them; null if the file has changed since
        pub(crate) lost_key: Option<Key> [row],
    }
}

impl MapCheck {
    /// Checks all pages of a map, and adds what is damaged.
    pub(crate) fn new(map: &OpenMap, context: &Context, problems: &mut Vec<String>) -> anyhow::Result<Self> {
        let (mut found, mut more) = (Vec::new(), 0);
        let read = |range: core::ops::Range<u64>| {
            context.progress.iter().for_each(|progress| progress.advance(range.end - range.start));
            map.read(range)
        };
        let contents = map.index.verify(read, |problem| match found.len() {
            ..MAX_PROBLEMS => found.push(problem.to_string()),
            _ => more += 1,
        })?;
        problems.append(&mut found);
        problems.extend((more > 0).then(|| format!("and {}", counted(more, "more problem"))));
        let MapVerification { damaged_pages, unknown_pages, outgrown_pages, lists, entries, .. } = contents;
        Ok(Self {
            covered_files: map.index.files().len() as u64,
            pages: map.index.pages(),
            damaged_pages,
            unknown_pages,
            outgrown_pages,
            lists,
            map_entries: entries,
            files_compared: 0,
            lost: Vec::new(),
        })
    }

    /// Returns how many keys were looked up, and how many pages say nothing about keys.
    pub(super) fn remarks(&self, keys: Option<u64>) -> Vec<String> {
        let mut remarks = Vec::new();
        let files = counted(self.covered_files, "file");
        match keys.filter(|_| self.covered_files > 0) {
            Some(_) if self.files_compared == 0 => remarks.push(format!("covers {files}, none of which was passed")),
            Some(keys) => {
                let (keys, compared) = (counted(keys, "key"), grouped(self.files_compared));
                remarks.push(format!("{keys} of {compared} of {files} looked up"));
            }
            None => {}
        }
        if self.unknown_pages > 0 {
            let (unknown, pages) = (grouped(self.unknown_pages), counted(self.pages, "page"));
            remarks.push(format!("{unknown} of {pages} unknown: build the map from keys again"));
        }
        remarks
    }
}

/// The comparison of a map with the keys of files.
pub(crate) struct Comparing<'a> {
    map: &'a OpenMap,
    hasher: KeyHasher,
    batch: Vec<(KeyHash, usize)>,
    /// The files of the batch and of those before.
    files: Vec<(Source, FileId, LocalId)>,
    /// A lost hash and the number of lost hashes, by the position of their file.
    lost: HashMap<usize, (KeyHash, u64)>,
    keys: u64,
    files_compared: u64,
}

/// The result of a comparison.
pub(crate) struct Compared {
    pub(crate) keys: u64,
    pub(crate) files: u64,
    pub(crate) lost: Vec<LostKeys>,
}

impl<'a> Comparing<'a> {
    /// Fails if the hash of the map is secret.
    pub(crate) fn new(map: &'a OpenMap, context: &Context) -> Result<Self, BlockError> {
        let hasher = hasher_of(map.index.hash_identity(), context.secret.as_ref())?;
        let (batch, files, lost) = (Vec::new(), Vec::new(), HashMap::new());
        Ok(Self { map, hasher, batch, files, lost, keys: 0, files_compared: 0 })
    }

    /// Looks up the keys of a file in the maps that cover it. Returns whether there are any.
    pub(crate) fn compare<'m>(
        maps: impl Iterator<Item = &'m mut Self>,
        source: &Source,
        context: &Context,
    ) -> Result<bool, Problem>
    where
        'a: 'm,
    {
        let open = source.open(context)?;
        let mut covering = Vec::new();
        for map in maps {
            if let Some(id) = map.map.index.local_id(open.id) {
                map.files.push((source.clone(), open.id, id));
                covering.push(map);
            }
        }
        if covering.is_empty() {
            return Ok(false);
        }
        let mut looked_up = Ok(());
        open.for_each_key(&mut |key| {
            looked_up = covering.iter_mut().try_for_each(|map| map.add(key));
            if looked_up.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        looked_up?;
        covering.iter_mut().for_each(|map| map.files_compared += 1);
        Ok(true)
    }

    fn add(&mut self, key: &[u8]) -> anyhow::Result<()> {
        self.batch.push((self.hasher.hash(key), self.files.len() - 1));
        if self.batch.len() >= BATCH_KEYS { self.look_up() } else { Ok(()) }
    }

    fn look_up(&mut self) -> anyhow::Result<()> {
        self.batch.sort_unstable_by_key(|(hash, _)| hash.get());
        let mut reader = MapReader::new(self.map);
        for keys in self.batch.chunks(KEYS_AT_ONCE) {
            let hashes: Vec<_> = keys.iter().map(|(hash, _)| *hash).collect();
            for (&(hash, position), answer) in keys.iter().zip(reader.look_up(&hashes)?) {
                let Some((_, _, id)) = self.files.get(position) else { continue };
                // All files may have the keys of damaged and unknown pages, so that none is lost.
                if matches!(answer, Answer::Only(ids) if !ids.contains(id)) {
                    self.lost.entry(position).or_insert((hash, 0)).1 += 1;
                }
            }
        }
        self.keys += self.batch.len() as u64;
        self.batch.clear();
        Ok(())
    }

    /// Looks up the last batch, and names a lost key of each file.
    pub(crate) fn finish(mut self, context: &Context) -> anyhow::Result<Compared> {
        self.look_up()?;
        let mut positions: Vec<_> = self.lost.iter().collect();
        positions.sort_unstable_by_key(|(position, _)| **position);
        let mut lost = Vec::new();
        for (&position, &(hash, lost_keys)) in positions {
            let Some((source, file, _)) = self.files.get(position) else { continue };
            let lost_key = self.key_of(hash, source, context).map(Key);
            lost.push(LostKeys {
                path: PathName(source.found.path.clone()),
                file_id: id_text(*file),
                lost_keys,
                lost_key,
            });
        }
        Ok(Compared { keys: self.keys, files: self.files_compared, lost })
    }

    /// Reads a file again to find the key with a hash. An error would have been found before.
    fn key_of(&self, hash: KeyHash, source: &Source, context: &Context) -> Option<Vec<u8>> {
        let mut found = None;
        let visited = source.open(context).ok()?.for_each_key(&mut |key| {
            found = (self.hasher.hash(key) == hash).then(|| key.to_vec());
            if found.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        visited.ok().and(found)
    }
}
