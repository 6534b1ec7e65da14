//! The filter block: a payload, its parameters, and a trailer that describes both.
//!
//! [`FilterBlock::load`] verifies and opens a block, which then answers whether a key may be present. A
//! [`FilterReader`] is a block as a table holds it: an unusable block answers "may be present", and all answers are
//! counted. A [`FilterSet`] probes many of them for one key or for many. A [`LoadContext`] is what a block is checked
//! against: the reader's hash and file.
//!
//! The bytes are specified in FORMAT.md.

mod bitmap;
#[cfg(feature = "growing")]
mod dynamic;
mod group;
mod held;
mod identity;
mod open;
mod reader;
mod set;
mod shrink;
pub(crate) mod trailer;
mod unopened;

pub use crate::filter::reason::FallbackReason;
pub use crate::filter::user::KindRegistry;
pub use crate::ids::FileId;
pub(crate) use bitmap::{GROUP, bits_of, first_bits};
pub use bitmap::{MatchBitmap, MatchMatrix, Probe};
#[cfg(feature = "growing")]
pub use dynamic::DynamicFilter;
pub(crate) use group::{CacheResidency, FilterGroup, PreparedKey};
pub(crate) use held::{HeldParts, MAX_PARTS_BYTES, encode_parts};
pub use identity::LoadContext;
pub(crate) use identity::{BlockIdentity, FILE_BYTES, KnownHash};
pub use open::{BlockInfo, FilterBlock};
pub use reader::{FilterReader, LookupOutcome};
pub use set::FilterSet;
