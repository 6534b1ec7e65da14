//! The policy of blocked Bloom filters, and the builder that every other policy falls back to.

use core::fmt;
use std::time::Instant;

use super::collect::HashBuffer;
use super::key_hashing::KeyHashing;
use super::{BuildContext, BuildReport, BuiltFilter, FilterBuilder, FilterPolicy, SelfCheck};
use crate::block::trailer::MAX_TAIL_BYTES;
use crate::block::{BlockIdentity, EncodeRequest, FallbackReason, FilterBlock, HitBitmap, block_bytes, encode};
use crate::codec::AlignedBuffer;
use crate::error::ConfigError;
use crate::filter::blocked_bloom::{BloomBits, BloomShape, expected_fpr, smallest_size_for};
use crate::filter::{FilterKind, FilterShape};
use crate::hash::KeyHash;
use crate::units::{BitsPerKey, FalsePositiveRate};

/// Blocked Bloom filters of one size: the default policy, at 10 bits per key.
///
/// ```
/// use sstfilter::{BitsPerKey, BloomPolicy, BuildContext, FilterPolicy, KeyHasher};
///
/// let policy = BloomPolicy::new(BitsPerKey::new(12.0)?);
/// let hasher = KeyHasher::default();
/// let mut builder = policy.builder(&BuildContext::new(&hasher)).expect("it never declines");
/// builder.add_key(b"apple");
/// let built = builder.finish();
/// assert_eq!(built.report.distinct_keys, 1);
/// # Ok::<(), sstfilter::ConfigError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct BloomPolicy {
    size: BitsPerKey,
    self_check: SelfCheck,
}

/// The number of keys for which rates are turned into sizes: large enough that the rate does not
/// depend on it any more, and one for all files, so that a store's filters have one rate.
pub(crate) const RATE_KEYS: u64 = 1 << 24;

impl BloomPolicy {
    /// Filters of `size`.
    #[must_use]
    pub fn new(size: BitsPerKey) -> Self {
        Self { size, self_check: SelfCheck::Off }
    }

    /// The smallest filters whose expected rate is at most `rate`.
    ///
    /// # Errors
    ///
    /// [`ConfigError::BloomRate`] when 100 bits per key are not enough.
    pub fn for_rate(rate: FalsePositiveRate) -> Result<Self, ConfigError> {
        let size = smallest_size_for(RATE_KEYS, rate);
        if expected_fpr(RATE_KEYS, size) > rate.get() {
            return Err(ConfigError::BloomRate { got: rate.get() });
        }
        Ok(Self::new(size))
    }

    /// Whether finished filters are asked for all of their keys.
    #[must_use]
    pub fn with_self_check(self, self_check: SelfCheck) -> Self {
        Self { self_check, ..self }
    }

    /// The exact bytes of the block for `keys` keys, and 8 more if it is bound to a file; `None` beyond the format's limit of 32 GiB.
    ///
    /// ```
    /// use sstfilter::BloomPolicy;
    ///
    /// assert_eq!(BloomPolicy::default().block_bytes(1_000), Some(20 * 64 + 36));
    /// ```
    #[must_use]
    pub fn block_bytes(&self, keys: u64) -> Option<u64> {
        bloom_block_bytes(keys, self.size)
    }
}

impl FilterPolicy for BloomPolicy {
    fn name(&self) -> &'static str {
        "bloom"
    }

    fn builder(&self, context: &BuildContext) -> Option<Box<dyn FilterBuilder>> {
        let request = BloomRequest {
            size: self.size,
            requested: FilterKind::BLOCKED_BLOOM,
            reason: FallbackReason::None,
            self_check: self.self_check,
            memory_budget: context.memory_budget,
        };
        Some(Box::new(BloomBuilder::<BloomBits>::new(request, context)))
    }
}

/// The exact bytes of a blocked Bloom block.
pub(super) fn bloom_block_bytes(keys: u64, size: BitsPerKey) -> Option<u64> {
    BloomBits::block_bytes(keys, size)
}

/// What a Bloom filter is to be, and on whose behalf.
#[derive(Clone, Copy, Debug)]
pub(super) struct BloomRequest {
    pub(super) size: BitsPerKey,
    pub(super) requested: FilterKind,
    pub(super) reason: FallbackReason,
    pub(super) self_check: SelfCheck,
    pub(super) memory_budget: Option<u64>,
}

/// The bits of a kind of Bloom filter, as [`BloomBuilder`] fills them.
pub(super) trait BitsInMaking: Sized + fmt::Debug + Send + 'static {
    type Shape: FilterShape + Copy;

    /// The shape for `keys` keys at `size`; `None` beyond the format's limit.
    fn shape_for(keys: u64, size: BitsPerKey) -> Option<Self::Shape>;

    /// No bit set, `tail_capacity` bytes free behind them, and `scratch_limit` bytes to be used beside them. `None`
    /// when there is no such memory.
    fn new(shape: Self::Shape, tail_capacity: usize, scratch_limit: Option<u64>) -> Option<Self>;

    fn insert(&mut self, hash: KeyHash);

    fn insert_all(&mut self, hashes: &[KeyHash]);

    fn shape(&self) -> Self::Shape;

    /// The most that inserting has taken beside the bits.
    fn scratch_bytes(&self) -> u64;

    fn into_payload(self) -> AlignedBuffer;

    /// The exact bytes of a block.
    fn block_bytes(keys: u64, size: BitsPerKey) -> Option<u64> {
        Self::shape_for(keys, size).map(|shape| block_bytes(&shape))
    }
}

impl BitsInMaking for BloomBits {
    type Shape = BloomShape;

    fn shape_for(keys: u64, size: BitsPerKey) -> Option<BloomShape> {
        BloomShape::for_keys(keys, size)
    }

    fn new(shape: BloomShape, tail_capacity: usize, scratch_limit: Option<u64>) -> Option<Self> {
        Some(Self::new(shape, tail_capacity)?.with_scratch_limit(scratch_limit))
    }

    fn insert(&mut self, hash: KeyHash) {
        self.insert(hash);
    }

    fn insert_all(&mut self, hashes: &[KeyHash]) {
        self.insert_all(hashes);
    }

    fn shape(&self) -> BloomShape {
        self.shape()
    }

    fn scratch_bytes(&self) -> u64 {
        self.scratch_bytes()
    }

    fn into_payload(self) -> AlignedBuffer {
        self.into_payload()
    }
}

/// Builds one Bloom filter: blocked, unless said otherwise.
#[derive(Debug)]
pub(super) struct BloomBuilder<B = BloomBits> {
    request: BloomRequest,
    hashing: KeyHashing,
    state: State<B>,
}

/// With the number of keys known, bits are set as keys arrive; otherwise hashes wait for `finish`.
#[derive(Debug)]
enum State<B> {
    Streaming { bits: B, last: Option<KeyHash>, added: u64, distinct: u64 },
    Buffering(HashBuffer),
}

impl<B: BitsInMaking> BloomBuilder<B> {
    pub(super) fn new(request: BloomRequest, context: &BuildContext) -> Self {
        let bits = context
            .expected_keys
            .filter(|_| request.self_check == SelfCheck::Off)
            .and_then(|keys| B::new(B::shape_for(keys, request.size)?, MAX_TAIL_BYTES, request.memory_budget));
        let state = match bits {
            Some(bits) => State::Streaming { bits, last: None, added: 0, distinct: 0 },
            None => State::Buffering(HashBuffer::default()),
        };
        Self { request, hashing: KeyHashing::new(context), state }
    }
}

impl<B: BitsInMaking> FilterBuilder for BloomBuilder<B> {
    fn add_key(&mut self, key: &[u8]) {
        let hash = self.hashing.hash(key);
        self.add_hash(hash);
    }

    fn add_hash(&mut self, hash: KeyHash) {
        match &mut self.state {
            State::Streaming { bits, last, added, distinct } => {
                *added += 1;
                if *last != Some(hash) {
                    *last = Some(hash);
                    *distinct += 1;
                    bits.insert(hash);
                }
            }
            State::Buffering(buffer) => buffer.add(hash),
        }
    }

    fn add_hashes(&mut self, hashes: &[KeyHash]) {
        match &mut self.state {
            State::Streaming { bits, last, added, distinct } => {
                *added += hashes.len() as u64;
                *distinct += count_fresh(*last, hashes);
                *last = hashes.last().copied().or(*last);
                // A key that comes again sets no new bit: skipping it would cost more.
                bits.insert_all(hashes);
            }
            State::Buffering(buffer) => buffer.add_all(hashes),
        }
    }

    fn estimated_bytes(&self) -> u64 {
        let unbound = match &self.state {
            State::Streaming { bits, .. } => block_bytes(&bits.shape()),
            State::Buffering(buffer) => B::block_bytes(buffer.len(), self.request.size).unwrap_or(0),
        };
        unbound + self.hashing.identity().file_bytes()
    }

    fn finish(self: Box<Self>) -> BuiltFilter {
        let started = Instant::now();
        if let Some(refusal) = self.hashing.refusal(self.request.requested) {
            return refusal;
        }
        let identity = self.hashing.identity();
        let mut built = match self.state {
            State::Streaming { bits, added, distinct, .. } => seal(self.request, identity, bits, added, distinct),
            State::Buffering(buffer) => {
                build_bits::<B>(self.request, identity, buffer.as_slice(), buffer.added(), buffer.bytes())
            }
        };
        built.report.finish_time = started.elapsed();
        built
    }
}

/// How many of `hashes` differ from the one before them, `last` being before the first.
fn count_fresh(last: Option<KeyHash>, hashes: &[KeyHash]) -> u64 {
    let first = u64::from(hashes.first().is_some_and(|&first| last != Some(first)));
    let later = hashes.iter().zip(hashes.iter().skip(1)).filter(|(before, hash)| before != hash);
    first + later.count() as u64
}

/// Builds the blocked Bloom filter of buffered `hashes`, of which `added` came in and which take `buffer_bytes`.
pub(super) fn build_from(
    request: BloomRequest,
    identity: BlockIdentity,
    hashes: &[KeyHash],
    added: u64,
    buffer_bytes: u64,
) -> BuiltFilter {
    build_bits::<BloomBits>(request, identity, hashes, added, buffer_bytes)
}

fn build_bits<B: BitsInMaking>(
    request: BloomRequest,
    identity: BlockIdentity,
    hashes: &[KeyHash],
    added: u64,
    buffer_bytes: u64,
) -> BuiltFilter {
    let distinct = hashes.len() as u64;
    let Some(shape) = B::shape_for(distinct, request.size) else {
        return without_filter(request, FallbackReason::TooManyKeys, added, distinct);
    };
    let Some(mut bits) = B::new(shape, MAX_TAIL_BYTES, request.memory_budget) else {
        return without_filter(request, FallbackReason::MemoryBudget, added, distinct);
    };
    bits.insert_all(hashes);
    let mut built = seal(request, identity, bits, added, distinct);
    built.report.peak_build_bytes += buffer_bytes;
    let denied = request.self_check == SelfCheck::On && !contains_all(built.block.as_deref(), hashes);
    if denied {
        return without_filter(request, FallbackReason::SelfCheckFailed, added, distinct);
    }
    built
}

/// Whether a block, if there is one, contains every one of `hashes`.
pub(super) fn contains_all(block: Option<&[u8]>, hashes: &[KeyHash]) -> bool {
    let Some(block) = block else { return true };
    let mut hits = HitBitmap::default();
    FilterBlock::open_unverified(block).is_ok_and(|filter| {
        hashes.chunks(1 << 14).all(|asked| {
            filter.may_contain_batch(asked, &mut hits);
            hits.count() == asked.len() as u64
        })
    })
}

fn seal<B: BitsInMaking>(
    request: BloomRequest,
    identity: BlockIdentity,
    bits: B,
    added: u64,
    distinct: u64,
) -> BuiltFilter {
    let (shape, scratch_bytes) = (bits.shape(), bits.scratch_bytes());
    let BloomRequest { requested, reason, .. } = request;
    let block_request = EncodeRequest { requested, reason, identity, keys: distinct };
    let Some(block) = encode(&shape, bits.into_payload(), block_request) else {
        return without_filter(request, FallbackReason::TooManyKeys, added, distinct);
    };
    let report = BuildReport {
        used: Some(B::Shape::KIND),
        reason,
        keys_added: added,
        distinct_keys: distinct,
        attempts: 1,
        block_bytes: block.len() as u64,
        expected_fpr: shape.expected_fpr(distinct),
        peak_build_bytes: block.len() as u64 + scratch_bytes,
        ..BuildReport::new(requested)
    };
    BuiltFilter::new(Some(block), report)
}

/// The worst outcome: the file is written without a filter.
fn without_filter(request: BloomRequest, reason: FallbackReason, added: u64, distinct: u64) -> BuiltFilter {
    let report =
        BuildReport { reason, keys_added: added, distinct_keys: distinct, ..BuildReport::new(request.requested) };
    BuiltFilter::new(None, report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHasher;

    fn build(context: &BuildContext, keys: u32) -> BuiltFilter {
        let mut builder = BloomPolicy::default().builder(context).unwrap();
        (0..keys).for_each(|key| builder.add_key(&key.to_le_bytes()));
        builder.finish()
    }

    #[test]
    fn streaming_and_buffering_give_the_same_bytes() {
        let context = BuildContext::new(&KeyHasher::default());
        for keys in [0, 1, 51, 52, 1_000] {
            let buffered = build(&context, keys);
            let streamed = build(&context.clone().with_expected_keys(keys.into()), keys);
            assert_eq!(buffered.block, streamed.block);
            assert_eq!(buffered.report.block_bytes, BloomPolicy::default().block_bytes(keys.into()).unwrap());
            assert!(streamed.report.peak_build_bytes <= buffered.report.peak_build_bytes);
        }
    }

    #[test]
    fn slices_single_hashes_and_mixes_of_both_give_the_same_bytes_and_counts() {
        let hashes: Vec<KeyHash> = (0..2_000).map(|key| KeyHash::from_remixed(key / 3 * 7 % 1_000)).collect();
        for size in [1, 2, 3, 100, 255, 256, 257, 1_999, 2_000] {
            for context in [
                BuildContext::new(&KeyHasher::default()).with_expected_keys(700),
                BuildContext::new(&KeyHasher::default()),
            ] {
                let [mut single, mut slices, mut mixed] =
                    [(); 3].map(|()| BloomPolicy::default().builder(&context).unwrap());
                hashes.iter().for_each(|&hash| single.add_hash(hash));
                hashes.chunks(size).for_each(|chunk| slices.add_hashes(chunk));
                for (number, chunk) in hashes.chunks(size).enumerate() {
                    mixed.add_hashes(&[]);
                    if number % 2 == 0 {
                        mixed.add_hashes(chunk);
                    } else {
                        chunk.iter().for_each(|&hash| mixed.add_hash(hash));
                    }
                }
                let single = single.finish();
                assert!(single.report.distinct_keys < 700 && contains_all(single.block.as_deref(), &hashes));
                for built in [slices.finish(), mixed.finish()] {
                    assert_eq!(built.block, single.block, "slices of {size}");
                    assert_eq!(built.report.keys_added, 2_000);
                    assert_eq!(built.report.distinct_keys, single.report.distinct_keys);
                }
            }
        }
    }

    #[test]
    fn more_keys_than_expected_are_all_found_and_the_rate_says_so() {
        let context = BuildContext::new(&KeyHasher::default()).with_expected_keys(100);
        let built = build(&context, 10_000);
        let block = built.block.unwrap();
        let filter = FilterBlock::open_unverified(&block).unwrap();
        assert!((0..10_000_u32).all(|key| filter.may_contain(KeyHasher::default().hash(&key.to_le_bytes()))));
        assert!(built.report.expected_fpr > 0.9);
    }

    #[test]
    fn an_absurd_expectation_does_not_allocate_it() {
        for expected in [u64::MAX, 1 << 50] {
            let built = build(&BuildContext::new(&KeyHasher::default()).with_expected_keys(expected), 10);
            assert_eq!(built.report.distinct_keys, 10);
        }
    }

    #[test]
    fn a_self_check_asks_the_finished_filter_for_every_key() {
        let policy = BloomPolicy::default().with_self_check(SelfCheck::On);
        let context = BuildContext::new(&KeyHasher::default()).with_expected_keys(3);
        let mut builder = policy.builder(&context).unwrap();
        (0..3).for_each(|key| builder.add_hash(KeyHash::from_remixed(key)));
        let built = builder.finish();
        assert!(contains_all(built.block.as_deref(), &[KeyHash::from_remixed(2)]));
        assert!(!contains_all(built.block.as_deref(), &[KeyHash::from_remixed(9), KeyHash::from_remixed(10)]));
    }
}
