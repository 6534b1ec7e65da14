//! Any bytes as a filter block: opened, verified, probed and restored in every way. The mutator repairs the checksums
//! of most inputs and sets kinds and parameters, so that inputs reach the code behind the checks.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use sstfilter_fuzz::{block, block_forge};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    block_forge::mutate(data, size, max_size, seed, fuzzer_mutate)
});

// promise: safe-to-open
fuzz_target!(|bytes: &[u8]| block::exercise(bytes));
