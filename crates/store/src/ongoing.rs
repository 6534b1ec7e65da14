//! Which filters of one file are being read, and which lookups wait for that.

use core::sync::atomic::{AtomicU64, Ordering};
use core::task::Waker;
use std::collections::BTreeMap;
use std::sync::Mutex;

use sstfilter::internal::locks::lock;

/// The ongoing reads of a file. Behind a pointer, because at most times there are none. Locked briefly.
#[derive(Default)]
pub(crate) struct Ongoing(Mutex<Option<Box<Reads>>>);

/// The numbers of units that are being read, each with the lookups that wait for it.
#[derive(Default)]
struct Reads(Vec<(u32, BTreeMap<Waiter, Waker>)>);

/// The number of a lookup that waits. No other lookup of the process has it: the lookup may be dropped after the read
/// has ended, while others wait for a new read of the unit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Waiter(u64);

impl Waiter {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Reads {
    fn wakers(&mut self, number: u32) -> Option<&mut BTreeMap<Waiter, Waker>> {
        self.0.iter_mut().find(|(other, _)| *other == number).map(|(_, wakers)| wakers)
    }
}

impl Ongoing {
    /// Begins a read of a unit, if `begin` returns one; `Err` if one is ongoing.
    pub(crate) fn begin<T>(&self, number: u32, begin: impl FnOnce() -> Option<T>) -> Result<Option<T>, ()> {
        let mut reads = lock(&self.0);
        if reads.as_mut().is_some_and(|reads| reads.wakers(number).is_some()) {
            return Err(());
        }
        // Under the lock, so that a read that ends meanwhile is either ongoing or over.
        let begun = begin();
        if begun.is_some() {
            reads.get_or_insert_default().0.push((number, BTreeMap::new()));
        }
        Ok(begun)
    }

    /// Returns whether the read is still ongoing. If so, `waker` is called when it ends, instead of an earlier one of
    /// the same lookup.
    pub(crate) fn wait(&self, number: u32, waiter: Waiter, waker: Waker) -> bool {
        let mut reads = lock(&self.0);
        let Some(wakers) = reads.as_mut().and_then(|reads| reads.wakers(number)) else { return false };
        let earlier = wakers.insert(waiter, waker);
        // The executor's code, outside of the lock.
        drop(reads);
        drop(earlier);
        true
    }

    /// Forgets the waker of a lookup that no longer waits.
    pub(crate) fn cancel(&self, number: u32, waiter: Waiter) {
        let mut reads = lock(&self.0);
        let waker = reads.as_mut().and_then(|reads| reads.wakers(number)?.remove(&waiter));
        // The executor's code, outside of the lock.
        drop(reads);
        drop(waker);
    }

    /// Returns whether lookups wait for the read.
    pub(crate) fn is_awaited(&self, number: u32) -> bool {
        lock(&self.0).as_mut().and_then(|reads| reads.wakers(number)).is_some_and(|wakers| !wakers.is_empty())
    }

    /// Ends a read, and wakes the lookups that wait for it.
    pub(crate) fn end(&self, number: u32) {
        let mut reads = lock(&self.0);
        let wakers = reads.as_mut().and_then(|reads| reads.wakers(number)).map(core::mem::take);
        if let Some(reads) = &mut *reads {
            reads.0.retain(|(other, _)| *other != number);
        }
        // Most files are read once.
        reads.take_if(|reads| reads.0.is_empty());
        drop(reads);
        wakers.into_iter().flatten().for_each(|(_, waker)| waker.wake());
    }
}
