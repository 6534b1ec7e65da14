//! The shared state of a budget: its files, the plan, and how blocks are loaded and evicted.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use sstfilter::internal::locks::{lock, try_lock};

use super::account::{Account, Charge};
use super::curve::{Curve, Curves};
use super::file::File;
use super::plan::{self, Demand};
use super::unit::{Held, HeldFilter, Turn, Unit};
use crate::error::FilterProblem;

/// Average probes of each unit from one plan to the next. A plan takes some 100 ns for each unit, and so a few
/// nanoseconds for each probe.
const PROBES_PER_UNIT: u64 = 16;

/// Probes before the first plan. Each further plan comes after twice as many, up to `PROBES_PER_UNIT` for each unit:
/// filters that did not fit when a store was opened do not wait long.
const FIRST_PLAN: u64 = 256;

/// The minimum number of units to assume: plans from fewer probes would follow chance.
const MIN_UNITS: u64 = 256;

/// The share of the budget that plans leave free, for filters that are being loaded and shrunk, so that several
/// threads can do it at once.
const WORKING_SHARE: u64 = 64;

/// Instead of a number of probes: plans are made only on request.
const NO_PLANS: u64 = u64::MAX;

#[derive(Debug, Default)]
pub(crate) struct Pool {
    pub(super) account: Arc<Account>,
    /// By numbers that ascend and never recur. Locked briefly, and never while the engine's code runs, because that
    /// could open and drop files.
    files: Mutex<BTreeMap<u64, Arc<File>>>,
    next_file: AtomicU64,
    pub(super) counts: Counts,
    curves: Mutex<Arc<Curves>>,
    pub(super) shrinks: AtomicBool,
    /// Probes from one plan to the next; 0 for the default, which depends on the number of units.
    probes_per_plan: AtomicU64,
    /// Probes since the last plan that a better plan could have answered better.
    probes: AtomicU64,
    /// The number of the last plan: 1 to 255, then 1 again.
    number: AtomicU8,
    /// Bytes that the plan gives to units that have not been loaded since.
    promised_bytes: AtomicU64,
    planner: Mutex<()>,
    /// The units that had more bytes than the last plan gives them; the last one is shrunk first. Locked briefly.
    surplus: Mutex<Vec<(Weak<File>, u32)>>,
    /// Locked while a unit is shrunk.
    hand: Mutex<()>,
}

/// Counts of what a budget has done.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Units at the last plan.
    units: AtomicU64,
    pub(super) loads: AtomicU64,
    pub(super) loaded_bytes: AtomicU64,
    pub(super) failed_loads: AtomicU64,
    pub(super) shrinks: AtomicU64,
    pub(super) evictions: AtomicU64,
    pub(super) plans: AtomicU64,
}

/// The memory reserved for a unit that is being loaded.
#[derive(Debug)]
pub(crate) struct Reservation {
    /// Bytes to keep; 0 only checks whether a filter that failed can be loaded again.
    bytes: u64,
    /// Bytes that it already holds.
    held_bytes: u64,
    /// The charge for the difference.
    charge: Option<Charge>,
    /// Covers the whole block during loading, until it is shrunk or has replaced another.
    working: Charge,
}

impl Pool {
    pub(super) fn new(limit: u64) -> Self {
        // Plans are numbered from 1, because units start with 0, loaded under no plan.
        Self { account: Account::new(limit), shrinks: true.into(), number: 1.into(), ..Self::default() }
    }

    /// Sets the number of probes from one plan to the next; `None` for plans only on request.
    pub(super) fn set_probes_per_plan(&self, probes: Option<u64>) {
        self.probes_per_plan.store(probes.unwrap_or(NO_PLANS).max(1), Ordering::Relaxed);
    }

    /// Counts probes that a better plan could have answered better. Makes a plan when it is due, unless another thread
    /// is making one.
    pub(crate) fn count_probes(&self, probes: u64) {
        let counted = self.probes.fetch_add(probes, Ordering::Relaxed).saturating_add(probes);
        if counted >= self.probes_until_plan()
            && let Some(turn) = try_lock(&self.planner)
        {
            self.plan_in(&turn);
        }
    }

    fn probes_until_plan(&self) -> u64 {
        let fixed = self.probes_per_plan.load(Ordering::Relaxed);
        if fixed != 0 {
            return fixed;
        }
        let doubled = self.counts.plans.load(Ordering::Relaxed).min(32);
        let units = self.counts.units.load(Ordering::Relaxed).max(MIN_UNITS);
        units.saturating_mul(PROBES_PER_UNIT).min(FIRST_PLAN << doubled)
    }

    /// Makes a plan now; waits for a plan that is being made.
    pub(super) fn plan(&self) {
        // See `evict_over_limit`.
        fence(Ordering::SeqCst);
        self.plan_in(&lock(&self.planner));
        // Another thread may have had the hand, so this one waits for it.
        while self.account.is_too_full() && self.release_next(&lock(&self.hand)) {}
    }

    fn plan_in(&self, _turn: &MutexGuard<'_, ()>) {
        self.probes.store(0, Ordering::Relaxed);
        let files = self.files();
        let (units, demands) = self.demands(&files);
        let limit = self.account.limit();
        let targets = {
            // A clone, because threads that load would wait for the lock.
            let curves = lock(&self.curves).clone();
            plan::targets(&demands, &curves, self.shrinks.load(Ordering::Relaxed), limit - limit / WORKING_SHARE)
        };
        let mut promised_bytes = 0;
        for ((unit, demand), &target) in units.into_iter().zip(&demands).zip(&targets) {
            unit.set_planned_bytes(target);
            promised_bytes += target.saturating_sub(demand.held_bytes);
        }
        self.promised_bytes.store(promised_bytes, Ordering::Relaxed);
        // Either this thread sees what a unit holds by now, or the one that loaded it sees the new plan.
        fence(Ordering::SeqCst);
        let units = files.iter().flat_map(|file| file.units().map(move |(number, unit)| (file, number, unit)));
        let above = units.filter(|(.., unit)| unit.held_bytes() > unit.planned_bytes());
        let mut surplus: Vec<_> = above.map(|(file, number, _)| (Arc::downgrade(file), number)).collect();
        // Popped from the end, so files come in the order in which they were opened.
        surplus.reverse();
        *lock(&self.surplus) = surplus;
        let number = self.number.load(Ordering::Relaxed);
        self.number.store(number.checked_add(1).unwrap_or(1), Ordering::Relaxed);
        self.counts.plans.fetch_add(1, Ordering::Relaxed);
        // Only after the limit was lowered does memory exceed it here.
        while self.account.is_too_full() && self.release_one() {}
    }

    /// Returns all files. Files that come or go meanwhile may be included or not.
    pub(super) fn files(&self) -> Vec<Arc<File>> {
        lock(&self.files).values().cloned().collect()
    }

    /// Returns the units in use. The others are planned to have no memory.
    fn demands<'a>(&self, files: &'a [Arc<File>]) -> (Vec<&'a Unit>, Vec<Demand>) {
        let (mut in_use, mut demands, mut units) = (Vec::new(), Vec::new(), 0);
        for file in files {
            for (number, unit) in file.units() {
                units += 1;
                unit.age();
                file.collect(number, unit);
                match demand(unit) {
                    Some(demand) => {
                        in_use.push(unit);
                        demands.push(demand);
                    }
                    None => unit.set_planned_bytes(0),
                }
            }
        }
        self.counts.units.store(units, Ordering::Relaxed);
        (in_use, demands)
    }

    /// Begins to load a unit that should be in memory, or larger. `None` if it should not, or another thread is loading
    /// it. Each begin ends with [`complete`](Self::complete) or [`abandon`](Self::abandon).
    pub(crate) fn begin(&self, unit: &Unit) -> Option<Reservation> {
        let turn = unit.begin()?;
        let reservation = self.reserve(unit)?;
        self.release_reservation(unit.planned_bytes().min(reservation.bytes).saturating_sub(reservation.held_bytes));
        unit.loaded_under.store(self.number.load(Ordering::Relaxed), Ordering::Relaxed);
        // The turn continues with the reservation; `complete` or `abandon` ends it.
        core::mem::forget(turn);
        Some(reservation)
    }

    /// Takes the loaded filter, and returns what `may_match` returns for it; `None` if it cannot be used.
    pub(crate) fn complete(
        &self,
        unit: &Unit,
        reservation: Reservation,
        loaded: Result<HeldFilter, FilterProblem>,
        may_match: Matching<'_>,
    ) -> Option<bool> {
        let turn = unit.begun_turn();
        self.count_read(loaded.as_ref().map_or(0, HeldFilter::bytes), loaded.is_ok());
        let answer = match loaded {
            Ok(filter) => {
                let curve = Curve::of(&filter);
                unit.curve.store(Arc::make_mut(&mut lock(&self.curves)).number(curve), Ordering::Relaxed);
                let answer = may_match(&filter);
                self.keep(&turn, unit, reservation, filter);
                Some(answer)
            }
            Err(reason) => {
                drop(reservation);
                turn.fail(reason);
                None
            }
        };
        drop(turn);
        self.evict_over_limit(unit);
        answer
    }

    /// Ends a load without a filter: the read was dropped, or there is a problem.
    pub(crate) fn abandon(&self, unit: &Unit, reservation: Reservation, problem: Option<FilterProblem>) {
        let turn = unit.begun_turn();
        match problem {
            Some(problem) => turn.fail(problem),
            // Under no plan, so that others can request it at once.
            None => unit.loaded_under.store(0, Ordering::Relaxed),
        }
        drop(reservation);
        drop(turn);
        // A smaller block may still be in memory.
        self.evict_over_limit(unit);
    }

    /// Counts a read of a unit, or of a top index.
    pub(crate) fn count_read(&self, bytes: u64, is_sound: bool) {
        self.counts.loads.fetch_add(1, Ordering::Relaxed);
        self.counts.loaded_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.counts.failed_loads.fetch_add(u64::from(!is_sound), Ordering::Relaxed);
    }

    /// Frees what the unit holds if the limit was lowered while it was busy, so that the plan could not free it.
    fn evict_over_limit(&self, unit: &Unit) {
        // Either this thread sees the new limit, or the one that sets it sees what the unit holds.
        fence(Ordering::SeqCst);
        if self.account.is_too_full() {
            let _ = self.release(unit);
        }
    }

    /// Returns how many bytes of the unit should be in memory, with a charge for those that are not yet.
    fn reserve(&self, unit: &Unit) -> Option<Reservation> {
        let (held_bytes, is_retry) = match unit.held().as_deref() {
            Some(Held::Block(held)) => (held.bytes, false),
            Some(Held::Failed(failure)) if failure.is_due() => (0, true),
            Some(Held::Failed(_)) => return None,
            None => (0, false),
        };
        // Once for each plan, so that plans bound the bytes read. Failures are limited more strictly by their own
        // count.
        if !is_retry && unit.loaded_under.load(Ordering::Relaxed) == self.number.load(Ordering::Relaxed) {
            return None;
        }
        let planned_bytes = unit.planned_bytes().min(unit.whole_bytes);
        let (bytes, charge) = if planned_bytes > held_bytes {
            (planned_bytes, Some(self.charge(planned_bytes - held_bytes)?))
        } else if held_bytes > 0 {
            return None;
        } else if let Some(charge) = self.charge_unplanned(unit.whole_bytes) {
            (unit.whole_bytes, Some(charge))
        } else if is_retry {
            (0, None)
        } else {
            return None;
        };
        // The previous block stays until there is a better one; a smaller block is made while the whole one is in
        // memory.
        let working_bytes = if bytes < unit.whole_bytes { unit.whole_bytes } else { held_bytes };
        Some(Reservation { bytes, held_bytes, charge, working: self.account.working_charge(working_bytes)? })
    }

    /// Returns a charge for planned bytes, after evicting or shrinking blocks above their plan.
    fn charge(&self, bytes: u64) -> Option<Charge> {
        loop {
            if let Some(charge) = self.account.try_charge(bytes) {
                return Some(charge);
            }
            if !self.release_one() {
                return None;
            }
        }
    }

    /// Returns a charge for a filter outside the plan, from bytes that the plan promises to no other.
    fn charge_unplanned(&self, bytes: u64) -> Option<Charge> {
        let promised = self.promised_bytes.load(Ordering::Relaxed);
        let is_free = self.account.within().saturating_add(promised).saturating_add(bytes) <= self.account.limit();
        if is_free { self.account.try_charge(bytes) } else { None }
    }

    /// Releases promised bytes that are now in use, or never will be.
    fn release_reservation(&self, bytes: u64) {
        let less = |promised: u64| Some(promised.saturating_sub(bytes));
        let _ = self.promised_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Adds a file, and returns its number.
    pub(crate) fn add(&self, file: &Arc<File>) -> u64 {
        let number = self.next_file.fetch_add(1, Ordering::Relaxed);
        lock(&self.files).insert(number, file.clone());
        number
    }

    pub(crate) fn remove(&self, number: u64) {
        let removed = lock(&self.files).remove(&number);
        let Some(file) = removed else { return };
        file.units()
            .for_each(|(_, unit)| self.release_reservation(unit.planned_bytes().saturating_sub(unit.held_bytes())));
    }

    /// Puts a loaded block into memory, whole or shrunk.
    fn keep(&self, turn: &Turn<'_>, unit: &Unit, reservation: Reservation, filter: HeldFilter) {
        let Reservation { bytes, held_bytes, charge, working } = reservation;
        let Some(mut charge) = charge else { return turn.release() };
        if bytes >= unit.whole_bytes {
            charge.join(working);
            return turn.hold(filter, charge);
        }
        // The whole block replaces the previous smaller one, whose bytes the new one needs: there are never three. No
        // clone stays here, because it would outlive its charge.
        let old = turn.hold_meanwhile(filter, working);
        if let Some(old) = old.filter(|_| held_bytes > 0) {
            let Some(reclaimed) = turn.reclaim(old) else { return };
            charge.join(reclaimed);
        }
        if let Some(shrunk) = unit.shrunk(bytes) {
            self.hold_shrunk(turn, unit, bytes, shrunk, charge);
        } else {
            // The plan was made for another kind of filter. The next plan knows the kind.
            unit.replace_planned_bytes(bytes, 0);
            turn.release();
        }
    }

    fn hold_shrunk(&self, turn: &Turn<'_>, unit: &Unit, planned: u64, shrunk: HeldFilter, mut charge: Charge) {
        let bytes = shrunk.bytes();
        charge.shrink_to(bytes);
        unit.replace_planned_bytes(planned, bytes);
        self.counts.shrinks.fetch_add(1, Ordering::Relaxed);
        turn.hold(shrunk, charge);
    }

    /// Shrinks or evicts the next block that is larger than planned. Returns `false` if there is none, or other threads
    /// are doing so.
    fn release_one(&self) -> bool {
        try_lock(&self.hand).is_some_and(|hand| self.release_next(&hand))
    }

    fn release_next(&self, _hand: &MutexGuard<'_, ()>) -> bool {
        loop {
            let next = lock(&self.surplus).pop();
            let Some((file, number)) = next else { return false };
            // A closed file has already freed its memory.
            let Some(file) = file.upgrade() else { continue };
            match file.unit(number).map_or(Release::Nothing, |unit| self.release(unit)) {
                Release::Done => return true,
                Release::NoRoom => {
                    lock(&self.surplus).push((Arc::downgrade(&file), number));
                    return false;
                }
                Release::Nothing => {}
            }
        }
    }

    fn release(&self, unit: &Unit) -> Release {
        let planned_bytes = unit.planned_bytes();
        if unit.held_bytes() <= planned_bytes {
            return Release::Nothing;
        }
        let Some(turn) = unit.begin() else { return Release::Nothing };
        if planned_bytes == 0 {
            return self.evict(&turn);
        }
        let Some(working) = self.account.working_charge(planned_bytes) else {
            // A lowered limit applies at once, not with a later plan.
            return if self.account.is_too_full() { self.evict(&turn) } else { Release::NoRoom };
        };
        match unit.shrunk(planned_bytes) {
            Some(shrunk) => {
                self.hold_shrunk(&turn, unit, planned_bytes, shrunk, working);
                Release::Done
            }
            None => self.evict(&turn),
        }
    }

    fn evict(&self, turn: &Turn<'_>) -> Release {
        turn.release();
        self.counts.evictions.fetch_add(1, Ordering::Relaxed);
        Release::Done
    }
}

/// Whether a filter may contain the probed key or range.
pub(crate) type Matching<'a> = &'a dyn Fn(&HeldFilter) -> bool;

/// The result of an attempt to make a block smaller.
enum Release {
    Done,
    /// The unit is not above its plan, or busy.
    Nothing,
    /// The smaller block does not fit in addition to the larger one.
    NoRoom,
}

/// Returns what the plan knows of a unit; `None` if it is not in use.
fn demand(unit: &Unit) -> Option<Demand> {
    let is_failed = unit.failure().is_some();
    let (held_bytes, absent) = (unit.held_bytes(), f64::from(unit.absent()));
    let is_in_use = !is_failed && (absent > 0.0 || held_bytes > 0);
    is_in_use.then(|| Demand {
        absent,
        whole_bytes: unit.whole_bytes,
        held_bytes,
        curve: unit.curve.load(Ordering::Relaxed),
    })
}
