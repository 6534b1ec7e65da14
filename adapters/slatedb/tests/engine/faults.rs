//! A filter that is damaged, foreign or of another version may cost requests, but never a key: every outcome is
//! counted, and all keys are found.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use slatedb::bytes::Bytes;
use slatedb::config::{CompressionCodec, Settings};
use slatedb::object_store::ObjectStore;
use slatedb::object_store::memory::InMemory;
use slatedb::{BlockTransformer, BloomFilterPolicy, Db, DbReader, ErrorKind};
use sstfilter::KindId;
use sstfilter_slatedb::{Audit, FilterState, SlateFilterStats, SlateFilters, Unusable};

use crate::common::{Counted, PATH, flush, key, settings, uncached};
use crate::compaction;
use crate::configurations::ribbon;
use crate::sections::{Section, framed};

pub(crate) const KEYS: u64 = 20;

pub(crate) fn new_store() -> Arc<dyn ObjectStore> {
    Arc::new(InMemory::new())
}

/// Blocked Bloom filters: so few keys are too few for Ribbon.
pub(crate) fn small() -> SlateFilters {
    SlateFilters::default()
}

/// A store with one SST of `numbers`, open.
pub(crate) async fn one_sst(
    store: &Arc<dyn ObjectStore>,
    filters: &SlateFilters,
    numbers: impl Iterator<Item = u64>,
) -> Db {
    let db = filters.configure(uncached(store, settings())).build().await.unwrap();
    put_and_flush(&db, numbers).await;
    db
}

async fn put_and_flush(db: &Db, numbers: impl Iterator<Item = u64>) {
    for number in numbers {
        db.put(key(number), b"a value").await.unwrap();
    }
    flush(db).await;
}

pub(crate) async fn find_all(db: &Db, numbers: Range<u64>) {
    for number in numbers {
        assert!(db.get(key(number)).await.unwrap().is_some(), "key {number} is lost");
    }
}

pub(crate) async fn audit(store: &Arc<dyn ObjectStore>, filters: &SlateFilters) -> Audit {
    filters.audit(DbReader::builder(PATH, Arc::clone(store))).await.unwrap()
}

/// The state of the only SST.
pub(crate) async fn audited(store: &Arc<dyn ObjectStore>, filters: &SlateFilters) -> FilterState {
    let audit = audit(store, filters).await;
    assert_eq!(audit.ssts.len(), 1, "{audit}");
    audit.ssts[0].state.clone()
}

/// Returns the counts since `before`, except for built filters: usable, damaged, unsupported, other hash, none,
/// unusable probes, foreign probes.
pub(crate) fn counted_since(filters: &SlateFilters, before: SlateFilterStats) -> [u64; 7] {
    let outcomes = |stats: SlateFilterStats| {
        let SlateFilterStats {
            decoded,
            damaged,
            unsupported,
            other_hash,
            no_filter,
            unusable_probes,
            foreign_probes,
            ..
        } = stats;
        [decoded, damaged, unsupported, other_hash, no_filter, unusable_probes, foreign_probes]
    };
    let (now, before) = (outcomes(filters.stats()), outcomes(before));
    std::array::from_fn(|outcome| now[outcome] - before[outcome])
}

#[tokio::test]
async fn bytes_that_the_engine_knows_to_be_damaged_are_an_error_of_the_read_and_never_an_absence() {
    // SlateDB checks its CRC32 before a policy sees a byte, reads a second time, and then fails the read with an error
    // of the kind `Data`, although the key could be found without the filter. Nothing is decoded.
    let (store, filters) = (new_store(), small());
    let db = one_sst(&store, &filters, 0..KEYS).await;
    let section = Section::only(&store, &db);
    let sound = section.bytes().await;
    for position in 0..sound.len() {
        let mut damaged = sound.clone();
        damaged[position] ^= 1 << (position % 8);
        section.overwrite(&damaged).await;
        let error = db.get(key(position as u64 % KEYS)).await.expect_err("an error");
        assert_eq!(error.kind(), ErrorKind::Data, "byte {position}: {error}");
    }
    section.overwrite(&vec![0; sound.len()]).await;
    // A checksum of zeros does not hold for zeros.
    assert!(db.get(key(3)).await.is_err());
    section.overwrite(&[&sound[..sound.len() / 2], &vec![0; sound.len() - sound.len() / 2]].concat()).await;
    assert!(matches!(audited(&store, &filters).await, FilterState::Unreadable(_)));
    assert_eq!(counted_since(&filters, SlateFilterStats::default()), [0; 7]);
    section.overwrite(&sound).await;
    find_all(&db, 0..KEYS).await;
}

#[tokio::test]
async fn bytes_damaged_before_the_engines_checksum_lose_no_key() {
    for filters in [small(), small().with_kind(ribbon())] {
        let store = new_store();
        let db = one_sst(&store, &filters, 0..KEYS).await;
        let section = Section::only(&store, &db);
        let entries = section.entries().await;
        let (bytes, framing) = (framed(&entries), framed(&entries).len() - entries[0].1.len());
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            section.overwrite_sealed(&damaged).await;
            look_up_under_damage(&db, &filters, bit, bit / 8 < framing).await;
        }
    }
}

/// The key is found, or the engine refuses its own framing. Damage behind that is counted, and nothing else is.
async fn look_up_under_damage(db: &Db, filters: &SlateFilters, bit: usize, in_framing: bool) {
    let before = filters.stats();
    match db.get(key(bit as u64 % KEYS)).await {
        Ok(value) => assert!(value.is_some(), "bit {bit}: a key is lost"),
        Err(error) => assert!(in_framing && error.kind() == ErrorKind::Data, "bit {bit}: {error}"),
    }
    let [usable, damaged, unsupported, other_hash, none, probes, foreign] = counted_since(filters, before);
    if !in_framing {
        assert_eq!((usable, none, foreign), (0, 0, 0), "bit {bit}");
        assert_eq!((damaged + unsupported + other_hash, probes), (1, 1), "bit {bit}");
    }
}

#[tokio::test]
async fn filters_cut_zeroed_emptied_or_of_the_engine_are_counted_and_lose_no_key() {
    let (store, filters) = (new_store(), small());
    let db = one_sst(&store, &filters, 0..KEYS).await;
    let section = Section::only(&store, &db);
    let sound = section.entries().await[0].1.clone();
    let mut cases = vec![(vec![], [0, 0, 0, 0, KEYS, KEYS, 0]), (vec![0; sound.len()], [0, 0, KEYS, 0, 0, KEYS, 0])];
    cases.extend((1..sound.len()).map(|length| (sound[..length].to_vec(), [0, KEYS, 0, 0, 0, KEYS, 0])));
    // SlateDB's own Bloom filter begins with the number of its probes, 6 in 16 bits: a header of version 0.
    cases.push(([&[0, 6][..], &[0x55; 25]].concat(), [0, 0, KEYS, 0, 0, KEYS, 0]));
    for (data, expected) in cases {
        let before = filters.stats();
        section.store_entries(&[(filters.name(), data.clone())]).await;
        find_all(&db, 0..KEYS).await;
        assert_eq!(counted_since(&filters, before), expected, "{} bytes", data.len());
        assert!(matches!(audited(&store, &filters).await, FilterState::Unusable(_)));
    }
}

/// Returns the data of a filter with its block changed, and all checksums of the block's trailer repaired.
fn with_trailer(data: &[u8], change: impl Fn(&mut [u8])) -> Vec<u8> {
    let (mut data, trailer) = (data.to_vec(), data.len() - 32);
    change(&mut data[trailer..]);
    let parameters = 4 * usize::from(data[trailer + 24] >> 4);
    let checksum = crc32c::crc32c(&data[trailer - parameters..trailer + 28]);
    data[trailer + 28..].copy_from_slice(&checksum.to_le_bytes());
    data
}

/// The data of a filter with another version in the header that holds the key range.
fn with_header_version(data: &[u8], version: u8) -> Vec<u8> {
    let mut data = data.to_vec();
    let end = 3 + usize::from(data[1]) + usize::from(data[2]);
    data[0] = version;
    let checksum = crc32c::crc32c(&data[..end]);
    data[end..end + 4].copy_from_slice(&checksum.to_le_bytes());
    data
}

#[tokio::test]
async fn newer_versions_unknown_kinds_and_other_hashes_under_our_name_lose_no_key() {
    let (store, filters, counted) = (new_store(), small(), Counted::new());
    let filters = filters.with_metrics_recorder(counted.recorder().as_ref());
    let db = one_sst(&store, &filters, 0..KEYS).await;
    let section = Section::only(&store, &db);
    let sound = section.entries().await[0].1.clone();
    let unsupported = [
        with_header_version(&sound, 2),
        with_trailer(&sound, |trailer| trailer[25] += 1),
        with_trailer(&sound, |trailer| trailer[21] = 200),
        with_trailer(&sound, |trailer| trailer[23] = 3 << 4),
    ];
    let other_hash = with_trailer(&sound, |trailer| trailer[0] ^= 1);
    for data in unsupported {
        section.store_entries(&[(filters.name(), data)]).await;
        let before = filters.stats();
        find_all(&db, 0..KEYS).await;
        assert_eq!(counted_since(&filters, before), [0, 0, KEYS, 0, 0, KEYS, 0]);
        let state = audited(&store, &filters).await;
        assert!(matches!(state, FilterState::Unusable(Unusable::Unsupported(_))), "{state}");
    }
    section.store_entries(&[(filters.name(), other_hash)]).await;
    let before = filters.stats();
    find_all(&db, 0..KEYS).await;
    assert_eq!(counted_since(&filters, before), [0, 0, 0, KEYS, 0, KEYS, 0]);
    assert!(matches!(audited(&store, &filters).await, FilterState::Unusable(Unusable::OtherHash(_))));

    let decoded = |outcome| counted.metric("sstfilter.slatedb.filters_decoded", &[("outcome", outcome)]);
    assert_eq!([decoded("usable"), decoded("unsupported"), decoded("other_hash")], [0, 4 * KEYS, KEYS]);
    assert_eq!(counted.metric("sstfilter.slatedb.unusable_probes", &[]), 5 * KEYS);
}

/// A store of two SSTs of these keys, in which the first SST has the filters of the second.
async fn swapped(filters: &SlateFilters, first: &[u64], second: &[u64]) -> (Arc<dyn ObjectStore>, Db) {
    let store = new_store();
    let db = one_sst(&store, filters, first.iter().copied()).await;
    put_and_flush(&db, second.iter().copied()).await;
    let manifest = db.manifest();
    // Level 0 has the newest SST first.
    let (newer, older) = (Section::of(&store, &manifest.l0()[0].sst), Section::of(&store, &manifest.l0()[1].sst));
    assert_eq!(newer.length, older.length);
    older.overwrite(&newer.bytes().await).await;
    (store, db)
}

#[tokio::test]
async fn the_filter_of_an_sst_with_other_keys_is_noticed_at_each_probe() {
    let filters = small();
    let (first, second): (Vec<_>, Vec<_>) = ((0..KEYS).collect(), (KEYS..2 * KEYS).collect());
    let (store, db) = swapped(&filters, &first, &second).await;
    find_all(&db, 0..2 * KEYS).await;
    assert_eq!(counted_since(&filters, SlateFilterStats::default()), [2 * KEYS, 0, 0, 0, 0, 0, KEYS]);
    let audit = audit(&store, &filters).await;
    assert_eq!(
        audit.without_usable_filter().map(|sst| sst.state.clone()).collect::<Vec<_>>(),
        [FilterState::OtherKeys]
    );
}

#[tokio::test]
async fn the_filter_of_an_sst_with_overlapping_keys_is_found_by_an_audit_alone() {
    // The case that no policy can detect; see the crate's documentation.
    let filters = small();
    let (even, odd): (Vec<_>, Vec<_>) = (0..2 * KEYS).partition(|number| number % 2 == 0);
    let (store, db) = swapped(&filters, &even, &odd).await;
    let mut lost = 0;
    for number in even {
        lost += usize::from(db.get(key(number)).await.unwrap().is_none());
    }
    assert!(lost > 0, "an audit would have nothing to find");
    let audit = audit(&store, &filters).await;
    assert_eq!(
        audit.without_usable_filter().map(|sst| sst.state.clone()).collect::<Vec<_>>(),
        [FilterState::OtherKeys]
    );
}

#[tokio::test]
async fn processes_with_different_policy_lists_read_each_others_ssts() {
    let (store, filters) = (new_store(), small());
    let db = uncached(&store, settings()).build().await.unwrap();
    put_and_flush(&db, 0..KEYS).await;
    db.close().await.unwrap();
    assert_eq!(audited(&store, &filters).await, FilterState::OtherPolicy, "written by SlateDB's own policy");

    // Read, compacted by the right configuration, then by a compactor that was forgotten.
    let db = filters.configure(uncached(&store, settings())).build().await.unwrap();
    find_all(&db, 0..KEYS).await;
    compaction::run(&store, filters.configure(compaction::builder(&store))).await;
    assert!(matches!(audited(&store, &filters).await, FilterState::Usable(_)));
    db.refresh_manifest().await.unwrap();
    find_all(&db, 0..KEYS).await;
    put_and_flush(&db, KEYS..2 * KEYS).await;
    compaction::run(&store, compaction::builder(&store)).await;
    db.refresh_manifest().await.unwrap();
    find_all(&db, 0..2 * KEYS).await;
    let audit = audit(&store, &filters).await;
    assert_eq!(
        audit.without_usable_filter().map(|sst| sst.state.clone()).collect::<Vec<_>>(),
        [FilterState::OtherPolicy]
    );
    assert_eq!(audit.ssts.len(), 2);
}

#[tokio::test]
async fn a_compactor_has_a_number_of_min_filter_keys_of_its_own() {
    let (store, filters) = (new_store(), small());
    let writer = Settings { min_filter_keys: 1_000, ..settings() };
    let db = filters.configure(uncached(&store, writer)).build().await.unwrap();
    put_and_flush(&db, 0..KEYS).await;
    assert_eq!(audited(&store, &filters).await, FilterState::NotWritten);
    compaction::run(&store, filters.configure(compaction::builder(&store))).await;
    assert!(matches!(audited(&store, &filters).await, FilterState::Usable(_)));
    db.refresh_manifest().await.unwrap();
    find_all(&db, 0..KEYS).await;
}

/// Every byte changed by its position.
struct Xor;

#[async_trait]
impl BlockTransformer for Xor {
    async fn encode(&self, data: Bytes) -> Result<Bytes, slatedb::Error> {
        Ok(data.iter().zip((0..=u8::MAX).cycle()).map(|(byte, position)| byte ^ position ^ 0x5a).collect())
    }

    async fn decode(&self, data: Bytes) -> Result<Bytes, slatedb::Error> {
        self.encode(data).await
    }
}

#[tokio::test]
async fn filters_work_under_the_engines_compression_and_a_block_transformer() {
    let (store, filters, counted) = (new_store(), small(), Counted::new());
    let compressed = Settings { compression_codec: Some(CompressionCodec::Lz4), ..settings() };
    let builder = uncached(&store, compressed).with_block_transformer(Arc::new(Xor));
    let builder = builder.with_metrics_recorder(counted.recorder());
    let db = filters.configure(builder).build().await.unwrap();
    put_and_flush(&db, (0..1_000).map(|number| 2 * number)).await;
    for number in 0..1_000 {
        assert!(db.get(key(2 * number)).await.unwrap().is_some());
        assert!(db.get(key(2 * number + 1)).await.unwrap().is_none());
    }
    assert!(counted.point_answers().negative > 900, "{:?}", counted.point_answers());
    db.close().await.unwrap();
    let reader = || DbReader::builder(PATH, Arc::clone(&store));
    let audit = filters.audit(reader().with_block_transformer(Arc::new(Xor))).await.unwrap();
    assert_eq!(audit.without_usable_filter().count(), 0, "{audit}");
    assert!(
        filters.audit(reader()).await.is_err(),
        "a store that cannot be read is an error, and not one without filters"
    );
}

#[tokio::test]
async fn stores_of_no_key_of_one_and_of_keys_of_64_kib_lose_none() {
    let (store, filters) = (new_store(), small());
    let db = filters.configure(uncached(&store, settings())).build().await.unwrap();
    flush(&db).await;
    assert_eq!(db.get(b"a").await.unwrap(), None);
    assert_eq!(filters.stats().built_none, 0);
    assert_eq!(audit(&store, &filters).await.ssts.len(), 0, "nothing was written");

    db.put(b"a", b"a value").await.unwrap();
    flush(&db).await;
    assert!(db.get(b"a").await.unwrap().is_some());
    for last in 0..4 {
        let key = [vec![b'k'; (1 << 16) - 1], vec![last]].concat();
        db.put(&key, b"a value").await.unwrap();
    }
    flush(&db).await;
    for last in 0..6 {
        let key = [vec![b'k'; (1 << 16) - 1], vec![last]].concat();
        assert_eq!(db.get(&key).await.unwrap().is_some(), last < 4);
    }
    let stats = filters.stats();
    assert_eq!((stats.built_bloom, stats.foreign_probes), (2, 0));
    assert_eq!(audit(&store, &filters).await.without_usable_filter().count(), 0);
}

#[tokio::test]
async fn an_sst_too_large_for_ribbon_in_the_engine_gets_it_from_a_standalone_compactor() {
    const MANY: u64 = 300_000;
    let (store, filters) = (new_store(), SlateFilters::default());
    let db = filters.configure(uncached(&store, settings())).build().await.unwrap();
    for number in 0..MANY {
        db.put(key(number), b"").await.unwrap();
    }
    flush(&db).await;
    let kinds = async || match audited(&store, &filters).await {
        FilterState::Usable(info) => (info.kind, info.keys),
        other => panic!("{other}"),
    };
    assert_eq!(kinds().await, (KindId::BLOCKED_BLOOM, MANY));
    compaction::run(&store, filters.configure(compaction::builder(&store))).await;
    assert_eq!(kinds().await, (KindId::RIBBON, MANY));
    db.refresh_manifest().await.unwrap();
    find_all(&db, 0..500).await;
    find_all(&db, MANY - 500..MANY).await;
}

#[tokio::test]
async fn versions_of_a_key_count_once() {
    let (store, filters) = (new_store(), small());
    let db = filters.configure(uncached(&store, settings())).build().await.unwrap();
    let mut snapshots = Vec::new();
    for _ in 0..5 {
        // A snapshot keeps the versions before it.
        snapshots.push(db.snapshot().unwrap());
        for number in 0..KEYS {
            db.put(key(number), b"a value").await.unwrap();
        }
        db.delete(key(0)).await.unwrap();
    }
    flush(&db).await;
    let FilterState::Usable(info) = audited(&store, &filters).await else { panic!("no filter") };
    assert_eq!(info.keys, KEYS);
    find_all(&db, 1..KEYS).await;
}

#[tokio::test]
async fn ssts_of_the_engines_own_policy_are_read_and_named() {
    let (store, filters) = (new_store(), small());
    let own = BloomFilterPolicy::new(10);
    let db = uncached(&store, settings()).with_filter_policies(vec![Arc::new(own)]).build().await.unwrap();
    put_and_flush(&db, 0..KEYS).await;
    db.close().await.unwrap();
    let db = filters.configure(uncached(&store, settings())).build().await.unwrap();
    find_all(&db, 0..KEYS).await;
    assert_eq!(counted_since(&filters, SlateFilterStats::default()), [0; 7]);
    assert_eq!(audited(&store, &filters).await, FilterState::OtherPolicy);
}
