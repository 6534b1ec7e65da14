//! The footers of Pebble's own formats (`sstable/table.go`).
//!
//! They equal RocksDB's footer of format versions 1 to 5 except for the magic number. From version 6 on a CRC32C of the
//! footer precedes the version; from version 7 on four bytes of attributes precede the CRC32C.

use crate::error::{Error, Part};
use crate::format::checksum::{ChecksumType, masked};
use crate::format::footer::{Engine, Footer, HANDLES_BYTES, malformed, unsupported};

/// Version and magic number.
const END_BYTES: usize = 4 + 8;
/// `TableFormatMax` of Pebble.
const LATEST_VERSION: u32 = 8;

/// Parses the last bytes of a file of `file_bytes`, which end in Pebble's magic number.
pub(crate) fn parse(tail: &[u8], file_bytes: u64) -> Result<Footer, Error> {
    let short =
        |bytes: usize| malformed(0, format!("expected a footer of {bytes} bytes, and the file has {}", tail.len()));
    let end: &[u8; END_BYTES] = tail.last_chunk().ok_or_else(|| short(END_BYTES))?;
    let version = u32::from_le_bytes([end[0], end[1], end[2], end[3]]);
    let bytes = 1 + HANDLES_BYTES + attributes_bytes(version)? + checksum_bytes(version) + END_BYTES;
    let footer = tail.len().checked_sub(bytes).and_then(|start| tail.get(start..)).ok_or_else(|| short(bytes))?;
    let offset = file_bytes.checked_sub(bytes as u64).ok_or_else(|| short(bytes))?;
    // Checked before any other field is believed; only the version must be read first, because it decides the length.
    if has_checksum(version) {
        check(footer, offset)?;
    }
    let (&kind, rest) = footer.split_first().ok_or_else(|| short(bytes))?;
    let Some(kind @ (ChecksumType::Crc32c | ChecksumType::XxHash64)) = ChecksumType::from_byte(kind) else {
        return Err(unsupported(format!("checksum type {kind}")));
    };
    let handles = rest.get(..HANDLES_BYTES).unwrap_or(rest);
    Footer::with_handles(Engine::Pebble, version, kind, handles, offset..file_bytes)
}

fn attributes_bytes(version: u32) -> Result<usize, Error> {
    match version {
        1..=6 => Ok(0),
        7..=LATEST_VERSION => Ok(4),
        _ => Err(unsupported(format!("version {version} of Pebble's format"))),
    }
}

/// Returns whether a footer of this version has a checksum.
pub(crate) const fn has_checksum(version: u32) -> bool {
    version >= 6
}

const fn checksum_bytes(version: u32) -> usize {
    if has_checksum(version) { 4 } else { 0 }
}

/// Checks the footer's checksum: always CRC32C, even if the blocks have another, of the footer without the checksum.
fn check(footer: &[u8], offset: u64) -> Result<(), Error> {
    let parts =
        footer.split_last_chunk::<END_BYTES>().and_then(|(front, end)| Some((front.split_last_chunk::<4>()?, end)));
    let Some(((front, stored), end)) = parts else {
        return Err(malformed(offset, format!("expected a checksum, got {} bytes", footer.len())));
    };
    let found = masked(crc32c::crc32c_append(crc32c::crc32c(front), end));
    Error::check(Part::Footer, offset, u32::from_le_bytes(*stored), found)
}

#[cfg(test)]
mod tests {
    //! `tests/engines/pebble.rs` reads Pebble's own footers. These tests cover footers that Pebble does not write.

    use super::parse;
    use crate::error::Error;

    const MAGIC: &[u8] = b"\xf0\x9f\xaa\xb3\xf0\x9f\xaa\xb3";

    fn footer(checksum: u8, version: u32) -> Vec<u8> {
        let mut bytes = vec![checksum, 10, 20, 35, 5];
        bytes.resize(41, 0);
        bytes.extend(version.to_le_bytes());
        bytes.extend(MAGIC);
        bytes
    }

    #[test]
    fn only_known_versions_and_checksums_are_read() {
        assert!(parse(&footer(1, 5), 1_000).is_ok());
        assert!(parse(&footer(3, 1), 1_000).is_ok());
        for (checksum, version) in [(0, 5), (2, 5), (4, 5), (1, 0), (1, 9), (1, u32::MAX)] {
            let refused = parse(&footer(checksum, version), 1_000);
            assert!(matches!(refused, Err(Error::Unsupported { .. })), "{checksum} {version}");
        }
    }

    #[test]
    fn a_footer_without_its_checksum_does_not_pass() {
        let long = [vec![0; 8], footer(1, 6)].concat();
        assert!(matches!(parse(&long, 1_000), Err(Error::Checksum { .. })));
        assert!(matches!(parse(&footer(1, 6), 53), Err(Error::Malformed { .. })));
        assert!(matches!(parse(MAGIC, 8), Err(Error::Malformed { .. })));
    }
}
