//! The list of the library's kinds.

use crate::error::ConfigError;
use crate::filter::{BinaryFuseKind, BlockedBloomKind, Kind, KindId, RibbonKind, Updates};
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
    /// When to choose the kind: the predicate of a sentence whose subject is its name.
    pub strength: &'static str,
    /// The changes to its keys once it is in use.
    pub updates: Updates,
    /// Whether many threads can make these changes at once, with concurrent readers. If not, one thread does, without
    /// concurrent readers; or all access goes through a lock.
    pub is_concurrent: bool,
    /// Whether a block has exactly the bytes of its plan.
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
        name: "binary-fuse-4",
        ..KindEntry::of::<BinaryFuseKind>(|sizing| BinaryFuseKind::new(4, sizing).map(FixedPolicy::from))
    },
];

/// All kinds of the library and their variants, in the order of their numbers. Without the features `growing` and
/// `xor`, those of neither.
#[must_use]
pub fn all() -> &'static [KindEntry] {
    ALL
}

impl KindEntry {
    /// The entry of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|entry| entry.name == name)
    }

    /// The policy of the kind for a size.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when the kind has no filter of this size.
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
