//! The tail of a filter block: the kind's parameter words, the parts of keys that the block holds, the file's
//! fingerprint, and the trailer of 32 bytes.
//!
//! ```text
//! payload                    payload_words x 8 bytes
//! parameter words            0 to 15 x 4 bytes, u32 each
//! domain tags, parts word    8 bytes for each extractor, 4 bytes; in a block of parts of keys only
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
//!  25   1  format version (low 4 bits), flags (high 4 bits): bit 4 in a bound block, bit 5 in a partition, bit 6 in
//!        a block of parts of keys, bit 7 is 0
//!  26   2  magic, the bytes "SF"
//!  28   4  CRC32C of all that stands before it but the payload
//! ```

use alloc::vec::Vec;

use bytes::{BufMut, Bytes};

use crate::codec::{AlignedBuffer, Fields, TAIL_CAPACITY, checksum};
use crate::error::BlockError;
use crate::filter::{EncodedShape, KindId, MAX_KEYS, MAX_PARAM_WORDS, MAX_PAYLOAD_BYTES, TRAILER_BYTES};
use crate::hash::{HashId, HashIdentity};

use super::FallbackReason;
use super::held::{HeldParts, MAX_PARTS_BYTES, PARTS_WORD_BYTES, parts_bytes};
use super::identity::{BlockIdentity, FILE_BYTES};
use crate::ids::FileId;

/// The newest format version, which writers always use.
pub(crate) const FORMAT_VERSION: u8 = 1;

/// Set in the version byte of a partition, which holds only some of its file's keys.
const PARTITION: u8 = 1 << 5;

/// The bytes `SF`.
pub(super) const MAGIC: u16 = 0x4653;

/// The largest tail of a block of whole keys.
const MAX_PLAIN_TAIL_BYTES: usize = TRAILER_BYTES + FILE_BYTES + MAX_PARAM_WORDS * 4;

const _: () = assert!(MAX_PLAIN_TAIL_BYTES <= TAIL_CAPACITY, "sealing a block must not move its payload");

/// The decoded tail of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// The kind of the filter.
    pub kind: KindId,
    /// The kind that was requested.
    pub requested: KindId,
    /// Why they differ.
    pub reason: FallbackReason,
    /// The hash and the file.
    pub identity: BlockIdentity,
    /// Parameters, number of keys, and payload size.
    pub shape: EncodedShape,
    /// CRC32C of the payload.
    pub payload_checksum: u32,
    /// Whether the block is a partition, which holds only some of its file's keys. It is unbound; its container is
    /// bound.
    pub is_partition: bool,
    /// Bytes of the field that records which parts of keys the block holds; 0 for only whole keys.
    pub parts_bytes: u16,
    /// Whether the block holds whole keys. Every block without that field does.
    pub has_whole_keys: bool,
}

impl Trailer {
    /// Creates the trailer of an ordinary block: it holds whole keys and has the requested kind.
    #[must_use]
    pub fn new(kind: KindId, identity: BlockIdentity, shape: EncodedShape, payload: &AlignedBuffer) -> Self {
        Self {
            kind,
            requested: kind,
            reason: FallbackReason::None,
            identity,
            shape,
            payload_checksum: checksum(payload.as_slice()),
            is_partition: false,
            parts_bytes: 0,
            has_whole_keys: true,
        }
    }

    /// Bytes after the payload of an unbound block with `param_words` parameter words.
    #[must_use]
    pub const fn tail_bytes(param_words: u8) -> usize {
        TRAILER_BYTES + param_words as usize * 4
    }

    /// Bytes of the whole block.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.shape.block_bytes() + u64::from(self.parts_bytes) + self.identity.file_bytes()
    }

    /// The parts of keys that `block` holds; this must be its trailer.
    pub fn held_parts<'a>(&self, block: &'a [u8]) -> HeldParts<'a> {
        let after_parts = Ending::bytes_after_parts(self.identity.file.is_some());
        HeldParts::at_end_of(without_last(block, after_parts), self.parts_bytes)
    }

    /// Encodes everything after the payload. `held` must have `parts_bytes` bytes.
    #[expect(clippy::cast_possible_truncation, reason = "the caller keeps to MAX_PAYLOAD_BYTES")]
    #[must_use]
    pub fn encode(&self, held: HeldParts<'_>) -> Vec<u8> {
        debug_assert_eq!(held.field().len(), usize::from(self.parts_bytes));
        let mut out = Vec::with_capacity(MAX_PLAIN_TAIL_BYTES + held.field().len());
        let EncodedShape { params, salt, keys, payload_bytes } = &self.shape;
        params.as_slice().iter().for_each(|&word| out.put_u32_le(word));
        let hash = self.identity.hash.id.code();
        let ending = Ending {
            length: (payload_bytes / 8) as u32,
            checksum: self.payload_checksum,
            keys: *keys,
            own: [self.kind.code(), self.requested.code(), self.reason.code() | hash << 4, salt | params.count() << 4],
            version: FORMAT_VERSION | if self.is_partition { PARTITION } else { 0 },
            magic: MAGIC,
        };
        ending.put(&mut out, self.identity, held);
        out
    }

    /// Seals `payload` into a block that holds these parts of keys; `None` if a value does not fit its field.
    #[must_use]
    pub fn seal(&self, mut payload: AlignedBuffer, held: HeldParts<'_>) -> Option<Bytes> {
        let EncodedShape { keys, payload_bytes, salt, .. } = self.shape;
        let fits = keys <= MAX_KEYS && payload_bytes <= MAX_PAYLOAD_BYTES;
        // The library's kinds always meet these limits. A user-defined kind, or an identity from elsewhere, may not.
        let is_recordable = salt < 16 && self.identity.hash.id.code() < 16 && payload_bytes.is_multiple_of(8);
        if !fits || !is_recordable || payload.as_slice().len() as u64 != payload_bytes {
            return None;
        }
        let tail = self.encode(held);
        if tail.len() > TAIL_CAPACITY {
            // Only for many extractors: buffers have room for every other tail.
            payload.reserve(payload.as_slice().len() + tail.len())?;
        }
        payload.append(&tail);
        Some(payload.freeze())
    }

    /// Decodes the tail of `block`, and checks it for consistency, also with the block's length. Does not read the
    /// payload.
    ///
    /// # Errors
    ///
    /// [`BlockError`], if there is none.
    pub fn decode(block: &[u8]) -> Result<Self, BlockError> {
        let other_magic = |got| BlockError::Magic { got };
        // Magic and version first, so that other bytes and newer formats are named as such, and not as damage.
        let (trailer, flags) = Ending::fields(block, (MAGIC, FORMAT_VERSION), other_magic)?;
        // Checked before the checksum: a future flag may change the tail and what its checksum covers.
        if flags & !(Ending::BOUND | Ending::PARTS) != 0 && flags != PARTITION {
            let expected =
                "the sum of 1 (bound to a file) and 4 (parts of keys), each at most once, or 2 in a partition";
            return Err(BlockError::field("flags", expected, flags >> 4));
        }
        let param_bytes = usize::from(trailer.u8::<24>() >> 4) * 4;
        let tail = CheckedTail::read(block, trailer, param_bytes)?;
        let decoded = Self::from_checked_tail(&tail, flags == PARTITION)?;
        // After the checksum, so that a damaged field is reported as damage and not as a wrong length.
        let (expected, got) = (decoded.block_bytes(), block.len() as u64);
        if expected == got { Ok(decoded) } else { Err(BlockError::Length { expected, got }) }
    }

    fn from_checked_tail(tail: &CheckedTail<'_>, is_partition: bool) -> Result<Self, BlockError> {
        let trailer = tail.trailer;
        let got = trailer.u8::<23>() & 15;
        let reason = FallbackReason::from_code(got).ok_or(BlockError::field("fallback reason", "0 to 6", got))?;
        Ok(Self {
            kind: KindId::from_code(trailer.u8::<21>()),
            requested: KindId::from_code(trailer.u8::<22>()),
            reason,
            identity: tail.identity(trailer.u8::<23>() >> 4)?,
            shape: EncodedShape {
                params: tail.params.iter().map(|&word| u32::from_le_bytes(word)).collect(),
                salt: trailer.u8::<24>() & 15,
                keys: trailer.uint::<16, { Ending::KEYS_BYTES }>(),
                payload_bytes: u64::from(trailer.u32::<8>()) * 8,
            },
            payload_checksum: trailer.u32::<12>(),
            is_partition,
            parts_bytes: tail.held.field_bytes(),
            has_whole_keys: tail.held.has_whole_keys(),
        })
    }
}

/// The fields, except the hash, that the last 32 bytes of blocks and containers share.
pub struct Ending {
    /// The payload's length in words, or the top index's in bytes.
    pub length: u32,
    /// CRC32C of the payload, or of the top index.
    pub checksum: u32,
    /// Distinct keys.
    pub keys: u64,
    /// Bytes 21 to 24, which differ between blocks and containers.
    pub own: [u8; 4],
    /// The version, with the flags that only one of the two has.
    pub version: u8,
    /// Bytes 26 and 27.
    pub magic: u16,
}

impl Ending {
    /// Set in the version byte of a block that is bound to a file.
    pub const BOUND: u8 = 1 << 4;
    /// Set in the version byte of a block of parts of keys.
    pub const PARTS: u8 = 1 << 6;
    /// Bytes of the number of keys.
    pub const KEYS_BYTES: usize = 5;
    /// The maximum size of a block's tail, without parameter words.
    pub const MAX_BYTES: usize = TRAILER_BYTES + FILE_BYTES + MAX_PARTS_BYTES;

    /// Returns the last 32 bytes of a block or container, and their flags, if they have this magic and version.
    ///
    /// # Errors
    ///
    /// [`BlockError`] if they do not.
    pub fn fields<E: From<BlockError>>(
        block: &[u8],
        (magic, expected): (u16, u8),
        other_magic: impl FnOnce(u16) -> E,
    ) -> Result<(Fields<'_, TRAILER_BYTES>, u8), E> {
        let too_short = BlockError::TooShort { expected: TRAILER_BYTES as u64, got: block.len() as u64 };
        let (_, trailer) = Fields::<TRAILER_BYTES>::at_end_of(block).ok_or(too_short)?;
        let got = trailer.u16::<26>();
        if got != magic {
            return Err(other_magic(got));
        }
        let (got, flags) = (trailer.u8::<25>() & 15, trailer.u8::<25>() & !15);
        if got == expected { Ok((trailer, flags)) } else { Err(BlockError::Version { expected, got }.into()) }
    }

    /// Bytes after the parts of keys.
    #[must_use]
    pub const fn bytes_after_parts(is_bound: bool) -> usize {
        TRAILER_BYTES + if is_bound { FILE_BYTES } else { 0 }
    }

    /// Appends the parts of keys, the file's fingerprint, and the last 32 bytes, whose checksum covers all of `out`.
    pub fn put(&self, out: &mut Vec<u8>, BlockIdentity { hash, file }: BlockIdentity, held: HeldParts<'_>) {
        out.extend_from_slice(held.field());
        if let Some(file) = file {
            out.put_u64_le(file.fingerprint());
        }
        out.put_u64_le(hash.seed);
        out.put_u32_le(self.length);
        out.put_u32_le(self.checksum);
        out.put_uint_le(self.keys, Ending::KEYS_BYTES);
        out.extend_from_slice(&self.own);
        let bound = if file.is_some() { Ending::BOUND } else { 0 };
        let parts = if held.field().is_empty() { 0 } else { Ending::PARTS };
        out.put_u8(self.version | bound | parts);
        out.put_u16_le(self.magic);
        out.put_u32_le(checksum(out));
    }
}

/// Everything after the payload of a block or the top index of a container, with a verified checksum and length.
pub struct CheckedTail<'a> {
    pub(crate) params: &'a [[u8; 4]],
    /// The parts of keys that the filter holds.
    pub held: HeldParts<'a>,
    file: Option<FileId>,
    /// The last 32 bytes.
    pub trailer: Fields<'a, TRAILER_BYTES>,
}

impl<'a> CheckedTail<'a> {
    /// Reads the tail from the end of a block. The caller must have checked the version and flags in `trailer`.
    ///
    /// # Errors
    ///
    /// [`BlockError`] if the block is too short or the checksum differs.
    pub fn read(block: &'a [u8], trailer: Fields<'a, TRAILER_BYTES>, param_bytes: usize) -> Result<Self, BlockError> {
        let too_short = |expected| BlockError::TooShort { expected: expected as u64, got: block.len() as u64 };
        let flags = trailer.u8::<25>();
        let is_bound = flags & Ending::BOUND != 0;
        let after_parts = Ending::bytes_after_parts(is_bound);
        let before = without_last(block, after_parts);
        // No checksum has covered this word yet. It only decides where the tail begins, which the checksum then
        // confirms.
        let parts_bytes = parts_bytes(before, flags & Ending::PARTS != 0);
        let parts_bytes = parts_bytes.ok_or(too_short(after_parts + PARTS_WORD_BYTES))?;
        let tail_bytes = after_parts + usize::from(parts_bytes) + param_bytes;
        // If the block is shorter than the tail, the wrapped position fails the split.
        let (_, tail) = block.split_at_checked(block.len().wrapping_sub(tail_bytes)).ok_or(too_short(tail_bytes))?;
        let (covered, stored) = tail.split_last_chunk().ok_or(too_short(tail_bytes))?;
        let (expected, got) = (u32::from_le_bytes(*stored), checksum(covered));
        if expected != got {
            return Err(BlockError::TrailerChecksum { expected, got });
        }
        let held = HeldParts::at_end_of(before, parts_bytes);
        held.check_word()?;
        let params = tail.split_at(param_bytes).0.as_chunks().0;
        let file = if is_bound { without_last(tail, TRAILER_BYTES).last_chunk() } else { None };
        let file = file.map(|&fingerprint| FileId { fingerprint: u64::from_le_bytes(fingerprint) });
        Ok(Self { params, held, file, trailer })
    }

    /// Returns the hash and the file that the filter is bound to. `hash` is the hash's code, which blocks and
    /// containers store in different bytes.
    ///
    /// # Errors
    ///
    /// [`BlockError::UnknownHash`].
    pub fn identity(&self, hash: u8) -> Result<BlockIdentity, BlockError> {
        match HashId::from_code(hash) {
            HashId::Unknown(got) => Err(BlockError::UnknownHash { got }),
            id => Ok(BlockIdentity { hash: HashIdentity { id, seed: self.trailer.u64::<0>() }, file: self.file }),
        }
    }
}

/// The bytes before the last `count`; none if there are fewer.
fn without_last(bytes: &[u8], count: usize) -> &[u8] {
    bytes.split_at(bytes.len().saturating_sub(count)).0
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;

    use super::*;
    use crate::hash::{DelimitedPrefix, FixedPrefix, KeyParts};

    fn example(file: Option<FileId>) -> Trailer {
        Trailer {
            kind: KindId::BLOCKED_BLOOM,
            requested: KindId::RIBBON,
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
            parts_bytes: 0,
            has_whole_keys: true,
        }
    }

    /// The field of two extractors and whole keys.
    fn two_parts() -> Vec<u8> {
        let parts = KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(4)));
        HeldParts::encode(&parts.with_extractor(Arc::new(DelimitedPrefix::new(b':'))))
    }

    fn file() -> FileId {
        FileId::from([7; 16])
    }

    fn block_of(trailer: &Trailer) -> Vec<u8> {
        let mut block = vec![0; trailer.shape.payload_bytes as usize];
        let held = if trailer.parts_bytes > 0 { two_parts() } else { Vec::new() };
        block.extend(trailer.encode(HeldParts::of_field(&held)));
        block
    }

    #[test]
    fn a_trailer_reads_back_as_written_bound_to_a_file_or_not() {
        let fields = [(None, false, 0, 36), (None, true, 0, 36), (Some(file()), false, 0, 44)];
        for (file, is_partition, parts_bytes, tail_bytes) in
            fields.into_iter().chain([(None, false, 20, 56), (Some(file()), false, 20, 64)])
        {
            let trailer = Trailer { is_partition, parts_bytes, ..example(file) };
            let block = block_of(&trailer);
            assert_eq!(block.len(), 128 + tail_bytes);
            assert_eq!(Trailer::decode(&block), Ok(trailer));
            assert_eq!(trailer.held_parts(&block).field(), if parts_bytes > 0 { two_parts() } else { Vec::new() });
        }
    }

    #[test]
    fn a_block_stays_aligned_with_more_parts_than_its_buffer_has_room_for() {
        let prefixes = (0..20).map(|length| Arc::new(FixedPrefix::new(length)));
        let held =
            HeldParts::encode(&prefixes.fold(KeyParts::whole_keys(), |parts, prefix| parts.with_extractor(prefix)));
        assert!(held.len() > TAIL_CAPACITY);
        let trailer = Trailer { parts_bytes: held.len() as u16, ..example(None) };
        // All buffers first: the last one could grow where it is.
        let payloads: Vec<_> = (0..16).map(|_| AlignedBuffer::zeroed(128).unwrap()).collect();
        for payload in payloads {
            let block = trailer.seal(payload, HeldParts::of_field(&held)).unwrap();
            assert_eq!(block.as_ptr().addr() % 64, 0);
            assert_eq!(Trailer::decode(&block), Ok(trailer));
        }
    }

    #[test]
    fn a_hash_that_the_trailer_has_no_bits_for_is_not_written_as_another() {
        let mut trailer = example(None);
        let sealed = |trailer: &Trailer| trailer.seal(AlignedBuffer::zeroed(128).unwrap(), HeldParts::of_field(&[]));
        assert!(sealed(&trailer).is_some());
        // Its low four bits are those of XXH3.
        trailer.identity.hash.id = HashId::Unknown(HashId::Xxh3.code() + 16);
        assert!(sealed(&trailer).is_none());
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_refused() {
        let trailers = [(None, 0), (Some(file()), 0), (None, 20), (Some(file()), 20)];
        for (file, parts_bytes) in trailers {
            let block = block_of(&Trailer { parts_bytes, ..example(file) });
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
        assert!(matches!(reseal(25, 0x81), BlockError::Field { field: "flags", got: 8, .. }));
        assert!(matches!(reseal(25, 0x61), BlockError::Field { field: "flags", got: 6, .. }));
    }

    #[test]
    fn a_partition_that_is_bound_to_a_file_is_refused() {
        let bound = Trailer { is_partition: true, ..example(Some(FileId::new(b"file").unwrap())) };
        assert!(matches!(Trailer::decode(&block_of(&bound)), Err(BlockError::Field { field: "flags", got: 3, .. })));
    }
}
