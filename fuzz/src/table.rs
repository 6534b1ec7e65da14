//! Exercises bytes that may be a table.

use bytes::Bytes;
use sstfilter_table::{Entry, Lookup, Table, TableError, TableOptions, TableSet};
use std::sync::Arc;

/// The maximum number of entries read, and of keys looked up.
const MOST: usize = 300;

/// Opens `bytes` in every way, looks up keys, walks and verifies.
pub fn exercise(bytes: &[u8]) {
    let open = |options: &TableOptions| Table::open_source(Bytes::copy_from_slice(bytes), options);
    let plain = match open(&TableOptions::default()) {
        Ok(table) => table,
        Err(error) => {
            shown(&error);
            assert!(open(&TableOptions::default().without_filter()).is_err());
            return;
        }
    };
    describe(&plain);
    let walked = walk(&plain);
    let keys = keys_of(&plain, &walked);
    let (kept, unfiltered) =
        (TableOptions::default().with_block_cache(1 << 30), TableOptions::default().without_filter());
    let (kept, unfiltered) = (open(&kept).expect("as before"), open(&unfiltered).expect("as before"));
    for key in &keys {
        let found = plain.get(key);
        let first = kept.get(key);
        let second = kept.get(key);
        match &found {
            Ok(found) => {
                assert_eq!(first.as_ref().ok(), Some(found), "read to be kept: {key:?}");
                assert_eq!(second.as_ref().ok(), Some(found), "kept: {key:?}");
            }
            Err(error) => shown(error),
        }
        let _ = (unfiltered.get(key), plain.range(key..).take(2).count());
    }
    if let Ok(report) = plain.verify() {
        assert_eq!(report.file_bytes, bytes.len() as u64);
        sound(&plain, &walked);
        sound(&unfiltered, &walked);
    }
    as_set(plain, &keys);
    as_set(kept, &keys);
}

fn shown(error: &TableError) {
    assert!(!format!("{error} {error:?}").is_empty());
}

fn describe(table: &Table) {
    let layout = table.layout();
    let end: u128 = layout.iter().map(|(_, range)| u128::from(range.end - range.start)).sum();
    let problems = [table.filter_problem(), table.range_filter_problem()];
    assert!(problems.iter().any(Option::is_some) || end == u128::from(table.file_bytes()), "{layout:?}");
    problems.iter().flatten().for_each(shown);
    assert!(!format!("{table:?} {:?} {:?}", table.stats(), table.table_id()).is_empty());
}

/// The first entries, and the error at the end of the walk if there is one.
fn walk(table: &Table) -> Vec<Entry> {
    let mut walked: Vec<Entry> = Vec::new();
    for entry in table.iter().take(MOST) {
        match entry {
            Ok(entry) => {
                assert!(walked.last().is_none_or(|last| last.key < entry.key), "{entry:?}");
                walked.push(entry);
            }
            Err(error) => shown(&error),
        }
    }
    walked
}

fn keys_of(table: &Table, walked: &[Entry]) -> Vec<Vec<u8>> {
    let properties = table.properties();
    let mut keys = vec![Vec::new(), vec![0xff; 40], b"key-00000007".to_vec()];
    keys.extend(properties.filters.key_bounds().into_iter().flat_map(|(first, last)| [first.to_vec(), last.to_vec()]));
    keys.extend(walked.iter().step_by(walked.len() / 40 + 1).map(|entry| entry.key.to_vec()));
    let near = keys.iter().flat_map(|key| [[key, &b"\0"[..]].concat(), key[..key.len() / 2].to_vec()]);
    let near: Vec<_> = near.collect();
    keys.extend(near);
    keys
}

/// Checks that a table that verifies finds every key of its walk.
fn sound(table: &Table, walked: &[Entry]) {
    for entry in walked {
        let expected = entry.value.clone().map_or(Lookup::Deleted, Lookup::Found);
        assert_eq!(table.get(&entry.key).expect("it is verified"), expected, "{:?}", entry.key);
        let from = table.range(&entry.key[..]..).next().expect("it is there").expect("it is verified");
        assert_eq!(&from, entry);
    }
}

/// Checks that single and batched lookups of a set of the table agree.
fn as_set(table: Table, keys: &[Vec<u8>]) {
    let set = TableSet::new([(0, table)]).expect("it is the only one");
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let (snapshot, mut candidates) = (set.snapshot(), vec![Vec::new(); keys.len()]);
    let mut batch = snapshot.view().candidates_of_each(&keys);
    loop {
        let given = batch.next_files();
        given.iter().for_each(|&(position, table)| candidates[position].push(Arc::as_ptr(table)));
        if given.is_empty() {
            break;
        }
    }
    for ((key, batched), candidates) in keys.iter().zip(set.multi_get(&keys)).zip(candidates) {
        assert_eq!(set.get(key).ok(), batched.ok(), "{key:?}");
        let mut alone = snapshot.view().candidates(key);
        let alone: Vec<_> = std::iter::from_fn(|| alone.next_file()).map(Arc::as_ptr).collect();
        assert_eq!(alone, candidates, "{key:?}");
    }
    assert!(!format!("{set:?} {:?}", set.stats()).is_empty());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixtures_pass() {
        for entry in std::fs::read_dir("../fixtures/v1").unwrap() {
            exercise(&std::fs::read(entry.unwrap().path()).unwrap());
        }
    }
}
