//! The shape of a binary fuse filter.

use super::cells::FuseCells;
use super::probe;
use crate::error::BlockError;
use crate::filter::{EncodedShape, FilterKind, FilterShape, ParamWords};
use crate::hash::{KeyHash, SaltStep};

/// Cells of a key in a binary fuse filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FuseArity {
    /// Three: the faster one, with 1.13 cells per key at a million keys.
    #[default]
    Three,
    /// Four: the smaller one, with 1.07.
    Four,
}

impl FuseArity {
    /// As a number.
    #[must_use]
    pub const fn get(self) -> u32 {
        match self {
            Self::Three => 3,
            Self::Four => 4,
        }
    }
}

/// The binary logarithm of the longest segment.
const MAX_LOG2_SEGMENT: u8 = 18;

/// The most cells: more than a payload has room for.
const MAX_CELLS: u64 = 1 << 38;

/// Whether there are fingerprints of so many bits.
pub(crate) const fn is_fingerprint_bits(bits: u8) -> bool {
    matches!(bits, 4..=16 | 32)
}

/// The shapes whose probe becomes part of the caller's loop, told apart by one comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inlined {
    /// Three cells of 8 bits.
    ThreeOf8,
    /// Three cells of 16 bits.
    ThreeOf16,
    /// All others.
    None,
}

/// The shape of a binary fuse filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FuseShape {
    arity: FuseArity,
    fingerprint_bits: u8,
    log2_segment: u8,
    /// Segments in which a key's first cell can be.
    segments: u32,
    salt: u8,
    /// What follows from the salt.
    salt_step: SaltStep,
    /// Length of a segment.
    segment: u64,
    /// Cells that can be a key's first.
    range: u64,
    inlined: Inlined,
}

impl FuseShape {
    /// A shape with salt 0; `None` when a block cannot record it.
    pub(crate) fn new(arity: FuseArity, fingerprint_bits: u8, log2_segment: u8, segments: u32) -> Option<Self> {
        if !is_fingerprint_bits(fingerprint_bits) || log2_segment > MAX_LOG2_SEGMENT || segments == 0 {
            return None;
        }
        let segment = 1 << log2_segment;
        let range = u64::from(segments) * segment;
        let inlined = match (arity, fingerprint_bits) {
            (FuseArity::Three, 8) => Inlined::ThreeOf8,
            (FuseArity::Three, 16) => Inlined::ThreeOf16,
            _ => Inlined::None,
        };
        let (salt, salt_step) = (0, SaltStep::new(0));
        let shape = Self { arity, fingerprint_bits, log2_segment, segments, salt, salt_step, segment, range, inlined };
        (shape.cells() <= MAX_CELLS).then_some(shape)
    }

    pub(crate) fn with_salt(self, salt: u8) -> Self {
        Self { salt, salt_step: SaltStep::new(salt), ..self }
    }

    pub(crate) fn arity(&self) -> FuseArity {
        self.arity
    }

    pub(crate) fn fingerprint_bits(&self) -> u8 {
        self.fingerprint_bits
    }

    #[inline]
    pub(super) fn inlined(&self) -> Inlined {
        self.inlined
    }

    pub(crate) fn cells(&self) -> u64 {
        self.range + u64::from(self.arity.get() - 1) * self.segment
    }

    /// Where keys have their cells.
    #[inline]
    pub(in crate::filter) fn placement<const ARITY: usize>(&self) -> FuseCells<ARITY> {
        let Self { range, segment, log2_segment, salt, salt_step, .. } = *self;
        FuseCells { range, segment, log2_segment, salt_step, is_raw: salt == 0 }
    }
}

impl FilterShape for FuseShape {
    const KIND: FilterKind = FilterKind::BINARY_FUSE;

    fn decode(encoded: &EncodedShape) -> Result<Self, BlockError> {
        let field = |field, expected, got| Err(BlockError::Field { field, expected, got });
        let &[word, segments] = encoded.params.as_slice() else {
            return field("parameter words", "2 for binary fuse", encoded.params.count().into());
        };
        let [fingerprint_bits, arity, log2_segment, reserved] = word.to_le_bytes();
        let arity = match arity {
            3 => FuseArity::Three,
            4 => FuseArity::Four,
            _ => return field("cells of a key", "3 or 4", arity.into()),
        };
        if !is_fingerprint_bits(fingerprint_bits) {
            return field("fingerprint bits", "4 to 16, or 32", fingerprint_bits.into());
        }
        if log2_segment > MAX_LOG2_SEGMENT || reserved != 0 {
            return field("segment length", "2^0 to 2^18", (word >> 16).into());
        }
        let Some(shape) = Self::new(arity, fingerprint_bits, log2_segment, segments) else {
            return field("segments", "at least 1, and at most 2^38 cells in all", segments.into());
        };
        if shape.payload_bytes() != encoded.payload_bytes {
            return field("payload bytes", "what the parameters give", encoded.payload_bytes);
        }
        Ok(shape.with_salt(encoded.salt))
    }

    fn params(&self) -> ParamWords {
        let arity = u32::from(self.fingerprint_bits) | self.arity.get() << 8;
        [arity | u32::from(self.log2_segment) << 16, self.segments].into_iter().collect()
    }

    fn salt(&self) -> u8 {
        self.salt
    }

    /// Whole words; four bytes can be read wherever a cell begins.
    fn payload_bytes(&self) -> u64 {
        ((self.cells() - 1) * u64::from(self.fingerprint_bits) / 8 + 4).next_multiple_of(8)
    }

    /// 2^-w for fingerprints of w bits, whatever the number of keys.
    fn expected_fpr(&self, _keys: u64) -> f64 {
        1.0 / (1_u64 << self.fingerprint_bits) as f64
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        vec![
            ("cells of a key", self.arity.get().to_string()),
            ("fingerprint bits", self.fingerprint_bits.to_string()),
            ("segment length", (1_u64 << self.log2_segment).to_string()),
            ("cells", self.cells().to_string()),
        ]
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for `probe::may_contain`")]
    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool {
        probe::may_contain(self, payload, hash)
    }

    fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], hits: &mut [u64]) {
        probe::may_contain_batch(self, payload, hashes, hits);
    }
}
