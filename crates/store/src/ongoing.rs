//! Which filters of one file are being read, and which lookups wait for that.

use core::task::Waker;
use std::sync::Mutex;

use sstfilter::internal::locks::lock;

/// The ongoing reads of a file. Behind a pointer, because at most times there are none. Locked briefly.
#[derive(Default)]
pub(crate) struct Ongoing(Mutex<Option<Box<Reads>>>);

/// The numbers of units that are being read, each with the lookups that wait for it.
#[derive(Default)]
struct Reads(Vec<(u32, Vec<Waker>)>);

impl Reads {
    fn wakers(&mut self, number: u32) -> Option<&mut Vec<Waker>> {
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
            reads.get_or_insert_default().0.push((number, Vec::new()));
        }
        Ok(begun)
    }

    /// Returns whether the read is still ongoing. If so, `waker` is called when it ends.
    pub(crate) fn wait(&self, number: u32, waker: Waker) -> bool {
        let mut reads = lock(&self.0);
        let Some(wakers) = reads.as_mut().and_then(|reads| reads.wakers(number)) else { return false };
        if !wakers.iter().any(|other| other.will_wake(&waker)) {
            wakers.push(waker);
        }
        true
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
        wakers.into_iter().flatten().for_each(Waker::wake);
    }
}
