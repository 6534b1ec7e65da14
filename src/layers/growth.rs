//! Two rules by which layers grow: a larger part when the newest is full, or an emptied one when the caller says so.

use core::ops::RangeInclusive;

use super::{Growth, LayeredFilter, MAX_PARTS, Numbers, Part};
use crate::error::ConfigError;
use crate::filter::error::FilterError;
use crate::filter::standard_bloom::StandardBloom;
use crate::hash::{HashIdentity, KeyHash};
use crate::units::FalsePositiveRate;

/// The growth of a [`ScalableBloom`]: parts of doubling size.
#[derive(Debug)]
pub enum Scalable {}

impl Growth for Scalable {
    const TYPE: u8 = 2;
    const PARTS: RangeInclusive<u32> = 1..=MAX_PARTS;
}

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
/// use sstfilter::layers::ScalableBloom;
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
pub type ScalableBloom<P = StandardBloom> = LayeredFilter<P, Scalable>;

impl<P: Part> LayeredFilter<P, Scalable> {
    /// Creates an empty filter. Its first part is for `keys` keys, at least 1; `rate` holds for any number.
    ///
    /// # Errors
    ///
    /// [`FilterError::Config`] if a part cannot have so low a rate; [`FilterError::TooLarge`] or
    /// [`FilterError::NoMemory`] if the first part is too large.
    pub fn new(hash: HashIdentity, keys: u64, rate: FalsePositiveRate) -> Result<Self, FilterError> {
        let mut filter = Self::without_parts(hash.into(), Numbers { rate, keys: keys.max(1), inserted: 0 });
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
        if self.is_older(hash) {
            return Ok(false);
        }
        if self.numbers.inserted >= self.numbers.scalable_part(self.parts.len() - 1).0 {
            if self.parts.last().is_some_and(|newest| newest.contains(hash)) {
                return Ok(false);
            }
            self.grow()?;
        }
        Ok(self.add(hash))
    }

    fn grow(&mut self) -> Result<(), FilterError> {
        let (keys, rate) = self.numbers.scalable_part(self.parts.len());
        self.push(keys, rate)
    }
}

impl Numbers {
    /// Returns for how many keys and at which rate a part of a scalable filter is planned. The rates of all parts add
    /// up to the filter's, for any number of them. The first part costs 4.8 bits more per key than one filter of this
    /// rate (1.44 log2(10)), and each further part 0.2 more. Ratios below 0.9 are cheaper for the first parts, and more
    /// expensive after many: at a hundred times the first size, 0.8 and 0.9 differ by a quarter of a bit.
    pub(super) fn scalable_part(&self, number: usize) -> (u64, f64) {
        let rate = (0..number).fold(self.rate.get() * 0.1, |rate, _| rate * 0.9);
        (self.keys.saturating_mul(1 << number), rate)
    }
}

/// The growth of a [`RotatingBloom`]: the oldest part is emptied and becomes the newest.
#[derive(Debug)]
pub enum Rotating {}

impl Growth for Rotating {
    const TYPE: u8 = 3;
    const PARTS: RangeInclusive<u32> = 2..=MAX_PARTS;
}

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
/// use sstfilter::layers::RotatingBloom;
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
pub type RotatingBloom<P = StandardBloom> = LayeredFilter<P, Rotating>;

impl<P: Part> LayeredFilter<P, Rotating> {
    /// Creates an empty filter of 2 to 64 `generations`, each for `keys` keys. All together have at most this rate.
    ///
    /// # Errors
    ///
    /// [`FilterError::Config`] for another number of generations, or if a generation cannot have so low a rate;
    /// [`FilterError::TooLarge`] or [`FilterError::NoMemory`] if a generation is too large.
    pub fn new(hash: HashIdentity, keys: u64, generations: u16, rate: FalsePositiveRate) -> Result<Self, FilterError> {
        if !Rotating::PARTS.contains(&generations.into()) {
            return Err(ConfigError::out_of_range("generations of a filter", "2 to 64", generations).into());
        }
        let mut filter = Self::without_parts(hash.into(), Numbers { rate, keys: keys.max(1), inserted: 0 });
        // All at once, so that nothing fails later.
        for _ in 0..generations {
            filter.push(keys.max(1), rate.get() / f64::from(generations))?;
        }
        Ok(filter)
    }

    /// Inserts a key into the newest generation, and returns whether it was in none: `false` for a key that the filter
    /// already seemed to contain.
    pub fn insert(&mut self, hash: KeyHash) -> bool {
        let was_older = self.is_older(hash);
        self.add(hash) && !was_older
    }

    /// Returns whether the newest generation has as many keys as it is planned for. More keys raise the rate.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.numbers.inserted >= self.numbers.keys
    }

    /// Begins a new generation, and forgets the oldest.
    pub fn rotate(&mut self) {
        self.parts.rotate_left(1);
        if let Some(newest) = self.parts.last_mut() {
            newest.clear();
        }
        self.numbers.inserted = 0;
    }
}
