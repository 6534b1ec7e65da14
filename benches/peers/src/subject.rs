//! The interface between the harness and a subject.

use std::error::Error;

use serde::{Deserialize, Serialize};
use sstfilter::MatchBitmap;

use crate::keys::Keys;

/// A kind of measurement: filters of points, or of ranges.
pub trait Workload: 'static {
    /// The description of a subject.
    type Label;
    /// The keys that a filter is built from.
    type Keys<'a>: Copy;
    /// What it is probed with.
    type Queries<'a>: Queries;
    /// Whether a filter that loses keys stays in the tables.
    const COUNTS_LOST_KEYS: bool;
}

/// Filters of points.
pub struct Points;

impl Workload for Points {
    type Label = Label;
    type Keys<'a> = Keys<'a>;
    type Queries<'a> = Keys<'a>;
    const COUNTS_LOST_KEYS: bool = false;
}

/// Queries in the forms of all crates.
pub trait Queries: Copy {
    /// Returns the number of queries.
    fn len(self) -> usize;

    /// Splits the queries into parts of `count`; the last part has the rest.
    fn chunks(self, count: usize) -> impl Iterator<Item = Self>;

    /// Returns the first `count` queries, or all if there are fewer.
    fn first(self, count: usize) -> Self {
        self.chunks(count).next().unwrap_or(self)
    }
}

impl Queries for Keys<'_> {
    fn chunks(self, count: usize) -> impl Iterator<Item = Self> {
        let pairs = self.numbers.chunks(count).zip(self.hashes.chunks(count));
        pairs.map(|(numbers, hashes)| Self { numbers, hashes })
    }

    fn len(self) -> usize {
        self.numbers.len()
    }
}

/// One kind of filter at one size, of one crate.
pub trait Subject<W: Workload = Points> {
    /// Returns the description.
    fn label(&self) -> &W::Label;

    /// Builds a filter that can be probed.
    ///
    /// # Errors
    ///
    /// The crate's error.
    fn build(&self, keys: W::Keys<'_>) -> BuildResult<W>;
}

/// The reason why there is no filter.
pub type BuildError = Box<dyn Error>;

/// A filter, or the reason why there is none.
pub type BuildResult<W = Points> = Result<Box<dyn Filter<W>>, BuildError>;

/// A built filter. Probes take whole slices, so that the loop is compiled into each crate's probe and costs no indirect
/// call per query.
pub trait Filter<W: Workload = Points> {
    /// Returns the bytes of the whole filter: serialised, or in memory if it cannot be serialised. `None` if the crate
    /// says neither; then its allocated memory counts.
    fn bytes(&self) -> Option<u64>;

    /// Counts the positives among `queries`, probed one by one.
    fn count(&mut self, queries: W::Queries<'_>) -> u64;

    /// Counts the positives by the crate's own batch call, [`BATCH_KEYS`] at a time, or returns `None` if it has none.
    fn count_batch(&mut self, _queries: W::Queries<'_>) -> Option<u64> {
        None
    }
}

/// A filter whose probe is a closure, which is compiled into the loop.
struct Single<F, P> {
    filter: F,
    bytes: u64,
    may_contain: P,
}

impl<F, P: Fn(&F, u64) -> bool> Filter for Single<F, P> {
    fn bytes(&self) -> Option<u64> {
        Some(self.bytes)
    }

    fn count(&mut self, keys: Keys<'_>) -> u64 {
        count_where(keys.numbers, |&hash| (self.may_contain)(&self.filter, hash))
    }
}

/// Returns a filter of this many bytes without a batch call.
#[expect(clippy::unnecessary_wraps, reason = "the last call of a build")]
pub fn built<F: 'static>(filter: F, bytes: usize, may_contain: impl Fn(&F, u64) -> bool + 'static) -> BuildResult {
    Ok(Box::new(Single { filter, bytes: bytes as u64, may_contain }))
}

/// A description and a function that builds a filter.
impl<W: Workload, B: Fn(W::Keys<'_>) -> BuildResult<W>> Subject<W> for (W::Label, B) {
    fn label(&self) -> &W::Label {
        &self.0
    }

    fn build(&self, keys: W::Keys<'_>) -> BuildResult<W> {
        (self.1)(keys)
    }
}

/// Keys per batch call, which fit into the first cache levels together with their answers.
pub const BATCH_KEYS: usize = 4096;

/// The description of a subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    /// The crate.
    pub implementation: &'static str,
    /// The kind of filter and its size.
    pub kind: &'static str,
    /// How it is built and used.
    pub family: Family,
    /// Whether its figures include hashing.
    pub hash: HashUse,
    /// The instruction set that was chosen by hand, if one was.
    pub isa: Option<&'static str>,
    /// The kind of ours that it is compared with.
    pub against: &'static str,
}

impl Label {
    /// Describes a filter that takes hashes, with the kernels that are usual.
    pub const fn of(implementation: &'static str, kind: &'static str, family: Family, against: &'static str) -> Self {
        Self { implementation, kind, family, hash: HashUse::Given, isa: None, against }
    }

    /// Makes a subject of a label and a function that builds its filter.
    pub fn built_by(self, build: impl Fn(Keys<'_>) -> BuildResult + 'static) -> Box<dyn Subject> {
        Box::new((self, build))
    }
}

/// How a filter is built and used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Bits are set as keys come.
    Bloom,
    /// Built at once from all keys.
    Static,
    /// Keys can be added and removed.
    Dynamic,
}

/// Whether a figure includes the hashing of the key (a `u64`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HashUse {
    /// The crate takes 64-bit hashes.
    Given,
    /// It hashes the 64-bit number itself.
    Included,
}

/// Counts the `keys` for which the probe is positive.
#[inline]
pub fn count_where<T>(keys: &[T], mut may_contain: impl FnMut(&T) -> bool) -> u64 {
    keys.iter().map(|key| u64::from(may_contain(key))).sum()
}

/// Counts the positives of batches, each of which is answered in a bitmap.
#[inline]
pub fn count_batches<T>(keys: &[T], matches: &mut MatchBitmap, mut answer: impl FnMut(&[T], &mut MatchBitmap)) -> u64 {
    keys.chunks(BATCH_KEYS).fold(0, |sum, batch| {
        answer(batch, matches);
        sum + matches.count()
    })
}
