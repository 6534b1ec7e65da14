//! Exercises damaged tables: correct answers or errors, never a wrong value, never a key lost silently.
//!
//! The damage is of kinds that a checksum of 32 bits always finds, or misses in one case in 2^32 without a search for
//! it. A checksum is no defence against forgery, and a fuzzer forges.

use arbitrary::{Result, Unstructured};
use sstfilter_table::{Lookup, Table, TableBuilder, TableOptions, TableSet};

use crate::entries::{self, Contents, Options, keys_and_neighbours};
use crate::table_parts::{Blocks, CHECKSUM};

/// Builds a table, damages it, and compares what can still be read with what was written.
pub fn exercise(bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    let _ = run(&mut input);
}

fn run(input: &mut Unstructured<'_>) -> Result<()> {
    let damage: [u32; 4] = input.arbitrary()?;
    let Options { write: options, read } = entries::options(input)?;
    let contents: Contents = entries::entries(input, 200)?.into_iter().collect();
    let sound = build(&contents, &options, *b"the sound table ");
    let mut table = sound.clone();
    apply(damage, &mut table, || build(&contents, &options, *b"another table   "));
    let has_changed = table != sound;
    for options in [read.clone(), read.clone().with_block_cache(1 << 30), read.without_filter()] {
        compare(&table, &contents, &options, has_changed);
    }
    Ok(())
}

fn build(contents: &Contents, options: &TableOptions, id: [u8; 16]) -> Vec<u8> {
    let options = options.clone().with_table_id(id);
    let mut builder = TableBuilder::new(Vec::new(), &options).expect("the extractor's name fits");
    for (key, value) in contents {
        let added = match value {
            None => builder.delete(key),
            Some(value) => builder.add(key, value),
        };
        added.expect("keys ascend");
    }
    builder.finish().expect("the sink never fails").0
}

/// One kind of damage.
fn apply([kind, first, second, pattern]: [u32; 4], table: &mut Vec<u8>, other: impl FnOnce() -> Vec<u8>) {
    let length = table.len();
    match kind % 8 {
        // Up to three bits: two checksums of neighbouring blocks may share them.
        0 => flip(table, first as usize % (length * 8)),
        1 => [first, second, pattern].iter().for_each(|&bit| flip(table, bit as usize % (length * 8))),
        // A burst of up to 32 bits.
        2 => {
            let at = first as usize % length;
            table[at..].iter_mut().zip(pattern.to_le_bytes()).for_each(|(byte, change)| *byte ^= change);
        }
        3 => table.truncate(first as usize % (length + 1)),
        4 => table.extend((0..=first % 200).map(|index| (pattern >> (index % 4 * 8)) as u8)),
        5 => drop(table.drain(..first as usize % (length + 1))),
        // A block from the same offset in another table.
        6 => {
            let other = other();
            if let Some(handle) = Blocks::of(table).and_then(|blocks| pick(&blocks, first)) {
                let range = handle.0..handle.1;
                if other.len() == length {
                    table[range.clone()].copy_from_slice(&other[range]);
                }
            }
        }
        // A block from another offset in this table.
        _ => {
            let Some(blocks) = Blocks::of(table) else { return };
            if let (Some(from), Some(to)) = (pick(&blocks, first), pick(&blocks, second)) {
                let length = (from.1 - from.0).min(to.1 - to.0);
                table.copy_within(from.0..from.0 + length, to.0);
            }
        }
    }
}

fn flip(table: &mut [u8], bit: usize) {
    table[bit / 8] ^= 1 << (bit % 8);
}

/// Returns the first byte of one block, and the byte behind its checksum.
fn pick(blocks: &Blocks, choice: u32) -> Option<(usize, usize)> {
    let handle = blocks.links.get(choice as usize % blocks.links.len())?.handle;
    Some((handle.offset, handle.offset + handle.length + CHECKSUM))
}

fn compare(bytes: &[u8], contents: &Contents, options: &TableOptions, has_changed: bool) {
    let Ok(table) = entries::open(bytes, options) else {
        assert!(has_changed, "a sound table opens");
        return;
    };
    let keys = keys_and_neighbours(contents, 25);
    for key in keys.iter().chain(&keys) {
        match table.get(key) {
            Ok(lookup) => assert_eq!(lookup, expected(contents, key), "{key:?}"),
            Err(error) => assert!(has_changed, "{error}"),
        }
    }
    walk(&table, contents, has_changed);
    assert_eq!(table.verify().is_err(), has_changed, "verify: {:?}", table.verify());
    let set = TableSet::new([(0, table)]).expect("it is the only one");
    for (key, result) in keys.iter().zip(set.multi_get(&keys.iter().map(Vec::as_slice).collect::<Vec<_>>())) {
        match result {
            Ok(value) => assert_eq!(value.as_deref(), contents.get(key).and_then(Option::as_deref), "{key:?}"),
            Err(error) => assert!(has_changed, "{error}"),
        }
    }
}

fn expected(contents: &Contents, key: &[u8]) -> Lookup {
    match contents.get(key) {
        None => Lookup::Absent,
        Some(None) => Lookup::Deleted,
        Some(Some(value)) => Lookup::Found(value.clone().into()),
    }
}

/// Checks that a walk returns the written entries up to its first error, and all of them without an error.
fn walk(table: &Table, contents: &Contents, has_changed: bool) {
    let mut expected = contents.iter();
    for entry in table {
        match entry {
            Ok(entry) => {
                let wanted = expected.next().map(|(key, value)| (&key[..], value.as_deref()));
                assert_eq!(Some((&entry.key[..], entry.value.as_deref())), wanted);
            }
            Err(error) => {
                assert!(has_changed, "{error}");
                return;
            }
        }
    }
    assert_eq!(expected.next(), None, "lost without a word");
}
