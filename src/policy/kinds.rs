//! The list of the library's kinds.

use crate::error::ConfigError;
use crate::filter::{BinaryFuseKind, BlockedBloomKind, Kind, KindId, LineRibbonKind, RibbonKind, Updates};
#[cfg(feature = "growing")]
use crate::filter::{CountingBloomKind, CuckooKind, RegisterBlockedKind, StandardBloomKind};
#[cfg(feature = "xor")]
use crate::filter::{XorKind, XorPlusKind};
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

static ALL: &[KindEntry] = &[
    KindEntry::of::<BlockedBloomKind>(FixedPolicy::bloom),
    KindEntry::of::<RibbonKind>(FixedPolicy::ribbon),
    #[cfg(feature = "growing")]
    KindEntry::of::<StandardBloomKind>(FixedPolicy::standard_bloom),
    #[cfg(feature = "growing")]
    KindEntry::of::<CountingBloomKind>(FixedPolicy::counting_bloom),
    #[cfg(feature = "growing")]
    KindEntry::of::<RegisterBlockedKind>(FixedPolicy::register_blocked_bloom),
    #[cfg(feature = "growing")]
    KindEntry::of::<CuckooKind>(FixedPolicy::cuckoo),
    #[cfg(feature = "xor")]
    KindEntry::of::<XorKind>(FixedPolicy::xor),
    #[cfg(feature = "xor")]
    KindEntry::of::<XorPlusKind>(FixedPolicy::xor_plus),
    KindEntry::of::<BinaryFuseKind>(FixedPolicy::binary_fuse),
    KindEntry {
        // A variant has the kind's number, but its own name, for option files and reports.
        name: "binary-fuse-4",
        ..KindEntry::of::<BinaryFuseKind>(|sizing| BinaryFuseKind::new(4, sizing).map(FixedPolicy::from))
    },
    KindEntry::of::<LineRibbonKind>(FixedPolicy::line_ribbon),
];

/// Returns all kinds of the library and their variants, in the order of their numbers. The kinds of the features
/// `growing` and `xor` are listed only if the feature is on.
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
