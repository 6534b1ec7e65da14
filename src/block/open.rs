//! Opening and probing a block.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use super::FallbackReason;
use super::bitmap::{MatchBitmap, Probe};
use super::held::HeldParts;
use super::identity::{BlockIdentity, LoadContext};
use super::trailer::{FORMAT_VERSION, Trailer};
use crate::codec::{CHECKSUM_BYTES, checksum, checksum_append};
use crate::error::BlockError;
use crate::filter::{AnyShape, FilterShape, KindRegistry, OpenShape, batch};
use crate::hash::{Domain, HashIdentity, KeyHash, PreparedPrefix};
use crate::ids::{FileId, KindId};
use crate::kernel::prefetch::prefetch_line;
use crate::simd;

/// A filter block over any bytes: owned, borrowed, shared or mapped.
///
/// [`load`](Self::load) reads the whole block once and returns one that can be trusted: every checksum holds, and the
/// hash, the file and the known keys match the [`LoadContext`]. [`FilterReader`](crate::FilterReader) does the
/// same, answers "may be present" when the block is unusable, and counts its answers.
///
/// [`open_unverified`](Self::open_unverified) reads only the trailer, in constant time. Use it in tools that
/// [`verify`](Self::verify) or inspect blocks, and for blocks that were loaded before and have stayed in memory since.
///
/// Opening settles how single keys are probed: the kind, its parameters and the [instruction set](crate::simd). Keep
/// blocks open and probe them many times.
///
/// ```
/// use sstfilter::{BuildContext, FileId, FilterBlock, KeyHasher, FixedPolicy, LoadContext};
///
/// let (hasher, file) = (KeyHasher::default(), FileId::random());
/// let mut builder = FixedPolicy::default().builder(&BuildContext::new(&hasher).with_file_id(file));
/// builder.add_hash(hasher.hash(b"apple"));
/// let bytes = builder.finish().block.expect("one key fits");
///
/// let filter = FilterBlock::load(&bytes, LoadContext::new(&hasher).with_file_id(file))?;
/// assert!(filter.may_contain(hasher.hash(b"apple")));
/// # Ok::<(), sstfilter::BlockError>(())
/// ```
#[derive(Clone)]
#[repr(C)]
pub struct FilterBlock<D> {
    // First what probes read, in few cache lines.
    pub(super) data: D,
    pub(super) shape: OpenShape,
    /// Whether the payload was compared with its checksum.
    pub(super) is_verified: bool,
    pub(super) trailer: Trailer,
    /// A bit for each extractor of the block whose parts its reader names; all where it was opened without a context.
    pub(super) answered: u64,
}

impl<D: AsRef<[u8]>> FilterBlock<D> {
    /// Opens and verifies the block that fills `data` exactly. `context` describes the reader: a [`LoadContext`], or a
    /// `&KeyHasher` for an unbound block. Reads the whole block once.
    ///
    /// # Errors
    ///
    /// Those of [`open_unverified`](Self::open_unverified) and [`verify`](Self::verify). Also fails when the block has
    /// another hash or belongs to another file, when only one of block and context names a file, when it holds none of
    /// the parts of keys that the reader probes for, or when a known key is absent. A read treats every one of them as
    /// "may be present".
    pub fn load<'a>(data: D, context: impl Into<LoadContext<'a>>) -> Result<Self, BlockError> {
        let context = context.into();
        let mut block = Self::open(data, context.kinds())?.verified()?;
        block.held_parts().check_for(&context, block.trailer.identity)?;
        let known = block.held_parts().known_hashes(&context)?;
        block.answered = block.held_parts().answered(&context, &known);
        if known.iter().any(|known| !block.may_contain_added(known.hash)) {
            return Err(BlockError::KnownKeyAbsent { hash: block.hash_identity() });
        }
        Ok(block)
    }

    /// The block, verified now unless it was before.
    pub(crate) fn verified(self) -> Result<Self, BlockError> {
        if !self.is_verified {
            self.verify()?;
        }
        Ok(Self { is_verified: true, ..self })
    }

    /// Opens the block that fills `data` exactly, reading only its trailer: in constant time, without allocating, at
    /// any alignment (64 bytes is fastest). Arbitrary bytes are safe input.
    ///
    /// This detects neither a damaged payload nor a block of another hash or file: such a block answers "absent" for
    /// present keys. Probe only blocks that [`load`](Self::load) has accepted before. It answers prefixes by every part
    /// that it holds, where one that was loaded answers by those that its reader names.
    ///
    /// # Errors
    ///
    /// [`BlockError`] when the bytes are no block, the trailer is damaged, the length is wrong, the kind or version is
    /// unknown, or a field is out of range.
    pub fn open_unverified(data: D) -> Result<Self, BlockError> {
        Self::open(data, None)
    }

    /// Like [`open_unverified`](Self::open_unverified), for blocks of the library's kinds and of `kinds`.
    ///
    /// # Errors
    ///
    /// Those of [`open_unverified`](Self::open_unverified).
    pub fn open_unverified_with_kinds(data: D, kinds: &KindRegistry) -> Result<Self, BlockError> {
        Self::open(data, Some(kinds))
    }

    fn open(data: D, kinds: Option<&KindRegistry>) -> Result<Self, BlockError> {
        let trailer = Trailer::decode(data.as_ref())?;
        if trailer.is_partition {
            return Err(BlockError::Partition);
        }
        Self::with_trailer(data, trailer, kinds)
    }

    fn with_trailer(data: D, trailer: Trailer, kinds: Option<&KindRegistry>) -> Result<Self, BlockError> {
        let any = AnyShape::decode(trailer.kind, &trailer.shape, kinds)?;
        let shape = open_shape(&trailer, any);
        Ok(Self { data, is_verified: false, trailer, shape, answered: u64::MAX })
    }

    /// Opens and verifies the block of a partition, which must be bound to no file and have hash `hash`; gives the
    /// bytes back with an error.
    ///
    /// For containers of partitions alone, which compare [`checksum_without_last`](Self::checksum_without_last) with
    /// that of their index before they probe: a partition of another file or place is negative for the keys of this
    /// one.
    ///
    /// # Errors
    ///
    /// [`BlockError`], if the bytes are no partition of these keys.
    #[doc(hidden)]
    pub fn load_partition(data: D, hash: HashIdentity, kinds: Option<&KindRegistry>) -> Result<Self, (D, BlockError)> {
        match FilterBlock::open_partition(data.as_ref(), hash, kinds) {
            Ok((trailer, shape)) => Ok(Self { data, is_verified: true, trailer, shape, answered: u64::MAX }),
            Err(error) => Err((data, error)),
        }
    }

    fn open_partition(
        data: D,
        hash: HashIdentity,
        kinds: Option<&KindRegistry>,
    ) -> Result<(Trailer, OpenShape), BlockError> {
        let trailer = Trailer::decode(data.as_ref())?;
        if !trailer.is_partition {
            return Err(BlockError::NotAPartition);
        }
        if trailer.identity.hash != hash {
            return Err(BlockError::HashMismatch { expected: hash, got: trailer.identity.hash });
        }
        let block = Self::with_trailer(data, trailer, kinds)?.verified()?;
        Ok((block.trailer, block.shape))
    }

    /// Verifies nothing: the CRC32C of all bytes but the last four of a block whose payload was compared with its
    /// checksum. A trailer followed by its own checksum has the same CRC32C whatever it says: a sum over both would
    /// tell nothing of the trailer.
    pub fn checksum_without_last(&self) -> u32 {
        let bytes = self.as_bytes();
        let tail = bytes.get(self.payload().len()..bytes.len() - CHECKSUM_BYTES).unwrap_or_default();
        checksum_append(self.trailer.payload_checksum, tail)
    }

    /// The block, unless it holds a part of its file's keys only.
    pub(crate) fn whole(self) -> Result<Self, BlockError> {
        if self.trailer.is_partition { Err(BlockError::Partition) } else { Ok(self) }
    }

    /// Checks the payload against its checksum: reads all of it once.
    ///
    /// # Errors
    ///
    /// [`BlockError::PayloadChecksum`] when it differs.
    pub fn verify(&self) -> Result<(), BlockError> {
        self.verified_payload().map(|_| ())
    }

    /// The payload, compared with its checksum now.
    pub(super) fn verified_payload(&self) -> Result<&[u8], BlockError> {
        let payload = self.payload();
        let (expected, got) = (self.trailer.payload_checksum, checksum(payload));
        if expected == got { Ok(payload) } else { Err(BlockError::PayloadChecksum { expected, got }) }
    }

    /// Whether the key of `hash` may be in the file; `false` is certain. The hash is of a whole key, by the hasher that
    /// the block was loaded for. In a block of extracted parts alone, every key may be.
    #[must_use]
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "it is a call, or, compiled for one CPU, a test of one line")]
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        let data = self.data.as_ref();
        match &self.shape.any {
            AnyShape::BlockedBloom(shape) if simd::COMPILED.is_some() && self.trailer.has_whole_keys => {
                shape.may_contain(data, hash)
            }
            _ => (self.shape.probe)(data, hash, &self.shape),
        }
    }

    /// The same for any hash that may have been added: of a whole key, or of a part of it. It looks at no parts that
    /// the block says that it holds: for a part that it does not hold, `false` means nothing.
    #[must_use]
    #[inline]
    pub fn may_contain_added(&self, hash: KeyHash) -> bool {
        if self.trailer.has_whole_keys {
            return self.may_contain(hash);
        }
        self.shape.payload(self.data.as_ref()).is_none_or(|payload| self.shape.any.may_contain(payload, hash))
    }

    /// Whether the file may have a key with the prefix; `false` is certain. Where the block answers for no part that
    /// follows from the prefix ([`BlockError::PartNotHeld`]), it may.
    #[must_use]
    pub fn may_contain_prefix(&self, prefix: &PreparedPrefix<'_>) -> bool {
        !self.probe_prefix(prefix).is_some_and(Probe::is_absent)
    }

    /// The answer for a prefix; `None` if no extractor has one part for all keys that begin with it.
    pub(crate) fn probe_prefix(&self, prefix: &PreparedPrefix<'_>) -> Option<Probe> {
        let mut answer = None;
        for (domain, hash) in prefix.hashes() {
            if !self.answers(prefix, domain) {
                answer = answer.or(Some(Probe::Unusable));
            } else if self.may_contain_added(hash) {
                answer = Some(Probe::MaybePresent);
            } else {
                return Some(Probe::Absent);
            }
        }
        answer
    }

    /// Whether the block answers a probe for a part of the prefix: it holds such parts, by the prefix's hash, and its
    /// reader names them.
    pub(crate) fn answers(&self, prefix: &PreparedPrefix<'_>, domain: Domain) -> bool {
        prefix.hash_identity() == self.hash_identity() && self.held_parts().is_answered(self.answered, domain)
    }

    /// Which parts of its keys the block holds.
    pub(crate) fn held_parts(&self) -> HeldParts<'_> {
        self.trailer.held_parts(self.data.as_ref())
    }

    /// Prefetches what a probe for `hash` reads, where that is one place.
    pub fn prefetch(&self, hash: KeyHash) {
        if let Some(shape) = self.shape.any.as_blocked_bloom() {
            prefetch_line(shape.lines().line_of(self.data.as_ref(), hash));
        }
    }

    /// Probes for many keys at once; `matches` then holds the answers in their order.
    pub fn may_contain_batch(&self, hashes: &[KeyHash], matches: &mut MatchBitmap) {
        let words = matches.cleared(hashes.len());
        match self.shape.payload(self.data.as_ref()) {
            Some(payload) if self.trailer.has_whole_keys => self.shape.any.may_contain_batch(payload, hashes, words),
            _ => batch::all_match(hashes, words),
        }
    }

    /// The fields of the trailer, decoded.
    #[must_use]
    pub fn info(&self) -> BlockInfo {
        BlockInfo::new(&self.trailer, self.held_parts(), &self.shape.any)
    }

    /// The hash that the block was built from and is probed with.
    #[must_use]
    pub fn hash_identity(&self) -> HashIdentity {
        self.trailer.identity.hash
    }

    /// The same block, bound to `file`. Use it when an ingested table gets a new file number, or when the file had no
    /// id yet while its filter was built.
    ///
    /// The caller vouches that the block belongs to the file: load it first with its old id, or with known keys of the
    /// file. The payload's checksum is copied, not recomputed, so existing damage stays detectable.
    ///
    /// ```
    /// use sstfilter::{DynamicFilter, FileId, FilterBlock, LoadContext, StandardBloom, FalsePositiveRate, KeyHasher};
    ///
    /// let hasher = KeyHasher::default();
    /// let mut filter = StandardBloom::for_rate(hasher.identity(), 100, FalsePositiveRate::ONE_PERCENT)?;
    /// filter.insert(hasher.hash(b"apple"));
    /// let ingested = filter.to_block()?;
    ///
    /// let known: [&[u8]; 1] = [b"apple"];
    /// let checked = FilterBlock::load(ingested, LoadContext::new(&hasher).with_known_keys(&known))?;
    /// let file = FileId::random();
    /// let block = checked.bound_to(file);
    /// assert!(FilterBlock::load(&block, LoadContext::new(&hasher).with_file_id(file)).is_ok());
    /// # Ok::<(), sstfilter::FilterError>(())
    /// ```
    #[must_use]
    pub fn bound_to(&self, file: FileId) -> Bytes {
        let identity = BlockIdentity { file: Some(file), ..self.trailer.identity };
        let tail = Trailer { identity, ..self.trailer }.encode(self.held_parts());
        Bytes::from([self.payload(), &tail].concat())
    }

    /// How full the filter is, from 0 to 1: the share of set bits in a Bloom filter (about one half at its planned
    /// number of keys), or of counters or slots in use. `None` for kinds that do not fill up. Reads the whole payload.
    #[must_use]
    pub fn fill_ratio(&self) -> Option<f64> {
        self.shape.any.fill_ratio(self.payload())
    }

    /// The kind of the filter.
    pub const fn kind(&self) -> KindId {
        self.trailer.kind
    }

    /// The false positive rate that follows from its numbers of keys and bytes, from 0 to 1.
    pub fn expected_fpr(&self) -> f64 {
        self.shape.any.expected_fpr(self.trailer.shape.keys)
    }

    pub(super) fn shape(&self) -> &AnyShape {
        &self.shape.any
    }

    /// The whole block's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.data.as_ref()
    }

    /// The bytes that were opened.
    #[must_use]
    pub fn into_inner(self) -> D {
        self.data
    }

    /// The payload; empty if `as_ref` later returns fewer bytes than at first. Probes do not use this, because they
    /// must answer "may be present" then.
    pub(super) fn payload(&self) -> &[u8] {
        self.shape.payload(self.data.as_ref()).unwrap_or_default()
    }
}

/// Every field of a block's trailer, with the values derived from them.
///
/// ```
/// use sstfilter::{FixedPolicy, BuildContext, FallbackReason, FilterBlock, KindId, KeyHasher};
///
/// let hasher = KeyHasher::default();
/// let mut builder = FixedPolicy::default().builder(&BuildContext::new(&hasher));
/// (0..1_000_u32).for_each(|key| builder.add_hash(hasher.hash(&key.to_le_bytes())));
/// let bytes = builder.finish().block.expect("it fits");
///
/// let info = FilterBlock::load(&bytes, &hasher)?.info();
/// assert_eq!((info.kind, info.reason), (KindId::BLOCKED_BLOOM, FallbackReason::None));
/// assert_eq!((info.keys, info.block_bytes), (1_000, bytes.len() as u64));
/// # Ok::<(), sstfilter::BlockError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BlockInfo {
    /// Version of the format.
    pub format_version: u8,
    /// Kind of the filter.
    pub kind: KindId,
    /// Kind that the policy requested.
    pub requested: KindId,
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
    pub shape: Vec<(&'static str, String)>,
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

impl<D: AsRef<[u8]>> fmt::Debug for FilterBlock<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterBlock").field("info", &self.info()).finish_non_exhaustive()
    }
}

/// The shape of the block with this trailer, opened. Where it has no whole keys, every one of them may be present.
pub(super) fn open_shape(trailer: &Trailer, any: AnyShape) -> OpenShape {
    let mut shape = OpenShape::new(any);
    if !trailer.has_whole_keys {
        shape.probe = |_, _, _| true;
    }
    shape
}
