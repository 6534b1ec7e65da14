//! File maps on disk, and lookups in them.

use core::ops::Range;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sstfilter::KeyHash;
use sstfilter_map::{Coverage, LocalId, Lookups, MapAnswer, MapError, MapIndex};

use crate::system::input::{self, RegularFile};

/// A map on disk. Its end is in memory, its pages are not.
pub(crate) struct OpenMap {
    pub(crate) path: PathBuf,
    pub(crate) file: RegularFile,
    pub(crate) index: MapIndex,
}

impl OpenMap {
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let file = RegularFile::open(path)?;
        let context = || input::name(path).into_owned();
        // The trailer says how long the end is; a file of fewer bytes ends the read.
        let end_bytes = MapIndex::end_bytes(&file.end(MapIndex::MIN_END_BYTES as u64)?).with_context(context)?;
        let index = MapIndex::load_any(&file.end(end_bytes)?, file.length).with_context(context)?;
        Ok(Self { path: path.to_owned(), file, index })
    }

    /// Returns the covered files that maps contradict each other about, with the errors. No map covers them.
    pub(crate) fn contradictions<'a>(
        maps: impl IntoIterator<Item = &'a Self> + Clone,
        names: &HashMap<u64, String>,
    ) -> BTreeMap<u64, String> {
        let covered = maps.clone().into_iter().flat_map(|map| map.index.files());
        let by_id: BTreeMap<_, _> = covered.map(|covered| (covered.file.fingerprint(), covered.file)).collect();
        let files: Vec<_> = by_id.into_values().collect();
        let coverage = Coverage::new(maps.into_iter().map(|map| &map.index), &files);
        let of_error = |error: &MapError| match error {
            MapError::Contradiction { fingerprint, .. } => {
                let name = names.get(fingerprint).map(|name| format!("{name}: ")).unwrap_or_default();
                Some((*fingerprint, format!("{name}{error}")))
            }
            _ => None,
        };
        coverage.contradictions().iter().filter_map(of_error).collect()
    }

    pub(crate) fn name(&self) -> Cow<'_, str> {
        input::name(&self.path)
    }

    pub(crate) fn read(&self, range: Range<u64>) -> io::Result<Cow<'static, [u8]>> {
        let bytes = self.file.read(range.start, range.end - range.start).map_err(io::Error::other)?;
        Ok(Cow::Owned(bytes.into()))
    }
}

/// Keys that are looked up together. Pass them in the order of their hashes: almost every page is then read once.
pub(crate) const KEYS_AT_ONCE: usize = 1 << 14;

/// What a map says about a key.
#[derive(Clone)]
pub(crate) enum Answer {
    /// Only these covered files may have it.
    Only(Vec<LocalId>),
    /// All covered files may have it, because its entries are unknown.
    Unknown,
    /// All covered files may have it, because its page, or what the page leads to, is damaged.
    Damaged,
}

/// A reader of one map.
pub(crate) struct MapReader<'m> {
    pub(crate) map: &'m OpenMap,
    pub(crate) reads: u64,
    pub(crate) bytes_read: u64,
}

impl<'m> MapReader<'m> {
    pub(crate) fn new(map: &'m OpenMap) -> Self {
        Self { map, reads: 0, bytes_read: 0 }
    }

    /// Looks up keys. Returns an answer for each.
    pub(crate) fn look_up(&mut self, hashes: &[KeyHash]) -> anyhow::Result<Vec<Answer>> {
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
