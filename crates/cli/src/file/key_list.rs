//! Keys and values from files: lines of text, keys that end with NUL, or hexadecimal digits.
//!
//! | format | one key | its value | dropped |
//! |---|---|---|---|
//! | `lines` | a line up to its first tab | what follows the tab | empty lines, a byte order mark |
//! | `crlf` | the same | the same | as in `lines`, and a carriage return at the end of a line |
//! | `nul` | all bytes up to a NUL byte, or to the end | none | nothing: two NUL bytes in a row are the empty key |
//! | `hex` | a line of hexadecimal digits up to a tab; `0x` may precede them | digits after the tab | as in `crlf` |
//!
//! In lines, the empty key is a line that begins with a tab: only a tab, if it has no value. A carriage return is a
//! byte of the key or value like any other unless the format is `crlf`: otherwise, a key that ends with one could not
//! be looked up.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use sstfilter_table::{MAX_KEY_BYTES, MAX_VALUE_BYTES};

use super::context::KeysFormat;
use super::look::{Format, look_at};
use super::names::is_named_like_table;
use crate::print::note;
use crate::system::{input, memory};
use crate::words::escape::decode_hex;
use crate::words::units;

/// The position of one entry's key and value in the text. The value begins one byte after the key.
#[derive(Clone, Copy, Debug)]
struct Line {
    start: usize,
    key_end: usize,
    end: usize,
}

/// Bytes of memory that a line costs in addition to its text.
const LINE_BYTES: u64 = size_of::<Line>() as u64;

/// Line length assumed until the lines are counted: shorter lines are rare.
const ASSUMED_LINE_BYTES: u64 = 16;

/// Bytes at the beginning of a file that are searched for NUL bytes, which text does not contain.
const LOOKED_AT_BYTES: usize = 32 << 10;

/// How a gzip file begins, which would be read as lines of garbage: its magic number, and the only compression method
/// that exists (RFC 1952, 2.3.1).
const GZIP_START: &[u8] = &[0x1f, 0x8b, 8];

/// Mark that programs on Windows write at the beginning of a text. No key begins with it on purpose.
pub(crate) const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Maximum memory that a file of keys may use, and advice for a user who exceeds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryLimit {
    pub(crate) bytes: u64,
    pub(crate) advice: &'static str,
}

impl Default for MemoryLimit {
    /// Returns the memory available without swapping.
    fn default() -> Self {
        Self { bytes: memory::available_bytes().unwrap_or(u64::MAX), advice: "split it" }
    }
}

/// The entries of a text, and the text itself.
#[derive(Debug, Default)]
pub(crate) struct KeyLines {
    text: Vec<u8>,
    lines: Vec<Line>,
    pub(crate) blank_lines: u64,
    /// Lines whose key or value ends in a carriage return.
    carriage_returns: u64,
    /// Lines that were dropped because a later one has the same key.
    pub(crate) duplicate_keys: u64,
}

impl KeyLines {
    /// Splits `text` into entries.
    pub(crate) fn parse(text: Vec<u8>, format: KeysFormat) -> anyhow::Result<Self> {
        let mut start = byte_order_mark_bytes(&text, format);
        // Exactly as many lines as the memory check assumes: a growing vector would exceed the limit while it is
        // copied.
        let lines = Vec::with_capacity(count_records(&text[start..], format));
        let mut keys = Self { text, lines, ..Self::default() };
        let mut number = 0_u64;
        while start < keys.text.len() {
            let rest = &keys.text[start..];
            let length = rest.iter().position(|&byte| byte == format.separator()).unwrap_or(rest.len());
            number += 1;
            match format {
                KeysFormat::Lines => keys.add_line(start, start + length),
                KeysFormat::Crlf => keys.add_line_of_crlf(start, start + length),
                KeysFormat::Nul => keys.lines.push(Line { start, key_end: start + length, end: start + length }),
                KeysFormat::Hex => keys
                    .add_hex_line(start, start + length)
                    .with_context(|| format!("line {}", units::grouped(number)))?,
            }
            start += length + 1;
        }
        Ok(keys)
    }

    /// Reads at least one key from the file at `path`, or from standard input for `-`. `option` is the command line
    /// option that named the path.
    pub(crate) fn read(path: &Path, format: KeysFormat, option: &str) -> anyhow::Result<Self> {
        Self::read_within(path, format, option, MemoryLimit::default())
    }

    /// Like [`read`](Self::read), with at most `limit` memory for the text and for sorting it. Fails early if the
    /// length of the file shows that sorting would need more.
    pub(crate) fn read_within(
        path: &Path,
        format: KeysFormat,
        option: &str,
        limit: MemoryLimit,
    ) -> anyhow::Result<Self> {
        let name = input::name(path);
        // A pipe is read once, and not here.
        if input::length(path).is_some()
            && let look = look_at(path)?
            && (look.is_table() || look == Format::FileMap)
        {
            let what = if look.is_table() { "a table" } else { "a file map" };
            bail!("{name}: expected a file of keys, got {what}");
        }
        let source = input::open(path, option)?;
        let length = input::length(path).unwrap_or(0);
        // An estimate, to refuse a huge file before it is read. The exact check follows.
        let lines_bytes = (length / ASSUMED_LINE_BYTES).saturating_mul(LINE_BYTES);
        ensure_fits(path, length.saturating_add(lines_bytes), limit)?;
        let text = read_pieces(path, source, format, limit)?;
        ensure!(!text.starts_with(GZIP_START), "{name} is compressed: unpack it with `gzip -d` first");
        let lines_bytes = count_records(&text, format) as u64 * LINE_BYTES;
        ensure_fits(path, text.len() as u64 + lines_bytes, limit)?;
        // A wrong path, such as that of a table, would be read as lines of garbage.
        if format != KeysFormat::Nul && text[..text.len().min(LOOKED_AT_BYTES)].contains(&0) {
            ensure!(!is_named_like_table(path), "{name}: expected a file of keys, got a table, by its name");
            note(&format!(
                "note: {name} contains NUL bytes, which are read as bytes of keys: if a NUL byte ends each key, pass \
                 --keys-format nul"
            ));
        }
        if byte_order_mark_bytes(&text, format) > 0 {
            note(&format!("note: {name}: the byte order mark at its beginning is not part of the first key"));
        }
        let lines = Self::parse(text, format).with_context(|| name.clone().into_owned())?;
        // More often a wrong path than an empty set of keys.
        ensure!(lines.len() > 0, "{name} contains no key: expected {}", format.expected());
        for remark in lines.remarks(format) {
            note(&format!("note: {name}: {remark}"));
        }
        Ok(lines)
    }

    /// Returns notes about empty lines and carriage returns, which a user may have meant differently.
    fn remarks(&self, format: KeysFormat) -> impl Iterator<Item = String> {
        let blank = (self.blank_lines > 0).then(|| {
            let blank = units::counted(self.blank_lines, "empty line");
            format!("{blank} skipped: the empty key is a line with only a tab")
        });
        let returns = (format == KeysFormat::Lines && self.carriage_returns > 0).then(|| {
            let (returns, all) = (units::grouped(self.carriage_returns), units::counted(self.len() as u64, "line"));
            format!(
                "{returns} of {all} with a carriage return at the end, which is read as a byte of the key or value: \
                 if it belongs to the end of the line, pass --keys-format crlf"
            )
        });
        blank.into_iter().chain(returns)
    }

    /// Adds a key from another source, without a value.
    pub(crate) fn push(&mut self, key: &[u8]) {
        let start = self.text.len();
        self.text.extend_from_slice(key);
        self.lines.push(Line { start, key_end: self.text.len(), end: self.text.len() });
    }

    /// Adds the line from `start` to `end`, the position of its line feed or of the end of the text.
    fn add_line(&mut self, start: usize, end: usize) {
        let content = &self.text[start..end];
        // Counted for a note and not dropped, because a key may end with one.
        self.carriage_returns += u64::from(content.ends_with(b"\r"));
        if content.is_empty() {
            self.blank_lines += 1;
        } else {
            let key_bytes = content.iter().position(|&byte| byte == b'\t').unwrap_or(content.len());
            self.lines.push(Line { start, key_end: start + key_bytes, end });
        }
    }

    /// Adds the line without the carriage return at its end.
    fn add_line_of_crlf(&mut self, start: usize, end: usize) {
        let has_return = self.text[start..end].ends_with(b"\r");
        self.add_line(start, end - usize::from(has_return));
    }

    /// Adds a line of digits. Decodes it in place, because the bytes need less space than their digits.
    fn add_hex_line(&mut self, start: usize, end: usize) -> anyhow::Result<()> {
        self.add_line_of_crlf(start, end);
        // A blank line was not added.
        let Some(line) = self.lines.last_mut().filter(|line| line.start == start) else {
            return Ok(());
        };
        let Line { key_end: tab, end, .. } = *line;
        line.key_end = start + decode_hex(&mut self.text[start..tab])?;
        line.end = line.key_end;
        if tab < end {
            let value_bytes = decode_hex(&mut self.text[tab + 1..end])?;
            // The value must begin one byte after the key, where `entry` expects it.
            self.text.copy_within(tab + 1..tab + 1 + value_bytes, line.key_end + 1);
            line.end = line.key_end + 1 + value_bytes;
        }
        Ok(())
    }

    /// Sorts by key. If several lines have the same key, the last one stays.
    pub(crate) fn sort_and_dedup(&mut self) {
        let before = self.lines.len();
        let text = &self.text;
        let key = |line: &Line| &text[line.start..line.key_end];
        // The position in the text breaks ties, so that an unstable sort suffices, which needs no extra memory.
        self.lines.sort_unstable_by(|a, b| key(a).cmp(key(b)).then(a.start.cmp(&b.start)));
        self.lines.dedup_by(|later, kept| {
            let same = key(later) == key(kept);
            if same {
                *kept = *later;
            }
            same
        });
        self.duplicate_keys = (before - self.lines.len()) as u64;
    }

    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns key and value of entry `index`, which is below [`len`](Self::len).
    pub(crate) fn entry(&self, index: usize) -> (&[u8], &[u8]) {
        let Line { start, key_end, end } = self.lines[index];
        // A line without a tab has no byte after its key: `min` keeps the value's start inside the line.
        (&self.text[start..key_end], &self.text[(key_end + 1).min(end)..end])
    }

    /// Returns the keys and values in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        (0..self.lines.len()).map(|index| self.entry(index))
    }
}

/// Returns the number of bytes before the first key of `text`. In `nul`, any byte may be part of a key.
fn byte_order_mark_bytes(text: &[u8], format: KeysFormat) -> usize {
    if format != KeysFormat::Nul && text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 }
}

/// Bytes read between two checks for keys.
const PIECE_BYTES: u64 = 1 << 20;

/// Reads to the end of `source`, or until it proves too large or without an end: a pipe does not announce its length,
/// and a device or a sparse file may return zeros forever.
fn read_pieces(path: &Path, mut source: impl Read, format: KeysFormat, limit: MemoryLimit) -> anyhow::Result<Vec<u8>> {
    let (mut text, mut records, mut keys_end) = (Vec::new(), 0, 0);
    loop {
        let start = text.len();
        let read = source.by_ref().take(PIECE_BYTES).read_to_end(&mut text);
        if read.with_context(|| format!("cannot read {}", input::name(path)))? == 0 {
            return Ok(text);
        }
        // Counts a record that spans pieces once per piece: an upper bound, off by one per piece.
        records += count_records(&text[start..], format) as u64;
        ensure_fits(path, text.len() as u64 + records * LINE_BYTES, limit)?;
        keys_end = last_key_end(&text, start, format).unwrap_or(keys_end);
        ensure_key_ends(path, &text, keys_end, format)?;
    }
}

/// Returns the end of the last record that is not empty, if it is at or after `start`.
fn last_key_end(text: &[u8], start: usize, format: KeysFormat) -> Option<usize> {
    let separator = format.separator();
    // A plain loop: at this package's level of optimization, a chain of iterators calls four functions for each byte.
    let mut at = text.len();
    while at > start.max(1) {
        at -= 1;
        if text[at] == separator && text[at - 1] != separator {
            return Some(at);
        }
    }
    None
}

/// Fails if no continuation can turn the bytes after `keys_end` into a key: they are longer than any key, and without
/// a tab, which would end one.
fn ensure_key_ends(path: &Path, text: &[u8], keys_end: usize, format: KeysFormat) -> anyhow::Result<()> {
    let digits = if format == KeysFormat::Hex { 2 } else { 1 };
    // One piece more than a key, because the end of a key is looked for only after each piece.
    let most = digits * MAX_KEY_BYTES + PIECE_BYTES;
    let rest = &text[keys_end..];
    let is_value = |rest: &[u8]| rest.len() as u64 <= most + digits * MAX_VALUE_BYTES && rest.contains(&b'\t');
    let is_sound = rest.len() as u64 <= most || (format != KeysFormat::Nul && is_value(rest));
    let (name, longest, what) = (input::name(path), units::bytes(MAX_KEY_BYTES), format.expected());
    let (bytes, from) = (units::bytes(rest.len() as u64), units::grouped(keys_end as u64));
    ensure!(is_sound, "{name}: expected keys of up to {longest}, {what}, got none in {bytes} from byte {from} on");
    Ok(())
}

fn ensure_fits(path: &Path, needed: u64, limit: MemoryLimit) -> anyhow::Result<()> {
    let MemoryLimit { bytes, advice } = limit;
    let (file, takes, most) = (input::name(path), units::bytes(needed), units::bytes(bytes));
    ensure!(needed <= bytes, "{file}: sorting it takes at least {takes} of memory, but the limit is {most}: {advice}");
    Ok(())
}

/// Counts the records of `text`; the last one may lack its terminator.
fn count_records(text: &[u8], format: KeysFormat) -> usize {
    text.split_inclusive(|&byte| byte == format.separator()).count()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use crate::effort;

    type Entries<'a> = &'a [(&'a [u8], &'a [u8])];

    const RETURNS: &[u8] = b"a\r\n\r\nb\t1\r\nc\r\r\n\n\t\r\nd\r";

    #[test]
    fn each_format_has_the_entries_that_the_table_says() {
        let rows: [(KeysFormat, &[u8], Entries<'_>); 11] = [
            (KeysFormat::Lines, b"b\t2\tx\na\n\nB\t\nc", &[(b"b", b"2\tx"), (b"a", b""), (b"B", b""), (b"c", b"")]),
            (KeysFormat::Lines, b"", &[]),
            (KeysFormat::Lines, b"\n\n", &[]),
            (KeysFormat::Lines, b"\tvalue\n", &[(b"", b"value")]),
            // A byte order mark is no part of the first key.
            (KeysFormat::Lines, b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", &[(b"a", b""), (b"\xef\xbb\xbfb", b"")]),
            (
                KeysFormat::Lines,
                RETURNS,
                &[(b"a\r", b""), (b"\r", b""), (b"b", b"1\r"), (b"c\r\r", b""), (b"", b"\r"), (b"d\r", b"")],
            ),
            (KeysFormat::Crlf, RETURNS, &[(b"a", b""), (b"b", b"1"), (b"c\r", b""), (b"", b""), (b"d", b"")]),
            (KeysFormat::Nul, b"", &[]),
            (KeysFormat::Nul, b"a\r\n\tb\0\0c\r\0", &[(b"a\r\n\tb", b""), (b"", b""), (b"c\r", b"")]),
            (KeysFormat::Nul, b"\xef\xbb\xbfa\0b", &[(b"\xef\xbb\xbfa", b""), (b"b", b"")]),
            (
                KeysFormat::Hex,
                b"\xef\xbb\xbf00ff0A\tdeadBEEF\r\n\n0x6b\n\t01\n6162\t\n7a",
                &[(b"\x00\xff\n", b"\xde\xad\xbe\xef"), (b"k", b""), (b"", b"\x01"), (b"ab", b""), (b"z", b"")],
            ),
        ];
        for (format, text, expected) in rows {
            let keys = KeyLines::parse(text.to_vec(), format).unwrap();
            assert_eq!(keys.iter().collect::<Vec<_>>(), expected, "{format:?}: {}", text.escape_ascii());
        }
    }

    #[test]
    fn keys_are_sorted_by_their_bytes_and_the_last_line_of_a_key_wins() {
        let mut keys = KeyLines::parse(b"k\t1\nj\t9\nB\nk\t2\nk\t3\n".to_vec(), KeysFormat::Lines).unwrap();
        keys.sort_and_dedup();
        let expected: [(&[u8], &[u8]); 3] = [(b"B", b""), (b"j", b"9"), (b"k", b"3")];
        assert_eq!((keys.iter().collect::<Vec<_>>(), keys.duplicate_keys), (expected.to_vec(), 2));
    }

    #[test]
    fn empty_lines_and_carriage_returns_are_noted() {
        let remarks = |format| {
            let keys = KeyLines::parse(RETURNS.to_vec(), format).unwrap();
            keys.remarks(format).collect::<Vec<_>>().join("; ")
        };
        assert!(remarks(KeysFormat::Crlf).starts_with("2 empty lines skipped: the empty key is"));
        let of_lines = remarks(KeysFormat::Lines);
        assert!(of_lines.starts_with("1 empty line skipped") && of_lines.contains("6 of 6 lines with"), "{of_lines}");
    }

    /// In the long form, tries every listed byte in each format; otherwise one byte per format.
    #[test]
    fn keys_without_an_end_are_given_up_at_the_longest_key() {
        let most = 2 * PIECE_BYTES + 2 * MAX_KEY_BYTES;
        let read = |source: &mut dyn Read, format| {
            let mut taken = source.take(most + 2 * PIECE_BYTES);
            let read = read_pieces(Path::new("keys"), &mut taken, format, MemoryLimit { bytes: u64::MAX, advice: "" });
            (read.err().map(|error| error.to_string()), most + 2 * PIECE_BYTES - taken.limit())
        };
        let bytes_of = |usual| if effort::is_long() { vec![0, b'\n', b'7'] } else { vec![usual] };
        let formats =
            [(KeysFormat::Lines, b'\n'), (KeysFormat::Crlf, 0), (KeysFormat::Nul, 0), (KeysFormat::Hex, b'7')];
        for (format, usual) in formats {
            for mut endless in bytes_of(usual).into_iter().map(std::io::repeat) {
                let (error, bytes) = read(&mut endless, format);
                let error = error.unwrap();
                assert!(error.starts_with("keys: expected keys of up to 64.0 MiB"), "{error}");
                assert!(error.ends_with("from byte 0 on"), "{error}");
                assert!(bytes <= most, "{bytes} bytes were read");
            }
        }
        let value = [b"k\t".as_slice(), &vec![b'v'; usize::try_from(MAX_VALUE_BYTES).unwrap()], b"\n"].concat();
        let (error, _) = read(&mut &value[..], KeysFormat::Lines);
        assert_eq!(error, None, "a value may be as long as the longest key");
    }

    #[test]
    fn what_is_not_hex_is_refused_by_its_line() {
        for (text, words) in [("6b\n6", "got 1 digits"), ("6b\n6g", "got 'g'"), ("6b\n6b\t 1", "got ' '")] {
            let error = KeyLines::parse(text.as_bytes().to_vec(), KeysFormat::Hex).unwrap_err();
            let text = format!("{error:#}");
            assert!(text.starts_with("line 2: ") && text.contains(words), "{text}");
        }
        assert!(KeysFormat::Hex.parse_argument("", OsStr::new("6")).is_err());
        assert_eq!(KeysFormat::Hex.parse_argument("", OsStr::new("006B")).unwrap(), b"\0k");
        assert_eq!(KeysFormat::Lines.parse_argument("", OsStr::new("6b")).unwrap(), b"6b");
    }
}
