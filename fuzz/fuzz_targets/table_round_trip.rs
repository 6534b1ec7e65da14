//! Tables written from any entries with any options, read back alone and as a set against a map.

#![no_main]

// promise: no-false-negatives
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sstfilter_fuzz::table_round_trip::exercise(bytes));
