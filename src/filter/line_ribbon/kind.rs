//! Configuration of line ribbon filters as a kind.

use super::build::{build, build_bytes};
use super::shape::{COLUMNS, LineRibbonShape, Load};
use crate::error::ConfigError;
use crate::filter::{BuildLimits, BuildResult, FallbackReason, FilterShape, Kind, KindId, RATE_KEYS, fingerprint_bits};
use crate::hash::KeyHash;
use crate::units::Sizing;

/// Line ribbon filters, all with the false positive rate 2^-8 (0.39 %). Their *load* is a choice between speed and
/// size: 90, 100 or 105 keys for a hundred slots of the first layer, and 9.3, 8.7 or 8.6 bits per key.
///
/// Files with fewer than 3,000 keys get a blocked Bloom filter, unless a policy sets another minimum. So do hashes so
/// uneven that the filter cannot be built.
///
/// ```
/// use sstfilter::kind::LineRibbonKind;
/// use sstfilter::{BitsPerKey, FixedPolicy};
///
/// let fast = FixedPolicy::from(LineRibbonKind::of_load(90)?);
/// let small = FixedPolicy::from(LineRibbonKind::of_load(105)?);
/// assert!(small.block_bytes(1_000_000) < fast.block_bytes(1_000_000));
/// // A size takes the lowest load with which filters are no larger.
/// let of_size = FixedPolicy::line_ribbon(BitsPerKey::new(8.6)?)?;
/// assert_eq!(of_size.block_bytes(1_000_000), small.block_bytes(1_000_000));
/// # Ok::<(), sstfilter::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineRibbonKind {
    load: Load,
}

impl LineRibbonKind {
    /// Configures filters of a size, or of a rate, from 2^-8 on, with the load 90. Fingerprint bits must be 8.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] for a rate below 2^-8, a size below that of the highest load, and other fingerprint bits.
    pub fn configure(sizing: impl Into<Sizing>) -> Result<Self, ConfigError> {
        let (sizing, [fast, middle, small]) = (sizing.into(), Load::ALL);
        let of = |load: Load| {
            let block_bytes = |_| load.shape(RATE_KEYS).map(|shape| shape.block_bytes());
            fingerprint_bits(KindId::LINE_RIBBON, &[COLUMNS], sizing, block_bytes).map(|_| Self { load })
        };
        of(fast).or_else(|_| of(middle)).or_else(|_| of(small))
    }

    /// Configures filters of a load: 90, 100 or 105 keys for a hundred slots.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] for other loads.
    pub fn of_load(keys_for_100_slots: u8) -> Result<Self, ConfigError> {
        let refused = ConfigError::out_of_range("load of a line ribbon filter", "90, 100 or 105", keys_for_100_slots);
        let load = Load::ALL.into_iter().find(|load| load.0[0].0 == keys_for_100_slots);
        load.map(|load| Self { load }).ok_or(refused)
    }
}

impl Kind for LineRibbonKind {
    type Shape = LineRibbonShape;

    const ID: KindId = KindId::LINE_RIBBON;
    const STRENGTH: &'static str = "takes a quarter less memory than Bloom at its one rate, 2^-8, and with AVX-512 is probed nearly as fast; for filters and blocks that stay in memory";
    /// With fewer keys, later layers and rounding take much of what it saves: with 1,000 keys, it is only 14 to 18 %
    /// smaller than blocked Bloom.
    const DEFAULT_MIN_KEYS: u64 = 3_000;

    fn plan(&self, keys: u64) -> Result<LineRibbonShape, FallbackReason> {
        self.load.shape(keys).ok_or(FallbackReason::TooManyKeys)
    }

    fn build_bytes(&self, keys: u64, _plan: &LineRibbonShape) -> u64 {
        build_bytes(keys)
    }

    fn build(&self, plan: &Self::Shape, hashes: &[KeyHash], limits: BuildLimits) -> BuildResult<Self::Shape> {
        build(hashes, plan, limits.threads)
    }
}
