//! Finds the blocks of a table by their handles, changes them, and seals them again. This module follows docs/format/files.md and
//! shares no code with the library.

use core::ops::Range;

use crate::block_forge::{self, Mutate, Parts};
use crate::metadata;
use crate::random::Random;

/// Bytes of a footer; the last eight are the magic number.
const FOOTER: usize = 64;

/// Bytes of the checksum behind each block.
const CHECKSUM: usize = 4;

/// The offset and length of a block's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    /// The first byte.
    pub offset: usize,
    /// Bytes of contents.
    pub length: usize,
}

/// A block, and the position of the copy of its checksum in the block that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its offset and length.
    pub handle: Handle,
    checksum_at: usize,
}

/// The blocks of a table, as far as they can be found.
#[derive(Clone, Debug)]
pub struct Blocks {
    /// The id that enters all checksums.
    pub table_id: [u8; 16],
    /// Each block before the block that names it; the metaindex is last.
    pub links: Vec<Link>,
    /// The bytes of all filters, from where they may begin to the properties.
    filters: Range<usize>,
    /// Their description in the properties.
    metadata: Range<usize>,
}

/// The checksum of `contents` at `offset` in the table of this id.
fn bound_checksum(contents: &[u8], table_id: &[u8; 16], offset: usize) -> u32 {
    let sum = crc32c::crc32c_append(crc32c::crc32c(contents), table_id);
    crc32c::crc32c_append(sum, &(offset as u64).to_le_bytes())
}

/// A LEB128 number from the front of `bytes`.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn take<'a>(bytes: &mut &'a [u8], length: u64) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    *bytes = rest;
    Some(taken)
}

/// Returns the keys of a block and the ranges of their values, up to the first that cannot be read.
fn entries(contents: &[u8]) -> Vec<(Vec<u8>, Range<usize>)> {
    let mut found: Vec<(Vec<u8>, Range<usize>)> = Vec::new();
    let restarts = contents.last_chunk().map_or(0, |&count| u32::from_le_bytes(count) as usize);
    let end = contents.len().saturating_sub(restarts.saturating_add(1).saturating_mul(4));
    let mut rest = &contents[..end];
    let mut next = |last: &[u8]| {
        let (shared, suffix, value) = (varint(&mut rest)?, varint(&mut rest)?, varint(&mut rest)?);
        let shared = last.get(..usize::try_from(shared).ok()?)?;
        let key = [shared, take(&mut rest, suffix)?].concat();
        let start = end - rest.len();
        take(&mut rest, value >> 1)?;
        Some((key, start..end - rest.len()))
    };
    while let Some(entry) = next(found.last().map_or(&[], |(key, _)| key)) {
        found.push(entry);
    }
    found
}

impl Handle {
    /// The handle that `bytes` are, of a block within `most` bytes.
    fn of(mut bytes: &[u8], most: usize) -> Option<Self> {
        let (offset, length) = (varint(&mut bytes)?, varint(&mut bytes)?);
        let handle = Self { offset: usize::try_from(offset).ok()?, length: usize::try_from(length).ok()? };
        (handle.offset.checked_add(handle.length)?.checked_add(CHECKSUM)? <= most).then_some(handle)
    }

    fn contents(self, table: &[u8]) -> &[u8] {
        &table[self.offset..self.offset + self.length]
    }
}

impl Link {
    /// The block that the bytes at `place` of the table name.
    fn of(table: &[u8], place: Range<usize>, most: usize) -> Option<Self> {
        let checksum_at = place.end.checked_sub(CHECKSUM)?;
        Some(Self { handle: Handle::of(&table[place], most)?, checksum_at })
    }

    fn seal(self, table: &mut [u8], table_id: &[u8; 16]) {
        let sum = bound_checksum(self.handle.contents(table), table_id, self.handle.offset);
        let end = self.handle.offset + self.handle.length;
        for place in [end, self.checksum_at] {
            table[place..place + CHECKSUM].copy_from_slice(&sum.to_le_bytes());
        }
    }
}

impl Blocks {
    /// The blocks that `table` names.
    #[must_use]
    pub fn of(table: &[u8]) -> Option<Self> {
        let most = table.len().checked_sub(FOOTER)?;
        let footer = &table[most..];
        let number = |at: usize| footer[at..].first_chunk().map(|&bytes| u64::from_le_bytes(bytes));
        let metaindex = Handle { offset: number(0)?.try_into().ok()?, length: number(8)?.try_into().ok()? };
        if metaindex.offset.checked_add(metaindex.length)?.checked_add(CHECKSUM)? > most {
            return None;
        }
        let named_by = |block: Handle| {
            let entries = entries(block.contents(table)).into_iter();
            entries.filter_map(move |(name, place)| {
                let place = block.offset + place.start..block.offset + place.end;
                Some((name, Link::of(table, place, most)?))
            })
        };
        let table_id = *footer[24..].first_chunk()?;
        let mut blocks = Self { table_id, links: Vec::new(), filters: 0..0, metadata: 0..0 };
        for (name, link) in named_by(metaindex) {
            if name == b"index" {
                blocks.links.extend(named_by(link.handle).map(|(_, link)| link));
            } else if name == b"properties" {
                blocks.find_filters(link.handle, table);
            }
            blocks.links.push(link);
        }
        blocks.links.push(Link { handle: metaindex, checksum_at: most + 44 });
        Some(blocks)
    }

    fn find_filters(&mut self, properties: Handle, table: &[u8]) {
        for (name, place) in entries(properties.contents(table)) {
            let place = properties.offset + place.start..properties.offset + place.end;
            if name == b"filters" {
                self.metadata = place;
            } else if name == b"data-bytes"
                && let Some(&bytes) = table[place].first_chunk()
            {
                let start = u64::from_le_bytes(bytes).checked_next_multiple_of(64);
                let start = start.and_then(|start| usize::try_from(start).ok()).unwrap_or(usize::MAX);
                self.filters = start.min(properties.offset)..properties.offset;
            }
        }
    }

    /// The ranges of everything that a writer decides about, in a table of this length.
    pub fn parts(&self, table_bytes: usize) -> impl Iterator<Item = Range<usize>> {
        let blocks = self.links.iter().map(|link| link.handle.offset..link.handle.offset + link.handle.length);
        blocks.chain([self.filters.clone(), table_bytes - FOOTER..table_bytes])
    }

    /// Repairs the checksums of a filter in one block, if no length changes with them.
    pub fn seal_filter(&self, table: &mut [u8]) {
        let filter = &mut table[self.filters.clone()];
        let sealed = Parts::of(filter).seal();
        if sealed.len() == filter.len() {
            filter.copy_from_slice(&sealed);
        }
    }

    /// Repairs the checksums of all blocks, and of filters in their description, and the footer's checksum, length and magic number.
    pub fn seal(&self, table: &mut [u8]) {
        let filters = table[self.filters.clone()].to_vec();
        metadata::seal_covered(&mut table[self.metadata.clone()], &filters);
        self.links.iter().for_each(|link| link.seal(table, &self.table_id));
        seal_footer(table);
    }
}

/// Makes the last bytes of `table` a footer with a valid checksum.
fn seal_footer(table: &mut [u8]) {
    let length = table.len() as u64;
    let Some(footer) = table.last_chunk_mut::<FOOTER>() else { return };
    footer[16..24].copy_from_slice(&length.to_le_bytes());
    footer[56..].copy_from_slice(b"SSTFLTR\x1a");
    let sum = crc32c::crc32c(&footer[..52]);
    footer[52..56].copy_from_slice(&sum.to_le_bytes());
}

/// A custom mutator: mostly changes one block, the footer or the filter of a table, and seals it again.
pub fn mutate(data: &mut [u8], size: usize, most: usize, seed: u32, mutate: Mutate) -> usize {
    let mut random = Random::new(seed);
    let blocks = Blocks::of(&data[..size]).filter(|_| size <= most && !random.once_in(6));
    let Some(blocks) = blocks else { return block_forge::change(mutate, data, size, most) };
    let table = &mut data[..size];
    for _ in 0..=random.below(3) {
        let place = random.below(blocks.links.len() + 2);
        match blocks.links.get(place).map(|link| link.handle) {
            Some(Handle { offset, length }) => change(&mut table[offset..offset + length], mutate, &mut random),
            None if random.once_in(2) => {
                let filter = &mut table[blocks.filters.clone()];
                let (mut changed, length) = (filter.to_vec(), filter.len());
                let changed_length = block_forge::mutate(&mut changed, length, length, random.number(), mutate);
                if changed_length == length {
                    filter.copy_from_slice(&changed);
                }
            }
            None if random.once_in(3) => change(&mut table[size - FOOTER..], mutate, &mut random),
            None => change(table, mutate, &mut random),
        }
    }
    if !random.once_in(10) {
        blocks.seal(table);
    }
    size
}

/// Changes bytes in place; bytes that the change would have cut off stay.
fn change(bytes: &mut [u8], mutate: Mutate, random: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    // A small window, because a few bytes contain most of a block's structure.
    let length = if random.once_in(3) { bytes.len() } else { 1 + random.below(bytes.len().min(24)) };
    let from = random.below(bytes.len() - length + 1);
    let mut window = bytes[from..from + length].to_vec();
    mutate(&mut window, length, length);
    bytes[from..from + length].copy_from_slice(&window);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixtures_sealed_again_are_what_they_were() {
        let names = ["table-small-tombstones-bloom", "table-2000-entries-ribbon", "table-empty-without-filter"];
        for name in names {
            let table = std::fs::read(format!("../fixtures/v1/{name}.sst")).unwrap();
            let blocks = Blocks::of(&table).unwrap();
            let mut wiped = table.clone();
            for link in &blocks.links {
                wiped[link.handle.offset + link.handle.length] ^= 0xff;
                wiped[link.checksum_at] ^= 0xff;
            }
            wiped[blocks.metadata.start] ^= 0xff;
            blocks.seal(&mut wiped);
            assert!(wiped == table, "{name}: {blocks:?}");
        }
    }
}
