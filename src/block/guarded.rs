//! A filter as a table holds it: never in the way of a read, and counted.

use core::fmt;

use super::identity::LoadContext;
use super::open::{FilterBlock, HitBitmap, PreparedKey};
use crate::error::BlockError;
use crate::hash::{HashIdentity, KeyHash};
use crate::stats::{FilterCounters, FilterStats, Share};

/// What a filter says about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe<'a> {
    /// The key is certainly not in the file: skip it.
    Absent,
    /// The key may be in the file.
    MaybePresent,
    /// The filter cannot tell, for the reason given: the key may be in the file.
    Unusable(&'a BlockError),
}

impl Probe<'_> {
    /// Whether the file can be skipped.
    #[must_use]
    pub const fn is_absent(self) -> bool {
        matches!(self, Self::Absent)
    }
}

/// A verified filter block, or the reason why there is none, with counters.
///
/// Damage, an unknown kind or version, and a filter built with another hash all answer
/// [`Probe::Unusable`], which a read treats as "may be present".
///
/// ```
/// use sstfilter::{GuardedFilter, KeyHasher, Probe};
///
/// let hasher = KeyHasher::default();
/// let damaged = GuardedFilter::load(&b"not a filter block"[..], &hasher);
/// assert!(matches!(damaged.probe(hasher.hash(b"key")), Probe::Unusable(_)));
/// assert_eq!(damaged.stats().unusable, 1);
/// ```
pub struct GuardedFilter<D> {
    block: Result<FilterBlock<D>, BlockError>,
    counters: FilterCounters,
}

impl<D: AsRef<[u8]>> GuardedFilter<D> {
    /// The block in `data`, if [`FilterBlock::load`] accepts it for `context`.
    pub fn load<'a>(data: D, context: impl Into<LoadContext<'a>>) -> Self {
        FilterBlock::load(data, context).into()
    }

    /// A filter that could not even be read.
    #[must_use]
    pub fn unusable(reason: BlockError) -> Self {
        Err(reason).into()
    }

    /// Probes for one key, and counts the answer.
    pub fn probe(&self, hash: KeyHash) -> Probe<'_> {
        self.counted(|block| block.may_contain(hash))
    }

    /// Like [`probe`](Self::probe), for one key and many filters.
    pub fn probe_prepared(&self, key: &mut PreparedKey) -> Probe<'_> {
        self.counted(|block| block.may_contain_prepared(key))
    }

    /// Probes for many keys at once, and counts the answers. An unusable filter sets all of `hits`.
    pub fn probe_batch(&self, hashes: &[KeyHash], hits: &mut HitBitmap) {
        if let Ok(block) = &self.block {
            block.may_contain_batch(hashes, hits);
            self.counters.add_answers(hashes.len() as u64, hits.count());
        } else {
            hits.set_all(hashes.len());
            self.counters.add_unusable(hashes.len() as u64);
        }
    }

    /// The filter, unusable if it was built with another hash than `hash`.
    pub(super) fn answering(mut self, hash: HashIdentity) -> Self {
        self.block = self.block.and_then(|block| match block.hash_identity() {
            got if got == hash => Ok(block),
            got => Err(BlockError::HashMismatch { expected: hash, got }),
        });
        self
    }

    /// Counts a key for which a set of tables probed the filter, and the answer was "may be present".
    pub(crate) fn count_undenied(&self) -> Probe<'_> {
        self.counted(|_| true)
    }

    /// Counts what a set probes, too.
    pub(crate) fn join(&mut self, share: impl Into<Share>) {
        self.counters.join(share.into());
    }

    /// Tells the counters what a key turned out to be for which this filter, or the set that it is in, answered
    /// [`Probe::MaybePresent`]: once for each such probe.
    ///
    /// An unusable filter has answered nothing, and counts no outcome. Outcomes of probes that another filter of the same
    /// block answered leave the counts impossible, and [`FilterStats`] then gives no rate and no alarm.
    pub fn record_lookup(&self, outcome: LookupOutcome) {
        if self.block.is_err() {
            return;
        }
        self.counters.add_outcome(outcome == LookupOutcome::Found);
    }

    /// The block, or why it is not used.
    ///
    /// # Errors
    ///
    /// The reason that every probe answers with.
    pub fn block(&self) -> Result<&FilterBlock<D>, &BlockError> {
        self.block.as_ref()
    }

    /// The counts so far.
    pub fn stats(&self) -> FilterStats {
        self.counters.snapshot(self.block.is_ok())
    }

    fn counted(&self, ask: impl FnOnce(&FilterBlock<D>) -> bool) -> Probe<'_> {
        match &self.block {
            Ok(block) => {
                let maybe = ask(block);
                self.counters.add_answers(1, u64::from(maybe));
                if maybe { Probe::MaybePresent } else { Probe::Absent }
            }
            Err(reason) => {
                self.counters.add_unusable(1);
                Probe::Unusable(reason)
            }
        }
    }
}

impl<D: AsRef<[u8]>> From<Result<FilterBlock<D>, BlockError>> for GuardedFilter<D> {
    /// A block that was opened before, or the reason why it was not. One that was not verified when it was opened is
    /// verified now.
    fn from(block: Result<FilterBlock<D>, BlockError>) -> Self {
        Self { block: block.and_then(FilterBlock::verified), counters: FilterCounters::default() }
    }
}

impl<D: AsRef<[u8]>> fmt::Debug for GuardedFilter<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedFilter").field("block", &self.block).field("counters", &self.stats()).finish()
    }
}

/// What the file said of a key that its filter did not rule out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupOutcome {
    /// The key is there: a true positive.
    Found,
    /// It is not: a false positive.
    NotFound,
}
