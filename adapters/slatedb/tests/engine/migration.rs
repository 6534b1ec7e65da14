//! A store changes its filters while it is read and written. Filters that are no longer read cost requests, and a stub
//! that an old process mistook for a filter would lose every key.

use std::sync::Arc;

use slatedb::object_store::ObjectStore;
use slatedb::object_store::memory::InMemory;
use slatedb::{BloomFilterPolicy, DbReader, FilterPolicy};
use sstfilter_slatedb::{FilterState, OldBloom, SlateFilters};

use crate::common::{Answers, Counted, PATH, flush, key, settings, uncached};
use crate::compaction;
use crate::sections::Section;

const KEYS: u64 = 2_000;

fn built_in() -> Arc<dyn FilterPolicy> {
    Arc::new(BloomFilterPolicy::new(10))
}

fn migrating(new_ssts: OldBloom) -> SlateFilters {
    SlateFilters::default().with_old_bloom(BloomFilterPolicy::new(10), new_ssts)
}

/// The configuration of a store's processes.
enum Process<'a> {
    Old,
    New(&'a SlateFilters),
}

/// Puts keys of even numbers, and writes them as one SST.
async fn write(store: &Arc<dyn ObjectStore>, process: Process<'_>, first: u64) {
    let builder = uncached(store, settings());
    let builder = match process {
        Process::Old => builder.with_filter_policies(vec![built_in()]),
        Process::New(filters) => filters.configure(builder),
    };
    let db = builder.build().await.unwrap();
    for number in 0..KEYS {
        db.put(key(2 * (first + number)), b"a value").await.unwrap();
    }
    flush(&db).await;
    db.close().await.unwrap();
}

/// Looks up all keys of an SST, and as many absent ones in its range: requests of these, and the answers of filters.
async fn look_up(store: &Arc<dyn ObjectStore>, process: Process<'_>, first: u64) -> (u64, Answers) {
    let counted = Counted::new();
    let builder = uncached(store, settings()).with_metrics_recorder(counted.recorder());
    let builder = match process {
        Process::Old => builder.with_filter_policies(vec![built_in()]),
        Process::New(filters) => filters.configure(builder),
    };
    let db = builder.build().await.unwrap();
    for number in 0..KEYS {
        assert!(db.get(key(2 * (first + number))).await.unwrap().is_some(), "key {number} is lost");
    }
    let (before, present) = (counted.settled_gets().await, counted.point_answers());
    // The last absent key would be outside the SST's range.
    for number in 0..KEYS - 1 {
        assert!(db.get(key(2 * (first + number) + 1)).await.unwrap().is_none());
    }
    let (gets, all) = (counted.settled_gets().await - before, counted.point_answers());
    db.close().await.unwrap();
    let absent = Answers {
        positive: all.positive - present.positive,
        negative: all.negative - present.negative,
        false_positive: all.false_positive - present.false_positive,
    };
    (gets, absent)
}

/// One request for the filter of each lookup, two for each false positive, and the rate of ten bits per key.
fn assert_skips((gets, answers): (u64, Answers)) {
    assert_eq!(answers.positive + answers.negative, KEYS - 1);
    assert_eq!(gets, KEYS - 1 + 2 * answers.false_positive);
    assert!(answers.false_positive < KEYS / 50, "{answers:?}");
}

#[tokio::test]
async fn filters_of_the_engine_still_skip_ssts_during_a_migration() {
    for new_ssts in [OldBloom::Stub, OldBloom::Full] {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let filters = migrating(new_ssts);
        write(&store, Process::Old, 0).await;
        assert_skips(look_up(&store, Process::New(&filters), 0).await);
        // Without the migration, each such lookup costs three requests.
        let (gets, answers) = look_up(&store, Process::New(&SlateFilters::default()), 0).await;
        assert_eq!((gets, answers), (3 * (KEYS - 1), Answers::default()));
        // New SSTs are skipped by the new filter.
        write(&store, Process::New(&filters), KEYS).await;
        assert_skips(look_up(&store, Process::New(&filters), KEYS).await);
        assert_skips(look_up(&store, Process::New(&SlateFilters::default()), KEYS).await);
    }
}

#[tokio::test]
async fn a_process_that_knows_the_engines_policy_alone_loses_no_key_of_new_ssts() {
    for (new_ssts, skips) in [(OldBloom::Stub, false), (OldBloom::Full, true)] {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        write(&store, Process::New(&migrating(new_ssts)), 0).await;
        let (gets, answers) = look_up(&store, Process::Old, 0).await;
        if skips {
            assert_skips((gets, answers));
        } else {
            // The stub was read as a filter, and every key matched it: the filter, the index and a block.
            let all = KEYS - 1;
            assert_eq!((gets, answers), (3 * all, Answers { positive: all, negative: 0, false_positive: all }));
        }
    }
}

#[tokio::test]
async fn a_stub_takes_three_bytes_and_a_full_filter_its_own() {
    let bytes = async |filters: &SlateFilters| {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        write(&store, Process::New(filters), 0).await;
        let db = filters.configure(uncached(&store, settings())).build().await.unwrap();
        let entries = Section::only(&store, &db).entries().await;
        entries.into_iter().map(|(name, data)| (name, data.len())).collect::<Vec<_>>()
    };
    let plain = bytes(&SlateFilters::default()).await;
    assert_eq!(plain.len(), 1);
    let stub = bytes(&migrating(OldBloom::Stub)).await;
    assert_eq!(stub, [plain[0].clone(), ("_bf".to_owned(), 3)]);
    let full = bytes(&migrating(OldBloom::Full)).await;
    assert_eq!(full, [plain[0].clone(), ("_bf".to_owned(), 2 + 10 * 2_000 / 8)]);
}

#[tokio::test]
async fn a_store_can_go_to_new_filters_and_back_and_loses_no_key() {
    for new_ssts in [OldBloom::Stub, OldBloom::Full] {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let filters = migrating(new_ssts);
        write(&store, Process::Old, 0).await;
        write(&store, Process::New(&filters), KEYS).await;
        // The old process comes back: it reads everything, writes, and compacts what the new one wrote.
        look_up(&store, Process::Old, 0).await;
        look_up(&store, Process::Old, KEYS).await;
        write(&store, Process::Old, 2 * KEYS).await;
        let old = compaction::builder(&store).with_filter_policies(vec![built_in()]);
        compaction::run(&store, old).await;
        assert_skips(look_up(&store, Process::Old, KEYS).await);
        assert_skips(look_up(&store, Process::New(&filters), 0).await);
        // And the new one again.
        write(&store, Process::New(&filters), 3 * KEYS).await;
        compaction::run(&store, filters.configure(compaction::builder(&store))).await;
        let audit = filters.audit(DbReader::builder(PATH, Arc::clone(&store))).await.unwrap();
        let states: Vec<_> = audit.ssts.iter().map(|sst| &sst.state).collect();
        assert!(matches!(states[..], [FilterState::Usable(_), FilterState::OtherPolicy]), "{audit}");
        for part in 0..4 {
            look_up(&store, Process::New(&filters), part * KEYS).await;
            look_up(&store, Process::Old, part * KEYS).await;
        }
    }
}
