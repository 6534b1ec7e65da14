//! Filters of an engine's own builders are checked: they may be of other keys' parts, another hash or another file.

use sstfilter::internal::{HeldParts, Trailer};
use sstfilter::{BlockIdentity, BuiltFilter, FallbackReason, KeyParts};

/// The filter if it holds these parts of keys, but for those of unstable extractors, has this hash, and is bound to
/// this file or to none; otherwise no filter. A builder of the engine's own may hash whole keys, or call
/// [`BlockBuilder::add_hash`](sstfilter::BlockBuilder::add_hash), whatever its context says.
pub(crate) fn checked(filter: BuiltFilter, parts: &KeyParts, identity: BlockIdentity) -> BuiltFilter {
    let held = HeldParts::encode(&parts.without(&filter.report.unstable_extractors));
    let is_as_requested = match &filter.block {
        None => filter.report.used.is_none(),
        Some(block) => Trailer::decode(block)
            .is_ok_and(|trailer| trailer.identity == identity && trailer.held_parts(block).field() == held),
    };
    if is_as_requested { filter } else { refused(filter) }
}

/// No filter, because this one is not what was asked for.
pub(crate) fn refused(BuiltFilter { mut report, .. }: BuiltFilter) -> BuiltFilter {
    report.reason = FallbackReason::ConstructionFailed;
    (report.used, report.block_bytes, report.expected_fpr) = (None, 0, 1.0);
    BuiltFilter::new(None, report)
}
