//! In place of range filters, without the feature `ranges`. A range filter in a file is a filter of an unknown kind.

use std::sync::Arc;

use bytes::Bytes;
use sstfilter::{BlockError, BuildContext, BuiltFilter, KeyExtractor, KeyRange, LoadContext};

use crate::never::without_values;

/// The kind of range filters.
const RANGES: u8 = 10;

without_values! {
    RangePolicy {
        fn extractor() -> Option<&'static Arc<dyn KeyExtractor>>;
        fn builder(&BuildContext) -> RangeBuilder;
    }
    RangeBuilder {
        fn add_key(&[u8]);
        fn add_range_tombstone();
        fn estimated_bytes() -> u64;
        fn exact_low_bits() -> Option<u32>;
        fn finish() -> BuiltFilter;
    }
    ExactFilters {
        fn probe(&[u8], u64) -> u64;
        fn slots() -> u64;
    }
    RangeFilter {
        fn as_bytes() -> &'static [u8];
        fn checksum_without_last() -> u32;
        fn may_contain(&[u8]) -> bool;
        fn may_contain_range(KeyRange<'_>) -> bool;
        fn seek_hint(&[u8]) -> Option<Vec<u8>>;
    }
}

pub(crate) fn push(_: &mut Option<Box<ExactFilters>>, _: usize, filter: &RangeFilter) -> bool {
    match filter.0 {}
}

/// Why no range filter can be used. So none is ever read.
pub(crate) const UNSUPPORTED: Option<BlockError> = Some(BlockError::UnknownKind { got: RANGES });

pub(crate) fn load(_: Bytes, _: LoadContext<'_>, _: Option<&Arc<dyn KeyExtractor>>) -> Result<RangeFilter, BlockError> {
    Err(BlockError::UnknownKind { got: RANGES })
}

pub(crate) fn expected_fpr(filter: &RangeFilter) -> f64 {
    match filter.0 {}
}

pub(crate) fn verify(_: &Bytes) -> Result<(), BlockError> {
    Err(BlockError::UnknownKind { got: RANGES })
}
