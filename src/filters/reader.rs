//! The filter of an open file: it never fails a read, and it counts its answers.

use alloc::boxed::Box;
use core::fmt;

use super::Filters;
use crate::block::{FilterBlock, MatchBitmap, Probe};
use crate::error::BlockError;
use crate::filter::batch;
use crate::hash::{HashIdentity, KeyHash, PreparedPrefix};
use crate::stats::{CountedBySet, FilterCounters, FilterStats};

/// The filter of one open file: a verified block or the reason why there is none, with counters.
///
/// [`Filters::load`] creates one. Any number of threads can probe it. Each thread counts in its own cache lines, so a
/// counted probe takes only about a nanosecond more than [`FilterBlock::may_contain`]. [`stats`](Self::stats) sums over
/// the threads; the counts are exact while no thread is probing. For each thread that has probed readers, counts take 4
/// KiB per 64 open readers.
///
/// The reader answers [`Probe::Unusable`] if the block is damaged, has an unknown kind or version, belongs to another
/// file, or was built with another hash. Treat this answer as "may be present". [`problem`](Self::problem) returns the
/// cause.
///
/// ```
/// use sstfilter::{FileId, Filters, Probe};
///
/// let filters = Filters::default();
/// let damaged = filters.load(Some(&b"not a filter block"[..]), FileId::random());
/// assert_eq!(damaged.probe(b"key"), Probe::Unusable);
/// assert!(damaged.problem().is_some());
/// assert_eq!(damaged.stats().unusable, 1);
/// ```
pub struct FilterReader<D> {
    state: State<D>,
    filters: Filters,
    counters: FilterCounters,
}

enum State<D> {
    /// A block that holds whole keys, and perhaps parts of them.
    Keys(FilterBlock<D>),
    /// A block that holds only parts of keys.
    Parts(FilterBlock<D>),
    Unusable(BlockError),
}

impl<D: AsRef<[u8]>> FilterReader<D> {
    pub(crate) fn new(block: Result<FilterBlock<D>, BlockError>, filters: &Filters) -> Self {
        let state = match block.and_then(FilterBlock::verified).and_then(FilterBlock::whole) {
            // Compared here as well, because callers of `Filters::reader` can pass blocks that were opened without a
            // context.
            Ok(block) if block.held_parts().has_whole_keys() => State::Keys(block),
            Ok(block) => State::Parts(block),
            Err(reason) => State::Unusable(reason),
        };
        let reader = Self { state, filters: filters.clone(), counters: FilterCounters::default() };
        reader.for_hash(filters.hasher().identity())
    }

    /// Probes for a key, and counts the answer. If the filter holds only parts of keys, it is probed for the key's
    /// parts.
    #[inline]
    pub fn probe(&self, key: &[u8]) -> Probe {
        match &self.state {
            State::Keys(block) => self.count(block.may_contain(self.filters.hash(key))),
            State::Parts(_) => self.probe_prepared(&self.filters.key_parts().key(self.filters.hasher(), key)),
            State::Unusable(_) => self.unusable(),
        }
    }

    /// Probes for a key by its hash ([`Filters::hash`]), which is the same for all files of a store. With the hash of
    /// other [`Filters`], a key that is there can be absent. A filter that holds only parts of keys cannot answer.
    #[inline]
    pub fn probe_hash(&self, hash: KeyHash) -> Probe {
        match &self.state {
            State::Keys(block) => self.count(block.may_contain(hash)),
            State::Parts(_) | State::Unusable(_) => self.unusable(),
        }
    }

    /// Probes for any key with a prefix, and counts the answer. Returns [`Probe::Unusable`] if the filter holds none of
    /// the parts that the prefix determines. If the prefix determines no part, returns [`Probe::MaybePresent`] and
    /// counts nothing.
    pub fn probe_prefix(&self, prefix: &[u8]) -> Probe {
        self.probe_prepared(&self.filters.prefix(prefix))
    }

    /// Probes for a prefix that [`Filters::prefix`] has hashed for the filters of all files.
    pub fn probe_prepared(&self, prefix: &PreparedPrefix<'_>) -> Probe {
        let (State::Keys(block) | State::Parts(block)) = &self.state else { return self.unusable() };
        match block.probe_prefix(prefix) {
            None => Probe::MaybePresent,
            Some(Probe::Unusable) => self.unusable(),
            Some(answer) => self.count(!answer.is_absent()),
        }
    }

    /// Probes for many keys at once, and counts the answers. A filter that cannot answer sets all of `matches`.
    pub fn probe_batch(&self, hashes: &[KeyHash], matches: &mut MatchBitmap) {
        if let State::Keys(block) = &self.state {
            block.may_contain_batch(hashes, matches);
            self.counters.add_answers(hashes.len() as u64, matches.count());
        } else {
            // A filter that cannot answer must not exclude a key.
            batch::all_match(hashes, matches.cleared(hashes.len()));
            self.counters.add_unusable(hashes.len() as u64);
        }
    }

    /// Makes the filter unusable unless it was built with `hash`.
    pub(super) fn for_hash(mut self, hash: HashIdentity) -> Self {
        if let Ok(got) = self.block().map(FilterBlock::hash_identity)
            && got != hash
        {
            self.state = State::Unusable(BlockError::HashMismatch { expected: hash, got });
        }
        self
    }

    /// The block, if it holds whole keys.
    pub(super) fn block_of_keys(&self) -> Option<&FilterBlock<D>> {
        if let State::Keys(block) = &self.state { Some(block) } else { None }
    }

    /// Includes the answers that a set counts for the filter from now on.
    pub(super) fn enter_set(&mut self, in_set: CountedBySet) {
        self.counters.in_set = Some(Box::new(in_set));
    }

    /// Records whether the file contained the key after [`Probe::MaybePresent`]. Call it once for each such answer of
    /// this filter or its set.
    ///
    /// An unusable filter counts no outcomes, and one that holds only parts of keys no key that was not found. Outcomes
    /// recorded for the wrong filter make the counts inconsistent; [`FilterStats`] then reports no rate and no alarm.
    pub fn record_lookup(&self, outcome: LookupOutcome) {
        let is_found = outcome == LookupOutcome::Found;
        match &self.state {
            State::Keys(_) => self.counters.add_outcome(is_found),
            // A missing key says nothing about its part, which other keys may have.
            State::Parts(_) if is_found => self.counters.add_outcome(true),
            State::Parts(_) | State::Unusable(_) => {}
        }
    }

    /// Returns the block, or the reason why it is not used.
    ///
    /// # Errors
    ///
    /// The reason why every probe answers [`Probe::Unusable`].
    pub const fn block(&self) -> Result<&FilterBlock<D>, &BlockError> {
        match &self.state {
            State::Keys(block) | State::Parts(block) => Ok(block),
            State::Unusable(reason) => Err(reason),
        }
    }

    /// Returns the reason why the filter is not used; `None` if it is used.
    #[must_use]
    pub fn problem(&self) -> Option<&BlockError> {
        self.block().err()
    }

    /// The counts so far.
    pub fn stats(&self) -> FilterStats {
        self.counters.snapshot(self.block().is_ok())
    }

    #[inline]
    fn count(&self, may_contain: bool) -> Probe {
        self.counters.add_answer(may_contain);
        Probe::of(may_contain)
    }

    #[cold]
    fn unusable(&self) -> Probe {
        self.counters.add_unusable(1);
        Probe::Unusable
    }
}

impl<D: AsRef<[u8]>> fmt::Debug for FilterReader<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterReader")
            .field("block", &self.block())
            .field("counters", &self.stats())
            .finish_non_exhaustive()
    }
}

/// Whether the file contained a key that its filter reported as "may be present".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupOutcome {
    /// The file contains the key: a true positive.
    Found,
    /// The file does not contain the key: a false positive.
    NotFound,
}
