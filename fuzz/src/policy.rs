//! Filters built by every policy, read back against the set of their keys.

use std::collections::BTreeSet;

use arbitrary::{Result, Unstructured};
use sstfilter::simd::{self, InstructionSet};
use sstfilter::{
    BuildContext, BuiltFilter, FallbackReason, FilterBlock, FilterPolicy, FilterSet, Filters, KeyHash, MatchBitmap,
    MatchMatrix,
};

use crate::pick::{self, Policy};

/// The most keys of a filter: enough for ribbons of several layers, and quick to build.
const MAX_KEYS: usize = 12_000;

/// Builds a filter from `bytes`, and probes it for every key.
pub fn exercise(bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    let _ = build_and_read(&mut input);
}

fn build_and_read(input: &mut Unstructured<'_>) -> Result<()> {
    let Some(picked) = pick::policy(input)? else { return Ok(()) };
    let hasher = pick::hasher(input)?;
    let context = pick::context(input, &hasher)?;
    let in_bulk: bool = input.arbitrary()?;
    let hashes = pick::hashes(input, MAX_KEYS)?;
    let built = build(picked.as_dyn(), &context, &hashes, in_bulk);
    let distinct: BTreeSet<KeyHash> = hashes.iter().copied().collect();
    let report = &built.report;
    assert_eq!(report.keys_added, hashes.len() as u64);
    let Some(block) = built.block else {
        assert_eq!(report.used, None);
        assert_ne!(report.reason, FallbackReason::None, "no filter without a reason: {report:?}");
        return Ok(());
    };
    assert_eq!(block.len() as u64, report.block_bytes);
    assert!(report.distinct_keys >= distinct.len() as u64 && report.distinct_keys <= hashes.len() as u64);
    let slowest = InstructionSet::available().next().expect("at least one");
    simd::select(slowest).expect("it is available");
    let again = build(picked.as_dyn(), &context, &hashes, !in_bulk);
    simd::select(InstructionSet::fastest()).expect("it is available");
    assert_eq!(again.block.as_ref(), Some(&block), "the same keys give the same bytes, by whatever instructions");
    let is_as_requested = report.reason == FallbackReason::None && context.expected_keys.is_none();
    if let (Policy::Kind(policy, true), true) = (&picked, is_as_requested) {
        assert_eq!(policy.block_bytes(report.distinct_keys), Some(report.block_bytes), "{policy:?}");
    }
    let filter = FilterBlock::open_unverified(&block[..]).expect("it was just built");
    filter.verify().expect("it was just built");
    let info = filter.info();
    assert_eq!((Some(info.kind), info.requested), (report.used, report.requested));
    assert_eq!(report.reason, info.reason);
    assert_eq!((info.hash, info.keys), (hasher.identity(), report.distinct_keys));
    deny_none(&Filters::default().with_hasher(hasher), &filter, &hashes);
    Ok(())
}

fn build(policy: &dyn FilterPolicy, context: &BuildContext, hashes: &[KeyHash], in_bulk: bool) -> BuiltFilter {
    let mut builder = policy.builder(context).expect("no policy of the library declines");
    if in_bulk {
        builder.add_hashes(hashes);
    } else {
        hashes.iter().for_each(|&hash| builder.add_hash(hash));
    }
    let _ = builder.estimated_bytes();
    builder.finish()
}

/// Single, batched, guarded and set probes all find every key.
fn deny_none(filters: &Filters, filter: &FilterBlock<&[u8]>, hashes: &[KeyHash]) {
    let mut matches = MatchBitmap::default();
    filter.may_contain_batch(hashes, &mut matches);
    assert_eq!(matches.count(), hashes.len() as u64, "by batch: {filter:?}");
    for &hash in hashes {
        assert!(filter.may_contain(hash), "{hash:?} by {filter:?}");
    }
    let guarded = filters.reader(FilterBlock::load(filter.as_bytes(), filter.hash_identity()));
    guarded.probe_batch(hashes, &mut matches);
    assert!(guarded.block().is_ok() && matches.count() == hashes.len() as u64);
    let set = FilterSet::new(filters, [(); 2].map(|()| filters.reader(Ok(filter.clone()))));
    let mut matrix = MatchMatrix::default();
    set.matches_batch(hashes, &mut matrix);
    assert_eq!(matrix.count(), 2 * hashes.len() as u64, "by set: {filter:?}");
    for &hash in hashes.iter().take(200) {
        set.matches_hash(hash, &mut matches);
        assert_eq!(matches.count(), 2);
    }
}
