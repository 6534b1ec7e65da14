//! Sound tables, damaged: every read returns what was written, or an error; `verify` finds all damage.

#![no_main]

// promise: damage
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sstfilter_fuzz::table_damage::exercise(bytes));
