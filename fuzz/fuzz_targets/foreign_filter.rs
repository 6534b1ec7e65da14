//! Any bytes as a bare filter of RocksDB, LevelDB or Pebble, and filters built by LevelDB's rules against their keys.

#![no_main]

// promise: other-engines
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sstfilter_fuzz::foreign_filter::exercise(bytes));
