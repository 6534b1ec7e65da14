//! Makes options from an input's bytes.

use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use sstfilter::kind::{self, KindEntry, RibbonKind};
use sstfilter::{
    AutoPolicy, BitsPerKey, BuildContext, BuildPurpose, DelimitedPrefix, FalsePositiveRate, FilterPolicy, FixedPolicy,
    FixedPrefix, KeyExtractor, KeyHash, KeyHasher, KeyParts, Sizing,
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

/// A rate, a size, or any bits of fingerprints.
fn sizing(input: &mut Unstructured<'_>) -> Result<Sizing> {
    Ok(match input.int_in_range(0..=2)? {
        0 => rate(input)?.into(),
        1 => size(input)?.into(),
        _ => Sizing::FingerprintBits(input.int_in_range(0..=33)?),
    })
}

/// Returns a policy of a kind with this number of bits of fingerprints or per key, or else at 1 %.
///
/// # Panics
///
/// If the kind has none of them.
pub fn some_policy(entry: &KindEntry, bits: u8) -> FixedPolicy {
    let per_key = BitsPerKey::from_millibits(u32::from(bits) * 1_000).expect("in range");
    let sizes = [Sizing::FingerprintBits(bits), per_key.into(), FalsePositiveRate::ONE_PERCENT.into()];
    let policy = sizes.into_iter().find_map(|sizing| entry.configure(sizing).ok());
    policy.unwrap_or_else(|| panic!("{}: no filters of these sizes", entry.name))
}

/// Any policy of the library with any options; `None` for those that it refuses.
pub fn policy(input: &mut Unstructured<'_>) -> Result<Option<Arc<dyn FilterPolicy>>> {
    let is_checked = input.arbitrary()?;
    let checked = |policy: FixedPolicy| if is_checked { policy.with_self_check() } else { policy.without_self_check() };
    let (kinds, number) = (kind::all(), input.int_in_range(0..=kind::all().len() + 2)?);
    let auto = |policy: AutoPolicy| Arc::new(policy) as Arc<dyn FilterPolicy>;
    let fixed = |policy: FixedPolicy| Arc::new(checked(policy)) as Arc<dyn FilterPolicy>;
    Ok(match kinds.get(number) {
        Some(entry) => {
            let policy = entry.configure(sizing(input)?);
            let (min_keys, max_keys) = (input.int_in_range(0..=1_100)?, input.arbitrary::<u32>()?.into());
            policy.ok().map(|policy| fixed(policy.with_min_keys(min_keys).with_max_keys(max_keys)))
        }
        None if number == kinds.len() => AutoPolicy::new(sizing(input)?).ok().map(auto),
        None if number == kinds.len() + 1 => FixedPolicy::ribbon(rate(input)?).ok().map(|ribbon| {
            let ribbon = checked(ribbon.with_min_keys(0));
            auto(AutoPolicy::from_parts(FixedPolicy::default(), ribbon))
        }),
        None => {
            let ribbon = RibbonKind::same_rate_as_bloom(size(input)?);
            let attempts = input.int_in_range(0..=70)?;
            let ribbon = ribbon.and_then(|ribbon| ribbon.with_max_attempts(attempts));
            ribbon.ok().map(|ribbon| fixed(FixedPolicy::from(ribbon)))
        }
    })
}

/// Any hasher: seeded, secret, or user-defined, even one that hardly mixes.
pub fn hasher(input: &mut Unstructured<'_>) -> Result<KeyHasher> {
    let seed = input.arbitrary()?;
    Ok(match input.int_in_range(0..=4)? {
        0 => KeyHasher::default(),
        1 => KeyHasher::with_seed(seed),
        2 => KeyHasher::with_secret_seed(seed),
        3 => KeyHasher::custom(seed, |key| KeyHash::mix(u64::from(crc32c::crc32c(key)))),
        _ => KeyHasher::custom(seed, move |key| KeyHash::from_well_mixed(key.len() as u64 ^ seed)),
    })
}

/// Any context of a build. The promised number of keys fits into memory.
pub fn context(input: &mut Unstructured<'_>, hasher: &KeyHasher) -> Result<BuildContext> {
    let purpose = *input.choose(&[BuildPurpose::Flush, BuildPurpose::Compaction, BuildPurpose::Ingest])?;
    let mut context = BuildContext::new(hasher).with_purpose(purpose);
    context.expected_keys = input.arbitrary::<Option<u16>>()?.map(u64::from);
    context.memory_budget = input.arbitrary::<Option<u32>>()?.map(|budget| u64::from(budget) >> (budget % 32));
    context.level = input.arbitrary()?;
    context.bottommost = input.arbitrary()?;
    Ok(context)
}

/// Whole keys, parts by any extractors of the library, or both.
pub fn key_parts(input: &mut Unstructured<'_>) -> Result<KeyParts> {
    let mut parts = if input.ratio(3, 4)? { KeyParts::whole_keys() } else { KeyParts::extracted(extractor(input)?) };
    for _ in 0..input.int_in_range(0..=2)? {
        parts = parts.with_extractor(extractor(input)?);
    }
    Ok(parts)
}

/// An extractor of prefixes.
pub fn extractor(input: &mut Unstructured<'_>) -> Result<Arc<dyn KeyExtractor>> {
    if input.arbitrary()? {
        return Ok(Arc::new(FixedPrefix::new(input.int_in_range(0..=5)?)));
    }
    Ok(Arc::new(DelimitedPrefix::new(input.arbitrary()?)))
}
