//! Tells the program which CPU it is compiled for: `-C target-cpu` of RUSTFLAGS or of a configuration file.

use std::env;

fn main() {
    println!("cargo::rerun-if-env-changed=CARGO_ENCODED_RUSTFLAGS");
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    // Flags are separated by 0x1f; `-C x` is one flag or two. The last one counts, as for the compiler.
    let cpu =
        flags.split('\x1f').filter_map(|flag| flag.trim_start_matches("-C").strip_prefix("target-cpu=")).next_back();
    println!("cargo::rustc-env=SSTFILTER_PEERS_TARGET_CPU={}", cpu.unwrap_or_default());
}
