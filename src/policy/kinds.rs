//! The list of the library's kinds.

use alloc::sync::Arc;

use crate::error::ConfigError;
use crate::filter::{self, Kind, KindId, Updates};
use crate::policy::FixedPolicy;
use crate::units::Sizing;

/// A kind of the library, or a separately listed variant of one.
#[derive(Debug)]
#[non_exhaustive]
pub struct KindEntry {
    /// The kind's number.
    pub id: KindId,
    /// Its name, or the variant's.
    pub name: &'static str,
    /// When to choose the kind, as the predicate of a sentence whose subject is its name.
    pub strength: &'static str,
    /// Which changes to its keys a filter in use accepts.
    pub updates: Updates,
    /// Whether many threads can make these changes at once, with concurrent readers. If not, only one thread may access
    /// the filter while it changes it; use a lock.
    pub is_concurrent: bool,
    /// Whether a block has exactly the planned number of bytes.
    pub has_exact_size: bool,
    configure: fn(Sizing) -> Result<FixedPolicy, ConfigError>,
}

/// Defines the list of kinds, and a policy of each. Nothing else refers to a kind's builder, so that the builder of a
/// kind of which a program makes no policy is left out of it, unless it asks for the list.
macro_rules! policies {
    ($(
        $(#[doc = $doc:literal])+ $(#[cfg($only:meta)])? $name:ident: $kind:ident
        $(, #[$variant_only:meta] $variant:literal: $configure:expr)?;
    )+) => {
        static ALL: &[KindEntry] = &[$(
            $(#[cfg($only)])?
            KindEntry::of::<filter::$kind>(FixedPolicy::$name),
            $(
                // A variant has the kind's number, but its own name, for option files and reports.
                #[$variant_only]
                KindEntry { name: $variant, ..KindEntry::of::<filter::$kind>($configure) },
            )?
        )+];

        $(
            $(#[cfg($only)])?
            impl From<filter::$kind> for FixedPolicy {
                fn from(kind: filter::$kind) -> Self {
                    Self::new(Arc::new(kind))
                }
            }

            $(#[cfg($only)])?
            impl FixedPolicy {
                $(#[doc = $doc])+
                ///
                /// # Errors
                ///
                /// [`ConfigError`] where the kind has no such filters.
                pub fn $name(sizing: impl Into<Sizing>) -> Result<Self, ConfigError> {
                    filter::$kind::configure(sizing.into()).map(Self::from)
                }
            }
        )+
    };
}

policies! {
    /// Filters of the kind `bloom`, of a rate or a size: blocked Bloom, one 64-byte line per key. The default.
    bloom: BlockedBloomKind;
    /// Filters of the kind `ribbon`, of a rate or a size: bumped Ribbon.
    #[cfg(feature = "ribbon")]
    ribbon: RibbonKind;
    /// Filters of the kind `standard-bloom`, of a rate or a size: Bloom over the whole array, by double hashing.
    #[cfg(feature = "growing")]
    standard_bloom: StandardBloomKind;
    /// Filters of the kind `counting-bloom`, of a rate or a size: Bloom with 4-bit counters instead of bits.
    #[cfg(feature = "growing")]
    counting_bloom: CountingBloomKind;
    /// Filters of the kind `register-blocked-bloom`, of a rate or a size: Bloom with all bits of a key in one word, for
    /// many threads.
    #[cfg(feature = "growing")]
    register_blocked_bloom: RegisterBlockedKind;
    /// Filters of the kind `cuckoo`, of a rate or a size: tags in buckets of four.
    #[cfg(feature = "growing")]
    cuckoo: CuckooKind;
    /// Filters of the kind `xor`, of a rate or a size: fingerprints in three blocks.
    #[cfg(feature = "xor")]
    xor: XorKind;
    /// Filters of the kind `xor+`, of a rate or a size: an xor filter whose third block leaves out its empty cells.
    #[cfg(feature = "xor")]
    xor_plus: XorPlusKind;
    /// Filters of the kind `binary-fuse`, of a rate or a size: fingerprints in three neighbouring segments.
    /// [`BinaryFuseKind`](filter::BinaryFuseKind) has a variant with four.
    #[cfg(feature = "fuse")]
    binary_fuse: BinaryFuseKind,
    #[cfg(feature = "fuse")]
    "binary-fuse-4": |sizing| filter::BinaryFuseKind::new(4, sizing).map(FixedPolicy::from);
    /// Filters of the kind `line-ribbon`, of a size or of a rate from 2^-8 on, with the rate 2^-8: Ribbon with one
    /// cache line for each key. [`LineRibbonKind`](filter::LineRibbonKind) chooses between speed and size by its load.
    #[cfg(feature = "line-ribbon")]
    line_ribbon: LineRibbonKind;
}

/// Returns all kinds of the library that are compiled in and their variants, in the order of their numbers. All but
/// blocked Bloom need a feature.
#[must_use]
pub fn all() -> &'static [KindEntry] {
    ALL
}

impl KindEntry {
    /// Returns the entry with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|entry| entry.name == name)
    }

    /// Returns a policy of this kind for a size or a rate.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the kind has no such filter.
    pub fn configure(&self, sizing: impl Into<Sizing>) -> Result<FixedPolicy, ConfigError> {
        (self.configure)(sizing.into())
    }

    const fn of<K: Kind>(configure: fn(Sizing) -> Result<FixedPolicy, ConfigError>) -> Self {
        Self {
            id: K::ID,
            name: K::ID.name(),
            strength: K::STRENGTH,
            updates: K::UPDATES,
            is_concurrent: K::IS_CONCURRENT,
            has_exact_size: K::HAS_EXACT_SIZE,
            configure,
        }
    }
}
