//! Results that are not records yet, and messages with advice.

use std::fmt;
use std::io::{self, IsTerminal};

use anyhow::Context;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde::{Serialize, Serializer};

pub(crate) use crate::file::problem::{explained, in_options};
use crate::print::Cell;
pub(crate) use crate::print::{CANNOT_WRITE, Outcome, Output, note};
use crate::words::escape::key_text;
pub(crate) use crate::words::escape::{escaped_lines, hex, shell_word};

impl Output<'_> {
    /// Prints a command's report as one JSON object or as text.
    pub(crate) fn report(&mut self, found: (Outcome, impl Serialize + fmt::Display)) -> anyhow::Result<Outcome> {
        let (outcome, report) = found;
        if self.is_json {
            self.json(&report)?;
        } else {
            // The text may quote names and values from a hostile file.
            let text = escaped_lines(&report.to_string());
            self.writer.write_all(text.as_bytes()).context(CANNOT_WRITE)?;
        }
        Ok(outcome)
    }
}

/// Maximum width of printed tables, in columns.
const MAX_COLUMNS: u16 = 100;

/// Lines above and below the header and at the end: `UTF8_HORIZONTAL_ONLY` without those between rows.
const LINES: &str = "  ── ══      ──    ";

/// The lines of a table in ASCII.
const PLAIN_LINES: &str = "  -- ==      --    ";

/// Whether tables are drawn in ASCII, for a program that reads them or a terminal that shows only ASCII.
fn is_plain() -> bool {
    let set = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    // The first variable that is set takes precedence (POSIX, Environment Variables, 8.2).
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
    !io::stdout().is_terminal() || is_ascii_locale(locale.as_deref())
}

/// Whether the locale is ASCII. No locale counts as UTF-8, which most such terminals show.
fn is_ascii_locale(locale: Option<&str>) -> bool {
    matches!(locale, Some("C" | "POSIX"))
}

/// A column: its title, and its cell for a row.
pub(crate) type Column<T> = (&'static str, fn(&T) -> String);

/// Returns a table of `rows`. Columns from the second on are right-aligned figures.
pub(crate) fn figures<'a, T: 'a>(columns: &[Column<T>], rows: impl IntoIterator<Item = &'a T>) -> Table {
    let mut table = Table::new();
    if is_plain() {
        // Rows of any width: a program reads them line by line.
        table.load_preset(PLAIN_LINES).set_content_arrangement(ContentArrangement::Disabled);
    } else {
        table.load_preset(LINES).set_content_arrangement(ContentArrangement::Dynamic).set_width(MAX_COLUMNS);
    }
    table.set_header(columns.iter().map(|(title, _)| title));
    table.add_rows(rows.into_iter().map(|row| columns.iter().map(move |(_, cell)| cell(row))));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Bytes of a user's key or value: a JSON string if they are UTF-8, else `{"hex": "..."}`.
#[derive(Clone, Debug)]
pub(crate) struct Text(pub(crate) Vec<u8>);

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Cell::Key(&self.0).serialize(serializer)
    }
}

impl fmt::Display for Text {
    /// Escapes control characters and bytes that are not UTF-8, so that a key cannot drive a terminal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&key_text(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_c_locale_is_ascii() {
        assert!(is_ascii_locale(Some("C")) && is_ascii_locale(Some("POSIX")));
        assert!(!is_ascii_locale(None) && !is_ascii_locale(Some("C.UTF-8")) && !is_ascii_locale(Some("en_US.UTF-8")));
    }

    #[test]
    fn text_is_a_string_when_it_can_be_and_hex_when_it_cannot() {
        assert_eq!(serde_json::to_string(&Text(b"k\xc3\xa9".to_vec())).unwrap(), "\"k\u{e9}\"");
        assert_eq!(serde_json::to_string(&Text(vec![0xff, 0])).unwrap(), r#"{"hex":"ff00"}"#);
        assert_eq!(Text(b"a\x1b[2J".to_vec()).to_string(), r"a\x1b[2J");
    }
}
