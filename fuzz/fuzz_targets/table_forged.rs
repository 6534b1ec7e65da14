//! Tables composed of any footer, metaindex, properties, index, data and filter, under valid checksums.

#![no_main]

// promise: safe-to-open
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sstfilter_fuzz::table_forge::exercise(bytes));
