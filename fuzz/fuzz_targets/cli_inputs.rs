//! The command line: any arguments are parsed or refused, and any files of keys, tables and blocks are built from,
//! read, probed, inspected and verified, in text and in JSON.

#![no_main]

// promise: safe-to-open
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sstfilter_fuzz::cli::exercise(bytes));
