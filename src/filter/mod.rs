//! The kinds of filter. Each has one folder with its explanation, sizing, build and probe. This module has the shape of
//! a filter of any kind, as an open block keeps it.
//!
//! A kind knows hashes, its own payload, and the fields that a block records for it (`encoded`), but nothing else of
//! the block.

pub(crate) mod any_kind;
pub(crate) mod batch;
#[cfg(feature = "fuse")]
pub mod binary_fuse;
pub mod blocked_bloom;
pub(crate) mod cache;
#[cfg(feature = "growing")]
pub mod counting_bloom;
#[cfg(feature = "growing")]
pub mod cuckoo;
#[cfg(feature = "growing")]
pub(crate) mod dynamic;
pub(crate) mod encoded;
#[cfg(feature = "growing")]
pub(crate) mod error;
#[cfg(any(feature = "fuse", feature = "xor"))]
pub(crate) mod fingerprint;
#[cfg(feature = "growing")]
pub(crate) mod health;
pub(crate) mod kind;
#[cfg(feature = "line-ribbon")]
pub mod line_ribbon;
#[cfg(all(test, loom))]
mod loom_tests;
pub(crate) mod payload;
#[cfg(any(feature = "fuse", feature = "xor"))]
pub(crate) mod peel;
mod power;
pub(crate) mod reason;
#[cfg(feature = "growing")]
pub mod register_blocked_bloom;
#[cfg(feature = "ribbon")]
pub mod ribbon;
pub(crate) mod shape;
pub(crate) mod shrink;
pub(crate) mod sizing;
#[cfg(feature = "growing")]
pub mod standard_bloom;
pub(crate) mod user;
#[cfg(feature = "growing")]
mod words;
#[cfg(feature = "xor")]
pub mod xor;
#[cfg(feature = "xor")]
pub mod xor_plus;

use core::ops::Deref;

#[cfg(feature = "fuse")]
pub(crate) use binary_fuse::{BinaryFuseKind, FuseShape};
use blocked_bloom::line::{self, Lines};
pub(crate) use blocked_bloom::{BlockedBloomKind, BloomShape};
#[cfg(feature = "line-ribbon")]
pub(crate) use line_ribbon::{LineRibbonKind, LineRibbonShape};
#[cfg(feature = "ribbon")]
pub(crate) use ribbon::{RibbonKind, RibbonShape};
use user::UserShape;

#[cfg(feature = "growing")]
pub(crate) use {
    counting_bloom::{CountingBloomKind, CountingBloomShape},
    cuckoo::{CuckooKind, CuckooShape},
    register_blocked_bloom::{RegisterBlockedKind, RegisterBlockedShape},
    standard_bloom::{StandardBloomKind, StandardBloomShape},
};
#[cfg(feature = "xor")]
pub(crate) use {
    xor::{XorKind, XorShape},
    xor_plus::{XorPlusKind, XorPlusShape},
};

pub(crate) use any_kind::{AnyKind, Planned};
pub(crate) use encoded::{EncodedShape, MAX_KEYS, MAX_PARAM_WORDS, MAX_PAYLOAD_BYTES, ParamWords, TRAILER_BYTES};
pub(crate) use kind::{BuildLimits, BuildResult, Kind, Updates};
pub(crate) use payload::{BuiltPayload, StreamedPayload, for_each_chunk};
pub(crate) use power::power;
pub(crate) use reason::FallbackReason;
pub(crate) use shape::{FilterShape, ShapeFields};
pub(crate) use sizing::{RATE_KEYS, by_size_or_rate, fingerprint_bits};
pub(crate) use user::KindRegistry;

use crate::error::BlockError;
use crate::hash::KeyHash;
pub(crate) use crate::ids::KindId;

/// The shape of a filter of any kind, from a table of the library's kinds.
macro_rules! any_shape {
    ($($(#[$only:meta])? $kind:ident($shape:ty): $id:ident,)+) => {
        /// The shape of a filter of any kind. It has the methods of [`FilterShape`].
        #[derive(Clone)]
        pub(crate) enum AnyShape {
            $($(#[$only])? $kind($shape),)+
            User(UserShape),
        }

        impl Deref for AnyShape {
            type Target = dyn FilterShape;

            fn deref(&self) -> &Self::Target {
                match self {
                    $($(#[$only])? Self::$kind(shape) => shape,)+
                    Self::User(shape) => shape,
                }
            }
        }

        $($(#[$only])?
        impl From<$shape> for AnyShape {
            fn from(shape: $shape) -> Self {
                Self::$kind(shape)
            }
        })+

        impl AnyShape {
            /// Decodes the shape of a filter of one of the library's kinds, or of `kinds`.
            pub(crate) fn decode(
                kind: KindId,
                encoded: &EncodedShape,
                kinds: Option<&KindRegistry>,
            ) -> Result<Self, BlockError> {
                let any = match kind {
                    $($(#[$only])? KindId::$id => FilterShape::decode(encoded).map(Self::$kind),)+
                    // Its own error, because this kind is known but is opened by another package.
                    KindId::RANGE => Err(BlockError::RangeFilter),
                    _ => {
                        let user = kinds.and_then(|kinds| kinds.find(kind));
                        user.ok_or(BlockError::UnknownKind { got: kind.code() })?.decode(encoded).map(Self::User)
                    }
                }?;
                let is_whole = any.payload_bytes() == encoded.payload_bytes;
                BlockError::require(is_whole, "payload bytes", "the length for the parameters", encoded.payload_bytes)?;
                Ok(any)
            }

            /// See [`FilterShape::describe`].
            pub(crate) fn describe(&self) -> ShapeFields {
                match self {
                    $($(#[$only])? Self::$kind(shape) => shape.describe(),)+
                    Self::User(shape) => shape.describe(),
                }
            }

            /// See [`FilterShape::fill_ratio`].
            pub(crate) fn fill_ratio(&self, payload: &[u8]) -> Option<f64> {
                match self {
                    $($(#[$only])? Self::$kind(shape) => shape.fill_ratio(payload),)+
                    Self::User(shape) => shape.fill_ratio(payload),
                }
            }

            /// See [`FilterShape::may_contain_batch`].
            pub(crate) fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], matches: &mut [u64]) {
                match self {
                    $($(#[$only])? Self::$kind(shape) => shape.may_contain_batch(payload, hashes, matches),)+
                    Self::User(shape) => shape.may_contain_batch(payload, hashes, matches),
                }
            }

            /// Returns the probe that calls [`FilterShape::may_contain`].
            fn plain_probe(&self) -> SingleProbe {
                match self {
                    $($(#[$only])? Self::$kind(_) => probe_of!($kind),)+
                    Self::User(_) => probe_of!(User),
                }
            }
        }
    };
}

/// The probe that calls [`FilterShape::may_contain`] of a kind.
macro_rules! probe_of {
    ($kind:ident) => {
        |data, hash, open| match (&open.any, open.payload(data)) {
            (AnyShape::$kind(shape), Some(payload)) => shape.may_contain(payload, hash),
            // A block that has become too short answers "may be present", so that no key is lost.
            _ => true,
        }
    };
}

any_shape! {
    BlockedBloom(BloomShape): BLOCKED_BLOOM,
    #[cfg(feature = "ribbon")]
    Ribbon(RibbonShape): RIBBON,
    #[cfg(feature = "growing")]
    StandardBloom(StandardBloomShape): STANDARD_BLOOM,
    #[cfg(feature = "growing")]
    CountingBloom(CountingBloomShape): COUNTING_BLOOM,
    #[cfg(feature = "growing")]
    RegisterBlockedBloom(RegisterBlockedShape): REGISTER_BLOCKED_BLOOM,
    #[cfg(feature = "growing")]
    Cuckoo(CuckooShape): CUCKOO,
    #[cfg(feature = "xor")]
    Xor(XorShape): XOR,
    #[cfg(feature = "xor")]
    XorPlus(XorPlusShape): XOR_PLUS,
    #[cfg(feature = "fuse")]
    BinaryFuse(FuseShape): BINARY_FUSE,
    #[cfg(feature = "line-ribbon")]
    LineRibbon(LineRibbonShape): LINE_RIBBON,
}

impl From<UserShape> for AnyShape {
    fn from(shape: UserShape) -> Self {
        Self::User(shape)
    }
}

impl AnyShape {
    /// Returns whether the filter contains all of `hashes`.
    pub(crate) fn contains_all(&self, payload: &[u8], hashes: &[KeyHash]) -> bool {
        if let Self::User(shape) = self {
            return shape.contains_all(payload, hashes);
        }
        batch::all(hashes, |hashes, matches| self.may_contain_batch(payload, hashes, matches))
    }

    /// Returns the shape of a blocked Bloom filter: sets probe such filters together.
    pub(crate) fn as_blocked_bloom(&self) -> Option<BloomShape> {
        if let Self::BlockedBloom(shape) = self { Some(*shape) } else { None }
    }
}

/// The probe of a single key in an open filter, applied to the bytes of its block. The function is chosen when the
/// block is opened, with its instruction set and the filter's parameters.
///
/// One call through a pointer takes half as long as matching the kind, its parameters and the instruction set for each
/// key. Rejected: a match of the kind before the call, to inline some kinds (a tenth slower for all), and assembly,
/// which needs no call (no faster).
pub(crate) type SingleProbe = fn(&[u8], KeyHash, &OpenShape) -> bool;

/// The shape of an open filter, with everything that a probe of a single key needs precomputed.
#[derive(Clone)]
#[repr(C)]
pub(crate) struct OpenShape {
    pub(crate) probe: SingleProbe,
    /// The lines of a blocked Bloom filter, or of a line ribbon's first layer, copied out of its shape, so that a probe
    /// reads them without matching the kind: a tenth of its time. Other kinds have none.
    pub(crate) lines: Lines,
    payload_bytes: usize,
    /// The number of keys from which a batch is faster than single probes: kernels that take many keys at a time need
    /// as long for few.
    pub(crate) min_batch: usize,
    pub(crate) any: AnyShape,
    /// The probe for what was added, whole keys or parts of them: `probe`, until a block that holds no whole keys
    /// replaces that one.
    pub(crate) probe_added: SingleProbe,
}

impl OpenShape {
    pub(crate) fn new(any: AnyShape) -> Self {
        // These kinds have single probes that are compiled for their usual parameters, or for each instruction set.
        let (own_probe, min_batch) = match &any {
            AnyShape::BlockedBloom(shape) => (Some(line::single_probe(shape.probes())), 0),
            #[cfg(feature = "ribbon")]
            AnyShape::Ribbon(_) => (Some(ribbon::single_probe()), 32),
            #[cfg(feature = "xor")]
            AnyShape::Xor(shape) => (shape.single_probe(), 16),
            #[cfg(feature = "fuse")]
            AnyShape::BinaryFuse(shape) => (shape.single_probe(), 16),
            #[cfg(feature = "line-ribbon")]
            AnyShape::LineRibbon(_) => (Some(line_ribbon::single_probe()), 64),
            _ => (None, 0),
        };
        let probe = own_probe.unwrap_or_else(|| any.plain_probe());
        let lines = match &any {
            AnyShape::BlockedBloom(shape) => shape.lines(),
            #[cfg(feature = "line-ribbon")]
            AnyShape::LineRibbon(shape) => shape.first_lines(),
            _ => Lines::new(0),
        };
        // A block is a slice, so the length of its payload fits a `usize`.
        let payload_bytes = usize::try_from(any.payload_bytes()).unwrap_or(usize::MAX);
        Self { probe, lines, payload_bytes, min_batch, any, probe_added: probe }
    }

    /// Returns the payload of the block in `data`; `None` if `data` has become shorter since the block was opened.
    #[inline]
    pub(crate) fn payload<'a>(&self, data: &'a [u8]) -> Option<&'a [u8]> {
        data.get(..self.payload_bytes)
    }
}
