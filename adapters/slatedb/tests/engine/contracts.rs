//! Hash functions and extractors that changed without their name, or that violate their contract, may cost requests,
//! but never a key.

use std::sync::Arc;

use slatedb::config::{FlushOptions, FlushType};
use slatedb::{Db, PrefixExtractor, PrefixTarget};
use sstfilter::{KeyHash, KeyHasher};
use sstfilter_slatedb::{FilterState, FilteredKeys, SlateFilterStats, SlateFilters, Unusable};

use crate::common::{flush, key, settings, uncached};
use crate::configurations::FirstBytes;
use crate::faults::{KEYS, audited, counted_since, find_all, new_store, one_sst, small};

fn extractor(name: &'static str, length: usize) -> Arc<FirstBytes> {
    Arc::new(FirstBytes { name, length })
}

async fn rows(db: &Db, prefix: &[u8]) -> usize {
    let mut rows = db.scan_prefix(prefix, ..).await.unwrap();
    let mut count = 0;
    while rows.next().await.unwrap().is_some() {
        count += 1;
    }
    count
}

#[tokio::test]
async fn an_extractor_changed_with_its_name_loses_no_key() {
    type Keys = fn(Arc<dyn PrefixExtractor>) -> FilteredKeys;
    for keys in [FilteredKeys::prefixes as Keys, FilteredKeys::whole_and_prefixes as Keys] {
        let store = new_store();
        let old = small().with_keys(keys(extractor("first-15", 15)));
        one_sst(&store, &old, 0..KEYS).await.close().await.unwrap();
        for changed in [extractor("first-16", 16), extractor("first-4", 4), extractor("other name", 15)] {
            let new = small().with_keys(keys(changed));
            let db = new.configure(uncached(&store, settings())).build().await.unwrap();
            find_all(&db, 0..KEYS).await;
            assert_eq!(rows(&db, &key(7)).await, 1);
            assert_eq!(rows(&db, b"key-").await, 20);
            db.close().await.unwrap();
            assert_eq!(audited(&store, &new).await, FilterState::OtherPolicy);
        }
        assert!(matches!(audited(&store, &old).await, FilterState::Usable(_)));
    }
}

/// Reads every key through filters of `old` with the configuration `new`, which differs under the same names. Each
/// filter is refused and counted, and the audit names it.
async fn assert_refused(old: &SlateFilters, new: &SlateFilters) {
    assert_eq!(old.name(), new.name());
    let store = new_store();
    one_sst(&store, old, 0..KEYS).await.close().await.unwrap();
    let db = new.configure(uncached(&store, settings())).build().await.unwrap();
    find_all(&db, 0..KEYS).await;
    assert_eq!(counted_since(new, SlateFilterStats::default()), [0, 0, 0, KEYS, 0, KEYS, 0]);
    assert_eq!(rows(&db, &key(7)[..15]).await, 10);
    db.close().await.unwrap();
    assert!(matches!(audited(&store, new).await, FilterState::Unusable(Unusable::OtherHash(_))));
    assert!(matches!(audited(&store, old).await, FilterState::Usable(_)));
}

#[tokio::test]
async fn an_extractor_changed_without_its_name_is_found_when_a_filter_is_read() {
    for keys in [FilteredKeys::prefixes, FilteredKeys::whole_and_prefixes] {
        let filters = |length| small().with_keys(keys(extractor("name", length)));
        assert_refused(&filters(15), &filters(14)).await;
        assert_refused(&filters(14), &filters(15)).await;
    }
}

fn changing_hash(seed: u64) -> SlateFilters {
    SlateFilters::new(&KeyHasher::custom(1, move |key| KeyHasher::with_seed(seed).hash(key)))
}

#[tokio::test]
async fn a_hash_function_changed_under_its_tag_is_found_when_a_filter_is_read() {
    assert_refused(&changing_hash(1), &changing_hash(2)).await;
    let keys = || FilteredKeys::prefixes(extractor("name", 15));
    assert_refused(&changing_hash(1).with_keys(keys()), &changing_hash(2).with_keys(keys())).await;
}

#[tokio::test]
async fn a_hash_function_changed_under_its_tag_is_found_by_an_audit_alone_if_the_first_and_last_key_are_long() {
    // The key range before a filter's block has 64 bytes of a key at most, and a part of a key is in no filter.
    let long = |number: u64| [&key(number)[..], &[b'.'; 64]].concat();
    let store = new_store();
    let old = changing_hash(1);
    let db = old.configure(uncached(&store, settings())).build().await.unwrap();
    for number in 0..KEYS {
        db.put(long(number), b"a value").await.unwrap();
    }
    flush(&db).await;
    db.close().await.unwrap();
    let new = changing_hash(2);
    let db = new.configure(uncached(&store, settings())).build().await.unwrap();
    assert_eq!(db.get(long(7)).await.unwrap(), None, "an audit would have nothing to find");
    db.close().await.unwrap();
    assert_eq!(audited(&store, &new).await, FilterState::OtherKeys);
    assert!(matches!(audited(&store, &old).await, FilterState::Usable(_)));
}

/// Everything up to the last hyphen, also of scanned prefixes. This violates the contract, because a longer key may
/// have another prefix.
struct LastHyphen;

impl PrefixExtractor for LastHyphen {
    fn name(&self) -> &'static str {
        "last-hyphen"
    }

    fn prefix_len(&self, target: &PrefixTarget) -> Option<usize> {
        let (PrefixTarget::Point(bytes) | PrefixTarget::Prefix(bytes)) = target;
        bytes.iter().rposition(|&byte| byte == b'-').map(|hyphen| hyphen + 1)
    }
}

#[tokio::test]
async fn an_extractor_whose_prefixes_have_other_parts_than_their_keys_gets_no_filter_and_loses_no_row() {
    for keys in [FilteredKeys::prefixes, FilteredKeys::whole_and_prefixes] {
        let (store, filters) = (new_store(), small().with_keys(keys(Arc::new(LastHyphen))));
        let db = filters.configure(uncached(&store, settings())).build().await.unwrap();
        for number in 0..KEYS {
            db.put([&key(number)[..], b"-more"].concat(), b"a value").await.unwrap();
        }
        flush(&db).await;
        // The filter of an engine that believes the extractor has no part `key-`.
        assert_eq!(rows(&db, b"key-").await, 20);
        assert_eq!(rows(&db, &key(7)).await, 1);
        let stats = filters.stats();
        assert_eq!((stats.built_none, stats.built_bytes, stats.no_filter), (1, 0, 2));
        assert_eq!(audited(&store, &filters).await, FilterState::Unusable(Unusable::NoFilter));
    }
}

/// Returns a length one byte beyond the key.
struct TooLong;

impl PrefixExtractor for TooLong {
    fn name(&self) -> &'static str {
        "too-long"
    }

    fn prefix_len(&self, target: &PrefixTarget) -> Option<usize> {
        let (PrefixTarget::Point(bytes) | PrefixTarget::Prefix(bytes)) = target;
        Some(bytes.len() + 1)
    }
}

#[tokio::test]
async fn keys_of_which_an_extractor_returns_more_than_they_have_are_in_no_filter_by_their_prefix_and_are_found() {
    for keys in [FilteredKeys::prefixes, FilteredKeys::whole_and_prefixes] {
        let (store, filters) = (new_store(), small().with_keys(keys(Arc::new(TooLong))));
        let db = one_sst(&store, &filters, 0..KEYS).await;
        find_all(&db, 0..KEYS).await;
        assert_eq!(rows(&db, b"key-").await, 20);
        assert_eq!(counted_since(&filters, SlateFilterStats::default())[1..], [0; 6]);
        let FilterState::Usable(info) = audited(&store, &filters).await else { panic!("no filter") };
        assert_eq!(info.keys, if info.whole_keys { KEYS } else { 0 });
    }
}

/// Panics at keys that end in the digit 7.
struct Panics;

impl PrefixExtractor for Panics {
    fn name(&self) -> &'static str {
        "panics"
    }

    fn prefix_len(&self, target: &PrefixTarget) -> Option<usize> {
        let (PrefixTarget::Point(bytes) | PrefixTarget::Prefix(bytes)) = target;
        assert!(!bytes.ends_with(b"7"), "an extractor's panic, which is part of this test");
        Some(4)
    }
}

#[tokio::test]
async fn an_extractor_or_hash_that_panics_fails_the_write_and_loses_no_key() {
    let panicking_hash = KeyHasher::custom(3, |key| {
        assert!(!key.ends_with(b"7"), "a hash function's panic, which is part of this test");
        KeyHash::mix(key.len() as u64)
    });
    let extractor = small().with_keys(FilteredKeys::prefixes(Arc::new(Panics)));
    for filters in [extractor, SlateFilters::new(&panicking_hash)] {
        let store = new_store();
        let db = filters.configure(uncached(&store, settings())).build().await.unwrap();
        for number in 0..KEYS {
            db.put(key(number), b"a value").await.unwrap();
        }
        db.flush().await.unwrap();
        let memtable = FlushOptions { flush_type: FlushType::MemTable };
        assert!(db.flush_with_options(memtable).await.is_err(), "{filters:?}");
        // Closing a store that has failed is no error in SlateDB 0.18. The keys are in its log.
        drop(db.close().await);
        assert_eq!(filters.stats().built_bytes, 0);

        let db = small().configure(uncached(&store, settings())).build().await.unwrap();
        find_all(&db, 0..KEYS).await;
        db.close().await.unwrap();
    }
}
