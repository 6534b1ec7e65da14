//! A filter that forgets.

use alloc::vec::Vec;

use super::parts::{Layers, MAX_PARTS, Numbers, Part, Role, layered};
use crate::error::ConfigError;
use crate::filter::error::FilterError;
use crate::filter::standard_bloom::StandardBloom;
use crate::hash::{HashIdentity, KeyHash};
use crate::units::FalsePositiveRate;

/// A Bloom filter of recent keys, in generations: the caller begins a new one, and the oldest is emptied.
///
/// Keys are forgotten by [`rotate`](Self::rotate) alone: a filter of *g* generations contains a key until the *g*th
/// call after its insert.
///
/// - **The last keys:** call it before an insert when the newest generation [is full](Self::is_full). The filter then
///   contains the last `(g - 1) * n` keys, for generations of *n*.
/// - **The keys of a time *t*:** call it every `t / (g - 1)`, and after an idle time once for each period that passed.
///   Plan a generation for the most keys that come in a period. More keys raise the rate, and none is forgotten early.
///   The time of the last call is not stored: keep it beside the bytes.
///
/// Two generations take the least time to probe; more make the window more exact. A call takes time in proportion to
/// the size of a generation, because it clears one.
///
/// ```
/// use sstfilter::layers::{LayeredFilter, RotatingBloom};
/// use sstfilter::{FalsePositiveRate, KeyHasher};
///
/// let (hasher, rate) = (KeyHasher::default(), FalsePositiveRate::ONE_PERCENT);
/// let hash = |key: u32| hasher.hash(&key.to_le_bytes());
/// let mut recent = <RotatingBloom>::new(hasher.identity(), 1_000, 2, rate)?;
/// for key in 0..10_000 {
///     if recent.is_full() {
///         recent.rotate();
///     }
///     recent.insert(hash(key));
/// }
/// assert!((9_000..10_000).all(|key| recent.contains(hash(key))));
/// assert!((0..8_000).filter(|&key| recent.contains(hash(key))).count() < 160);
/// recent.rotate();
/// recent.rotate();
/// assert_eq!(recent.health().keys, 0);
/// # Ok::<(), sstfilter::FilterError>(())
/// ```
#[derive(Debug)]
pub struct RotatingBloom<P = StandardBloom> {
    pub(super) layers: Layers<P>,
}

impl<P: Part> RotatingBloom<P> {
    /// Creates an empty filter of 2 to 64 `generations`, each for `keys` keys. All together have at most this rate.
    ///
    /// # Errors
    ///
    /// [`FilterError::Config`] for another number of generations, or if a generation cannot have so low a rate;
    /// [`FilterError::TooLarge`] or [`FilterError::NoMemory`] if a generation is too large.
    pub fn new(hash: HashIdentity, keys: u64, generations: u16, rate: FalsePositiveRate) -> Result<Self, FilterError> {
        if !(2..=MAX_PARTS).contains(&generations) {
            return Err(ConfigError::out_of_range("generations of a filter", "2 to 64", generations).into());
        }
        let numbers = Numbers { rate, keys: keys.max(1), inserted: 0 };
        let mut layers = Layers { hash, file: None, base: None, parts: Vec::new(), numbers };
        // All at once, so that nothing fails later.
        for _ in 0..generations {
            layers.push(keys.max(1), rate.get() / f64::from(generations))?;
        }
        Ok(Self { layers })
    }

    /// Inserts a key into the newest generation, and returns whether it was in none: `false` for a key that the filter
    /// already seemed to contain.
    pub fn insert(&mut self, hash: KeyHash) -> bool {
        let was_older = self.layers.is_older(hash);
        self.layers.add(hash) && !was_older
    }

    /// Returns whether the newest generation has as many keys as it is planned for. More keys raise the rate.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.layers.numbers.inserted >= self.layers.numbers.keys
    }

    /// Begins a new generation, and forgets the oldest.
    pub fn rotate(&mut self) {
        self.layers.parts.rotate_left(1);
        if let Some(newest) = self.layers.parts.last_mut() {
            newest.clear();
        }
        self.layers.numbers.inserted = 0;
    }
}

layered!(RotatingBloom, Role::Rotating);
