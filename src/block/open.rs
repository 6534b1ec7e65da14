//! Opening and probing a block.

use core::fmt;

use bytes::Bytes;

use super::identity::{BlockIdentity, FileId, LoadContext};
use super::info::BlockInfo;
use super::shape::Shape;
use super::trailer::Trailer;
use crate::codec::checksum;
use crate::error::BlockError;
use crate::filter::{EncodedShape, FilterShape};
use crate::hash::{HashIdentity, KeyHash};
use crate::kernel::line::{self, LineMask};

/// A filter block over any bytes: owned, borrowed, shared or mapped.
///
/// [`load`](Self::load) reads the whole block once, and gives one that can be trusted: every checksum holds, and the
/// hash, the file and the known keys are those of the [`LoadContext`]. [`GuardedFilter`](super::GuardedFilter) does the
/// same, turns what is wrong into "may be present", and counts.
///
/// [`open_unverified`](Self::open_unverified) reads the trailer alone, in constant time. It is for tools, which
/// [`verify`](Self::verify) or only inspect, and for blocks that were loaded before and have not left memory since.
///
/// ```
/// use sstfilter::{BloomPolicy, BuildContext, FilterBlock, FilterPolicy, KeyHasher};
///
/// let hasher = KeyHasher::default();
/// let mut builder = BloomPolicy::default().builder(&BuildContext::new(&hasher)).expect("never declines");
/// builder.add_hash(hasher.hash(b"apple"));
/// let bytes = builder.finish().block.expect("one key fits");
///
/// let filter = FilterBlock::load(&bytes, &hasher)?;
/// assert!(filter.may_contain(hasher.hash(b"apple")));
/// # Ok::<(), sstfilter::BlockError>(())
/// ```
#[derive(Clone)]
pub struct FilterBlock<D> {
    data: D,
    trust: Trust,
    trailer: Trailer,
    shape: Shape,
}

/// Whether a block's payload was compared with its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    Unverified,
    Verified,
}

impl<D: AsRef<[u8]>> FilterBlock<D> {
    /// Opens and verifies the block that `data` is, from its first to its last byte, for a reader that `context`
    /// describes: a [`LoadContext`], or a `&KeyHasher` for a block that is bound to no file. Reads all of it once.
    ///
    /// # Errors
    ///
    /// Those of [`open_unverified`](Self::open_unverified) and [`verify`](Self::verify); a block of another hash, of
    /// another file, bound to a file where the context has none or the reverse, or without one of the known keys. To a
    /// read each of them means "may be present".
    pub fn load<'a>(data: D, context: impl Into<LoadContext<'a>>) -> Result<Self, BlockError> {
        let block = Self::open_unverified(data)?;
        let block = block.verified()?;
        context.into().check(&block)?;
        Ok(block)
    }

    /// The block, verified now unless it was before.
    pub(super) fn verified(self) -> Result<Self, BlockError> {
        if self.trust == Trust::Unverified {
            self.verify()?;
        }
        Ok(Self { trust: Trust::Verified, ..self })
    }

    /// Opens the block that `data` is, from its first to its last byte, by its trailer alone: in constant time, without
    /// allocating, at any alignment (64 bytes is fastest), for any bytes at all.
    ///
    /// Damage in the payload is not seen, nor a block of another hash or file: such a block answers "absent" for keys
    /// that are there. Probe only blocks that [`load`](Self::load) has accepted before.
    ///
    /// # Errors
    ///
    /// Whatever [`BlockError`] says: bytes that are no block, a damaged trailer, a block cut short or
    /// prolonged, an unknown kind or version, a field out of range.
    pub fn open_unverified(data: D) -> Result<Self, BlockError> {
        let trailer = Trailer::decode(data.as_ref())?;
        let shape = Shape::decode(&trailer)?;
        Ok(Self { data, trust: Trust::Unverified, trailer, shape })
    }

    /// Checks the payload against its checksum: reads all of it once.
    ///
    /// # Errors
    ///
    /// [`BlockError::PayloadChecksum`] when it differs.
    pub fn verify(&self) -> Result<(), BlockError> {
        let (expected, got) = (self.trailer.payload_checksum, checksum(self.payload()));
        if expected == got { Ok(()) } else { Err(BlockError::PayloadChecksum { expected, got }) }
    }

    /// Whether the key of `hash` may be in the file; `false` is certain. The hash comes from the hasher that the block
    /// was loaded for.
    #[must_use]
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for `Shape::may_contain`")]
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        self.shape.may_contain(self.payload(), hash)
    }

    /// Like [`may_contain`](Self::may_contain), for one key and many blocks: what can be computed from
    /// the key alone is computed once.
    #[must_use]
    pub fn may_contain_prepared(&self, key: &mut PreparedKey) -> bool {
        match &self.shape {
            Shape::BlockedBloom(shape) => {
                shape.may_contain_mask(self.payload(), key.hash, key.line_mask(shape.probes()))
            }
            shape => shape.may_contain(self.payload(), key.hash),
        }
    }

    /// Probes for many keys at once; `hits` then holds the answers in their order.
    pub fn may_contain_batch(&self, hashes: &[KeyHash], hits: &mut HitBitmap) {
        hits.reset(hashes.len());
        self.shape.may_contain_batch(self.payload(), hashes, &mut hits.words);
    }

    /// All that the block says of itself.
    #[must_use]
    pub fn info(&self) -> BlockInfo {
        BlockInfo::new(&self.trailer, &self.shape)
    }

    /// The hash that the block was built from and is probed with.
    #[must_use]
    pub fn hash_identity(&self) -> HashIdentity {
        self.trailer.identity.hash
    }

    /// The same block, bound to `file`: for a filter that becomes the filter of another file (an ingested table that
    /// gets a number of its own), or whose file had no id yet when it was built.
    ///
    /// It is the caller's word that the block is the file's: load it with the id that it had, or with known keys of the
    /// file, before. The payload's checksum is taken over as it is: damage that the block has, the bound block has too.
    ///
    /// ```
    /// use sstfilter::{FileId, FilterBlock, LoadContext, StandardBloom, FalsePositiveRate, KeyHasher};
    ///
    /// let hasher = KeyHasher::default();
    /// let mut filter = StandardBloom::for_rate(hasher.identity(), 100, FalsePositiveRate::ONE_PERCENT)?;
    /// filter.insert(hasher.hash(b"apple"));
    /// let ingested = filter.to_block()?;
    ///
    /// let known = [hasher.hash(b"apple")];
    /// let checked = FilterBlock::load(ingested, LoadContext::new(&hasher).with_known_keys(&known))?;
    /// let block = checked.bound_to(FileId::from(7));
    /// assert!(FilterBlock::load(&block, LoadContext::new(&hasher).with_file_id(FileId::from(7))).is_ok());
    /// # Ok::<(), sstfilter::FilterError>(())
    /// ```
    #[must_use]
    pub fn bound_to(&self, file: FileId) -> Bytes {
        let identity = BlockIdentity { file: Some(file), ..self.identity() };
        let tail = Trailer { identity, ..self.trailer }.encode();
        Bytes::from([self.payload(), &tail].concat())
    }

    pub(super) fn identity(&self) -> BlockIdentity {
        self.trailer.identity
    }

    /// How full the filter is, from 0 to 1, read in full: the share of ones in a Bloom filter (about one half when it
    /// holds what it was planned for), of counters or slots in use in kinds that have those. `None` for kinds
    /// without a fill.
    #[must_use]
    pub fn fill_ratio(&self) -> Option<f64> {
        self.shape.fill_ratio(self.payload())
    }

    /// What the trailer says to the kind of shape `S`, and the payload.
    pub(super) fn parts<S: FilterShape>(&self) -> Result<(&EncodedShape, &[u8]), BlockError> {
        if self.trailer.kind == S::KIND {
            Ok((&self.trailer.shape, self.payload()))
        } else {
            Err(BlockError::Kind { expected: S::KIND, got: self.trailer.kind })
        }
    }

    pub(super) fn shape(&self) -> &Shape {
        &self.shape
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

    /// The payload. A `D` that hands out fewer bytes than at first gets "may be present" for answers.
    #[expect(clippy::cast_possible_truncation, reason = "opened: the payload's length is below the slice's")]
    fn payload(&self) -> &[u8] {
        self.data.as_ref().get(..self.trailer.shape.payload_bytes as usize).unwrap_or_default()
    }
}

impl<D: AsRef<[u8]>> fmt::Debug for FilterBlock<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterBlock").field("info", &self.info()).finish_non_exhaustive()
    }
}

/// One key, about to be asked of many filters.
///
/// ```
/// use sstfilter::{KeyHasher, PreparedKey};
///
/// let mut key = PreparedKey::new(KeyHasher::default().hash(b"apple"));
/// # let _ = &mut key;
/// // for filter in filters { filter.may_contain_prepared(&mut key); }
/// ```
#[derive(Clone, Debug)]
pub struct PreparedKey {
    hash: KeyHash,
    /// Mask of the last Bloom shape met, and its number of probes: files of one store mostly share it.
    mask: LineMask,
    /// 0 before the first.
    probes: u8,
}

impl PreparedKey {
    /// Prepares nothing yet: each part is computed when a filter first needs it.
    #[must_use]
    pub const fn new(hash: KeyHash) -> Self {
        Self { hash, mask: [0; 8], probes: 0 }
    }

    /// The key's hash.
    #[must_use]
    pub const fn hash(&self) -> KeyHash {
        self.hash
    }

    #[inline]
    pub(super) fn line_mask(&mut self, probes: u8) -> &LineMask {
        if self.probes != probes {
            self.mask = line::mask(self.hash, probes);
            self.probes = probes;
        }
        &self.mask
    }
}

/// The answers of a filter for a batch of keys (bit `i` is set when key `i` may be present), or of a set of filters for one
/// key (bit `i` is set when filter `i` may contain it).
///
/// ```
/// use sstfilter::HitBitmap;
///
/// let hits = HitBitmap::default();
/// assert_eq!(hits.count(), 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HitBitmap {
    words: Vec<u64>,
    length: usize,
}

impl HitBitmap {
    /// Empties the bitmap and gives it `length` clear bits; its memory is kept.
    pub fn reset(&mut self, length: usize) {
        self.words.clear();
        self.words.resize(length.div_ceil(64), 0);
        self.length = length;
    }

    /// Sets all bits.
    pub(crate) fn set_all(&mut self, length: usize) {
        self.reset(length);
        self.words.fill(u64::MAX);
        if let (Some(last), used @ 1..) = (self.words.last_mut(), length % 64) {
            *last = (1 << used) - 1;
        }
    }

    /// `length` clear bits, in words to be written over.
    pub(super) fn cleared(&mut self, length: usize) -> &mut [u64] {
        self.reset(length);
        &mut self.words
    }

    pub(super) fn words_mut(&mut self) -> impl Iterator<Item = &mut u64> {
        self.words.iter_mut()
    }

    /// Whether key `index` may be present; `true` beyond the end.
    #[must_use]
    pub fn may_contain(&self, index: usize) -> bool {
        index >= self.length || self.words.get(index / 64).is_none_or(|word| word >> (index % 64) & 1 == 1)
    }

    /// Keys asked for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether no key was asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Keys that may be present.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// The positions of the keys that may be present, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.length).filter(|&index| self.may_contain(index))
    }
}
