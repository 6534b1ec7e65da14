//! Keys and values from lines of text: `key<TAB>value`, or a key alone.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};

/// Where one line's key and value lie in the text.
#[derive(Clone, Copy, Debug)]
struct Line {
    start: usize,
    key_end: usize,
    end: usize,
}

/// Bytes of memory that a line costs beside its text.
pub(crate) const LINE_BYTES: u64 = size_of::<Line>() as u64;

/// The entries of a text, which it owns.
#[derive(Debug)]
pub(crate) struct KeyLines {
    text: Vec<u8>,
    lines: Vec<Line>,
    pub(crate) blank_lines: u64,
    /// Lines that were dropped because a later one has the same key.
    pub(crate) duplicate_keys: u64,
}

impl KeyLines {
    /// Splits `text` into lines, each at its first tab. Carriage returns before line feeds go; blank
    /// lines are counted and dropped.
    pub(crate) fn parse(text: Vec<u8>) -> Self {
        let mut lines = Vec::with_capacity(count_lines(&text));
        let mut blank_lines = 0;
        let mut start = 0;
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            let content = line.strip_suffix(b"\n").unwrap_or(line);
            let content = content.strip_suffix(b"\r").unwrap_or(content);
            if content.is_empty() {
                blank_lines += 1;
            } else {
                let key_bytes = content.iter().position(|&byte| byte == b'\t').unwrap_or(content.len());
                lines.push(Line { start, key_end: start + key_bytes, end: start + content.len() });
            }
            start += line.len();
        }
        Self { text, lines, blank_lines, duplicate_keys: 0 }
    }

    /// The lines of the file at `path`, which must hold a key. `option` is the one that the path was given with.
    pub(crate) fn read(path: &Path, option: &str) -> anyhow::Result<Self> {
        let text = fs::read(path).with_context(|| format!("cannot read {} ({option})", path.display()))?;
        ensure_unpacked(path, &text)?;
        let lines = Self::parse(text);
        ensure!(lines.len() > 0, "{} holds no key: expected one per line", path.display());
        Ok(lines)
    }

    /// Sorts by key; of lines with one key, the last stays.
    pub(crate) fn sort_and_dedup(&mut self) {
        let before = self.lines.len();
        let text = &self.text;
        let key = |line: &Line| &text[line.start..line.key_end];
        // The place in the text breaks ties, so that an unstable sort, which needs no memory, does.
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

    /// Key and value of entry `index`, which is below [`len`](Self::len).
    pub(crate) fn entry(&self, index: usize) -> (&[u8], &[u8]) {
        let Line { start, key_end, end } = self.lines[index];
        (&self.text[start..key_end], &self.text[(key_end + 1).min(end)..end])
    }

    /// Keys and values in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        (0..self.lines.len()).map(|index| self.entry(index))
    }
}

/// Refuses a gzip file, whose lines would be garbage.
pub(crate) fn ensure_unpacked(path: &Path, text: &[u8]) -> anyhow::Result<()> {
    const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
    ensure!(!text.starts_with(GZIP_MAGIC), "{} is compressed: unpack it with `gzip -d` first", path.display());
    Ok(())
}

/// Lines of `text`, the last of which may lack its line feed.
pub(crate) fn count_lines(text: &[u8]) -> usize {
    text.split_inclusive(|&byte| byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> (Vec<(String, String)>, u64) {
        let mut lines = KeyLines::parse(text.as_bytes().to_vec());
        lines.sort_and_dedup();
        let string = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (lines.iter().map(|(key, value)| (string(key), string(value))).collect(), lines.duplicate_keys)
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn lines_split_at_the_first_tab_and_sort_by_key_bytes() {
        let (found, dropped) = entries("b\t2\tx\r\na\n\nB\t\nc");
        assert_eq!(found, [pair("B", ""), pair("a", ""), pair("b", "2\tx"), pair("c", "")]);
        assert_eq!(dropped, 0);
    }

    #[test]
    fn the_last_line_of_a_key_wins() {
        let (found, dropped) = entries("k\t1\nj\t9\nk\t2\nk\t3\n");
        assert_eq!(found, [pair("j", "9"), pair("k", "3")]);
        assert_eq!(dropped, 2);
    }

    #[test]
    fn an_empty_text_has_no_entries_and_a_lone_tab_is_the_empty_key() {
        assert_eq!(entries("").0, []);
        assert_eq!(entries("\n\n").0, []);
        assert_eq!(entries("\tvalue\n").0, [pair("", "value")]);
    }
}
