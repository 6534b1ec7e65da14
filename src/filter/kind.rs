//! The trait that defines a kind of filter; each kind implements it in its folder.

use core::fmt;

use super::FilterKind;
use super::batch;
use super::cache::HASHES_AHEAD;
use crate::codec::AlignedBuffer;
use crate::error::{BlockError, ConfigError};
use crate::hash::KeyHash;
use crate::units::{BitsPerKey, Sizing};

/// The most distinct keys that a block can record: their number has 40 bits.
pub const MAX_KEYS: u64 = (1 << 40) - 1;

/// The most bytes of payload that a block can record: their number in words of 8 bytes has 32 bits.
pub const MAX_PAYLOAD_BYTES: u64 = u32::MAX as u64 * 8;

/// The most parameter words that a block can carry: their number has four bits.
pub(crate) const MAX_PARAM_WORDS: usize = 15;

/// Bytes of the fixed part of a block's trailer.
pub(crate) const TRAILER_BYTES: usize = 32;

/// The number of keys for which sizes are compared with rates: large enough that neither depends on it any more, and
/// one for all files, so that a store's filters have one rate.
pub(crate) const RATE_KEYS: u64 = 1 << 24;

/// The changes to a filter's keys while it is in use, from fewest to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Updates {
    /// None: all keys are known when it is built.
    None,
    /// Keys are added.
    Insert,
    /// Keys are added and removed.
    InsertAndRemove,
}

/// How many threads add and remove keys while the filter is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Writers {
    /// One, without concurrent readers; or all access goes through an existing lock.
    One,
    /// Many at once, with concurrent readers.
    Many,
}

/// The operations of a kind beside being built once and probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Abilities {
    /// The changes to its keys once it is in use.
    pub updates: Updates,
    /// How many threads can make them at once.
    pub writers: Writers,
}

impl Abilities {
    /// Those of a filter that is built once.
    pub const STATIC: Self = Self { updates: Updates::None, writers: Writers::One };
    /// Keys can be added, by one thread at a time.
    pub const INSERT: Self = Self { updates: Updates::Insert, writers: Writers::One };
    /// Keys can be added and removed, by one thread at a time.
    pub const INSERT_AND_REMOVE: Self = Self { updates: Updates::InsertAndRemove, writers: Writers::One };
    /// Keys can be added by many threads at once.
    pub const INSERT_BY_MANY: Self = Self { updates: Updates::Insert, writers: Writers::Many };

    /// Abilities that have no name above.
    #[must_use]
    pub const fn new(updates: Updates, writers: Writers) -> Self {
        Self { updates, writers }
    }
}

/// What building a filter may use.
///
/// ```
/// use sstfilter::kind::BuildLimits;
///
/// let limits = BuildLimits::default();
/// assert_eq!((limits.scratch_bytes, limits.threads), (None, 1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuildLimits {
    /// Limit on the bytes that a streamed build uses beside the payload, if any. For other kinds the builder compares
    /// [`build_bytes`](Kind::build_bytes) with the memory budget.
    pub scratch_bytes: Option<u64>,
    /// The most threads that work at a time, with the calling one: at least 1.
    pub threads: usize,
}

impl Default for BuildLimits {
    /// One thread, and any amount of memory.
    fn default() -> Self {
        Self { scratch_bytes: None, threads: 1 }
    }
}

/// A kind of filter. A value of the type is the kind *configured*: a fuse filter's value knows how many cells a key has
/// and how long fingerprints are.
///
/// # How to add a kind to the library
///
/// 1. Write `src/filter/KIND/`: the shape ([`FilterShape`]), the build, the probe, and this trait. The text above its
///    `mod.rs` says what the filter is, what it costs, and when to choose it.
/// 2. Give it an entry in the table of kinds, in `src/ids.rs`. Blocks, policies, [`all`](crate::kind::all), the
///    advice, the command line, fuzzing and the tests that go through all kinds then know it.
/// 3. Describe its bytes in a section of FORMAT.md with test vectors, and add fixtures. ARCHITECTURE.md lists the
///    files, and the commands that measure its times.
///
/// # How to bring a kind of one's own
///
/// Implement [`FilterShape`] with a number from 128 to 255 and this trait, in any crate.
/// [`KindPolicy::new`](crate::KindPolicy::new) builds blocks of it, and `examples/custom_kind.rs` shows all of it.
///
/// # The contract
///
/// `configure (plan build)*`. [`plan`](Self::plan) depends on nothing but the number of keys, [`build`](Self::build) on
/// nothing but the plan and the set of hashes, so the same keys give the same bytes everywhere. A filter that was built
/// contains every hash that it was built from: whatever cannot be built is an error, and a blocked Bloom filter takes
/// its place.
pub trait Kind: Clone + fmt::Debug + Send + Sync + 'static {
    /// The parameters that a block records, with the code that probes the payload.
    type Shape: FilterShape;

    /// A filter that accepts keys as they arrive, or [`NotStreamed`].
    type Stream: StreamedPayload;

    /// The kind's name: lower-case, words joined by hyphens.
    const NAME: &'static str;

    /// When to choose it: the predicate of a sentence whose subject is its name.
    const STRENGTH: &'static str = "";

    /// The operations of its filters beside being built once.
    const ABILITIES: Abilities;

    /// Further configurations, listed separately.
    const VARIANTS: &'static [Variant<Self>] = &[];

    /// Files with fewer keys get a blocked Bloom filter, unless a policy sets another minimum.
    const DEFAULT_MIN_KEYS: u64 = 0;

    /// Whether a finished block has exactly the planned size. If not, its size depends on the hashes.
    const HAS_EXACT_SIZE: bool = true;

    /// Whether filters are [streamed](Self::stream): built from hashes in any order, possibly repeated.
    const IS_STREAMED: bool = false;

    /// Whether [`build_single_attempt`](Self::build_single_attempt) can succeed.
    const TAKES_ROUGH_ORDER: bool = false;

    /// The kind with filters of this size.
    ///
    /// # Errors
    ///
    /// [`ConfigError::RateOutOfRange`], [`ConfigError::SizeOutOfRange`] and [`ConfigError::OutOfRange`] where the kind
    /// has no such filters.
    fn configure(sizing: Sizing) -> Result<Self, ConfigError>;

    /// The shape of a filter of `keys` distinct keys: exactly, or about ([`HAS_EXACT_SIZE`](Self::HAS_EXACT_SIZE)).
    ///
    /// # Errors
    ///
    /// The reason to fall back to another kind. An implementation need not check [`MAX_KEYS`] and
    /// [`MAX_PAYLOAD_BYTES`]: the caller does.
    fn plan(&self, keys: u64) -> Result<Self::Shape, FallbackReason>;

    /// The most bytes that building takes beside the hashes and the finished block.
    fn build_bytes(&self, keys: u64, plan: &Self::Shape) -> u64;

    /// The most bytes by which each thread but the first raises [`build_bytes`](Self::build_bytes).
    fn thread_bytes(&self, _keys: u64, _plan: &Self::Shape) -> u64 {
        0
    }

    /// Builds the filter of `hashes`: distinct and ascending, unless the kind is streamed. The bytes do not depend on
    /// `limits`.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be built.
    fn build(
        &self,
        plan: &Self::Shape,
        hashes: &[KeyHash],
        limits: BuildLimits,
    ) -> Result<BuiltPayload<Self::Shape>, BuildFailure> {
        let mut stream = self.stream(plan, limits).ok_or(BuildFailure::NoMemory)?;
        stream.insert_all(hashes);
        Ok(BuiltPayload::of_stream(*plan, stream))
    }

    /// Builds the same filter from hashes that are only partitioned into windows. `None` when the first attempt fails
    /// or a hash repeats. `spare` is a buffer with capacity for about as many hashes.
    fn build_single_attempt(
        &self,
        _plan: &Self::Shape,
        _hashes: &[KeyHash],
        _spare: Vec<KeyHash>,
        _limits: BuildLimits,
    ) -> Option<BuiltPayload<Self::Shape>> {
        None
    }

    /// An empty filter that accepts hashes as they arrive; `None` when allocation fails, and for kinds that are not
    /// streamed.
    fn stream(&self, _plan: &Self::Shape, _limits: BuildLimits) -> Option<Self::Stream> {
        None
    }

    /// The size above which a finished block is discarded for a Bloom filter, for kinds whose size depends on the
    /// hashes.
    ///
    /// `None` means no limit, the right choice for kinds whose size follows from the number of keys: a caller that
    /// requests such a kind accepts that size, even if it exceeds Bloom's.
    fn most_block_bytes(&self, _keys: u64, _plan: &Self::Shape) -> Option<u64> {
        None
    }

    /// The size of the blocked Bloom filter to fall back to; `None` chooses one with the rate of a large filter of this
    /// kind.
    fn fallback_size(&self) -> Option<BitsPerKey> {
        None
    }
}

/// A named configuration of a kind.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Variant<K> {
    /// Its name.
    pub name: &'static str,
    /// The variant with filters of some size.
    pub configure: fn(Sizing) -> Result<K, ConfigError>,
}

impl<K> Variant<K> {
    /// A variant of this name.
    #[must_use]
    pub const fn new(name: &'static str, configure: fn(Sizing) -> Result<K, ConfigError>) -> Self {
        Self { name, configure }
    }
}

/// A payload that accepts hashes in any order, possibly repeated.
pub trait StreamedPayload: fmt::Debug + Send + Sized + 'static {
    /// Inserts a hash.
    fn insert(&mut self, hash: KeyHash);

    /// Inserts many.
    fn insert_all(&mut self, hashes: &[KeyHash]);

    /// Inserts many, and returns how many of them differ from the one before; `last` precedes the first.
    fn insert_and_count(&mut self, last: Option<KeyHash>, hashes: &[KeyHash]) -> u64 {
        for_each_chunk(last, hashes, |chunk| self.insert_all(chunk))
    }

    /// The most bytes that inserting has used beside the payload.
    fn scratch_bytes(&self) -> u64 {
        0
    }

    /// The payload of all hashes.
    fn into_payload(self) -> Payload;
}

/// Passes `hashes` to `insert` in chunks, and returns how many of them differ from the one before; `last` precedes the
/// first.
///
/// A chunk stays in the first-level cache between counting and inserting, and is one that inserting the chunk before
/// has prefetched.
pub(crate) fn for_each_chunk(mut last: Option<KeyHash>, hashes: &[KeyHash], mut insert: impl FnMut(&[KeyHash])) -> u64 {
    let mut differing = 0;
    for chunk in hashes.chunks(HASHES_AHEAD) {
        let later = chunk.iter().zip(chunk.iter().skip(1)).filter(|(before, hash)| before != hash);
        differing += u64::from(last.as_ref() != chunk.first()) + later.count() as u64;
        last = chunk.last().copied();
        insert(chunk);
    }
    differing
}

/// The stream type of kinds that are not streamed. It has no values.
#[derive(Clone, Copy, Debug)]
pub enum NotStreamed {}

impl StreamedPayload for NotStreamed {
    fn insert(&mut self, _hash: KeyHash) {}

    fn insert_all(&mut self, _hashes: &[KeyHash]) {}

    fn into_payload(self) -> Payload {
        match self {}
    }
}

/// A finished payload: bytes that start on a cache line, with capacity for the trailer after them.
#[derive(Debug)]
pub struct Payload(pub(crate) AlignedBuffer);

impl Payload {
    /// A copy of `bytes`; `None` when allocation fails. Their number must be a multiple of 8.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Option<Self> {
        let mut buffer = AlignedBuffer::zeroed(bytes.len() as u64)?;
        buffer.as_mut_slice().copy_from_slice(bytes);
        Some(Self(buffer))
    }
}

/// A filter's parameters in up to 15 words of 32 bits, whose meaning is private to the kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParamWords {
    words: [u32; MAX_PARAM_WORDS],
    count: u8,
}

impl ParamWords {
    /// The words.
    #[must_use]
    pub fn as_slice(&self) -> &[u32] {
        self.words.get(..usize::from(self.count)).unwrap_or_default()
    }

    pub(crate) fn count(&self) -> u8 {
        self.count
    }
}

impl FromIterator<u32> for ParamWords {
    /// The first 15 words.
    fn from_iter<I: IntoIterator<Item = u32>>(words: I) -> Self {
        let mut params = Self::default();
        for (slot, word) in params.words.iter_mut().zip(words) {
            *slot = word;
            params.count += 1;
        }
        params
    }
}

/// The fields of a block's trailer that belong to the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EncodedShape {
    /// The kind's own parameters.
    pub params: ParamWords,
    /// The salt with which the build succeeded, 0 to 15.
    pub salt: u8,
    /// Distinct keys.
    pub keys: u64,
    /// Length of the payload.
    pub payload_bytes: u64,
}

impl EncodedShape {
    /// Bytes of the whole unbound block.
    pub(crate) fn block_bytes(&self) -> u64 {
        self.payload_bytes + TRAILER_BYTES as u64 + u64::from(self.params.count()) * 4
    }

    /// The kind's parameters, `N` words; `expected` names their number and the kind.
    pub(crate) fn words<const N: usize>(&self, expected: &'static str) -> Result<[u32; N], BlockError> {
        let got = self.params.count().into();
        let words = self.params.as_slice().try_into();
        words.map_err(|_| BlockError::Field { field: "parameter words", expected, got })
    }
}

/// Refuses a field that no writer writes.
pub(crate) fn require(
    is_sound: bool,
    field: &'static str,
    expected: &'static str,
    got: impl Into<u64>,
) -> Result<(), BlockError> {
    if is_sound { Ok(()) } else { Err(BlockError::Field { field, expected, got: got.into() }) }
}

/// The shape of one filter: the parameters that a probe needs beside the payload.
///
/// Probes never fail and never read beyond the payload: if it is too short, they answer "may be present".
pub trait FilterShape: Copy + fmt::Debug + Send + Sync + 'static {
    /// The kind that the shape belongs to.
    const KIND: FilterKind;

    /// Decodes a shape, and checks every field and their consistency with the payload's length.
    ///
    /// # Errors
    ///
    /// [`BlockError::Field`] for a value that no writer writes.
    fn decode(encoded: &EncodedShape) -> Result<Self, BlockError>;

    /// The kind's parameters, as [`decode`](Self::decode) reads them.
    fn params(&self) -> ParamWords;

    /// Which of the kind's salts the build ended with, 0 to 15.
    fn salt(&self) -> u8 {
        0
    }

    /// Length of the payload, exactly: a multiple of 8.
    fn payload_bytes(&self) -> u64;

    /// The false positive rate of a filter of this shape with `keys` distinct keys.
    fn expected_fpr(&self, keys: u64) -> f64;

    /// The parameters by name, for display.
    fn describe(&self) -> ShapeFields;

    /// How full the filter is, from 0 to 1; `None` for kinds that do not fill up. Reads the whole payload.
    fn fill_ratio(&self, _payload: &[u8]) -> Option<f64> {
        None
    }

    /// The largest smaller shape with at most `most_bytes` of payload that [`shrink_into`](Self::shrink_into) can fill.
    /// `None` when there is none, and for kinds whose filters cannot shrink.
    fn shrunk(&self, _most_bytes: u64) -> Option<Self> {
        None
    }

    /// The largest shape worth choosing among those with fewer than `below_bytes` of payload, of all that
    /// [`shrunk`](Self::shrunk) gives: for kinds that shrink to almost any size.
    fn shrink_step(&self, below_bytes: u64) -> Option<Self> {
        self.shrunk(below_bytes.checked_sub(1)?)
    }

    /// Writes the payload of `smaller`, which [`shrunk`](Self::shrunk) gave, from a payload of this shape that was
    /// verified. `out` is zeroed and has its length. Whatever the payload contained must be contained in what is
    /// written. `false` when it cannot be done.
    fn shrink_into(&self, _smaller: &Self, _payload: &[u8], _out: &mut [u8]) -> bool {
        false
    }

    /// Whether the key of `hash` may have been added.
    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool;

    /// Probes many: bit `i % 64` of word `i / 64` of `hits` becomes the answer for hash `i`.
    fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], hits: &mut [u64]) {
        probe_one_by_one(self, payload, hashes, hits);
    }

    /// The shape's fields for a trailer.
    fn encode(&self, keys: u64) -> EncodedShape {
        EncodedShape { params: self.params(), salt: self.salt(), keys, payload_bytes: self.payload_bytes() }
    }

    /// Bytes of the whole unbound block.
    fn block_bytes(&self) -> u64 {
        self.encode(0).block_bytes()
    }
}

/// [`FilterShape::may_contain_batch`] by [`FilterShape::may_contain`].
pub(crate) fn probe_one_by_one(shape: &impl FilterShape, payload: &[u8], hashes: &[KeyHash], hits: &mut [u64]) {
    batch::answers(hashes, hits, |hash| shape.may_contain(payload, hash));
}

/// A filter's shape for people: names with values, as in `lines 1, probes 7`.
///
/// ```
/// use sstfilter::kind::ShapeFields;
///
/// let fields = ShapeFields::default().with("lines", 1).with("probes", 7);
/// assert_eq!(fields.to_string(), "lines 1, probes 7");
/// assert_eq!(fields.get("probes"), Some("7"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShapeFields(Vec<(&'static str, String)>);

impl ShapeFields {
    /// Appends a field.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.0.push((name, value.to_string()));
        self
    }

    /// The value of the first field of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find_map(|(found, value)| (found == name).then_some(value))
    }

    /// The fields, in the order in which the kind gives them.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }
}

impl fmt::Display for ShapeFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (name, value)) in self.iter().enumerate() {
            let separator = if position == 0 { "" } else { ", " };
            write!(f, "{separator}{name} {value}")?;
        }
        Ok(())
    }
}

/// A finished payload, and its shape.
#[derive(Debug)]
pub struct BuiltPayload<S> {
    pub(crate) shape: S,
    pub(crate) payload: AlignedBuffer,
    /// Attempts made; 1 for kinds that always succeed.
    pub(crate) attempts: u32,
    /// The most bytes held at once, the input hashes not included.
    pub(crate) peak_bytes: u64,
}

impl<S: FilterShape> BuiltPayload<S> {
    /// A payload built in one attempt, without memory beside itself.
    #[must_use]
    pub fn new(shape: S, payload: Payload) -> Self {
        let peak_bytes = payload.0.as_slice().len() as u64;
        Self { shape, payload: payload.0, attempts: 1, peak_bytes }
    }

    /// The payload of a finished stream.
    pub(crate) fn of_stream(shape: S, stream: impl StreamedPayload) -> Self {
        let scratch_bytes = stream.scratch_bytes();
        let built = Self::new(shape, stream.into_payload());
        Self { peak_bytes: built.peak_bytes + scratch_bytes, ..built }
    }
}

/// What [`Kind::build`] gives.
pub(crate) type BuildResult<S> = Result<BuiltPayload<S>, BuildFailure>;

/// Why there is no payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildFailure {
    /// More keys than the format can record.
    TooManyKeys,
    /// Allocation failed.
    NoMemory,
    /// No attempt succeeded.
    AttemptsExhausted,
}

impl From<BuildFailure> for FallbackReason {
    fn from(failure: BuildFailure) -> Self {
        match failure {
            BuildFailure::TooManyKeys => Self::TooManyKeys,
            BuildFailure::NoMemory => Self::MemoryBudget,
            BuildFailure::AttemptsExhausted => Self::ConstructionFailed,
        }
    }
}

/// The error for fingerprints that a kind does not support.
pub(crate) fn no_such_fingerprints(option: &'static str, expected: &'static str, bits: u8) -> ConfigError {
    ConfigError::OutOfRange { option, expected, got: bits.into() }
}

/// The fingerprint width for a target, from the ascending `widths`, for a kind whose rate and size follow from it: the
/// narrowest that reaches a rate, or the widest whose filter of many keys does not exceed a size.
pub(crate) fn fingerprint_bits(
    kind: FilterKind,
    widths: &[u8],
    sizing: Sizing,
    block_bytes: impl Fn(u8) -> Option<u64>,
) -> Result<u8, ConfigError> {
    match sizing {
        Sizing::Rate(rate) => {
            let rate_of = |bits: u8| 1.0 / (1_u64 << bits) as f64;
            let least = widths.last().map_or(1.0, |&bits| rate_of(bits));
            let fitting = widths.iter().copied().find(|&bits| rate_of(bits) <= rate.get());
            fitting.ok_or(ConfigError::RateOutOfRange { kind, least, most: 1.0, got: rate.get() })
        }
        Sizing::BitsPerKey(size) => {
            let needed = |bits| block_bytes(bits).map(|bytes| bytes as f64 * 8.0 / RATE_KEYS as f64);
            let fits = |&bits: &u8| needed(bits).is_some_and(|needed| needed <= size.get());
            let least = widths.first().and_then(|&bits| needed(bits)).map_or(100.0, |bits| (bits * 1e3).ceil() / 1e3);
            let fitting = widths.iter().rev().copied().find(fits);
            fitting.ok_or(ConfigError::SizeOutOfRange { kind, least, got: size.get() })
        }
        Sizing::FingerprintBits(bits) if widths.contains(&bits) => Ok(bits),
        Sizing::FingerprintBits(bits) => Err(no_such_fingerprints(
            "fingerprint bits",
            "a width that the kind has (xor and xor+: 8 or 16; binary fuse and cuckoo: 4 to 32)",
            bits,
        )),
    }
}

/// Why a file has another kind of filter than its policy requested.
///
/// The block stores the reason, and every tool that reads it shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FallbackReason {
    /// The filter is of the requested kind.
    None,
    /// Fewer keys than the policy's minimum for the requested kind.
    TooFewKeys,
    /// The requested kind is not smaller: by its plan for this number of keys, or as built from these keys.
    NotSmaller,
    /// More keys than the requested kind, or its policy, allows.
    TooManyKeys,
    /// Building the requested kind would have exceeded the memory budget, or the system's memory.
    MemoryBudget,
    /// No attempt at building the requested kind succeeded.
    ConstructionFailed,
    /// The finished filter of the requested kind did not contain one of its keys.
    SelfCheckFailed,
    /// The engine's own hash function panicked while a key was added, so the filter might lack that key. The file gets
    /// no filter, so no block records this reason.
    Interrupted,
    /// Keys that were to be cut by range, or to be in a range filter, did not ascend. The file gets no filter, so no
    /// block records this reason.
    KeysOutOfOrder,
    /// A key extractor gave a part for a prefix that a key with the prefix does not have, or a part that is no prefix
    /// of its key, or none for the part itself. The file gets no range filter, and no filter of extracted parts alone
    /// if none is left, so no block records this reason. Also where keys were added by their hashes to a filter of
    /// extracted parts alone.
    UnstableExtractor,
    /// The file holds a range tombstone, which a scan must not skip. The file gets no range filter, so no block records
    /// this reason.
    RangeTombstone,
}

impl FallbackReason {
    /// The reasons that trailers record, by number.
    const STORED: [Self; 7] = [
        Self::None,
        Self::TooFewKeys,
        Self::NotSmaller,
        Self::TooManyKeys,
        Self::MemoryBudget,
        Self::ConstructionFailed,
        Self::SelfCheckFailed,
    ];

    /// The number recorded in a trailer.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The reason with this number, if a trailer can record it.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::STORED.get(usize::from(code)).copied()
    }

    /// The reason in a few words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "as requested",
            Self::TooFewKeys => "too few keys",
            Self::NotSmaller => "not smaller",
            Self::TooManyKeys => "too many keys",
            Self::MemoryBudget => "memory budget",
            Self::ConstructionFailed => "construction failed",
            Self::SelfCheckFailed => "self-check failed",
            Self::Interrupted => "interrupted",
            Self::KeysOutOfOrder => "keys out of order",
            Self::UnstableExtractor => "unstable key extractor",
            Self::RangeTombstone => "range tombstone",
        }
    }
}

impl fmt::Display for FallbackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
