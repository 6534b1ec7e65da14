//! The bytes that FORMAT.md shows.

use std::fmt::Write as _;

pub(crate) const FORMAT: &str = include_str!("../../FORMAT.md");

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The bytes of a hexadecimal dump in FORMAT.md, below `heading`: offset, two blanks, then digits.
pub(crate) fn dump_below(heading: &str) -> Vec<u8> {
    let dump = FORMAT.split_once(heading).unwrap().1.split("```").nth(1).unwrap();
    let lines = dump.lines().skip(1).filter_map(|line| line.split_once("  "));
    // Behind the digits of a line, three blanks and more, is what they mean.
    let digits: String = lines.map(|(_, hex)| hex.split("   ").next().unwrap()).collect();
    let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// The bytes of a dump of pieces, each behind its offset and two blanks.
pub(crate) fn bytes_of_dump(dump: &str) -> Vec<u8> {
    let is_digits = |word: &&str| word.len().is_multiple_of(2) && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let pieces = dump.lines().flat_map(|line| line.split("   ")).filter_map(|piece| {
        let (offset, digits) = piece.trim().split_once("  ")?;
        Some((usize::from_str_radix(offset, 16).ok()?, digits.split_whitespace().take_while(is_digits).collect()))
    });
    let mut pieces: Vec<(usize, String)> = pieces.collect();
    pieces.sort_by_key(|&(offset, _)| offset);
    pieces.into_iter().fold(Vec::new(), |mut bytes, (offset, digits)| {
        assert_eq!(offset, bytes.len(), "{dump}");
        let pairs = digits.as_bytes().chunks(2).map(|pair| core::str::from_utf8(pair).unwrap());
        bytes.extend(pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()));
        bytes
    })
}
