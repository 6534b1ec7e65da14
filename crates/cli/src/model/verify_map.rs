//! Checks a map, and that it finds the keys of the files that it covers.

use core::ops::ControlFlow;
use std::collections::BTreeMap;

use sstfilter::{BlockError, FileId, KeyHash, KeyHasher};
use sstfilter_map::LocalId;

use super::keys::{OpenSource, Source, id_text};
use crate::file::blocks::hasher_of;
use crate::file::context::Context;
use crate::file::map::{Answer, OpenMap};
use crate::print::record;
use crate::system::input;
use crate::words::escape::key_text;
use crate::words::units::{counted, grouped};

/// Keys that are looked up together, in the order of their hashes, so that almost every page is read once for all of
/// them: 256 MiB.
const BATCH_KEYS: usize = 16 << 20;

/// Problems of one map that are listed.
const MAX_PROBLEMS: usize = 100;

record! {
    /// The contents of a map.
    pub(crate) struct MapCheck {
        pub(crate) covered_files: u64,
        pub(crate) files_compared: u64,
        pub(crate) damaged_pages: u64,
        pub(crate) unknown_pages: u64,
    }
}

impl MapCheck {
    /// Checks all pages of a map, and adds what is damaged.
    pub(crate) fn new(map: &OpenMap, context: &Context, problems: &mut Vec<String>) -> anyhow::Result<Self> {
        let mut more = 0;
        let read = |range: core::ops::Range<u64>| {
            context.progress.iter().for_each(|progress| progress.advance(range.end - range.start));
            map.read(range)
        };
        let found = map.index.verify(read, |problem| match problems.len() {
            ..MAX_PROBLEMS => problems.push(problem.to_string()),
            _ => more += 1,
        })?;
        problems.extend((more > 0).then(|| format!("and {}", counted(more, "more problem"))));
        let (damaged_pages, unknown_pages) = (found.damaged_pages, found.unknown_pages);
        Ok(Self { covered_files: map.index.files().len() as u64, files_compared: 0, damaged_pages, unknown_pages })
    }

    /// Returns how many keys were looked up, and how many pages say nothing about keys.
    pub(super) fn remarks(&self, keys: Option<u64>) -> impl Iterator<Item = String> {
        let files = counted(self.covered_files, "file");
        let rest = if self.files_compared < self.covered_files {
            "; `map merge --keep` drops files that are gone"
        } else {
            ""
        };
        let compared = keys.filter(|_| self.covered_files > 0).map(|keys| match self.files_compared {
            0 => format!("covers {files}, none of which was passed"),
            some => format!("{} of {} of {files} looked up{rest}", counted(keys, "key"), grouped(some)),
        });
        let unknown = (self.unknown_pages > 0).then(|| counted(self.unknown_pages, "page"));
        compared.into_iter().chain(unknown.map(|pages| format!("{pages} unknown: build the map from keys again")))
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
    lost: BTreeMap<usize, (KeyHash, u64)>,
    keys: u64,
    files_compared: u64,
}

impl<'a> Comparing<'a> {
    /// Fails if the hash of the map is secret.
    pub(crate) fn new(map: &'a OpenMap, context: &Context) -> Result<Self, BlockError> {
        let hasher = hasher_of(map.index.hash_identity(), context.secret.as_ref())?;
        let (batch, files, lost) = (Vec::new(), Vec::new(), BTreeMap::new());
        Ok(Self { map, hasher, batch, files, lost, keys: 0, files_compared: 0 })
    }

    /// Looks up the keys of a file. Returns whether the map covers it.
    pub(crate) fn compare(&mut self, source: &Source, open: &OpenSource) -> anyhow::Result<bool> {
        let Some(id) = self.map.index.local_id(open.id) else { return Ok(false) };
        let (position, mut looked_up) = (self.files.len(), Ok(()));
        self.files.push((source.clone(), open.id, id));
        open.for_each_key(&mut |key| {
            self.batch.push((self.hasher.hash(key), position));
            if self.batch.len() >= BATCH_KEYS {
                looked_up = self.look_up();
            }
            if looked_up.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        self.files_compared += 1;
        looked_up.map(|()| true)
    }

    fn look_up(&mut self) -> anyhow::Result<()> {
        self.batch.sort_unstable_by_key(|(hash, _)| hash.get());
        self.map.look_up(
            &self.batch,
            |(hash, _)| *hash,
            |&(hash, position), answer| {
                // All files may have the keys of damaged and unknown pages, so that none is lost.
                let is_lost = |ids: &[LocalId]| self.files.get(position).is_some_and(|(_, _, id)| !ids.contains(id));
                if matches!(&answer, Answer::Only(ids) if is_lost(ids)) {
                    self.lost.entry(position).or_insert((hash, 0)).1 += 1;
                }
            },
        )?;
        self.keys += self.batch.len() as u64;
        self.batch.clear();
        Ok(())
    }

    /// Looks up the last batch. Returns the keys and files that were compared, and sentences on keys that the map does
    /// not find, one for each file.
    pub(crate) fn finish(mut self, context: &Context) -> anyhow::Result<(u64, u64, Vec<String>)> {
        self.look_up()?;
        let mut lost = Vec::new();
        for (&position, &(hash, keys)) in &self.lost {
            let Some((source, id, _)) = self.files.get(position) else { continue };
            let example = self.key_of(hash, source, context).map(|key| format!(", such as {}", key_text(&key)));
            let (keys, name, id) = (counted(keys, "key"), input::name(&source.found.path), id_text(*id));
            lost.push(format!("lost {keys} of {name} ({id}){}", example.unwrap_or_default()));
        }
        Ok((self.keys, self.files_compared, lost))
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
