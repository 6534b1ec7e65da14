//! A file whose filter is under a budget.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::Bytes;

use super::unit::{Counted, Failure, Unit};
use super::{FilterLayout, FilterSource};
use crate::block::FilterBlock;
use crate::error::BlockError;
use crate::hash::KeyHash;
use crate::partition::{PartitionIndex, PartitionPlace};
use crate::stats::FilterStats;

/// What a budget and the file's reader share.
#[derive(Debug)]
pub(super) struct File {
    pub(super) source: Arc<dyn FilterSource>,
    pub(super) units: Box<[Unit]>,
    /// `None` of a filter in one block.
    pub(super) partitions: Option<Arc<PartitionIndex>>,
    /// Why the known keys were not found when they were last looked for: until they are, no partition can be used.
    failure: ArcSwapOption<Failure>,
    counts: Counts,
}

/// Plain counters: one unit counts its negatives and the probes that found no block.
#[derive(Debug, Default)]
struct Counts {
    negatives: AtomicU64,
    positives: AtomicU64,
    true_positives: AtomicU64,
    false_positives: AtomicU64,
    unusable: AtomicU64,
    not_loaded: AtomicU64,
}

/// The unit of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) number: u32,
    /// The hash with which its block is probed.
    pub(super) hash: KeyHash,
}

impl From<PartitionPlace> for Place {
    fn from(place: PartitionPlace) -> Self {
        Self { number: place.number, hash: place.hash }
    }
}

impl File {
    pub(super) fn new(layout: FilterLayout, source: Arc<dyn FilterSource>) -> Self {
        let (units, partitions) = match layout {
            FilterLayout::Whole { bytes } => (Box::new([Unit::new(bytes)]) as Box<[Unit]>, None),
            FilterLayout::Partitioned(index) => {
                (index.block_bytes().map(|bytes| Unit::new(bytes.into())).collect(), Some(index))
            }
        };
        Self { source, units, partitions, failure: ArcSwapOption::empty(), counts: Counts::default() }
    }

    /// Has `read` read the partitions that must hold known keys, while there are some that were not. If one cannot be
    /// read, all units wait together for the next try: each by itself would read it again.
    pub(super) fn check_known_keys(
        &self,
        mut read: impl FnMut(u32) -> Result<FilterBlock<Bytes>, BlockError>,
    ) -> Result<(), BlockError> {
        let Some(index) = &self.partitions else { return Ok(()) };
        let checked = index.check_known_keys(|number| read(number).map(FilterBlock::into_inner));
        if let Err(reason) = &checked {
            let before = self.failure.load();
            self.failure.store(Some(Arc::new(Failure::after(before.as_deref(), reason.clone()))));
        }
        checked
    }

    /// The failure for which no unit can be loaded; `None` once the known keys were found, by whatever thread.
    fn standing_failure(&self) -> Option<Arc<Failure>> {
        let failure = self.failure.load_full()?;
        self.partitions.as_ref()?.known_keys_verdict().is_err().then_some(failure)
    }

    /// Why no unit can be loaded, if none can.
    pub(super) fn failure(&self) -> Option<Arc<BlockError>> {
        self.standing_failure().map(|failure| failure.reason.clone())
    }

    /// Counts a probe; whether no unit is tried for it.
    pub(super) fn is_waiting(&self) -> bool {
        self.standing_failure().is_some_and(|failure| !failure.is_due())
    }

    /// The unit that holds the key.
    #[inline]
    pub(super) fn place(&self, key: &[u8], hash: KeyHash) -> Place {
        match &self.partitions {
            None => Place { number: 0, hash },
            Some(index) => Place::from(index.place_of_hash(key, hash)),
        }
    }

    /// The units that can hold a key with the prefix, where each such key was added with this hash.
    pub(super) fn places_with_part<'a>(&'a self, prefix: &'a [u8], hash: KeyHash) -> impl Iterator<Item = Place> + 'a {
        let whole = self.partitions.is_none().then_some(Place { number: 0, hash });
        let index = self.partitions.as_deref();
        let parts = index.into_iter().flat_map(move |index| index.places_with_part(prefix, hash));
        whole.into_iter().chain(parts.map(Place::from))
    }

    /// The unit of this number; `None` if it was written without a filter.
    #[inline]
    pub(super) fn unit(&self, number: u32) -> Option<&Unit> {
        self.units.get(number as usize).filter(|unit| unit.whole_bytes > 0 || self.partitions.is_none())
    }

    /// Bytes of the filter as it was written.
    pub(super) fn whole_bytes(&self) -> u64 {
        self.units.iter().fold(0, |sum, unit| sum.saturating_add(unit.whole_bytes))
    }

    pub(super) fn count_positive(&self) {
        self.counts.positives.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_unusable(&self) {
        self.counts.unusable.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_outcome(&self, found: bool) {
        let counter = if found { &self.counts.true_positives } else { &self.counts.false_positives };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// A probe that found no block was for a key that the file holds.
    pub(super) fn count_found_without_filter(&self, unit: &Unit) {
        if unit.discount_unanswered() {
            self.counts.not_loaded.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Moves a unit's counts to the file's.
    pub(super) fn collect(&self, unit: &Unit) {
        let Counted { negatives, unanswered } = unit.take_counts();
        self.counts.negatives.fetch_add(negatives, Ordering::Relaxed);
        self.counts.not_loaded.fetch_add(unanswered, Ordering::Relaxed);
    }

    pub(super) fn stats(&self) -> FilterStats {
        let [true_positives, false_positives] =
            [&self.counts.true_positives, &self.counts.false_positives].map(|count| count.load(Ordering::Relaxed));
        let mut stats = FilterStats {
            negatives: self.counts.negatives.load(Ordering::Relaxed),
            positives: self.counts.positives.load(Ordering::Relaxed),
            true_positives,
            false_positives,
            unusable: self.counts.unusable.load(Ordering::Relaxed),
            not_loaded: self.counts.not_loaded.load(Ordering::Relaxed),
        };
        for counted in self.units.iter().map(Unit::counted) {
            stats.negatives += counted.negatives;
            stats.not_loaded += counted.unanswered;
        }
        stats
    }
}
