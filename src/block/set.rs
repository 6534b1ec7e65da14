//! One key, or many, against many filters.

use core::fmt;
use std::sync::Arc;

use super::group::{Distance, FilterGroup, GROUP, bits_of};
use super::guarded::GuardedFilter;
use super::matrix::HitMatrix;
use super::open::{HitBitmap, PreparedKey};
use crate::error::BlockError;
use crate::hash::{HashIdentity, KeyHash};
use crate::stats::{Counting, ProbeShare, SetProbes};

/// The filters of many files, in an order of the owner's choice, probed for one key together.
///
/// What a key has in common for all of them (its bits in a line, one pattern for each number of probes)
/// is computed once; each Bloom filter then costs one multiplication and the test of one line, and the
/// loop over them has no branch that depends on what they hold. A filter that is unusable, or was built with another
/// hash than the set's, answers "may be present".
///
/// A file whose filter is unusable is always among the candidates. The set counts for its filters: [`filter`](Self::filter) has their statistics, and takes the outcomes of lookups.
///
/// ```
/// use sstfilter::{BloomPolicy, BuildContext, FileId, FilterPolicy, FilterSet, GuardedFilter, HitBitmap, KeyHasher};
/// use sstfilter::{LoadContext, LookupOutcome};
///
/// let hasher = KeyHasher::default();
/// let block = |file: FileId, key: &[u8]| {
///     let context = BuildContext::new(&hasher).with_file_id(file);
///     let mut builder = BloomPolicy::default().builder(&context).expect("never declines");
///     builder.add_key(key);
///     builder.finish().block.expect("one key fits")
/// };
/// let files = [(1, b"apple"), (2, b"lemon"), (3, b"melon")];
/// let filters = files.map(|(number, key)| {
///     let file = FileId::from(number);
///     GuardedFilter::load(block(file, key), LoadContext::new(&hasher).with_file_id(file))
/// });
/// let set = FilterSet::new(filters, hasher.identity());
///
/// let mut hits = HitBitmap::default();
/// set.candidates(hasher.hash(b"lemon"), &mut hits);
/// assert_eq!(hits.iter().collect::<Vec<_>>(), [1]);
/// // The file was searched:
/// set.filter(1).expect("three files").record_lookup(LookupOutcome::Found);
/// assert_eq!(set.filter(1).expect("three files").stats().true_positives, 1);
/// ```
pub struct FilterSet<D> {
    groups: Vec<FilterGroup<D>>,
    /// All filters, for what is no probe.
    filters: Vec<GuardedFilter<D>>,
    probes: Arc<SetProbes>,
    distance: Distance,
}

impl<D: AsRef<[u8]> + Clone> FilterSet<D> {
    /// The set of `filters`, to be probed with hashes of identity `hash`.
    ///
    /// A filter of another hash becomes [unusable](GuardedFilter::block). Bytes are cloned once, so `D` is best a shared
    /// (`Bytes`, `Arc`) or a borrowed one.
    #[must_use]
    pub fn new(filters: impl IntoIterator<Item = GuardedFilter<D>>, hash: HashIdentity) -> Self {
        let mut groups = Vec::new();
        let mut filters: Vec<_> = filters.into_iter().map(|filter| filter.answering(hash)).collect();
        let probes = Arc::new(SetProbes::new(filters.len()));
        for (index, filter) in filters.iter_mut().enumerate() {
            filter.join(ProbeShare::new(&probes, index));
            FilterGroup::push_to(&mut groups, filter.block().ok().cloned());
        }
        let distance = Distance::of(&groups);
        Self { groups, filters, probes, distance }
    }
}

impl<D: AsRef<[u8]>> FilterSet<D> {
    /// Probes all filters for one key: bit `i` of `hits` becomes whether the file of filter `i` may contain it.
    pub fn candidates(&self, hash: KeyHash, hits: &mut HitBitmap) {
        hits.reset(self.filters.len());
        let counting = self.probes.count(1);
        let mut key = PreparedKey::new(hash);
        let is_far = self.distance == Distance::Far;
        let fetch = |group: &FilterGroup<D>| group.fetch(hash, group.all());
        self.groups.iter().take(usize::from(is_far)).for_each(fetch);
        for (index, (word, group)) in hits.words_mut().zip(&self.groups).enumerate() {
            self.groups.get(index + 1).filter(|_| is_far).into_iter().for_each(fetch);
            *word = group.probe(&mut key, group.all());
            count_positives(counting, index, *word);
        }
    }

    /// Probes all filters for many keys: row `i` of `hits` becomes the answers for key `i`. While one key is
    /// tested, the lines for a later one are fetched, which pays where the filters exceed the caches.
    ///
    /// ```
    /// use sstfilter::{FilterSet, HitMatrix, KeyHasher};
    ///
    /// let hasher = KeyHasher::default();
    /// let set: FilterSet<&[u8]> = FilterSet::new([], hasher.identity());
    /// let mut hits = HitMatrix::default();
    /// set.candidates_batch(&[hasher.hash(b"apple"), hasher.hash(b"pear")], &mut hits);
    /// assert_eq!((hits.keys(), hits.count()), (2, 0));
    /// ```
    pub fn candidates_batch(&self, hashes: &[KeyHash], hits: &mut HitMatrix) {
        hits.reset(hashes.len(), self.filters.len());
        let counting = self.probes.count(hashes.len() as u64);
        for (index, group) in self.groups.iter().enumerate() {
            let all = group.all();
            let ahead = self.distance.keys_ahead(all.count_ones() as usize);
            hashes.iter().take(ahead.unwrap_or(0)).for_each(|&hash| group.fetch(hash, all));
            let later = hashes.get(ahead.unwrap_or(hashes.len())..).unwrap_or_default();
            let next = later.iter().copied().map(Some).chain(core::iter::repeat(None));
            for (row, (&hash, next)) in hits.rows_mut().zip(hashes.iter().zip(next)) {
                let mut key = PreparedKey::new(hash);
                let word = group.probe_ahead(&mut key, all, next.map(|next| (next, all)));
                if let Some(out) = row.get_mut(index) {
                    *out = word;
                }
            }
        }
        // Afterwards, because branches on what filters answer would hold up the pass over their lines.
        for row in hits.rows_mut() {
            row.iter().enumerate().for_each(|(group, &word)| count_positives(counting, group, word));
        }
    }

    /// Filters, those that are unusable included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.filters.len()
    }

    /// Whether there are no filters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// Filter `index`: its block or why it is unusable, its statistics (the probes of the set included), and where
    /// outcomes of lookups are recorded. `None` from the end on.
    #[must_use]
    pub fn filter(&self, index: usize) -> Option<&GuardedFilter<D>> {
        self.filters.get(index)
    }

    /// All filters, in their order.
    #[must_use]
    pub fn filters(&self) -> &[GuardedFilter<D>] {
        &self.filters
    }

    /// Why filter `index` is unusable; `None` when it is not.
    #[must_use]
    pub fn problem(&self, index: usize) -> Option<&BlockError> {
        self.filters.get(index)?.block().err()
    }
}

/// Counts the ones of `word`, the answers of group `group`.
#[inline]
fn count_positives(counting: Counting<'_>, group: usize, word: u64) {
    for bit in bits_of(word) {
        counting.add_positive(group * GROUP + bit);
    }
}

impl<D> fmt::Debug for FilterSet<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterSet").field("len", &self.filters.len()).finish_non_exhaustive()
    }
}
