//! File maps on disk, and lookups in them.

use core::ops::Range;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sstfilter::{FileId, KeyHash};
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
    pub(crate) fn contradictions<'a>(maps: impl Iterator<Item = &'a Self> + Clone) -> BTreeMap<u64, String> {
        let coverage = Coverage::new(maps.clone().map(|map| &map.index), &Self::covered(maps));
        let of_error = |error: &MapError| match error {
            MapError::Contradiction { fingerprint, .. } => Some((*fingerprint, error.to_string())),
            _ => None,
        };
        coverage.contradictions().iter().filter_map(of_error).collect()
    }

    /// Returns the files that maps cover, each once.
    pub(crate) fn covered<'a>(maps: impl Iterator<Item = &'a Self>) -> Vec<FileId> {
        let covered = maps.flat_map(|map| map.index.files());
        let files: BTreeMap<_, _> = covered.map(|covered| (covered.file.fingerprint(), covered.file)).collect();
        files.into_values().collect()
    }

    pub(crate) fn name(&self) -> Cow<'_, str> {
        input::name(&self.path)
    }

    pub(crate) fn read(&self, range: Range<u64>) -> io::Result<Cow<'static, [u8]>> {
        let bytes = self.file.read(range.start, range.end - range.start).map_err(io::Error::other)?;
        Ok(Cow::Owned(bytes.into()))
    }

    /// Looks up keys by their `hash`, and calls `visit` with each and its answer. Pass them in the order of their
    /// hashes: almost every page is then read once.
    pub(crate) fn look_up<K>(
        &self,
        keys: &[K],
        hash: impl Fn(&K) -> KeyHash,
        mut visit: impl FnMut(&K, Answer),
    ) -> anyhow::Result<()> {
        for keys in keys.chunks(KEYS_AT_ONCE) {
            let answers = self.answers(&keys.iter().map(&hash).collect::<Vec<_>>())?;
            keys.iter().zip(answers).for_each(|(key, answer)| visit(key, answer));
        }
        Ok(())
    }

    fn answers(&self, hashes: &[KeyHash]) -> anyhow::Result<Vec<Answer>> {
        let (mut lookups, mut answers) = (Lookups::new(&self.index, hashes), vec![Answer::Damaged; hashes.len()]);
        loop {
            let reads = lookups.reads();
            if reads.is_empty() {
                return Ok(answers);
            }
            for read in reads {
                let range = read.range();
                let bytes = self.file.read(range.start, range.end - range.start)?;
                let part = self.index.open(&read, bytes).ok();
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

/// Keys that are looked up together.
const KEYS_AT_ONCE: usize = 1 << 14;

/// The answer of a map about a key.
#[derive(Clone)]
pub(crate) enum Answer {
    /// Only these covered files may have it.
    Only(Vec<LocalId>),
    /// All covered files may have it, because its entries are unknown.
    Unknown,
    /// All covered files may have it, because its page, or what the page leads to, is damaged.
    Damaged,
}
