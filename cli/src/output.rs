//! Where results go: one JSON object, or lines for a person.

use std::fmt;
use std::io::{self, Write};

use anyhow::Context;
use comfy_table::{CellAlignment, ContentArrangement, Table, TableComponent};
use serde::{Serialize, Serializer};

/// What a command that did its work found.
///
/// The worst of several is their maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// All present, all sound: exit code 0.
    Yes,
    /// Something absent, lost or damaged, and said so: exit code 1.
    No,
    /// Some of the work could not be done, and the report says which: exit code 2.
    Failed,
}

impl Outcome {
    /// `Yes` when `sound`.
    pub(crate) fn from_sound(sound: bool) -> Self {
        if sound { Self::Yes } else { Self::No }
    }
}

/// What failed when standard output did.
pub const CANNOT_WRITE: &str = "cannot write to standard output";

/// Standard output in the form that was asked for.
pub(crate) struct Output<'a> {
    writer: &'a mut dyn Write,
    json: bool,
}

impl<'a> Output<'a> {
    pub(crate) fn new(writer: &'a mut dyn Write, json: bool) -> Self {
        Self { writer, json }
    }

    /// Prints `report` as one JSON object, or in its own words.
    pub(crate) fn report(&mut self, report: &(impl Serialize + fmt::Display)) -> anyhow::Result<()> {
        self.write(report).context(CANNOT_WRITE)
    }

    fn write(&mut self, report: &(impl Serialize + fmt::Display)) -> anyhow::Result<()> {
        if self.json {
            serde_json::to_writer_pretty(&mut *self.writer, report)?;
            writeln!(self.writer)?;
        } else {
            write!(self.writer, "{report}")?;
        }
        Ok(())
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Writes `bytes` and a line feed, whatever the bytes are.
    pub(crate) fn raw_line(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.writer.write_all(bytes).and_then(|()| self.writer.write_all(b"\n")).context(CANNOT_WRITE)
    }
}

/// An error and its causes, each said once: those of the system stand in the library's own messages already.
pub fn explained(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| {
        if text.ends_with(&cause) {
            text
        } else if text.is_empty() {
            cause
        } else {
            format!("{text}: {cause}")
        }
    })
}

/// Tells something beside the result, on standard error.
pub(crate) fn note(message: &str) {
    // A closed standard error is no reason to fail, let alone to panic as `eprintln!` does.
    let _ = writeln!(io::stderr(), "{message}");
}

/// Widest line printed, in columns.
const MAX_COLUMNS: u16 = 100;

/// A table with `header`, whose columns from the second on are right-aligned figures.
pub(crate) fn figures<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    for between_rows in [
        TableComponent::HorizontalLines,
        TableComponent::MiddleIntersections,
        TableComponent::LeftBorderIntersections,
        TableComponent::RightBorderIntersections,
    ] {
        table.remove_style(between_rows);
    }
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(MAX_COLUMNS);
    table.set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Bytes of a user's key or value: a JSON string when they are UTF-8, else `{"hex": "..."}`.
#[derive(Clone, Debug)]
pub(crate) struct Text(pub(crate) Vec<u8>);

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Hex {
            hex: String,
        }
        match core::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => Hex { hex: hexadecimal(&self.0) }.serialize(serializer),
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

impl fmt::Display for Text {
    /// Control characters and bytes that are not UTF-8 are escaped: a key cannot drive a terminal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match core::str::from_utf8(&self.0) {
            Ok(text) if !text.chars().any(char::is_control) => f.write_str(text),
            _ => write!(f, "{}", self.0.escape_ascii()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_a_message_names_is_not_said_again() {
        let error = io::Error::from(io::ErrorKind::NotFound);
        let text = error.to_string();
        let error = anyhow::Error::new(error).context(format!("opening 7: {text}")).context("cannot begin");
        assert_eq!(explained(&error), format!("cannot begin: opening 7: {text}"));
        assert_eq!(explained(&anyhow::anyhow!("a").context("b")), "b: a");
    }

    #[test]
    fn text_is_a_string_when_it_can_be_and_hex_when_it_cannot() {
        assert_eq!(serde_json::to_string(&Text(b"k\xc3\xa9".to_vec())).unwrap(), "\"k\u{e9}\"");
        assert_eq!(serde_json::to_string(&Text(vec![0xff, 0])).unwrap(), r#"{"hex":"ff00"}"#);
        assert_eq!(Text(b"a\x1b[2J".to_vec()).to_string(), r"a\x1b[2J");
    }
}
