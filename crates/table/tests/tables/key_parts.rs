//! Filters that hold the whole key and parts of it. The failure guarded against: a store adds an extractor, drops whole
//! keys, or changes its hash, so that one set has tables from before and after; a filter is then probed for parts that
//! were never added, by the hash of another table, or for a prefix too short to determine the part, and present keys
//! read as absent. And the opposite: no filter of such a store is used any more, and nobody notices.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::select;
use sstfilter::{
    BitsPerKey, BuildContext, DelimitedPrefix, FallbackReason, FixedPolicy, FixedPrefix, KeyExtractor, KeyHasher,
    KeyParts,
};
use sstfilter_store::{PartitionCut, PartitionOptions};
use sstfilter_table::{Table, TableBuilder, TableError, TableOptions, TableSummary};

use crate::callers::Extractor;
use crate::{Entries, built, bytes_of, of_keys};

/// One bit for whole keys, and one for each of six extractors; at least one is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parts(u8);

impl Parts {
    const WHOLE_AND_TENANT: Self = Self(1 | 8);

    fn extractors(self) -> impl Iterator<Item = Arc<dyn KeyExtractor>> {
        let all: [Arc<dyn KeyExtractor>; 6] = [
            Arc::new(FixedPrefix::new(1)),
            Arc::new(FixedPrefix::new(3)),
            Arc::new(DelimitedPrefix::new(b':')),
            Arc::new(DelimitedPrefix::new(0xff)),
            Arc::new(FixedPrefix::new(0)),
            // Every key has a part, and no prefix has.
            Extractor::new("up to two bytes", |key| Some(&key[..key.len().min(2)])),
        ];
        all.into_iter().enumerate().filter(move |(at, _)| self.0 & 2 << at != 0).map(|(_, extractor)| extractor)
    }

    /// Whether a key of the model confirms the extractors. Whole keys need no confirmation.
    fn are_confirmed_by(self, model: &Entries) -> bool {
        self.0 & 1 != 0 || self.extractors().any(|extractor| model.keys().any(|key| extractor.extract(key).is_some()))
    }

    fn key_parts(self) -> KeyParts {
        let mut extractors = self.extractors();
        let first = match self.0 & 1 {
            0 => KeyParts::extracted(extractors.next().unwrap()),
            _ => KeyParts::whole_keys(),
        };
        extractors.fold(first, KeyParts::with_extractor)
    }
}

fn exact() -> TableOptions {
    // False positives at 24 bits per key are too rare to disturb exact assertions.
    TableOptions::default().with_policy(Arc::new(FixedPolicy::bloom(BitsPerKey::new(24.0).unwrap()).unwrap()))
}

/// Writes a table with parts, and opens it for others.
fn table(entries: &Entries, written: &KeyParts, read: &KeyParts) -> Table {
    let bytes = bytes_of(entries, &exact().with_key_parts(written.clone()));
    crate::open(&bytes, &TableOptions::default().with_key_parts(read.clone()))
}

#[test]
fn a_string_that_is_a_part_of_a_key_is_no_key() {
    let keys = (0..300).flat_map(|tenant| (0..2).map(move |user| format!("t{tenant:04}:user:{user:03}")));
    let parts = Parts::WHOLE_AND_TENANT.key_parts();
    let table = table(&of_keys(keys), &parts, &parts);
    let taken = (1..300).filter(|tenant| table.may_contain_key(format!("t{tenant:04}:").as_bytes()));
    assert!(taken.count() < 5, "parts are in a domain of their own");
}

/// Tables of every 70th tenant each, so that all ranges overlap and only the filters can decide.
#[test]
fn filters_skip_tables_for_prefixes_that_have_a_part_and_nothing_is_read() {
    for extractor in [Arc::new(FixedPrefix::new(5)) as Arc<dyn KeyExtractor>, Arc::new(DelimitedPrefix::new(b'/'))] {
        let parts = KeyParts::extracted(extractor);
        let tenants = |first: u32| of_keys((0..40).map(|tenant| format!("{:05}/user", tenant * 70 + first)));
        let set = crate::set_of((0..70).map(|first| table(&tenants(first), &parts, &parts)).collect());
        let before = (set.snapshot().view().lookups(), set.stats().filters.searched, set.stats().bytes_read);
        let mut skipped = 0;
        for tenant in 70..2_700 {
            let matches = crate::prefix_matches_of(&set, format!("{tenant:05}/").as_bytes());
            assert!(matches.contains(&(tenant % 70)), "{tenant}");
            skipped += 70 - matches.len();
        }
        assert!(skipped > 2_630 * 68, "{parts}: {skipped} of 2,630 times 69");
        assert_eq!(crate::prefix_matches_of(&set, b"01000/u"), [1_000 % 70], "the part is a prefix of it");
        assert_eq!(crate::prefix_matches_of(&set, b"010").len(), 70, "{parts}: no part follows from it");
        let after = (set.snapshot().view().lookups(), set.stats().filters.searched, set.stats().bytes_read);
        assert_eq!(after, before, "no key was looked up, and no table was read");
    }
}

#[test]
fn more_extractors_or_longer_names_than_a_table_can_store_are_refused_before_anything_is_written() {
    for (length, is_accepted) in [(0, false), (1, true), (255, true), (256, false)] {
        let options = TableOptions::default().with_extractor(Extractor::new("x".repeat(length), |_| None));
        assert_eq!(TableBuilder::new(Vec::new(), &options).is_ok(), is_accepted, "{length}");
    }
    let parts = |count| {
        (0..count)
            .fold(KeyParts::whole_keys(), |parts, length| parts.with_extractor(Arc::new(FixedPrefix::new(length))))
    };
    let too_many = TableBuilder::new(Vec::new(), &TableOptions::default().with_key_parts(parts(64)));
    assert!(matches!(too_many, Err(TableError::Extractors { expected: "at most 63", got: 64 })));
    let table = table(&of_keys([[b'x'; 70]]), &parts(63), &parts(65));
    assert!(table.filter_problem().is_none() && table.may_contain_key(&[b'x'; 70]));
    assert_eq!(table.filters().block().unwrap().info().keys, 64);
}

/// Extracts the last four bytes of a key. Longer keys change them, although the extractor promises the opposite.
fn last_bytes() -> Arc<Extractor> {
    Extractor::of_prefixes("last bytes", |key| Some(&key[key.len().saturating_sub(4)..]))
}

fn written_with(parts: &KeyParts, keys: impl IntoIterator<Item = String>) -> (TableSummary, Table) {
    let (bytes, summary) = built(&of_keys(keys), &exact().with_key_parts(parts.clone()));
    (summary, crate::open(&bytes, &TableOptions::default().with_key_parts(parts.clone())))
}

// misuse: unstable-extractor
#[test]
fn an_extractor_that_breaks_its_promise_is_found_out_and_left_out_of_the_table() {
    let keys = || (0..100).map(|number| format!("tenant-{:03}:{number:03}", number / 7));
    let alone = KeyParts::extracted(last_bytes());
    let (summary, table) = written_with(&alone, keys());
    assert_eq!(summary.filter.as_ref().unwrap().unstable_extractors, ["last bytes"]);
    let report = summary.filter.unwrap();
    assert_eq!((report.used, report.reason), (None, FallbackReason::UnstableExtractor));
    assert!(table.filters().block().is_none(), "no part of it can be trusted");
    assert!(keys().all(|key| table.filters().may_contain_prefix(&key.as_bytes()[..8])));
    assert_eq!(table.filters().metadata().key_parts(), "none");

    let others = KeyParts::whole_keys().with_extractor(Arc::new(DelimitedPrefix::new(b':')));
    let (summary, table) = written_with(&others.with_extractor(last_bytes()), keys());
    assert_eq!(summary.filter.as_ref().unwrap().unstable_extractors, ["last bytes"]);
    assert!(table.filter_problem().is_none(), "whole keys and tenants are left");
    assert!(keys().all(|key| table.filters().may_contain_prefix(&key.as_bytes()[..8])));
    assert!(keys().all(|key| table.may_contain_key(key.as_bytes())));
    assert!(!table.filters().may_contain_prefix(b"tenant-0033:") && !table.may_contain_key(b"tenant-003:999"));
    let set = crate::set_of(vec![table]);
    assert_eq!(set.snapshot().scan_prefix(b"tenant-00").count(), 70);
}

#[test]
fn an_extractor_that_breaks_its_promise_for_few_keys_is_found_out_by_those_keys() {
    // The first two bytes, or the whole key if it begins with `x`.
    let keys =
        |letters: &'static str| letters.chars().flat_map(|at| (0..200).map(move |number| format!("{at}{number:05}")));
    let parts = KeyParts::extracted(Extractor::of_prefixes("two or all", |key| {
        if key.starts_with(b"x") { Some(key) } else { key.get(..2) }
    }));
    assert_eq!(written_with(&parts, keys("abc")).0.filter.unwrap().unstable_extractors, [""; 0]);
    assert_eq!(written_with(&parts, keys("abcx")).0.filter.unwrap().unstable_extractors, ["two or all"]);
}

fn any_key() -> impl Strategy<Value = Vec<u8>> {
    // Few values, including the extremes and the delimiter, so that keys share parts; and keys around eight bytes, the
    // first of which are compared first.
    let short = prop::collection::vec(select(vec![0_u8, b':', b'a', b'b', 0xff]), 0..6);
    prop_oneof![3 => short, 1 => prop::collection::vec(select(vec![0_u8, 0xff]), 0..11)]
}

fn any_model() -> impl Strategy<Value = Entries> {
    prop::collection::btree_map(any_key(), prop::option::of(prop::collection::vec(any::<u8>(), 0..3)), 0..8)
}

fn any_parts() -> impl Strategy<Value = Parts> {
    prop_oneof![(1..16_u8).prop_map(Parts), (1..128_u8).prop_map(Parts)]
}

/// Hashes of a store over time: the default one, another public seed, which a table records, and a secret one.
fn any_hasher() -> impl Strategy<Value = KeyHasher> {
    let other = prop_oneof![Just(KeyHasher::with_seed(7)), Just(KeyHasher::with_secret_seed(8))];
    prop_oneof![2 => Just(KeyHasher::default()), 1 => other]
}

/// A table of a set: its entries, parts and hash, and whether its filter is in partitions.
type Written = (Entries, Parts, KeyHasher, Option<PartitionCut>);

fn any_table() -> impl Strategy<Value = Written> {
    let cut = select(vec![None, None, Some(PartitionCut::KeyRange), Some(PartitionCut::HashRange)]);
    (any_model(), any_parts(), any_hasher(), cut)
}

/// Writes the table in blocks of a few entries, and opens it with the hash and the parts of a reader.
fn opened((entries, parts, hasher, cut): &Written, reader: &KeyHasher, reading: Parts) -> Table {
    let options = exact().with_context(BuildContext::new(hasher)).with_key_parts(parts.key_parts());
    let options = match cut {
        Some(cut) => options.with_partitioned_filter(PartitionOptions::new(*cut, 1_024).unwrap()),
        None => options,
    };
    let bytes = bytes_of(entries, &options.with_block_bytes(64).unwrap());
    crate::open(&bytes, &TableOptions::default().with_hasher(reader.clone()).with_key_parts(reading.key_parts()))
}

/// Returns every key, its prefixes, and their successors.
fn neighbours(models: &[Entries]) -> Vec<Vec<u8>> {
    let cuts = |key: &Vec<u8>| (0..=key.len()).map(|length| key[..length].to_vec()).collect::<Vec<_>>();
    let near = |cut: Vec<u8>| [b"", &b":"[..], b"a", b"\0", b"\xff"].map(|rest| [&cut, rest].concat());
    models.iter().flat_map(Entries::keys).flat_map(cuts).flat_map(near).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::common::cases(96, 2_000)))]

    // promise: limited-memory
    // promise: no-false-negatives
    // promise: documented-use
    #[test]
    fn sets_of_any_tables_lose_no_key_and_no_prefix_for_any_reader(
        tables in prop::collection::vec(any_table(), 0..6),
        (reader, reading) in (any_hasher(), any_parts()),
        // 25 copies may make more than the 64 tables of one word of a match bitmap.
        copies in select(vec![1_usize, 1, 1, 25]),
    ) {
        let tables: Vec<Written> = tables.iter().cycle().take(tables.len() * copies).cloned().collect();
        let opened = tables.iter().map(|written| {
            let table = opened(written, &reader, reading);
            let (model, parts, hasher, _) = written;
            // A filter is used exactly if it is of the reader's hash, and a part that both have is confirmed by its keys.
            let is_used = hasher.identity() == reader.identity() && Parts(parts.0 & reading.0).are_confirmed_by(model);
            assert_eq!(table.filter_problem().is_none(), is_used, "{:?}", table.filter_problem());
            table.verify().unwrap();
            table
        });
        let set = crate::set_of(opened.collect());
        let models: Vec<Entries> = tables.into_iter().map(|(model, ..)| model).collect();
        let keys = neighbours(&models[..models.len() / copies]);
        let refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let newest = |key: &[u8]| models.iter().find_map(|model| model.get(key)).cloned().flatten();
        let (batch, tables) = (crate::batch_matches_of(&set, &refs), crate::tables_of(&set));
        for ((batched, key), got) in batch.iter().zip(&keys).zip(set.multi_get(&refs)) {
            let expected = newest(key).map(Bytes::from);
            prop_assert_eq!(got.unwrap(), expected.clone());
            prop_assert_eq!(set.get(key).unwrap(), expected);
            let alone: Vec<usize> = (0..models.len()).filter(|&at| tables[at].may_contain_key(key)).collect();
            prop_assert_eq!(batched, &alone);
            prop_assert_eq!(crate::matches_of(&set, key), alone.clone());
            prop_assert!((0..models.len()).all(|at| !models[at].contains_key(key) || alone.contains(&at)));
            let with_prefix = crate::prefix_matches_of(&set, key);
            let alone: Vec<usize> = (0..models.len()).filter(|&at| tables[at].filters().may_contain_prefix(key)).collect();
            prop_assert_eq!(&with_prefix, &alone);
            let holds = |at: &usize| models[*at].keys().any(|other| other.starts_with(key));
            prop_assert!((0..models.len()).filter(holds).all(|at| with_prefix.contains(&at)));
        }
        let (mut merged, snapshot) = (Entries::new(), set.snapshot());
        models.iter().rev().for_each(|model| merged.extend(model.clone()));
        for prefix in &keys {
            let scanned: Vec<_> = snapshot.scan_prefix(prefix).map(Result::unwrap).collect();
            let with_prefix = merged.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(prefix));
            let live = with_prefix.filter_map(|(key, value)| Some((key.clone().into(), value.clone()?.into())));
            prop_assert_eq!(scanned, live.collect::<Vec<(Bytes, Bytes)>>());
        }
    }
}
