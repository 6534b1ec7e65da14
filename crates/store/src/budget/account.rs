//! Counts the bytes of filters in memory against the limit.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// The account counts bytes from before they are allocated until they are freed. A [`Charge`] stays with its block, so
/// a block that a reader is still probing counts although its file has released it.
#[derive(Debug, Default)]
pub(super) struct Account {
    limit: AtomicU64,
    /// Bytes within the limit.
    within: AtomicU64,
    /// Bytes beyond it, of at most one filter: only a charge that finds 0 here adds to it.
    beyond: AtomicU64,
}

impl Account {
    pub(super) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit: limit.into(), ..Self::default() })
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    pub(super) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes in memory, or about to be.
    pub(super) fn used(&self) -> u64 {
        self.within().saturating_add(self.beyond.load(Ordering::Acquire))
    }

    /// Returns the bytes that stay. They exceed the limit only after it was lowered.
    pub(super) fn within(&self) -> u64 {
        self.within.load(Ordering::Acquire)
    }

    pub(super) fn is_too_full(&self) -> bool {
        self.within() > self.limit()
    }

    /// Returns a charge for `bytes` more, if they are within the limit.
    pub(super) fn try_charge(self: &Arc<Self>, bytes: u64) -> Option<Charge> {
        // Checked, because a budget without a limit has `u64::MAX`.
        let within = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= self.limit());
        self.within.fetch_update(Ordering::AcqRel, Ordering::Relaxed, within).ok()?;
        Some(Charge::new(self, bytes, 0))
    }

    /// Returns a charge for `bytes` that are soon freed or replaced: within the limit, or else beyond it for one caller
    /// at a time. This is why memory exceeds the limit by at most one filter, however many threads load.
    pub(super) fn working_charge(self: &Arc<Self>, bytes: u64) -> Option<Charge> {
        self.try_charge(bytes).or_else(|| {
            self.beyond.compare_exchange(0, bytes, Ordering::AcqRel, Ordering::Relaxed).ok()?;
            Some(Charge::new(self, 0, bytes))
        })
    }
}

/// Bytes that count as used until this is dropped.
#[derive(Debug)]
pub(super) struct Charge {
    account: Arc<Account>,
    within: AtomicU64,
    beyond: AtomicU64,
}

impl Charge {
    fn new(account: &Arc<Account>, within: u64, beyond: u64) -> Self {
        Self { account: account.clone(), within: within.into(), beyond: beyond.into() }
    }

    /// Adds the bytes of another charge.
    pub(super) fn join(&mut self, mut other: Self) {
        *self.within.get_mut() += core::mem::take(other.within.get_mut());
        *self.beyond.get_mut() += core::mem::take(other.beyond.get_mut());
    }

    /// Reduces the charge to the real size of the block.
    pub(super) fn shrink_to(&mut self, bytes: u64) {
        let (within, beyond) = (*self.within.get_mut(), *self.beyond.get_mut());
        // Keeps bytes within the limit first: while one charge is beyond it, no other can be.
        let kept = within.min(bytes);
        self.account.within.fetch_sub(within - kept, Ordering::AcqRel);
        *self.within.get_mut() = kept;
        let kept = beyond.min(bytes - kept);
        self.account.beyond.fetch_sub(beyond - kept, Ordering::AcqRel);
        *self.beyond.get_mut() = kept;
    }

    /// Moves the bytes beyond the limit to the charge of the block that this one replaces; they are freed when the last
    /// reader of that block is done.
    pub(super) fn displace(&mut self, old: &Self) {
        // The sums of the account do not change: only which charge frees which bytes.
        let moved = (*self.beyond.get_mut()).min(old.within.load(Ordering::Relaxed));
        old.within.fetch_sub(moved, Ordering::Relaxed);
        old.beyond.fetch_add(moved, Ordering::Relaxed);
        *self.beyond.get_mut() -= moved;
        *self.within.get_mut() += moved;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.within.fetch_sub(*self.within.get_mut(), Ordering::AcqRel);
        self.account.beyond.fetch_sub(*self.beyond.get_mut(), Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_stop_at_the_limit_and_come_back() {
        let account = Account::new(100);
        let mut most = account.try_charge(100).unwrap();
        assert!(account.try_charge(1).is_none() && account.try_charge(u64::MAX).is_none());
        assert!(account.try_charge(0).is_some(), "nothing always fits");
        most.shrink_to(60);
        assert!(account.try_charge(40).is_some());
        drop(most);
        assert_eq!(account.used(), 0);
        let unlimited = Account::new(u64::MAX);
        let _huge = unlimited.try_charge(u64::MAX - 1).unwrap();
        assert!(unlimited.try_charge(2).is_none(), "the sum would overflow");
    }

    #[test]
    fn one_caller_at_a_time_works_beyond_the_limit() {
        let account = Account::new(10);
        let within = account.working_charge(10).unwrap();
        let beyond = account.working_charge(10).unwrap();
        assert!(account.working_charge(10).is_none());
        drop(within);
        assert!(account.working_charge(10).is_some(), "one caller may again");
        assert!(account.working_charge(11).is_none());
        drop(beyond);
        assert!(account.working_charge(11).is_some());
        assert_eq!(account.used(), 0);
    }

    #[test]
    fn what_is_beyond_the_limit_goes_with_the_block_that_is_displaced() {
        let account = Account::new(10);
        let old = account.try_charge(8).unwrap();
        let mut new = account.working_charge(6).unwrap();
        assert_eq!((account.within(), account.used()), (8, 14));
        new.shrink_to(5);
        new.displace(&old);
        assert_eq!((account.within(), account.used()), (8, 13), "a reader may still have the old one");
        assert!(account.working_charge(6).is_none() && account.try_charge(3).is_none());
        drop(old);
        assert_eq!((account.within(), account.used()), (5, 5));
        new.join(account.try_charge(5).unwrap());
        drop(new);
        assert_eq!(account.used(), 0);
    }
}
