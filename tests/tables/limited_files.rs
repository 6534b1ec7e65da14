//! The failure guarded against: a store of many tables runs out of descriptors, and opening or reading one of them
//! fails in the middle of the day. Just as bad: the limit works, but a file that has vanished or was replaced in the
//! meantime answers for the one that was opened.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sstfilter::sst::{
    FileSystem, LimitedFiles, LocalFileSystem, Lookup, RandomAccess, ReadOptions, Table, TableError, TableOptions,
    TableWriter, WritableFile,
};

/// The system's files, counted.
#[derive(Debug, Default)]
struct Counting {
    counts: Arc<Counts>,
    /// Opening panics.
    is_broken: AtomicBool,
}

#[derive(Debug, Default)]
struct Counts {
    opened: AtomicUsize,
    open: AtomicUsize,
    most_open: AtomicUsize,
}

struct CountedFile(Box<dyn RandomAccess>, Arc<Counts>);

impl FileSystem for Counting {
    fn open(&self, path: &Path) -> io::Result<Box<dyn RandomAccess>> {
        assert!(!self.is_broken.load(Ordering::Relaxed), "a broken file system");
        let file = LocalFileSystem.open(path)?;
        self.counts.opened.fetch_add(1, Ordering::Relaxed);
        let open = self.counts.open.fetch_add(1, Ordering::Relaxed) + 1;
        self.counts.most_open.fetch_max(open, Ordering::Relaxed);
        Ok(Box::new(CountedFile(file, Arc::clone(&self.counts))))
    }

    fn create(&self, directory: &Path) -> io::Result<Box<dyn WritableFile>> {
        LocalFileSystem.create(directory)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        LocalFileSystem.sync_directory(directory)
    }

    fn may_exist(&self, path: &Path) -> bool {
        LocalFileSystem.may_exist(path)
    }
}

impl RandomAccess for CountedFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buf, offset)
    }
}

impl Drop for CountedFile {
    fn drop(&mut self) {
        self.1.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counting {
    fn opened(&self) -> usize {
        self.counts.opened.load(Ordering::Relaxed)
    }

    fn open(&self) -> usize {
        self.counts.open.load(Ordering::Relaxed)
    }

    fn most_open(&self) -> usize {
        self.counts.most_open.load(Ordering::Relaxed)
    }
}

/// Tables in a directory of their own, each with the entry "key" -> its number.
struct Store {
    directory: tempfile::TempDir,
    below: Arc<Counting>,
    files: LimitedFiles,
}

impl Store {
    fn new(most_open: usize) -> Self {
        let below = Arc::new(Counting::default());
        let files = LimitedFiles::new(below.clone(), most_open);
        Self { directory: tempfile::tempdir().unwrap(), below, files }
    }

    fn path(&self, number: usize) -> PathBuf {
        self.directory.path().join(format!("{number:06}.sst"))
    }

    fn write(&self, number: usize, value: &[u8]) {
        let options = TableOptions::default().with_file_system(Arc::new(self.files.clone()));
        let mut writer = TableWriter::create(self.path(number), &options).unwrap();
        writer.add(b"key", value).unwrap();
        writer.finish().unwrap();
    }

    fn table(&self, number: usize) -> Table {
        self.write(number, format!("{number:06}").as_bytes());
        let options = ReadOptions::default().with_file_system(Arc::new(self.files.clone()));
        Table::open(self.path(number), &options).unwrap()
    }

    fn tables(&self, count: usize) -> Vec<Table> {
        (0..count).map(|number| self.table(number)).collect()
    }

    /// Descriptors of this process for files of this store, by the system's own account.
    #[cfg(target_os = "linux")]
    fn descriptors(&self) -> usize {
        let links = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
        links.filter_map(|link| link.path().read_link().ok()).filter(|path| path.starts_with(&self.directory)).count()
    }
}

fn assert_reads(table: &Table, number: usize) {
    assert_eq!(table.get(b"key").unwrap(), Lookup::Found(format!("{number:06}").into()));
}

#[test]
#[cfg(target_os = "linux")]
fn the_system_counts_no_more_descriptors_than_the_limit() {
    let store = Store::new(7);
    let tables = store.tables(100);
    for (number, table) in tables.iter().enumerate() {
        assert_reads(table, number);
        assert_eq!(store.descriptors(), 7);
    }
    drop(tables);
    assert_eq!(store.descriptors(), 0);
}

#[test]
fn below_the_limit_every_file_is_opened_once() {
    let store = Store::new(20);
    let tables = store.tables(20);
    for _ in 0..3 {
        tables.iter().enumerate().for_each(|(number, table)| assert_reads(table, number));
    }
    assert_eq!((store.below.opened(), store.files.open_files()), (20, 20));
}

#[test]
fn a_file_that_is_read_again_and_again_stays_open_while_others_come_and_go() {
    let store = Store::new(3);
    let tables = store.tables(50);
    assert_reads(&tables[0], 0);
    let before = store.below.opened();
    for number in 1..50 {
        assert_reads(&tables[number], number);
        assert_reads(&tables[0], 0);
    }
    // The last ones are still open from when they were written.
    let reopened = store.below.opened() - before;
    assert!((46..=49).contains(&reopened), "{reopened}");
}

#[test]
fn a_limit_of_none_opens_for_each_read_and_closes_again() {
    let store = Store::new(0);
    let tables = store.tables(3);
    tables.iter().enumerate().for_each(|(number, table)| assert_reads(table, number));
    assert_eq!((store.below.open(), store.below.most_open()), (0, 1));
}

#[test]
fn threads_share_the_limit_and_exceed_it_only_while_more_of_them_read() {
    for (limit, threads) in [(1, 8), (4, 8), (16, 8)] {
        let store = Store::new(limit);
        let tables = store.tables(40);
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let tables = &tables;
                scope.spawn(move || {
                    for step in 0..2_000 {
                        let number = (step * (thread + 3) + thread) % tables.len();
                        assert_reads(&tables[number], number);
                    }
                });
            }
        });
        assert_eq!((store.below.open(), store.files.open_files()), (limit, limit));
        assert!(store.below.most_open() <= limit.max(threads), "{} of {limit}", store.below.most_open());
    }
}

#[test]
fn tables_that_are_closed_while_others_are_read_leave_no_descriptor_behind() {
    let store = Store::new(4);
    let tables = store.tables(20);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (store, tables) = (&store, &tables);
            scope.spawn(move || {
                for step in 0..200 {
                    drop(store.table(100 + thread));
                    assert_reads(&tables[step % 20], step % 20);
                }
            });
        }
    });
    assert!(store.below.open() <= 4 && store.below.open() == store.files.open_files());
    drop(tables);
    assert_eq!((store.below.open(), store.files.open_files()), (0, 0));
}

#[test]
fn a_file_that_has_vanished_is_an_error_of_the_reads_that_need_it_and_its_filter_goes_on() {
    let store = Store::new(1);
    let tables = store.tables(2);
    std::fs::rename(store.path(0), store.path(9)).unwrap();
    match tables[0].get(b"key") {
        Err(TableError::Io { path: Some(path), source, .. }) => {
            assert_eq!((path, source.kind()), (store.path(0), io::ErrorKind::NotFound));
        }
        other => panic!("{other:?}"),
    }
    assert!(tables[0].may_contain_key(b"key"));
    assert_reads(&tables[1], 1);
    std::fs::rename(store.path(9), store.path(0)).unwrap();
    assert_reads(&tables[0], 0);
}

#[test]
fn a_file_that_was_replaced_is_an_error_and_never_an_answer() {
    let store = Store::new(1);
    let tables = store.tables(2);
    store.write(0, &[7; 100]);
    let error = tables[0].get(b"key").unwrap_err().to_string();
    assert!(error.contains("replaced while it was in use: expected"), "{error}");
    store.write(0, b"other.");
    let error = tables[0].get(b"key").unwrap_err();
    assert!(matches!(error, TableError::Checksum { .. }), "another table of the same length: {error}");
}

#[test]
fn a_file_system_that_panics_gives_the_place_back() {
    let store = Store::new(1);
    let tables = store.tables(2);
    store.below.is_broken.store(true, Ordering::Relaxed);
    for table in [&tables[0], &tables[0], &tables[0]] {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| table.get(b"key"))).unwrap_err();
    }
    store.below.is_broken.store(false, Ordering::Relaxed);
    for _ in 0..3 {
        tables.iter().enumerate().for_each(|(number, table)| assert_reads(table, number));
    }
    assert_eq!((store.below.open(), store.files.open_files()), (1, 1));
}

#[test]
#[cfg(target_os = "linux")]
fn ten_thousand_tables_are_open_at_once_with_a_hundred_descriptors() {
    let store = Store::new(100);
    store.write(0, b"000000");
    // One table under many names: writing and syncing as many would take longer than all other tests.
    (1..10_000).for_each(|number| std::fs::hard_link(store.path(0), store.path(number)).unwrap());
    let options = ReadOptions::default().with_file_system(Arc::new(store.files.clone()));
    let started = std::time::Instant::now();
    let tables: Vec<Table> = (0..10_000).map(|number| Table::open(store.path(number), &options).unwrap()).collect();
    println!("opened {} tables in {:?}", tables.len(), started.elapsed());
    assert_eq!(store.descriptors(), 100);
    for table in tables.iter().step_by(97) {
        assert_reads(table, 0);
    }
    assert_eq!(store.descriptors(), 100);
}
