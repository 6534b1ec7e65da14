//! A static filter with keys that came later.

use core::ops::RangeInclusive;

use bytes::Bytes;

use super::{Growth, LayeredFilter, Numbers, Part, load_base};
use crate::block::LoadContext;
use crate::error::BlockError;
use crate::filter::dynamic::check_same_hash;
use crate::filter::error::FilterError;
use crate::filter::standard_bloom::StandardBloom;
use crate::hash::KeyHash;
use crate::policy::{BuildContext, FilterPolicy};
use crate::units::FalsePositiveRate;

/// The growth of [`LateKeys`]: one part over a static filter, which takes all keys.
#[derive(Debug)]
pub enum Late {}

impl Growth for Late {
    const TYPE: u8 = 1;
    const PARTS: RangeInclusive<u32> = 2..=2;
    const HAS_BASE: bool = true;
}

/// A filter of a static kind, such as Ribbon or binary fuse, and a growing one for keys that come after it was built.
/// (Some authors call this an incremental filter, "IBIF".)
///
/// Probe only this filter from then on: the static block alone excludes the late keys, and so do the bounds and the
/// filter of its file in a view of a store. Both rates add up: for 1 % in all, give 0.5 % to each.
///
/// ```
/// use sstfilter::layers::LateKeys;
/// use sstfilter::{FalsePositiveRate, FileId, Filters, FixedPolicy};
///
/// let rate = FalsePositiveRate::new(0.005)?;
/// let filters = Filters::new(FixedPolicy::binary_fuse(rate)?); // once per store
/// let keys = |range: std::ops::Range<u32>| range.map(|key| filters.hash(&key.to_le_bytes())).collect::<Vec<_>>();
/// let file = FileId::random();
/// let mut builder = filters.builder(file);
/// keys(0..10_000).into_iter().for_each(|hash| builder.add_hash(hash));
/// let block = builder.finish().block.expect("it is small");
///
/// let mut filter = <LateKeys>::over(block, filters.load_context(file), 1_000, rate)?;
/// for hash in keys(10_000..11_100) {
///     filter.insert(hash);
/// }
/// assert!(keys(0..11_100).into_iter().all(|hash| filter.contains(hash)));
/// assert!(filter.is_due(), "more than 1,000 came later: rebuild the filter");
/// let new = FileId::random(); // new contents have a new id
/// let (build, load) = (filters.build_context(new), filters.load_context(new));
/// let rebuilt = filter.rebuilt(filters.policy().as_ref(), &build, load, &keys(0..11_100))?;
/// assert!(!rebuilt.is_due() && rebuilt.health().keys == 11_100);
/// # Ok::<(), sstfilter::FilterError>(())
/// ```
pub type LateKeys<P = StandardBloom> = LayeredFilter<P, Late>;

impl<P: Part> LayeredFilter<P, Late> {
    /// Opens a built block of any kind, and plans for `late_keys` more, with `rate` for these alone. The block's own
    /// rate comes on top. Late keys are whole keys: prefixes of keys that the block also holds are not those of late
    /// ones, so do not probe it for prefixes.
    ///
    /// # Errors
    ///
    /// [`FilterError::Block`] if the block cannot be loaded with this context, or holds only parts of keys;
    /// [`FilterError::Config`] if the growing filter cannot have this rate; [`FilterError::TooLarge`] or
    /// [`FilterError::NoMemory`] if it is too large.
    pub fn over<'a>(
        block: impl Into<Bytes>,
        context: impl Into<LoadContext<'a>>,
        late_keys: u64,
        rate: FalsePositiveRate,
    ) -> Result<Self, FilterError> {
        let context = context.into();
        let numbers = Numbers { rate, keys: late_keys.max(1), inserted: 0 };
        let mut filter = Self::without_parts(context.identity(), numbers);
        filter.base = Some(load_base(block.into(), context)?);
        filter.push(numbers.keys, rate.get())?;
        Ok(filter)
    }

    /// Inserts a late key, and returns whether it was new: `false` for a key that the filter already seemed to contain,
    /// perhaps by a false positive. Keep such a key for [`rebuilt`](Self::rebuilt) all the same.
    pub fn insert(&mut self, hash: KeyHash) -> bool {
        let is_in_base = self.base.as_ref().is_some_and(|base| base.may_contain(hash));
        !is_in_base && self.add(hash)
    }

    /// Returns whether more keys came later than were planned, so that the rate rises: rebuild the filter.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.numbers.inserted > self.numbers.keys
    }

    /// Returns the late keys as a share of those in the static filter.
    #[must_use]
    pub fn late_share(&self) -> f64 {
        let keys = self.base.as_ref().map_or(0, |base| base.info().keys);
        self.numbers.inserted as f64 / keys.max(1) as f64
    }

    /// Rebuilds the static filter from the hashes of **all** keys: those of the file, and every late one, also those
    /// for which [`insert`](Self::insert) returned `false`. A key that is not among them is lost. Plans for as many
    /// late keys as before. `load` is the context that the new block is opened with; both contexts have the id of a
    /// *new* file.
    ///
    /// # Errors
    ///
    /// [`FilterError::Block`] if the contexts have another hash than this filter, or the policy built no filter; else
    /// as [`over`](Self::over).
    pub fn rebuilt<'a>(
        &self,
        policy: &dyn FilterPolicy,
        context: &BuildContext,
        load: impl Into<LoadContext<'a>>,
        hashes: &[KeyHash],
    ) -> Result<Self, FilterError> {
        let built = policy.builder(context).map(|mut builder| {
            builder.add_hashes(hashes);
            builder.finish()
        });
        let block = built.and_then(|built| built.block).ok_or_else(|| BlockError::Unreadable {
            reason: "static filter of late keys: expected one, but the policy built none".into(),
        })?;
        let Numbers { keys, rate, .. } = self.numbers;
        let rebuilt = Self::over(block, load, keys, rate)?;
        check_same_hash(self.identity.hash, rebuilt.identity.hash)?;
        Ok(rebuilt)
    }
}
