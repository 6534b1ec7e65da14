//! Results that are not records yet, and messages with advice.

use std::fmt;
use std::io::{self, IsTerminal};

use anyhow::Context;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde::{Serialize, Serializer};
use sstfilter_table::TablePart;

use crate::print::Cell;
pub(crate) use crate::print::{CANNOT_WRITE, Outcome, Output, note};
use crate::words::escape::{escaped_line, key_text};
pub(crate) use crate::words::escape::{escaped_lines, hex, path_name, shell_word};

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

const STATE_COMPARATOR: &str = "if you know the name of its database's comparator, pass it with --comparator";

/// Advice for messages of the library that contain all of these words: it names functions, and users need options.
///
/// By words, because errors of other engines' tables have no variants for what is not supported. A test below takes
/// each message from the library.
const ADVICE: [(&[&str], &str); 8] = [
    (&["open with the hasher of that seed"], "pass the seed with --secret-seed-file"),
    (&["open it with that extractor"], "pass its prefix with --range-prefix"),
    (&["replace or delete it"], "`sstfilter rebuild TABLE` replaces it"),
    // Only range filters: no option names the parts of keys that a point filter holds.
    (&[TablePart::RangeFilter.name(), "with other key extractors"], "pass its prefix with --range-prefix"),
    (
        &["a filter without a checksum is not supported"],
        "damage to it would go unnoticed and hide keys; --unchecked-filters uses it anyway",
    ),
    (&["without the comparator of its database is not supported"], STATE_COMPARATOR),
    (&["whether its filter holds whole keys is not supported"], STATE_COMPARATOR),
    (
        &["of a LevelDB database (expected "],
        "pass --comparator leveldb.BytewiseComparator if it orders keys by their bytes",
    ),
];

/// Returns a message of the library, with advice in options of the command line.
pub(crate) fn in_options(message: &impl fmt::Display) -> String {
    // Escaped first: a name in the message could contain a line break.
    let message = escaped_line(&message.to_string());
    match ADVICE.iter().find(|(words, _)| words.iter().all(|words| message.contains(words))) {
        Some((_, advice)) => format!("{message}: {advice}"),
        None => message,
    }
}

/// Returns an error and its causes, each once: the library's messages already quote those of the system.
#[must_use]
pub fn explained(error: &anyhow::Error) -> String {
    let mut causes: Vec<String> = error.chain().map(|cause| in_options(&cause)).collect();
    // `text` is the earlier message: a cause that it already quotes is dropped.
    causes.dedup_by(|cause, text| text.ends_with(cause.as_str()));
    causes.join(": ")
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
    use std::sync::Arc;

    use sstfilter::{BlockError, FalsePositiveRate, FixedPrefix, KeyHasher, LoadContext, SecretSeed};
    use sstfilter_range::{RangeContext, RangeFilter, RangePolicy, RangeUnits};
    use sstfilter_store::{FilterProblem, TableIdentity};
    use sstfilter_table::{TableBuilder, TableOptions};

    use super::*;

    #[test]
    fn a_cause_that_a_message_names_is_not_said_again() {
        let error = io::Error::from(io::ErrorKind::NotFound);
        let text = error.to_string();
        let error = anyhow::Error::new(error).context(format!("opening 7: {text}")).context("cannot begin");
        assert_eq!(explained(&error), format!("cannot begin: opening 7: {text}"));
        assert_eq!(explained(&anyhow::anyhow!("a").context("b")), "b: a");
    }

    /// Messages of the library for which the command line has an option.
    fn messages_of_the_library() -> anyhow::Result<Vec<String>> {
        let (hasher, secret) = (KeyHasher::default(), KeyHasher::with_secret_seed(SecretSeed::from_bytes([7; 8])));
        let (expected, got) = (hasher.identity(), secret.identity());
        let block = std::fs::read("../../fixtures/v1/range-hashed-delimited.block")?;
        let context = RangeContext::new(LoadContext::new(&hasher), None);
        let prefixed = RangeUnits::integer(4)?.with_prefix(Arc::new(FixedPrefix::new(1)));
        let policy = RangePolicy::hashed(prefixed, 8, FalsePositiveRate::ONE_PERCENT)?;
        let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default().with_range_filter(policy))?;
        builder.add(b"prefix", b"")?;
        let table =
            sstfilter_table::Table::open_source(bytes::Bytes::from(builder.finish()?.0), &TableOptions::default())?;
        let other = TableIdentity::new([7; 16].into(), 7, 7);
        let mut messages = vec![
            BlockError::HashMismatch { expected, got }.to_string(),
            RangeFilter::load(block, context).map(drop).unwrap_err().to_string(),
            table.range_filter_problem().unwrap().to_string(),
            FilterProblem::OtherTable { expected: other, got: other }.to_string(),
        ];
        for (fixture, comparator) in [
            ("rocksdb/11.8-checksum-none-fv5.sst", None),
            ("leveldb/6000-keys.ldb", None),
            ("leveldb/6000-keys.ldb", Some("idb_cmp1")),
            ("pebble/v8-bloom.sst", None),
        ] {
            let table =
                sstfilter_interop::ForeignTable::open(std::fs::File::open(format!("../interop/fixtures/{fixture}"))?)?;
            let table = comparator.into_iter().fold(table, sstfilter_interop::ForeignTable::with_comparator);
            messages.push(table.try_probe(b"").unwrap_err().to_string());
        }
        Ok(messages)
    }

    /// The failure guarded against: a message of the library is reworded, and its advice silently disappears.
    #[test]
    fn each_piece_of_advice_is_for_a_message_that_the_library_has() {
        let messages = messages_of_the_library().unwrap();
        assert_eq!(messages.len(), ADVICE.len());
        for (words, advice) in ADVICE {
            let about: Vec<_> =
                messages.iter().filter(|message| words.iter().all(|words| message.contains(words))).collect();
            assert!(matches!(about[..], [message] if in_options(message).ends_with(advice)), "{words:?}: {about:?}");
        }
    }

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
