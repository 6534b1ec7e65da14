//! The map of ordered codes: any byte strings, ranges of any length, and a lower bound of the next key.
//!
//! Up to 224 consecutive keys make a *segment*, which has a line of its own. Its *separator* is the first key, cut to
//! the bytes that tell it from the key before. The bytes that all keys of a segment share are skipped, and the next 128
//! bits of a key, its window, are divided into cells of equal size, so that the segment's keys span at most 2^w cells
//! and, where the window has enough bits, more than half as many:
//!
//! ```text
//! cell = (window(key) >> shift) - (window(separator) >> shift)        w = 8 + low bits of the segment
//! ```
//!
//! Keys in one cell share a code, as text does in coarse cells. The bits that this saves are spent on finer ones: each
//! segment has as many low bits as its keys have bytes for at the policy's number of bits per key.
//!
//! A query finds the segments of its two ends by binary search, and then whether any cell between them is in use.
//! A segment of keys of one length whose cells have one key each is *exact*: it has no false positives.
//!
//! Sampled separators with a window are the idea of Diva (Eslami et al., VLDB 2025), here without updates; that cells
//! are laid out by the keys of the file makes it adapt to them, and is why a rate cannot be promised beside them.

pub(super) mod build;
mod query;
mod segments;

pub(super) use segments::{Segments, Spread};
