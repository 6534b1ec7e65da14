//! The kinds of filter: the trait of a kind, the table of the library's kinds, and the limits of the format.
//!
//! [`Kind`] explains how to add one, to the library or to your own program.
//!
//! ```
//! use sstfilter::{BitsPerKey, kind};
//!
//! for entry in kind::all() {
//!     match entry.configure(BitsPerKey::new(17.0)?) {
//!         Ok(policy) => println!("{}: {:?} bytes for a million keys", entry.name, policy.block_bytes(1_000_000)),
//!         Err(error) => println!("{}: {error}", entry.name),
//!     }
//! }
//! # Ok::<(), sstfilter::ConfigError>(())
//! ```

use core::fmt;
use std::sync::LazyLock;

use crate::error::ConfigError;
pub use crate::filter::binary_fuse::kind::BinaryFuseKind;
pub use crate::filter::blocked_bloom::kind::BlockedBloomKind;
pub use crate::filter::kind::{
    Abilities, BuildFailure, BuildLimits, BuiltPayload, EncodedShape, FilterShape, Kind, MAX_KEYS, MAX_PAYLOAD_BYTES,
    NotStreamed, ParamWords, Payload, ShapeFields, StreamedPayload, Updates, Variant, Writers,
};
pub use crate::filter::ribbon::kind::RibbonKind;
use crate::ids::{FilterKind, for_each_kind};
use crate::policy::KindPolicy;
pub use crate::policy::Plan;
use crate::units::Sizing;

/// A kind of the library, or a separately listed variant of one.
#[non_exhaustive]
pub struct KindEntry {
    /// The kind's number.
    pub id: FilterKind,
    /// Its name, or the variant's.
    pub name: &'static str,
    /// When to choose the kind: the predicate of a sentence whose subject is its name.
    pub strength: &'static str,
    /// What it can do beside being built once.
    pub abilities: Abilities,
    /// Whether a block has exactly the bytes of its plan.
    pub has_exact_size: bool,
    configure: Box<Configure>,
}

/// Makes a kind's policy for a size.
type Configure = dyn Fn(Sizing) -> Result<KindPolicy, ConfigError> + Send + Sync;

impl KindEntry {
    /// The entry of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        all().iter().find(|entry| entry.name == name)
    }

    /// The policy of the kind for a size.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when the kind has no filter of this size.
    pub fn configure(&self, sizing: impl Into<Sizing>) -> Result<KindPolicy, ConfigError> {
        (self.configure)(sizing.into())
    }

    fn of<K: Kind>(name: &'static str, configure: fn(Sizing) -> Result<K, ConfigError>) -> Self {
        Self {
            id: K::Shape::KIND,
            name,
            strength: K::STRENGTH,
            abilities: K::ABILITIES,
            has_exact_size: K::HAS_EXACT_SIZE,
            configure: Box::new(move |sizing| configure(sizing).map(KindPolicy::new)),
        }
    }
}

impl fmt::Debug for KindEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KindEntry").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}

/// All kinds of the library and their variants, in the order of their numbers.
#[must_use]
pub fn all() -> &'static [KindEntry] {
    static ALL: LazyLock<Vec<KindEntry>> = LazyLock::new(|| {
        let mut all = Vec::new();
        macro_rules! add_each {
            ($($number:literal $constant:ident $name:literal $constructor:ident $folder:ident::$kind:ident $what:literal)+) => {
                $(add::<crate::filter::$folder::$kind>(&mut all);)+
            };
        }
        for_each_kind!(add_each);
        all
    });
    &ALL
}

fn add<K: Kind>(all: &mut Vec<KindEntry>) {
    all.push(KindEntry::of(K::NAME, K::configure));
    all.extend(K::VARIANTS.iter().map(|variant| KindEntry::of(variant.name, variant.configure)));
}
