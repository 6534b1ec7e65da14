//! The blocks of a table found by their handles, changed, and sealed again. Written from FORMAT.md, sharing no code
//! with the library.

use crate::block_forge::{self, Mutate};
use crate::random::Random;

/// Bytes of a footer, of which the last eight are the magic number.
pub const FOOTER: usize = 64;

/// Bytes of the checksum behind each block.
pub const CHECKSUM: usize = 4;

/// Where a block's contents lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    /// The first byte.
    pub offset: usize,
    /// Bytes of contents.
    pub length: usize,
}

/// What a table's blocks are, as far as they can be found.
#[derive(Clone, Debug)]
pub struct Blocks {
    /// The id that enters all checksums.
    pub table_id: [u8; 16],
    /// The filter block.
    pub filter: Option<Handle>,
    /// All others: metaindex, properties, index, data.
    pub entries: Vec<Handle>,
}

/// The checksum of `contents` at `offset` in the table of this id.
#[must_use]
pub fn bound_checksum(contents: &[u8], table_id: &[u8; 16], offset: usize) -> u32 {
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

/// Keys and values of a block, up to the first that cannot be read.
#[must_use]
pub fn entries(contents: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let restarts = contents.last_chunk().map_or(0, |&count| u32::from_le_bytes(count) as usize);
    let end = contents.len().saturating_sub(restarts.saturating_add(1).saturating_mul(4));
    let mut rest = &contents[..end];
    let mut next = |last: &[u8]| {
        let (shared, suffix, value) = (varint(&mut rest)?, varint(&mut rest)?, varint(&mut rest)?);
        let shared = last.get(..usize::try_from(shared).ok()?)?;
        let key = [shared, take(&mut rest, suffix)?].concat();
        Some((key, take(&mut rest, value >> 1)?.to_vec()))
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

    fn seal(self, table: &mut [u8], table_id: &[u8; 16]) {
        let sum = bound_checksum(self.contents(table), table_id, self.offset);
        let end = self.offset + self.length;
        table[end..end + CHECKSUM].copy_from_slice(&sum.to_le_bytes());
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
        let mut blocks = Self { table_id: *footer[24..].first_chunk()?, filter: None, entries: vec![metaindex] };
        for (name, value) in entries(metaindex.contents(table)) {
            let Some(handle) = Handle::of(&value, most) else { continue };
            match &name[..] {
                b"filter" => blocks.filter = Some(handle),
                b"index" => {
                    blocks.entries.push(handle);
                    let data = entries(handle.contents(table));
                    blocks.entries.extend(data.iter().filter_map(|(_, value)| Handle::of(value, most)));
                }
                _ => blocks.entries.push(handle),
            }
        }
        Some(blocks)
    }

    /// Makes the checksums of all blocks hold, and that of the footer with the file's length and magic.
    pub fn seal(&self, table: &mut [u8]) {
        self.entries.iter().chain(&self.filter).for_each(|handle| handle.seal(table, &self.table_id));
        seal_footer(table);
    }
}

/// Makes the last bytes of `table` a footer whose checksum holds.
pub fn seal_footer(table: &mut [u8]) {
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
        let place = random.below(blocks.entries.len() + 3);
        match (blocks.entries.get(place), blocks.filter) {
            (Some(block), _) => change(&mut table[block.offset..block.offset + block.length], mutate, &mut random),
            (None, Some(filter)) if place == blocks.entries.len() => {
                let filter = &mut table[filter.offset..filter.offset + filter.length];
                let mut changed = filter.to_vec();
                let length = block_forge::mutate(&mut changed, filter.len(), filter.len(), random.number(), mutate);
                if length == filter.len() {
                    filter.copy_from_slice(&changed);
                }
            }
            _ if random.once_in(3) => change(&mut table[size - FOOTER..], mutate, &mut random),
            _ => change(table, mutate, &mut random),
        }
    }
    if !random.once_in(10) {
        blocks.seal(table);
    }
    size
}

/// Changes bytes in place; those that the change would have cut off stay.
fn change(bytes: &mut [u8], mutate: Mutate, random: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    // A small window: most of what a block says is in a few bytes.
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
        for name in ["table-small-tombstones-bloom", "table-2000-entries-ribbon", "table-empty-without-filter"] {
            let table = std::fs::read(format!("../fixtures/v1/{name}.sst")).unwrap();
            let blocks = Blocks::of(&table).unwrap();
            let mut wiped = table.clone();
            for handle in blocks.entries.iter().chain(&blocks.filter) {
                wiped[handle.offset + handle.length] ^= 0xff;
            }
            blocks.seal(&mut wiped);
            assert!(wiped == table, "{name}: {blocks:?}");
        }
    }
}
