//! Sealing a finished payload into a block.

use bytes::Bytes;

use super::FallbackReason;
use super::identity::BlockIdentity;
use super::trailer::Trailer;
use crate::codec::{AlignedBuffer, checksum};
use crate::filter::kind::{MAX_KEYS, MAX_PAYLOAD_BYTES};
use crate::filter::{EncodedShape, FilterKind, FilterShape};

/// What a block records beside the payload and its shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EncodeRequest {
    pub(crate) requested: FilterKind,
    pub(crate) reason: FallbackReason,
    pub(crate) identity: BlockIdentity,
    /// Distinct keys.
    pub(crate) keys: u64,
}

/// Seals `payload` into a block; `None` when a value does not fit its trailer field.
pub(crate) fn encode<S: FilterShape>(shape: &S, payload: AlignedBuffer, request: EncodeRequest) -> Option<Bytes> {
    encode_shape(S::KIND, shape.encode(request.keys), payload, request)
}

/// [`encode`] for an encoded shape.
pub(super) fn encode_shape(
    kind: FilterKind,
    shape: EncodedShape,
    mut payload: AlignedBuffer,
    request: EncodeRequest,
) -> Option<Bytes> {
    let EncodeRequest { requested, reason, identity, keys } = request;
    let fits = keys <= MAX_KEYS && shape.payload_bytes <= MAX_PAYLOAD_BYTES;
    // The library's kinds always meet these limits; a user's kind may not.
    let is_recordable = shape.salt < 16 && shape.payload_bytes.is_multiple_of(8);
    if !fits || !is_recordable || payload.as_slice().len() as u64 != shape.payload_bytes {
        return None;
    }
    let payload_checksum = checksum(payload.as_slice());
    let trailer = Trailer { kind, requested, reason, identity, shape, payload_checksum };
    payload.append(&trailer.encode());
    Some(payload.freeze())
}
