//! Any bytes as a partitioned filter, and sound ones damaged: no key is lost, and all damage is found.

#![no_main]

// promise: limited-memory
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sstfilter_fuzz::partitions::exercise(bytes));
