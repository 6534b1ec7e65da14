//! Filters built by every policy from any hashes, in any order and any number of times, adversarial ones among them:
//! no key is denied, the size functions are right, and the same input gives the same bytes.

#![no_main]

// promise: no-false-negatives
// promise: same-bytes
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sstfilter_fuzz::policy::exercise(bytes));
