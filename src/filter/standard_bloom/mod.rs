//! Standard Bloom: k bits per key, anywhere in the filter.

mod build;
mod filter;
mod probe;
mod rate;
mod shape;
mod spread;

pub(crate) use build::StandardBits;
pub use filter::StandardBloom;
pub(crate) use probe::{Cell, may_contain, may_contain_batch};
pub(crate) use shape::StandardBloomShape;
pub use spread::{MAX_PROBES, bits_per_key_for, optimal_probes, size_for_rate};
pub(crate) use spread::{Spread, allocate};
