//! NEON has no instruction that gathers the lanes' signs: what the compiler makes of plain Rust is used.

use super::{Ranges, Within, portable};

#[target_feature(enable = "neon")]
pub(super) fn within(number: u64, ranges: &[Ranges]) -> Within {
    portable::within(number, ranges)
}
