//! The answers of one filter for many keys, or of many filters for one.

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
    /// Empties the bitmap and gives it `length` clear bits; its memory is kept.
    pub fn reset(&mut self, length: usize) {
        self.words.clear();
        self.words.resize(length.div_ceil(64), 0);
        self.length = length;
    }

    /// Resets to `length` clear bits and returns the words for the caller to fill.
    pub(super) fn cleared(&mut self, length: usize) -> &mut [u64] {
        self.reset(length);
        &mut self.words
    }

    pub(crate) fn words_mut(&mut self) -> impl Iterator<Item = &mut u64> {
        self.words.iter_mut()
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
        (0..self.length).filter(|&index| self.may_contain(index))
    }
}
