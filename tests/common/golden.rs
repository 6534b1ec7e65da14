//! Golden files: compares built bytes with files in the repository.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use sstfilter::simd;

const TO_REGENERATE: &str = "when the format is meant to change, rewrite the fixtures with \
     SSTFILTER_REGENERATE=1 cargo test --test format --test map golden::";

pub(crate) fn is_regenerating() -> bool {
    std::env::var_os("SSTFILTER_REGENERATE").is_some_and(|value| value == "1")
}

/// Compares `built` with the file at `path`, or writes it there.
pub(crate) fn check_file(path: &Path, built: &[u8]) {
    let set = simd::selected();
    if is_regenerating() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, built).unwrap();
        return;
    }
    let stored = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}; {TO_REGENERATE}", path.display()));
    let differing = stored.iter().zip(built).position(|(stored, built)| stored != built);
    assert!(
        stored == built,
        "{} with {set}: expected the {} bytes of the file, got {}, first difference at {differing:?}; {TO_REGENERATE}",
        path.display(),
        stored.len(),
        built.len(),
    );
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    format!(r#""bytes": {}, "crc32c": "{:#010x}""#, bytes.len(), crc32c::crc32c(bytes))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
