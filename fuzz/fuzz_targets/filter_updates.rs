//! Dynamic filters, changed, stored, restored and merged, against the multiset of their keys.

#![no_main]

// promise: no-false-negatives
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sstfilter_fuzz::updates::exercise(bytes));
