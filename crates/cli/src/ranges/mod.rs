//! Range filters on the command line: blocks of them, the prefixes that their ranges are inside of, and their policies.

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

/// Where the kind stands in the last 32 bytes of a filter block.
const KIND_AT: usize = 21;

/// Whether the last 32 bytes of a filter block say that it is a range filter.
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

    /// Compares the payload with its checksum, which takes neither hasher nor extractor.
    pub(crate) fn verify(&self) -> Result<(), BlockError> {
        let payload = usize::try_from(self.info.payload_bytes).ok().and_then(|bytes| self.data.get(..bytes));
        let (expected, got) = (self.info.payload_checksum, crc32c::crc32c(payload.unwrap_or_default()));
        if expected == got { Ok(()) } else { Err(BlockError::PayloadChecksum { expected, got }) }
    }

    /// The filter, to be probed: with its own hash if that is not secret, and the prefixes of the command line.
    pub(crate) fn load(&self, reading: Reading<'_>) -> Result<RangeFilter<Bytes>, BlockError> {
        let hasher = hasher_of(self.info.hash, reading.secret);
        let extractor = reading.range_prefix.map(RangePrefix::extractor);
        let context = LoadContext::new(&hasher);
        let context = match self.info.file {
            Some(file) => context.with_file_id(file),
            None => context,
        };
        // Damage first: whose reader it was built for says nothing of its bytes.
        self.verify()?;
        RangeFilter::open_unverified(self.data.clone(), RangeContext::new(context, extractor.as_ref()))
    }
}

/// The hasher that the block was built with. Of one that is not known here, the block says so when it is opened.
fn hasher_of(got: HashIdentity, secret: Option<&KeyHasher>) -> KeyHasher {
    let known = secret.filter(|hasher| hasher.identity() == got).cloned().or_else(|| KeyHasher::from_identity(got));
    known.or_else(|| secret.cloned()).unwrap_or_default()
}

/// What a filter that cannot be probed says of its file: nothing, if it was built for a reader with other options.
pub(crate) fn outcome_of(problem: &BlockError) -> Outcome {
    let is_of_other_reader = matches!(problem, BlockError::HashMismatch { .. } | BlockError::ExtractorMismatch { .. });
    Outcome::from_sound(is_of_other_reader)
}

/// Reads a block whose name goes into all messages.
pub(crate) fn read_named(path: &Path) -> anyhow::Result<RangeBlock> {
    RangeBlock::read(path).with_context(|| input::name(path).into_owned())
}
