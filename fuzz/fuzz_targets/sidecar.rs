//! Any bytes as a sidecar: opened, probed, and used for no other table.

#![no_main]

// promise: limited-memory
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sstfilter_fuzz::sidecar::exercise(bytes));
