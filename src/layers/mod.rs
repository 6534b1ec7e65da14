//! Filters of one hash that answer as one: a key may be present if one of them may contain it.
//!
//! A filter cannot grow, because it does not store its keys. A second one beside it takes the keys that it lacks:
//!
//! | type | parts | for |
//! |---|---|---|
//! | [`LateKeys`] | a static filter, and a growing one | keys that come after a file was written, deny lists |
//! | [`ScalableBloom`] | each twice as large as the one before | streams of unknown length |
//! | [`RotatingBloom`] | one for each of the last generations of keys | duplicates in a recent window |
//!
//! Each is stored and loaded as one (docs/format/growing.md, "Layers"). Their parts are standard Bloom filters: write
//! `<ScalableBloom>::new`, with the brackets, for these, or `ScalableBloom::<RegisterBlockedBloom>::new`.
//!
//! They stand by themselves. A file in a view of `sstfilter-store` has bounds and a filter that exclude its late keys.

mod late;
mod parts;
mod rotating;
mod scalable;

pub use late::LateKeys;
pub use parts::{LayeredFilter, LayersHealth, Part};
pub use rotating::RotatingBloom;
pub use scalable::ScalableBloom;
