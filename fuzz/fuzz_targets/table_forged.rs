//! Tables put together from any footer, metaindex, properties, index, data and filter, under checksums that hold.

#![no_main]

// promise: safe-to-open
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sstfilter_fuzz::table_forge::exercise(bytes));
