//! How much the tests do. `SSTFILTER_LONG=1` takes their long forms. The usual ones are a sample of what those try
//! exhaustively, and draw fewer cases. `SSTFILTER_SHORT=1` takes the short forms, with fewer still, for processors that
//! are emulated and for instrumented programs.
//!
//! The library's unit tests include this file, too.

#![allow(dead_code, reason = "each program uses a part of it")]

/// Whether the long forms of the tests are wanted: `SSTFILTER_LONG=1`.
pub(crate) fn is_long() -> bool {
    is_set("SSTFILTER_LONG")
}

/// Whether the short forms are wanted: `SSTFILTER_SHORT=1`.
pub(crate) fn is_short() -> bool {
    is_set("SSTFILTER_SHORT")
}

/// `step` in the short form, otherwise 1: for `step_by`, which takes the first of what there is in any case, and for
/// the numbers that a test expects of its cases.
pub(crate) fn stride(step: usize) -> usize {
    strides(1, step)
}

/// 1 in the long form, otherwise `step`.
pub(crate) fn sample(step: usize) -> usize {
    strides(step, step)
}

/// 1 in the long form, otherwise the step of the usual or of the short one.
pub(crate) fn strides(usual: usize, short: usize) -> usize {
    if is_short() {
        short
    } else if is_long() {
        1
    } else {
        usual
    }
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| value == "1")
}
