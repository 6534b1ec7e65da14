//! An engine's files, and maps of them in a store that fails on demand.

use std::sync::Arc;
use std::time::Duration;

use sstfilter::{FileId, Filters, KeyHash};
use sstfilter_map::MapOptions;
use sstfilter_map_store::{Cuts, MapReader, MapWriter, ReaderOptions, Snapshot};

use crate::faults::Faulty;

pub(crate) const FOLDER: &str = "some/maps";

pub(crate) fn mix(seed: u64) -> u64 {
    KeyHash::mix(seed).get()
}

/// 26 bits of a hash, and small pages: maps of a few files have many.
pub(crate) fn options() -> MapOptions {
    MapOptions::with_prefix_bits(26).unwrap().with_page_bytes(1 << 10).unwrap()
}

pub(crate) fn hash(key: u64) -> KeyHash {
    Filters::default().hash(&key.to_le_bytes())
}

/// The keys of file `number`; some are in many files.
pub(crate) fn keys(number: u64) -> impl Iterator<Item = u64> {
    (0..100).map(move |key| if key < 5 { mix(number ^ key << 40) % 7 } else { mix(number << 32 | key) | 1 << 60 })
}

pub(crate) fn file(number: u64) -> FileId {
    FileId::from_fingerprint(mix(number ^ 0xf11e << 40))
}

pub(crate) fn writer(store: &Arc<Faulty>) -> MapWriter {
    MapWriter::new(store.clone(), FOLDER, &Filters::default(), options()).with_fan_in(4)
}

/// Adds a map of files.
pub(crate) async fn add(writer: &MapWriter, cut: &str, files: impl IntoIterator<Item = u64>) -> bool {
    let mut builder = writer.builder();
    for number in files {
        builder.add_file(file(number), keys(number).map(hash).collect());
    }
    writer.add(cut, builder).await.is_ok()
}

pub(crate) async fn reader(store: &Arc<Faulty>, cache_bytes: u64) -> MapReader {
    let mut options = ReaderOptions::default();
    // Each fault meets each lookup.
    options.max_pause = Duration::ZERO;
    options.cache_bytes = cache_bytes;
    MapReader::open(store.clone(), FOLDER, &Filters::default(), options).await.unwrap()
}

pub(crate) async fn snapshot(reader: &MapReader, files: std::ops::Range<u64>) -> Snapshot {
    reader.snapshot(&files.map(file).collect::<Vec<_>>(), Cuts::All).await
}

/// Checks that each file with a key is in the key's answer. `files` must be those of the snapshot, in order. Returns
/// how many files absent keys open on average.
pub(crate) async fn check(snapshot: &Snapshot, files: std::ops::Range<u64>) -> f64 {
    for (position, number) in files.enumerate() {
        let hashes: Vec<_> = keys(number).step_by(3).map(hash).collect();
        for answer in snapshot.candidates_each(&hashes).await {
            assert!(answer.contains(&position), "file {number} lost a key");
            assert!(answer.is_sorted_by(|one, two| one < two));
        }
    }
    let absent: Vec<_> = (0..300).map(|key| hash(mix(key) | 3 << 58)).collect();
    let answers = snapshot.candidates_each(&absent).await;
    answers.iter().map(Vec::len).sum::<usize>() as f64 / absent.len() as f64
}

/// Checks all files with a new reader.
pub(crate) async fn check_anew(store: &Arc<Faulty>, files: std::ops::Range<u64>) -> f64 {
    let reader = reader(store, 1 << 20).await;
    check(&snapshot(&reader, files.clone()).await, files).await
}

/// Enough for the seconds in which ages are counted.
pub(crate) const NO_GRACE: Duration = Duration::ZERO;
