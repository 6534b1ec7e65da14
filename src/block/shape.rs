//! The shape of an opened block, whichever kind it has.

use std::sync::Arc;

use super::registry::{self, KindRegistry};
use super::trailer::Trailer;
use crate::codec::AlignedBuffer;
use crate::error::BlockError;
use crate::filter::blocked_bloom::BloomShape;
use crate::filter::blocked_bloom::line::{self, HasLines, Lines};
use crate::filter::kind::{EncodedShape, FilterShape, Kind, ShapeFields};
use crate::filter::shrink::{Shrink, ShrinkFailure, ShrinkStep};
use crate::filter::{OpenFilter, ProbedSingly};
use crate::hash::KeyHash;
use crate::ids::{FilterKind, for_each_kind};
use crate::kernel::SingleProbe;
use crate::simd;

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
                    FilterKind::RANGE => Err(BlockError::RangeFilter),
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

        impl AnyShape {
            fn single_probe(&self) -> SingleProbe<OpenShape> {
                match self {
                    $(Self::$kind(shape) => shape.single_probe(),)+
                    Self::User(_) => SingleProbe::new(|data, hash, filter| match (&filter.any, filter.payload(data)) {
                        (Self::User(shape), Some(payload)) => shape.may_contain(payload, hash),
                        _ => true,
                    }),
                }
            }
        }

        $(impl OpenFilter<<crate::filter::$folder::$kind as Kind>::Shape> for OpenShape {
            #[inline]
            fn shape(&self) -> Option<&<crate::filter::$folder::$kind as Kind>::Shape> {
                if let AnyShape::$kind(shape) = &self.any { Some(shape) } else { None }
            }

            #[inline]
            fn payload<'a>(&self, data: &'a [u8]) -> Option<&'a [u8]> {
                self.payload(data)
            }
        })+
    };
}

for_each_kind!(any_shape);

/// The shape of an opened block, with everything settled that a probe of a single key needs.
#[derive(Clone)]
pub(super) struct OpenShape {
    probe: SingleProbe<Self>,
    /// Those of a blocked Bloom filter, beside its shape: a probe then reads them without asking for the kind.
    lines: Lines,
    payload_bytes: usize,
    any: AnyShape,
    /// Otherwise every whole key may be present.
    has_whole_keys: bool,
}

impl HasLines for OpenShape {
    #[inline]
    fn lines(&self) -> Lines {
        self.lines
    }
}

impl OpenShape {
    pub(super) fn decode(trailer: &Trailer, kinds: Option<&KindRegistry>) -> Result<Self, BlockError> {
        Ok(Self::new(trailer, AnyShape::decode(trailer, kinds)?))
    }

    /// The shape of another block of the same kind.
    pub(super) fn decode_alike(&self, trailer: &Trailer) -> Result<Self, BlockError> {
        Ok(Self::new(trailer, self.any.decode_alike(trailer)?))
    }

    fn new(trailer: &Trailer, any: AnyShape) -> Self {
        let (lines, probe) = match &any {
            AnyShape::BlockedBloomKind(shape) => (shape.lines(), line::single_probe(shape.probes())),
            other => (Lines::new(0), other.single_probe()),
        };
        let has_whole_keys = trailer.has_whole_keys;
        let probe = if has_whole_keys { probe } else { SingleProbe::new(|_, _, _| true) };
        // A block is a slice, so its payload's length fits.
        let payload_bytes = usize::try_from(trailer.shape.payload_bytes).unwrap_or(usize::MAX);
        Self { probe, lines, payload_bytes, any, has_whole_keys }
    }

    pub(super) fn any(&self) -> &AnyShape {
        &self.any
    }

    /// The payload of the block in `data`; `None` if that has become shorter since it was opened.
    #[inline]
    pub(super) fn payload<'a>(&self, data: &'a [u8]) -> Option<&'a [u8]> {
        data.get(..self.payload_bytes)
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "it is a call, or, compiled for one CPU, a test of one line")]
    pub(super) fn may_contain(&self, data: &[u8], hash: KeyHash) -> bool {
        match &self.any {
            AnyShape::BlockedBloomKind(shape) if simd::COMPILED.is_some() && self.has_whole_keys => {
                shape.may_contain(data, hash)
            }
            _ => self.probe.may_contain(data, hash, self),
        }
    }

    /// The same for any hash that was added, also that of a part.
    #[inline]
    pub(super) fn may_contain_added(&self, data: &[u8], hash: KeyHash) -> bool {
        if self.has_whole_keys {
            return self.may_contain(data, hash);
        }
        self.payload(data).is_none_or(|payload| self.any.may_contain(payload, hash))
    }

    pub(super) fn has_whole_keys(&self) -> bool {
        self.has_whole_keys
    }
}

impl AnyShape {
    /// The blocked Bloom shape, if it is one: sets probe those together.
    pub(super) fn as_blocked_bloom(&self) -> Option<BloomShape> {
        if let Self::BlockedBloomKind(shape) = self { Some(*shape) } else { None }
    }

    fn decode_alike(&self, trailer: &Trailer) -> Result<Self, BlockError> {
        match self {
            Self::User(shape) => shape.decode_alike(&trailer.shape).map(Self::User),
            _ => Self::decode(trailer, None),
        }
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

    pub(super) fn shrink(
        &self,
        keys: u64,
        payload: &[u8],
        most_bytes: u64,
    ) -> Result<(EncodedShape, AlignedBuffer), ShrinkFailure> {
        each_shape!(self, shape => shape.shrink(keys, payload, most_bytes))
    }

    pub(super) fn shrink_steps(&self, keys: u64) -> Vec<ShrinkStep> {
        each_shape!(self, shape => shape.shrink_steps(keys))
    }

    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool {
        each_shape!(self, shape => shape.may_contain(payload, hash))
    }

    pub(super) fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], hits: &mut [u64]) {
        each_shape!(self, shape => shape.may_contain_batch(payload, hashes, hits));
    }
}
