//! The probe of single keys in an opened block.
//!
//! `FilterBlock::may_contain` calls `OpenShape::may_contain` in `block/shape.rs`, and that calls a [`SingleProbe`] of
//! `kernel`: a function pointer, chosen when the block was opened. `OpenShape` gets it from its kind's
//! [`ProbedSingly::single_probe`], and passes itself to the function, which finds its shape and payload through
//! [`OpenFilter`]. Unless a kind has a better function, it is [`probe_shape`]. Blocked Bloom filters go another way:
//! their function comes from `line::single_probe`, has the instruction set and the number of probes as constants, and
//! finds the lines through `HasLines`. Where the crate is compiled for an instruction set (`simd::COMPILED`),
//! `OpenShape` probes them inline, without a pointer.

use super::kind::FilterShape;
use crate::hash::KeyHash;
use crate::kernel::SingleProbe;

/// What an opened block knows of its filter: the shape, if that is an `S`, and where the payload ends.
pub(crate) trait OpenFilter<S> {
    fn shape(&self) -> Option<&S>;

    /// The payload of the block in `data`; `None` if that has become shorter since it was opened.
    fn payload<'a>(&self, data: &'a [u8]) -> Option<&'a [u8]>;
}

/// A shape whose probe of single keys is chosen when a block is opened.
pub(crate) trait ProbedSingly: FilterShape {
    /// The probe that is best for this shape. Whatever does not fit its kernel reads as "may be present".
    fn single_probe<F: OpenFilter<Self>>(&self) -> SingleProbe<F> {
        SingleProbe::new(probe_shape)
    }
}

/// Probes for one key by [`FilterShape::may_contain`].
pub(crate) fn probe_shape<S: FilterShape, F: OpenFilter<S>>(data: &[u8], hash: KeyHash, filter: &F) -> bool {
    match (filter.shape(), filter.payload(data)) {
        (Some(shape), Some(payload)) => shape.may_contain(payload, hash),
        _ => true,
    }
}
