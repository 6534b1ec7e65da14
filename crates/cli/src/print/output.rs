//! Where results go: standard output, as text or as JSON, and notes to standard error.

use core::sync::atomic::{AtomicBool, Ordering};
use std::io::{self, IsTerminal, Write};

use anyhow::Context;
use serde::Serialize;

use super::blocks::Extent;
use super::json::Json;
use super::record::{Record, Show};
use super::text::text;
use crate::words::escape::{drives_terminal, escaped, escaped_lines};

/// The result of a command that ran to its end; the number is the exit code.
///
/// The maximum of several outcomes is the worst one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Everything is present and sound.
    #[default]
    Yes,
    /// Something could not be checked, as reported.
    NotChecked,
    /// Something is absent, lost or damaged, as reported.
    No,
    /// Some of the work could not be done, as reported.
    Failed,
}

impl Outcome {
    /// Returns the exit code of the program.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Yes => 0,
            Self::No => 1,
            Self::Failed => 2,
            Self::NotChecked => 3,
        }
    }

    /// Returns `Yes` if `sound`, else `No`.
    pub(crate) fn from_sound(sound: bool) -> Self {
        if sound { Self::Yes } else { Self::No }
    }
}

/// Context of an error on standard output.
pub(crate) const CANNOT_WRITE: &str = "cannot write to standard output";

/// Standard output, as text or as JSON.
pub(crate) struct Output<'a> {
    pub(crate) writer: &'a mut dyn Write,
    pub(crate) is_json: bool,
    /// How much of a record text shows.
    extent: Extent,
    /// Whether keys and values are escaped, because a terminal shows them.
    escapes: bool,
}

impl<'a> Output<'a> {
    pub(crate) fn new(writer: &'a mut dyn Write, is_json: bool) -> Self {
        // Programs need the exact bytes, but a terminal would obey control characters in them.
        Self { writer, is_json, extent: Extent::default(), escapes: io::stdout().is_terminal() }
    }

    /// Returns the output with all items of long lists, or with only what is notable.
    pub(crate) fn with_extent(self, has_all_items: bool, is_quiet: bool) -> Self {
        IS_QUIET.store(is_quiet, Ordering::Relaxed);
        let least = if is_quiet { Show::Notable } else { Show::Page };
        Self { extent: Extent { least, has_all_items }, ..self }
    }

    /// Prints a command's record as one JSON object or as text.
    pub(crate) fn print(&mut self, found: (Outcome, impl Record)) -> anyhow::Result<Outcome> {
        let (outcome, record) = found;
        if self.is_json {
            self.json(&Json(&record))?;
        } else {
            let text = text(&record, self.extent);
            self.writer.write_all(text.as_bytes()).context(CANNOT_WRITE)?;
        }
        Ok(outcome)
    }

    /// Prints `report` as one JSON object.
    pub(crate) fn json(&mut self, report: &impl Serialize) -> anyhow::Result<()> {
        IS_PRINTING.store(true, Ordering::Relaxed);
        // Converted to an I/O error, by which `main` recognizes a closed pipe.
        let written = serde_json::to_writer_pretty(&mut *self.writer, report).map_err(io::Error::from);
        written.and_then(|()| writeln!(self.writer)).context(CANNOT_WRITE)
    }

    /// Writes keys and values one after the other, and then `terminator`: unchanged, or with escapes on a terminal.
    pub(crate) fn record(&mut self, parts: &[&[u8]], terminator: &[u8]) -> anyhow::Result<()> {
        let mut record = parts.concat();
        if self.escapes {
            // A tab separates key and value, and cannot move the cursor back.
            record = escaped(&record, |character| drives_terminal(character) && character != '\t').into_bytes();
        }
        record.extend(terminator);
        self.writer.write_all(&record).context(CANNOT_WRITE)
    }
}

/// Whether the one JSON object of a command has been begun.
static IS_PRINTING: AtomicBool = AtomicBool::new(false);

pub(crate) fn is_printing() -> bool {
    IS_PRINTING.load(Ordering::Relaxed)
}

/// Whether notes and progress are left out.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

pub(crate) fn is_quiet() -> bool {
    IS_QUIET.load(Ordering::Relaxed)
}

/// Prints a message to standard error, unless the user wants none.
pub(crate) fn note(message: &str) {
    if is_quiet() {
        return;
    }
    // A closed standard error must not make the program fail; `eprintln!` would even panic.
    let _ = writeln!(io::stderr(), "{}", escaped_lines(message));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_keys_with_escapes_and_a_program_their_bytes() {
        let key: [&[u8]; 2] = [b"k\x1b[2J\xff\t", b"v\n"];
        for (escapes, expected) in [(false, &b"k\x1b[2J\xff\tv\n\n"[..]), (true, b"k\\x1b[2J\\xff\tv\\n\n")] {
            let mut written = Vec::new();
            let mut output = Output { escapes, ..Output::new(&mut written, false) };
            output.record(&key, b"\n").unwrap();
            assert_eq!(written, expected);
        }
    }
}
