//! Answers of one filter or of many filters, for one key or for many.

use alloc::vec::Vec;

/// Filters in a group: the answers of a group fit one word.
pub(crate) const GROUP: usize = 64;

/// A filter's answer for a key, a prefix or a range. Skip the file only for [`Absent`](Self::Absent).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// The file certainly does not contain what was probed for: skip it.
    Absent,
    /// The file may contain it.
    MaybePresent,
    /// The filter is not in memory, so the file may contain it. Only stores that load filters on demand return this.
    NotLoaded,
    /// No filter can answer, so the file may contain it. The `problem` of the probed object returns the cause. It
    /// returns `None` if nothing is wrong: the file has no filter, or the filter does not hold the probed parts of
    /// keys.
    Unusable,
}

impl Probe {
    /// Whether the file can be skipped.
    #[must_use]
    pub const fn is_absent(self) -> bool {
        matches!(self, Self::Absent)
    }

    /// The answer of a usable filter.
    pub(crate) const fn of(may_contain: bool) -> Self {
        if may_contain { Self::MaybePresent } else { Self::Absent }
    }
}

/// Returns the positions of the set bits of `word`, ascending.
#[inline]
pub fn bits_of(mut word: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let bit = (word != 0).then_some(word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(bit)
    })
}

/// The answers of a filter for a batch of keys (bit `i` is set when key `i` may be present), or of a set of filters for
/// one key (bit `i` is set when filter `i` may contain it).
///
/// ```
/// use sstfilter::MatchBitmap;
///
/// let matches = MatchBitmap::default();
/// assert_eq!(matches.count(), 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MatchBitmap {
    words: Vec<u64>,
    length: usize,
}

impl MatchBitmap {
    /// Resets the bitmap to `length` clear bits, and reuses its memory.
    pub fn reset(&mut self, length: usize) {
        self.words.clear();
        self.words.resize(length.div_ceil(64), 0);
        self.length = length;
    }

    /// Resets the bitmap to `length` clear bits, and returns the words for the caller to fill.
    pub fn cleared(&mut self, length: usize) -> &mut [u64] {
        self.reset(length);
        &mut self.words
    }

    /// Sets the answers that `other`, of the same length, has.
    pub(crate) fn add(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    /// Whether key `index` may be present.
    ///
    /// An index beyond the end is a caller's bug, but a read path should not panic over it. It answers `true`, "may be
    /// present", which costs a search and never loses a key.
    #[must_use]
    pub fn may_contain(&self, index: usize) -> bool {
        index >= self.length || self.words.get(index / 64).is_none_or(|word| word >> (index % 64) & 1 == 1)
    }

    /// Number of answers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether the bitmap has no answers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Keys that may be present.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// The positions of the keys that may be present, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let words = self.words.iter().enumerate();
        // A kind of the user's may have set bits beyond the end.
        words
            .flat_map(|(word, &bits)| bits_of(bits).map(move |bit| word * 64 + bit))
            .take_while(|index| *index < self.length)
    }
}

/// The answers of a set of filters for a batch of keys: one row per key, one bit per filter, set when the key may be
/// present.
///
/// ```
/// use sstfilter::MatchMatrix;
///
/// let matches = MatchMatrix::default();
/// assert_eq!((matches.keys(), matches.filters(), matches.count()), (0, 0, 0));
/// assert_eq!(matches.row(0).count(), 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MatchMatrix {
    /// Row by row; each row starts at a word.
    words: Vec<u64>,
    keys: usize,
    filters: usize,
}

impl MatchMatrix {
    /// Clears all bits and makes `keys` rows of `filters` bits; the memory is reused.
    pub(crate) fn reset(&mut self, keys: usize, filters: usize) {
        self.words.clear();
        self.words.resize(keys.saturating_mul(filters.div_ceil(GROUP)), 0);
        (self.keys, self.filters) = (keys, filters);
    }

    /// The rows, each as words of 64 filters; none when there are no filters.
    pub(crate) fn rows_mut(&mut self) -> impl Iterator<Item = &mut [u64]> {
        // Rows of a set without filters have no words, and chunks of 0 panic.
        self.words.chunks_mut(self.filters.div_ceil(GROUP).max(1))
    }

    fn row_words(&self, key: usize) -> &[u64] {
        self.words.chunks(self.filters.div_ceil(GROUP).max(1)).nth(key).unwrap_or_default()
    }

    /// Whether the file of filter `filter` may contain key `key`.
    ///
    /// An index beyond the ends is a caller's bug, but a read path should not panic over it. It answers `true`, "may be
    /// present", which costs a search and never loses a key.
    #[must_use]
    pub fn may_contain(&self, key: usize, filter: usize) -> bool {
        // Bits after the last filter are clear, but an index there must answer `true`.
        let word = self.row_words(key).get(filter / GROUP).filter(|_| filter < self.filters);
        word.is_none_or(|word| word >> (filter % GROUP) & 1 == 1)
    }

    /// The positions of the filters that may contain key `key`, ascending; none beyond the last key.
    pub fn row(&self, key: usize) -> impl Iterator<Item = usize> + '_ {
        (0..).zip(self.row_words(key)).flat_map(|(group, &word)| bits_of(word).map(move |bit| group * GROUP + bit))
    }

    /// Number of keys.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// Number of filters.
    #[must_use]
    pub fn filters(&self) -> usize {
        self.filters
    }

    /// Number of pairs of a key and a filter that may contain it.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}
