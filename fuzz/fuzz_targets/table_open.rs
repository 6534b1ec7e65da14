//! Any bytes as a table: opened, read, walked and verified in every way. The mutator changes single blocks of tables
//! and seals them again, so that inputs reach the code behind the checksums.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use sstfilter_fuzz::{table, table_parts};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    table_parts::mutate(data, size, max_size, seed, fuzzer_mutate)
});

// promise: safe-to-open
fuzz_target!(|bytes: &[u8]| table::exercise(bytes));
