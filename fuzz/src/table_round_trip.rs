//! Exercises tables of any entries with any options, read back and compared with a map.

use arbitrary::{Result, Unstructured};
use sstfilter::simd::{self, InstructionSet};
use sstfilter_table::{Lookup, Table, TableBuilder, TableError, TableOptions, TableSet};

use crate::entries::{self, Contents, Entry, Options, keys_and_neighbours};

/// Writes up to three tables from `bytes`, and reads them alone and together.
pub fn exercise(bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    let _ = run(&mut input);
}

fn run(input: &mut Unstructured<'_>) -> Result<()> {
    let Options { write: options, read } = entries::options(input)?;
    let count = input.int_in_range(1..=3_u8)?;
    let (mut tables, mut newest) = (Vec::new(), Contents::new());
    for number in 0..count {
        let mut entries = entries::entries(input, 300)?;
        if !input.ratio(1, 8)? {
            entries.sort();
        }
        let options = options.clone().with_table_id([number; 16]);
        let (bytes, contents) = write(&entries, &options);
        assert_eq!(write(&entries, &options).0, bytes, "the same input gives the same bytes");
        let table = entries::open(&bytes, &read).expect("it was just written");
        let slowest = InstructionSet::available().next().expect("at least one");
        simd::select(slowest).expect("it is available");
        let is_whole =
            table.store().filters().key_parts().has_whole_keys() && table.properties().filters.has_whole_keys();
        read_back(&table, &contents, is_whole);
        simd::select(InstructionSet::fastest()).expect("it is available");
        read_back(
            &entries::open(&bytes, &read.clone().with_block_cache(1 << 30)).expect("as before"),
            &contents,
            false,
        );
        read_back(&entries::open(&bytes, &TableOptions::default()).expect("whoever reads it"), &contents, false);
        for (key, value) in contents {
            newest.entry(key).or_insert(value);
        }
        tables.push(table);
    }
    together(tables, &newest);
    Ok(())
}

/// Writes the entries that the writer accepts: each whose key is above the last.
#[must_use]
pub fn write(entries: &[Entry], options: &TableOptions) -> (Vec<u8>, Contents) {
    let mut builder = TableBuilder::new(Vec::new(), options).expect("the extractor's name fits");
    let mut contents = Contents::new();
    for (key, value) in entries {
        let is_in_order = contents.last_key_value().is_none_or(|(last, _)| last < key);
        let added = match value {
            None => builder.delete(key),
            Some(value) => builder.add(key, value),
        };
        match added {
            Ok(()) => {
                assert!(is_in_order, "{key:?} was taken");
                contents.insert(key.clone(), value.clone());
            }
            Err(error) => assert!(!is_in_order && matches!(error, TableError::KeyOrder { .. }), "{key:?}: {error}"),
        }
        assert_eq!(builder.entries(), contents.len() as u64);
    }
    let _ = builder.estimated_bytes();
    let (bytes, summary) = builder.finish().expect("the sink never fails");
    let tombstones = contents.values().filter(|value| value.is_none()).count();
    assert_eq!((summary.properties.entries, summary.properties.tombstones), (contents.len() as u64, tombstones as u64));
    assert_eq!(summary.file_bytes, bytes.len() as u64);
    (bytes, contents)
}

fn read_back(table: &Table, contents: &Contents, is_whole: bool) {
    for key in keys_and_neighbours(contents, 40) {
        let expected = match contents.get(&key) {
            None => Lookup::Absent,
            Some(None) => Lookup::Deleted,
            Some(Some(value)) => Lookup::Found(value.clone().into()),
        };
        assert_eq!(table.get(&key).expect("it is sound"), expected, "{key:?}");
        assert_eq!(table.get(&key).expect("it is sound"), expected, "{key:?} again");
        let from = table.range(key.as_slice()..).next().map(|entry| entry.expect("it is sound").key);
        let wanted = contents.range(key.clone()..).next().map(|(key, _)| key);
        assert_eq!(from.as_deref(), wanted.map(Vec::as_slice), "from {key:?}");
        let holds_prefix = wanted.is_some_and(|wanted| wanted.starts_with(&key));
        assert!(table.filters().may_contain_prefix(&key) || !holds_prefix, "with the prefix {key:?}");
    }
    let walked = table.iter().map(|entry| entry.expect("it is sound"));
    let walked = walked.map(|entry| (entry.key.to_vec(), entry.value.map(|value| value.to_vec())));
    assert!(walked.eq(contents.iter().map(|(key, value)| (key.clone(), value.clone()))));
    let report = table.verify().expect("it is sound");
    assert_eq!(report.entries, contents.len() as u64);
    let properties = table.properties();
    let ends = contents.keys().next().zip(contents.keys().next_back());
    assert_eq!(properties.filters.key_bounds(), ends.map(|(first, last)| (first.as_slice(), last.as_slice())));
    if is_whole && let sstfilter_table::FilterVerdict::ContainsAll { keys } = report.filter {
        assert_eq!(keys, contents.len() as u64);
    }
}

/// Checks that a set of the tables returns the newest entry of each key.
fn together(tables: Vec<Table>, newest: &Contents) {
    let set = TableSet::new((0..).zip(tables.into_iter().rev())).expect("ages differ");
    for instructions in InstructionSet::available() {
        simd::select(instructions).expect("it is available");
        ask_all(&set, newest);
    }
}

fn ask_all(set: &TableSet, newest: &Contents) {
    let keys = keys_and_neighbours(newest, 40);
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    for (key, batched) in keys.iter().zip(set.multi_get(&keys)) {
        let expected = newest.get(*key).and_then(Option::as_deref);
        assert_eq!(set.get(key).expect("sound").as_deref(), expected, "{key:?}");
        assert_eq!(batched.expect("sound").as_deref(), expected, "{key:?} in a batch");
    }
}
