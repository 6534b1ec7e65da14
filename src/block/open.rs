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
/// [`load`](Self::load) reads the whole block once and checks it: every checksum holds, and the hash, the file and the
/// known keys match the [`LoadContext`]. [`FilterReader`](crate::FilterReader) does the same, but answers "may be
/// present" if the block is unusable, and counts its answers.
///
/// [`open_unverified`](Self::open_unverified) reads only the trailer, in constant time. Use it in tools that
/// [`verify`](Self::verify) or inspect blocks, and for blocks that have stayed in memory since they were loaded.
///
/// Opening selects the code that probes single keys, by the kind, its parameters and the [instruction
/// set](crate::simd). So open a block once and probe it many times.
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
    // The fields that probes read come first, so that they share few cache lines.
    pub(super) data: D,
    pub(super) shape: OpenShape,
    /// Whether the payload has been compared with its checksum.
    pub(super) is_verified: bool,
    pub(super) trailer: Trailer,
    /// A bit for each extractor of the block that answers its reader; all bits if it was opened without a context.
    pub(super) answered: u64,
}

impl<D: AsRef<[u8]>> FilterBlock<D> {
    /// Opens and verifies the block that fills `data` exactly, and reads all of it once. `context` describes the
    /// reader: a [`LoadContext`], or a `&KeyHasher` for an unbound block.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open_unverified`](Self::open_unverified) and [`verify`](Self::verify). Also fails if the
    /// block has another hash or belongs to another file, if only one of block and context names a file, if the block
    /// holds none of the parts of keys that the reader probes for, or if a known key is absent. Treat every error as
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

    /// Verifies the block, unless it has been verified before.
    pub(crate) fn verified(self) -> Result<Self, BlockError> {
        if !self.is_verified {
            self.verify()?;
        }
        Ok(Self { is_verified: true, ..self })
    }

    /// Opens the block that fills `data` exactly, but reads only its trailer. It takes constant time, does not
    /// allocate, and accepts any alignment (64 bytes is fastest). Arbitrary bytes are safe input.
    ///
    /// This detects neither a damaged payload nor a block of another hash or file, which answers "absent" for present
    /// keys. Probe only blocks that [`load`](Self::load) has accepted before. The block answers prefix probes by every
    /// part that it holds; a loaded block answers only by those that its reader names.
    ///
    /// # Errors
    ///
    /// [`BlockError`] if the bytes are not a block, the trailer is damaged, the length is wrong, the kind or version is
    /// unknown, or a field is out of range.
    pub fn open_unverified(data: D) -> Result<Self, BlockError> {
        Self::open(data, None)
    }

    /// Like [`open_unverified`](Self::open_unverified), but also opens blocks of the user-defined `kinds`.
    ///
    /// # Errors
    /// Returns the errors of [`open_unverified`](Self::open_unverified).
    pub fn open_unverified_with_kinds(data: D, kinds: &KindRegistry) -> Result<Self, BlockError> {
        Self::open(data, Some(kinds))
    }

    fn open(data: D, kinds: Option<&KindRegistry>) -> Result<Self, BlockError> {
        let trailer = Trailer::decode(data.as_ref())?;
        if trailer.is_partition {
            // A partition answers "absent" for the keys of the file's other partitions.
            return Err(BlockError::Partition);
        }
        Self::with_trailer(data, trailer, kinds)
    }

    fn with_trailer(data: D, trailer: Trailer, kinds: Option<&KindRegistry>) -> Result<Self, BlockError> {
        let any = AnyShape::decode(trailer.kind, &trailer.shape, kinds)?;
        let shape = open_shape(&trailer, any);
        // No reader has named its extractors yet, so all of them answer.
        Ok(Self { data, is_verified: false, trailer, shape, answered: u64::MAX })
    }

    /// Opens and verifies the block of a partition, which must be unbound and have hash `hash`. Returns the bytes with
    /// an error.
    ///
    /// Only for containers of partitions. They must compare [`checksum_without_last`](Self::checksum_without_last) with
    /// the value in their index before they probe: another partition answers "absent" for the keys of this one.
    ///
    /// # Errors
    ///
    /// [`BlockError`] if the bytes are not a partition with this hash.
    #[doc(hidden)]
    pub fn load_partition(data: D, hash: HashIdentity, kinds: Option<&KindRegistry>) -> Result<Self, (D, BlockError)> {
        // Opened as borrowed bytes, so that `data` can be returned with an error.
        match FilterBlock::open_partition(data.as_ref(), hash, kinds) {
            Ok(FilterBlock { shape, is_verified, trailer, answered, .. }) => {
                Ok(Self { data, shape, is_verified, trailer, answered })
            }
            Err(error) => Err((data, error)),
        }
    }

    fn open_partition(data: D, hash: HashIdentity, kinds: Option<&KindRegistry>) -> Result<Self, BlockError> {
        let trailer = Trailer::decode(data.as_ref())?;
        if !trailer.is_partition {
            return Err(BlockError::NotAPartition);
        }
        if trailer.identity.hash != hash {
            return Err(BlockError::HashMismatch { expected: hash, got: trailer.identity.hash });
        }
        Self::with_trailer(data, trailer, kinds)?.verified()
    }

    /// Returns the CRC32C of all bytes except the last four. Verifies nothing: the payload must have been compared with
    /// its checksum. The last four bytes are excluded because a trailer followed by its own checksum has the same
    /// CRC32C whatever its fields are.
    pub fn checksum_without_last(&self) -> u32 {
        let bytes = self.as_bytes();
        let tail = bytes.get(self.payload().len()..bytes.len() - CHECKSUM_BYTES).unwrap_or_default();
        checksum_append(self.trailer.payload_checksum, tail)
    }

    /// Returns the block, unless it is a partition, which holds only some of its file's keys.
    pub(crate) fn whole(self) -> Result<Self, BlockError> {
        if self.trailer.is_partition { Err(BlockError::Partition) } else { Ok(self) }
    }

    /// Compares the payload with its checksum, and reads all of it once.
    ///
    /// # Errors
    ///
    /// [`BlockError::PayloadChecksum`] if it differs.
    pub fn verify(&self) -> Result<(), BlockError> {
        self.verified_payload().map(|_| ())
    }

    /// Compares the payload with its checksum, and returns it.
    pub(super) fn verified_payload(&self) -> Result<&[u8], BlockError> {
        let payload = self.payload();
        let (expected, got) = (self.trailer.payload_checksum, checksum(payload));
        if expected == got { Ok(payload) } else { Err(BlockError::PayloadChecksum { expected, got }) }
    }

    /// Whether the file may contain the key of `hash`; `false` is certain. Pass the hash of a whole key, by the hasher
    /// that the block was loaded for. A block of only extracted parts returns `true` for every key.
    #[must_use]
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "it is a call or, compiled for one CPU, a test of one line")]
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        let data = self.data.as_ref();
        match &self.shape.any {
            // With an instruction set fixed at compile time, the test of a line can be inlined here.
            AnyShape::BlockedBloom(shape) if simd::COMPILED.is_some() && self.trailer.has_whole_keys => {
                shape.may_contain(data, hash)
            }
            _ => (self.shape.probe)(data, hash, &self.shape),
        }
    }

    /// Like [`may_contain`](Self::may_contain), for the hash of a whole key or of a part. It does not check that the
    /// block holds such parts: if it does not, `false` means nothing.
    #[must_use]
    #[inline]
    pub fn may_contain_added(&self, hash: KeyHash) -> bool {
        if self.trailer.has_whole_keys {
            return self.may_contain(hash);
        }
        (self.shape.probe_added)(self.data.as_ref(), hash, &self.shape)
    }

    /// Whether the file may contain a key with the prefix; `false` is certain. Returns `true` if the block answers for
    /// none of the parts that the prefix determines ([`BlockError::PartNotHeld`]).
    #[must_use]
    pub fn may_contain_prefix(&self, prefix: &PreparedPrefix<'_>) -> bool {
        !self.probe_prefix(prefix).is_some_and(Probe::is_absent)
    }

    /// The answer for a prefix; `None` if the prefix determines no part by any extractor. The block answers for a part
    /// if it has the prefix's hash and holds such parts, and its reader names them.
    pub(crate) fn probe_prefix(&self, prefix: &PreparedPrefix<'_>) -> Option<Probe> {
        let is_same_hash = prefix.hash_identity() == self.hash_identity();
        let mut answer = None;
        for (domain, hash) in prefix.hashes() {
            if !is_same_hash || !self.held_parts().is_answered(self.answered, domain) {
                // Unusable only if no other part has an answer.
                answer = answer.or(Some(Probe::Unusable));
            } else if self.may_contain_added(hash) {
                answer = Some(Probe::MaybePresent);
            } else {
                // All keys with the prefix have this part, so one absent part excludes them all.
                return Some(Probe::Absent);
            }
        }
        answer
    }

    /// The parts of keys that the block holds.
    pub(crate) fn held_parts(&self) -> HeldParts<'_> {
        self.trailer.held_parts(self.data.as_ref())
    }

    /// Prefetches the line that a probe for `hash` reads first. It helps only blocked Bloom and line ribbon.
    pub fn prefetch(&self, hash: KeyHash) {
        prefetch_line(self.shape.lines.line_of(self.data.as_ref(), hash));
    }

    /// Probes for many keys at once, and stores the answers in `matches` in the same order.
    pub fn may_contain_batch(&self, hashes: &[KeyHash], matches: &mut MatchBitmap) {
        self.may_contain_words(hashes, matches.cleared(hashes.len()));
    }

    /// Like [`may_contain_batch`](Self::may_contain_batch), but stores the answer for key `i` as bit `i % 64` of
    /// `words[i / 64]`, and clears the bits after the last key. Pass one word for each 64 keys: keys beyond the words
    /// get no answer, and words beyond the keys keep what they contain.
    pub fn may_contain_words(&self, hashes: &[KeyHash], words: &mut [u64]) {
        let hashes = hashes.get(..words.len() * 64).unwrap_or(hashes);
        let Some(words) = words.get_mut(..hashes.len().div_ceil(64)) else { return };
        if hashes.len() < self.shape.min_batch {
            return batch::answers(hashes, words, |hash| self.may_contain(hash));
        }
        match self.shape.payload(self.data.as_ref()) {
            Some(payload) if self.trailer.has_whole_keys => self.shape.any.may_contain_batch(payload, hashes, words),
            _ => batch::all_match(hashes, words),
        }
    }

    /// Returns the decoded fields of the trailer.
    #[must_use]
    pub fn info(&self) -> BlockInfo {
        let (trailer, held, shape) = (&self.trailer, self.held_parts(), &self.shape.any);
        BlockInfo {
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

    /// The identity of the hash that the block was built with.
    pub fn hash_identity(&self) -> HashIdentity {
        self.trailer.identity.hash
    }

    /// Returns a copy of the block that is bound to `file`. Use it if an ingested table gets a new file id, or if the
    /// file had no id yet when its filter was built.
    ///
    /// Make sure that the block belongs to the file: load it first with its old id or with known keys of the file. The
    /// payload's checksum is copied, not recomputed, so existing damage stays detectable.
    ///
    /// ```
    /// use sstfilter::{BlockBuilder, BuildContext, FileId, FilterBlock, FixedPolicy, KeyHasher, LoadContext};
    ///
    /// let hasher = KeyHasher::default();
    /// let mut builder = FixedPolicy::default().builder(&BuildContext::new(&hasher));
    /// builder.add_key(b"apple");
    /// let ingested = builder.finish().block.expect("the policy builds a filter");
    ///
    /// let known: [&[u8]; 1] = [b"apple"];
    /// let checked = FilterBlock::load(ingested, LoadContext::new(&hasher).with_known_keys(&known))?;
    /// let file = FileId::random();
    /// let block = checked.bound_to(file);
    /// assert!(FilterBlock::load(&block, LoadContext::new(&hasher).with_file_id(file)).is_ok());
    /// # Ok::<(), sstfilter::BlockError>(())
    /// ```
    #[must_use]
    pub fn bound_to(&self, file: FileId) -> Bytes {
        let identity = BlockIdentity { file: Some(file), ..self.trailer.identity };
        let tail = Trailer { identity, ..self.trailer }.encode(self.held_parts());
        Bytes::from([self.payload(), &tail].concat())
    }

    /// Returns how full the filter is, from 0 to 1: the share of set bits in a Bloom filter (about one half at its
    /// planned number of keys), or of counters or slots in use. `None` for kinds that do not fill up. Reads the whole
    /// payload.
    #[must_use]
    pub fn fill_ratio(&self) -> Option<f64> {
        self.shape.any.fill_ratio(self.payload())
    }

    /// The kind of the filter.
    pub const fn kind(&self) -> KindId {
        self.trailer.kind
    }

    /// The false positive rate that follows from the numbers of keys and bytes, from 0 to 1.
    pub fn expected_fpr(&self) -> f64 {
        self.shape.any.expected_fpr(self.trailer.shape.keys)
    }

    /// Whether a Bloom filter has far more keys than its size is for, such as twice as many at 10 bits per key: more
    /// than 70 % of its bits are expected to be set. The writer announced too few keys
    /// ([`BuildContext::expected_keys`](crate::BuildContext::expected_keys)), inserted too many, or shrank the filter;
    /// [`info`](Self::info) has the numbers. `false` for kinds whose size follows from their keys.
    ///
    /// ```
    /// use sstfilter::{BuildContext, FilterBlock, FixedPolicy, KeyHasher};
    ///
    /// let hasher = KeyHasher::default();
    /// let build = |announced| {
    ///     let mut builder = FixedPolicy::default().builder(&BuildContext::new(&hasher).with_expected_keys(announced));
    ///     (0..10_000_u32).for_each(|key| builder.add_key(&key.to_be_bytes()));
    ///     FilterBlock::load(builder.finish().block.unwrap_or_default(), &hasher)
    /// };
    /// assert!(!build(10_000)?.is_overfull());
    /// assert!(build(1_000)?.is_overfull());
    /// # Ok::<(), sstfilter::BlockError>(())
    /// ```
    pub fn is_overfull(&self) -> bool {
        self.shape.any.is_overfull(self.trailer.shape.keys)
    }

    /// The bytes of the whole block.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.data.as_ref()
    }

    /// Returns the bytes that were opened.
    #[must_use]
    pub fn into_inner(self) -> D {
        self.data
    }

    /// The payload; empty if `as_ref` returns fewer bytes than when the block was opened. Probes do not use this
    /// method, because they must answer "may be present" in that case.
    pub(super) fn payload(&self) -> &[u8] {
        self.shape.payload(self.data.as_ref()).unwrap_or_default()
    }
}

/// Every field of a block's trailer, and values derived from them.
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
    /// Why `kind` differs from `requested`.
    pub reason: FallbackReason,
    /// The hash that the block is probed with.
    pub hash: HashIdentity,
    /// The file that the block is bound to; `None` in an unbound block.
    pub file: Option<FileId>,
    /// Whether the block holds whole keys, like every block except those of only extracted parts.
    pub whole_keys: bool,
    /// The domains of the extractors whose parts the block holds: [`Domain::new`] of their names.
    pub extractors: Vec<Domain>,
    /// The salt with which the build succeeded.
    pub salt: u8,
    /// Distinct keys. A Bloom filter counts repeated keys again unless they were adjacent; filters for many threads
    /// estimate.
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
    /// Bits of the whole block per distinct key; infinite for a block without keys.
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

/// Opens the shape of the block with this trailer. A block without whole keys answers "may be present" for all of them.
pub(super) fn open_shape(trailer: &Trailer, any: AnyShape) -> OpenShape {
    let mut shape = OpenShape::new(any);
    if !trailer.has_whole_keys {
        // Decided once here, so that probes of ordinary blocks need no branch for it.
        shape.probe = |_, _, _| true;
    }
    shape
}
