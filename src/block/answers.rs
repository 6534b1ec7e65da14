//! Batches asked of filters in memory.

use super::HitBitmap;
use crate::filter::counting_bloom::CountingBloom;
use crate::filter::standard_bloom::StandardBloom;
use crate::filter::two_bit_bloom::TwoBitBloom;
use crate::hash::KeyHash;

impl TwoBitBloom {
    /// Asks for many keys at once; `hits` then holds the answers in their order.
    ///
    /// ```
    /// use sstfilter::{HitBitmap, KeyHash, TwoBitBloom, TwoBitOptions};
    ///
    /// let filter = TwoBitBloom::new(TwoBitOptions::default())?;
    /// let hashes: Vec<KeyHash> = (0..1_000).map(KeyHash::from_remixed).collect();
    /// filter.insert_batch(&hashes[..500]);
    /// let mut hits = HitBitmap::default();
    /// filter.contains_batch(&hashes, &mut hits);
    /// assert!((0..500).all(|index| hits.may_contain(index)) && hits.count() < 520);
    /// # Ok::<(), sstfilter::FilterError>(())
    /// ```
    pub fn contains_batch(&self, hashes: &[KeyHash], hits: &mut HitBitmap) {
        self.answer_batch(hashes, hits.cleared(hashes.len()));
    }
}

impl StandardBloom {
    /// Asks for many keys at once; `hits` then holds the answers in their order.
    pub fn contains_batch(&self, hashes: &[KeyHash], hits: &mut HitBitmap) {
        self.contains_words(hashes, hits.cleared(hashes.len()));
    }
}

impl CountingBloom {
    /// Asks for many keys at once; `hits` then holds the answers in their order.
    pub fn contains_batch(&self, hashes: &[KeyHash], hits: &mut HitBitmap) {
        self.contains_words(hashes, hits.cleared(hashes.len()));
    }
}
