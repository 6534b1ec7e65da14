//! What the command line says about all files, before they are read.

use core::fmt;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::sync::Arc;

use anyhow::Context as _;
use clap::ValueEnum;
use sstfilter::{DelimitedPrefix, FixedPrefix, KeyExtractor, KeyHasher};
use sstfilter_table::TableOptions;

use crate::system::progress::ReadProgress;
use crate::words::escape::{decode_hex, hex, key_text};
use crate::words::units::{counted, number_in};

/// What the command line says about files before they are read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    pub(crate) secret: Option<KeyHasher>,
    /// The database's comparator, for tables that do not describe it fully.
    pub(crate) comparator: Option<String>,
    /// Prefix of the range filters to be probed.
    pub(crate) range_prefix: Option<RangePrefix>,
    pub(crate) keys_format: KeysFormat,
    /// Whether filters without a checksum are used.
    pub(crate) unchecked_filters: bool,
    /// Advanced by each read.
    pub(crate) progress: Option<ReadProgress>,
    /// These options of the command line, each after a blank.
    pub(crate) options: String,
}

impl Context {
    pub(crate) fn with_progress(&self, progress: ReadProgress) -> Self {
        Self { progress: Some(progress), ..self.clone() }
    }

    /// Returns the options for tables of this library: with the secret seed, or else with the hash that each records.
    pub(crate) fn table_options(&self) -> TableOptions {
        let mut options = TableOptions::default();
        if let Some(hasher) = &self.secret {
            options = options.with_hasher(hasher.clone());
        }
        if let Some(progress) = &self.progress {
            options = options.with_file_system(Arc::new(progress.clone()));
        }
        if let Some(prefix) = self.range_prefix {
            options = options.with_range_extractor(prefix.extractor());
        }
        options
    }
}

/// The format of keys in files and on the command line; `key_list.rs` has the table.
///
/// The variants have no comments, which would appear in the help of every command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeysFormat {
    #[default]
    Lines,
    Crlf,
    Nul,
    Hex,
}

impl KeysFormat {
    /// Returns the last byte of each record.
    pub(super) fn separator(self) -> u8 {
        if self == Self::Nul { 0 } else { b'\n' }
    }

    /// Returns the bytes to write after each key.
    pub(crate) fn terminator(self) -> &'static [u8] {
        if self == Self::Nul { b"\0" } else { self.line_end() }
    }

    /// Returns the bytes to write after each line of key and value.
    pub(crate) fn line_end(self) -> &'static [u8] {
        if self == Self::Crlf { b"\r\n" } else { b"\n" }
    }

    /// Returns the key in this format, without its terminator.
    pub(crate) fn encoded(self, key: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::Lines | Self::Crlf | Self::Nul => Cow::Borrowed(key),
            Self::Hex => Cow::Owned(hex(key).into_bytes()),
        }
    }

    /// Parses a key from a command line argument, which messages call `name`.
    pub(crate) fn parse_argument(self, name: &str, argument: &OsStr) -> anyhow::Result<Vec<u8>> {
        let mut key = argument.as_encoded_bytes().to_vec();
        if self == Self::Hex {
            let context = || format!("{name} '{}'", key_text(argument.as_encoded_bytes()));
            let length = decode_hex(&mut key).with_context(context)?;
            key.truncate(length);
        }
        Ok(key)
    }

    /// Describes the expected contents, for a message about a file without keys.
    pub(super) fn expected(self) -> &'static str {
        match self {
            Self::Lines | Self::Crlf => "one per line; a value may follow a tab",
            Self::Nul => "keys that each end with a NUL byte",
            Self::Hex => "one per line in hexadecimal digits; a value may follow a tab",
        }
    }
}

/// The key prefix that each range lies within.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangePrefix {
    /// The first bytes.
    Bytes(usize),
    /// All bytes up to and including the first byte of this value.
    EndsWith(u8),
}

/// Parses a number of bytes, or the byte that ends the prefix.
pub(crate) fn parse_prefix(text: &str) -> Result<RangePrefix, String> {
    let expected =
        || format!("expected a number of bytes, a byte that is no digit, or 0x and its two digits, got '{text}'");
    if let Some(digits) = text.strip_prefix("0x") {
        let byte = u8::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 2);
        return byte.map(RangePrefix::EndsWith).ok_or_else(expected);
    }
    match *text.as_bytes() {
        // A digit is a number of bytes. The byte of the digit 8 is 0x38.
        [byte] if byte.is_ascii() && !byte.is_ascii_digit() => Ok(RangePrefix::EndsWith(byte)),
        _ => {
            let bytes = number_in::<u16>(1..=u64::from(u16::MAX))(text).map_err(|_| expected())?;
            Ok(RangePrefix::Bytes(bytes.into()))
        }
    }
}

impl fmt::Display for RangePrefix {
    /// Formats the prefix as a value of `--range-prefix`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{bytes}"),
            Self::EndsWith(byte) => write!(f, "{byte:#04x}"),
        }
    }
}

impl RangePrefix {
    pub(crate) fn in_words(self) -> String {
        match self {
            Self::Bytes(bytes) => counted(bytes as u64, "byte"),
            Self::EndsWith(byte) => format!("up to the first byte {byte:#04x}"),
        }
    }

    pub(crate) fn extractor(self) -> Arc<dyn KeyExtractor> {
        match self {
            Self::Bytes(bytes) => Arc::new(FixedPrefix::new(bytes)),
            Self::EndsWith(byte) => Arc::new(DelimitedPrefix::new(byte)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_number_of_bytes_or_the_byte_that_ends_it() {
        assert_eq!(parse_prefix("8"), Ok(RangePrefix::Bytes(8)));
        assert_eq!(parse_prefix(":"), Ok(RangePrefix::EndsWith(b':')));
        assert_eq!(parse_prefix("0x38"), Ok(RangePrefix::EndsWith(b'8')));
        for text in ["", "0", "-1", "::", "0x1", "0x123", "é", "1000000"] {
            assert!(parse_prefix(text).is_err(), "{text}");
        }
    }
}
