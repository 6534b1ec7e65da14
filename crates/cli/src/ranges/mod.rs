//! Range filters on the command line: their blocks, prefixes and policies.

mod args;
mod fields;

use std::path::Path;

use anyhow::Context;
use bytes::Bytes;
use sstfilter::{BlockError, HashIdentity, KeyHasher, KindId, LoadContext};
use sstfilter_range::{RangeContext, RangeFilter, RangeInfo};

pub(crate) use args::{RangeFilterArgs, RangePrefix, parse_prefix, with_prefix};
pub(crate) use fields::{RangeFields, map_name};

use crate::input;
use crate::opened::Reading;
use crate::output::Outcome;

/// Offset of the kind in the last 32 bytes of a filter block.
const KIND_AT: usize = 21;

/// Whether the last 32 bytes of a filter block are those of a range filter.
pub(crate) fn is_kind_of(last: &[u8; 32]) -> bool {
    last[KIND_AT] == KindId::RANGE.code()
}

/// A block of a range filter without a table. Its payload has not been verified.
#[derive(Clone, Debug)]
pub(crate) struct RangeBlock {
    data: Bytes,
    pub(crate) info: RangeInfo,
}

impl RangeBlock {
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        Ok(Self::new(input::whole(path)?)?)
    }

    pub(crate) fn new(data: Bytes) -> Result<Self, BlockError> {
        Ok(Self { info: RangeInfo::of_block(&data)?, data })
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.data
    }

    /// Compares the payload with its checksum, which needs neither hasher nor extractor.
    pub(crate) fn verify(&self) -> Result<(), BlockError> {
        let payload = usize::try_from(self.info.payload_bytes).ok().and_then(|bytes| self.data.get(..bytes));
        let (expected, got) = (self.info.payload_checksum, crc32c::crc32c(payload.unwrap_or_default()));
        if expected == got { Ok(()) } else { Err(BlockError::PayloadChecksum { expected, got }) }
    }

    /// Loads the filter for probing, with its own hash unless that is secret, and with the prefix of the command line.
    pub(crate) fn load(&self, reading: Reading<'_>) -> Result<RangeFilter<Bytes>, BlockError> {
        let hasher = hasher_of(self.info.hash, reading.secret);
        let extractor = reading.range_prefix.map(RangePrefix::extractor);
        let context = LoadContext::new(&hasher);
        // The block's own file: there is no table to compare it with.
        let context = match self.info.file {
            Some(file) => context.with_file_id(file),
            None => context,
        };
        // Damage is checked first: a mismatch of hash or prefix would hide it.
        self.verify()?;
        RangeFilter::open_unverified(self.data.clone(), RangeContext::new(context, extractor.as_ref()))
    }
}

/// Returns the hasher that the block was built with. If it is unknown, opening the block reports that.
fn hasher_of(got: HashIdentity, secret: Option<&KeyHasher>) -> KeyHasher {
    let known = secret.filter(|hasher| hasher.identity() == got).cloned().or_else(|| KeyHasher::from_identity(got));
    known.or_else(|| secret.cloned()).unwrap_or_default()
}

/// Returns what a filter's problem means for its file: nothing is wrong if the filter was built with other options.
pub(crate) fn outcome_of(problem: &BlockError) -> Outcome {
    let is_of_other_reader = matches!(problem, BlockError::HashMismatch { .. } | BlockError::ExtractorMismatch { .. });
    Outcome::from_sound(is_of_other_reader)
}

/// Reads a block; all messages name its file.
pub(crate) fn read_named(path: &Path) -> anyhow::Result<RangeBlock> {
    RangeBlock::read(path).with_context(|| input::name(path).into_owned())
}
