//! One key, or many, against many filters.

use core::fmt;

use super::group::{FilterGroup, are_far};
use super::matrix::HitMatrix;
use super::open::{FilterBlock, HitBitmap, PreparedKey};
use crate::error::BlockError;
use crate::hash::{HashIdentity, KeyHash};

/// Lines that a batch has on their way from memory, about: enough to hide its latency, few enough for the
/// nearest cache.
const LINES_AHEAD: usize = 64;

/// How many keys ahead a batch fetches when each key wants `lines` lines.
pub(crate) fn keys_ahead(lines: usize) -> usize {
    (LINES_AHEAD / lines.max(1)).clamp(1, 16)
}

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
    is_far: bool,
}

impl<D: AsRef<[u8]>> FilterSet<D> {
    /// The set of `blocks`, to be asked with hashes of identity `hash`.
    #[must_use]
    pub fn new(blocks: impl IntoIterator<Item = Result<FilterBlock<D>, BlockError>>, hash: HashIdentity) -> Self {
        let mut set = Self { groups: Vec::new(), problems: Vec::new(), length: 0, is_far: false };
        for block in blocks {
            set.push(block.and_then(|block| match block.hash_identity() {
                got if got == hash => Ok(block),
                got => Err(BlockError::HashMismatch { expected: hash, got }),
            }));
        }
        set.is_far = are_far(&set.groups);
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
        let mut later = self.groups.iter();
        if self.is_far {
            later.next().into_iter().for_each(|group| group.fetch(hash, group.all()));
        }
        for (word, group) in hits.words_mut().zip(&self.groups) {
            if self.is_far {
                later.next().into_iter().for_each(|group| group.fetch(hash, group.all()));
            }
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
            let ahead = keys_ahead(all.count_ones() as usize);
            hashes.iter().take(ahead).for_each(|&hash| group.fetch(hash, all));
            let next = hashes.iter().skip(ahead).copied().map(Some).chain(core::iter::repeat(None));
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
