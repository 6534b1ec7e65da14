//! Any bytes as a table of RocksDB, LevelDB or Pebble: opened, probed, listed and verified. The mutator changes tables
//! that the engines wrote and seals them again, so that inputs reach the code behind the checksums.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use sstfilter_fuzz::foreign_table;

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    foreign_table::mutate(data, size, max_size, seed, fuzzer_mutate)
});

// promise: other-engines
fuzz_target!(|bytes: &[u8]| foreign_table::exercise(bytes));
