//! Two-bit Bloom: all bits of a key in one word, for many threads.

mod filter;
mod layout;
#[cfg(all(test, loom))]
mod loom_tests;
mod probe;
mod rate;
mod shape;
mod sync;

pub use filter::TwoBitBloom;
pub use layout::WordLayout;
pub use shape::TwoBitOptions;
pub(crate) use shape::TwoBitShape;
