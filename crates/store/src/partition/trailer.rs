//! The end of a container: the parts of keys that it holds, unless these are only whole keys; the file's fingerprint,
//! if the container is bound to a file; and 32 bytes.
//!
//! ```text
//! domain tags, parts word    as in a filter block
//! file fingerprint           8 bytes, in a bound container only
//! trailer, 32 bytes:
//!   0   8  hash seed, or its fingerprint, or the engine's tag
//!   8   4  bytes of the top index
//!  12   4  CRC32C of the top index
//!  16   5  keys
//!  21   3  partitions
//!  24   1  0 (low 4 bits), hash id (high 4 bits)
//!  25   1  format version (low 4 bits), flags (high 4 bits): bit 4 in a bound container, bit 5 in one cut by hash
//!        range, bit 6 in one of parts of keys
//!  26   2  magic, the bytes "SP"
//!  28   4  CRC32C of everything between the top index and this field
//! ```

use sstfilter::internal::{CheckedTail, Ending, HeldParts};
use sstfilter::{BlockError, BlockIdentity};

use super::PartitionCut;
use crate::error::{FilterProblem, wrong_field};

/// The newest version of the container, which the writer always writes.
const CONTAINER_VERSION: u8 = 1;

/// Set in the version byte of a container that is cut by hash range.
const CUT_BY_HASH: u8 = 1 << 5;

/// The bytes `SP`.
const MAGIC: u16 = 0x5053;

/// The maximum bytes after a top index.
pub(super) const MAX_END_BYTES: usize = Ending::MAX_BYTES;

const PARTITIONS_BYTES: usize = 3;

/// The maximum number of partitions, for which the format has three bytes. At 1 KiB they are a filter of 16 GiB.
pub(super) const MAX_PARTITIONS: u32 = (1 << 24) - 1;

/// The decoded end of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContainerTrailer {
    pub(super) identity: BlockIdentity,
    pub(super) cut: PartitionCut,
    pub(super) partitions: u32,
    pub(super) keys: u64,
    pub(super) index_bytes: u32,
    pub(super) index_checksum: u32,
    /// The field with the parts of keys in the filter; empty for only whole keys.
    pub(super) held: Box<[u8]>,
}

impl ContainerTrailer {
    /// Returns the bytes of the top index and of everything after it.
    pub(super) fn tail_bytes(&self) -> u64 {
        u64::from(self.index_bytes) + self.end_bytes() as u64
    }

    /// Returns the bytes after the top index.
    pub(super) fn end_bytes(&self) -> usize {
        Ending::bytes_after_parts(self.identity.file.is_some()) + self.held.len()
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.end_bytes());
        let [low, middle, high, _] = self.partitions.to_le_bytes();
        let ending = Ending {
            length: self.index_bytes,
            checksum: self.index_checksum,
            keys: self.keys,
            own: [low, middle, high, self.identity.hash.id.code() << 4],
            version: CONTAINER_VERSION | if self.cut == PartitionCut::HashRange { CUT_BY_HASH } else { 0 },
            magic: MAGIC,
        };
        ending.put(&mut out, self.identity, HeldParts::of_field(&self.held));
        out
    }

    /// Decodes the end of `container`, reading only its last [`MAX_END_BYTES`] bytes.
    pub(super) fn decode(container: &[u8]) -> Result<Self, FilterProblem> {
        let other_magic =
            |got: u16| wrong_field("magic bytes of a partitioned filter", "SP", &got.to_le_bytes().escape_ascii());
        let (trailer, flags) = Ending::fields(container, (MAGIC, CONTAINER_VERSION), other_magic)?;
        // Before the checksum, because a future flag may change what it covers.
        BlockError::require(
            flags & !(Ending::BOUND | CUT_BY_HASH | Ending::PARTS) == 0,
            "flags of a partitioned filter",
            "0 to 7",
            flags >> 4,
        )?;
        let cut = if flags & CUT_BY_HASH != 0 { PartitionCut::HashRange } else { PartitionCut::KeyRange };
        let tail = CheckedTail::read(container, trailer, 0)?;
        let identity = tail.identity(trailer.u8::<24>() >> 4)?;
        let reserved = trailer.u8::<24>() & 15;
        BlockError::require(reserved == 0, "reserved bits of a partitioned filter", "0", reserved)?;
        let partitions = trailer.uint::<21, PARTITIONS_BYTES>();
        // Writers cut by hash range into an odd number, which keeps distinct hashes distinct inside a partition.
        let is_countable = partitions > 0 && (cut == PartitionCut::KeyRange || partitions % 2 == 1);
        BlockError::require(
            is_countable,
            "partitions",
            "at least 1, and odd in a filter that is cut by hash range",
            partitions,
        )?;
        Ok(Self {
            identity,
            cut,
            partitions: u32::try_from(partitions).unwrap_or(MAX_PARTITIONS),
            keys: trailer.uint::<16, { Ending::KEYS_BYTES }>(),
            index_bytes: trailer.u32::<8>(),
            index_checksum: trailer.u32::<12>(),
            held: tail.held.field().into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use bytes::BufMut;

    use super::*;
    use crc32c::crc32c as checksum;
    use sstfilter::FileId;
    use sstfilter::{HashId, HashIdentity};

    fn examples() -> impl Iterator<Item = ContainerTrailer> {
        let file = Some(FileId::new(b"file").unwrap());
        [(None, PartitionCut::KeyRange), (file, PartitionCut::HashRange), (None, PartitionCut::HashRange)]
            .into_iter()
            .map(|(file, cut)| ContainerTrailer {
                identity: BlockIdentity { hash: HashIdentity::new(HashId::Custom, 0x0102_0304_0506_0708), file },
                cut,
                partitions: 0x12_3457,
                keys: 0x12_3456_789a,
                index_bytes: 0x0bcd_ef01,
                index_checksum: 0xaabb_ccdd,
                held: Box::default(),
            })
            .flat_map(|trailer| {
                let held = [&[7; 8][..], &[1, 1, 0, 0]].concat().into();
                [trailer.clone(), ContainerTrailer { held, ..trailer }]
            })
    }

    #[test]
    fn the_end_of_a_container_reads_back_as_written_whatever_precedes_it() {
        for trailer in examples() {
            let bytes = [vec![0xee; 100], trailer.encode()].concat();
            assert_eq!(ContainerTrailer::decode(&bytes), Ok(trailer.clone()));
            assert_eq!(ContainerTrailer::decode(&trailer.encode()), Ok(trailer.clone()));
            assert_eq!(trailer.encode().len(), trailer.end_bytes());
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_of_the_end_is_refused() {
        for trailer in examples() {
            let bytes = trailer.encode();
            for bit in 0..bytes.len() * 8 {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(ContainerTrailer::decode(&damaged).is_err(), "bit {bit}");
            }
            assert!((0..bytes.len()).all(|length| ContainerTrailer::decode(&bytes[..length]).is_err()));
            assert!((1..=bytes.len()).all(|cut| ContainerTrailer::decode(&bytes[cut..]).is_err()));
        }
    }

    #[test]
    fn what_no_writer_writes_is_refused_under_a_valid_checksum() {
        let reseal = |offset: usize, value: u8| {
            let mut bytes = examples().next().unwrap().encode();
            bytes[offset] = value;
            let sum = checksum(&bytes[..28]);
            bytes.truncate(28);
            bytes.put_u32_le(sum);
            ContainerTrailer::decode(&bytes)
        };
        assert!(matches!(reseal(25, 0x81), Err(FilterProblem::Block(BlockError::Field { got: 8, .. }))));
        assert!(matches!(reseal(25, 2), Err(FilterProblem::Block(BlockError::Version { got: 2, .. }))));
        assert!(matches!(reseal(26, b'T'), Err(FilterProblem::Field { .. })));
        assert!(matches!(reseal(24, 0x31), Err(FilterProblem::Block(BlockError::UnknownHash { got: 3 }))));
        assert!(matches!(reseal(24, 0xf1), Err(FilterProblem::Block(BlockError::Field { got: 1, .. }))));
        // 0x12_3458 partitions cannot be cut by hash.
        assert!(reseal(21, 0x58).is_ok());
        let mut even = examples().nth(4).unwrap();
        even.partitions = 0x12_3458;
        assert!(matches!(
            ContainerTrailer::decode(&even.encode()),
            Err(FilterProblem::Block(BlockError::Field { field: "partitions", .. }))
        ));
        even.partitions = 0;
        assert!(matches!(
            ContainerTrailer::decode(&even.encode()),
            Err(FilterProblem::Block(BlockError::Field { field: "partitions", .. }))
        ));
    }
}
