//! Range filters: a scan skips files that contain no key in its range.
//!
//! A point filter cannot help a scan, because it knows keys only by their hashes. A [`RangeFilter`] answers whether a
//! file may contain any key in a range. It is a block of its own next to the point filter's, and is built from the same
//! sorted keys ([`RangeBuilder`]). "Absent" is certain; "may be present" is wrong at a rate that [`RangePolicy`] sets.
//!
//! # How it works
//!
//! Keys become codes, which are sorted and packed into lines of 64 bytes. A query touches one line in most cases, and
//! seldom more than three cache lines. Two maps turn keys into codes, and each makes another promise:
//!
//! - *ordered* ([`RangePolicy::ordered`]): any byte strings, ranges of any length, and a lower bound of the file's next
//!   key ([`RangeFilter::seek_hint`]). It promises no rate for ranges that begin or end near a key of the file.
//!   Dense integers, such as ids, get *exact* codes instead, by themselves: 1 to 10 bits per key without any false
//!   positive, also for single keys ([`RangeFilter::may_contain`]).
//! - *hashed* ([`RangePolicy::hashed`]): ranges of a declared length inside a prefix. The rate holds for all ranges
//!   chosen without knowledge of the hash seed.
//!
//! No filter of constant size can promise both. There are infinitely many byte strings between two others, and a filter
//! of n keys that answers for any ranges of up to L points with rate e takes at least n log2(L/e) - O(n) bits (Goswami,
//! Pagh, Silvestri, Sivertsen, SODA 2015).
//!
//! # Use it
//!
//! `FilterStore::with_range_filters` builds range filters along with point filters, and scans use them to skip files.
//! Without a store, a writer and a reader follow the same steps as for point filters: create a builder with
//! [`RangePolicy::builder`], write the block's bytes into the file, call [`RangeFilter::load`] when the file is opened,
//! and [`RangeFilter::may_contain_range`] before the file is searched; without a filter, search it always. The
//! [contract](RangeBuilder#contract) says which keys to add, and when a file gets no range filter.

#![allow(
    clippy::cast_possible_truncation,
    clippy::inline_always,
    reason = "casts drop bits on purpose, after lengths were checked; a query is compiled for several instruction \
              sets, and functions that are not inlined into it would be compiled for the baseline"
)]

mod block;
mod build;
mod context;
#[cfg(test)]
#[path = "../../../tests/common/effort.rs"]
mod effort;
mod exact;
mod group;
mod hashed;
mod key_range;
mod lines;
mod ordered;
mod params;
mod plan;
mod policy;
#[cfg(test)]
mod tests;
#[cfg(test)]
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../../tests/common/vectors.rs"]
mod vectors;
mod view;
mod window;

pub use block::{RangeFilter, RangeInfo, RangeMap};
pub use build::RangeBuilder;
pub use context::RangeContext;
pub use group::ExactFilters;
pub use plan::RangeUnits;
pub use policy::RangePolicy;

/// Compiles and runs the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExamples;
