//! Any bytes as a file map, and maps of any files, merged and damaged: no key is lost, and all damage is found.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sstfilter_fuzz::maps::exercise(bytes));
