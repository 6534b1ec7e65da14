//! The end of a filter block: 32 bytes, and before them the kind's parameter words and the file's fingerprint.
//!
//! ```text
//! payload                    payload_words x 8 bytes
//! parameter words            0 to 15 x 4 bytes, u32 each
//! file fingerprint           8 bytes, in a bound block only
//! trailer, 32 bytes:
//!   0   8  hash seed, or its fingerprint, or the engine's tag
//!   8   4  payload length in 8-byte words
//!  12   4  CRC32C of the payload
//!  16   5  distinct keys
//!  21   1  kind
//!  22   1  requested kind
//!  23   1  fallback reason (low 4 bits), hash id (high 4 bits)
//!  24   1  salt (low 4 bits), number of parameter words (high 4 bits)
//!  25   1  format version (low 4 bits), flags (high 4 bits): bit 4 in a bound block, bit 5 in a partition, the others 0
//!  26   2  magic, the bytes "SF"
//!  28   4  CRC32C of the parameter words, the file fingerprint, and bytes 0 to 27 of the trailer
//! ```

use bytes::{Buf, BufMut, Bytes};

use crate::codec::{AlignedBuffer, TAIL_CAPACITY, checksum};
use crate::error::BlockError;
use crate::filter::kind::{MAX_KEYS, MAX_PARAM_WORDS, MAX_PAYLOAD_BYTES, TRAILER_BYTES};
use crate::filter::{EncodedShape, FilterKind};
use crate::hash::{HashId, HashIdentity};

use super::FallbackReason;
use super::identity::{BlockIdentity, FILE_BYTES};
use crate::ids::FileId;

/// The newest format version; the writer always writes it.
pub(crate) const FORMAT_VERSION: u8 = 1;

/// Set in the version byte of a block that is bound to a file.
const BOUND: u8 = 1 << 4;

/// Set in the version byte of a block that is one partition of a filter, and so holds a part of its file's keys only.
const PARTITION: u8 = 1 << 5;

/// The bytes `SF`.
pub(super) const MAGIC: u16 = 0x4653;

/// Bytes of the number of keys.
const KEYS_BYTES: usize = 5;

/// The largest tail of a block: all that follows its payload.
const MAX_TAIL_BYTES: usize = TRAILER_BYTES + FILE_BYTES + MAX_PARAM_WORDS * 4;

const _: () = assert!(MAX_TAIL_BYTES <= TAIL_CAPACITY, "sealing a block must not move its payload");

/// The decoded tail of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub(crate) kind: FilterKind,
    pub(crate) requested: FilterKind,
    pub(crate) reason: FallbackReason,
    pub(crate) identity: BlockIdentity,
    pub(crate) shape: EncodedShape,
    pub(crate) payload_checksum: u32,
    /// Whether the block holds a part of its file's keys only. Such a block is bound to no file: its container is.
    pub(crate) is_partition: bool,
}

impl Trailer {
    /// Bytes after the payload of an unbound block with `param_words` parameter words.
    pub(crate) const fn tail_bytes(param_words: u8) -> usize {
        TRAILER_BYTES + param_words as usize * 4
    }

    /// Bytes of the whole block.
    pub(crate) fn block_bytes(&self) -> u64 {
        let tail_bytes = Self::tail_bytes(self.shape.params.count()) as u64;
        self.shape.payload_bytes + tail_bytes + self.identity.file_bytes()
    }

    /// Encodes all that follows the payload.
    #[expect(clippy::cast_possible_truncation, reason = "the caller keeps to MAX_PAYLOAD_BYTES")]
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(MAX_TAIL_BYTES);
        let EncodedShape { params, salt, keys, payload_bytes } = &self.shape;
        params.as_slice().iter().for_each(|&word| out.put_u32_le(word));
        let BlockIdentity { hash, file } = self.identity;
        if let Some(file) = file {
            out.put_u64_le(file.fingerprint());
        }
        out.put_u64_le(hash.seed);
        out.put_u32_le((payload_bytes / 8) as u32);
        out.put_u32_le(self.payload_checksum);
        out.put_uint_le(*keys, KEYS_BYTES);
        out.put_u8(self.kind.code());
        out.put_u8(self.requested.code());
        out.put_u8(self.reason.code() | hash.id.code() << 4);
        out.put_u8(salt | params.count() << 4);
        let (bound, partition) =
            (if file.is_some() { BOUND } else { 0 }, if self.is_partition { PARTITION } else { 0 });
        out.put_u8(FORMAT_VERSION | bound | partition);
        out.put_u16_le(MAGIC);
        out.put_u32_le(checksum(&out));
        out
    }

    /// Seals `payload` into a block; `None` when a value does not fit its field.
    pub(crate) fn seal(&self, mut payload: AlignedBuffer) -> Option<Bytes> {
        let EncodedShape { keys, payload_bytes, salt, .. } = self.shape;
        let fits = keys <= MAX_KEYS && payload_bytes <= MAX_PAYLOAD_BYTES;
        // The library's kinds always meet these limits; a user's kind may not.
        let is_recordable = salt < 16 && payload_bytes.is_multiple_of(8);
        if !fits || !is_recordable || payload.as_slice().len() as u64 != payload_bytes {
            return None;
        }
        payload.append(&self.encode());
        Some(payload.freeze())
    }

    /// Decodes the end of `block` and checks it for consistency, also with the block's length. Does not read the
    /// payload.
    pub(crate) fn decode(block: &[u8]) -> Result<Self, BlockError> {
        Self::decode_end(block, block.len() as u64)
    }

    /// The same from the end of a block of `block_bytes`, of which [`TAIL_CAPACITY`] bytes are enough.
    pub(crate) fn decode_end(block: &[u8], block_bytes: u64) -> Result<Self, BlockError> {
        let too_short = |expected: usize| BlockError::TooShort { expected: expected as u64, got: block_bytes };
        let trailer = block.last_chunk::<TRAILER_BYTES>().ok_or(too_short(TRAILER_BYTES))?;
        let magic = u16::from_le_bytes([trailer[26], trailer[27]]);
        if magic != MAGIC {
            return Err(BlockError::Magic { got: magic });
        }
        let (version, flags) = (trailer[25] & 15, trailer[25] & !15);
        if version != FORMAT_VERSION {
            return Err(BlockError::Version { expected: FORMAT_VERSION, got: version });
        }
        // Checked before the checksum: a future flag may change the tail and what its checksum covers.
        if ![0, BOUND, PARTITION].contains(&flags) {
            let (field, expected) = ("flags", "0, 1 in a block that is bound to a file, or 2 in a partition");
            return Err(BlockError::Field { field, expected, got: (flags >> 4).into() });
        }
        let is_bound = flags == BOUND;
        let param_words = trailer[24] >> 4;
        let tail_bytes = Self::tail_bytes(param_words) + if is_bound { FILE_BYTES } else { 0 };
        let (_, tail) = block.split_at_checked(block.len().wrapping_sub(tail_bytes)).ok_or(too_short(tail_bytes))?;
        let (covered, stored) = tail.split_last_chunk().ok_or(too_short(tail_bytes))?;
        let (expected, got) = (u32::from_le_bytes(*stored), checksum(covered));
        if expected != got {
            return Err(BlockError::TrailerChecksum { expected, got });
        }
        let is_partition = flags == PARTITION;
        let decoded = Self { is_partition, ..Self::from_checked_tail(tail, param_words, is_bound)? };
        if decoded.block_bytes() != block_bytes {
            return Err(BlockError::Length { expected: decoded.block_bytes(), got: block_bytes });
        }
        Ok(decoded)
    }

    /// Decodes the fields of a tail whose checksum holds, and whose length is that of its parts.
    fn from_checked_tail(mut tail: &[u8], param_words: u8, is_bound: bool) -> Result<Self, BlockError> {
        let params = (0..param_words).map(|_| tail.get_u32_le()).collect();
        let file = is_bound.then(|| FileId { fingerprint: tail.get_u64_le() });
        let seed = tail.get_u64_le();
        let payload_bytes = u64::from(tail.get_u32_le()) * 8;
        let payload_checksum = tail.get_u32_le();
        let keys = tail.get_uint_le(KEYS_BYTES);
        let [kind, requested] = [tail.get_u8(), tail.get_u8()].map(FilterKind::from_code);
        let (reason_and_hash, salt_and_words) = (tail.get_u8(), tail.get_u8());
        let reason = FallbackReason::from_code(reason_and_hash & 15).ok_or(BlockError::Field {
            field: "fallback reason",
            expected: "0 to 6",
            got: (reason_and_hash & 15).into(),
        })?;
        let id = HashId::from_code(reason_and_hash >> 4);
        if let HashId::Unknown(got) = id {
            return Err(BlockError::UnknownHash { got });
        }
        let identity = BlockIdentity { hash: HashIdentity { id, seed }, file };
        let shape = EncodedShape { params, salt: salt_and_words & 15, keys, payload_bytes };
        Ok(Self { kind, requested, reason, identity, shape, payload_checksum, is_partition: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(file: Option<FileId>) -> Trailer {
        Trailer {
            kind: FilterKind::BLOCKED_BLOOM,
            requested: FilterKind::RIBBON,
            reason: FallbackReason::TooFewKeys,
            identity: BlockIdentity { hash: HashIdentity { id: HashId::Xxh3, seed: 0x0102_0304_0506_0708 }, file },
            shape: EncodedShape {
                params: [6].into_iter().collect(),
                salt: 0,
                keys: 0x12_3456_789a,
                payload_bytes: 128,
            },
            payload_checksum: 0xaabb_ccdd,
            is_partition: false,
        }
    }

    fn block_of(trailer: &Trailer) -> Vec<u8> {
        let mut block = vec![0; trailer.shape.payload_bytes as usize];
        block.extend(trailer.encode());
        block
    }

    #[test]
    fn a_trailer_reads_back_as_written_bound_to_a_file_or_not() {
        let bound = Some(FileId::new(&7_u64.to_le_bytes()).unwrap());
        for (file, is_partition, tail_bytes) in [(None, false, 36), (None, true, 36), (bound, false, 44)] {
            let trailer = Trailer { is_partition, ..example(file) };
            let block = block_of(&trailer);
            assert_eq!(block.len(), 128 + tail_bytes);
            assert_eq!(Trailer::decode(&block), Ok(trailer));
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_refused() {
        for block in [None, Some(FileId::new(&7_u64.to_le_bytes()).unwrap())].map(|file| block_of(&example(file))) {
            for bit in 128 * 8..block.len() * 8 {
                let mut damaged = block.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(Trailer::decode(&damaged).is_err(), "bit {bit}");
            }
            for length in 0..block.len() {
                assert!(Trailer::decode(&block[..length]).is_err(), "cut to {length}");
                assert!(Trailer::decode(&block[block.len() - length..]).is_err(), "last {length}");
            }
        }
    }

    #[test]
    fn unknown_reasons_hashes_and_versions_are_named() {
        let reseal = |offset: usize, value: u8| {
            let mut block = block_of(&example(None));
            let at = block.len() - 32 + offset;
            block[at] = value;
            let (from, end) = (128, block.len() - 4);
            let sum = checksum(&block[from..end]);
            block.truncate(end);
            block.put_u32_le(sum);
            Trailer::decode(&block).unwrap_err()
        };
        assert!(matches!(reseal(23, 0x1f), BlockError::Field { field: "fallback reason", got: 15, .. }));
        assert!(matches!(reseal(23, 0x31), BlockError::UnknownHash { got: 3 }));
        assert!(matches!(reseal(25, 9), BlockError::Version { expected: 1, got: 9 }));
        assert!(matches!(reseal(25, 0x41), BlockError::Field { field: "flags", got: 4, .. }));
    }

    #[test]
    fn a_partition_that_is_bound_to_a_file_is_refused() {
        let bound = Trailer { is_partition: true, ..example(Some(FileId::new(b"file").unwrap())) };
        assert!(matches!(Trailer::decode(&block_of(&bound)), Err(BlockError::Field { field: "flags", got: 3, .. })));
    }
}
