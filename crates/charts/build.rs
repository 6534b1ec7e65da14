//! Records the compiler's version, because times depend on it and a compiled program cannot query it.

use std::process::Command;

fn main() {
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let output = Command::new(compiler).arg("--version").output().ok();
    let version = output.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    let version = if version.trim().is_empty() { "unknown rustc" } else { version.trim() };
    println!("cargo:rustc-env=SSTFILTER_CHARTS_RUSTC={version}");
    println!("cargo:rerun-if-changed=build.rs");
}
