//! User-defined kinds: the trait, the registry through which readers know them, and the guard around their code.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::batch;
use super::encoded::{EncodedShape, ParamWords};
use super::kind::{BuildLimits, BuildResult, Kind};
use super::payload::BuiltPayload;
use super::reason::FallbackReason;
use super::shape::{FilterShape, ShapeFields};
use crate::codec::AlignedBuffer;
use crate::error::{BlockError, ConfigError};
use crate::hash::KeyHash;
use crate::ids::KindId;

/// A user-defined kind of filter.
///
/// [`FixedPolicy::user_defined`](crate::FixedPolicy::user_defined) builds blocks of it, and a [`KindRegistry`] makes
/// them readable. `examples/custom_kind.rs` shows both.
///
/// A block records an [`EncodedShape`] with the payload: up to 15 parameter words and a salt, whose meaning is private
/// to the kind. All methods receive it, so that a value of the kind needs only its configuration, and one value reads
/// the blocks of every configuration.
///
/// # The contract
///
/// `(plan build)*`. [`plan`](Self::plan) depends only on the number of keys, and [`build`](Self::build) only on the
/// plan and the hashes, so that the same keys give the same bytes everywhere. A filter that was built contains every
/// hash that it was built from. If it cannot be built, return an error; a blocked Bloom filter takes its place.
///
/// The library does not trust this code. If it panics while a filter is built, the file gets a blocked Bloom filter; if
/// it panics in a probe, the answer is "may be present". (Without the feature `std`, no panic is caught.) By default,
/// each finished filter is probed for all of its keys.
pub trait UserKind: fmt::Debug + Send + Sync + 'static {
    /// Returns the kind's number, from 128 to 255. Blocks record it, so it must never change.
    fn id(&self) -> KindId;

    /// Returns the kind's name, for options and reports.
    fn name(&self) -> &'static str;

    /// Returns the parameters and the payload length of a filter of `keys` distinct keys; approximately, if they depend
    /// on the hashes.
    ///
    /// # Errors
    ///
    /// The reason to fall back to a blocked Bloom filter. It must be one that a block can record, such as
    /// [`TooManyKeys`](FallbackReason::TooManyKeys); any other counts as
    /// [`ConstructionFailed`](FallbackReason::ConstructionFailed).
    fn plan(&self, keys: u64) -> Result<EncodedShape, FallbackReason>;

    /// Returns the maximum bytes that building takes in addition to the hashes and the finished block. By default the
    /// payload's bytes, because the payload is copied into the block.
    fn build_bytes(&self, plan: &EncodedShape) -> u64 {
        plan.payload_bytes
    }

    /// Builds the filter of `hashes`, which are distinct and ascending. Returns its parameters and its payload, whose
    /// length is a multiple of 8 bytes.
    ///
    /// # Errors
    ///
    /// The reason why the filter cannot be built, as for [`plan`](Self::plan).
    fn build(&self, plan: &EncodedShape, hashes: &[KeyHash]) -> Result<(EncodedShape, Vec<u8>), FallbackReason>;

    /// Checks the parameters of a block that is being opened, and returns the payload length that follows from them; if
    /// it does not follow from them, the length in `shape`. A block of another length is refused.
    ///
    /// # Errors
    ///
    /// [`BlockError::Field`] for parameters that `build` never returns.
    fn payload_bytes(&self, shape: &EncodedShape) -> Result<u64, BlockError>;

    /// Returns the false positive rate, from 0 to 1, of a filter of this shape with its number of keys.
    fn expected_fpr(&self, shape: &EncodedShape) -> f64;

    /// Returns the parameters by name, for display.
    fn describe(&self, _shape: &EncodedShape) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Returns how full the filter is, from 0 to 1; `None` for kinds that do not fill up.
    fn fill_ratio(&self, _shape: &EncodedShape, _payload: &[u8]) -> Option<f64> {
        None
    }

    /// Returns whether the key of `hash` may have been added. Must return `true` if the payload is too short.
    fn may_contain(&self, shape: &EncodedShape, payload: &[u8], hash: KeyHash) -> bool;

    /// Sets bit `i % 64` of word `i / 64` of `matches` to the answer for hash `i`.
    fn may_contain_batch(&self, shape: &EncodedShape, payload: &[u8], hashes: &[KeyHash], matches: &mut [u64]) {
        batch::answers(hashes, matches, |hash| self.may_contain(shape, payload, hash));
    }

    /// Returns the largest smaller shape with at most `max_bytes` of payload that [`shrink_into`](Self::shrink_into)
    /// can fill. `None` when there is none, and for kinds whose filters cannot shrink.
    fn next_smaller(&self, _shape: &EncodedShape, _max_bytes: u64) -> Option<EncodedShape> {
        None
    }

    /// Writes the payload of `smaller`, a result of [`next_smaller`](Self::next_smaller), from a verified payload of
    /// `shape`. `out` is zeroed and has the right length. The result must contain every key that the payload contained;
    /// the library cannot check that. Return `false` when it cannot be done.
    fn shrink_into(&self, _shape: &EncodedShape, _smaller: &EncodedShape, _payload: &[u8], _out: &mut [u8]) -> bool {
        false
    }
}

/// A user-defined kind behind a guard: a panic in its code becomes an error or "may be present".
#[derive(Clone, Debug)]
pub(crate) struct GuardedKind {
    id: KindId,
    name: &'static str,
    kind: Arc<dyn UserKind>,
}

impl GuardedKind {
    /// Refuses a number that belongs to the library: readers would decode the blocks as the library's kind.
    pub(crate) fn new(kind: impl UserKind) -> Result<Self, ConfigError> {
        let (id, name) = (kind.id(), kind.name());
        if id.is_user_defined() { Ok(Self { id, name, kind: Arc::new(kind) }) } else { Err(wrong_number(id)) }
    }

    /// Decodes the shape of a stored filter, if the payload has the length that its kind requires.
    pub(crate) fn decode(&self, encoded: &EncodedShape) -> Result<UserShape, BlockError> {
        let expected = "the length that the user-defined kind returns for the parameters";
        let refused = BlockError::field("payload bytes", expected, encoded.payload_bytes);
        let bytes = guarded(Err(refused.clone()), || self.kind.payload_bytes(encoded))?;
        let shape = UserShape { kind: self.clone(), encoded: *encoded };
        // A payload of another length could make a present key absent.
        if bytes == encoded.payload_bytes { Ok(shape) } else { Err(refused) }
    }
}

fn wrong_number(id: KindId) -> ConfigError {
    let expected = "128 to 255, and not taken by another kind";
    ConfigError::out_of_range("number of a user-defined kind", expected, id.code())
}

/// Returns the result of `call`, or `otherwise` if it panics and panics can be caught.
fn guarded<T>(otherwise: T, call: impl FnOnce() -> T) -> T {
    // Unwind safe for the library: the kind is behind a shared reference, so only its own interior mutability can
    // break.
    #[cfg(feature = "std")]
    let call = || std::panic::catch_unwind(core::panic::AssertUnwindSafe(call)).unwrap_or(otherwise);
    #[cfg(not(feature = "std"))]
    drop(otherwise);
    call()
}

/// Returns the result of a plan or a build, and replaces a reason that no block can record.
fn guarded_build<T>(call: impl FnOnce() -> Result<T, FallbackReason>) -> Result<T, FallbackReason> {
    let failed = FallbackReason::ConstructionFailed;
    guarded(Err(failed), call).map_err(|reason| if (1..=6).contains(&reason.code()) { reason } else { failed })
}

impl Kind for GuardedKind {
    type Shape = UserShape;

    /// The first user-defined number; each value returns its own from `id`.
    const ID: KindId = KindId::from_code(128);

    fn id(&self) -> KindId {
        self.id
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn plan(&self, keys: u64) -> Result<UserShape, FallbackReason> {
        let encoded = guarded_build(|| self.kind.plan(keys))?;
        Ok(UserShape { kind: self.clone(), encoded: EncodedShape { keys, ..encoded } })
    }

    fn build_bytes(&self, _keys: u64, plan: &UserShape) -> u64 {
        // A panic counts as unlimited memory, so that the filter is not built.
        guarded(u64::MAX, || self.kind.build_bytes(&plan.encoded))
    }

    fn build(&self, plan: &Self::Shape, hashes: &[KeyHash], _limits: BuildLimits) -> BuildResult<Self::Shape> {
        let failed = FallbackReason::ConstructionFailed;
        let (encoded, bytes) = guarded_build(|| self.kind.build(&plan.encoded, hashes))?;
        // The number of keys is counted from the hashes; the kind's own number is ignored.
        let (keys, payload_bytes) = (hashes.len() as u64, bytes.len() as u64);
        // Readers must accept every block that is written.
        let shape = self.decode(&EncodedShape { keys, ..encoded }).map_err(|_| failed)?;
        if payload_bytes != encoded.payload_bytes {
            return Err(failed);
        }
        let mut payload = AlignedBuffer::empty(payload_bytes).ok_or(FallbackReason::MemoryBudget)?;
        payload.append(&bytes);
        // Twice: the kind's own buffer and its copy.
        Ok(BuiltPayload { peak_bytes: 2 * payload_bytes, ..BuiltPayload::new(shape, payload) })
    }
}

/// The shape of a filter of a user-defined kind.
#[derive(Clone, Debug)]
pub(crate) struct UserShape {
    kind: GuardedKind,
    encoded: EncodedShape,
}

impl UserShape {
    /// Returns `None` also for a shape that its own kind cannot read.
    pub(super) fn next_smaller(&self, max_bytes: u64) -> Option<Self> {
        let smaller = guarded(None, || self.kind.kind.next_smaller(&self.encoded, max_bytes))?;
        self.kind.decode(&EncodedShape { keys: self.encoded.keys, ..smaller }).ok()
    }

    pub(super) fn shrink_into(&self, smaller: &Self, payload: &[u8], out: &mut [u8]) -> bool {
        guarded(false, || self.kind.kind.shrink_into(&self.encoded, &smaller.encoded, payload, out))
    }

    /// Checks both probes, because they may differ. A probe that panics contains no key here.
    pub(super) fn contains_all(&self, payload: &[u8], hashes: &[KeyHash]) -> bool {
        let Self { kind: GuardedKind { kind, .. }, encoded } = self;
        let matches = || {
            let mut matches = vec![0; hashes.len().div_ceil(64)];
            kind.may_contain_batch(encoded, payload, hashes, &mut matches);
            (0..hashes.len()).all(|index| matches[index / 64] >> (index % 64) & 1 == 1)
        };
        guarded(false, || matches() && hashes.iter().all(|&hash| kind.may_contain(encoded, payload, hash)))
    }
}

impl FilterShape for UserShape {
    /// Always fails, because only a registered kind can decode its shapes.
    fn decode(_: &EncodedShape) -> Result<Self, BlockError> {
        Err(BlockError::UnknownKind { got: 0 })
    }

    fn params(&self) -> ParamWords {
        self.encoded.params
    }

    fn salt(&self) -> u8 {
        self.encoded.salt
    }

    fn payload_bytes(&self) -> u64 {
        self.encoded.payload_bytes
    }

    fn expected_fpr(&self, keys: u64) -> f64 {
        guarded(1.0, || self.kind.kind.expected_fpr(&EncodedShape { keys, ..self.encoded }))
    }

    fn describe(&self) -> ShapeFields {
        guarded(Vec::new(), || self.kind.kind.describe(&self.encoded))
    }

    fn fill_ratio(&self, payload: &[u8]) -> Option<f64> {
        guarded(None, || self.kind.kind.fill_ratio(&self.encoded, payload))
    }

    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool {
        guarded(true, || self.kind.kind.may_contain(&self.encoded, payload, hash))
    }

    fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], matches: &mut [u64]) {
        let is_done = guarded(false, || {
            self.kind.kind.may_contain_batch(&self.encoded, payload, hashes, matches);
            true
        });
        if !is_done {
            batch::all_match(hashes, matches);
        } else if let Some(last) = matches.last_mut().filter(|_| !hashes.len().is_multiple_of(64)) {
            // Bits after the last key would count as positives.
            *last &= (1 << (hashes.len() % 64)) - 1;
        }
    }
}

/// User-defined kinds, for a [`LoadContext`](crate::LoadContext), which then loads their blocks like all others.
/// Without the registry, such a block is of an [unknown kind](BlockError::UnknownKind) and its filter returns "may be
/// present".
///
/// A kind that panics, or whose shape contradicts the block, affects only its own blocks: they become unusable or
/// return "may be present".
#[derive(Clone, Debug, Default)]
pub struct KindRegistry {
    /// Shared by all readers with a copy of the registry; `None` for most readers, which have no user-defined kind.
    kinds: Option<Arc<Vec<GuardedKind>>>,
}

impl KindRegistry {
    /// Adds a kind.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] when its number is below 128, which is reserved for the library, or is already
    /// registered.
    pub fn with_kind(mut self, kind: impl UserKind) -> Result<Self, ConfigError> {
        let kind = GuardedKind::new(kind)?;
        if self.find(kind.id).is_some() {
            return Err(wrong_number(kind.id));
        }
        // Copies the list if a reader shares it: that reader keeps its own kinds.
        Arc::make_mut(self.kinds.get_or_insert_default()).push(kind);
        Ok(self)
    }

    /// Returns the name of a registered kind.
    #[must_use]
    pub fn name(&self, id: KindId) -> Option<&'static str> {
        self.find(id).map(|kind| kind.name)
    }

    pub(crate) fn find(&self, id: KindId) -> Option<&GuardedKind> {
        self.kinds.as_deref()?.iter().find(|kind| kind.id == id)
    }
}
