//! Merges: tiers, damage, deletion, and a writer that is killed at every step.

use std::sync::Arc;
use std::time::Duration;

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutOptions};
use sstfilter::{FileId, Filters};
use sstfilter_map::{MapBuilder, MapError, MapOptions, WriteId, Writes};
use sstfilter_map_store::{Error, Manifest, MapWriter};

use crate::faults::{Fault, Faulty};
use crate::support::{
    FOLDER, NO_GRACE, add, check, check_anew, file, hash, keys, mix, options, reader, snapshot, writer,
};

/// Objects of the folder, its manifest among them.
async fn objects(store: &Arc<Faulty>) -> usize {
    use futures::StreamExt;
    store.inner.list(Some(&Path::from(FOLDER))).count().await
}

async fn merge_tiers(writer: &MapWriter) -> usize {
    let mut merges = 0;
    while !writer.merge("day", |_| true).await.unwrap().inputs.is_empty() {
        merges += 1;
    }
    merges
}

#[tokio::test]
async fn maps_of_a_cut_are_merged_in_tiers_and_no_others() {
    let store = Arc::new(Faulty::new());
    let writer = writer(&store);
    let mut merges = 0;
    for map in 0..70 {
        assert!(add(&writer, "day", map..=map).await);
        assert!(add(&writer, &format!("other {map}"), 100 + map..=100 + map).await);
        merges += merge_tiers(&writer).await;
    }
    let maps = writer.manifest().await.unwrap().maps;
    let tiers = |tier| maps.iter().filter(|map| map.cut == "day" && map.tier == tier).count();
    // 70 is 1 * 64 + 0 * 16 + 1 * 4 + 2.
    assert_eq!([0, 1, 2, 3].map(tiers), [2, 1, 0, 1]);
    assert_eq!((maps.len(), merges), (74, 70 / 4 + 70 / 16 + 70 / 64));
    assert!(check_anew(&store, 0..170).await < 31.0, "30 files in the middle have no map");
}

#[tokio::test]
async fn a_merge_has_the_bytes_of_a_map_that_is_built_from_keys_and_leaves_out_files_that_are_gone() {
    let store = Arc::new(Faulty::new());
    let options = MapOptions::with_prefix_bits(30).unwrap().with_page_bytes(1 << 14).unwrap();
    let writer = MapWriter::new(store.clone(), FOLDER, &Filters::default(), options);
    // More than a window, and keys in lists.
    let hashes = |file: u64| (0..30_000).map(move |key| hash(if key < 100 { key } else { mix(file << 32 | key) }));
    for map in 0..5 {
        let mut builder = writer.builder();
        (map * 8..map * 8 + 8).for_each(|number| builder.add_file(file(number), hashes(number).collect()));
        writer.add("day", builder).await.unwrap();
    }
    let before = store.gets();
    let merged = writer.merge_all("day", |id| id != file(7)).await.unwrap();
    let output = merged.output.unwrap();
    assert_eq!((merged.inputs.len(), output.files, output.unknown_pages), (5, 39, 0));
    let bytes: u64 = merged.inputs.iter().map(|map| map.bytes).sum();
    // The manifest twice, and of each map the end and windows of 1 MiB.
    assert!(store.gets() - before <= 2 + 5 * 3 + bytes / (1 << 20), "{} of {bytes}", store.gets() - before);

    let mut builder = MapBuilder::new(&Filters::default(), options);
    (0..40).filter(|&number| number != 7).for_each(|number| builder.add_file(file(number), hashes(number).collect()));
    let mut built = Vec::new();
    builder.finish(output.map_id(), &mut built).unwrap();
    let stored = store.inner.get(&Path::from(format!("{FOLDER}/{}", output.object))).await.unwrap();
    assert!(stored.bytes().await.unwrap() == built, "other bytes");
    assert!(built.len() > 2 << 20);
}

#[tokio::test]
async fn a_cut_whose_files_are_gone_leaves_no_map() {
    let store = Arc::new(Faulty::new());
    let writer = writer(&store);
    for map in 0..4 {
        assert!(add(&writer, "day", map..=map).await);
    }
    let merged = writer.merge("day", |_| false).await.unwrap();
    assert!(merged.output.is_none() && merged.inputs.len() == 4);
    assert!(writer.manifest().await.unwrap().maps.is_empty());
}

#[tokio::test]
async fn a_page_that_is_damaged_on_its_way_into_a_merge_is_read_again_and_one_in_the_store_loses_no_key() {
    let mut unknown = 0;
    for is_stored in [false, true] {
        let store = Arc::new(Faulty::new());
        let writer = writer(&store);
        for map in 0..4 {
            assert!(add(&writer, "day", map * 10..map * 10 + 10).await);
        }
        if is_stored {
            let object = &writer.manifest().await.unwrap().maps[2].object;
            let path = Path::from(format!("{FOLDER}/{object}"));
            let mut bytes = store.inner.get(&path).await.unwrap().bytes().await.unwrap().to_vec();
            bytes[1_500] ^= 4;
            store.inner.put_opts(&path, bytes.into(), PutOptions::default()).await.unwrap();
        } else {
            store.set(&[(Fault::Flip, 20)]);
        }
        let mut merged = writer.merge("day", |_| true).await;
        while !is_stored && merged.as_ref().map_or(true, |merged| merged.inputs.is_empty()) {
            // The end of a map was damaged on its way.
            merged = writer.merge("day", |_| true).await;
        }
        let merged = merged.unwrap();
        store.set(&[]);
        unknown += merged.output.unwrap().unknown_pages;
        assert_eq!(unknown > 0, is_stored);
        check_anew(&store, 0..40).await;
    }
}

#[tokio::test]
async fn a_map_that_is_gone_does_not_stop_merges_of_others() {
    let store = Arc::new(Faulty::new());
    let writer = writer(&store);
    for map in 0..5 {
        assert!(add(&writer, "day", map..=map).await);
    }
    let gone = writer.manifest().await.unwrap().maps[1].clone();
    store.inner.delete(&Path::from(format!("{FOLDER}/{}", gone.object))).await.unwrap();
    let merged = writer.merge("day", |_| true).await.unwrap();
    assert_eq!((merged.inputs.len(), merged.unusable.len()), (4, 1));
    assert!(matches!(&merged.unusable[0], (map, Error::Store(object_store::Error::NotFound { .. })) if *map == gone));
    writer.remove(&[gone.map_id()]).await.unwrap();
    assert_eq!(writer.manifest().await.unwrap().maps.len(), 1);
    check_anew(&store, 0..5).await;
}

/// Puts a map into the store and into the manifest that no writer with the usual options would add.
async fn plant(store: &Arc<Faulty>, options: MapOptions, fill: impl FnOnce(&mut MapBuilder)) {
    let id = FileId::random();
    let (mut builder, mut bytes) = (MapBuilder::new(&Filters::default(), options), Vec::new());
    fill(&mut builder);
    builder.finish(id, &mut bytes).unwrap();
    let writer = writer(store);
    let mut manifest = writer.manifest().await.unwrap();
    let mut map = manifest.maps[0].clone();
    (map.id, map.object) = (id.fingerprint(), format!("{:016x}.map", id.fingerprint()));
    (map.bytes, map.files) = (bytes.len() as u64, 1);
    store.inner.put(&Path::from(format!("{FOLDER}/{}", map.object)), bytes.into()).await.unwrap();
    manifest.maps.insert(0, map);
    let manifest = manifest.encode().unwrap();
    store.inner.put(&Path::from(format!("{FOLDER}/manifest")), manifest.into()).await.unwrap();
}

#[tokio::test]
async fn maps_that_contradict_each_other_do_not_stop_merges_of_others() {
    let store = Arc::new(Faulty::new());
    let writer = writer(&store);
    for map in 0..3 {
        assert!(add(&writer, "day", map..=map).await);
    }
    // Another file of this id has fewer keys.
    plant(&store, options(), |builder| builder.add_file(file(0), keys(0).skip(5).map(hash).collect())).await;
    let merged = writer.merge("day", |_| true).await.unwrap();
    assert_eq!((merged.inputs.len(), merged.unusable.len()), (2, 2));
    for (_, error) in &merged.unusable {
        assert!(matches!(error, Error::Map(MapError::Contradiction { other: Some(_), .. })), "{error}");
    }
    check_anew(&store, 0..3).await;
    // Once the store has no file of this id, they can be merged.
    assert_eq!(writer.merge_all("day", |id| id != file(0)).await.unwrap().unusable.len(), 0);
    check_anew(&store, 0..3).await;
}

#[tokio::test]
async fn maps_that_cannot_be_merged_do_not_stop_merges_of_others() {
    let store = Arc::new(Faulty::new());
    let writer = writer(&store);
    for map in 0..4 {
        assert!(add(&writer, "day", map..=map).await);
    }
    // A map of other options, one of writes, and one that was cut.
    let other = MapOptions::with_prefix_bits(30).unwrap();
    plant(&store, other, |builder| builder.add_file(file(10), keys(10).map(hash).collect())).await;
    let writes = Writes::of(WriteId::new(1, 1).unwrap());
    plant(&store, options(), |builder| builder.add_writes(writes, vec![hash(1)])).await;
    plant(&store, options(), |builder| builder.add_file(file(11), keys(11).map(hash).collect())).await;
    let cut = Path::from(format!("{FOLDER}/{}", writer.manifest().await.unwrap().maps[0].object));
    store.inner.put(&cut, "short".into()).await.unwrap();
    let merged = writer.merge("day", |_| true).await.unwrap();
    assert_eq!((merged.inputs.len(), merged.unusable.len()), (4, 3));
    let reasons: Vec<_> = merged.unusable.iter().map(|(_, error)| error.to_string()).collect();
    assert!(reasons[0].contains("bytes, got 5") && reasons[1].contains("one of writes"), "{reasons:?}");
    assert!(reasons[2].contains("maps keep, got 30"), "{reasons:?}");
    check_anew(&store, 0..12).await;
    // They are reported if there is nothing to merge, too, each once.
    assert!(add(&writer, "day", 5..=5).await);
    let merged = writer.merge("day", |_| true).await.unwrap();
    assert_eq!((merged.inputs.len(), merged.unusable.len()), (0, 3));
    assert_eq!(writer.merge_all("day", |_| true).await.unwrap().unusable.len(), 3);
}

#[tokio::test]
async fn maps_that_could_not_be_merged_are_refused() {
    let store = Arc::new(Faulty::new());
    let writer = writer(&store);
    let mut other = MapBuilder::new(&Filters::default(), MapOptions::with_prefix_bits(30).unwrap());
    other.add_file(file(1), vec![hash(1)]);
    let mut writes = writer.builder();
    writes.add_writes(Writes::of(WriteId::new(1, 1).unwrap()), vec![hash(1)]);
    for (builder, expected) in [(other, "maps keep, got 30"), (writes, "got one of writes")] {
        let refused = writer.add("day", builder).await.unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
    }
    assert_eq!(objects(&store).await, 0, "nothing is written");
    assert!(writer.manifest().await.unwrap().maps.is_empty());
}

#[tokio::test]
async fn objects_that_are_not_maps_of_the_folder_are_not_deleted() {
    let store = Arc::new(Faulty::new());
    let writer = writer(&store);
    let put = async |name: &str| drop(store.inner.put(&Path::from(format!("{FOLDER}/{name}")), "x".into()).await);
    put("0123456789abcdef.map").await;
    assert_eq!(writer.sweep(NO_GRACE).await.unwrap(), 0, "there is no manifest");
    assert!(add(&writer, "day", 0..1).await);
    for name in ["0123.map", "world.map", "0123456789abcdeg.map", "0123456789abcdef0.map", ".map"] {
        put(name).await;
    }
    assert_eq!(writer.sweep(NO_GRACE).await.unwrap(), 1);
    assert_eq!(objects(&store).await, 7);
}

#[tokio::test]
async fn maps_are_deleted_after_the_grace_period_and_so_are_those_of_killed_writers() {
    let store = Arc::new(Faulty::new());
    let writer = writer(&store);
    for map in 0..4 {
        assert!(add(&writer, "day", map..=map).await);
    }
    // Killed after the upload.
    store.kill_after(1);
    assert!(!add(&writer, "day", 4..5).await);
    store.kill_after(i64::MAX);
    // Of another owner.
    let foreign = Path::from(format!("{FOLDER}/deeper/0123.map"));
    store.inner.put(&foreign, "x".into()).await.unwrap();
    assert_eq!(merge_tiers(&writer).await, 1);
    assert_eq!(writer.sweep(Duration::from_hours(1)).await.unwrap(), 0);
    assert_eq!((objects(&store).await, writer.manifest().await.unwrap().retired.len()), (8, 4));
    assert_eq!(writer.sweep(NO_GRACE).await.unwrap(), 5);
    assert_eq!((objects(&store).await, writer.manifest().await.unwrap().retired.len()), (3, 0));
    assert!(check_anew(&store, 0..4).await < 0.1);
    assert!(store.inner.head(&foreign).await.is_ok());
}

#[tokio::test]
async fn the_grace_period_of_an_old_map_begins_when_it_leaves_the_manifest() {
    let store = Arc::new(Faulty::new());
    let writer = writer(&store);
    for map in 0..4 {
        assert!(add(&writer, "day", map..=map).await);
    }
    tokio::time::sleep(Duration::from_millis(3_100)).await;
    assert_eq!(merge_tiers(&writer).await, 1);
    assert_eq!(writer.sweep(Duration::from_secs(2)).await.unwrap(), 0);
    tokio::time::sleep(Duration::from_millis(3_100)).await;
    assert_eq!(writer.sweep(Duration::from_secs(2)).await.unwrap(), 4);
}

/// Adds, merges and deletes, until the writer is killed.
async fn work(writer: &MapWriter, added: &mut u64) -> Result<(), Error> {
    for map in 0..9 {
        let mut builder = writer.builder();
        builder.add_file(file(map), keys(map).map(hash).collect());
        writer.add("day", builder).await?;
        *added += 1;
    }
    while !writer.merge("day", |_| true).await?.inputs.is_empty() {}
    writer.merge_all("day", |id| id != file(8)).await?;
    writer.sweep(NO_GRACE).await?;
    Ok(())
}

#[tokio::test]
async fn a_writer_that_is_killed_at_any_step_leaves_a_manifest_and_loses_no_key() {
    let mut steps = 0;
    loop {
        let store = Arc::new(Faulty::new());
        let (killed, mut added) = (writer(&store), 0);
        store.kill_after(steps);
        let is_done = work(&killed, &mut added).await.is_ok();
        store.kill_after(i64::MAX);

        let manifest = Manifest::clone(&writer(&store).manifest().await.unwrap());
        assert!(manifest.maps.iter().map(|map| u64::from(map.files)).sum::<u64>() >= added.min(8), "step {steps}");
        check_anew(&store, 0..9).await;
        // Another process takes over.
        let next = writer(&store);
        work(&next, &mut 0).await.unwrap();
        let opened = check_anew(&store, 0..8).await;
        assert!(opened < 0.1, "step {steps}: {opened}");
        assert_eq!(objects(&store).await, 2, "step {steps}: maps that no manifest lists");
        if is_done {
            break;
        }
        steps += 1;
    }
    assert!(steps > 60, "{steps} steps");
}

#[tokio::test]
async fn readers_that_follow_a_merger_lose_no_key() {
    let store = Arc::new(Faulty::new());
    let (writer, reader) = (writer(&store), reader(&store, 10_000).await);
    let mut last = snapshot(&reader, 0..40).await;
    for map in 0..40 {
        assert!(add(&writer, "day", map..=map).await);
        merge_tiers(&writer).await;
        writer.sweep(NO_GRACE).await.unwrap();
        check(&last, 0..40).await;
        reader.refresh().await.unwrap();
        if map % 3 == 0 {
            last = snapshot(&reader, 0..40).await;
        }
    }
}
