//! The smallest key of each chunk of a level, searched by heads.

use std::sync::Arc;

use super::chunk::Chunk;
use crate::codec::common_prefix;
use crate::sst::heads::{head, lower_bound};

/// Bisecting the keys themselves takes a chain of loads for each step: chunk, table, key.
#[derive(Debug, Default)]
pub(super) struct Fences {
    /// What the smallest keys of all chunks begin with.
    shared: Vec<u8>,
    /// Ascending. A chunk that begins with a table without entries has 0.
    heads: Vec<u64>,
}

impl Fences {
    /// Of the chunks of a sorted level.
    pub(super) fn new(chunks: &[Arc<Chunk>]) -> Self {
        let keys = || chunks.iter().map(|chunk| chunk.smallest_key());
        // What the first and the last of ascending keys share, all of them do.
        let (first, last) =
            (keys().flatten().next().unwrap_or_default(), keys().flatten().next_back().unwrap_or_default());
        let shared = first.get(..common_prefix(first, last)).unwrap_or_default();
        let head_of = |key: Option<&[u8]>| key.and_then(|key| key.get(shared.len()..)).map_or(0, head);
        Self { shared: shared.to_vec(), heads: keys().map(head_of).collect() }
    }

    /// How many chunks come before the first one that begins above `key`. `begins_above` tells it of the chunk at a
    /// position, by its whole key, and is called only where heads do not decide.
    #[inline]
    pub(super) fn count_until(&self, key: &[u8], begins_above: impl Fn(usize) -> bool) -> usize {
        let (mut low, mut high) = self.around(key);
        while low < high {
            let middle = low + (high - low) / 2;
            if begins_above(middle) { high = middle } else { low = middle + 1 }
        }
        low
    }

    /// The least and the greatest count that is possible by the heads.
    #[inline]
    fn around(&self, key: &[u8]) -> (usize, usize) {
        let Some(rest) = key.strip_prefix(self.shared.as_slice()) else { return (0, self.heads.len()) };
        let head = head(rest);
        let first = lower_bound(&self.heads, head);
        let equal = self.heads.get(first..).unwrap_or_default();
        (first, first + equal.partition_point(|&other| other == head))
    }
}
