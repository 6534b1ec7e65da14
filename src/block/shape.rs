//! Every kind that can be opened.

use super::trailer::Trailer;
use crate::error::BlockError;
use crate::filter::FilterShape;
use crate::filter::binary_fuse::FuseShape;
use crate::filter::blocked_bloom::BloomShape;
use crate::filter::counting_bloom::CountingBloomShape;
use crate::filter::cuckoo::CuckooShape;
use crate::filter::ribbon::RibbonShape;
use crate::filter::standard_bloom::StandardBloomShape;
use crate::filter::two_bit_bloom::TwoBitShape;
use crate::filter::xor::XorShape;
use crate::filter::xor_plus::XorPlusShape;
use crate::hash::KeyHash;

/// Defines [`Shape`] from the list of kinds.
macro_rules! kinds {
    ($($variant:ident($shape:ty)),+ $(,)?) => {
        /// The shape of a filter of any kind.
        #[expect(clippy::large_enum_variant, reason = "one per open file, and opening allocates nothing")]
        #[derive(Clone, Copy, Debug)]
        pub(super) enum Shape {
            $($variant($shape)),+
        }

        impl Shape {
            pub(super) fn decode(trailer: &Trailer) -> Result<Self, BlockError> {
                match trailer.kind {
                    $(<$shape as FilterShape>::KIND => <$shape>::decode(&trailer.shape).map(Self::$variant),)+
                    kind => Err(BlockError::UnknownKind { got: kind.code() }),
                }
            }
        }

        /// Calls a method of whichever shape it is.
        macro_rules! each_shape {
            ($any:expr, $inner:ident => $call:expr) => {
                match $any {
                    $(Shape::$variant($inner) => $call),+
                }
            };
        }
    };
}

// A new kind is one line here.
kinds! {
    BlockedBloom(BloomShape),
    Ribbon(RibbonShape),
    TwoBitBloom(TwoBitShape),
    StandardBloom(StandardBloomShape),
    CountingBloom(CountingBloomShape),
    Cuckoo(CuckooShape),
    Xor(XorShape),
    XorPlus(XorPlusShape),
    BinaryFuse(FuseShape),
}

impl Shape {
    pub(super) fn expected_fpr(&self, keys: u64) -> f64 {
        each_shape!(self, shape => shape.expected_fpr(keys))
    }

    pub(super) fn describe(&self) -> Vec<(&'static str, String)> {
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
