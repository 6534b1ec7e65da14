//! Checks filters of user-defined builders, which may contain other parts of keys, or belong to another hash or file.

use sstfilter::internal::{HeldParts, Trailer};
use sstfilter::{BlockIdentity, BuiltFilter, FallbackReason, KeyParts};

/// Returns the filter if it holds these parts of keys, except those of unstable extractors, has this hash, and is bound
/// to this file, or to none if `identity` has none; otherwise no filter. A user-defined builder may hash whole keys, or
/// call [`BlockBuilder::add_hash`](sstfilter::BlockBuilder::add_hash), whatever its context says.
pub(crate) fn checked(filter: BuiltFilter, parts: &KeyParts, identity: BlockIdentity) -> BuiltFilter {
    let held = HeldParts::encode(&parts.without(&filter.report.unstable_extractors));
    let is_as_requested = match &filter.block {
        None => filter.report.used.is_none(),
        Some(block) => Trailer::decode(block)
            .is_ok_and(|trailer| trailer.identity == identity && trailer.held_parts(block).field() == held),
    };
    if is_as_requested { filter } else { dropped(filter) }
}

/// Drops a filter that does not match the request.
pub(crate) fn dropped(BuiltFilter { mut report, .. }: BuiltFilter) -> BuiltFilter {
    report.reason = FallbackReason::ConstructionFailed;
    (report.used, report.block_bytes, report.expected_fpr) = (None, 0, 1.0);
    BuiltFilter::new(None, report)
}
