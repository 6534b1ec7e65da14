//! How much the tests do. The usual forms sample, and draw few cases. `SSTFILTER_LONG=1` selects the long forms, which
//! are exhaustive. With `SSTFILTER_LONG=ci`, as in `.ci/run`, the few long forms that take minutes sample, too.
//! `SSTFILTER_SHORT=1` selects the short forms, with even fewer cases, for emulated processors and instrumented programs.
//!
//! The library's unit tests also include this file.

#![allow(dead_code, reason = "each program uses a part of it")]

/// Whether to run the long forms of the tests.
pub(crate) fn is_long() -> bool {
    is_exhaustive() || is_set("SSTFILTER_LONG", "ci")
}

/// Whether to run also those that take minutes: `SSTFILTER_LONG=1`, or 2 for the longest.
pub(crate) fn is_exhaustive() -> bool {
    is_longest() || is_set("SSTFILTER_LONG", "1")
}

/// Whether to run those, too, that take many minutes.
pub(crate) fn is_longest() -> bool {
    is_set("SSTFILTER_LONG", "2")
}

/// The number of cases of a test whose long form takes minutes.
pub(crate) fn of_minutes<N>(exhaustive: N, long: N, usual: N) -> N {
    if is_exhaustive() {
        exhaustive
    } else if is_long() {
        long
    } else {
        usual
    }
}

/// Whether to run the short forms: `SSTFILTER_SHORT=1`.
pub(crate) fn is_short() -> bool {
    is_set("SSTFILTER_SHORT", "1")
}

/// `step` in the short form, otherwise 1: for `step_by`, which always keeps the first item, and for the number of cases
/// that a test expects.
pub(crate) fn stride(step: usize) -> usize {
    strides(1, step)
}

/// 1 in the long form, otherwise `step`.
pub(crate) fn sample(step: usize) -> usize {
    strides(step, step)
}

/// 1 in the long form, otherwise the step of the usual or the short form.
pub(crate) fn strides(usual: usize, short: usize) -> usize {
    if is_short() {
        short
    } else if is_long() {
        1
    } else {
        usual
    }
}

fn is_set(variable: &str, expected: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| value == expected)
}
