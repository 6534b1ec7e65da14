//! The map of exact codes: keys of one length that differ in their last eight bytes only, and are dense there.
//!
//! Auto-increment ids, sequence numbers and slots of time are such keys. Their last bytes are an integer, and the code
//! of a key is its distance from the file's smallest integer. All codes are stored, so the filter has no false
//! positives, for single keys, for ranges and for the next key. No other filter comes near its size: at a density of 1
//! it takes one bit per key.
//!
//! - *Bitmap*: one bit for each integer from the smallest to the largest, if at most eight of them come to a key.
//! - *Split codes*, for sparser keys: the low bits of all codes, and their high bits in unary (Elias 1974, Fano 1971;
//!   selected by a sample for each 256 zeros). Some two bits more than the logarithm of the mean gap.
//!
//! In front of either stands the same tree: the bits, then for each word of 64 of them a bit that says whether it has
//! any, and so on. So the next set bit is found in a few words, however long the gap is.
//!
//! Rejected: bitmaps in the segments of the map of ordered codes, whose separators take more than the bitmap; and lines
//! of 64 bytes for equal spans of integers, which overflow where keys are random, and take at least 9.1 bits at a
//! density of 1/100 instead of 8.8.

pub(super) mod build;
mod query;
mod tree;

pub(super) use query::{Exact, Form, bit};
