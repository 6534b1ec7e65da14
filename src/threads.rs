//! The threads of one large build. Work is cut into pieces whose results do not depend on the thread or the order, so
//! that a filter has the same bytes for any number of threads.

use alloc::vec::Vec;
#[cfg(feature = "std")]
use std::{panic::resume_unwind, sync::Mutex, thread};

#[cfg(feature = "std")]
use crate::panics::locks::lock;

/// Keys that make another thread worthwhile: a millisecond of work, against some 50 microseconds to start it.
const KEYS_PER_THREAD: u64 = 1 << 16;

/// Returns how many of `threads` have enough work with `keys` keys; at least 1. Without `std`, always 1.
#[must_use]
pub(crate) fn worthwhile(threads: usize, keys: u64) -> usize {
    let most = if cfg!(feature = "std") { usize::try_from(keys / KEYS_PER_THREAD).unwrap_or(usize::MAX) } else { 1 };
    threads.min(most).max(1)
}

/// Calls `work` for each of `pieces`, on the calling thread and up to `threads - 1` others. Each thread takes the next
/// piece when it is free. The calling thread passes `own` to `work`, others a default value.
///
/// The threads end with the call: a pool would have to be configured, shared and shut down, to save 50 microseconds.
/// Without `std` the calling thread does all of the work.
#[cfg_attr(not(feature = "std"), expect(unused_variables, reason = "without `std` there is only one thread"))]
pub fn share<T: Send, S: Default>(threads: usize, pieces: Vec<T>, own: &mut S, work: impl Fn(&mut S, T) + Sync) {
    #[cfg(feature = "std")]
    share_among(threads, thread::Builder::new, pieces, own, work);
    #[cfg(not(feature = "std"))]
    pieces.into_iter().for_each(|piece| work(own, piece));
}

#[cfg(feature = "std")]
fn share_among<T: Send, S: Default>(
    threads: usize,
    builder: impl Fn() -> thread::Builder,
    pieces: Vec<T>,
    own: &mut S,
    work: impl Fn(&mut S, T) + Sync,
) {
    // The calling thread is one of `threads`, and a thread without a piece would be of no use.
    let more = threads.min(pieces.len()).saturating_sub(1);
    let pieces = Mutex::new(pieces.into_iter());
    let next = || lock(&pieces).next();
    let drain = |state: &mut S| {
        while let Some(piece) = next() {
            work(state, piece);
        }
    };
    beside(more, &builder, &|| drain(&mut S::default()), &mut || drain(own));
}

/// Runs `own` on the calling thread, and `others` on up to `more` threads. Compiled once for all kinds of work.
#[cfg(feature = "std")]
fn beside(more: usize, builder: &dyn Fn() -> thread::Builder, others: &(dyn Fn() + Sync), own: &mut dyn FnMut()) {
    thread::scope(|scope| {
        // If the system refuses to start a thread, the running ones do all of the work.
        let spawned = (0..more).map_while(|_| builder().spawn_scoped(scope, others).ok());
        let others: Vec<_> = spawned.collect();
        own();
        // Passes on the payload of a panic in a user-defined kind or policy. The scope would report only that a thread
        // panicked.
        others.into_iter().for_each(|other| other.join().unwrap_or_else(|payload| resume_unwind(payload)));
    });
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicU64, Ordering};
    use std::panic::{catch_unwind, panic_any};
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn every_piece_is_done_once_by_any_number_of_threads() {
        for threads in [0, 1, 2, 3, 8, 100] {
            for pieces in [0, 1, 2, 50] {
                let mut done = vec![0; pieces];
                let all = AtomicU64::new(0);
                share(threads, done.iter_mut().collect(), &mut 0_u64, |own, piece: &mut u64| {
                    *own += 1;
                    *piece += 1;
                    all.fetch_add(1, Ordering::Relaxed);
                });
                assert!(done.iter().all(|&times| times == 1));
                assert_eq!(all.into_inner(), pieces as u64);
            }
        }
    }

    #[test]
    fn threads_that_cannot_be_created_are_done_without() {
        let (mut done, mut own) = (vec![0; 50], 0);
        // More than the address space has free in one range, also with 32 bits.
        let too_large = || thread::Builder::new().stack_size(usize::MAX / 4 * 3);
        share_among(8, too_large, done.iter_mut().collect(), &mut own, |own, piece: &mut u64| {
            *own += 1;
            *piece += 1;
        });
        assert_eq!((done, own), (vec![1; 50], 50));
    }

    #[test]
    fn a_panic_on_another_thread_arrives_as_it_was() {
        let (caller, each_has_one) = (thread::current().id(), Barrier::new(2));
        let panicked = catch_unwind(|| {
            share(2, vec![(); 2], &mut (), |(), ()| {
                each_has_one.wait();
                if thread::current().id() != caller {
                    panic_any("of its own");
                }
            });
        });
        assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"of its own"));
    }

    #[test]
    fn few_keys_are_not_worth_a_thread() {
        assert_eq!([0, 1, 2, 8].map(|threads| worthwhile(threads, 0)), [1; 4]);
        assert_eq!([1, 2, 8].map(|threads| worthwhile(threads, 131_071)), [1; 3]);
        assert_eq!([1, 2, 8].map(|threads| worthwhile(threads, 131_072)), [1, 2, 2]);
        assert_eq!([1, 2, 8].map(|threads| worthwhile(threads, u64::MAX)), [1, 2, 8]);
    }
}
