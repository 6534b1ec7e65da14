//! Lookups that wait for reads of other lookups. The failures guarded against: lookups of one moment read a filter many
//! times, or search files in vain while one of them reads it; and a lookup waits forever for one that was cancelled, or
//! whose read failed.

use core::cell::{Cell, RefCell};
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::task::Wake;
use std::thread;

use bytes::Bytes;
use sstfilter_store::{FilterBudget, FilterReads, FilterSource, FilterStore, FilterView, OngoingRead, PendingRead};
use tokio::time::{Duration, timeout};

use crate::common::effort;
use crate::common::random::Random;
use crate::engine::{File, Key, file_to_be_read, layouts, numbered, tagged, view_of_all};

type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Runs tasks in random order, each only after it was woken. `is_cancelled` says whether a task is dropped instead.
fn run(tasks: Vec<Task<'_>>, random: &RefCell<Random>, mut is_cancelled: impl FnMut() -> bool) {
    let mut tasks: Vec<_> = tasks.into_iter().map(|task| (task, Arc::new(Flag(true.into())))).collect();
    while !tasks.is_empty() {
        let woken = |at: &usize| tasks[*at].1.0.load(Ordering::SeqCst);
        let woken: Vec<usize> = (0..tasks.len()).filter(woken).collect();
        assert!(!woken.is_empty(), "{} lookups wait for no one", tasks.len());
        let at = *random.borrow_mut().pick(&woken);
        let (task, flag) = &mut tasks[at];
        flag.0.store(false, Ordering::SeqCst);
        let waker = Waker::from(flag.clone());
        if is_cancelled() || task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            drop(tasks.swap_remove(at));
        }
    }
}

/// Lets other tasks run.
async fn pause() {
    let mut is_over = false;
    core::future::poll_fn(|context| {
        context.waker().wake_by_ref();
        if std::mem::replace(&mut is_over, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// The files of an engine, whose reads take a while.
struct Engine {
    view: FilterView<File>,
    random: RefCell<Random>,
    fails: bool,
}

impl Engine {
    fn new(view: FilterView<File>, seed: u64) -> Self {
        Self { view, random: Random::new(seed).into(), fails: false }
    }

    async fn perform(&self, reads: FilterReads<'_, File>) {
        for (file, read) in reads.pending {
            pause().await;
            let bytes = file.disk.read(read.range());
            let is_failing = self.fails && self.random.borrow_mut().one_in(5);
            read.complete(if is_failing {
                Err("the network is away".into())
            } else {
                bytes.map_err(|e| e.to_string())
            });
        }
        for (_, read) in reads.ongoing {
            read.await;
        }
    }

    /// Returns how many files a lookup searches, and whether one has the key.
    async fn look_up(&self, key: &[u8]) -> (usize, bool) {
        let mut candidates = self.view.candidates(key);
        loop {
            let reads = candidates.reads();
            if reads.is_empty() {
                break;
            }
            self.perform(reads).await;
        }
        let searched: Vec<_> = core::iter::from_fn(|| candidates.next_file()).collect();
        (searched.len(), searched.iter().any(|file| file.has(key)))
    }

    fn reads(&self) -> u64 {
        self.view.files(0).map(|file| file.disk.reads()).sum()
    }
}

fn files(store: &FilterStore) -> Vec<Arc<File>> {
    (0..5).map(|number| file_to_be_read(store, tagged("t", (0..3_000).map(|at| at * 10 + number)))).collect()
}

fn absent(number: u32) -> Key {
    format!("t:{:05}", number * 10 + 7).into_bytes()
}

#[test]
fn lookups_at_once_read_each_filter_once_and_search_no_file_in_vain() {
    for store in layouts(&FilterStore::default()) {
        let engine = Engine::new(view_of_all(&store, &files(&store)), 1);
        let searched = Cell::new(0);
        let key = absent(1_234);
        let look_up =
            || -> Task<'_> { Box::pin(async { searched.set(searched.get() + engine.look_up(&key).await.0) }) };
        run((0..64).map(|_| look_up()).collect(), &engine.random, || false);
        let files = engine.view.files(0).map(|file| u64::from(file.filters.partitions().is_some()) + 1);
        assert_eq!((engine.reads(), searched.get()), (files.sum(), 0));
    }
}

#[test]
fn threads_that_wait_for_each_other_all_go_on() {
    let store = FilterStore::default().with_budget(FilterBudget::unlimited());
    for round in 0..effort::of_minutes(2_000, 500, 200) {
        let view = view_of_all(&store, &[file_to_be_read(&store, numbered(0..200))]);
        thread::scope(|scope| {
            for thread in 0..4 {
                let engine = Engine::new(view.clone(), thread);
                scope.spawn(move || {
                    // Some are cancelled, with their reads.
                    drop((thread == round % 8).then(|| engine.view.candidates(&[0, 0, 0, 7]).reads()));
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
                    let look_up = async { timeout(Duration::from_secs(20), engine.look_up(&[0, 0, 0, 7])).await };
                    assert_eq!(runtime.block_on(look_up).expect("the end of a read wakes those who wait"), (1, true));
                });
            }
        });
        assert!(view.files(0).all(|file| file.disk.reads() == 1));
    }
}

fn poll(future: impl Future<Output = ()>) -> Poll<()> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn complete(file: &File, read: PendingRead) {
    let bytes = file.disk.read(read.range());
    read.complete(bytes);
}

#[test]
fn a_lookup_that_waits_takes_over_a_read_that_was_dropped_and_once_one_that_failed() {
    for store in layouts(&FilterStore::default()) {
        let file = file_to_be_read(&store, numbered(0..3_000));
        let view = view_of_all(&store, std::slice::from_ref(&file));
        let (key, other) = (7_u32.to_be_bytes(), view.candidates(&[0, 0, 0, 7]));
        let own = || view.candidates(&key).reads().pending.pop().map(|(_, read)| read);
        for round in 0..3 {
            let read = own().expect("nothing is loaded");
            let mut reads = other.reads();
            let mut waiting = reads.ongoing.pop().expect("it is being read").1;
            assert!(reads.is_empty() && poll(&mut waiting).is_pending() && poll(&mut waiting).is_pending());
            match round {
                0 => drop(read),
                _ => read.complete(Err::<Bytes, _>("the network is away")),
            }
            assert!(poll(&mut waiting).is_ready());
        }
        // After two errors, lookups go on without the filter.
        assert!(view.candidates(&key).reads().is_empty() && view.candidates(&key).next_file().is_some());
    }
    // An error that no lookup waited for is not tried again at once.
    let file = file_to_be_read(&FilterStore::default(), numbered(0..3_000));
    let read = file.filters.read_for(&[0, 0, 0, 7]).unwrap();
    read.complete(Err::<Bytes, _>("the network is away"));
    assert!(file.filters.read_for(&[0, 0, 0, 7]).is_none());
}

#[test]
fn lookups_that_no_longer_wait_leave_no_waker() {
    let store = FilterStore::default();
    let file = file_to_be_read(&store, numbered(0..3_000));
    let view = view_of_all(&store, std::slice::from_ref(&file));
    let (key, other) = (7_u32.to_be_bytes(), view.candidates(&[0, 0, 0, 7]));
    let begin = || view.candidates(&key).reads().pending.pop().expect("nothing is loaded").1;
    let wait = || other.reads().ongoing.pop().expect("it is being read").1;
    let poll_with = |waiting: &mut OngoingRead, flag: &Arc<Flag>| {
        pin!(waiting).poll(&mut Context::from_waker(&Waker::from(flag.clone())))
    };
    let [flag, gone] = [(); 2].map(|()| Arc::new(Flag(false.into())));
    let read = begin();
    // Each of them is polled by one executor, then by another, then cancelled.
    let (mut early, mut late) = (wait(), wait());
    assert!(poll_with(&mut early, &gone).is_pending() && poll_with(&mut early, &flag).is_pending());
    for _ in 0..1_000 {
        let mut waiting = wait();
        assert!(poll_with(&mut waiting, &flag).is_pending() && poll_with(&mut waiting, &gone).is_pending());
    }
    assert_eq!((Arc::strong_count(&flag), Arc::strong_count(&gone)), (2, 1), "the first one waits");
    drop(read);
    assert!(flag.0.swap(false, Ordering::SeqCst) && !gone.0.load(Ordering::SeqCst));
    // The first one was not polled again: when it is dropped, another waits for another read.
    let read = begin();
    assert!(poll_with(&mut late, &flag).is_pending());
    drop(early);
    drop(read);
    assert!(flag.0.load(Ordering::SeqCst) && poll(late).is_ready());
    assert_eq!(Arc::strong_count(&flag), 1);
}

#[test]
fn a_lookup_performs_its_own_reads_before_it_waits_for_others() {
    let store = FilterStore::default();
    let (one, other) = (file_to_be_read(&store, numbered(0..9)), file_to_be_read(&store, numbered(0..9)));
    let held = one.filters.read_for(&[0, 0, 0, 7]).unwrap();
    let view = view_of_all(&store, &[one.clone(), other]);
    let (key, mut reads) = ([0, 0, 0, 7], view.candidates(&[0, 0, 0, 7]).reads());
    assert_eq!((reads.pending.len(), reads.ongoing.len()), (1, 0));
    let (file, read) = reads.pending.remove(0);
    complete(file, read);
    let reads = view.candidates(&key).reads();
    assert!(reads.pending.is_empty() && Arc::ptr_eq(reads.ongoing[0].0, &one));
    complete(&one, held);
    assert!(view.candidates(&key).reads().is_empty());
}

#[test]
fn no_lookup_waits_for_ever_whichever_are_cancelled_or_fail() {
    for seed in 0..effort::of_minutes(2_000, 400, 100) {
        let mut random = Random::new(seed);
        let store = random.pick(&layouts(&FilterStore::default())).clone();
        let store = if random.one_in(3) { store.with_budget(FilterBudget::new(9_000)) } else { store };
        let files = files(&store);
        let engine = Engine { fails: random.one_in(2), ..Engine::new(view_of_all(&store, &files), seed) };
        let keys: Vec<Key> = (0..40)
            .map(|_| {
                let file = random.pick(&files);
                if random.one_in(2) { absent(100) } else { file.keys.iter().nth(random.below(300)).unwrap().clone() }
            })
            .collect();
        let is_there = |key: &[u8]| files.iter().any(|file| file.has(key));
        let look_up = |key: &'_ Key| -> bool { is_there(key) };
        let tasks = keys.iter().map(|key| -> Task<'_> {
            Box::pin(async {
                let (_, is_found) = engine.look_up(key).await;
                assert_eq!(is_found, look_up(key), "{seed}");
            })
        });
        let cancelling = random.one_in(2);
        run(tasks.collect(), &engine.random, || cancelling && random.one_in(8));
        // All reads have ended, and none is left for others to wait for.
        let reads = engine.view.candidates(&keys[0]).reads();
        assert!(reads.ongoing.is_empty());
    }
}
