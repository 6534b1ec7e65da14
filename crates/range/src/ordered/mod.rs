//! The map of ordered codes: any byte strings, ranges of any length, and a lower bound of the next key.
//!
//! Up to 224 consecutive keys form a *segment*, which has its own line. Its *separator* is the first key, cut to the
//! bytes that distinguish it from the previous key. A segment skips the bytes that all its keys share. The next 128
//! bits of a key, its window, are divided into cells of equal size, so that the segment's keys span at most 2^w cells
//! and, if the window has enough bits, more than half as many:
//!
//! ```text
//! cell = (window(key) >> shift) - (window(separator) >> shift)        w = 8 + low bits of the segment
//! ```
//!
//! Keys in one cell share a code; with text and coarse cells, many do. The saved bits pay for finer cells: each segment
//! uses as many low bits per code as the policy's bits per key allow for its keys.
//!
//! A query finds the segments of its two ends by binary search, and then checks whether any cell between them is in
//! use. A segment is *exact*, without false positives, if its keys have one length and no two possible keys share a
//! cell.
//!
//! Sampled separators with a window are an idea from Diva (Eslami et al., VLDB 2025), here without updates. Because the
//! file's keys determine the cells, the filter adapts to the keys, but cannot promise a rate near them.

pub(super) mod build;
mod query;
mod segments;

pub(super) use segments::{Segments, Spread};
