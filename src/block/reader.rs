//! A filter as a file's reader holds it: it never fails a read, and it counts its answers.

use alloc::boxed::Box;
use core::fmt;

use super::bitmap::{MatchBitmap, Probe};
use super::held::PART_NOT_HELD;
use super::identity::LoadContext;
use super::open::FilterBlock;
use crate::error::BlockError;
use crate::filter::batch;
use crate::hash::{HashIdentity, KeyHash, PreparedPrefix};
use crate::stats::{CountedBySet, FilterCounters, FilterStats};

/// A verified filter block, or the reason why it is unusable, with counters.
///
/// Any number of threads can probe it. Each counts in cache lines of its own, so a counted probe takes only about a
/// nanosecond more than [`FilterBlock::may_contain`]. [`stats`](Self::stats) sums over the threads; the counts are
/// exact once no thread is probing. For each thread that has probed readers, every 64 open readers take 4 KiB for
/// counts.
///
/// Damage, an unknown kind or version, and a filter built with another hash all answer
/// [`Probe::Unusable`], which a read treats as "may be present".
///
/// ```
/// use sstfilter::{FilterReader, KeyHasher, Probe};
///
/// let hasher = KeyHasher::default();
/// let damaged = FilterReader::load(&b"not a filter block"[..], &hasher);
/// assert!(matches!(damaged.probe(hasher.hash(b"key")), Probe::Unusable(_)));
/// assert_eq!(damaged.stats().unusable, 1);
/// ```
pub struct FilterReader<D> {
    block: Result<FilterBlock<D>, BlockError>,
    /// A block without whole keys, in the place of the block: that is [`BlockError::PartNotHeld`] then.
    of_parts: Option<Box<FilterBlock<D>>>,
    counters: FilterCounters,
}

impl<D: AsRef<[u8]>> FilterReader<D> {
    /// The block in `data`, if [`FilterBlock::load`] accepts it for `context`.
    pub fn load<'a>(data: D, context: impl Into<LoadContext<'a>>) -> Self {
        FilterBlock::load(data, context).into()
    }

    /// A filter that could not be read at all.
    #[must_use]
    pub fn unusable(reason: BlockError) -> Self {
        Err(reason).into()
    }

    /// Probes for one key, and counts the answer.
    #[inline]
    pub fn probe(&self, hash: KeyHash) -> Probe<'_> {
        self.counted(|block| block.may_contain(hash))
    }

    /// Probes for any key with a prefix, and counts the answer. Where the filter answers for no part that follows from
    /// the prefix, it is [`Probe::Unusable`] with [`BlockError::PartNotHeld`]: the file may have such a key. Where no
    /// extractor has one part for all keys with the prefix, the answer is [`Probe::MaybePresent`], and is not counted.
    pub fn probe_prefix(&self, prefix: &PreparedPrefix<'_>) -> Probe<'_> {
        let answer = match (&self.block, &self.of_parts) {
            (Ok(block), _) => block.probe_prefix(prefix),
            (Err(_), Some(block)) => block.probe_prefix(prefix),
            (Err(reason), None) => Some(Probe::Unusable(reason)),
        };
        answer.map_or(Probe::MaybePresent, |answer| self.counted_answer(answer))
    }

    /// Probes for many keys at once, and counts the answers. An unusable filter sets all of `matches`.
    pub fn probe_batch(&self, hashes: &[KeyHash], matches: &mut MatchBitmap) {
        if let Ok(block) = &self.block {
            block.may_contain_batch(hashes, matches);
            self.counters.add_answers(hashes.len() as u64, matches.count());
        } else {
            batch::all_match(hashes, matches.cleared(hashes.len()));
            self.counters.add_unusable(hashes.len() as u64);
        }
    }

    /// Makes the filter unusable if it was built with another hash than `hash`.
    pub(super) fn for_hash(mut self, hash: HashIdentity) -> Self {
        let block = self.of_parts.as_deref().or(self.block.as_ref().ok());
        if let Some(got) = block.map(FilterBlock::hash_identity).filter(|&got| got != hash) {
            (self.of_parts, self.block) = (None, Err(BlockError::HashMismatch { expected: hash, got }));
        }
        self
    }

    /// Why it is unusable, if it is.
    pub(super) fn problem(&self) -> Option<&BlockError> {
        self.block.as_ref().err().filter(|_| !self.is_usable())
    }

    fn is_usable(&self) -> bool {
        self.block.is_ok() || self.of_parts.is_some()
    }

    /// From now on, includes the answers that a set counts for the filter.
    pub(crate) fn enter_set(&mut self, in_set: CountedBySet) {
        self.counters.in_set = Some(Box::new(in_set));
    }

    /// Records whether the file held a key for which this filter, or the set that it is in, answered
    /// [`Probe::MaybePresent`]. Call it once for each such probe.
    ///
    /// An unusable filter gives no answers and counts no outcomes. Outcomes recorded for the wrong filter make the
    /// counts inconsistent; [`FilterStats`] then reports no rate and no alarm.
    pub fn record_lookup(&self, outcome: LookupOutcome) {
        if !self.is_usable() {
            return;
        }
        self.counters.add_outcome(outcome == LookupOutcome::Found);
    }

    /// The block, or why it is not used.
    ///
    /// # Errors
    ///
    /// The reason that every probe answers with; [`BlockError::PartNotHeld`] for a block of extracted parts alone.
    pub fn block(&self) -> Result<&FilterBlock<D>, &BlockError> {
        self.block.as_ref()
    }

    /// The counts so far.
    pub fn stats(&self) -> FilterStats {
        self.counters.snapshot(self.is_usable())
    }

    #[inline]
    fn counted(&self, probe: impl FnOnce(&FilterBlock<D>) -> bool) -> Probe<'_> {
        match &self.block {
            Ok(block) => {
                let maybe = probe(block);
                self.counters.add_answer(maybe);
                if maybe { Probe::MaybePresent } else { Probe::Absent }
            }
            Err(reason) => self.unusable_probe(reason),
        }
    }

    fn counted_answer<'a>(&'a self, answer: Probe<'a>) -> Probe<'a> {
        match answer {
            Probe::Unusable(reason) => self.unusable_probe(reason),
            answer => {
                self.counters.add_answer(!answer.is_absent());
                answer
            }
        }
    }

    #[cold]
    fn unusable_probe<'a>(&'a self, reason: &'a BlockError) -> Probe<'a> {
        self.counters.add_unusable(1);
        Probe::Unusable(reason)
    }
}

impl<D: AsRef<[u8]>> From<Result<FilterBlock<D>, BlockError>> for FilterReader<D> {
    /// A block that was opened before, or the reason why it was not. An unverified block is verified now. A block of a
    /// partition holds a part of the file's keys only, and is unusable here. A block of extracted parts alone answers
    /// [`probe_prefix`](Self::probe_prefix), and "may be present" for every key.
    fn from(block: Result<FilterBlock<D>, BlockError>) -> Self {
        let block = block.and_then(FilterBlock::verified).and_then(FilterBlock::whole);
        let (block, of_parts) = match block {
            Ok(block) if !block.held_parts().has_whole_keys() => (Err(PART_NOT_HELD.clone()), Some(Box::new(block))),
            block => (block, None),
        };
        Self { block, of_parts, counters: FilterCounters::default() }
    }
}

impl<D: AsRef<[u8]>> fmt::Debug for FilterReader<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterReader")
            .field("block", &self.block)
            .field("of_parts", &self.of_parts)
            .field("counters", &self.stats())
            .finish()
    }
}

/// Whether the file held a key that its filter reported as "may be present".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupOutcome {
    /// The key is there: a true positive.
    Found,
    /// It is not: a false positive.
    NotFound,
}
