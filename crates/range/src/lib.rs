//! Range filters: a scan skips the files that hold no key between its ends.
//!
//! A point filter is no help to a scan, because it knows keys by their hashes. A [`RangeFilter`] answers whether a file
//! may hold any key in a range. It stands beside the point filter, in a block of its own, and is built from the same
//! keys, which come in order ([`RangeBuilder`]). "Absent" is certain; "may be present" is wrong at a rate that
//! [`RangePolicy`] sets.
//!
//! # How it works
//!
//! Keys become codes, which are sorted and packed into lines of 64 bytes: a query touches one line in most cases, and
//! seldom more than three cache lines. There are two ways from keys to codes, for two promises:
//!
//! - *ordered* ([`RangePolicy::ordered`]): any byte strings, ranges of any length, and a lower bound of the file's next
//!   key ([`RangeFilter::seek_hint`]). No promise for ranges that begin or end beside a key of the file.
//! - *hashed* ([`RangePolicy::hashed`]): ranges of a declared length inside a prefix. The rate holds for all ranges
//!   that are chosen without knowing the hash seed.
//!
//! No filter of constant size can promise both: between two byte strings there are endlessly many others, and a filter
//! of n keys that answers for any ranges of up to L points with rate e takes at least n log2(L/e) - O(n) bits (Goswami,
//! Pagh, Silvestri, Sivertsen, SODA 2015).
//!
//! # Use it
//!
//! `FilterStore::with_range_filters` builds them beside the filters
//! for points, and scans skip files by them. Without a store, a writer and a reader follow the same steps as for point
//! filters: [`RangePolicy::builder`], the block's bytes into the file, [`RangeReader::load`] when the file is opened,
//! [`RangeReader::probe`] before the file is searched. The [contract](RangeBuilder#contract) says what must be added,
//! and when a file has no range filter.

#![allow(
    clippy::cast_possible_truncation,
    clippy::inline_always,
    reason = "bits are cut off on purpose, and lengths were compared before; a query is compiled for several \
              instruction sets, and what is not inlined into it would have none of them"
)]

mod block;
mod build;
mod context;
#[cfg(test)]
#[path = "../../../tests/common/effort.rs"]
mod effort;
mod hashed;
#[deny(clippy::indexing_slicing)]
mod key_head;
mod key_range;
mod lines;
mod ordered;
mod params;
mod plan;
mod policy;
mod reader;
mod simd;
#[cfg(test)]
mod tests;
#[cfg(test)]
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../../tests/common/vectors.rs"]
mod vectors;
mod view;
mod window;

#[doc(hidden)]
pub mod internal {
    //! Helpers for the packages above this one, which name the one release that they need. They change without notice:
    //! do not use them elsewhere.

    /// Heads of sorted keys, by which a key's place is found.
    pub use crate::key_head::KeyHeads;
    /// The prefix that sorted keys share, and heads leave out.
    pub use crate::key_head::SharedPrefix;
    /// How many bytes two keys begin with alike.
    pub use crate::key_head::common_prefix;
    /// A key's first eight bytes, as a number.
    pub use crate::key_head::head;
    /// The place of the first head that is not below a bound.
    pub use crate::key_head::lower_bound;
}

pub use block::{RangeFilter, RangeInfo, RangeMap};
pub use build::RangeBuilder;
pub use context::RangeContext;
pub use key_range::KeyRange;
pub use plan::RangeUnits;
pub use policy::RangePolicy;
pub use reader::RangeReader;

/// Compiles and runs the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExamples;
