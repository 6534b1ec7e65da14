//! A block's trailer, decoded for people and tools.

use super::held::HeldParts;
use super::reason::FallbackReason;
use super::trailer::{FORMAT_VERSION, Trailer};
use crate::filter::{AnyShape, FilterKind, ShapeFields};
use crate::hash::{Domain, HashIdentity};
use crate::ids::FileId;

/// Every field of a block's trailer, with the values derived from them.
///
/// ```
/// use sstfilter::{KindPolicy, BuildContext, FallbackReason, FilterBlock, FilterKind, KeyHasher};
///
/// let hasher = KeyHasher::default();
/// let mut builder = KindPolicy::default().builder(&BuildContext::new(&hasher));
/// (0..1_000_u32).for_each(|key| builder.add_hash(hasher.hash(&key.to_le_bytes())));
/// let bytes = builder.finish().block.expect("it fits");
///
/// let info = FilterBlock::load(&bytes, &hasher)?.info();
/// assert_eq!((info.kind, info.reason), (FilterKind::BLOCKED_BLOOM, FallbackReason::None));
/// assert_eq!((info.keys, info.block_bytes), (1_000, bytes.len() as u64));
/// # Ok::<(), sstfilter::BlockError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BlockInfo {
    /// Version of the format.
    pub format_version: u8,
    /// Kind of the filter.
    pub kind: FilterKind,
    /// Kind that the policy requested.
    pub requested: FilterKind,
    /// Why `kind` is not `requested`.
    pub reason: FallbackReason,
    /// The hash it is probed with.
    pub hash: HashIdentity,
    /// The file that the block is bound to; `None` in an unbound block.
    pub file: Option<FileId>,
    /// Whether whole keys are in it, as in every block but those of extracted parts alone.
    pub whole_keys: bool,
    /// The domains of the extractors whose parts are in it: [`Domain::new`] of their names.
    pub extractors: Vec<Domain>,
    /// The salt with which the build succeeded.
    pub salt: u8,
    /// Distinct keys. A Bloom filter counts repeated keys again unless they were adjacent; a register-blocked Bloom
    /// filter estimates.
    pub keys: u64,
    /// Bytes of the whole block.
    pub block_bytes: u64,
    /// Bytes of the payload.
    pub payload_bytes: u64,
    /// CRC32C of the payload, as stored.
    pub payload_checksum: u32,
    /// The kind's parameters by name: probes and lines, or columns, layers and slots.
    pub shape: ShapeFields,
    /// Expected false positive rate, from 0 to 1.
    pub expected_fpr: f64,
}

impl BlockInfo {
    pub(super) fn new(trailer: &Trailer, held: HeldParts<'_>, shape: &AnyShape) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            kind: trailer.kind,
            requested: trailer.requested,
            reason: trailer.reason,
            hash: trailer.identity.hash,
            file: trailer.identity.file,
            whole_keys: held.has_whole_keys(),
            extractors: held.domains().collect(),
            salt: trailer.shape.salt,
            keys: trailer.shape.keys,
            block_bytes: trailer.block_bytes(),
            payload_bytes: trailer.shape.payload_bytes,
            payload_checksum: trailer.payload_checksum,
            shape: shape.describe(),
            expected_fpr: shape.expected_fpr(trailer.shape.keys),
        }
    }

    /// Whole block over distinct keys, in bits; infinite for a block of no keys.
    #[must_use]
    pub fn bits_per_key(&self) -> f64 {
        self.block_bytes as f64 * 8.0 / self.keys as f64
    }
}
