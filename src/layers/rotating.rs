//! A filter that forgets.

use alloc::vec::Vec;

use super::parts::{Layers, MAX_PARTS, Numbers, Part, Role, layered};
use crate::error::ConfigError;
use crate::filter::error::FilterError;
use crate::filter::standard_bloom::StandardBloom;
use crate::hash::{HashIdentity, KeyHash};
use crate::units::FalsePositiveRate;

/// A Bloom filter of recent keys: the oldest of its generations is emptied when a new one begins.
///
/// A generation ends after as many keys as it is planned for, or when the caller [ends](Self::rotate) it. For the keys
/// of a time *t*, call `rotate` every `t / (g - 1)`, and plan each of the *g* generations for the most keys that come
/// between two calls: with more, keys leave early. To begin a generation takes time in proportion to its size, because
/// its filter is cleared. By number alone, with *g* generations of *n* keys, the filter contains a key for
/// at least the next `(g - 1) * n` inserts, and for at most the next `g * n` inserts of new keys, but for false
/// positives. Two generations take the least time; more make the window more exact.
///
/// ```
/// use sstfilter::layers::{LayeredFilter, RotatingBloom};
/// use sstfilter::{FalsePositiveRate, KeyHasher};
///
/// let (hasher, rate) = (KeyHasher::default(), FalsePositiveRate::ONE_PERCENT);
/// let hash = |key: u32| hasher.hash(&key.to_le_bytes());
/// let mut recent = <RotatingBloom>::new(hasher.identity(), 1_000, 2, rate)?;
/// for key in 0..10_000 {
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
        let numbers = Numbers { role: Role::Rotating, rate, keys: keys.max(1), inserted: 0, generations };
        let mut layers = Layers { hash, file: None, base: None, parts: Vec::new(), numbers };
        // All at once, so that nothing fails later.
        for _ in 0..generations {
            layers.push(keys.max(1), rate.get() / f64::from(generations))?;
        }
        Ok(Self { layers })
    }

    /// Inserts a key into the newest generation, and returns whether it was in none: `false` for a key that the filter
    /// already seemed to contain. Begins a new generation if the newest is full.
    pub fn insert(&mut self, hash: KeyHash) -> bool {
        let was_older = self.layers.is_older(hash);
        if self.layers.numbers.inserted >= self.layers.numbers.keys {
            let is_newest = self.layers.parts.last().is_some_and(|newest| newest.contains(hash));
            if is_newest {
                return false;
            }
            self.rotate();
        }
        self.layers.add(hash) && !was_older
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
