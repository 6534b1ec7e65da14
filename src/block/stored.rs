//! Filters that take keys while they are in use, as blocks and back.

use bytes::Bytes;

use super::trailer::{MAX_KEYS, MAX_PAYLOAD_BYTES, MAX_TAIL_BYTES};
use super::{EncodeRequest, FallbackReason, FilterBlock, HitBitmap, LoadContext, block_bytes, encode};
use crate::codec::AlignedBuffer;
use crate::error::FilterError;
use crate::filter::counting_bloom::CountingBloom;
use crate::filter::cuckoo::{CuckooFilter, CuckooShape};
use crate::filter::standard_bloom::StandardBloom;
use crate::filter::two_bit_bloom::TwoBitBloom;
use crate::filter::{FilterShape, Storable};
use crate::hash::{HashIdentity, KeyHash};

/// Gives each filter its way into a block and out of it, and batches, whose answers are a bitmap of the block's.
macro_rules! stored {
    ($($filter:ty),* $(,)?) => {$(
        impl $filter {
            /// The hash of its keys.
            #[must_use]
            pub fn hash_identity(&self) -> HashIdentity {
                Storable::hash_identity(self)
            }

            /// The filter as it is now, as a block that is bound to no file ([`FilterBlock::bound_to`] binds it).
            ///
            /// # Errors
            ///
            /// [`FilterError::NoMemory`] without the memory for it; [`FilterError::TooLarge`] beyond 32 GiB.
            pub fn to_block(&self) -> Result<Bytes, FilterError> {
                to_block(self)
            }

            /// Restores the filter that was stored as `block`, if [`FilterBlock::load`] accepts it for `context`. It does
            /// not keep the file that the block is bound to.
            ///
            /// # Errors
            ///
            /// [`FilterError::Block`] when `block` is damaged (its checksums are compared), of another kind, built
            /// with another hash, or bound to another file; [`FilterError::NoMemory`] without the memory for it.
            pub fn from_block<'a>(block: &[u8], context: impl Into<LoadContext<'a>>) -> Result<Self, FilterError> {
                from_block(&FilterBlock::load(block, context)?)
            }

            /// Asks for many keys at once; `hits` then holds the answers in their order. Faster than one by one,
            /// above all in a filter that the caches do not hold.
            pub fn contains_batch(&self, hashes: &[KeyHash], hits: &mut HitBitmap) {
                self.contains_words(hashes, hits.cleared(hashes.len()));
            }
        }
    )*};
}

// A new kind that takes keys while it is in use is one line here.
stored! {
    TwoBitBloom,
    StandardBloom,
    CountingBloom,
    CuckooFilter,
}

impl CuckooShape {
    /// Bytes of the whole block of a filter of this shape, exactly.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        block_bytes(self)
    }
}

fn to_block<F: Storable>(filter: &F) -> Result<Bytes, FilterError> {
    let (shape, kind) = (filter.shape(), F::Shape::KIND);
    let bytes = shape.payload_bytes();
    let too_large = FilterError::TooLarge { most_bytes: MAX_PAYLOAD_BYTES, got: bytes };
    if bytes > MAX_PAYLOAD_BYTES {
        return Err(too_large);
    }
    let mut payload = AlignedBuffer::zeroed(bytes, MAX_TAIL_BYTES).ok_or(FilterError::NoMemory { bytes })?;
    filter.write_payload(payload.as_mut_slice());
    let keys = filter.keys().min(MAX_KEYS);
    let identity = filter.hash_identity().into();
    let request = EncodeRequest { requested: kind, reason: FallbackReason::None, identity, keys };
    encode(&shape, payload, request).ok_or(too_large)
}

fn from_block<F: Storable>(block: &FilterBlock<&[u8]>) -> Result<F, FilterError> {
    let (encoded, payload) = block.parts::<F::Shape>()?;
    F::restore(block.hash_identity(), F::Shape::decode(encoded)?, encoded.keys, payload)
}
