//! Keeps hand-written pages short. The failure guarded against: a page that grows by a sentence with every change until
//! nobody reads it.

use std::fs;
use std::path::Path;

/// Maximum bytes of each page.
const MAX_BYTES: [(&str, usize); 5] = [
    ("ARCHITECTURE.md", 8_000),
    ("CONTRIBUTING.md", 4_000),
    ("PROMISES.md", 12_000),
    ("SECURITY.md", 8_000),
    ("benches/RESULTS.md", 15_000),
];

/// Maximum width of text. Rows of tables cannot be wrapped.
const MAX_COLUMNS: usize = 120;

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn no_page_is_longer_than_its_limit() {
    for (name, max) in MAX_BYTES {
        let bytes = page(name).len();
        assert!(bytes <= max, "{name} has {bytes} bytes, more than {max}: shorten it, or move a part to another page");
    }
}

#[test]
fn no_line_of_a_page_is_longer_than_a_line_of_code() {
    for (name, _) in MAX_BYTES {
        for (number, line) in page(name).lines().enumerate().filter(|(_, line)| !line.starts_with('|')) {
            let columns = line.chars().count();
            assert!(columns <= MAX_COLUMNS, "{name}:{}: {columns} columns, more than {MAX_COLUMNS}", number + 1);
        }
    }
}
