//! The keys of a range filter, and the properties of these keys that decide which filter suits them.

use core::fmt;

use bytes::BufMut;
use serde::Serialize;

use crate::lines::KeyLines;
use crate::ranges::RangePrefix;
use crate::units::{counted, grouped, percent};

/// Maximum bytes of the integer that ranges are counted in.
const MAX_INTEGER_BYTES: usize = 8;

/// Properties of the keys.
#[derive(Debug, Serialize)]
pub(super) struct KeyShape {
    pub(super) keys: u64,
    /// Length of every key; null if it varies.
    pub(super) key_bytes: Option<usize>,
    /// Bytes of the integer that ranges are counted in; null if there is none.
    pub(super) integer_bytes: Option<u32>,
    /// The part of keys before the integer.
    pub(super) prefix: Option<String>,
    pub(super) prefixes: Option<u64>,
    pub(super) mean_rows_per_prefix: Option<f64>,
    pub(super) median_rows_per_prefix: Option<f64>,
    /// Number of keys over the number of integers between the smallest and the largest of each prefix.
    pub(super) density: Option<f64>,
}

/// The parts of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// End of the prefix.
    pub(super) prefix_end: usize,
    pub(super) integer: u64,
    /// Index of its prefix.
    pub(super) prefix: usize,
}

/// Distinct keys in order.
pub(super) struct Keys<'a> {
    pub(super) all: Vec<&'a [u8]>,
    /// If ranges are counted in an integer: the keys that have one, with their parts.
    pub(super) rows: Vec<(&'a [u8], Row)>,
    pub(super) prefix: Option<RangePrefix>,
    pub(super) shape: KeyShape,
}

impl<'a> Keys<'a> {
    /// Takes the keys of sorted lines, with the `given` prefix, or one that leaves an integer of eight bytes if all
    /// keys have one length.
    pub(super) fn new(lines: &'a KeyLines, given: Option<RangePrefix>) -> Self {
        let all: Vec<_> = lines.iter().map(|(key, _)| key).collect();
        let first_bytes = all.first().map_or(0, |key| key.len());
        let key_bytes = all.iter().all(|key| key.len() == first_bytes).then_some(first_bytes);
        let prefix = given.or_else(|| {
            let bytes = key_bytes?.checked_sub(MAX_INTEGER_BYTES).filter(|&bytes| bytes > 0)?;
            Some(RangePrefix::Bytes(bytes))
        });
        let rests = parts(&all, prefix);
        // Keys of various lengths do not all end in an integer, unless the user has said where it is.
        let integer_bytes = integer_bytes(&rests).filter(|_| key_bytes.is_some() || given.is_some());
        let rows = integer_bytes.map_or_else(Vec::new, |bytes| rows(&rests, bytes));
        let shape = KeyShape::new(&all, &rows, prefix.filter(|_| integer_bytes.is_some()), integer_bytes);
        Self { all, rows, prefix, shape: KeyShape { key_bytes, ..shape } }
    }

    /// Returns the key with another integer.
    pub(super) fn with_integer(&self, (key, row): (&[u8], Row), integer: u64) -> Vec<u8> {
        let bytes = self.shape.integer_bytes.unwrap_or(0) as usize;
        let mut key = key[..row.prefix_end].to_vec();
        key.put_uint(integer, bytes);
        key
    }

    /// Returns the largest integer.
    pub(super) fn largest_integer(&self) -> u64 {
        u64::MAX >> (64 - 8 * self.shape.integer_bytes.unwrap_or(8))
    }
}

/// Returns the keys that have the prefix, and its end in each.
fn parts<'a>(all: &[&'a [u8]], prefix: Option<RangePrefix>) -> Vec<(&'a [u8], usize)> {
    let extractor = prefix.map(RangePrefix::extractor);
    let end = |key: &[u8]| extractor.as_ref().map_or(Some(0), |extractor| Some(extractor.extract(key)?.len()));
    all.iter().filter_map(|&key| Some((key, end(key)?))).collect()
}

/// Returns the bytes that all keys have after their prefix, up to eight; eight if they vary.
fn integer_bytes(parts: &[(&[u8], usize)]) -> Option<u32> {
    let rest = |&(key, end): &(&[u8], usize)| key.len() - end;
    let first = rest(parts.first()?);
    let bytes = if parts.iter().all(|part| rest(part) == first) { first } else { MAX_INTEGER_BYTES };
    u32::try_from(bytes.min(MAX_INTEGER_BYTES)).ok().filter(|&bytes| bytes > 0)
}

fn rows<'a>(parts: &[(&'a [u8], usize)], integer_bytes: u32) -> Vec<(&'a [u8], Row)> {
    let mut rows: Vec<(&[u8], Row)> = Vec::with_capacity(parts.len());
    for &(key, prefix_end) in parts {
        let mut window = [0; MAX_INTEGER_BYTES];
        let rest = &key[prefix_end..];
        let bytes = rest.len().min(integer_bytes as usize);
        window[..bytes].copy_from_slice(&rest[..bytes]);
        // Big-endian, so that integers sort like keys.
        let integer =
            window.iter().fold(0, |integer, &byte| integer << 8 | u64::from(byte)) >> (64 - 8 * integer_bytes);
        let prefix =
            rows.last().map_or(0, |(last, row)| row.prefix + usize::from(last[..row.prefix_end] != key[..prefix_end]));
        rows.push((key, Row { prefix_end, integer, prefix }));
    }
    rows
}

impl KeyShape {
    fn new(all: &[&[u8]], rows: &[(&[u8], Row)], prefix: Option<RangePrefix>, integer_bytes: Option<u32>) -> Self {
        let (mut counts, mut span) = (Vec::new(), 0.0);
        for rows in rows.chunk_by(|(_, row), (_, next)| row.prefix == next.prefix) {
            counts.push(rows.len() as u64);
            if let [(_, first), .., (_, last)] = rows {
                // In floating point, because one more than a 64-bit difference may overflow.
                span += (last.integer - first.integer) as f64 + 1.0;
            } else {
                span += 1.0;
            }
        }
        counts.sort_unstable();
        let of_prefixes = prefix.filter(|_| !counts.is_empty());
        let median = counts.get(counts.len() / 2).map(|&rows| rows as f64);
        Self {
            keys: all.len() as u64,
            key_bytes: None,
            integer_bytes,
            prefix: of_prefixes.map(RangePrefix::in_words),
            prefixes: of_prefixes.map(|_| counts.len() as u64),
            mean_rows_per_prefix: of_prefixes.map(|_| rows.len() as f64 / counts.len() as f64),
            median_rows_per_prefix: of_prefixes.and(median),
            density: (span > 0.0).then_some(rows.len() as f64 / span),
        }
    }
}

impl fmt::Display for KeyShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = self.key_bytes.map(|bytes| counted(bytes as u64, "byte"));
        writeln!(f, "{} of {}", counted(self.keys, "key"), length.as_deref().unwrap_or("various lengths"))?;
        if let (Some(prefix), Some(prefixes), Some(mean), Some(median)) =
            (&self.prefix, self.prefixes, self.mean_rows_per_prefix, self.median_rows_per_prefix)
        {
            let prefixes = grouped(prefixes);
            writeln!(f, "{prefixes} prefixes ({prefix}), with {mean:.1} rows on average and {median} in the median")?;
        }
        if let (Some(bytes), Some(density)) = (self.integer_bytes, self.density) {
            let (integer, density) = (counted(bytes.into(), "byte"), percent(density));
            writeln!(
                f,
                "ranges are counted in an integer of {integer}: {density} of the integers between smallest and largest are keys"
            )?;
        }
        Ok(())
    }
}
