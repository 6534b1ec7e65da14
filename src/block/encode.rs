//! Sealing a finished payload into a block.

use bytes::Bytes;

use super::FallbackReason;
use super::trailer::{MAX_KEYS, MAX_PAYLOAD_BYTES, Trailer};
use crate::codec::{AlignedBuffer, checksum};
use crate::filter::{EncodedShape, FilterKind};
use crate::hash::HashIdentity;

/// What a block is to say of its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EncodeRequest {
    pub(crate) kind: FilterKind,
    pub(crate) requested: FilterKind,
    pub(crate) reason: FallbackReason,
    pub(crate) hash: HashIdentity,
    pub(crate) shape: EncodedShape,
}

/// The block of `payload`; `None` when it exceeds what a trailer can say.
pub(crate) fn encode(request: EncodeRequest, mut payload: AlignedBuffer) -> Option<Bytes> {
    let EncodeRequest { kind, requested, reason, hash, shape } = request;
    let fits = shape.keys <= MAX_KEYS && shape.payload_bytes <= MAX_PAYLOAD_BYTES;
    if !fits || payload.as_slice().len() as u64 != shape.payload_bytes {
        return None;
    }
    let payload_checksum = checksum(payload.as_slice());
    let trailer = Trailer { kind, requested, reason, hash, shape, payload_checksum };
    payload.append(&trailer.encode());
    Some(payload.freeze())
}
