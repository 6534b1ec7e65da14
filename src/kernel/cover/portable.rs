//! Plain Rust.

use super::Candidate;
use crate::kernel::line::{self, LineMask};
use crate::kernel::prefetch::prefetch;

#[inline]
pub(super) fn covered<'a>(mask: &LineMask, candidates: impl Iterator<Item = Candidate<'a>>) -> u64 {
    let mut places = 0;
    for Candidate { place, line, ahead } in candidates {
        let covers = match line {
            Some(line) => line::covers(line, mask),
            None => true,
        };
        places |= u64::from(covers) << (place % 64);
        if let Some(ahead) = ahead {
            prefetch(ahead);
        }
    }
    places
}
