//! Any bytes as a file map: loaded, probed in every way and merged.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sstfilter_fuzz::maps::exercise(bytes));
