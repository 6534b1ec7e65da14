//! Any bytes as a partitioned filter: opened, verified and probed, with a small index.

#![no_main]

// promise: limited-memory
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sstfilter_fuzz::partitions::exercise(bytes));
