//! Who takes part: every kind of filter, and how one is made for a false positive rate.

use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use sstfilter::{
    BloomPolicy, BuildContext, BuildPurpose, ConfigError, FalsePositiveRate, FilterBlock, FilterPolicy, FuseArity,
    FusePolicy, FuseSizing, HitBitmap, KeyHash, KeyHasher, RibbonPolicy, RibbonSizing, XorLayout, XorPolicy, XorSizing,
};

use super::growing::{self, Growing};

/// A kind of filter, or a variant of one that is drawn by itself.
pub(super) struct Contender {
    /// Its name in charts and tables.
    pub(super) name: &'static str,
    make: Make,
}

/// How a contender is made.
enum Make {
    /// From all hashes at once, by a policy.
    AtOnce(Policy),
    /// Empty, for so many keys; it takes them one after the other.
    Growing(Empty),
}

// A new kind is one line here.
pub(super) const ALL: &[Contender] = &[
    at_once("blocked Bloom", |rate| Ok(Arc::new(BloomPolicy::for_rate(rate)?))),
    growing("standard Bloom", growing::standard_bloom),
    growing("counting Bloom", growing::counting_bloom),
    growing("two-bit Bloom", growing::two_bit_bloom),
    growing("cuckoo", growing::cuckoo),
    at_once("Ribbon", |rate| Ok(Arc::new(RibbonPolicy::new(RibbonSizing::Rate(rate))?))),
    at_once("xor", |rate| Ok(Arc::new(XorPolicy::new(XorLayout::Plain, XorSizing::Rate(rate))?))),
    at_once("xor+", |rate| Ok(Arc::new(XorPolicy::new(XorLayout::Plus, XorSizing::Rate(rate))?))),
    at_once("binary fuse 3", |rate| Ok(Arc::new(FusePolicy::new(FuseSizing::Rate(rate))?))),
    at_once("binary fuse 4", |rate| Ok(Arc::new(FusePolicy::new(FuseSizing::Rate(rate))?.with_arity(FuseArity::Four)))),
];

type Policy = fn(FalsePositiveRate) -> Result<Arc<dyn FilterPolicy>, ConfigError>;
type Empty = fn(u64, FalsePositiveRate) -> anyhow::Result<Box<dyn Growing>>;

const fn at_once(name: &'static str, policy: Policy) -> Contender {
    Contender { name, make: Make::AtOnce(policy) }
}

const fn growing(name: &'static str, empty: Empty) -> Contender {
    Contender { name, make: Make::Growing(empty) }
}

impl Contender {
    /// The contender of that name, if this program has it.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|contender| contender.name == name)
    }

    /// Whether it takes keys while it is in use.
    pub(super) fn grows(&self) -> bool {
        matches!(self.make, Make::Growing(_))
    }

    /// Whether keys can be removed from it.
    pub(super) fn removes(&self) -> bool {
        matches!(self.name, "counting Bloom" | "cuckoo")
    }

    /// The contender as it is made for one rate.
    pub(super) fn at(&self, rate: FalsePositiveRate) -> anyhow::Result<Maker> {
        Ok(match self.make {
            Make::AtOnce(policy) => Maker::AtOnce(policy(rate)?),
            Make::Growing(make) => Maker::Growing { rate, make },
        })
    }
}

/// A contender of a rate: what it takes to make filters of it is settled.
pub(super) enum Maker {
    AtOnce(Arc<dyn FilterPolicy>),
    Growing { rate: FalsePositiveRate, make: Empty },
}

impl Maker {
    /// A filter of these distinct `hashes`, sized for them.
    pub(super) fn build(&self, hashes: &[KeyHash]) -> anyhow::Result<Box<dyn Asked>> {
        match self {
            Self::AtOnce(policy) => Ok(Box::new(build_block(&**policy, hashes)?)),
            Self::Growing { .. } => {
                let mut filter = self.empty(hashes.len() as u64)?;
                let refused = filter.insert_all(hashes);
                ensure!(refused == 0, "{refused} of {} keys found no place", hashes.len());
                Ok(filter)
            }
        }
    }

    /// An empty filter for `keys` keys, of a kind that grows.
    pub(super) fn empty(&self, keys: u64) -> anyhow::Result<Box<dyn Growing>> {
        match self {
            Self::AtOnce(_) => bail!("it is made at once, from all keys"),
            Self::Growing { rate, make } => make(keys, *rate),
        }
    }
}

/// The block that `policy` makes of `hashes`; an error when it is of another kind than asked for.
pub(super) fn build_block(
    policy: &dyn FilterPolicy,
    hashes: &[KeyHash],
) -> anyhow::Result<FilterBlock<impl AsRef<[u8]> + use<>>> {
    let context = BuildContext::new(&KeyHasher::default())
        .with_purpose(BuildPurpose::Compaction)
        .with_expected_keys(hashes.len() as u64);
    let mut builder = policy.builder(&context).context("the policy declined")?;
    builder.add_hashes(hashes);
    let built = builder.finish();
    let (used, requested) = (built.report.used, built.report.requested);
    if let Some(used) = used.filter(|&used| used != requested) {
        bail!("its policy makes a {used} filter instead: {}", built.report.reason);
    }
    let block = built.block.with_context(|| format!("no filter: {}", built.report.reason))?;
    Ok(FilterBlock::open_unverified(block)?)
}

/// A filter that can be asked.
pub(super) trait Asked {
    /// Bytes of the filter as a block, its trailer included.
    fn block_bytes(&self) -> anyhow::Result<u64>;

    /// The rate that the filter says it has.
    fn expected_fpr(&self) -> f64;

    /// How many may be present, asked one by one.
    fn count_one_by_one(&self, hashes: &[KeyHash]) -> u64;

    /// How many may be present, asked all at once.
    fn count_batch(&self, hashes: &[KeyHash], hits: &mut HitBitmap) -> u64;
}

impl<D: AsRef<[u8]>> Asked for FilterBlock<D> {
    fn block_bytes(&self) -> anyhow::Result<u64> {
        Ok(self.as_bytes().len() as u64)
    }

    fn expected_fpr(&self) -> f64 {
        self.info().expected_fpr
    }

    fn count_one_by_one(&self, hashes: &[KeyHash]) -> u64 {
        hashes.iter().map(|&hash| u64::from(self.may_contain(hash))).sum()
    }

    fn count_batch(&self, hashes: &[KeyHash], hits: &mut HitBitmap) -> u64 {
        self.may_contain_batch(hashes, hits);
        hits.count()
    }
}
