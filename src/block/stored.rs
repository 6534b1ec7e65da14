//! Filters that take keys while they are in use, as blocks and back.

use bytes::Bytes;

use super::trailer::{MAX_KEYS, MAX_PAYLOAD_BYTES, MAX_TAIL_BYTES};
use super::{EncodeRequest, FallbackReason, FilterBlock, HitBitmap, block_bytes, encode};
use crate::codec::AlignedBuffer;
use crate::error::{BlockError, FilterError};
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
            /// The filter as it is now, as a block that is asked with hashes of identity `hash`.
            ///
            /// # Errors
            ///
            /// [`FilterError::NoMemory`] without the memory for it; [`FilterError::TooLarge`] beyond 32 GiB.
            pub fn to_block(&self, hash: HashIdentity) -> Result<Bytes, FilterError> {
                to_block(self, hash)
            }

            /// Takes up the filter that was stored as `block`, to be asked with hashes of identity `hash`.
            ///
            /// # Errors
            ///
            /// [`FilterError::Block`] when `block` is damaged (its checksums are compared), of another kind, or built
            /// with another hash; [`FilterError::NoMemory`] without the memory for it.
            pub fn from_block(block: &[u8], hash: HashIdentity) -> Result<Self, FilterError> {
                from_block(block, hash)
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

fn to_block<F: Storable>(filter: &F, hash: HashIdentity) -> Result<Bytes, FilterError> {
    let (shape, kind) = (filter.shape(), F::Shape::KIND);
    let bytes = shape.payload_bytes();
    let too_large = FilterError::TooLarge { most_bytes: MAX_PAYLOAD_BYTES, got: bytes };
    if bytes > MAX_PAYLOAD_BYTES {
        return Err(too_large);
    }
    let mut payload = AlignedBuffer::zeroed(bytes, MAX_TAIL_BYTES).ok_or(FilterError::NoMemory { bytes })?;
    filter.write_payload(payload.as_mut_slice());
    let keys = filter.keys().min(MAX_KEYS);
    let request = EncodeRequest { requested: kind, reason: FallbackReason::None, hash, keys };
    encode(&shape, payload, request).ok_or(too_large)
}

fn from_block<F: Storable>(block: &[u8], hash: HashIdentity) -> Result<F, FilterError> {
    let block = FilterBlock::open(block)?;
    block.verify()?;
    if block.hash_identity() != hash {
        return Err(BlockError::HashMismatch { expected: hash, got: block.hash_identity() }.into());
    }
    let (encoded, payload) = block.parts::<F::Shape>()?;
    F::restore(F::Shape::decode(encoded)?, encoded.keys, payload)
}
