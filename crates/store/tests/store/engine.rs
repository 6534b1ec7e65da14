//! The smallest possible files of an engine: a set of keys, filter bytes, and a disk whose failures are chosen by the
//! test.

use core::ops::Range;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Barrier};

use bytes::Bytes;
use sstfilter::{FileId, KeyParts, KeyRange};
use sstfilter_store::{
    FileFilters, FilterBudget, FilterMetadata, FilterSource, FilterStore, FilterView, PartitionCut, PartitionOptions,
    ViewEdit,
};

pub(crate) type Key = Vec<u8>;

/// The behaviour of a disk in a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Sound,
    Fails,
    /// Flips a bit of the bytes read.
    Damaged,
    /// Returns a byte less than requested.
    Short,
    Panics,
}

impl Mode {
    pub(crate) const ALL: [Self; 5] = [Self::Sound, Self::Fails, Self::Damaged, Self::Short, Self::Panics];
}

/// The filter bytes of one file.
#[derive(Debug)]
pub(crate) struct Disk {
    bytes: Bytes,
    mode: AtomicU8,
    reads: AtomicU64,
    /// A read waits here twice: for the test to see that it has begun, and for permission to end.
    gate: Option<Arc<Barrier>>,
}

impl Disk {
    pub(crate) fn new(bytes: Bytes) -> Arc<Self> {
        Self::gated(bytes, None)
    }

    pub(crate) fn gated(bytes: Bytes, gate: Option<Arc<Barrier>>) -> Arc<Self> {
        Arc::new(Self { bytes, mode: 0.into(), reads: 0.into(), gate })
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::SeqCst);
    }

    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::SeqCst)
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

impl FilterSource for Disk {
    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        if let Some(gate) = &self.gate {
            gate.wait();
            gate.wait();
        }
        let read = self.bytes.read(range)?;
        match Mode::ALL[usize::from(self.mode.load(Ordering::SeqCst))] {
            Mode::Sound => Ok(Bytes::copy_from_slice(&read)),
            Mode::Fails => Err(io::Error::other("the disk is away")),
            Mode::Damaged => {
                let mut damaged = read.to_vec();
                let middle = damaged.len() / 2;
                if let Some(byte) = damaged.get_mut(middle) {
                    *byte ^= 4;
                }
                Ok(damaged.into())
            }
            Mode::Short => Ok(read.slice(..read.len().saturating_sub(1))),
            // Like a panic, but without the message.
            Mode::Panics => std::panic::resume_unwind(Box::new("the disk panics")),
        }
    }
}

/// An open file.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) keys: BTreeSet<Key>,
    /// The file deletes all keys from the first up to but excluding the second.
    pub(crate) tombstone: Option<(Key, Key)>,
    pub(crate) disk: Arc<Disk>,
    pub(crate) filters: FileFilters,
    /// How often lookups have returned it.
    pub(crate) given: AtomicU64,
}

impl AsRef<FileFilters> for File {
    fn as_ref(&self) -> &FileFilters {
        &self.filters
    }
}

impl File {
    pub(crate) fn new(keys: BTreeSet<Key>, disk: Arc<Disk>, filters: FileFilters) -> Self {
        Self { keys, tombstone: None, disk, filters, given: 0.into() }
    }

    pub(crate) fn has(&self, key: &[u8]) -> bool {
        self.keys.contains(key)
    }

    /// Returns whether a lookup of the key must reach the file.
    pub(crate) fn is_needed(&self, key: &[u8]) -> bool {
        self.has(key) || self.tombstone.as_ref().is_some_and(|(start, end)| &start[..] <= key && key < &end[..])
    }

    /// Returns whether a scan of the range must reach the file.
    pub(crate) fn is_needed_in(&self, range: KeyRange<'_>) -> bool {
        let is_deleting = self.tombstone.as_ref().is_some_and(|(start, end)| meet(range, start, end));
        is_deleting || self.first_in(range).is_some()
    }

    pub(crate) fn first_in(&self, range: KeyRange<'_>) -> Option<&Key> {
        self.keys.iter().find(|key| range.contains(key))
    }
}

/// Returns whether a key from `start` up to but excluding `end` can be in the range, for ranges whose ends are keys.
fn meet(range: KeyRange<'_>, start: &[u8], end: &[u8]) -> bool {
    use core::ops::Bound::{Excluded, Included, Unbounded};
    let begins_below_end = match range.lower {
        Included(lower) => lower < end,
        Excluded(lower) => [lower, b"\0"].concat()[..] < *end,
        Unbounded => true,
    };
    let ends_above_start = match range.upper {
        Included(upper) => start <= upper,
        Excluded(upper) => start < upper,
        Unbounded => true,
    };
    !range.is_empty() && begins_below_end && ends_above_start
}

/// Returns the filter bytes and the description of a file with these keys.
pub(crate) fn build(store: &FilterStore, keys: &BTreeSet<Key>) -> (Bytes, FilterMetadata) {
    build_with(store, keys, None)
}

pub(crate) fn build_with(
    store: &FilterStore,
    keys: &BTreeSet<Key>,
    tombstone: Option<&(Key, Key)>,
) -> (Bytes, FilterMetadata) {
    let mut builder = store.builder(FileId::random());
    keys.iter().for_each(|key| builder.add_key(key));
    if let Some((start, end)) = tombstone {
        builder.add_range_tombstone(start, end);
    }
    builder.finish().seal()
}

/// Returns a file with a source for lookups.
pub(crate) fn file(store: &FilterStore, keys: impl IntoIterator<Item = Key>) -> Arc<File> {
    file_with(store, keys.into_iter().collect(), None)
}

pub(crate) fn file_with(store: &FilterStore, keys: BTreeSet<Key>, tombstone: Option<(Key, Key)>) -> Arc<File> {
    let built = build_with(store, &keys, tombstone.as_ref());
    Arc::new(File { tombstone, ..open(store, keys, built) })
}

/// Opens filter bytes by their description.
pub(crate) fn open(store: &FilterStore, keys: BTreeSet<Key>, (bytes, metadata): (Bytes, FilterMetadata)) -> File {
    let disk = Disk::new(bytes);
    let filters = store.open(metadata, disk.clone());
    File::new(keys, disk, filters)
}

/// Returns a file whose reads the engine performs.
pub(crate) fn file_to_be_read(store: &FilterStore, keys: impl IntoIterator<Item = Key>) -> Arc<File> {
    let keys = keys.into_iter().collect();
    let (bytes, metadata) = build(store, &keys);
    Arc::new(File::new(keys, Disk::new(bytes), store.open_without_source(metadata)))
}

/// Returns a file with known bounds and no filters.
pub(crate) fn unfiltered<'a>(
    store: &FilterStore,
    keys: impl IntoIterator<Item = Key>,
    bounds: impl Into<KeyRange<'a>>,
) -> Arc<File> {
    let filters = store.open_without_description(bounds);
    Arc::new(File::new(keys.into_iter().collect(), Disk::new(Bytes::new()), filters))
}

/// Adds a file as the newest of level 0, or to another level.
pub(crate) trait AddNewest<F> {
    fn add_newest(self, level: u32, file: Arc<F>) -> Self;
}

impl<F> AddNewest<F> for ViewEdit<F> {
    fn add_newest(self, level: u32, file: Arc<F>) -> Self {
        static AGE: AtomicU64 = AtomicU64::new(0);
        match level {
            0 => self.add_to_level_0(AGE.fetch_add(1, Ordering::Relaxed), file),
            _ => self.add(level, file),
        }
    }
}

/// Returns a view of files that are added one after the other.
pub(crate) fn view_of(store: &FilterStore, files: &[(u32, &Arc<File>)]) -> FilterView<File> {
    let add = |edit: ViewEdit<File>, (level, file): &(u32, &Arc<File>)| edit.add_newest(*level, Arc::clone(file));
    FilterView::new(store).edited(files.iter().fold(ViewEdit::new(), add)).unwrap()
}

/// Returns a view of files of level 0, the newest last.
pub(crate) fn view_of_all(store: &FilterStore, files: &[Arc<File>]) -> FilterView<File> {
    view_of(store, &files.iter().map(|file| (0, file)).collect::<Vec<_>>())
}

/// Returns the files of a lookup if none contains the key.
pub(crate) fn all_candidates(view: &FilterView<File>, key: &[u8]) -> Vec<Arc<File>> {
    let mut candidates = view.candidates(key);
    core::iter::from_fn(|| candidates.next_file().cloned()).collect()
}

pub(crate) fn is_candidate(view: &FilterView<File>, key: &[u8], file: &Arc<File>) -> bool {
    all_candidates(view, key).iter().any(|other| Arc::ptr_eq(other, file))
}

/// Checks that lookups of the file's keys, one at a time and all together, come to a file.
pub(crate) fn assert_keeps_all(view: &FilterView<File>, file: &Arc<File>, what: &str) {
    for key in &file.keys {
        assert!(is_candidate(view, key, file), "{what}: {key:?}");
    }
    let keys: Vec<&[u8]> = file.keys.iter().map(|key| &key[..]).collect();
    let (mut batch, mut met) = (view.candidates_of_each(&keys), BTreeSet::new());
    loop {
        let files = batch.next_files();
        if files.is_empty() {
            break;
        }
        let is_it = |(position, other): &(usize, &Arc<File>)| Arc::ptr_eq(other, file).then_some(*position);
        met.extend(files.iter().filter_map(is_it));
    }
    assert_eq!(met.len(), keys.len(), "{what}");
}

/// Returns keys for numbers, in the order of the numbers.
pub(crate) fn numbered(numbers: impl IntoIterator<Item = u32>) -> Vec<Key> {
    numbers.into_iter().map(|number| number.to_be_bytes().to_vec()).collect()
}

/// Returns keys with a prefix that ends in a colon.
pub(crate) fn tagged(prefix: &str, numbers: impl IntoIterator<Item = u32>) -> Vec<Key> {
    numbers.into_iter().map(|number| format!("{prefix}:{number:05}").into_bytes()).collect()
}

/// Returns a store whose filters hold these parts of keys.
pub(crate) fn with_key_parts(store: FilterStore, parts: KeyParts) -> FilterStore {
    let filters = store.filters().clone().with_key_parts(parts);
    store.with_filters(filters)
}

/// Returns the store with filters in partitions of 1 KiB.
pub(crate) fn partitioned(store: &FilterStore, cut: PartitionCut) -> FilterStore {
    store.clone().with_partitions(PartitionOptions::new(cut, 1 << 10).unwrap())
}

/// Returns the store with filters in one block and in partitions of each cut: of each, one that loads them when a file
/// is opened, and one that loads them when they are probed.
pub(crate) fn layouts(store: &FilterStore) -> Vec<FilterStore> {
    let by_key = partitioned(store, PartitionCut::KeyRange);
    let at_open = [store.clone(), by_key, partitioned(store, PartitionCut::HashRange)];
    at_open.into_iter().flat_map(|store| [store.clone(), store.with_budget(FilterBudget::unlimited())]).collect()
}
