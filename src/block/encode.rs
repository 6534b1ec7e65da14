//! Sealing a finished payload into a block.

use bytes::Bytes;

use super::FallbackReason;
use super::identity::BlockIdentity;
use super::trailer::{MAX_KEYS, MAX_PAYLOAD_BYTES, Trailer};
use crate::codec::{AlignedBuffer, checksum};
use crate::filter::{FilterKind, FilterShape};

/// What a block is to say of its payload beside the shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EncodeRequest {
    pub(crate) requested: FilterKind,
    pub(crate) reason: FallbackReason,
    pub(crate) identity: BlockIdentity,
    /// Distinct keys.
    pub(crate) keys: u64,
}

/// The exact bytes of the block of a filter of this shape, bound to no file.
pub(crate) fn block_bytes(shape: &impl FilterShape) -> u64 {
    shape.payload_bytes() + Trailer::tail_bytes(shape.params().count()) as u64
}

/// The block of `payload`; `None` when it exceeds what a trailer can say.
pub(crate) fn encode<S: FilterShape>(shape: &S, mut payload: AlignedBuffer, request: EncodeRequest) -> Option<Bytes> {
    let EncodeRequest { requested, reason, identity, keys } = request;
    let shape = shape.encode(keys);
    let fits = keys <= MAX_KEYS && shape.payload_bytes <= MAX_PAYLOAD_BYTES;
    if !fits || payload.as_slice().len() as u64 != shape.payload_bytes {
        return None;
    }
    let payload_checksum = checksum(payload.as_slice());
    let trailer = Trailer { kind: S::KIND, requested, reason, identity, shape, payload_checksum };
    payload.append(&trailer.encode());
    Some(payload.freeze())
}
