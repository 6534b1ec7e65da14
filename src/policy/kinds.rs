//! The list of the library's kinds.

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

static ALL: &[KindEntry] = &[
    KindEntry::of::<filter::BlockedBloomKind>(FixedPolicy::bloom),
    #[cfg(feature = "ribbon")]
    KindEntry::of::<filter::RibbonKind>(FixedPolicy::ribbon),
    #[cfg(feature = "growing")]
    KindEntry::of::<filter::StandardBloomKind>(FixedPolicy::standard_bloom),
    #[cfg(feature = "growing")]
    KindEntry::of::<filter::CountingBloomKind>(FixedPolicy::counting_bloom),
    #[cfg(feature = "growing")]
    KindEntry::of::<filter::RegisterBlockedKind>(FixedPolicy::register_blocked_bloom),
    #[cfg(feature = "growing")]
    KindEntry::of::<filter::CuckooKind>(FixedPolicy::cuckoo),
    #[cfg(feature = "xor")]
    KindEntry::of::<filter::XorKind>(FixedPolicy::xor),
    #[cfg(feature = "xor")]
    KindEntry::of::<filter::XorPlusKind>(FixedPolicy::xor_plus),
    #[cfg(feature = "fuse")]
    KindEntry::of::<filter::BinaryFuseKind>(FixedPolicy::binary_fuse),
    #[cfg(feature = "fuse")]
    KindEntry {
        // A variant has the kind's number, but its own name, for option files and reports.
        name: "binary-fuse-4",
        ..KindEntry::of::<filter::BinaryFuseKind>(|sizing| {
            filter::BinaryFuseKind::new(4, sizing).map(FixedPolicy::from)
        })
    },
    #[cfg(feature = "line-ribbon")]
    KindEntry::of::<filter::LineRibbonKind>(FixedPolicy::line_ribbon),
];

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
