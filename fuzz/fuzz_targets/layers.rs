//! Any bytes as a filter of several parts: loaded, inserted into and stored again.

#![no_main]

// promise: safe-to-open
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sstfilter_fuzz::layers::exercise(bytes));
