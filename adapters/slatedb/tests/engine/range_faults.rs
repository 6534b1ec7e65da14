//! A range filter that is damaged, foreign, of another hash or extractor may cost requests, but never a row of a scan:
//! every outcome is counted, and all rows are found.

use std::borrow::Cow;
use std::ops::Bound;
use std::sync::Arc;

use slatedb::bytes::Bytes;
use slatedb::object_store::ObjectStore;
use slatedb::{Db, ErrorKind};
use sstfilter::{FalsePositiveRate, FixedPrefix, KeyExtractor, KeyHasher};
use sstfilter_range::{RangePolicy, RangeUnits};
use sstfilter_slatedb::{FilterState, SlateFilterStats, SlateFilters, Unusable};

use crate::common::{flush, settings, uncached};
use crate::configurations::{hashed, ordered};
use crate::faults::{audit, counted_since, new_store};
use crate::sections::{Section, framed};

const KEYS: u64 = 20;
const NAME: &str = "sstfilter-range";

fn filters(policy: RangePolicy) -> SlateFilters {
    SlateFilters::default().with_range_filter(policy)
}

/// Ranges inside prefixes of an extractor.
fn inside(extractor: Arc<dyn KeyExtractor>) -> RangePolicy {
    let units = RangeUnits::integer(8).unwrap().with_prefix(extractor);
    RangePolicy::hashed(units, 1 << 8, FalsePositiveRate::ONE_PERCENT).unwrap()
}

/// Two bytes, and a number in eight.
fn key(number: u64) -> Bytes {
    [&b"t:"[..], &(1_000 * number).to_be_bytes()].concat().into()
}

async fn open(store: &Arc<dyn ObjectStore>, filters: &SlateFilters) -> Db {
    filters.configure(uncached(store, settings())).build().await.unwrap()
}

async fn put_and_flush(db: &Db, numbers: impl Iterator<Item = u64>) {
    for number in numbers {
        db.put(key(number), b"a value").await.unwrap();
    }
    flush(db).await;
}

/// A store with one SST of keys 0 to 19, open.
async fn one_sst(filters: &SlateFilters) -> (Arc<dyn ObjectStore>, Db) {
    let store = new_store();
    let db = open(&store, filters).await;
    put_and_flush(&db, 0..KEYS).await;
    (store, db)
}

async fn rows(db: &Db, lower: Bound<Bytes>, upper: Bound<Bytes>) -> Result<usize, slatedb::Error> {
    let mut rows = db.scan((lower, upper)).await?;
    let mut count = 0;
    while rows.next().await?.is_some() {
        count += 1;
    }
    Ok(count)
}

/// One scan around each key but the first and the last: filters see these as ranges.
async fn scan_all(db: &Db, numbers: impl Iterator<Item = u64>) {
    for number in numbers {
        let (lower, upper) = (Bound::Excluded(key(number - 1)), Bound::Excluded(key(number + 1)));
        assert_eq!(rows(db, lower, upper).await.unwrap(), 1, "key {number} is lost");
    }
}

/// The state of the only SST's range filter.
async fn audited(store: &Arc<dyn ObjectStore>, filters: &SlateFilters) -> FilterState<sstfilter_range::RangeInfo> {
    let audit = audit(store, filters).await;
    assert_eq!(audit.ssts.len(), 1, "{audit}");
    audit.ssts[0].range_state.clone().expect("range filters are configured")
}

const SCANS: u64 = KEYS - 2;

#[tokio::test]
async fn damaged_bytes_of_a_range_filter_lose_no_row() {
    for policy in [ordered(), hashed(4), inside(Arc::new(FixedPrefix::new(2)))] {
        let filters = filters(policy);
        let (store, db) = one_sst(&filters).await;
        let section = Section::only(&store, &db);
        let entries = section.entries().await;
        assert_eq!(entries[1].0, NAME);
        assert!(matches!(audited(&store, &filters).await, FilterState::Usable(_)));
        let framed = framed(&entries);
        let start = framed.len() - entries[1].1.len();
        for byte in start..framed.len() {
            for bit in [0, 3, 7] {
                let mut damaged = framed.clone();
                damaged[byte] ^= 1 << bit;
                section.overwrite_sealed(&damaged).await;
                let before = filters.stats();
                let number = 1 + byte as u64 % SCANS;
                scan_all(&db, number..=number).await;
                let [usable, damaged, unsupported, other_hash, none, probes, foreign] = counted_since(&filters, before);
                // The point filter is sound, and does not answer ranges.
                assert_eq!((usable, none, foreign, probes), (1, 0, 0, 1), "byte {byte}");
                assert_eq!(damaged + unsupported + other_hash, 1, "byte {byte}");
            }
        }
        // Cut at any place, and emptied.
        for length in 0..entries[1].1.len() {
            let cut = (NAME.to_owned(), entries[1].1[..length].to_vec());
            section.store_entries(&[entries[0].clone(), cut]).await;
            scan_all(&db, 1..=1).await;
            assert!(matches!(audited(&store, &filters).await, FilterState::Unusable(_)), "{length} bytes");
        }
        // The point filter under the name of the range filter.
        section.store_entries(&[(NAME.to_owned(), entries[0].1.clone())]).await;
        scan_all(&db, 1..KEYS - 1).await;
        assert!(matches!(audited(&store, &filters).await, FilterState::Unusable(Unusable::Damaged(_))));
    }
}

#[tokio::test]
async fn bytes_that_the_engine_knows_to_be_damaged_are_an_error_of_the_scan() {
    let filters = filters(ordered());
    let (store, db) = one_sst(&filters).await;
    let section = Section::only(&store, &db);
    let mut damaged = section.bytes().await;
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    section.overwrite(&damaged).await;
    let error = rows(&db, Bound::Included(key(3)), Bound::Included(key(5))).await.expect_err("an error");
    assert_eq!(error.kind(), ErrorKind::Data);
}

#[tokio::test]
async fn another_hash_seed_or_extractor_loses_no_row() {
    let fixed = |bytes| Arc::new(FixedPrefix::new(bytes)) as Arc<dyn KeyExtractor>;
    let (store, db) = one_sst(&filters(inside(fixed(2)))).await;
    db.close().await.unwrap();
    let seeded = |policy| SlateFilters::new(&KeyHasher::with_seed(7)).with_range_filter(policy);
    let readers = [
        seeded(inside(fixed(2))),
        seeded(ordered()),
        filters(inside(fixed(1))),
        filters(hashed(4)),
        filters(ordered()),
    ];
    for filters in readers {
        let db = open(&store, &filters).await;
        scan_all(&db, 1..KEYS - 1).await;
        db.close().await.unwrap();
        let [_, damaged, unsupported, other_hash, none, probes, foreign] =
            counted_since(&filters, SlateFilterStats::default());
        assert_eq!((other_hash, probes), (SCANS, SCANS), "{filters:?}");
        assert_eq!([damaged, unsupported, none, foreign], [0; 4], "{filters:?}");
        assert!(matches!(audited(&store, &filters).await, FilterState::Unusable(Unusable::OtherHash(_))));
    }
    // Ordered codes have no hash, and hashed ones without prefixes no extractor.
    for wrote in [ordered(), hashed(4)] {
        let (store, db) = one_sst(&filters(wrote)).await;
        db.close().await.unwrap();
        for filters in [filters(inside(fixed(2))), filters(ordered()), filters(hashed(8))] {
            let db = open(&store, &filters).await;
            scan_all(&db, 1..KEYS - 1).await;
            let between = |part: u64| Bytes::from([&b"t:"[..], &(8_000 + part).to_be_bytes()].concat());
            let (lower, upper) = (Bound::Included(between(500)), Bound::Excluded(between(510)));
            assert_eq!(rows(&db, lower, upper).await.unwrap(), 0);
            db.close().await.unwrap();
            assert_eq!(counted_since(&filters, SlateFilterStats::default())[1..], [0; 6]);
            assert!(matches!(audited(&store, &filters).await, FilterState::Usable(_)));
        }
    }
    let (store, db) = one_sst(&filters(ordered())).await;
    db.close().await.unwrap();
    let filters = seeded(ordered());
    scan_all(&open(&store, &filters).await, 1..KEYS - 1).await;
    assert_eq!(counted_since(&filters, SlateFilterStats::default()), [SCANS, 0, 0, 0, 0, 0, 0]);
}

/// The first bytes of a key, whatever its name says.
#[derive(Debug)]
struct Renamed(FixedPrefix);

impl KeyExtractor for Renamed {
    fn name(&self) -> &'static str {
        "renamed"
    }

    fn extract<'key>(&self, key: &'key [u8]) -> Option<Cow<'key, [u8]>> {
        self.0.extract(key)
    }

    fn extract_prefix<'key>(&self, prefix: &'key [u8]) -> Option<Cow<'key, [u8]>> {
        self.0.extract_prefix(prefix)
    }
}

#[tokio::test]
async fn an_extractor_changed_without_its_name_is_found_when_a_range_filter_is_read() {
    let renamed = |bytes| filters(inside(Arc::new(Renamed(FixedPrefix::new(bytes)))));
    let (store, db) = one_sst(&renamed(2)).await;
    db.close().await.unwrap();
    let filters = renamed(1);
    let db = open(&store, &filters).await;
    scan_all(&db, 1..KEYS - 1).await;
    db.close().await.unwrap();
    assert_eq!(counted_since(&filters, SlateFilterStats::default()), [SCANS, 0, 0, SCANS, 0, SCANS, 0]);
    assert!(matches!(audited(&store, &filters).await, FilterState::Unusable(Unusable::OtherHash(_))));
}

/// Panics at the key of number 7.
#[derive(Debug)]
struct Panics;

impl KeyExtractor for Panics {
    fn name(&self) -> &'static str {
        "panics"
    }

    fn extract<'key>(&self, bytes: &'key [u8]) -> Option<Cow<'key, [u8]>> {
        assert_ne!(bytes, &key(7)[..], "an extractor's panic, which is part of this test");
        Some(Cow::Borrowed(&bytes[..2]))
    }
}

#[tokio::test]
async fn an_extractor_of_ranges_that_panics_fails_the_write_and_loses_no_key() {
    let (store, broken) = (new_store(), filters(inside(Arc::new(Panics))));
    let db = open(&store, &broken).await;
    for number in 0..KEYS {
        db.put(key(number), b"a value").await.unwrap();
    }
    db.flush().await.unwrap();
    let memtable = slatedb::config::FlushOptions { flush_type: slatedb::config::FlushType::MemTable };
    assert!(db.flush_with_options(memtable).await.is_err());
    // Closing a store that has failed is no error in SlateDB 0.18. The keys are in its log.
    drop(db.close().await);
    assert_eq!(broken.stats().built_bytes, 0);
    let db = open(&store, &filters(ordered())).await;
    scan_all(&db, 1..KEYS - 1).await;
    db.close().await.unwrap();
}

/// A store of two SSTs of these keys, in which the first SST has the filters of the second.
async fn swapped(filters: &SlateFilters, first: &[u64], second: &[u64]) -> (Arc<dyn ObjectStore>, Db) {
    let store = new_store();
    let db = open(&store, filters).await;
    put_and_flush(&db, first.iter().copied()).await;
    put_and_flush(&db, second.iter().copied()).await;
    let manifest = db.manifest();
    // Level 0 has the newest SST first.
    let (newer, older) = (Section::of(&store, &manifest.l0()[0].sst), Section::of(&store, &manifest.l0()[1].sst));
    assert_eq!(newer.length, older.length);
    older.overwrite(&newer.bytes().await).await;
    (store, db)
}

#[tokio::test]
async fn the_range_filter_of_an_sst_with_other_keys_is_noticed_at_each_probe() {
    let filters = filters(ordered());
    let (first, second): (Vec<_>, Vec<_>) = ((0..KEYS).collect(), (KEYS..2 * KEYS).collect());
    let (store, db) = swapped(&filters, &first, &second).await;
    scan_all(&db, 1..KEYS - 1).await;
    assert_eq!(counted_since(&filters, SlateFilterStats::default()), [2 * SCANS, 0, 0, 0, 0, 0, SCANS]);
    let audit = audit(&store, &filters).await;
    let wrong: Vec<_> = audit.without_usable_filter().map(|sst| sst.range_state.clone()).collect();
    assert_eq!(wrong, [Some(FilterState::OtherKeys)]);
    assert!(audit.to_string().contains("range filter: LOSES KEYS"), "{audit}");
}

#[tokio::test]
async fn the_range_filter_of_an_sst_with_overlapping_keys_is_found_by_an_audit_alone() {
    // The case that no policy can detect; see the crate's documentation.
    let filters = filters(ordered());
    let (even, odd): (Vec<_>, Vec<_>) = (0..2 * KEYS).partition(|number| number % 2 == 0);
    let (store, db) = swapped(&filters, &even, &odd).await;
    let mut lost = 0;
    for number in even.into_iter().skip(1) {
        let (lower, upper) = (Bound::Included(key(number)), Bound::Excluded([&key(number)[..], b"\0"].concat().into()));
        lost += usize::from(rows(&db, lower, upper).await.unwrap() == 0);
    }
    assert!(lost > 0, "an audit would have nothing to find");
    let audit = audit(&store, &filters).await;
    let wrong: Vec<_> = audit.without_usable_filter().map(|sst| sst.range_state.clone()).collect();
    assert_eq!(wrong, [Some(FilterState::OtherKeys)]);
}

#[tokio::test]
async fn tombstones_versions_and_one_key_are_in_range_filters() {
    for policy in [ordered(), hashed(4)] {
        let filters = filters(policy);
        let (store, db) = one_sst(&filters).await;
        // Newer SSTs delete key 3, and then have it again, alone.
        db.delete(key(3)).await.unwrap();
        db.delete(key(9)).await.unwrap();
        db.put(key(5), b"newer").await.unwrap();
        flush(&db).await;
        let around = |number: u64| (Bound::Excluded(key(number - 1)), Bound::Excluded(key(number + 1)));
        for (number, expected) in [(2, 1), (3, 0), (4, 1), (5, 1), (9, 0)] {
            let (lower, upper) = around(number);
            assert_eq!(rows(&db, lower, upper).await.unwrap(), expected, "key {number}");
        }
        put_and_flush(&db, 3..4).await;
        let (lower, upper) = around(3);
        assert_eq!(rows(&db, lower, upper).await.unwrap(), 1);
        let audit = audit(&store, &filters).await;
        assert_eq!((audit.ssts.len(), audit.without_usable_filter().count()), (3, 0), "{audit}");
        assert_eq!(counted_since(&filters, SlateFilterStats::default())[1..], [0; 6]);
        db.close().await.unwrap();
    }
}
