//! Reads the secret seed from a file, because every user of the machine can see command lines.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use sstfilter::{KeyHasher, SecretSeed};

use super::input;
use crate::words::escape::decode_hex;

/// Maximum bytes of a seed file: 16 digits, and room for trailing blanks and line ends.
const MAX_SEED_FILE_BYTES: u64 = 64;

/// Returns the hasher with the seed in `file`: 8 bytes, or 16 hexadecimal digits for those bytes in the same order.
///
/// The file may be a pipe, so that a seed need not be on disk. Reading stops once the contents are too long for a seed.
pub(crate) fn hasher_from(file: &Path) -> anyhow::Result<KeyHasher> {
    let mut contents = Vec::new();
    // One byte more, to notice a file that is too long.
    let read = input::open(file, "--secret-seed-file")?.take(MAX_SEED_FILE_BYTES + 1).read_to_end(&mut contents);
    read.with_context(|| format!("cannot read the secret seed in {}", input::name(file)))?;
    if let Some(bytes) = parse(&contents) {
        return Ok(KeyHasher::with_secret_seed(SecretSeed::from_bytes(bytes)));
    }
    let got = match contents.len() as u64 {
        ..=MAX_SEED_FILE_BYTES => format!("{} bytes in another format", contents.len()),
        _ => format!("more than {MAX_SEED_FILE_BYTES} bytes"),
    };
    bail!("{}: expected a secret seed of 8 bytes or 16 hexadecimal digits, got {got}", input::name(file))
}

fn parse(contents: &[u8]) -> Option<[u8; 8]> {
    if contents.len() as u64 > MAX_SEED_FILE_BYTES {
        return None;
    }
    if let Ok(bytes) = contents.try_into() {
        return Some(bytes);
    }
    let mut digits: [u8; 16] = contents.trim_ascii_end().try_into().ok()?;
    // Fewer bytes if `0x` precedes the digits.
    let bytes = decode_hex(&mut digits).ok()?;
    digits.first_chunk().copied().filter(|_| bytes == 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_read_from_bytes_and_from_digits_and_from_nothing_else() {
        let seed = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];
        assert_eq!(parse(&seed), Some(seed));
        assert_eq!(parse(b"0123456789ABCdef"), Some(seed));
        assert_eq!(parse(b"0123456789abcdef\r\n"), Some(seed));
        let blank = [&b"0123456789abcdef"[..], &[b'\n'; 48]].concat();
        assert_eq!(parse(&blank), Some(seed));
        assert_eq!(parse(&[&blank[..], b"\n"].concat()), None, "what follows was not read");
        for wrong in [&b""[..], b"0123456789abcde", b"0123456789abcdefg", b"+123456789abcdef", b"0x23456789abcdef"] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}
