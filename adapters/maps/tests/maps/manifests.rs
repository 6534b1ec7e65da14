//! The manifest: races of its writers, and damage.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutOptions};
use sstfilter::{Filters, KeyHash};
use sstfilter_map::MapOptions;
use sstfilter_map_store::{Error, Manifest, MapReader, MapWriter, ReaderOptions};

use crate::faults::{Faulty, ManifestFault};
use crate::support::{FOLDER, add, check, check_anew, file, hash, keys, reader, snapshot, writer};

async fn replace(store: &Arc<Faulty>, manifest: Vec<u8>) {
    let path = Path::from(format!("{FOLDER}/manifest"));
    store.inner.put_opts(&path, manifest.into(), PutOptions::default()).await.unwrap();
}

async fn stored(store: &Arc<Faulty>) -> Vec<u8> {
    let path = Path::from(format!("{FOLDER}/manifest"));
    store.inner.get(&path).await.unwrap().bytes().await.unwrap().to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_map_of_several_writers_at_once_is_lost() {
    let store = Arc::new(Faulty::new());
    let tasks = (0..8_u64).map(|own| {
        let writer = writer(&store);
        tokio::spawn(async move {
            for map in 0..5 {
                let first = (own * 5 + map) * 2;
                assert!(add(&writer, &format!("day {}", own % 2), first..first + 2).await);
            }
        })
    });
    futures::future::try_join_all(tasks).await.unwrap();
    let manifest = writer(&store).manifest().await.unwrap();
    assert_eq!(manifest.maps.len(), 40);
    assert!(check_anew(&store, 0..80).await < 0.1);
}

#[tokio::test(flavor = "multi_thread")]
async fn mergers_of_one_cut_at_once_lose_no_file() {
    let store = Arc::new(Faulty::new());
    for map in 0..8 {
        assert!(add(&writer(&store), "day", map * 3..map * 3 + 3).await);
    }
    let tasks = (0..4_u64).map(|_| {
        let writer = writer(&store);
        tokio::spawn(async move { while !writer.merge("day", |_| true).await.unwrap().inputs.is_empty() {} })
    });
    futures::future::try_join_all(tasks).await.unwrap();
    let manifest = writer(&store).manifest().await.unwrap();
    assert_eq!((manifest.maps.len(), manifest.maps.iter().map(|map| map.files).sum::<u32>()), (2, 24));
    assert!(check_anew(&store, 0..24).await < 0.1);
}

#[tokio::test]
async fn any_flipped_bit_and_any_missing_end_of_a_manifest_is_an_error_and_readers_keep_theirs() {
    let store = Arc::new(Faulty::new());
    let writer = writer(&store);
    assert!(add(&writer, "day", 0..10).await);
    let reader = reader(&store, 1 << 20).await;
    assert!(add(&writer, "day", 10..20).await);
    let sound = stored(&store).await;
    for bit in 0..sound.len() * 8 {
        let mut damaged = sound.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(Manifest::decode(&damaged).is_err(), "bit {bit}");
    }
    for length in 0..sound.len() {
        assert!(Manifest::decode(&sound[..length]).is_err(), "{length} bytes");
    }
    replace(&store, sound[..sound.len() - 1].to_vec()).await;
    let refused = reader.refresh().await.unwrap_err().to_string();
    assert!(refused.starts_with("manifest of maps: expected checksum "), "{refused}");
    assert_eq!(reader.manifest().maps.len(), 1);
    check(&snapshot(&reader, 0..20).await, 0..20).await;
    assert!(!add(&writer, "day", 20..30).await && writer.sweep(crate::support::NO_GRACE).await.is_err());
    replace(&store, sound).await;
    assert!(reader.refresh().await.unwrap() && reader.manifest().maps.len() == 2);
}

#[test]
fn a_manifest_of_a_newer_version_is_refused_by_its_version() {
    let refused = Manifest::decode(b"sstfilter-maps 2 what this is, nobody knows\n").unwrap_err();
    assert!(matches!(refused, Error::Manifest { .. }), "four words more: {refused}");
    let refused = Manifest::decode(b"sstfilter-maps 2 unknown\n{}").unwrap_err();
    assert!(matches!(&refused, Error::Version { got } if got == "2"), "{refused}");
    assert!(refused.to_string().contains("expected version 1, got 2"));
    for other in [&b""[..], b"\n", b"{}", b"sstfilter-map 1 00000000\n", b"\xff\xff\n", b"sstfilter-maps 1 0\n{}"] {
        assert!(matches!(Manifest::decode(other), Err(Error::Manifest { .. })), "{other:?}");
    }
}

#[test]
fn a_field_that_this_version_does_not_know_is_an_error() {
    // A writer would lose it.
    let of = |body: &str| Manifest::decode(format!("sstfilter-maps 1 {:08x}\n{body}", crc(body)).as_bytes());
    assert!(of(r#"{"prefix_bits":null,"maps":[],"retired":[]}"#).is_ok());
    assert!(of(r#"{"prefix_bits":null,"maps":[],"retired":[],"more":1}"#).is_err());
    assert!(of(r#"{"prefix_bits":null,"maps":[]}"#).is_err());
    let map = |id: &str| {
        let rest = r#""object":"a.map","cut":"","tier":0,"bytes":1,"files":1,"entries":1,"unknown_pages":0"#;
        of(&format!(r#"{{"prefix_bits":26,"maps":[{{"id":"{id}",{rest}}}],"retired":[]}}"#))
    };
    assert_eq!(map("00000000000000ff").unwrap().maps[0].id, 255);
    assert!(map("ff").is_err() && map("zz000000000000ff").is_err());
}

fn crc(body: &str) -> u32 {
    crc32c::crc32c(body.as_bytes())
}

#[tokio::test]
async fn maps_that_keep_other_bits_of_a_hash_are_refused() {
    let store = Arc::new(Faulty::new());
    assert!(add(&writer(&store), "day", 0..3).await);
    let options = MapOptions::with_prefix_bits(30).unwrap();
    let other = MapWriter::new(store.clone(), FOLDER, &Filters::default(), options);
    let mut builder = other.builder();
    builder.add_file(crate::support::file(5), vec![KeyHash::mix(1)]);
    let refused = other.add("day", builder).await.unwrap_err();
    assert!(matches!(refused, Error::PrefixBits { expected: 26, got: 30 }), "{refused}");
    assert_eq!((writer(&store).manifest().await.unwrap().maps.len(), maps(&store).await), (1, 1));
}

/// Objects of maps, listed or not.
async fn maps(store: &Arc<Faulty>) -> usize {
    let objects: Vec<_> = store.inner.list(Some(&Path::from(FOLDER))).try_collect().await.unwrap();
    objects.iter().filter(|object| object.location.extension() == Some("map")).count()
}

#[tokio::test]
async fn a_map_whose_manifest_fails_is_deleted_if_it_is_certain_that_none_has_it_and_stays_otherwise() {
    let store = Arc::new(Faulty::new());
    let writer = writer(&store);
    for map in 0..4 {
        assert!(add(&writer, "day", map..=map).await);
    }
    let fail = |fault| *store.manifest_fault.lock().unwrap() = fault;
    fail(Some(ManifestFault::Unreadable));
    assert!(!add(&writer, "day", 4..5).await);
    assert_eq!(maps(&store).await, 4, "a map that no manifest has is left");
    fail(Some(ManifestFault::Contended));
    assert!(writer.merge("day", |_| true).await.is_err());
    assert_eq!(maps(&store).await, 4, "the result of a merge that no manifest has is left");
    fail(Some(ManifestFault::Unknown { is_stored: false }));
    assert!(!add(&writer, "day", 5..6).await);
    fail(Some(ManifestFault::Unknown { is_stored: true }));
    assert!(!add(&writer, "day", 6..7).await && writer.merge("day", |_| true).await.is_err());
    fail(None);
    assert_eq!((writer.manifest().await.unwrap().maps.len(), maps(&store).await), (2, 7));
    check_anew(&store, 0..7).await;
    assert_eq!(writer.sweep(crate::support::NO_GRACE).await.unwrap(), 5);
    assert_eq!((maps(&store).await, check_anew(&store, 0..4).await < 0.1), (2, true));
}

#[tokio::test]
async fn a_manifest_that_was_stored_although_the_answer_denies_it_has_each_map_once() {
    let store = Arc::new(Faulty::new());
    let writer = writer(&store);
    for map in 0..4 {
        store.denies_next.store(true, Ordering::SeqCst);
        assert!(add(&writer, "day", map..=map).await);
    }
    assert_eq!(writer.manifest().await.unwrap().maps.len(), 4);
    store.denies_next.store(true, Ordering::SeqCst);
    let merged = writer.merge("day", |_| true).await.unwrap();
    assert_eq!(writer.manifest().await.unwrap().maps, [merged.output.unwrap()]);
    assert!(check_anew(&store, 0..4).await < 0.1);
}

#[tokio::test]
async fn a_map_that_was_stored_and_merged_before_the_answer_is_done_and_keeps_its_grace_period() {
    let store = Arc::new(Faulty::new());
    let writer = writer(&store);
    for map in 0..4 {
        assert!(add(&writer, "day", map..=map).await);
    }
    store.retires_then.store(true, Ordering::SeqCst);
    store.denies_next.store(true, Ordering::SeqCst);
    let output = writer.merge("day", |_| true).await.unwrap().output.unwrap();
    assert!(store.inner.head(&Path::from(format!("{FOLDER}/{}", output.object))).await.is_ok());
    store.denies_next.store(true, Ordering::SeqCst);
    assert!(add(&writer, "day", 5..=5).await);
    let manifest = writer.manifest().await.unwrap();
    assert_eq!((manifest.maps.len(), manifest.retired.len()), (0, 6), "the added map is not listed again");
}

/// A local disk cannot replace an object only if it still is the one that was read.
#[tokio::test(flavor = "multi_thread")]
async fn on_a_local_disk_no_map_of_several_writers_at_once_is_lost_and_readers_follow() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(object_store::local::LocalFileSystem::new_with_prefix(folder.path()).unwrap());
    let filters = Filters::default();
    let options = crate::support::options();
    let reader = MapReader::open(store.clone(), FOLDER, &filters, ReaderOptions::default()).await.unwrap();
    let tasks = (0..8_u64).map(|own| {
        let writer = MapWriter::new(store.clone(), FOLDER, &filters, options);
        tokio::spawn(async move {
            for map in 0..5 {
                let (mut builder, number) = (writer.builder(), own * 5 + map);
                builder.add_file(file(number), keys(number).map(hash).collect());
                writer.add("day", builder).await.unwrap();
            }
        })
    });
    futures::future::try_join_all(tasks).await.unwrap();
    assert!(reader.refresh().await.unwrap());
    assert_eq!(reader.manifest().maps.len(), 40);
    check(&snapshot(&reader, 0..40).await, 0..40).await;
    let writer = MapWriter::new(store.clone(), FOLDER, &filters, options);
    while !writer.merge("day", |_| true).await.unwrap().inputs.is_empty() {}
    let swept = writer.sweep(crate::support::NO_GRACE).await.unwrap();
    assert!(swept > 70, "maps that were merged, and older manifests: {swept}");
    reader.refresh().await.unwrap();
    check(&snapshot(&reader, 0..40).await, 0..40).await;
    // A writer that saw the folder before it had a manifest, and one that stopped while it began to number them.
    let listed = writer.manifest().await.unwrap();
    store.put(&Path::from(format!("{FOLDER}/manifest")), Manifest::default().encode().unwrap().into()).await.unwrap();
    let mut builder = writer.builder();
    builder.add_file(file(40), keys(40).map(hash).collect());
    writer.add("day", builder).await.unwrap();
    assert_eq!(writer.manifest().await.unwrap().maps.len(), listed.maps.len() + 1);
}
