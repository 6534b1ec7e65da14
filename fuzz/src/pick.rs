//! Options made from an input's bytes.

use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use sstfilter::{
    AutoPolicy, BitsPerKey, BloomPolicy, BuildContext, BuildPurpose, DelimitedPrefix, FalsePositiveRate, FilterPolicy,
    FixedPrefix, FuseArity, FusePolicy, FuseSizing, KeyExtractor, KeyHash, KeyHasher, RibbonPolicy, RibbonSizing,
    SelfCheck, StandardBloomPolicy, XorLayout, XorPolicy, XorSizing, XorWidth,
};

/// A size from 1 to 100 bits per key.
pub fn size(input: &mut Unstructured<'_>) -> Result<BitsPerKey> {
    Ok(BitsPerKey::from_millibits(input.int_in_range(1_000..=100_000)?).expect("in range"))
}

/// A rate between 2^-32 and 1/2.
pub fn rate(input: &mut Unstructured<'_>) -> Result<FalsePositiveRate> {
    let (bits, share) = (input.int_in_range(1..=32)?, f64::from(input.arbitrary::<u8>()?) / 255.0);
    Ok(FalsePositiveRate::new((2.0_f64.powi(-bits) * (1.0 + share)).min(0.5)).expect("in range"))
}

/// A policy and the exact size of its blocks, where it promises one.
#[derive(Debug)]
pub struct Policy {
    /// The policy.
    pub policy: Arc<dyn FilterPolicy>,
    /// For builds that do not fall back: the bytes of the block of so many distinct keys.
    pub block_bytes: Option<Sized>,
}

/// The public size function of a policy.
#[derive(Clone, Debug)]
pub enum Sized {
    /// Blocked Bloom.
    Bloom(BloomPolicy),
    /// Standard Bloom.
    StandardBloom(StandardBloomPolicy),
    /// Binary fuse.
    Fuse(FusePolicy),
    /// Xor in its plain layout.
    Xor(XorPolicy),
}

impl Sized {
    /// What it says.
    #[must_use]
    pub fn block_bytes(&self, keys: u64) -> Option<u64> {
        match self {
            Self::Bloom(policy) => policy.block_bytes(keys),
            Self::StandardBloom(policy) => policy.block_bytes(keys),
            Self::Fuse(policy) => policy.block_bytes(keys),
            Self::Xor(policy) => policy.estimated_block_bytes(keys),
        }
    }
}

fn of(policy: impl FilterPolicy + 'static, block_bytes: Option<Sized>) -> Policy {
    Policy { policy: Arc::new(policy), block_bytes }
}

/// Any policy of the library with any options; `None` for those that it refuses.
pub fn policy(input: &mut Unstructured<'_>) -> Result<Option<Policy>> {
    let check = if input.arbitrary()? { SelfCheck::On } else { SelfCheck::Off };
    Ok(match input.int_in_range(0..=8)? {
        0 => {
            let policy = BloomPolicy::new(size(input)?).with_self_check(check);
            Some(of(policy.clone(), Some(Sized::Bloom(policy))))
        }
        1 => BloomPolicy::for_rate(rate(input)?).ok().map(|policy| of(policy.with_self_check(check), None)),
        2 => {
            let policy = StandardBloomPolicy::new(size(input)?).with_self_check(check);
            Some(of(policy.clone(), Some(Sized::StandardBloom(policy))))
        }
        3 => StandardBloomPolicy::for_rate(rate(input)?).ok().map(|policy| of(policy, None)),
        4 => ribbon(input, check)?,
        5 => fuse(input, check)?,
        6 => xor(input, check)?,
        7 => AutoPolicy::new(size(input)?).ok().map(|policy| of(policy, None)),
        _ => RibbonPolicy::new(RibbonSizing::Rate(rate(input)?)).ok().map(|ribbon| {
            let ribbon = ribbon.with_min_keys(0).with_self_check(check);
            of(AutoPolicy::from_parts(BloomPolicy::default(), ribbon), None)
        }),
    })
}

fn ribbon(input: &mut Unstructured<'_>, check: SelfCheck) -> Result<Option<Policy>> {
    let sizing = match input.int_in_range(0..=2)? {
        0 => RibbonSizing::Rate(rate(input)?),
        1 => RibbonSizing::Size(size(input)?),
        _ => RibbonSizing::SameRateAsBloom(size(input)?),
    };
    let (min_keys, max_keys) = (input.int_in_range(0..=1_100)?, input.arbitrary::<u32>()?);
    let attempts = input.int_in_range(0..=70)?;
    let policy = RibbonPolicy::new(sizing).and_then(|policy| policy.with_max_attempts(attempts));
    let with_limits = |policy: RibbonPolicy| policy.with_min_keys(min_keys).with_max_keys(max_keys.into());
    Ok(policy.ok().map(|policy| of(with_limits(policy).with_self_check(check), None)))
}

fn fuse(input: &mut Unstructured<'_>, check: SelfCheck) -> Result<Option<Policy>> {
    let sizing = if input.arbitrary()? {
        FuseSizing::FingerprintBits(input.int_in_range(0..=33)?)
    } else {
        FuseSizing::Rate(rate(input)?)
    };
    let arity = if input.arbitrary()? { FuseArity::Four } else { FuseArity::Three };
    let policy = FusePolicy::new(sizing).map(|policy| policy.with_arity(arity).with_self_check(check));
    Ok(policy.ok().map(|policy| of(policy.clone(), Some(Sized::Fuse(policy)))))
}

fn xor(input: &mut Unstructured<'_>, check: SelfCheck) -> Result<Option<Policy>> {
    let layout = if input.arbitrary()? { XorLayout::Plus } else { XorLayout::Plain };
    let sizing = match input.int_in_range(0..=3)? {
        0 => XorSizing::Width(XorWidth::Eight),
        1 => XorSizing::Width(XorWidth::Sixteen),
        2 => XorSizing::Rate(rate(input)?),
        _ => XorSizing::Size(size(input)?),
    };
    let policy = XorPolicy::new(layout, sizing).map(|policy| policy.with_self_check(check));
    let is_exact = layout == XorLayout::Plain;
    Ok(policy.ok().map(|policy| of(policy.clone(), is_exact.then_some(Sized::Xor(policy)))))
}

/// Any hasher: seeded, secret, or of the engine's own, even one that hardly mixes.
pub fn hasher(input: &mut Unstructured<'_>) -> Result<KeyHasher> {
    let seed = input.arbitrary()?;
    Ok(match input.int_in_range(0..=4)? {
        0 => KeyHasher::default(),
        1 => KeyHasher::with_seed(seed),
        2 => KeyHasher::with_secret_seed(seed),
        3 => KeyHasher::custom(seed, |key| KeyHash::from_remixed(u64::from(crc32c::crc32c(key)))),
        _ => KeyHasher::custom(seed, move |key| KeyHash::from_well_mixed(key.len() as u64 ^ seed)),
    })
}

/// Any context of a build; keys are promised in numbers that memory has room for.
pub fn context(input: &mut Unstructured<'_>, hasher: &KeyHasher) -> Result<BuildContext> {
    let purpose = *input.choose(&[BuildPurpose::Flush, BuildPurpose::Compaction, BuildPurpose::Ingest])?;
    let mut context = BuildContext::new(hasher).with_purpose(purpose);
    context.expected_keys = input.arbitrary::<Option<u16>>()?.map(u64::from);
    context.memory_budget = input.arbitrary::<Option<u32>>()?.map(|budget| u64::from(budget) >> (budget % 32));
    context.level = input.arbitrary()?;
    context.bottommost = input.arbitrary()?;
    Ok(context)
}

/// Any extractor of the library, or none.
pub fn extractor(input: &mut Unstructured<'_>) -> Result<Option<Arc<dyn KeyExtractor>>> {
    Ok(match input.int_in_range(0..=3)? {
        0 => Some(Arc::new(FixedPrefix::new(input.int_in_range(0..=5)?))),
        1 => Some(Arc::new(DelimitedPrefix::new(input.arbitrary()?))),
        _ => None,
    })
}

/// Hashes: each some bytes of the input, one of the edges, or a run of neighbours, so that few bytes make many keys.
pub fn hashes(input: &mut Unstructured<'_>, most: usize) -> Result<Vec<KeyHash>> {
    let mut hashes = Vec::new();
    while !input.is_empty() && hashes.len() < most {
        let room = most - hashes.len();
        match input.int_in_range(0..=9)? {
            0..=2 => hashes.push(input.arbitrary()?),
            3 => hashes.push(u64::from(input.arbitrary::<u16>()?)),
            4 => hashes.push(u64::from(input.arbitrary::<u16>()?) << 48),
            5 => hashes.extend(hashes.last().copied()),
            6 => {
                let (first, step) = (input.arbitrary::<u64>()?, input.arbitrary::<u64>()?);
                let count = input.int_in_range(0..=300)?.min(room as u64);
                hashes.extend((0..count).map(|index| first.wrapping_add(step.wrapping_mul(index))));
            }
            7 => {
                let seed = u64::from(input.arbitrary::<u16>()?) << 32;
                let count = input.int_in_range(0..=3_000)?.min(room as u64);
                hashes.extend((0..count).map(|index| KeyHash::from_remixed(seed | index).get()));
            }
            8 => {
                let high = u64::from(input.arbitrary::<u8>()?) << 56;
                let count = input.int_in_range(0..=300)?.min(room as u64);
                hashes.extend((0..count).map(|index| high | KeyHash::from_remixed(index).get() >> 8));
            }
            _ => {
                let again: Vec<u64> = hashes.iter().rev().take(room.min(100)).copied().collect();
                hashes.extend(again);
            }
        }
    }
    Ok(hashes.into_iter().map(KeyHash::from_well_mixed).collect())
}
