//! The union of stored filters, without their keys.

use alloc::string::ToString;

use bytes::Bytes;

use super::open::FilterBlock;
use super::trailer::Trailer;
use crate::block::BlockIdentity;
use crate::codec::AlignedBuffer;
use crate::error::BlockError;
use crate::filter::dynamic::check_same_hash;
use crate::filter::error::FilterError;
use crate::filter::{MAX_KEYS, MAX_PAYLOAD_BYTES};

impl<D: AsRef<[u8]>> FilterBlock<D> {
    /// Returns the unbound block of the keys of both filters, made without the keys: both are Bloom filters of one
    /// shape (blocked, standard or register-blocked), and their bits are combined.
    ///
    /// It answers "may be present" where either filter does, so its rate is that of a filter with the keys of both in
    /// the space of one: at 10 bits per key, two filters of 1 % become one of 12 %. [`info`](Self::info) of the result
    /// states the rate, as if no key were in both; [`fill_ratio`](Self::fill_ratio) is exact.
    ///
    /// Plan filters that are to be combined for all keys together: give the builders of a fixed policy of blocked or
    /// standard Bloom, without extractors or self-check, the same
    /// [`with_expected_keys`](crate::BuildContext::with_expected_keys). Then the shapes are equal, and the rate is that
    /// of the policy. Bind the result to an id of its own ([`bound_to`](FilterBlock::bound_to)).
    ///
    /// ```
    /// use sstfilter::{BuildContext, FilterBlock, FixedPolicy, KeyHasher};
    ///
    /// let (hasher, policy) = (KeyHasher::default(), FixedPolicy::default());
    /// let context = BuildContext::new(&hasher).with_expected_keys(2_000);
    /// let filter = |keys: std::ops::Range<u32>| {
    ///     let mut builder = policy.builder(&context);
    ///     keys.for_each(|key| builder.add_key(&key.to_be_bytes()));
    ///     FilterBlock::load(builder.finish().block.unwrap_or_default(), &hasher)
    /// };
    /// let both = filter(0..500)?.union(&filter(500..2_000)?)?;
    /// let both = FilterBlock::load(both, &hasher)?;
    /// assert!((0..2_000_u32).all(|key| both.may_contain(hasher.hash(&key.to_be_bytes()))));
    /// assert!(both.info().expected_fpr < 0.01);
    /// # Ok::<(), sstfilter::FilterError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`FilterError::NotMergeable`] for other kinds, [`FilterError::HashMismatch`] and [`FilterError::ShapeMismatch`]
    /// unless hash, kind, size and probes are equal. [`FilterError::Block`] if the filters hold different parts of
    /// keys, or a payload differs from its checksum; each call compares both. [`FilterError::NoMemory`] if allocation
    /// fails.
    pub fn union<E: AsRef<[u8]>>(&self, other: &FilterBlock<E>) -> Result<Bytes, FilterError> {
        let [own, theirs] = [&self.trailer, &other.trailer];
        check_same_hash(own.identity.hash, theirs.identity.hash)?;
        if own.is_partition || theirs.is_partition {
            // It would answer for all keys of a file.
            return Err(BlockError::Partition.into());
        }
        let sizes = [&self.shape.any, &other.shape.any]
            .map(|any| any.bits_of_key().map(|bits| (any.payload_bytes() * 8, bits)));
        let [Some(expected), Some(got)] = sizes else {
            let got = if sizes[0].is_none() { own.kind } else { theirs.kind };
            return Err(FilterError::NotMergeable { got });
        };
        if (own.kind, &own.shape.params) != (theirs.kind, &theirs.shape.params) || expected != got {
            return Err(FilterError::ShapeMismatch { expected, got });
        }
        if self.held_parts() != other.held_parts() {
            let [expected, got] = [self.held_parts().to_string(), other.held_parts().to_string()];
            return Err(BlockError::ExtractorMismatch { expected, got }.into());
        }
        let bytes = own.shape.payload_bytes;
        let mut payload = AlignedBuffer::zeroed(bytes).ok_or(FilterError::NoMemory { bytes })?;
        let stored = self.verified_payload()?.iter().zip(other.verified_payload()?);
        for (out, (one, other)) in payload.as_mut_slice().iter_mut().zip(stored) {
            *out = one | other;
        }
        let mut shape = own.shape;
        shape.keys = shape.keys.saturating_add(theirs.shape.keys).min(MAX_KEYS);
        let identity = BlockIdentity { file: None, ..own.identity };
        let held = self.held_parts();
        let trailer = Trailer {
            parts_bytes: held.field_bytes(),
            has_whole_keys: held.has_whole_keys(),
            ..Trailer::new(own.kind, identity, shape, &payload)
        };
        trailer.seal(payload, held).ok_or(FilterError::TooLarge { max_bytes: MAX_PAYLOAD_BYTES, got: bytes })
    }
}
