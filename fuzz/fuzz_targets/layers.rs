//! Filters of several parts: untrusted bytes, and filters that are filled, stored and damaged.

#![no_main]

// promise: no-false-negatives
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sstfilter_fuzz::layers::exercise(bytes));
