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
//!  25   1  format version (low 4 bits), flags (high 4 bits): bit 4 in a bound block, the others 0
//!  26   2  magic, the bytes "SF"
//!  28   4  CRC32C of the parameter words, the file fingerprint, and bytes 0 to 27 of the trailer
//! ```

use crate::codec::{TAIL_CAPACITY, checksum, put_u16, put_u32, put_u40, put_u64};
use crate::error::BlockError;
use crate::filter::kind::{MAX_PARAM_WORDS, TRAILER_BYTES};
use crate::filter::{EncodedShape, FilterKind};
use crate::hash::{HashId, HashIdentity};

use super::FallbackReason;
use super::identity::{BlockIdentity, FILE_BYTES};
use crate::ids::FileId;

/// The newest format version; the writer always writes it.
pub(crate) const FORMAT_VERSION: u8 = 1;

/// Set in the version byte of a block that is bound to a file.
const BOUND: u8 = 1 << 4;

/// The bytes `SF`.
const MAGIC: u16 = 0x4653;

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
        let params = &self.shape.params;
        params.as_slice().iter().for_each(|&word| put_u32(&mut out, word));
        if let Some(file) = self.identity.file {
            put_u64(&mut out, file.fingerprint());
        }
        let BlockIdentity { hash, file } = self.identity;
        put_u64(&mut out, hash.seed);
        put_u32(&mut out, (self.shape.payload_bytes / 8) as u32);
        put_u32(&mut out, self.payload_checksum);
        put_u40(&mut out, self.shape.keys);
        out.push(self.kind.code());
        out.push(self.requested.code());
        out.push(self.reason.code() | hash.id.code() << 4);
        out.push(self.shape.salt | params.count() << 4);
        out.push(FORMAT_VERSION | if file.is_some() { BOUND } else { 0 });
        put_u16(&mut out, MAGIC);
        let checksum = checksum(&out);
        put_u32(&mut out, checksum);
        out
    }

    /// Decodes the end of `block` and checks it for consistency, also with the block's length. Does not read the
    /// payload.
    pub(crate) fn decode(block: &[u8]) -> Result<Self, BlockError> {
        let too_short = |expected: usize| BlockError::TooShort { expected: expected as u64, got: block.len() as u64 };
        let trailer = block.last_chunk::<TRAILER_BYTES>().ok_or(too_short(TRAILER_BYTES))?;
        let magic = u16::from_le_bytes(field(trailer, 26));
        if magic != MAGIC {
            return Err(BlockError::Magic { got: magic });
        }
        let (version, flags) = (trailer[25] & 15, trailer[25] & !15);
        if version != FORMAT_VERSION {
            return Err(BlockError::Version { expected: FORMAT_VERSION, got: version });
        }
        // Checked before the checksum: a future flag may change the tail and what its checksum covers.
        if flags & !BOUND != 0 {
            let (field, expected) = ("flags", "0, or 1 in a block that is bound to a file");
            return Err(BlockError::Field { field, expected, got: (flags >> 4).into() });
        }
        let is_bound = flags == BOUND;
        let tail_bytes = Self::tail_bytes(trailer[24] >> 4) + if is_bound { FILE_BYTES } else { 0 };
        let (_, tail) = block.split_at_checked(block.len().wrapping_sub(tail_bytes)).ok_or(too_short(tail_bytes))?;
        let (covered, stored) = tail.split_last_chunk().ok_or(too_short(tail_bytes))?;
        let (expected, got) = (u32::from_le_bytes(*stored), checksum(covered));
        if expected != got {
            return Err(BlockError::TrailerChecksum { expected, got });
        }
        let decoded = Self::from_checked_bytes(tail, trailer, is_bound)?;
        if decoded.block_bytes() != block.len() as u64 {
            return Err(BlockError::Length { expected: decoded.block_bytes(), got: block.len() as u64 });
        }
        Ok(decoded)
    }

    /// Decodes the fields of a tail whose checksum holds.
    fn from_checked_bytes(tail: &[u8], trailer: &[u8; TRAILER_BYTES], is_bound: bool) -> Result<Self, BlockError> {
        let (reason_code, hash_code) = (trailer[23] & 15, trailer[23] >> 4);
        let reason = FallbackReason::from_code(reason_code).ok_or(BlockError::Field {
            field: "fallback reason",
            expected: "0 to 6",
            got: reason_code.into(),
        })?;
        let hash_id = HashId::from_code(hash_code);
        if let HashId::Unknown(got) = hash_id {
            return Err(BlockError::UnknownHash { got });
        }
        let words = tail.as_chunks::<4>().0.iter().take(usize::from(trailer[24] >> 4));
        // The fingerprint is what remains before the trailer.
        let before_trailer = tail.split_last_chunk::<TRAILER_BYTES>().map_or(&[][..], |(before, _)| before);
        let fingerprint = before_trailer.last_chunk().filter(|_| is_bound).map(|bytes| u64::from_le_bytes(*bytes));
        let keys: [u8; 5] = field(trailer, 16);
        Ok(Self {
            kind: FilterKind::from_code(trailer[21]),
            requested: FilterKind::from_code(trailer[22]),
            reason,
            identity: BlockIdentity {
                hash: HashIdentity { id: hash_id, seed: u64::from_le_bytes(field(trailer, 0)) },
                file: fingerprint.map(FileId::from_fingerprint),
            },
            shape: EncodedShape {
                params: words.map(|word| u32::from_le_bytes(*word)).collect(),
                salt: trailer[24] & 15,
                keys: keys.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)),
                payload_bytes: u64::from(u32::from_le_bytes(field(trailer, 8))) * 8,
            },
            payload_checksum: u32::from_le_bytes(field(trailer, 12)),
        })
    }
}

/// The `N` bytes at `offset` of a trailer.
fn field<const N: usize>(trailer: &[u8; TRAILER_BYTES], offset: usize) -> [u8; N] {
    core::array::from_fn(|at| trailer.get(offset + at).copied().unwrap_or_default())
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
        }
    }

    fn block_of(trailer: &Trailer) -> Vec<u8> {
        let mut block = vec![0; trailer.shape.payload_bytes as usize];
        block.extend(trailer.encode());
        block
    }

    #[test]
    fn a_trailer_reads_back_as_written_bound_to_a_file_or_not() {
        for (file, tail_bytes) in [(None, 36), (Some(FileId::new(&7_u64.to_le_bytes()).unwrap()), 44)] {
            let trailer = example(file);
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
            put_u32(&mut block, sum);
            Trailer::decode(&block).unwrap_err()
        };
        assert!(matches!(reseal(23, 0x1f), BlockError::Field { field: "fallback reason", got: 15, .. }));
        assert!(matches!(reseal(23, 0x31), BlockError::UnknownHash { got: 3 }));
        assert!(matches!(reseal(25, 9), BlockError::Version { expected: 1, got: 9 }));
        assert!(matches!(reseal(25, 0x21), BlockError::Field { field: "flags", got: 2, .. }));
    }
}
