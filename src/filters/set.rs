//! Sets of filters, probed together for one key or for many.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::Filters;
use super::reader::FilterReader;
use crate::block::{CacheResidency, FilterGroup, GROUP, MatchBitmap, MatchMatrix, PreparedKey, bits_of};
use crate::error::BlockError;
use crate::hash::{KeyHash, PreparedPrefix};
use crate::stats::{CountedBySet, PROBES, StripedCounters, ThreadCounters};

/// The filters of many files, in any order, probed together for a key.
///
/// A set computes the key's bit pattern within a line once for all Bloom filters with the same number of probes. Each
/// of them then costs one multiplication and the test of one line, in a loop without data-dependent branches.
///
/// A set also probes the filters of files whose key range excludes the key. If you skip a matching file because of its
/// key range, record [`LookupOutcome::NotFound`](crate::LookupOutcome::NotFound) for it; otherwise observed rates
/// ([`FilterStats::observed_fpr`](crate::FilterStats::observed_fpr)) are too low.
///
/// A filter that is unusable or was built with another hash answers "may be present", so its file always matches. The
/// set counts answers for its filters. Read a filter's statistics and record outcomes of lookups through
/// [`filter`](Self::filter).
///
/// ```
/// use sstfilter::{FileId, Filters, FilterSet, LookupOutcome, MatchBitmap};
///
/// let filters = Filters::default();
/// let open = |key: &[u8]| {
///     let file = FileId::random(); // kept in the file's metadata
///     let mut builder = filters.builder(file);
///     builder.add_key(key);
///     filters.load(builder.finish().block, file)
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

/// The counter of the positives of the filter at `index`.
const fn positives_of(index: usize) -> usize {
    PROBES + 1 + index
}

impl<D: AsRef<[u8]> + Clone> FilterSet<D> {
    /// Creates a set of filters of one store. Filters that were loaded with another hash become
    /// [unusable](FilterReader::problem). `D` is cloned once per filter, so use shared (`Bytes`, `Arc`) or borrowed
    /// bytes.
    #[must_use]
    pub fn new(filters: &Filters, readers: impl IntoIterator<Item = FilterReader<D>>) -> Self {
        let (hash, mut groups) = (filters.hasher().identity(), Vec::new());
        let mut readers: Vec<_> = readers.into_iter().map(|reader| reader.for_hash(hash)).collect();
        let counters = Arc::new(StripedCounters::new(positives_of(readers.len())));
        for (index, reader) in readers.iter_mut().enumerate() {
            reader.enter_set(CountedBySet { counters: counters.clone(), positives: positives_of(index) });
            // A filter that cannot be probed for keys takes a place as well, so that bits and indices agree.
            FilterGroup::push_to(&mut groups, reader.block_of_keys().cloned());
        }
        let residency = CacheResidency::of_bytes(groups.iter().map(FilterGroup::bytes).sum());
        Self { groups, readers, filters: filters.clone(), counters, residency }
    }
}

impl<D: AsRef<[u8]>> FilterSet<D> {
    /// Probes all filters for one key: sets bit `i` of `matches` if the file of filter `i` may contain the key.
    pub fn matches(&self, key: &[u8], matches: &mut MatchBitmap) {
        self.matches_hash(self.filters.hash(key), matches);
    }

    /// Like [`matches`](Self::matches), for a key that was hashed by [`Filters::hash`].
    pub fn matches_hash(&self, hash: KeyHash, matches: &mut MatchBitmap) {
        self.matches_words(hash, matches.cleared(self.readers.len()));
    }

    /// Like [`matches_hash`](Self::matches_hash), but stores the answer of filter `i` as bit `i % 64` of
    /// `words[i / 64]`, and clears the bits after the last filter. Pass one word for each 64 filters: filters beyond
    /// the words are not probed, and words beyond the filters keep what they contain.
    pub fn matches_words(&self, hash: KeyHash, words: &mut [u64]) {
        let counters = self.counters.of_thread();
        counters.add(PROBES, 1);
        let mut key = PreparedKey::new(hash);
        // One group ahead of the test: while a group's lines are tested, those of the next are on their way from
        // memory.
        self.prefetch_from_memory(0, hash);
        for (index, (word, group)) in words.iter_mut().zip(&self.groups).enumerate() {
            self.prefetch_from_memory(index + 1, hash);
            *word = group.probe(&mut key, group.all());
            count_positives(counters, index, *word);
        }
    }

    /// Probes all filters for any key with a prefix: sets bit `i` of `matches` if the file of filter `i` may contain
    /// such a key, or if the filter holds none of the prefix's parts.
    pub fn matches_prefix(&self, prefix: &[u8], matches: &mut MatchBitmap) {
        self.matches_prepared(&self.filters.prefix(prefix), matches);
    }

    /// Like [`matches_prefix`](Self::matches_prefix), for a prefix, or for a key's parts, hashed before.
    pub fn matches_prepared(&self, prefix: &PreparedPrefix<'_>, matches: &mut MatchBitmap) {
        let words = matches.cleared(self.readers.len());
        // One by one, because groups answer only for whole keys.
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

    /// Probes all filters for many keys: row `i` of `matches` receives the answers for key `i`. While it tests one key,
    /// the set prefetches the lines for a later one, which pays when the filters exceed the caches.
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

    /// Returns filter `index`; `None` beyond the last filter. Its statistics include the set's probes. Record the
    /// outcomes of lookups here.
    #[must_use]
    pub fn filter(&self, index: usize) -> Option<&FilterReader<D>> {
        self.readers.get(index)
    }

    /// All filters, in their order.
    #[must_use]
    pub fn filters(&self) -> &[FilterReader<D>] {
        &self.readers
    }

    /// Returns the reason why filter `index` is unusable; `None` if it is usable.
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
