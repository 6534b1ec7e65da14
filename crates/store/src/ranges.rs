//! Range filters, as far as the store knows them: to build, load, probe and verify them.

use std::sync::Arc;

use bytes::Bytes;
use crc32c::crc32c as checksum;
use sstfilter::{BlockError, KeyExtractor, LoadContext};
use sstfilter_range::{RangeContext, RangeInfo, RangeMap};

pub(crate) use sstfilter_range::{RangeBuilder, RangePolicy};

pub(crate) type RangeFilter = sstfilter_range::RangeFilter<Bytes>;

pub(crate) type ExactFilters = sstfilter_range::ExactFilters<Bytes>;

/// Adds an exact filter at a slot, unless it cannot be probed with those before.
pub(crate) fn push(group: &mut Option<Box<ExactFilters>>, slot: usize, filter: &RangeFilter) -> bool {
    group.get_or_insert_default().push(slot, filter)
}

/// Why no range filter can be used, if none can.
pub(crate) const UNSUPPORTED: Option<BlockError> = None;

/// Loads a range filter.
pub(crate) fn load(
    block: Bytes,
    context: LoadContext<'_>,
    extractor: Option<&Arc<dyn KeyExtractor>>,
) -> Result<RangeFilter, BlockError> {
    RangeFilter::load(block, RangeContext::new(context, extractor))
}

/// Returns the claimed false positive rate for the longest ranges that the filter was built for.
pub(crate) fn expected_fpr(filter: &RangeFilter) -> f64 {
    let info = filter.info();
    info.expected_fpr(if let RangeMap::Hashed { chunk_units, .. } = info.map { chunk_units / 32 } else { 1 })
}

/// Verifies a range filter, whatever its hash, file and extractor are.
pub(crate) fn verify(block: &Bytes) -> Result<(), BlockError> {
    let info = RangeInfo::of_block(block)?;
    let payload = usize::try_from(info.payload_bytes).ok().and_then(|bytes| block.get(..bytes)).unwrap_or_default();
    let (expected, got) = (info.payload_checksum, checksum(payload));
    if expected == got { Ok(()) } else { Err(BlockError::PayloadChecksum { expected, got }) }
}
