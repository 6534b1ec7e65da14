//! Forges tables that no writer makes: any bytes of a written table changed, and all checksums repaired.

use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use sstfilter::kind;
use sstfilter_table::TableOptions;

use crate::table_parts::Blocks;
use crate::{entries, pick, table, table_round_trip};

/// Forges a table from `bytes`, and exercises it.
pub fn exercise(bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    if let Ok(table) = forge(&mut input) {
        table::exercise(&table);
    }
}

fn forge(input: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let changes = changes(input)?;
    let (policy, interval) = (pick::some_policy(input.choose(kind::all())?, 8), input.int_in_range(1..=4)?);
    let options = TableOptions::default().with_policy(Arc::new(policy.with_min_keys(0)));
    let options = options.with_key_parts(pick::key_parts(input)?).with_block_bytes(64);
    let options = options.and_then(|options| options.with_restart_interval(interval)).expect("in range");
    let mut entries = entries::entries(input, 24)?;
    entries.sort();
    let (mut table, _) = table_round_trip::write(&entries, &options);
    let blocks = Blocks::of(&table).expect("it was just written");
    let parts: Vec<_> = blocks.parts(table.len()).filter(|part| !part.is_empty()).collect();
    for (part, at, new) in changes {
        let bytes = &mut table[parts[usize::from(part) % parts.len()].clone()];
        let at = usize::from(at) % bytes.len();
        bytes[at..].iter_mut().zip(new).for_each(|(byte, new)| *byte = *new);
    }
    if !input.ratio(1, 8)? {
        blocks.seal_filter(&mut table);
    }
    blocks.seal(&mut table);
    Ok(table)
}

/// The bytes of the largest numbers.
const LARGEST: [u8; 16] = [0xff; 16];

/// New bytes for some parts of a table, each at an offset.
fn changes<'a>(input: &mut Unstructured<'a>) -> Result<Vec<(u8, u16, &'a [u8])>> {
    let count = input.int_in_range(0..=6)?;
    let change = |_| {
        let (part, at, length) = (input.arbitrary()?, input.arbitrary()?, input.int_in_range(1..=LARGEST.len())?);
        let new = if input.ratio(1, 4)? { &LARGEST[..length] } else { input.bytes(length)? };
        Ok((part, at, new))
    };
    (0..count).map(change).collect()
}
