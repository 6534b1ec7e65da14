//! The shape of an opened block, whichever kind it has.

use std::sync::Arc;

use super::registry::{self, KindRegistry};
use super::trailer::Trailer;
use crate::error::BlockError;
use crate::filter::blocked_bloom::BloomShape;
use crate::filter::kind::{FilterShape, Kind, ShapeFields};
use crate::hash::KeyHash;
use crate::ids::{FilterKind, for_each_kind};

/// Defines [`AnyShape`] from the table of kinds.
macro_rules! any_shape {
    ($($number:literal $constant:ident $name:literal $constructor:ident $folder:ident::$kind:ident $what:literal)+) => {
        /// The shape of a filter of any kind.
        #[expect(clippy::large_enum_variant, reason = "one per open file, and opening allocates nothing")]
        #[derive(Clone)]
        pub(super) enum AnyShape {
            $($kind(<crate::filter::$folder::$kind as Kind>::Shape),)+
            /// A user-defined kind.
            User(Arc<dyn registry::UserShape>),
        }

        impl AnyShape {
            pub(super) fn decode(trailer: &Trailer, kinds: Option<&KindRegistry>) -> Result<Self, BlockError> {
                match trailer.kind {
                    $(FilterKind::$constant => FilterShape::decode(&trailer.shape).map(Self::$kind),)+
                    kind => {
                        let kind = kinds.and_then(|kinds| kinds.find(kind));
                        let kind = kind.ok_or(BlockError::UnknownKind { got: trailer.kind.code() })?;
                        (kind.decode)(&trailer.shape).map(Self::User)
                    }
                }
            }
        }

        /// Calls a method on the shape's variant.
        macro_rules! each_shape {
            ($any:expr, $inner:ident => $call:expr) => {
                match $any {
                    $(AnyShape::$kind($inner) => $call,)+
                    AnyShape::User($inner) => $call,
                }
            };
        }
    };
}

for_each_kind!(any_shape);

impl AnyShape {
    /// The blocked Bloom shape, if it is one: sets probe those together.
    pub(super) fn as_blocked_bloom(&self) -> Option<BloomShape> {
        if let Self::BlockedBloomKind(shape) = self { Some(*shape) } else { None }
    }

    pub(super) fn expected_fpr(&self, keys: u64) -> f64 {
        each_shape!(self, shape => shape.expected_fpr(keys))
    }

    pub(super) fn describe(&self) -> ShapeFields {
        each_shape!(self, shape => shape.describe())
    }

    pub(super) fn fill_ratio(&self, payload: &[u8]) -> Option<f64> {
        each_shape!(self, shape => shape.fill_ratio(payload))
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a loop over keys then chooses the kind once, and keeps its parameters")]
    pub(super) fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool {
        each_shape!(self, shape => shape.may_contain(payload, hash))
    }

    pub(super) fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], hits: &mut [u64]) {
        each_shape!(self, shape => shape.may_contain_batch(payload, hashes, hits));
    }
}
