//! Probes many filters for one key or for many.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::Filters;
use super::reader::FilterReader;
use crate::block::{CacheResidency, FilterGroup, GROUP, MatchBitmap, MatchMatrix, PreparedKey, bits_of};
use crate::error::BlockError;
use crate::hash::{KeyHash, PreparedPrefix};
use crate::stats::{CountedBySet, StripedCounters, ThreadCounters};

/// The filters of many files, in an order of the owner's choice, probed together for a key.
///
/// The key's bit pattern within a line is computed once per number of probes, not once per filter. Each Bloom filter
/// then costs one multiplication and the test of one line, and the loop over them has no data-dependent branch.
///
/// A set probes every filter, also those of files whose key range excludes the key. Observed rates
/// ([`FilterStats::observed_fpr`](crate::FilterStats::observed_fpr)) stay right if you record
/// [`LookupOutcome::NotFound`](crate::LookupOutcome::NotFound) for each match that you did not search because its key
/// range excludes the key; otherwise they are too low.
///
/// A filter that is unusable, or was built with another hash than the set's, answers "may be present", so its file is
/// always among the matches. The set counts on behalf of its filters: [`filter`](Self::filter) gives access to their
/// statistics, and records the outcomes of lookups.
///
/// ```
/// use sstfilter::{FileId, Filters, FilterSet, LookupOutcome, MatchBitmap};
///
/// let filters = Filters::default();
/// let open = |key: &[u8]| {
///     let file = FileId::random(); // kept in the file's metadata
///     let mut builder = filters.builder(file);
///     builder.add_key(key);
///     filters.load(builder.finish().block.expect("one key fits"), file)
/// };
/// let set = FilterSet::new(&filters, [open(b"apple"), open(b"lemon"), open(b"melon")]);
///
/// let mut matches = MatchBitmap::default();
/// set.matches(b"lemon", &mut matches);
/// assert_eq!(matches.iter().collect::<Vec<_>>(), [1]);
/// // The file was searched:
/// set.filter(1).expect("three files").record_lookup(LookupOutcome::Found);
/// assert_eq!(set.filter(1).expect("three files").stats().true_positives, 1);
/// ```
pub struct FilterSet<D> {
    groups: Vec<FilterGroup<D>>,
    /// The filters themselves, with their counters and errors.
    readers: Vec<FilterReader<D>>,
    filters: Filters,
    /// Probes at [`PROBES`], then the positives of each filter.
    counters: Arc<StripedCounters>,
    residency: CacheResidency,
}

/// The counter of probes. A probe of the set probes every filter, so one counter serves all.
const PROBES: usize = 0;

/// The counter of the positives of the filter at `index`.
const fn positives_of(index: usize) -> usize {
    PROBES + 1 + index
}

impl<D: AsRef<[u8]> + Clone> FilterSet<D> {
    /// The set of these filters of the store. One that was loaded by [`Filters`] with another hash becomes
    /// [unusable](FilterReader::problem). `D` is cloned once per filter, so it should be shared (`Bytes`, `Arc`) or
    /// borrowed.
    #[must_use]
    pub fn new(filters: &Filters, readers: impl IntoIterator<Item = FilterReader<D>>) -> Self {
        let (hash, mut groups) = (filters.hasher().identity(), Vec::new());
        let mut readers: Vec<_> = readers.into_iter().map(|reader| reader.for_hash(hash)).collect();
        let counters = Arc::new(StripedCounters::new(positives_of(readers.len())));
        for (index, reader) in readers.iter_mut().enumerate() {
            let (counters, probes, positives) = (counters.clone(), PROBES, positives_of(index));
            reader.enter_set(CountedBySet { counters, probes, positives });
            FilterGroup::push_to(&mut groups, reader.block_of_keys().cloned());
        }
        let residency = CacheResidency::of(&groups);
        Self { groups, readers, filters: filters.clone(), counters, residency }
    }
}

impl<D: AsRef<[u8]>> FilterSet<D> {
    /// Probes all filters for one key: bit `i` of `matches` becomes whether the file of filter `i` may contain it.
    pub fn matches(&self, key: &[u8], matches: &mut MatchBitmap) {
        self.matches_hash(self.filters.hash(key), matches);
    }

    /// The same for a key that was hashed by [`Filters::hash`].
    pub fn matches_hash(&self, hash: KeyHash, matches: &mut MatchBitmap) {
        let words = matches.cleared(self.readers.len());
        let counters = self.counters.of_thread();
        counters.add(PROBES, 1);
        let mut key = PreparedKey::new(hash);
        self.prefetch_from_memory(0, hash);
        for (index, (word, group)) in words.iter_mut().zip(&self.groups).enumerate() {
            self.prefetch_from_memory(index + 1, hash);
            *word = group.probe(&mut key, group.all());
            count_positives(counters, index, *word);
        }
    }

    /// Probes all filters for any key with a prefix: bit `i` of `matches` becomes whether the file of filter `i` may
    /// have such a key. A file whose filter answers for no part of the prefix may.
    pub fn matches_prefix(&self, prefix: &[u8], matches: &mut MatchBitmap) {
        self.matches_prepared(&self.filters.prefix(prefix), matches);
    }

    /// The same for a prefix, or a key of which filters hold parts, that was hashed before.
    pub fn matches_prepared(&self, prefix: &PreparedPrefix<'_>, matches: &mut MatchBitmap) {
        let words = matches.cleared(self.readers.len());
        for (word, readers) in words.iter_mut().zip(self.readers.chunks(GROUP)) {
            for (bit, reader) in readers.iter().enumerate() {
                *word |= u64::from(!reader.probe_prepared(prefix).is_absent()) << bit;
            }
        }
    }

    /// Prefetches one key's lines in group `index`, if the group exists and the set exceeds the caches.
    #[inline]
    fn prefetch_from_memory(&self, index: usize, hash: KeyHash) {
        if self.residency == CacheResidency::Memory
            && let Some(group) = self.groups.get(index)
        {
            group.prefetch(hash, group.all());
        }
    }

    /// Probes all filters for many keys: row `i` of `matches` becomes the answers for key `i`. While one key is
    /// tested, the lines for a later one are prefetched, which pays where the filters exceed the caches.
    ///
    /// ```
    /// use sstfilter::{Filters, FilterSet, MatchMatrix};
    ///
    /// let filters = Filters::default();
    /// let set: FilterSet<&[u8]> = FilterSet::new(&filters, []);
    /// let mut matches = MatchMatrix::default();
    /// set.matches_batch(&[filters.hash(b"apple"), filters.hash(b"pear")], &mut matches);
    /// assert_eq!((matches.keys(), matches.count()), (2, 0));
    /// ```
    pub fn matches_batch(&self, hashes: &[KeyHash], matches: &mut MatchMatrix) {
        matches.reset(hashes.len(), self.readers.len());
        let counters = self.counters.of_thread();
        counters.add(PROBES, hashes.len() as u64);
        for (index, group) in self.groups.iter().enumerate() {
            let all = group.all();
            let ahead = self.residency.keys_ahead(all.count_ones() as usize);
            for &hash in hashes.iter().take(ahead.unwrap_or(0)) {
                group.prefetch(hash, all);
            }
            for (position, (row, &hash)) in matches.rows_mut().zip(hashes).enumerate() {
                let later = ahead.and_then(|ahead| hashes.get(position + ahead));
                let word = group.probe_ahead(&mut PreparedKey::new(hash), all, later.map(|&later| (later, all)));
                if let Some(out) = row.get_mut(index) {
                    *out = word;
                }
            }
        }
        // Counted in a second pass: branches on the answers would stall the pass over the filters' lines.
        for row in matches.rows_mut() {
            for (group, word) in row.iter().enumerate() {
                count_positives(counters, group, *word);
            }
        }
    }

    /// Number of filters, including unusable ones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.readers.len()
    }

    /// Whether there are no filters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.readers.is_empty()
    }

    /// Filter `index`, with its block or the reason why it is unusable, and its statistics, which include the set's
    /// probes. Record the outcomes of lookups here. `None` beyond the last filter.
    #[must_use]
    pub fn filter(&self, index: usize) -> Option<&FilterReader<D>> {
        self.readers.get(index)
    }

    /// All filters, in their order.
    #[must_use]
    pub fn filters(&self) -> &[FilterReader<D>] {
        &self.readers
    }

    /// Why filter `index` is unusable; `None` when it is not.
    #[must_use]
    pub fn problem(&self, index: usize) -> Option<&BlockError> {
        self.readers.get(index)?.problem()
    }
}

/// Counts the positives in `word`, the answers of group `group`. Most answers are negative, so only set bits are
/// visited.
#[inline]
fn count_positives(counters: ThreadCounters<'_>, group: usize, word: u64) {
    for bit in bits_of(word) {
        counters.add(positives_of(group * GROUP + bit), 1);
    }
}

impl<D> fmt::Debug for FilterSet<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterSet").field("len", &self.readers.len()).finish_non_exhaustive()
    }
}
