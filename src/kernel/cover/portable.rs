//! Plain Rust.

use crate::kernel::line::{Line, LineMask, covers};
use crate::kernel::prefetch::prefetch;

#[inline]
pub(super) fn covered<'a>(
    mask: &LineMask,
    mut which: u64,
    line: impl Fn(usize) -> Option<&'a Line>,
    ahead: impl Fn(usize) -> Option<&'a Line>,
) -> u64 {
    let mut hits = 0;
    while which != 0 {
        let index = which.trailing_zeros() as usize;
        which &= which - 1;
        hits |= u64::from(line(index).is_none_or(|line| covers(line, mask))) << index;
        ahead(index).into_iter().for_each(prefetch);
    }
    hits
}
