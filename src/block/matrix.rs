//! The answers of many filters for many keys.

use super::group::{GROUP, bits_of};

/// The answers of a set of filters for a batch of keys: a row for each key, in it a bit for each filter,
/// set when the key may be present.
///
/// ```
/// use sstfilter::HitMatrix;
///
/// let hits = HitMatrix::default();
/// assert_eq!((hits.keys(), hits.filters(), hits.count()), (0, 0, 0));
/// assert_eq!(hits.row(0).count(), 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HitMatrix {
    /// Row by row, each of whole words.
    words: Vec<u64>,
    keys: usize,
    filters: usize,
}

impl HitMatrix {
    /// Makes all bits clear, in `keys` rows of `filters` bits; the memory is kept.
    pub(crate) fn reset(&mut self, keys: usize, filters: usize) {
        self.words.clear();
        self.words.resize(keys.saturating_mul(filters.div_ceil(GROUP)), 0);
        (self.keys, self.filters) = (keys, filters);
    }

    /// The rows, each as words of 64 filters; none when there are no filters.
    pub(crate) fn rows_mut(&mut self) -> impl Iterator<Item = &mut [u64]> {
        self.words.chunks_mut(self.filters.div_ceil(GROUP).max(1))
    }

    fn row_words(&self, key: usize) -> &[u64] {
        let width = self.filters.div_ceil(GROUP);
        let start = key.saturating_mul(width);
        self.words.get(start..start.saturating_add(width)).unwrap_or_default()
    }

    /// Whether key `key` may be in what filter `filter` stands for; `true` beyond the ends.
    #[must_use]
    pub fn may_contain(&self, key: usize, filter: usize) -> bool {
        let word = self.row_words(key).get(filter / GROUP).filter(|_| filter < self.filters);
        word.is_none_or(|word| word >> (filter % GROUP) & 1 == 1)
    }

    /// The positions of the filters that do not deny key `key`, ascending; none beyond the last key.
    pub fn row(&self, key: usize) -> impl Iterator<Item = usize> + '_ {
        (0..).zip(self.row_words(key)).flat_map(|(group, &word)| bits_of(word).map(move |bit| group * GROUP + bit))
    }

    /// Keys asked for.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// Filters asked.
    #[must_use]
    pub fn filters(&self) -> usize {
        self.filters
    }

    /// All pairs of a key and a filter that does not deny it.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}
