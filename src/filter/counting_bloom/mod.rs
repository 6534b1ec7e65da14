//! Counting Bloom: a standard Bloom filter that keys can be taken out of again.

mod filter;
mod shape;

pub use filter::CountingBloom;
pub(crate) use shape::CountingBloomShape;
