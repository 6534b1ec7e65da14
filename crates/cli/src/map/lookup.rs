//! Lookups in maps that stay on disk.

use sstfilter::KeyHash;
use sstfilter_map::{LocalId, Lookups, MapAnswer};

use super::OpenMap;

/// Keys that are looked up together. Pass them in the order of their hashes: almost every page is then read once.
pub(super) const KEYS_AT_ONCE: usize = 1 << 14;

/// What a map says about a key.
#[derive(Clone)]
pub(super) enum Answer {
    /// Only these covered files may have it.
    Only(Vec<LocalId>),
    /// All covered files may have it, because its entries are unknown.
    Unknown,
    /// All covered files may have it, because its page, or what the page leads to, is damaged.
    Damaged,
}

/// A reader of one map.
pub(super) struct MapReader<'m> {
    pub(super) map: &'m OpenMap<'m>,
    pub(super) reads: u64,
    pub(super) bytes_read: u64,
}

impl<'m> MapReader<'m> {
    pub(super) fn new(map: &'m OpenMap<'m>) -> Self {
        Self { map, reads: 0, bytes_read: 0 }
    }

    /// Looks up keys. Returns an answer for each.
    pub(super) fn look_up(&mut self, hashes: &[KeyHash]) -> anyhow::Result<Vec<Answer>> {
        let (mut lookups, mut answers) = (Lookups::new(&self.map.index, hashes), vec![Answer::Damaged; hashes.len()]);
        loop {
            let reads = lookups.reads();
            if reads.is_empty() {
                return Ok(answers);
            }
            for read in reads {
                let range = read.range();
                let bytes = self.map.file.read(range.start, range.end - range.start)?;
                self.reads += 1;
                self.bytes_read += bytes.len() as u64;
                let part = self.map.index.open(&read, bytes).ok();
                lookups.answer(&read, part.as_ref(), |key, found| {
                    let answer = match found {
                        MapAnswer::Only(ids) => Answer::Only(ids.collect()),
                        MapAnswer::All if part.is_some() => Answer::Unknown,
                        MapAnswer::All => Answer::Damaged,
                    };
                    answers.get_mut(key).into_iter().for_each(|own| *own = answer.clone());
                });
            }
        }
    }
}
