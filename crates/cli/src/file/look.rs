//! What a file is, by its last bytes.

use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, ensure};
use bytes::Bytes;
use sstfilter::{BlockError, FilterBlock, KindId};
use sstfilter_interop::{Engine, recognize};
use sstfilter_map::MapIndex;
use sstfilter_store::{FilterMetadata, PartitionIndex};

use super::blocks::Layers;
use super::names::{has_table_extension, is_leftover, is_named_as_filter, is_named_like_table, table_beside};
use crate::print::words;
use crate::system::input::{self, RegularFile};

/// Bytes at the end of a file that identify its format and length, except for the names and bounds that some filters
/// end with. No engine's footer is longer.
pub(crate) const END_BYTES: u64 = 4 << 10;

/// Offset of the kind in the last 32 bytes of a filter block.
const KIND_AT: usize = 21;

/// Message for a file that [`look_at`] does not recognize.
pub(crate) const NEITHER: &str =
    "neither a table nor a filter block: it does not end with a magic number of sstfilter, RocksDB, LevelDB or Pebble";

/// Returns the message for a file that [`look_at`] does not recognize.
pub(crate) fn neither(path: &Path) -> String {
    let is_named_like_ours = is_named_like_table(path) || is_named_as_filter(path);
    let cut = if is_named_like_ours { "; it may have been cut short" } else { "" };
    format!("{NEITHER}{cut}")
}

words! {
    /// The format of a file, by its bytes.
    pub(crate) enum Format {
        Other = "other",
        Table = "table",
        FilterBlock = "filter block",
        PartitionedFilter = "partitioned filter",
        RangeFilter = "range filter",
        Layers = "layers",
        Sidecar = "sidecar",
        FileMap = "file map",
        RocksDbTable = "RocksDB table",
        LevelDbTable = "LevelDB table",
        PebbleTable = "Pebble table",
        EngineFile = "engine file",
    }
}

impl Format {
    /// Returns the name of the engine that wrote the table, if it is one of another engine.
    pub(crate) fn engine(self) -> Option<&'static str> {
        self.text().strip_suffix(" table")
    }

    pub(crate) fn is_table(self) -> bool {
        self == Self::Table || self.engine().is_some()
    }
}

/// Recognizes a file by its end, without reading the rest.
pub(crate) fn look_at(path: &Path) -> anyhow::Result<Format> {
    if input::is_standard(path) {
        return Ok(look_at_end(path, &input::whole_standard_input()?));
    }
    let metadata = fs::metadata(path).with_context(|| format!("cannot read {}", input::name(path)))?;
    ensure!(!metadata.is_dir(), "{}: expected a file, got a directory", input::name(path));
    if !metadata.is_file() {
        return Ok(Format::Other); // reading a pipe would block
    }
    Ok(look_at_end(path, &RegularFile::open(path)?.end(END_BYTES)?))
}

/// Whether a file is a table, or may have been one before it was damaged.
pub(crate) fn may_be_table(path: &Path) -> bool {
    look_at(path).map_or(true, |look| look.is_table() || look == Format::Other)
}

/// Recognizes a file by its last [`END_BYTES`] or more.
///
/// A magic number of seven or eight bytes shows what a file is, or was before it was damaged. One of two bytes does
/// not: a text may end with SMITH. So the checksum of the end must hold as well; or it would hold with one bit flipped,
/// or the file is named as a filter: then the file is damaged. Any other file is not recognized.
pub(crate) fn look_at_end(path: &Path, end: &[u8]) -> Format {
    let look = look_at_magic(end);
    let has_long_magic = look.is_table() || look == Format::Sidecar;
    let is_recognized = || is_own(look, end) || is_named_as_filter(path);
    if has_long_magic || is_recognized() { look } else { Format::Other }
}

/// Whether checksums show that the program wrote the regular file, and what they allow it to be. Only such a file is
/// replaced.
pub(crate) fn is_own_file(path: &Path, looks: &[Format]) -> anyhow::Result<bool> {
    let end = RegularFile::open(path)?.end(END_BYTES)?;
    let look = look_at_magic(&end);
    Ok(looks.contains(&look) && is_own(look, &end))
}

/// Bits at the end of a file that are flipped to recognize it, one at a time. By chance, one in four million files with
/// the same magic number is then recognized.
const FLIPPED_BITS: usize = 1_024;

/// Whether the checksum of a file's end holds, or would if one of its last bits were flipped.
fn is_own(look: Format, end: &[u8]) -> bool {
    if has_checksum(look, end) {
        return true;
    }
    // No checksum covers more of the end.
    let mut flipped = end.last_chunk::<{ 4 << 10 }>().map_or(end, |end| end.as_slice()).to_vec();
    let bits = 8 * flipped.len();
    (bits.saturating_sub(FLIPPED_BITS)..bits).any(|bit| {
        flipped[bit / 8] ^= 1 << (bit % 8);
        let has_checksum = has_checksum(look, &flipped);
        flipped[bit / 8] ^= 1 << (bit % 8);
        has_checksum
    })
}

/// Whether the checksum of a file's end holds.
fn has_checksum(look: Format, end: &[u8]) -> bool {
    match look {
        // Both kinds of blocks have this trailer. Only these errors are found before its checksum is compared.
        Format::FilterBlock | Format::RangeFilter => !matches!(
            FilterBlock::open_unverified(end),
            Err(BlockError::TooShort { .. }
                | BlockError::Magic { .. }
                | BlockError::Version { .. }
                | BlockError::Field { field: "flags", .. }
                | BlockError::TrailerChecksum { .. })
        ),
        Format::PartitionedFilter => PartitionIndex::tail_bytes(end).is_ok(),
        // Errors of a field and of the checksum come before those of what the checksum covers.
        Format::Layers => !matches!(
            Layers::load(&Bytes::copy_from_slice(end)),
            Err(BlockError::TooShort { .. }
                | BlockError::Magic { .. }
                | BlockError::Version { .. }
                | BlockError::Field { .. }
                | BlockError::TrailerChecksum { .. })
        ),
        Format::FileMap => MapIndex::end_bytes(end).is_ok(),
        Format::Sidecar => FilterMetadata::sidecar_tail_bytes(end).is_ok(),
        // The footer's checksum is in its bytes 52 to 55, behind what it covers.
        Format::Table => end.last_chunk::<64>().is_some_and(|footer| {
            let (covered, rest) = footer.split_at(52);
            rest.starts_with(&crc32c::crc32c(covered).to_le_bytes())
        }),
        _ => false,
    }
}

/// Recognizes a file by the magic number in its last bytes.
fn look_at_magic(tail: &[u8]) -> Format {
    // Every known format ends with a trailer or footer of at least 32 bytes.
    let Some(last) = tail.last_chunk::<32>() else { return Format::Other };
    match &last[26..28] {
        _ if last[24..31] == *b"SSTFLTR" => Format::Table,
        b"SC" => Format::Sidecar,
        b"SF" if last[KIND_AT] == KindId::RANGE.code() => Format::RangeFilter,
        b"SF" => Format::FilterBlock,
        b"SP" => Format::PartitionedFilter,
        b"ST" => Format::Layers,
        b"SM" => Format::FileMap,
        _ => match recognize(tail) {
            Some(Engine::LevelDb) => Format::LevelDbTable,
            Some(Engine::Pebble) => Format::PebbleTable,
            Some(_) => Format::RocksDbTable,
            None => Format::Other,
        },
    }
}

/// Whether these are the first bytes of a regular file.
pub(crate) fn begins_with(path: &Path, bytes: &[u8]) -> anyhow::Result<bool> {
    let file = RegularFile::open(path)?;
    Ok(file.length >= bytes.len() as u64 && *file.read(0, bytes.len() as u64)? == *bytes)
}

/// Returns the directory's files sorted by name, and every other entry with the name of a table, a sidecar, or a
/// leftover of a killed writer: an unreadable table must be an error, because older tables would answer in its place.
pub(crate) fn list(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let context = || format!("cannot read the directory {}", input::name(directory));
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).with_context(context)? {
        let path = entry.with_context(context)?.path();
        let is_named = has_table_extension(&path) || table_beside(&path).is_some() || is_leftover(&path);
        // Whether it is a regular file or cannot be checked. A temporary file may have gone since it was listed.
        let may_be_file = || {
            fs::metadata(&path)
                .map_or_else(|error| error.kind() != io::ErrorKind::NotFound, |metadata| metadata.is_file())
        };
        if is_named || may_be_file() {
            files.push(path);
        }
    }
    // Systems list a directory in any order, and output must be the same in each run.
    files.sort();
    Ok(files)
}
