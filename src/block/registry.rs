//! User-defined kinds, on the reading side.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::codec::AlignedBuffer;
use crate::error::{BlockError, ConfigError};
use crate::filter::FilterKind;
use crate::filter::batch;
use crate::filter::kind::{EncodedShape, FilterShape, Kind, ShapeFields};
use crate::filter::shrink::{Shrink, ShrinkFailure, ShrinkStep};
use crate::hash::KeyHash;

/// User-defined kinds, for a [`LoadContext`](super::LoadContext), which then loads their blocks like all others.
/// Without the registry such a block is of an [unknown kind](BlockError::UnknownKind), and answers "may be present".
///
/// A kind that panics, or whose shape contradicts the block, affects only its own blocks: they become unusable or
/// answer "may be present".
#[derive(Clone, Debug, Default)]
pub struct KindRegistry {
    /// Shared by the readers that have a copy; most have none.
    kinds: Option<Arc<Vec<UserKind>>>,
}

/// What a reader needs of a kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct UserKind {
    id: FilterKind,
    name: &'static str,
    pub(super) decode: fn(&EncodedShape) -> Result<Arc<dyn UserShape>, BlockError>,
}

impl KindRegistry {
    pub(crate) fn is_empty(&self) -> bool {
        self.kinds.is_none()
    }

    /// Adds a kind.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] when its number is below 128, which is reserved for the library, or already
    /// registered.
    pub fn with_kind<K: Kind>(mut self) -> Result<Self, ConfigError> {
        let id = K::Shape::KIND;
        if !id.is_user_defined() || self.name(id).is_some() {
            let (option, expected) = ("number of a kind of one's own", "128 to 255, and not taken by another kind");
            return Err(ConfigError::OutOfRange { option, expected, got: id.code().into() });
        }
        Arc::make_mut(self.kinds.get_or_insert_default()).push(UserKind {
            id,
            name: K::NAME,
            decode: decode::<K::Shape>,
        });
        Ok(self)
    }

    /// The name of a kind that was added.
    #[must_use]
    pub fn name(&self, id: FilterKind) -> Option<&'static str> {
        self.find(id).map(|kind| kind.name)
    }

    pub(super) fn find(&self, id: FilterKind) -> Option<&UserKind> {
        self.kinds.as_deref()?.iter().find(|kind| kind.id == id)
    }
}

/// The shape of a user's kind. Its code is not trusted: a panic becomes "may be present".
pub(super) trait UserShape: Send + Sync {
    /// Another shape of the same kind.
    fn decode_alike(&self, encoded: &EncodedShape) -> Result<Arc<dyn UserShape>, BlockError>;

    fn expected_fpr(&self, keys: u64) -> f64;

    fn describe(&self) -> ShapeFields;

    fn fill_ratio(&self, payload: &[u8]) -> Option<f64>;

    fn shrink_steps(&self, keys: u64) -> Vec<ShrinkStep>;

    fn shrink(
        &self,
        keys: u64,
        payload: &[u8],
        most_bytes: u64,
    ) -> Result<(EncodedShape, AlignedBuffer), ShrinkFailure>;

    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool;

    fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], hits: &mut [u64]);
}

// Behind a trait object, so that the guards are not inlined into loops over the library's kinds.
impl<S: FilterShape> UserShape for S {
    fn decode_alike(&self, encoded: &EncodedShape) -> Result<Arc<dyn UserShape>, BlockError> {
        decode::<S>(encoded)
    }

    fn expected_fpr(&self, keys: u64) -> f64 {
        guarded(1.0, || FilterShape::expected_fpr(self, keys))
    }

    fn describe(&self) -> ShapeFields {
        guarded(ShapeFields::default(), || FilterShape::describe(self))
    }

    fn fill_ratio(&self, payload: &[u8]) -> Option<f64> {
        guarded(None, || FilterShape::fill_ratio(self, payload))
    }

    fn shrink_steps(&self, keys: u64) -> Vec<ShrinkStep> {
        guarded(Vec::new(), || Shrink::shrink_steps(self, keys))
    }

    fn shrink(
        &self,
        keys: u64,
        payload: &[u8],
        most_bytes: u64,
    ) -> Result<(EncodedShape, AlignedBuffer), ShrinkFailure> {
        let failed = ShrinkFailure::NoShape { least_bytes: payload.len() as u64 };
        guarded(Err(failed), || Shrink::shrink(self, keys, payload, most_bytes))
    }

    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool {
        guarded(true, || FilterShape::may_contain(self, payload, hash))
    }

    fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], hits: &mut [u64]) {
        let is_done = guarded(false, || {
            FilterShape::may_contain_batch(self, payload, hashes, hits);
            true
        });
        if !is_done {
            batch::all_match(hashes, hits);
        } else if let Some(last) = hits.last_mut().filter(|_| !hashes.len().is_multiple_of(64)) {
            // Bits behind the last key would count as positives.
            *last &= (1 << (hashes.len() % 64)) - 1;
        }
    }
}

/// The result of `call`, or `otherwise` if it panics.
fn guarded<T>(otherwise: T, call: impl FnOnce() -> T) -> T {
    // Unwind safe for us: the shape is behind a shared reference, so only the user's own interior mutability can break.
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(otherwise)
}

/// Accepts only a shape that encodes back to the same fields, because the payload's length follows from it.
fn decode<S: FilterShape>(encoded: &EncodedShape) -> Result<Arc<dyn UserShape>, BlockError> {
    let refused = || BlockError::Field {
        field: "shape of a kind of one's own",
        expected: "one that its kind reads and writes alike",
        got: encoded.payload_bytes,
    };
    guarded(Err(refused()), || {
        let shape = S::decode(encoded)?;
        if shape.encode(encoded.keys) == *encoded { Ok(Arc::new(shape)) } else { Err(refused()) }
    })
}
