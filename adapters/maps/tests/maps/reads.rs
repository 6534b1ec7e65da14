//! What a reader answers, and what it asks the store.

use std::sync::Arc;
use std::time::Duration;

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutOptions};
use sstfilter::{Filters, KeyHasher};
use sstfilter_map_store::{Cuts, FailureKind, MapReader, MapWriter, ReaderOptions, Statistics};

use crate::faults::{Fault, Faulty};
use crate::support::{FOLDER, NO_GRACE, add, check, file, hash, keys, mix, options, reader, snapshot, writer};

/// Four maps of ten files each, and ten files that no map covers.
async fn stored() -> Arc<Faulty> {
    let store = Arc::new(Faulty::new());
    for map in 0..4 {
        assert!(add(&writer(&store), ["monday", "tuesday"][map as usize % 2], map * 10..map * 10 + 10).await);
    }
    store
}

#[tokio::test]
async fn every_answer_has_all_files_with_the_key_whatever_fails() {
    let faults = [Fault::Fail, Fault::Missing, Fault::Truncate, Fault::Flip, Fault::Delay];
    for cache_bytes in [0, 5_000] {
        for (fault, share) in faults.iter().flat_map(|&fault| [(fault, 20), (fault, 100)]) {
            let store = stored().await;
            let reader = reader(&store, cache_bytes).await;
            let sound = snapshot(&reader, 0..50).await;
            let few = check(&sound, 0..50).await;
            assert!((10.0..10.1).contains(&few), "{few}");
            assert_eq!(reader.statistics().failures() + reader.statistics().unknown, 0);

            store.set(&[(fault, share)]);
            // Pages alone, and then ends, too.
            let many = check(&sound, 0..50).await;
            let again = MapReader::open(store.clone(), FOLDER, &Filters::default(), ReaderOptions::default()).await;
            let again = again.unwrap();
            check(&snapshot(&again, 0..50).await, 0..50).await;

            let Statistics { missing, unanswered, damaged, unknown, repeated, .. } = reader.statistics();
            let counts = [unanswered, missing, damaged, damaged, 0];
            let expected = counts[faults.iter().position(|&other| other == fault).unwrap()];
            assert_eq!(expected, reader.statistics().failures(), "{fault:?}");
            assert_eq!((expected > 0, repeated >= damaged), (fault != Fault::Delay, true), "{fault:?}");
            assert!(unknown >= expected && (share < 100 || cache_bytes > 0 || expected == 0 || many > 49.0));
            let reasons = reader.recent_failures();
            assert!(reasons.len() as u64 == expected.min(32) && reasons.iter().all(|one| !one.reason.is_empty()));
        }
    }
}

#[tokio::test]
async fn all_faults_at_once_lose_no_key() {
    let store = stored().await;
    let reader = reader(&store, 5_000).await;
    let all = [Fault::Fail, Fault::Missing, Fault::Truncate, Fault::Flip, Fault::Delay];
    store.set(&all.map(|fault| (fault, 10)));
    for _ in 0..5 {
        check(&snapshot(&reader, 0..50).await, 0..50).await;
    }
    let Statistics { missing, unanswered, damaged, repeated, .. } = reader.statistics();
    // Two of five requests are damaged, and so are two of five that repeat them.
    assert!([missing, unanswered, damaged].iter().all(|&count| count > 10) && repeated > damaged * 2);
}

#[tokio::test]
async fn an_absent_key_takes_one_request_for_each_map_without_a_cache_and_none_with_one() {
    let store = stored().await;
    for cache_bytes in [0, 1 << 20] {
        let reader = reader(&store, cache_bytes).await;
        let snapshot = snapshot(&reader, 0..40).await;
        assert_eq!(reader.statistics().requests, 4, "one for each end");
        for _ in 0..2 {
            let before = (store.gets(), reader.statistics());
            for key in 0..200 {
                snapshot.candidates(hash(mix(key) | 3 << 58)).await;
            }
            let (requests, after) = (store.gets() - before.0, reader.statistics());
            assert_eq!(requests, after.requests - before.1.requests);
            let hits = after.cache_hits - before.1.cache_hits;
            assert_eq!(requests + hits, 800);
            assert_eq!(after.bytes - before.1.bytes, requests * 1_024);
            assert_eq!(hits > 0, cache_bytes > 0);
        }
        let pages: u64 = snapshot.maps().iter().map(|map| map.bytes / 1_024).sum();
        assert!(cache_bytes == 0 || reader.statistics().requests <= pages + 4);
    }
}

#[tokio::test]
async fn a_page_that_several_keys_need_is_read_once() {
    let store = stored().await;
    let reader = reader(&store, 0).await;
    let snapshot = snapshot(&reader, 0..40).await;
    let hashes: Vec<_> = (0..5_000).map(|key| hash(mix(key) | 3 << 58)).collect();
    let before = store.gets();
    let together = snapshot.candidates_each(&hashes).await;
    let pages: u64 = snapshot.maps().iter().map(|map| map.bytes / 1_024).sum();
    assert!(store.gets() - before <= pages, "{} requests, {pages} pages", store.gets() - before);
    for (hash, answer) in hashes.iter().zip(together).take(200) {
        assert_eq!(snapshot.candidates(*hash).await, answer);
    }
}

#[tokio::test]
async fn equal_requests_at_once_are_one() {
    let store = stored().await;
    store.set(&[(Fault::Delay, 100)]);
    let reader = reader(&store, 1 << 20).await;
    let snapshot = snapshot(&reader, 0..40).await;
    let before = store.gets();
    futures::future::join_all((0..50).map(|_| snapshot.candidates(hash(1)))).await;
    assert!(store.gets() - before <= 12, "{} requests", store.gets() - before);
}

#[tokio::test]
async fn lookups_at_once_share_a_failure() {
    let store = stored().await;
    let reader = reader(&store, 1 << 20).await;
    let snapshot = snapshot(&reader, 0..40).await;
    store.set(&[(Fault::Truncate, 100)]);
    let before = store.gets();
    let answers = futures::future::join_all((0..50).map(|_| snapshot.candidates(hash(1)))).await;
    assert!(answers.iter().all(|answer| answer.len() == 40));
    assert_eq!(store.gets() - before, 8, "two for each map");
    // A failure is not kept.
    store.set(&[]);
    assert!(
        snapshot.candidates(hash(mix(1) | 3 << 58)).await.len() < 40 && snapshot.candidates(hash(1)).await.len() < 40
    );
}

/// Each lookup of a damaged or replaced map read it in vain.
#[tokio::test]
async fn a_part_that_could_not_be_read_is_not_read_again_for_a_while() {
    for fault in [Fault::Flip, Fault::Missing] {
        let store = stored().await;
        let reader =
            MapReader::open(store.clone(), FOLDER, &Filters::default(), ReaderOptions::default()).await.unwrap();
        let snapshot = snapshot(&reader, 0..40).await;
        store.set(&[(fault, 100)]);
        for key in 0..500 {
            // The rest of a map that is gone is gone, too.
            let key = if fault == Fault::Missing { mix(key) } else { 1 };
            assert_eq!(snapshot.candidates(hash(key)).await.len(), 40);
        }
        // Each pause is twice the last one.
        let failures = reader.statistics().failures();
        assert!((4..40).contains(&failures), "{fault:?}: {failures} for four maps");
        store.set(&[]);
        while snapshot.candidates(hash(1)).await.len() == 40 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn an_end_that_is_damaged_on_its_way_is_read_again() {
    let store = stored().await;
    for round in 0..20 {
        store.set(&[(Fault::Flip, 30)]);
        let reader = reader(&store, 0).await;
        let uncovered = snapshot(&reader, 0..40).await.uncovered().len() as u64;
        let Statistics { requests, repeated, damaged, .. } = reader.statistics();
        assert_eq!((requests, uncovered), (4 + repeated, damaged * 10), "round {round}");
        assert!(damaged <= repeated, "round {round}");
    }
}

#[tokio::test]
async fn a_page_that_is_damaged_on_its_way_is_read_again() {
    let store = stored().await;
    let reader = reader(&store, 0).await;
    let snapshot = snapshot(&reader, 0..40).await;
    store.set(&[(Fault::Flip, 10)]);
    check(&snapshot, 0..40).await;
    let Statistics { repeated, damaged, .. } = reader.statistics();
    assert!(repeated > 20 && damaged < repeated / 3, "{repeated} {damaged}");
}

#[tokio::test]
async fn a_newer_manifest_keeps_what_was_read_of_maps_that_it_still_has() {
    let store = stored().await;
    let reader = reader(&store, 1 << 20).await;
    check(&snapshot(&reader, 0..40).await, 0..40).await;
    let before = reader.statistics();
    assert!(!reader.refresh().await.unwrap(), "nothing has changed");
    assert!(add(&writer(&store), "monday", 40..50).await);
    assert!(reader.refresh().await.unwrap());
    let newer = snapshot(&reader, 0..50).await;
    assert_eq!(reader.statistics().requests, before.requests + 1, "the new end");
    check(&newer, 0..40).await;
    let pages_of_new_map = newer.maps().last().unwrap().bytes / 1_024;
    assert!(reader.statistics().requests <= before.requests + 1 + pages_of_new_map);
    check(&newer, 0..50).await;
}

#[tokio::test]
async fn files_of_cuts_that_are_not_asked_for_are_in_every_answer() {
    let store = stored().await;
    let reader = reader(&store, 0).await;
    let files: Vec<_> = (0..40).map(file).collect();
    let monday = reader.snapshot(&files, Cuts::Only(&["monday", "sunday"])).await;
    assert_eq!(reader.statistics().requests, 2);
    assert_eq!(monday.uncovered(), (10..20).chain(30..40).collect::<Vec<_>>());
    assert!((20.0..20.1).contains(&check(&monday, 0..40).await));
    // Maps of other files are not read.
    let before = store.gets();
    let first = reader.snapshot(&files[..10], Cuts::Only(&["monday"])).await;
    assert!(first.candidates(hash(mix(1) | 3 << 58)).await.is_empty());
    assert_eq!(store.gets() - before, 1);
}

#[tokio::test]
async fn a_reader_with_an_old_manifest_loses_no_key_when_its_maps_are_deleted() {
    let store = stored().await;
    let (stale, writer) = (reader(&store, 0).await, writer(&store));
    let before = snapshot(&stale, 0..40).await;
    assert!(writer.merge_all("monday", |_| true).await.unwrap().output.is_some());
    assert_eq!(writer.sweep(NO_GRACE).await.unwrap(), 2);
    // Also one that loads ends only now.
    for old in [before, snapshot(&stale, 0..40).await] {
        assert!((20.0..20.1).contains(&check(&old, 0..40).await));
    }
    let Statistics { missing, unknown, .. } = stale.statistics();
    assert!(missing > 0 && unknown > 0);
    assert!(stale.recent_failures().iter().all(|failure| failure.kind == FailureKind::Missing));
    stale.refresh().await.unwrap();
    assert!(check(&snapshot(&stale, 0..40).await, 0..40).await < 0.1);
}

#[tokio::test]
async fn a_map_of_another_hash_covers_no_file() {
    let store = stored().await;
    let filters = Filters::default().with_hasher(KeyHasher::with_secret_seed(7_u64));
    let other = MapWriter::new(store.clone(), FOLDER, &filters, options());
    let mut builder = other.builder();
    builder.add_file(file(40), keys(40).map(|key| filters.hash(&key.to_le_bytes())).collect());
    other.add("monday", builder).await.unwrap();
    let reader = reader(&store, 0).await;
    let all = snapshot(&reader, 0..41).await;
    assert_eq!((all.uncovered(), reader.statistics().foreign), (&[40][..], 1));
    check(&all, 0..41).await;
}

#[tokio::test]
async fn an_object_that_is_not_the_map_of_the_manifest_covers_no_file() {
    let store = stored().await;
    let maps = reader(&store, 0).await.manifest().maps;
    let path = |map: usize| Path::from(format!("{FOLDER}/{}", maps[map].object));
    // Two maps are swapped, one has lost its end, and one is empty.
    let mut read = Vec::new();
    for map in 0..3 {
        read.push(store.inner.get(&path(map)).await.unwrap().bytes().await.unwrap());
    }
    for (map, bytes) in [read[1].clone(), read[0].clone(), read[2].slice(..500), read[2].slice(..0)].iter().enumerate()
    {
        store.inner.put_opts(&path(map), bytes.clone().into(), PutOptions::default()).await.unwrap();
    }
    let reader = reader(&store, 0).await;
    let all = snapshot(&reader, 0..40).await;
    assert_eq!(all.uncovered().len(), 40);
    assert_eq!(reader.statistics().failures(), 4);
    check(&all, 0..40).await;
}
