//! Every operation of reading tables fails in turn.

use std::cell::Cell;
use std::path::Path;

use bytes::Bytes;
use sstfilter_store::{FilterBudget, FilterProblem, ResidencyReason};
use sstfilter_table::{Lookup, Table, TableError, TableOptions, TableSet};

use super::disk::{Disk, EIO, Fault, Op, at_every_operation};
use super::tables::{Entries, PATH, bytes_of, contents, entries, lookup_of, partitioned_bytes_of, read_options};

const FAULTS: [Fault; 4] = [Fault::Once(EIO), Fault::Once(24), Fault::EndOfFile, Fault::WrongBytes];

/// Checks that the error names the file, and keeps the system's code.
fn check_error(error: &TableError, path: &str, fault: Fault) {
    let text = error.to_string();
    assert!(text.contains(path), "names no file: {text}");
    match (fault, error) {
        (Fault::Once(code), TableError::Io { source, .. }) => assert_eq!(source.raw_os_error(), Some(code), "{text}"),
        (Fault::EndOfFile, TableError::Io { source, .. }) => {
            assert_eq!(source.kind(), std::io::ErrorKind::UnexpectedEof, "{text}");
        }
        (Fault::WrongBytes, error) => assert!(!matches!(error, TableError::Io { .. }), "{text}"),
        _ => panic!("{fault:?}: {text}"),
    }
}

/// Runs `step` until it succeeds: at the first attempt, or at the second if the first met with the fault, which then
/// names one of these files.
fn at_most_one_error<T>(paths: &[&str], fault: Fault, mut step: impl FnMut() -> Result<T, TableError>) -> T {
    step().unwrap_or_else(|error| {
        let path = paths.iter().find(|path| error.to_string().contains(**path));
        check_error(&error, path.unwrap_or_else(|| panic!("names no file: {error}")), fault);
        step().unwrap_or_else(|error| panic!("fails again though the fault is over: {error}"))
    })
}

/// Returns present, deleted, absent, and out-of-range keys.
fn asked(entries: &Entries) -> Vec<Vec<u8>> {
    let present = entries.iter().step_by(5).map(|(key, _)| key.clone());
    let absent = (0..8_u32).map(|key| format!("{:06}", key * 16 + 3).into_bytes());
    present.chain(absent).chain([b"".to_vec(), b"zzz".to_vec()]).collect()
}

/// Opens a table, and reads it in all ways. Returns the number of filters that could not be read.
fn read_all(options: &TableOptions, expected: &Entries, fault: Fault) -> usize {
    let table = at_most_one_error(&[PATH], fault, || Table::open(PATH, options));
    let keys = asked(expected);
    // The second round shows that a failed read leaves no wrong state behind.
    for round in 0..2 {
        for key in &keys {
            let lookup = at_most_one_error(&[PATH], fault, || table.get(key));
            assert_eq!(lookup, lookup_of(expected, key), "round {round}, {}", key.escape_ascii());
        }
    }
    let from = &expected[expected.len() / 2].0;
    let walk = || table.range(from..).map(|entry| Ok(entry?.key)).collect::<Result<Vec<_>, TableError>>();
    let walked = at_most_one_error(&[PATH], fault, walk);
    assert_eq!(walked.len(), expected.len() - expected.len() / 2);
    assert_eq!(&at_most_one_error(&[PATH], fault, || contents(&table)), expected);
    check_counts(&table, fault);
    usize::from(table.filter_problem().is_some())
}

/// Checks that a filter that could not be read is not probed, but reported and counted, and that any other one is used.
fn check_counts(table: &Table, fault: Fault) {
    let stats = table.stats().filters.filter;
    match table.filter_problem() {
        Some(problem) => {
            let TableError::Filter { source, .. } = &problem else { panic!("{problem}") };
            let is_unreadable = matches!(source, FilterProblem::Unreadable { .. });
            assert!(problem.to_string().contains(PATH) && is_unreadable == (fault != Fault::WrongBytes), "{problem}");
            assert!(stats.unusable > 0 && stats.negatives + stats.positives == 0, "{stats:?}");
        }
        // A filter that is loaded when probed may have failed at first, and been read later.
        None => assert!(stats.unusable == 0 || table.filters().block().is_none(), "{stats:?}"),
    }
    assert!(stats.true_positives + stats.false_positives <= stats.positives, "{stats:?}");
}

/// A change of the options to read with.
type Variant = fn(TableOptions) -> TableOptions;

/// Reads with each fault at each operation in turn. Returns the number of points.
fn with_all_faults(disk: impl Fn() -> Disk, read: impl Fn(&Disk, Fault)) -> usize {
    let with = |fault| {
        let points = at_every_operation(fault, &disk, |disk| read(disk, fault), |_, (), _| {});
        assert!(points > 20, "{fault:?}: {points} points");
        points
    };
    FAULTS.map(with).iter().sum()
}

// promise: whole-tables
// promise: damage
#[test]
fn whichever_read_of_a_table_fails_the_error_names_the_file_and_the_next_read_is_right() {
    let expected = entries(0, 60, 20);
    let (whole, partitioned) = (bytes_of(&expected), partitioned_bytes_of(&expected));
    let variants: [(&[u8], Variant); 5] = [
        (&whole, |options| options),
        (&whole, |options| options.with_block_cache(1 << 30)),
        (&whole, TableOptions::without_filter),
        (&whole, |options| options.with_filter_budget(FilterBudget::unlimited())),
        (&partitioned, |options| options),
    ];
    for (number, (bytes, variant)) in variants.into_iter().enumerate() {
        let disk = || Disk::with_files(&[(PATH, bytes)]);
        let unread = Cell::new(0);
        let read =
            |disk: &Disk, fault| unread.set(unread.get() + read_all(&variant(read_options(disk)), &expected, fault));
        let points = with_all_faults(disk, read);
        assert!(number > 1 || unread.get() > 0, "no filter was read when its table was opened");
        println!("reading, options {number}: {points} points");
    }
}

#[test]
fn a_filter_whose_read_fails_when_it_is_probed_is_done_without_counted_and_tried_again() {
    let expected = entries(0, 60, 20);
    let absent = (0..60_u32).map(|key| format!("{:06}", key * 4 + 3).into_bytes());
    for bytes in [bytes_of(&expected), partitioned_bytes_of(&expected)] {
        for fault in FAULTS {
            let disk = Disk::with_files(&[(PATH, &bytes)]);
            let options = read_options(&disk).with_filter_budget(FilterBudget::unlimited());
            let table = Table::open(PATH, &options).unwrap();
            disk.plan(0, fault);
            assert_eq!(table.get(&expected[1].0).unwrap(), lookup_of(&expected, &expected[1].0), "{fault:?}");
            assert!(disk.befallen().is_some(), "the filter is read before the index");
            assert_eq!(table.stats().filters.filter.unusable, 1, "{fault:?}");
            let reason = table.filters().residency().reason;
            let ResidencyReason::LoadFailed(problem) = reason else { panic!("{reason:?}") };
            println!("{fault:?}: {problem}");
            // Enough lookups for the rare retries of the load to come.
            for key in absent.clone().cycle().take(300) {
                assert_eq!(table.get(&key).unwrap(), Lookup::Absent);
            }
            let stats = table.stats().filters.filter;
            assert!(stats.unusable < 70 && stats.negatives > 200, "{fault:?}: {stats:?}");
        }
    }
}

#[test]
fn a_length_that_is_not_the_files_own_is_refused_when_the_table_is_opened() {
    let bytes = bytes_of(&entries(0, 60, 20));
    let length = i64::try_from(bytes.len()).unwrap();
    // Empty, shorter than a footer, off by a footer, by a byte and by a sector, and absurd.
    for by in [-length, 1 - length, 63 - length, -64, -1, 1, 512, 1 << 40, i64::MAX] {
        let disk = Disk::with_files(&[(PATH, &bytes)]);
        // Operation 0 opens the file, and operation 1 reads its length.
        disk.plan(1, Fault::WrongLength(by));
        let error = Table::open(PATH, &read_options(&disk)).unwrap_err();
        assert!(error.to_string().contains(PATH), "{by}: {error}");
        assert_eq!(disk.befallen(), Some(Op::Length));
        Table::open(PATH, &read_options(&disk)).unwrap().verify().unwrap();
    }
}

/// Three tables with overlapping ranges, newest first.
struct Store {
    paths: [&'static str; 3],
    tables: [Entries; 3],
}

impl Store {
    fn new() -> Self {
        let mut tables = [entries(2, 40, 20), entries(1, 50, 20), entries(0, 60, 20)];
        // All three tables contain these keys: the newest counts.
        for (generation, table) in tables.iter_mut().enumerate() {
            let shared = |key: &str| (key.as_bytes().to_vec(), Some(vec![b'0' + u8::try_from(generation).unwrap()]));
            table.extend(["000007", "000051", "000099"].map(shared));
            table.sort();
        }
        Self { paths: ["/db/000003.sst", "/db/000002.sst", "/db/000001.sst"], tables }
    }

    fn disk(&self) -> Disk {
        let bytes: Vec<_> = self.tables.iter().map(bytes_of).collect();
        let files: Vec<_> = self.paths.iter().zip(&bytes).map(|(path, bytes)| (*path, &bytes[..])).collect();
        Disk::with_files(&files)
    }

    fn newest(&self, key: &[u8]) -> Option<Bytes> {
        let found = self.tables.iter().map(|table| lookup_of(table, key)).find(|lookup| *lookup != Lookup::Absent);
        if let Some(Lookup::Found(value)) = found { Some(value) } else { None }
    }

    fn keys(&self) -> Vec<Vec<u8>> {
        let mut keys: Vec<_> = self.tables.iter().flat_map(asked).collect();
        keys.extend(["000007", "000051", "000099"].map(|key| key.as_bytes().to_vec()));
        keys
    }
}

/// Queries a set for all keys, one by one and in batches.
fn ask_set(store: &Store, options: &TableOptions, fault: Fault) {
    let keys = store.keys();
    let set = at_most_one_error(&store.paths, fault, || {
        TableSet::open((0..).zip(store.paths.iter().rev().map(Path::new)), options)
    });
    let mut lookups = 0;
    for key in &keys {
        let value = at_most_one_error(&store.paths, fault, || {
            lookups += 1;
            set.get(key)
        });
        assert_eq!(value, store.newest(key), "{}", key.escape_ascii());
    }
    let many: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut failed = 0;
    for _ in 0..2 {
        lookups += keys.len() as u64;
        for (key, result) in keys.iter().zip(set.multi_get(&many)) {
            match result {
                Ok(value) => assert_eq!(value, store.newest(key), "{}", key.escape_ascii()),
                Err(error) => {
                    failed += 1;
                    assert!(store.paths.iter().any(|path| error.to_string().contains(path)), "{error}");
                }
            }
        }
    }
    assert!(failed <= 1, "one failed read is the failure of one key");
    assert_eq!(set.snapshot().view().lookups(), lookups);
    let stats = set.stats().filters;
    let considered = stats.skipped_by_bounds + stats.filter.negatives + stats.searched;
    assert!(stats.searched >= stats.filter.true_positives && considered <= 3 * lookups, "{stats:?}");
}

// promise: whole-tables
#[test]
fn whichever_read_of_a_set_fails_no_older_value_is_given_in_its_place() {
    let store = Store::new();
    let variants: [Variant; 2] = [|options| options, |options| options.with_block_cache(1 << 30)];
    for (number, variant) in variants.into_iter().enumerate() {
        let read = |disk: &Disk, fault| ask_set(&store, &variant(read_options(disk)), fault);
        println!("reading a set, options {number}: {} points", with_all_faults(|| store.disk(), read));
    }
}

#[test]
fn a_disk_that_stays_broken_gives_errors_and_no_answers_but_those_of_memory() {
    let expected = entries(0, 60, 20);
    let disk = Disk::with_files(&[(PATH, &bytes_of(&expected))]);
    let table = Table::open(PATH, &read_options(&disk).with_block_cache(1 << 30)).unwrap();
    let kept = &expected[0].0;
    table.get(kept).unwrap();
    disk.plan(0, Fault::Lasting(EIO));
    assert_eq!(table.get(kept).unwrap(), lookup_of(&expected, kept), "its block is in memory");
    assert_eq!(table.get(b"zzz").unwrap(), Lookup::Absent, "out of range");
    for _ in 0..3 {
        let error = table.get(&expected[59].0).unwrap_err();
        check_error(&error, PATH, Fault::Once(EIO));
        assert!(table.verify().is_err() && table.iter().any(|entry| entry.is_err()));
    }
    disk.heal();
    assert_eq!(contents(&table).unwrap(), expected);
}
