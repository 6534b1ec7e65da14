//! Names and contents of files as text that cannot drive a terminal.

use std::borrow::Cow;
use std::path::{MAIN_SEPARATOR, Path};

use anyhow::{bail, ensure};

/// Whether a character moves the cursor, ends the line, or changes the direction of the text after it (Unicode 16.0,
/// 23.1 and 23.2).
pub(crate) fn drives_terminal(character: char) -> bool {
    let turns = ['\u{61c}', '\u{200e}', '\u{200f}'];
    let is_separator = matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || is_separator || turns.contains(&character)
}

/// Returns `bytes` as text. Special characters and bytes that are not UTF-8 become escapes such as `\n` and `\x1b`.
pub(crate) fn escaped(bytes: &[u8], is_special: impl Fn(char) -> bool) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if is_special(character) {
                text.extend(character.encode_utf8(&mut [0; 4]).as_bytes().escape_ascii().map(char::from));
            } else {
                text.push(character);
            }
        }
        text.extend(chunk.invalid().escape_ascii().map(char::from));
    }
    text
}

/// Escapes lines for a person, which may quote the contents of a file.
pub(crate) fn escaped_lines(text: &str) -> String {
    escaped(text.as_bytes(), |character| drives_terminal(character) && character != '\n')
}

/// Escapes a line for a person. A name in it that contains a line break stays on the line.
pub(crate) fn escaped_line(text: &str) -> String {
    escaped(text.as_bytes(), drives_terminal)
}

/// Returns the path as text and JSON show it: unchanged, unless it could drive a terminal or is not text. A backslash
/// is also escaped where it is not a path separator, so that no two names look the same.
pub(crate) fn path_name(path: &Path) -> Cow<'_, str> {
    let bytes = path.as_os_str().as_encoded_bytes();
    let is_special = |character| drives_terminal(character) || (character == '\\' && MAIN_SEPARATOR != '\\');
    match path.to_str() {
        Some(plain) if !plain.chars().any(is_special) => Cow::Borrowed(plain),
        _ => Cow::Owned(escaped(bytes, is_special)),
    }
}

/// Quotes the path as one word of a shell's command line, whatever it contains.
pub(crate) fn shell_word(path: &Path) -> String {
    let name = path_name(path);
    let has_escapes = matches!(name, Cow::Owned(_));
    // A word with a leading `-` would be an option.
    let name = if name.starts_with('-') && name != "-" { Cow::Owned(format!("./{name}")) } else { name };
    // Without `~`, which shells expand at the beginning of a word.
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "/._-+,:@%=".contains(character);
    if has_escapes {
        // Bash and zsh read escapes in this form.
        format!("$'{}'", name.replace('\'', r"\'"))
    } else if !name.is_empty() && name.chars().all(is_plain) {
        name.into_owned()
    } else {
        format!("'{}'", name.replace('\'', r"'\''"))
    }
}

/// Returns a key or value as text. Control characters and bytes that are not UTF-8 become escapes.
pub(crate) fn key_text(key: &[u8]) -> String {
    match str::from_utf8(key) {
        Ok(text) if !text.chars().any(drives_terminal) => text.to_owned(),
        _ => key.escape_ascii().to_string(),
    }
}

/// Returns two hexadecimal digits for each byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    // Never the default: four bits are always a digit.
    let digit = |number: u8| char::from_digit(u32::from(number), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Decodes `digits` in place, from their beginning on, and returns the number of bytes.
pub(crate) fn decode_hex(digits: &mut [u8]) -> anyhow::Result<usize> {
    let prefix_bytes = if digits.starts_with(b"0x") || digits.starts_with(b"0X") { 2 } else { 0 };
    let count = digits.len() - prefix_bytes;
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    if let Some(wrong) = digits[prefix_bytes..].iter().find(|&&byte| digit(byte).is_none()) {
        let wrong = key_text(&[*wrong]);
        bail!("expected hexadecimal digits, two for each byte of a key or value, got '{wrong}'");
    }
    ensure!(count.is_multiple_of(2), "expected two hexadecimal digits for each byte, got {count} digits");
    for index in 0..count / 2 {
        let at = prefix_bytes + 2 * index;
        // All digits were checked above, so the defaults are never used.
        digits[index] = digit(digits[at]).unwrap_or(0) << 4 | digit(digits[at + 1]).unwrap_or(0);
    }
    Ok(count / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_messages_cannot_drive_a_terminal() {
        let names = [
            ("\u{e9}.sst", "\u{e9}.sst"),
            ("a\x1b[2J\n\u{9b}", r"a\x1b[2J\n\xc2\x9b"),
            ("\u{202e}tss.", r"\xe2\x80\xaetss."),
        ];
        for (name, shown) in names {
            assert_eq!(path_name(Path::new(name)), shown);
            assert_eq!(escaped_line(name), shown, "a message shows the name in the same form");
        }
        assert_eq!(escaped_lines("a\x1b\nb\x07\n"), "a\\x1b\nb\\x07\n");
    }

    #[cfg(unix)]
    #[test]
    fn no_two_names_look_the_same() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;

        let shown = |name: &[u8]| path_name(Path::new(OsStr::from_bytes(name))).into_owned();
        assert_eq!((shown(b"\xff.sst").as_str(), shown(br"\xff.sst").as_str()), (r"\xff.sst", r"\\xff.sst"));
    }

    /// The failure guarded against: a name with a semicolon ends the command that a report advises and begins another.
    #[test]
    fn a_path_is_one_word_of_a_command_line() {
        for (name, word) in [
            ("/db/000007.sst", "/db/000007.sst"),
            ("-rf", "./-rf"),
            ("a b; rm $HOME", "'a b; rm $HOME'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
            ("a\n'b\\", r"$'a\n\'b\\'"),
            (r"\", r"$'\\'"),
        ] {
            assert_eq!(shell_word(Path::new(name)), word);
        }
    }
}
