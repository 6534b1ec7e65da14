//! Forges tables that no writer makes: the input determines every block, and all checksums hold. This module follows
//! docs/format/files.md and shares no code with the library.

use arbitrary::{Result, Unstructured};

use crate::block_forge::Parts;
use crate::table_parts::{FOOTER, bound_checksum, seal_footer};
use crate::{metadata, table};

/// Forges a table from `bytes`, and exercises it.
pub fn exercise(bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    if let Ok(table) = forge(&mut input) {
        table::exercise(&table);
    }
}

/// A number that is mostly `truth`.
fn nearly(input: &mut Unstructured<'_>, truth: u64) -> Result<u64> {
    Ok(match input.int_in_range(0..=23_u8)? {
        0 => input.arbitrary()?,
        1 => truth.wrapping_add(u64::from(input.arbitrary::<u8>()?)),
        2 => truth.wrapping_sub(u64::from(input.arbitrary::<u8>()?)),
        3 => 0,
        4 => u64::MAX - u64::from(input.arbitrary::<u8>()?),
        _ => truth,
    })
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Makes a block of entries, with correct or arbitrary restarts.
fn entry_block(input: &mut Unstructured<'_>, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<Vec<u8>> {
    let interval = input.int_in_range(1..=6)?;
    let (mut out, mut restarts, mut last) = (Vec::new(), Vec::new(), &[][..]);
    for (position, (key, value)) in entries.iter().enumerate() {
        let common = key.iter().zip(last).take_while(|(one, other)| one == other).count() as u64;
        let shared = if position % interval == 0 {
            restarts.push(nearly(input, out.len() as u64)? as u32);
            0
        } else {
            common
        };
        let shared = nearly(input, shared)?;
        let suffix = key.get(usize::try_from(shared).unwrap_or(usize::MAX)..).unwrap_or(key);
        put_varint(&mut out, shared);
        put_varint(&mut out, nearly(input, suffix.len() as u64)?);
        let is_tombstone = value.is_empty() && input.ratio(1, 2)?;
        put_varint(&mut out, nearly(input, (value.len() as u64) << 1 | u64::from(is_tombstone))?);
        out.extend(suffix);
        out.extend(value);
        last = key;
    }
    restarts.iter().for_each(|restart| out.extend(restart.to_le_bytes()));
    out.extend((nearly(input, restarts.len() as u64)? as u32).to_le_bytes());
    Ok(out)
}

/// A partly written table.
struct Forged {
    bytes: Vec<u8>,
    table_id: [u8; 16],
}

impl Forged {
    /// Appends a block with a valid checksum, and returns its handle.
    fn block(&mut self, input: &mut Unstructured<'_>, contents: &[u8]) -> Result<Vec<u8>> {
        let offset = self.bytes.len();
        self.bytes.extend(contents);
        let sum = bound_checksum(contents, &self.table_id, offset);
        self.bytes.extend(sum.to_le_bytes());
        let mut handle = Vec::new();
        put_varint(&mut handle, nearly(input, offset as u64)?);
        put_varint(&mut handle, nearly(input, contents.len() as u64)?);
        if !input.ratio(1, 100)? {
            handle.extend(sum.to_le_bytes());
        }
        Ok(handle)
    }
}

fn forge(input: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut table = Forged { bytes: Vec::new(), table_id: [input.arbitrary()?; 16] };
    let (mut keys, mut index, mut counts) = (Vec::new(), Vec::new(), Counts::default());
    for _ in 0..input.int_in_range(0..=5)? {
        let mut entries = data_entries(input)?;
        if !input.ratio(1, 10)? {
            entries.sort();
            entries.dedup_by(|one, other| one.0 == other.0);
            let above = keys.last().cloned();
            entries.retain(|(key, _)| above.as_ref().is_none_or(|last| last < key));
        }
        let Some((last, _)) = entries.last().cloned() else { continue };
        counts.add(&entries);
        keys.extend(entries.iter().map(|(key, _)| key.clone()));
        let contents = entry_block(input, &entries)?;
        let handle = table.block(input, &contents)?;
        let last = if input.ratio(1, 16)? { crate::entries::key(input, &last)? } else { last };
        index.push((last, handle));
    }
    counts.data_bytes = table.bytes.len() as u64;
    counts.blocks = index.len() as u64;
    let (mut filter, file) = (Vec::new(), input.arbitrary()?);
    if input.arbitrary()? {
        let padding = if input.ratio(1, 10)? { 65 } else { table.bytes.len().next_multiple_of(64) - table.bytes.len() };
        table.bytes.extend(vec![0; padding]);
        filter = input.int_in_range(0..=300).and_then(|length| input.bytes(length).map(<[u8]>::to_vec))?;
        if !input.ratio(1, 5)? {
            filter = Parts::of(&filter).bound_to(file).seal();
        }
        table.bytes.extend(&filter);
    }
    let bounds = keys.first().zip(keys.last()).map(|(smallest, largest)| (&smallest[..], &largest[..]));
    let filters = metadata::forge(input, file, &filter, bounds)?;
    let properties = properties(input, &counts, filters)?;
    let properties = entry_block(input, &properties)?;
    let properties = table.block(input, &properties)?;
    let index = entry_block(input, &index)?;
    let metaindex = [(b"index".to_vec(), table.block(input, &index)?), (b"properties".to_vec(), properties)];
    let contents = entry_block(input, &metaindex)?;
    let offset = table.bytes.len();
    table.block(input, &contents)?;
    let mut footer = [0; FOOTER];
    footer[..8].copy_from_slice(&nearly(input, offset as u64)?.to_le_bytes());
    footer[8..16].copy_from_slice(&nearly(input, contents.len() as u64)?.to_le_bytes());
    footer[24..40].copy_from_slice(&table.table_id);
    footer[40..44].copy_from_slice(&(nearly(input, 1)? as u32).to_le_bytes());
    let sum = bound_checksum(&contents, &table.table_id, offset);
    footer[44..52].copy_from_slice(&nearly(input, sum.into())?.to_le_bytes());
    table.bytes.extend(footer);
    seal_footer(&mut table.bytes);
    Ok(table.bytes)
}

fn data_entries(input: &mut Unstructured<'_>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut entries: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for _ in 0..input.int_in_range(0..=40)? {
        let last = entries.last().map(|(key, _)| key.clone()).unwrap_or_default();
        let value = input.int_in_range(0..=3).and_then(|length| input.bytes(length).map(<[u8]>::to_vec))?;
        entries.push((crate::entries::key(input, &last)?, value));
    }
    Ok(entries)
}

/// The counts in the properties.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    entries: u64,
    key_bytes: u64,
    value_bytes: u64,
    blocks: u64,
    data_bytes: u64,
}

impl Counts {
    fn add(&mut self, entries: &[(Vec<u8>, Vec<u8>)]) {
        self.entries += entries.len() as u64;
        self.key_bytes += entries.iter().map(|(key, _)| key.len() as u64).sum::<u64>();
        self.value_bytes += entries.iter().map(|(_, value)| value.len() as u64).sum::<u64>();
    }
}

fn properties(input: &mut Unstructured<'_>, counts: &Counts, filters: Vec<u8>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let numbers = [
        ("block-bytes", 4_096),
        ("data-blocks", counts.blocks),
        ("data-bytes", counts.data_bytes),
        ("entries", counts.entries),
        ("raw-key-bytes", counts.key_bytes),
        ("raw-value-bytes", counts.value_bytes),
        ("restart-interval", 16),
        ("tombstones", 0),
    ];
    let mut properties = Vec::new();
    for (name, number) in numbers {
        let mut bytes = nearly(input, number)?.to_le_bytes().to_vec();
        bytes.truncate(nearly(input, 8)?.min(8) as usize);
        properties.push((name.as_bytes().to_vec(), bytes));
    }
    properties.push((b"filters".to_vec(), filters));
    if input.ratio(1, 8)? {
        properties.push((vec![b'z'; input.int_in_range(1..=100)?], vec![1]));
    }
    properties.sort();
    if !properties.is_empty() && input.ratio(1, 12)? {
        properties.remove(input.choose_index(properties.len())?);
    }
    Ok(properties)
}
