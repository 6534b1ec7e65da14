//! Filters of one hash that answer as one: a key may be present if one of them may contain it.
//!
//! A filter cannot grow, because it does not store its keys. A second one beside it takes the keys that it lacks:
//!
//! | type | parts | for |
//! |---|---|---|
//! | [`LateKeys`] | a static filter, and a growing one | keys that come after a file was written, deny lists |
//! | [`ScalableBloom`] | each twice as large as the one before | streams of unknown length |
//! | [`RotatingBloom`] | one for each of the last generations of keys | duplicates in a recent window |
//!
//! Each is stored and loaded as one (docs/format/growing.md, "Layers"). Their parts are standard Bloom filters: write
//! `<ScalableBloom>::new`, with the brackets, for these, or `ScalableBloom::<RegisterBlockedBloom>::new`.
//!
//! They stand by themselves. A file in a view of `sstfilter-store` has bounds and a filter that exclude its late keys.

mod growth;
mod late;
mod stored;

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use core::ops::RangeInclusive;

use bytes::Bytes;

pub use growth::{Rotating, RotatingBloom, Scalable, ScalableBloom};
pub use late::{Late, LateKeys};

use crate::block::{BlockIdentity, DynamicFilter, FilterBlock, LoadContext, MatchBitmap};
use crate::error::BlockError;
use crate::filter::error::FilterError;
use crate::filter::register_blocked_bloom::RegisterBlockedBloom;
use crate::filter::standard_bloom::StandardBloom;
use crate::hash::{HashIdentity, KeyHash, KeyParts};
use crate::units::FalsePositiveRate;

/// More parts than a scalable filter ever has, and generations that are still fast to probe.
const MAX_PARTS: u32 = 64;

/// A kind of filter that the growing parts are made of: [`StandardBloom`] of any size and rate, or
/// [`RegisterBlockedBloom`], which is faster, has sizes that are powers of two, and no low rates.
pub trait Part: DynamicFilter + Sized {
    /// Creates the smallest filter whose expected rate with `keys` keys is at most `rate`.
    #[doc(hidden)]
    fn planned(hash: HashIdentity, keys: u64, rate: FalsePositiveRate) -> Result<Self, FilterError>;

    /// Inserts a key, and returns whether it was new.
    #[doc(hidden)]
    fn add(&mut self, hash: KeyHash) -> bool;
}

impl Part for StandardBloom {
    fn planned(hash: HashIdentity, keys: u64, rate: FalsePositiveRate) -> Result<Self, FilterError> {
        Self::for_rate(hash, keys, rate)
    }

    fn add(&mut self, hash: KeyHash) -> bool {
        self.insert(hash)
    }
}

impl Part for RegisterBlockedBloom {
    fn planned(hash: HashIdentity, keys: u64, rate: FalsePositiveRate) -> Result<Self, FilterError> {
        Self::for_rate(hash, keys, rate)
    }

    fn add(&mut self, hash: KeyHash) -> bool {
        self.insert_exclusive(hash)
    }
}

/// How full a filter of several parts is.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct LayersHealth {
    /// Keys in all parts.
    pub keys: u64,
    /// Filters that a probe may read.
    pub parts: usize,
    /// Bytes of all parts, as blocks.
    pub bytes: u64,
    /// The share of bits that are set in the fullest growing part.
    pub fill_ratio: f64,
    /// The expected false positive rate of all parts together, at their present fill.
    pub expected_fpr: f64,
}

/// How a filter of several parts grows: [`Late`], [`Scalable`] or [`Rotating`].
pub trait Growth: fmt::Debug {
    /// The type of a stored filter.
    #[doc(hidden)]
    const TYPE: u8;

    /// The numbers of parts that a stored filter may have, its base included.
    #[doc(hidden)]
    const PARTS: RangeInclusive<u32>;

    /// Whether the first part is a static filter.
    #[doc(hidden)]
    const HAS_BASE: bool = false;
}

/// What is stored besides the parts.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    /// The rate of all growing parts together.
    rate: FalsePositiveRate,
    /// Keys for which the first growing part, or each generation, is planned.
    keys: u64,
    /// Keys that were new to the newest part.
    inserted: u64,
}

/// A filter of several parts of one hash, each a `P`, which grows as `G` says: see [`LateKeys`], [`ScalableBloom`] and
/// [`RotatingBloom`].
#[derive(Debug)]
pub struct LayeredFilter<P, G> {
    /// The hash of all parts, and the file that they belong to.
    identity: BlockIdentity,
    /// A static filter under the growing ones.
    base: Option<FilterBlock<Bytes>>,
    /// From the oldest to the newest; never empty once the filter is created.
    parts: Vec<P>,
    numbers: Numbers,
    growth: PhantomData<G>,
}

/// Loads a static filter, if it holds whole keys like those that come late.
fn load_base(block: Bytes, context: LoadContext<'_>) -> Result<FilterBlock<Bytes>, BlockError> {
    let base = FilterBlock::load(block, context)?;
    base.held_parts().check(&KeyParts::whole_keys())?;
    Ok(base)
}

impl<P: Part, G: Growth> LayeredFilter<P, G> {
    fn without_parts(identity: BlockIdentity, numbers: Numbers) -> Self {
        Self { identity, base: None, parts: Vec::new(), numbers, growth: PhantomData }
    }

    /// Adds a filter for `keys` keys, which becomes the newest.
    fn push(&mut self, keys: u64, rate: f64) -> Result<(), FilterError> {
        self.parts.push(P::planned(self.identity.hash, keys, FalsePositiveRate::new(rate)?)?);
        self.numbers.inserted = 0;
        Ok(())
    }

    /// Inserts a key into the newest part, and returns whether it was new to it.
    fn add(&mut self, hash: KeyHash) -> bool {
        let is_new = self.parts.last_mut().is_some_and(|newest| newest.add(hash));
        // A forged container may say that it is full.
        self.numbers.inserted = self.numbers.inserted.saturating_add(is_new.into());
        is_new
    }

    /// Whether the key may have been inserted; `false` is certain.
    pub fn contains(&self, hash: KeyHash) -> bool {
        // The newest first: it has the most keys, or the most recent.
        self.parts.iter().rev().any(|part| part.contains(hash))
            || self.base.as_ref().is_some_and(|base| base.may_contain(hash))
    }

    /// Returns whether a part below the newest may contain the key.
    fn is_older(&self, hash: KeyHash) -> bool {
        self.parts.iter().rev().skip(1).any(|part| part.contains(hash))
    }

    /// Probes for many keys, and stores the answers in `matches` in the same order. Each part is probed for all keys.
    pub fn contains_batch(&self, hashes: &[KeyHash], matches: &mut MatchBitmap) {
        matches.reset(hashes.len());
        let mut own = MatchBitmap::default();
        for part in &self.parts {
            part.contains_batch(hashes, &mut own);
            matches.add(&own);
        }
        if let Some(base) = &self.base {
            base.may_contain_batch(hashes, &mut own);
            matches.add(&own);
        }
    }

    /// Returns how full all parts are. Reads all of them.
    pub fn health(&self) -> LayersHealth {
        let base = self.base.as_ref();
        let (mut keys, mut bytes) = base.map_or((0, 0), |base| (base.info().keys, base.as_bytes().len() as u64));
        let mut fill_ratio = 0_f64;
        let mut absent = 1.0 - base.map_or(0.0, FilterBlock::expected_fpr);
        for part in &self.parts {
            let health = part.health();
            (keys, bytes) = (keys.saturating_add(health.keys), bytes + part.block_bytes());
            (absent, fill_ratio) = (absent * (1.0 - health.expected_fpr), fill_ratio.max(health.fill_ratio));
        }
        let parts = self.parts.len() + usize::from(base.is_some());
        LayersHealth { keys, parts, bytes, fill_ratio, expected_fpr: 1.0 - absent }
    }
}
