//! The filter block: a payload, its parameters, and a trailer that describes both.
//!
//! [`FilterBlock::load`] verifies and opens a block, which then answers whether a key may be present. It checks the
//! block against a [`LoadContext`]: the reader's hash and file.
//!
//! FORMAT.md specifies the bytes.

mod bitmap;
#[cfg(feature = "growing")]
mod dynamic;
mod group;
mod held;
mod identity;
mod open;
mod shrink;
pub(crate) mod trailer;
#[cfg(feature = "growing")]
mod union;
mod unopened;

pub use crate::filter::reason::FallbackReason;
pub use crate::filter::user::KindRegistry;
pub use crate::ids::FileId;
pub(crate) use bitmap::GROUP;
pub use bitmap::{MatchBitmap, MatchMatrix, Probe, bits_of};
#[cfg(feature = "growing")]
pub use dynamic::DynamicFilter;
pub use group::{CacheResidency, FilterGroup, PreparedKey};
pub use held::HeldParts;
pub use identity::{BlockIdentity, LoadContext};
pub use open::{BlockInfo, FilterBlock};
