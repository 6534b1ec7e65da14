//! Filters in partitions, and filters under a budget. The failures guarded against: a partition is read for keys of
//! another one and hides them; damage in one partition affects its neighbours' keys; opening reads filters that a
//! budget should leave on disk; a probe of one key reads the whole filter; a table without memory for its filter loses
//! its keys.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use sstfilter::RandomAccess;
use sstfilter::{BitsPerKey, BuildContext, FixedPolicy, FixedPrefix, KeyHasher, KeyParts};
use sstfilter_store::{FilterBudget, PartitionCut, PartitionOptions};
use sstfilter_table::{FilterVerdict, Lookup, Table, TableBuilder, TableOptions, TablePart};

const CUTS: [PartitionCut; 2] = [PartitionCut::KeyRange, PartitionCut::HashRange];

/// Entries of a table: the even numbers.
const ENTRIES: u32 = 20_000;

fn key(number: u32) -> Vec<u8> {
    format!("{:04}:key {number:08}", number / 100).into_bytes()
}

fn options(cut: PartitionCut) -> TableOptions {
    TableOptions::default().with_table_id([7; 16]).with_partitioned_filter(PartitionOptions::new(cut, 2_048).unwrap())
}

fn bytes_of(options: &TableOptions) -> Bytes {
    let mut builder = TableBuilder::new(Vec::new(), options).unwrap();
    for number in 0..ENTRIES {
        builder.add(&key(number * 2), &number.to_le_bytes()).unwrap();
    }
    builder.finish().unwrap().0.into()
}

fn open(bytes: &Bytes, options: &TableOptions) -> Table {
    Table::open_source(bytes.clone(), options).unwrap()
}

/// Asserts that every key is found, and no other.
fn assert_has_all(table: &Table, what: &str) {
    assert_has(table, 0..ENTRIES, what);
}

/// Asserts that each of these keys is found, and none of their successors.
fn assert_has(table: &Table, numbers: impl Iterator<Item = u32>, what: &str) {
    for number in numbers {
        let expected = Lookup::Found(Bytes::copy_from_slice(&number.to_le_bytes()));
        assert_eq!(table.get(&key(number * 2)).unwrap(), expected, "{what}: key {number}");
        assert_eq!(table.get(&key(number * 2 + 1)).unwrap(), Lookup::Absent, "{what}: key {number}");
    }
}

/// A source that counts reads, and the bytes of the last one.
pub(crate) struct Counting {
    bytes: Bytes,
    reads: AtomicU64,
    last: AtomicU64,
}

impl RandomAccess for Counting {
    fn len(&self) -> io::Result<u64> {
        RandomAccess::len(&self.bytes)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.last.store(buf.len() as u64, Ordering::Relaxed);
        self.bytes.read_exact_at(buf, offset)
    }
}

impl Counting {
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }
}

pub(crate) fn counted(bytes: &Bytes, options: &TableOptions) -> (Table, Arc<Counting>) {
    let source = Arc::new(Counting { bytes: bytes.clone(), reads: 0.into(), last: 0.into() });
    (Table::open_source(source.clone(), options).unwrap(), source)
}

#[test]
fn what_goes_into_a_table_with_partitions_comes_out_whatever_the_cut_the_kind_and_the_parts() {
    let ribbon = FixedPolicy::ribbon(BitsPerKey::new(10.0).unwrap()).unwrap().with_min_keys(0);
    let parts = KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(4)));
    for cut in CUTS {
        for (what, write) in [
            ("bloom", options(cut)),
            ("ribbon", options(cut).with_policy(Arc::new(ribbon.clone()))),
            ("parts", options(cut).with_key_parts(parts.clone())),
        ] {
            let bytes = bytes_of(&write);
            let table = open(&bytes, &TableOptions::default().with_key_parts(write_parts(what, &parts)));
            assert!(table.filter_problem().is_none() && table.filters().block().is_none());
            // 20,000 keys at 10 bits take 25 KB, and a partition at most 2 KiB.
            assert!(table.filters().residency().partitions >= 11, "{what}");
            assert_has_all(&table, what);
            let stats = table.stats().filters.filter;
            assert_eq!((stats.true_positives, stats.not_loaded, stats.unusable), (u64::from(ENTRIES), 0, 0));
            // About 1 % of 20,000 absent keys.
            assert!((1..400).contains(&stats.false_positives), "{what}: {stats:?}");
            let report = table.verify().unwrap();
            assert_eq!(report.filter, FilterVerdict::ContainsAll { keys: ENTRIES.into() });
        }
    }
}

fn write_parts(what: &str, parts: &KeyParts) -> KeyParts {
    if what == "parts" { parts.clone() } else { KeyParts::whole_keys() }
}

#[test]
fn prefixes_are_found_in_whichever_partitions_their_keys_are() {
    let extractor = Arc::new(FixedPrefix::new(2));
    for cut in CUTS {
        let parts = KeyParts::whole_keys().with_extractor(extractor.clone());
        let bytes = bytes_of(&options(cut).with_key_parts(parts.clone()));
        for budget in [None, Some(0), Some(3_000), Some(u64::MAX)] {
            let read = TableOptions::default().with_key_parts(parts.clone());
            let read = budget.map_or(read.clone(), |bytes| read.with_filter_budget(FilterBudget::new(bytes)));
            let table = open(&bytes, &read);
            for number in (0..ENTRIES).step_by(50) {
                let key = key(number * 2);
                for length in 2..key.len() {
                    assert!(
                        table.filters().may_contain_prefix(&key[..length]),
                        "{cut:?}, {}",
                        key[..length].escape_ascii()
                    );
                }
            }
            let absent = (b'0'..=b'3').flat_map(|first| (b'a'..=b'z').map(move |second| [first, second]));
            let positives = absent.filter(|prefix| table.filters().may_contain_prefix(prefix)).count();
            assert!(positives < 20 || budget.is_some_and(|bytes| bytes < u64::MAX), "{positives} of 104");
        }
    }
}

// promise: limited-memory
#[test]
fn a_cold_absent_probe_reads_one_partition_and_nothing_else() {
    for cut in CUTS {
        let bytes = bytes_of(&options(cut));
        for budget in [None, Some(FilterBudget::unlimited())] {
            let read = TableOptions::default();
            let read = budget.map_or(read.clone(), |budget| read.with_filter_budget(budget));
            // Found with a separate table, because probes load partitions.
            let absent: Vec<Vec<u8>> = {
                let table = open(&bytes, &read);
                (0..ENTRIES).map(|number| key(number * 2 + 1)).filter(|key| !table.may_contain_key(key)).collect()
            };
            for key in absent.iter().step_by(1_999) {
                let (table, source) = counted(&bytes, &read);
                assert_eq!(source.reads(), 4, "footer, metaindex, properties, top index");
                assert_eq!(table.get(key).unwrap(), Lookup::Absent);
                assert_eq!(source.reads(), 5, "{cut:?}");
                assert!(source.last.load(Ordering::Relaxed) <= 2_048, "{cut:?}");
                assert_eq!(table.get(key).unwrap(), Lookup::Absent);
                assert_eq!(source.reads(), 5, "the partition has stayed");
                assert_eq!(table.stats().filters.filter.negatives, 2);
            }
        }
    }
}

#[test]
fn under_a_budget_opening_reads_nothing_of_a_whole_filter() {
    let bytes = bytes_of(&TableOptions::default());
    let budget = FilterBudget::unlimited();
    let (table, source) = counted(&bytes, &TableOptions::default().with_filter_budget(budget.clone()));
    assert_eq!(source.reads(), 3, "footer, metaindex, properties");
    assert_eq!(table.filters().residency().bytes, 0);
    let absent = key(1);
    assert!(!table.may_contain_key(&absent));
    assert_eq!(source.reads(), 4);
    assert_eq!(budget.stats().used_bytes, table.filters().residency().whole_bytes);
    assert_has_all(&table, "whole filter under a budget");
    assert!(table.verify().is_ok());
    drop(table);
    assert_eq!(budget.stats().used_bytes, 0);
}

#[test]
fn a_damaged_partition_of_a_known_key_loses_no_key_and_leaves_the_others_in_use() {
    let (one, other) = (KeyHasher::with_secret_seed(1), KeyHasher::custom(9, |_| sstfilter::KeyHash::mix(0)));
    let bytes = bytes_of(&options(PartitionCut::KeyRange).with_context(BuildContext::new(&one)));
    let read = TableOptions::default().with_hasher(one);
    let table = open(&bytes, &read);
    let filter = table.region(TablePart::Filter).unwrap();
    let (first, last) = (filter.start + 1_000, filter.end - 200);
    let middle = filter.start.midpoint(filter.end);
    for damage in [vec![middle], vec![first], vec![last], vec![first, last]] {
        let mut damaged = bytes.to_vec();
        damage.iter().for_each(|&byte| damaged[usize::try_from(byte).unwrap()] ^= 1);
        let table = open(&damaged.into(), &read);
        assert_has_all(&table, "damaged partitions of known keys");
        assert!(table.filter_problem().is_some());
        assert!(table.stats().filters.filter.negatives > 0, "{damage:?}");
    }
    let foreign = open(&bytes, &read.with_hasher(other));
    assert!(matches!(foreign.verify().unwrap().filter, FilterVerdict::NotProbed { .. }));
    let mut damaged = bytes.to_vec();
    damaged[usize::try_from(filter.start.midpoint(filter.end)).unwrap()] ^= 1;
    let foreign = open(&damaged.into(), &TableOptions::default());
    assert!(foreign.filter_problem().is_some() && foreign.verify().is_err(), "checksums need no hash");
}

/// Returns tables of every form, newest first, each with the entries of its number.
fn mixed_tables(budget: &FilterBudget) -> Vec<Table> {
    let forms = [
        (TableOptions::default(), false),
        (options(PartitionCut::KeyRange), false),
        (TableOptions::default(), true),
        (options(PartitionCut::HashRange), true),
        (TableOptions::default().without_filter(), false),
    ];
    let of_form = |(number, (write, is_budgeted)): (u32, &(TableOptions, bool))| {
        let write = write.clone().with_table_id(u128::from(number).to_le_bytes());
        let mut builder = TableBuilder::new(Vec::new(), &write).unwrap();
        for entry in (number..4_000).step_by(7) {
            builder.add(&key(entry), &number.to_le_bytes()).unwrap();
        }
        let read = TableOptions::default();
        let read = if *is_budgeted { read.with_filter_budget(budget.clone()) } else { read };
        open(&builder.finish().unwrap().0.into(), &read)
    };
    (0..).zip(forms.iter().cycle().take(70)).map(|(number, form)| of_form((number, form))).collect()
}

/// Returns the value from the newest of the 70 tables with this key.
fn newest(entry: u32) -> Option<Bytes> {
    let number = (0..70).find(|number| entry >= *number && entry < 4_000 && (entry - number).is_multiple_of(7));
    number.map(|number| Bytes::copy_from_slice(&number.to_le_bytes()))
}

#[test]
fn a_set_of_tables_of_every_form_answers_as_a_map_would_under_any_budget() {
    for limit in [0, 1, 2_000, 20_000, u64::MAX] {
        let budget = FilterBudget::new(limit);
        let set = crate::set_of(mixed_tables(&budget));
        let entries: Vec<u32> = (0..4_200).step_by(3).collect();
        let keys: Vec<Vec<u8>> = entries.iter().map(|&entry| key(entry)).collect();
        for (&entry, key) in entries.iter().zip(&keys) {
            assert_eq!(set.get(key).unwrap(), newest(entry), "{limit} bytes, entry {entry}");
        }
        let refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        for (&entry, got) in entries.iter().zip(set.multi_get(&refs)) {
            assert_eq!(got.unwrap(), newest(entry), "{limit} bytes, entry {entry} of a batch");
        }
        for &entry in entries.iter().filter(|&&entry| entry < 4_000) {
            let has = |position: &u32| entry >= *position && (entry - position).is_multiple_of(7);
            let matches = crate::matches_of(&set, &key(entry));
            assert!((0..70).filter(has).all(|position| matches.contains(&(position as usize))), "entry {entry}");
        }
        assert!(budget.stats().used_bytes <= limit);
    }
}

#[test]
fn a_table_whose_own_filter_is_negative_is_not_counted_as_touched_and_reads_nothing() {
    let budget = FilterBudget::unlimited();
    let set = crate::set_of(mixed_tables(&budget));
    let absent: Vec<Vec<u8>> = (70..3_900).map(|entry| [&key(entry)[..], b"?"].concat()).collect();
    // Every form, except the one without a filter, is negative for most keys.
    for is_batch in [false, true] {
        let (asked, before) = (set.snapshot().view().lookups(), set.stats());
        for chunk in absent.chunks(32) {
            let refs: Vec<&[u8]> = chunk.iter().map(Vec::as_slice).collect();
            if is_batch {
                assert!(set.multi_get(&refs).into_iter().all(|got| got.unwrap().is_none()));
            } else {
                assert!(refs.into_iter().all(|key| set.get(key).unwrap().is_none()));
            }
        }
        let after = set.stats();
        let lookups = set.snapshot().view().lookups() - asked;
        assert_eq!(lookups, absent.len() as u64);
        let touched = after.filters.searched - before.filters.searched;
        let reads = after.data_block_reads - before.data_block_reads;
        assert!(touched >= lookups * 14 && touched < lookups * 16, "{touched} of {lookups} lookups in 70 tables");
        assert_eq!(touched, reads);
    }
}

#[test]
fn the_layout_and_the_summary_count_every_byte_of_the_filter() {
    for cut in CUTS {
        let mut builder = TableBuilder::new(Vec::new(), &options(cut)).unwrap();
        for number in 0..ENTRIES {
            let estimate = builder.estimated_bytes();
            assert!(estimate < 4 << 20);
            builder.add(&key(number * 2), b"value").unwrap();
        }
        let estimate = builder.estimated_bytes();
        let (bytes, summary) = builder.finish().unwrap();
        let table = open(&bytes.into(), &TableOptions::default());
        let region = |part| table.region(part).unwrap();
        let (filter, index) = (region(TablePart::Filter), region(TablePart::FilterIndex));
        let bytes = |region: &Range<u64>| region.end - region.start;
        assert_eq!(filter.start % 64, 0);
        assert_eq!(filter.end, index.start);
        assert_eq!(summary.filter_bytes, bytes(&filter) + bytes(&index));
        assert_eq!(table.layout().iter().map(|(_, region)| bytes(region)).sum::<u64>(), summary.file_bytes);
        let report = summary.filter.unwrap();
        assert_eq!(report.block_bytes, summary.filter_bytes);
        assert_eq!(report.distinct_keys, u64::from(ENTRIES));
        assert!(bytes(&index) * 25 < bytes(&filter), "{index:?} of {filter:?}");
        let off = estimate.abs_diff(summary.file_bytes);
        assert!(off * 50 < summary.file_bytes, "estimated {estimate}, has {}", summary.file_bytes);
    }
}
