//! Filters built by every policy from any hashes, in any order and any number of times, including adversarial ones: no
//! key is lost, the size functions are correct, and equal inputs produce equal bytes.

#![no_main]

// promise: no-false-negatives
// promise: same-bytes
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sstfilter_fuzz::policy::exercise(bytes));
