//! Range filters of any keys and policies lose no key of any range, damage is found, and forged ones are answered.

#![no_main]

// promise: range-filters
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sstfilter_fuzz::ranges::exercise(bytes));
