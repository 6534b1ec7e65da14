//! One key, or many, against many filters.

use core::fmt;

use super::group::{Distance, FilterGroup};
use super::matrix::HitMatrix;
use super::open::{FilterBlock, HitBitmap, PreparedKey};
use crate::error::BlockError;
use crate::hash::{HashIdentity, KeyHash};

/// The filters of many files, in an order of the owner's choice, asked for one key together.
///
/// What a key has in common for all of them (its bits in a line, one pattern for each number of probes)
/// is computed once; each Bloom filter then costs one multiplication and the test of one line, and the
/// loop over them has no branch that depends on what they hold. A block that could not be opened, or was
/// built with another hash than the set's, answers "may be present".
///
/// The payloads are not checked: [`verify`](FilterBlock::verify) blocks that come from outside before they
/// are put into a set. Nothing is counted.
///
/// ```
/// use sstfilter::{BloomPolicy, BuildContext, FilterBlock, FilterPolicy, FilterSet, HitBitmap, KeyHasher};
///
/// let hasher = KeyHasher::default();
/// let block = |key: &[u8]| {
///     let mut builder = BloomPolicy::default().builder(&BuildContext::new(&hasher)).expect("never declines");
///     builder.add_key(key);
///     builder.finish().block.expect("one key fits")
/// };
/// let set = FilterSet::new(
///     [&b"apple"[..], b"pear", b"plum"].map(|key| FilterBlock::open(block(key))),
///     hasher.identity(),
/// );
///
/// let mut hits = HitBitmap::default();
/// set.candidates(hasher.hash(b"pear"), &mut hits);
/// assert_eq!(hits.iter().collect::<Vec<_>>(), [1]);
/// ```
#[derive(Clone)]
pub struct FilterSet<D> {
    groups: Vec<FilterGroup<D>>,
    /// Why a filter is not asked, for each that is not, in order.
    problems: Vec<(usize, BlockError)>,
    length: usize,
    distance: Distance,
}

impl<D: AsRef<[u8]>> FilterSet<D> {
    /// The set of `blocks`, to be asked with hashes of identity `hash`.
    #[must_use]
    pub fn new(blocks: impl IntoIterator<Item = Result<FilterBlock<D>, BlockError>>, hash: HashIdentity) -> Self {
        let mut set = Self { groups: Vec::new(), problems: Vec::new(), length: 0, distance: Distance::Near };
        for block in blocks {
            set.push(block.and_then(|block| match block.hash_identity() {
                got if got == hash => Ok(block),
                got => Err(BlockError::HashMismatch { expected: hash, got }),
            }));
        }
        set.distance = Distance::of(&set.groups);
        set
    }

    fn push(&mut self, block: Result<FilterBlock<D>, BlockError>) {
        let block = block.map_err(|problem| self.problems.push((self.length, problem))).ok();
        FilterGroup::push_to(&mut self.groups, block);
        self.length += 1;
    }

    /// Asks all filters for one key: bit `i` of `hits` becomes whether filter `i` does not deny it.
    pub fn candidates(&self, hash: KeyHash, hits: &mut HitBitmap) {
        hits.reset(self.length);
        let mut key = PreparedKey::new(hash);
        let is_far = self.distance == Distance::Far;
        let fetch = |group: &FilterGroup<D>| group.fetch(hash, group.all());
        self.groups.iter().take(usize::from(is_far)).for_each(fetch);
        for (index, (word, group)) in hits.words_mut().zip(&self.groups).enumerate() {
            self.groups.get(index + 1).filter(|_| is_far).into_iter().for_each(fetch);
            *word = group.probe(&mut key, group.all());
        }
    }

    /// Asks all filters for many keys: row `i` of `hits` becomes the answers for key `i`. While one key is
    /// tested, the lines for a later one are fetched, which pays where the filters exceed the caches.
    ///
    /// ```
    /// use sstfilter::{FilterSet, HitMatrix, KeyHasher};
    ///
    /// let hasher = KeyHasher::default();
    /// let set: FilterSet<Vec<u8>> = FilterSet::new([], hasher.identity());
    /// let mut hits = HitMatrix::default();
    /// set.candidates_batch(&[hasher.hash(b"apple"), hasher.hash(b"pear")], &mut hits);
    /// assert_eq!((hits.keys(), hits.count()), (2, 0));
    /// ```
    pub fn candidates_batch(&self, hashes: &[KeyHash], hits: &mut HitMatrix) {
        hits.reset(hashes.len(), self.length);
        for (index, group) in self.groups.iter().enumerate() {
            let all = group.all();
            let ahead = self.distance.keys_ahead(all.count_ones() as usize);
            hashes.iter().take(ahead.unwrap_or(0)).for_each(|&hash| group.fetch(hash, all));
            let later = hashes.get(ahead.unwrap_or(hashes.len())..).unwrap_or_default();
            let next = later.iter().copied().map(Some).chain(core::iter::repeat(None));
            for (row, (&hash, next)) in hits.rows_mut().zip(hashes.iter().zip(next)) {
                let mut key = PreparedKey::new(hash);
                let word = group.probe_ahead(&mut key, all, next.map(|next| (next, all)));
                row.iter_mut().skip(index).take(1).for_each(|out| *out = word);
            }
        }
    }

    /// Filters, those that cannot be asked included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are no filters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Why filter `index` is not asked; `None` when it is.
    #[must_use]
    pub fn problem(&self, index: usize) -> Option<&BlockError> {
        let position = self.problems.binary_search_by_key(&index, |(index, _)| *index).ok()?;
        self.problems.get(position).map(|(_, problem)| problem)
    }
}

impl<D> fmt::Debug for FilterSet<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterSet").field("len", &self.length).field("problems", &self.problems).finish_non_exhaustive()
    }
}
