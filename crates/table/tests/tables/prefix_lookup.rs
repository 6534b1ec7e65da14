//! Prefix lookups compared with a scan of all keys. The failure guarded against: a scan skips a table that contains
//! keys with the prefix, because the prefix itself sorts before the table's smallest key, or because the filter was
//! probed for something it does not hold (whole keys, parts of another extractor, or a prefix too short to determine
//! the part). And the opposite: nothing is ever skipped, and nobody notices.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::select;
use sstfilter::{BitsPerKey, DelimitedPrefix, FixedPolicy, FixedPrefix, KeyExtractor};
use sstfilter_table::{Table, TableBuilder, TableOptions, TableSet};

type Keys = BTreeSet<Vec<u8>>;

/// The key parts that a table's filter holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parts {
    Whole,
    Fixed(usize),
    Delimited(u8),
    /// The parts of [`UpToTwo`].
    UpToTwo,
}

/// Extracts the first two bytes, or all if there are fewer: every key has a part, and by default no prefix has.
#[derive(Debug)]
struct UpToTwo;

impl KeyExtractor for UpToTwo {
    fn name(&self) -> &'static str {
        "up to two bytes"
    }

    fn extract<'key>(&self, key: &'key [u8]) -> Option<Cow<'key, [u8]>> {
        Some(Cow::Borrowed(&key[..key.len().min(2)]))
    }
}

impl Parts {
    fn extractor(self) -> Option<Arc<dyn KeyExtractor>> {
        match self {
            Self::Whole => None,
            Self::Fixed(length) => Some(Arc::new(FixedPrefix::new(length))),
            Self::Delimited(delimiter) => Some(Arc::new(DelimitedPrefix::new(delimiter))),
            Self::UpToTwo => Some(Arc::new(UpToTwo)),
        }
    }
}

fn bytes_of(keys: &Keys, parts: Parts) -> Bytes {
    let policy = Arc::new(FixedPolicy::bloom(BitsPerKey::new(24.0).unwrap()).unwrap());
    let mut options = TableOptions::default().with_policy(policy);
    if let Some(extractor) = parts.extractor() {
        options = options.with_extractor(extractor);
    }
    let mut builder = TableBuilder::new(Vec::new(), &options).unwrap();
    keys.iter().for_each(|key| builder.add(key, b"value").unwrap());
    Bytes::from(builder.finish().unwrap().0)
}

fn open(bytes: &Bytes, parts: Parts) -> Table {
    let options = match parts.extractor() {
        Some(extractor) => TableOptions::default().with_extractor(extractor),
        None => TableOptions::default(),
    };
    Table::open_source(bytes.clone(), &options).unwrap()
}

/// Tables whose filters hold `parts`.
fn set_of(tables: &[Keys], parts: Parts) -> TableSet {
    crate::set_of(tables.iter().map(|keys| open(&bytes_of(keys, parts), parts)).collect())
}

/// Returns the tables that contain a key with the prefix.
fn holders(tables: &[Keys], prefix: &[u8]) -> Vec<usize> {
    let holds = |&table: &usize| tables[table].iter().any(|key| key.starts_with(prefix));
    (0..tables.len()).filter(holds).collect()
}

/// Returns all prefixes of the keys, their successors, and the edges of key order.
fn prefixes_of(tables: &[Keys]) -> BTreeSet<Vec<u8>> {
    let cuts = |key: &Vec<u8>| (0..=key.len()).map(|length| key[..length].to_vec()).collect::<Vec<_>>();
    let near = |cut: Vec<u8>| [b"", &b"\0"[..], b"\xff", b":"].map(|rest| [&cut, rest].concat());
    let edges = [vec![], vec![0], vec![0; 9], vec![0xff], vec![0xff; 3], vec![0xff; 9]];
    tables.iter().flatten().flat_map(cuts).flat_map(near).chain(edges).collect()
}

/// Queries the set and each of its tables for `prefixes`. Returns how many tables were skipped in total.
fn assert_no_holder_is_skipped(set: &TableSet, tables: &[Keys], prefixes: &BTreeSet<Vec<u8>>) -> usize {
    let counts = || (set.snapshot().view().lookups(), set.stats().filters.searched, set.stats().bytes_read);
    let (before, opened) = (counts(), crate::tables_of(set));
    let mut skipped = 0;
    for prefix in prefixes {
        let candidates = crate::prefix_matches_of(set, prefix);
        let alone: Vec<usize> =
            (0..tables.len()).filter(|&at| opened[at].filters().may_contain_prefix(prefix)).collect();
        assert_eq!(candidates, alone, "{}", prefix.escape_ascii());
        let holders = holders(tables, prefix);
        assert!(
            holders.iter().all(|table| candidates.contains(table)),
            "{}: {holders:?} hold it, {candidates:?} are candidates",
            prefix.escape_ascii()
        );
        skipped += tables.len() - candidates.len();
    }
    assert_eq!(counts(), before, "no key was looked up, and no table was read");
    skipped
}

/// Returns tables of every 70th tenant each, so that all ranges overlap and only the filters can decide.
fn tenants() -> Vec<Keys> {
    let table = |first: u32| (0..40).map(|tenant| format!("{:05}/user", tenant * 70 + first).into_bytes()).collect();
    (0..70).map(table).collect()
}

#[test]
fn filters_skip_tables_for_prefixes_that_have_a_part() {
    let tables = tenants();
    for parts in [Parts::Fixed(5), Parts::Delimited(b'/')] {
        let set = set_of(&tables, parts);
        let prefixes: BTreeSet<Vec<u8>> = (70..2_700).map(|tenant| format!("{tenant:05}/").into_bytes()).collect();
        let skipped = assert_no_holder_is_skipped(&set, &tables, &prefixes);
        assert!(skipped > prefixes.len() * 68, "{parts:?}: {skipped} of {} times 69", prefixes.len());
        assert_eq!(
            crate::prefix_matches_of(&set, b"01000/u"),
            holders(&tables, b"01000/u"),
            "the part is a prefix of it"
        );
        assert_eq!(crate::prefix_matches_of(&set, b"010").len(), 70, "{parts:?}: no part follows from it");
    }
}

fn any_key() -> impl Strategy<Value = Vec<u8>> {
    let byte = || select(vec![0_u8, b':', b'a', 0xfe, 0xff]);
    prop_oneof![prop::collection::vec(byte(), 0..5), prop::collection::vec(select(vec![0_u8, 0xff]), 0..11)]
}

/// Keys, many of which are prefixes of others.
fn any_keys() -> impl Strategy<Value = Keys> {
    prop::collection::btree_set(any_key(), 0..6)
}

fn any_parts() -> impl Strategy<Value = Parts> {
    let fixed = (0..4_usize).prop_map(Parts::Fixed);
    prop_oneof![Just(Parts::Whole), fixed, select(vec![b':', 0xff]).prop_map(Parts::Delimited), Just(Parts::UpToTwo)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::common::cases(192, 192)))]

    // promise: no-false-negatives
    // promise: documented-use
    #[test]
    fn no_table_that_holds_a_key_with_the_prefix_is_ever_skipped(
        tables in prop::collection::vec((any_keys(), any_parts()), 0..6),
        asked in prop::collection::btree_set(any_key(), 0..20),
        reading in any_parts(),
        is_one_extractor in any::<bool>(),
        copies in select(vec![1_usize, 1, 1, 30]),
    ) {
        let tables: Vec<(Keys, Parts)> = tables.iter().cycle().take(tables.len() * copies).cloned().collect();
        let written = |parts: Parts| if is_one_extractor { reading } else { parts };
        let opened = tables.iter().map(|(keys, parts)| open(&bytes_of(keys, written(*parts)), reading)).collect();
        let set = crate::set_of(opened);
        let keys: Vec<Keys> = tables.into_iter().map(|(keys, _)| keys).collect();
        let prefixes = &asked | &prefixes_of(&keys[..keys.len() / copies]);
        assert_no_holder_is_skipped(&set, &keys, &prefixes);
    }
}
