//! Lookups in maps that stay on disk: each reads the page of its key, and keeps the last one.

use anyhow::Context;
use bytes::Bytes;
use sstfilter::KeyHash;
use sstfilter_map::{Candidates, LocalId, MapError, MapPart, MapRead, PartAnswer};

use super::OpenMap;

/// What a map says about a key.
pub(super) enum Answer {
    /// Only these covered files may have it.
    Only(Vec<LocalId>),
    /// All covered files may have it, because its entries are unknown.
    Unknown,
    /// All covered files may have it, because its page, or what the page leads to, is damaged.
    Damaged,
}

/// A reader of one map. Look keys up in the order of their hashes: each page is then read once.
pub(super) struct Lookups<'m> {
    pub(super) map: &'m OpenMap<'m>,
    /// The last page, and what was last read from the tail: an outgrown page, and a list.
    last: [Option<Read>; MAX_READS],
    pub(super) reads: u64,
    pub(super) bytes_read: u64,
}

/// A page, its outgrown page, and a list of that.
const MAX_READS: usize = 3;

struct Read {
    read: MapRead,
    part: Result<MapPart<Bytes>, MapError>,
}

impl<'m> Lookups<'m> {
    pub(super) fn new(map: &'m OpenMap<'m>) -> Self {
        Self { map, last: [None, None, None], reads: 0, bytes_read: 0 }
    }

    pub(super) fn look_up(&mut self, hash: KeyHash) -> anyhow::Result<Answer> {
        let index = &self.map.index;
        let mut read = index.read_for(hash);
        for last in &mut self.last {
            if last.as_ref().is_none_or(|last| last.read != read) {
                let range = read.range();
                let bytes = self.map.file.read(range.start, range.end - range.start)?;
                self.reads += 1;
                self.bytes_read += bytes.len() as u64;
                let part = index.open(&read, bytes);
                *last = Some(Read { read, part });
            }
            let part = last.as_ref().context("a part that was just read")?.part.as_ref();
            let Ok(part) = part else { return Ok(Answer::Damaged) };
            match index.probe(part, hash) {
                PartAnswer::Candidates(Candidates::Only(ids)) => return Ok(Answer::Only(ids.collect())),
                PartAnswer::Candidates(Candidates::All) => return Ok(Answer::Unknown),
                PartAnswer::Read(next) => read = next,
            }
        }
        Ok(Answer::Damaged)
    }
}
