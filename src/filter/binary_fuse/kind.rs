//! Configuration of binary fuse filters as a kind.

use alloc::vec::Vec;

use super::shape::{FINGERPRINT_BITS, FuseArity, FuseShape, shape_for};
use crate::error::ConfigError;
use crate::filter::fingerprint::{PeeledShape, attempt, build};
use crate::filter::peel::{CellSums, NO_RESERVE};
use crate::filter::{
    BuildLimits, BuildResult, BuiltPayload, FallbackReason, FilterShape, Kind, KindId, RATE_KEYS, fingerprint_bits,
};
use crate::hash::KeyHash;
use crate::units::Sizing;

/// Binary fuse filters of three or four cells per key, with fingerprints of 4 to 32 bits.
///
/// ```
/// use sstfilter::kind::BinaryFuseKind;
/// use sstfilter::{FixedPolicy, Sizing};
///
/// let policy = FixedPolicy::from(BinaryFuseKind::new(4, Sizing::FingerprintBits(8))?);
/// assert!(policy.block_bytes(1_000_000) <
/// FixedPolicy::binary_fuse(Sizing::FingerprintBits(8))?.block_bytes(1_000_000));
/// assert!(BinaryFuseKind::new(5, Sizing::FingerprintBits(8)).is_err());
/// # Ok::<(), sstfilter::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BinaryFuseKind {
    arity: FuseArity,
    fingerprint_bits: u8,
}

impl BinaryFuseKind {
    /// Configures filters of 3 cells.
    pub(crate) fn configure(sizing: Sizing) -> Result<Self, ConfigError> {
        Self::new(3, sizing)
    }

    /// Configures filters of 3 or 4 `cells` per key. Three are faster, with 1.13 cells per key in all at a million
    /// keys; four are smaller, with 1.07.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] for another number of cells, a rate below 2^-32, a size below that of fingerprints of 4 bits, or
    /// an unsupported width.
    pub fn new(cells: u8, sizing: impl Into<Sizing>) -> Result<Self, ConfigError> {
        let refused = ConfigError::out_of_range("cells of a key in a binary fuse filter", "3 or 4", cells);
        let arity = FuseArity::of_cells(cells).ok_or(refused)?;
        let widths: Vec<u8> = FINGERPRINT_BITS.collect();
        let block_bytes = |bits| shape_for(RATE_KEYS, arity, bits).map(|shape| shape.block_bytes());
        let fingerprint_bits = fingerprint_bits(KindId::BINARY_FUSE, &widths, sizing.into(), block_bytes)?;
        Ok(Self { arity, fingerprint_bits })
    }
}

impl Kind for BinaryFuseKind {
    type Shape = FuseShape;

    const ID: KindId = KindId::BINARY_FUSE;
    const STRENGTH: &'static str = "is probed faster than Ribbon and is smaller than Bloom";
    /// A full sort would be a third of all work. Repeated keys cannot be peeled, so a failed attempt is followed by a
    /// full sort.
    const ACCEPTS_PARTITIONED_HASHES: bool = true;

    fn plan(&self, keys: u64) -> Result<FuseShape, FallbackReason> {
        shape_for(keys, self.arity, self.fingerprint_bits).ok_or(FallbackReason::TooManyKeys)
    }

    fn build_bytes(&self, keys: u64, plan: &FuseShape) -> u64 {
        plan.build_bytes(keys)
    }

    fn build(&self, plan: &Self::Shape, hashes: &[KeyHash], limits: BuildLimits) -> BuildResult<Self::Shape> {
        build(hashes, *plan, NO_RESERVE, limits.threads)
    }

    fn build_from_partitioned(
        &self,
        plan: &FuseShape,
        hashes: &[KeyHash],
        spare: Vec<KeyHash>,
        limits: BuildLimits,
    ) -> Option<BuiltPayload<FuseShape>> {
        let mut sums = CellSums::in_memory_of(spare, plan.cells()).ok()?;
        attempt(hashes, *plan, &mut sums, NO_RESERVE, limits.threads).ok()
    }
}
