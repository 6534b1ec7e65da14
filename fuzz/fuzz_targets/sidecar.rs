//! Any bytes as a sidecar, and sound ones damaged: none is used for another table, no key is lost, and all damage is
//! found.

#![no_main]

// promise: limited-memory
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sstfilter_fuzz::sidecar::exercise(bytes));
