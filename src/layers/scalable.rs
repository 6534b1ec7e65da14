//! A filter for any number of keys.

use alloc::vec::Vec;

use super::parts::{Layers, Numbers, Part, Role, layered};
use crate::filter::error::FilterError;
use crate::filter::standard_bloom::StandardBloom;
use crate::hash::{HashIdentity, KeyHash};
use crate::units::FalsePositiveRate;

/// A Bloom filter for any number of keys, with one rate: parts of doubling size and falling rates (Almeida et al.,
/// *Scalable Bloom Filters*, 2007).
///
/// A key that an older part contains is not inserted again, so that the newest part fills with new keys only. A lookup
/// probes the newest part first, and of an absent key all of them: seven after a growth to a hundred times the first
/// size.
///
/// It costs more bits than a filter that was planned for the final number of keys: the newest part is half empty on
/// average, and rates fall. At 1 % and a hundred times the first size, it has twice the bits. So plan the first part
/// for the usual number of keys, and let the filter grow where that was wrong. It ends where no further part is
/// possible: one of 32 GiB, or of 1 GiB if its parts are register-blocked.
///
/// ```
/// use sstfilter::layers::{LayeredFilter, ScalableBloom};
/// use sstfilter::{FalsePositiveRate, KeyHasher};
///
/// let (hasher, rate) = (KeyHasher::default(), FalsePositiveRate::ONE_PERCENT);
/// let hash = |key: u32| hasher.hash(&key.to_le_bytes());
/// let mut seen = <ScalableBloom>::new(hasher.identity(), 1_000, rate)?;
/// for key in 0..50_000 {
///     seen.insert(hash(key))?;
/// }
/// assert!((0..50_000).all(|key| seen.contains(hash(key))));
/// let health = seen.health();
/// assert!(health.parts == 6 && health.expected_fpr <= 0.01);
///
/// let restored = <ScalableBloom>::from_bytes(seen.to_bytes()?, &hasher)?;
/// assert!(restored.contains(hash(7)));
/// # Ok::<(), sstfilter::FilterError>(())
/// ```
#[derive(Debug)]
pub struct ScalableBloom<P = StandardBloom> {
    pub(super) layers: Layers<P>,
}

impl<P: Part> ScalableBloom<P> {
    /// Creates an empty filter. Its first part is for `keys` keys, at least 1; `rate` holds for any number.
    ///
    /// # Errors
    ///
    /// [`FilterError::Config`] if a part cannot have so low a rate; [`FilterError::TooLarge`] or
    /// [`FilterError::NoMemory`] if the first part is too large.
    pub fn new(hash: HashIdentity, keys: u64, rate: FalsePositiveRate) -> Result<Self, FilterError> {
        let numbers = Numbers { rate, keys: keys.max(1), inserted: 0 };
        let mut filter = Self { layers: Layers { hash, file: None, base: None, parts: Vec::new(), numbers } };
        filter.grow()?;
        Ok(filter)
    }

    /// Inserts a key, and returns whether it was new. `true` is certain; `false` means that the key was there, or is a
    /// false positive.
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new), if the next part cannot be created. The key is then not inserted, and has to be
    /// treated as "may be present" from then on.
    pub fn insert(&mut self, hash: KeyHash) -> Result<bool, FilterError> {
        if self.layers.is_older(hash) {
            return Ok(false);
        }
        let numbers = self.layers.numbers;
        if numbers.inserted >= numbers.scalable_part(self.layers.parts.len() - 1).0 {
            if self.layers.parts.last().is_some_and(|newest| newest.contains(hash)) {
                return Ok(false);
            }
            self.grow()?;
        }
        Ok(self.layers.add(hash))
    }

    fn grow(&mut self) -> Result<(), FilterError> {
        let (keys, rate) = self.layers.numbers.scalable_part(self.layers.parts.len());
        self.layers.push(keys, rate)
    }
}

layered!(ScalableBloom, Role::Scalable);
