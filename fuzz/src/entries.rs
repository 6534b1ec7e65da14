//! Makes entries from an input's bytes: keys that share prefixes, begin other keys, or are empty.

use std::collections::BTreeMap;

use arbitrary::{Result, Unstructured};
use bytes::Bytes;
use sstfilter_table::{Table, TableOptions};

use crate::pick;

/// A key and its value, `None` for a tombstone.
pub type Entry = (Vec<u8>, Option<Vec<u8>>);

/// The contents of a table.
pub type Contents = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A key: some bytes of the input, or one made longer from `last`.
pub fn key(input: &mut Unstructured<'_>, last: &[u8]) -> Result<Vec<u8>> {
    Ok(match input.int_in_range(0..=5)? {
        0 => input.bytes(input.len().min(3)).map(<[u8]>::to_vec)?,
        1 => format!("key-{:05}", input.arbitrary::<u16>()?).into_bytes(),
        2 => {
            let kept = input.int_in_range(0..=last.len().min(64))?;
            [&last[..kept], &[input.arbitrary()?]].concat()
        }
        3 => [last, &[0]].concat(),
        4 => vec![*input.choose(&[0, 1, b'k', 0xff])?; input.int_in_range(0..=20)?],
        _ => input.int_in_range(1..=12).and_then(|length| input.bytes(length).map(<[u8]>::to_vec))?,
    })
}

fn value(input: &mut Unstructured<'_>) -> Result<Option<Vec<u8>>> {
    Ok(match input.int_in_range(0..=7)? {
        0 => None,
        1 => Some(Vec::new()),
        2 => Some(vec![input.arbitrary()?; input.int_in_range(0..=600)?]),
        _ => Some(input.arbitrary::<u32>()?.to_le_bytes().to_vec()),
    })
}

/// Up to `most` entries, in no order, in runs of numbered keys or one by one.
pub fn entries(input: &mut Unstructured<'_>, most: usize) -> Result<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    let count = input.int_in_range(0..=most)?;
    while entries.len() < count && !input.is_empty() {
        if input.ratio(1, 8)? {
            let (first, run) = (input.arbitrary::<u16>()?, input.int_in_range(0..=200_u16)?);
            let keys = (first..first.saturating_add(run)).map(|number| format!("key-{number:05}").into_bytes());
            entries.extend(keys.map(|key| (key.clone(), (key[8] != b'7').then_some(key))));
        } else {
            let last = entries.last().map(|(key, _)| key.clone()).unwrap_or_default();
            entries.push((key(input, &last)?, value(input)?));
        }
    }
    entries.truncate(most);
    Ok(entries)
}

/// How a table is written and read.
#[derive(Clone, Debug)]
pub struct Options {
    /// The options of writers.
    pub write: TableOptions,
    /// The options of readers.
    pub read: TableOptions,
}

/// Makes any options of writers, and matching options of readers.
pub fn options(input: &mut Unstructured<'_>) -> Result<Options> {
    let hasher = pick::hasher(input)?;
    let context = pick::context(input, &hasher)?;
    let mut options = TableOptions::default().with_context(context);
    if let Some(policy) = pick::policy(input)? {
        options = options.with_policy(policy);
    } else {
        options = options.without_filter();
    }
    let block_bytes = if input.arbitrary()? { 64 } else { input.int_in_range(64..=4_096)? };
    let interval = input.int_in_range(1..=20)?;
    options = options
        .with_block_bytes(block_bytes)
        .and_then(|options| options.with_restart_interval(interval))
        .expect("in range");
    let mut read = TableOptions::default().with_hasher(hasher);
    let parts = pick::key_parts(input)?;
    options = options.with_key_parts(parts.clone());
    read = read.with_key_parts(if input.ratio(1, 8)? { pick::key_parts(input)? } else { parts });
    Ok(Options { write: options, read })
}

/// Opens `bytes` as a table.
pub fn open(bytes: &[u8], options: &TableOptions) -> std::result::Result<Table, sstfilter_table::TableError> {
    Table::open_source(Bytes::copy_from_slice(bytes), options)
}

/// Returns keys of a map, and neighbours of them.
#[must_use]
pub fn keys_and_neighbours(contents: &Contents, most: usize) -> Vec<Vec<u8>> {
    let step = contents.len().div_ceil(most.max(1)).max(1);
    let mut keys: Vec<Vec<u8>> = vec![Vec::new(), vec![0xff; 30], b"key-00500".to_vec()];
    for key in contents.keys().step_by(step) {
        keys.push(key.clone());
        keys.push([key, &b"\0"[..]].concat());
        keys.push(key[..key.len().saturating_sub(1)].to_vec());
        keys.push([key, &b"~"[..]].concat());
    }
    keys
}
