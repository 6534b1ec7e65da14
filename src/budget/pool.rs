//! What the filters under one budget share: their files, the plan, and how blocks come into memory and leave it.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;

use super::account::{Account, Charge};
use super::curve::{Curve, Curves};
use super::file::File;
use super::plan::{self, Demand};
use super::registry::Registry;
use super::unit::{Held, Turn, Unit};
use crate::block::FilterBlock;
use crate::error::BlockError;
use crate::panics::{lock, try_lock};

/// Probes of each unit, on average, from one plan to the next. A plan takes some 100 ns for each unit, and so a few
/// nanoseconds for each probe.
const PROBES_PER_UNIT: u64 = 16;

/// Probes before the first plan. Each further one comes after twice as many, up to those of `PROBES_PER_UNIT`: filters
/// that did not fit when a store was opened do not wait long.
const FIRST_PLAN: u64 = 256;

/// Units that are assumed at least: plans from fewer probes would follow chance.
const LEAST_UNITS: u64 = 256;

/// The share of the budget that plans leave free, for filters that are being loaded and shrunk, so that several
/// threads can do it at once.
const WORKING_SHARE: u64 = 64;

/// In place of a number of probes: plans are made only on request.
const NO_PLANS: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct Pool {
    pub(super) account: Arc<Account>,
    pub(super) registry: Registry,
    pub(super) counts: Counts,
    curves: Mutex<Arc<Curves>>,
    shrinks: AtomicBool,
    /// Probes from one plan to the next; 0 to follow from the number of units.
    probes_per_plan: AtomicU64,
    /// Probes since the last plan that a plan could improve.
    probes: AtomicU64,
    /// The number of the last plan: 1 to 255, over and over.
    number: AtomicU8,
    /// Bytes that the plan gives to units that have not been loaded since.
    promised_bytes: AtomicU64,
    planner: Mutex<()>,
    hand: Mutex<Hand>,
}

/// What has happened under a budget.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) units: AtomicU64,
    pub(super) whole_bytes: AtomicU64,
    pub(super) loads: AtomicU64,
    pub(super) loaded_bytes: AtomicU64,
    pub(super) failed_loads: AtomicU64,
    pub(super) shrinks: AtomicU64,
    pub(super) evictions: AtomicU64,
    pub(super) plans: AtomicU64,
}

/// Where the search for blocks above their plan goes on: once around all files for each plan.
#[derive(Debug, Default)]
struct Hand {
    slot: u32,
    unit: usize,
    /// The plan that the round is for.
    plan: u8,
    is_round_done: bool,
}

/// What may become of a unit.
struct Place {
    /// Bytes to keep; 0 only tries whether a filter that failed can be loaded again.
    bytes: u64,
    /// Bytes that it has.
    held_bytes: u64,
    /// For the difference.
    charge: Option<Charge>,
}

impl Pool {
    pub(super) fn new(limit: u64) -> Self {
        Self {
            account: Account::new(limit),
            registry: Registry::default(),
            counts: Counts::default(),
            curves: Mutex::new(Arc::new(Curves::new())),
            shrinks: true.into(),
            probes_per_plan: 0.into(),
            probes: 0.into(),
            // Units start with 0: loaded under no plan.
            number: 1.into(),
            promised_bytes: 0.into(),
            planner: Mutex::new(()),
            hand: Mutex::new(Hand::default()),
        }
    }

    pub(super) fn set_shrinks(&self, shrinks: bool) {
        self.shrinks.store(shrinks, Ordering::Relaxed);
    }

    /// A plan after each time that there were this many probes; only on request for `None`.
    pub(super) fn set_probes_per_plan(&self, probes: Option<u64>) {
        self.probes_per_plan.store(probes.unwrap_or(NO_PLANS).max(1), Ordering::Relaxed);
    }

    pub(super) fn shrinks(&self) -> bool {
        self.shrinks.load(Ordering::Relaxed)
    }

    /// Counts probes that a better plan could have answered better. Plans when it is time, unless another thread does.
    pub(super) fn count_probes(&self, probes: u64) {
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
        let units = self.counts.units.load(Ordering::Relaxed).max(LEAST_UNITS);
        units.saturating_mul(PROBES_PER_UNIT).min(FIRST_PLAN << doubled)
    }

    /// Plans now; waits for a plan that is being made.
    pub(super) fn plan(&self) {
        self.plan_in(&lock(&self.planner));
        // Another thread may have been at the search, or the registry.
        fence(Ordering::SeqCst);
        while self.account.is_too_full() {
            let mut hand = lock(&self.hand);
            if !self.release_next(&mut hand) && hand.is_round_done {
                return;
            }
            drop(hand);
            std::thread::yield_now();
        }
    }

    fn plan_in(&self, _turn: &MutexGuard<'_, ()>) {
        self.probes.store(0, Ordering::Relaxed);
        let (places, demands) = self.demands();
        let limit = self.account.limit();
        let targets = {
            // Not under the lock: threads that load would wait.
            let curves = lock(&self.curves).clone();
            plan::targets(&demands, &curves, self.shrinks(), limit - limit / WORKING_SHARE)
        };
        for (&(slot, number), &target) in places.iter().zip(&targets) {
            if let Some(unit) = self.registry.get(slot).as_ref().and_then(|file| file.units.get(number as usize)) {
                unit.set_planned_bytes(target);
            }
        }
        let growth = demands.iter().zip(&targets).map(|(demand, target)| target.saturating_sub(demand.held_bytes));
        self.promised_bytes.store(growth.sum(), Ordering::Relaxed);
        let number = self.number.load(Ordering::Relaxed);
        self.number.store(number.checked_add(1).unwrap_or(1), Ordering::Relaxed);
        self.counts.plans.fetch_add(1, Ordering::Relaxed);
        // Only after the limit was lowered.
        while self.account.is_too_full() && self.release_one() {}
    }

    /// The units in use, with their slots and numbers. The others are planned to have no memory.
    fn demands(&self) -> (Vec<(u32, u32)>, Vec<Demand>) {
        let (mut places, mut demands) = (Vec::new(), Vec::new());
        for (slot, file) in self.registry.files() {
            let can_load = file.failure().is_none();
            for (number, unit) in (0..).zip(&file.units) {
                unit.age();
                file.collect(unit);
                match demand(unit).filter(|_| can_load) {
                    Some(demand) => {
                        places.push((slot, number));
                        demands.push(demand);
                    }
                    None => unit.set_planned_bytes(0),
                }
            }
        }
        (places, demands)
    }

    /// Loads a unit's block if it should be in memory, or larger; gives what `may_match` says of the block. `None` if
    /// it should not, or another thread is at it, or it fails.
    pub(super) fn load(&self, file: &File, number: u32, unit: &Unit, may_match: Matching<'_>) -> Option<bool> {
        if file.is_waiting() {
            return None;
        }
        let turn = unit.begin()?;
        let answer = self.load_in(&turn, file, number, unit, may_match);
        drop(turn);
        self.obey_lowered_limit(unit);
        answer
    }

    fn load_in(&self, turn: &Turn<'_>, file: &File, number: u32, unit: &Unit, may_match: Matching<'_>) -> Option<bool> {
        let place = self.place(file, unit)?;
        let whole_bytes = unit.whole_bytes;
        // The block from before stays until there is a better one; a smaller one is made beside the whole one.
        let working_bytes = if place.bytes < whole_bytes { whole_bytes } else { place.held_bytes };
        let working = self.account.working_charge(working_bytes)?;
        self.fulfil(unit.planned_bytes().min(place.bytes).saturating_sub(place.held_bytes));
        turn.note_plan(self.number.load(Ordering::Relaxed));
        let block = turn.load(|| {
            // The file keeps the reason.
            if file.check_known_keys(|number| self.read(file, number)).is_err() {
                unit.set_planned_bytes(0);
                return Ok(None);
            }
            self.read_unit(file, number, whole_bytes).map(Some)
        });
        let Some(block) = block.flatten() else {
            self.counts.failed_loads.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let curve = Curve::of(&block);
        unit.set_curve(Arc::make_mut(&mut lock(&self.curves)).number(curve));
        let answer = may_match(&block);
        self.keep(turn, unit, working, place, block);
        Some(answer)
    }

    /// Frees what was loaded while the limit was lowered: this unit was busy when the others were released.
    fn obey_lowered_limit(&self, unit: &Unit) {
        // Either this thread sees the new limit, or the one that sets it sees that the unit is not busy.
        fence(Ordering::SeqCst);
        if self.account.is_too_full() {
            let _ = self.release(unit);
        }
    }

    fn read(&self, file: &File, number: u32) -> Result<FilterBlock<Bytes>, BlockError> {
        self.counts.loads.fetch_add(1, Ordering::Relaxed);
        let block = file.source.load(number)?;
        self.counts.loaded_bytes.fetch_add(block.as_bytes().len() as u64, Ordering::Relaxed);
        Ok(block)
    }

    fn read_unit(&self, file: &File, number: u32, whole_bytes: u64) -> Result<FilterBlock<Bytes>, BlockError> {
        let block = self.read(file, number)?.verified()?;
        let got = block.as_bytes().len() as u64;
        if got != whole_bytes {
            return Err(BlockError::Length { expected: whole_bytes, got });
        }
        // A source that mixes partitions up would lose keys: the index knows the checksum of each.
        let Some(index) = &file.partitions else { return block.whole() };
        index.open(number, block.as_bytes())?;
        Ok(block)
    }

    /// How many bytes of the unit should be in memory, and a charge for those that are not yet.
    fn place(&self, file: &File, unit: &Unit) -> Option<Place> {
        let (held_bytes, is_retry) = match unit.held().as_deref() {
            Some(Held::Block(held)) => (held.bytes, false),
            Some(Held::Failed(failure)) if failure.is_due() => (0, true),
            Some(Held::Failed(_)) => return None,
            None => (0, file.failure().is_some()),
        };
        // Once for each plan, so that plans bound what is read. Failures have a rarer measure of their own.
        if !is_retry && unit.was_loaded_under(self.number.load(Ordering::Relaxed)) {
            return None;
        }
        let planned_bytes = unit.planned_bytes().min(unit.whole_bytes);
        if planned_bytes > held_bytes {
            let charge = self.charge(planned_bytes - held_bytes)?;
            return Some(Place { bytes: planned_bytes, held_bytes, charge: Some(charge) });
        }
        if held_bytes > 0 {
            return None;
        }
        match self.charge_unplanned(unit.whole_bytes) {
            Some(charge) => Some(Place { bytes: unit.whole_bytes, held_bytes, charge: Some(charge) }),
            None => is_retry.then_some(Place { bytes: 0, held_bytes, charge: None }),
        }
    }

    /// A charge for bytes that were planned, after blocks above their plan were dropped or shrunk.
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

    /// A charge for a filter that the plan does not know, from bytes that it promises to no other.
    fn charge_unplanned(&self, bytes: u64) -> Option<Charge> {
        let promised = self.promised_bytes.load(Ordering::Relaxed);
        let is_free = self.account.within().saturating_add(promised).saturating_add(bytes) <= self.account.limit();
        if is_free { self.account.try_charge(bytes) } else { None }
    }

    /// Bytes that were promised are in use, or never will be.
    fn fulfil(&self, bytes: u64) {
        let less = |promised: u64| Some(promised.saturating_sub(bytes));
        let _ = self.promised_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    pub(super) fn add(&self, file: &Arc<File>) -> u32 {
        self.counts.units.fetch_add(file.units.len() as u64, Ordering::Relaxed);
        self.counts.whole_bytes.fetch_add(file.whole_bytes(), Ordering::Relaxed);
        self.registry.add(file.clone())
    }

    pub(super) fn remove(&self, slot: u32) {
        let Some(file) = self.registry.remove(slot) else { return };
        self.counts.units.fetch_sub(file.units.len() as u64, Ordering::Relaxed);
        self.counts.whole_bytes.fetch_sub(file.whole_bytes(), Ordering::Relaxed);
        file.units.iter().for_each(|unit| self.fulfil(unit.planned_bytes().saturating_sub(unit.held_bytes())));
    }

    /// Puts a block that was loaded into memory, whole or shrunk. `working` is its charge until then, beside `place`.
    fn keep(&self, turn: &Turn<'_>, unit: &Unit, working: Charge, place: Place, block: FilterBlock<Bytes>) {
        let Place { bytes, held_bytes, charge } = place;
        let Some(mut charge) = charge else { return turn.release() };
        if bytes >= unit.whole_bytes {
            charge.join(working);
            return turn.hold(block, charge);
        }
        // Instead of the smaller block from before, whose bytes the new one needs: there are never three.
        // No clone stays here: it would outlive its charge.
        let old = turn.hold_meanwhile(block, working);
        if let Some(old) = old.filter(|_| held_bytes > 0) {
            let Some(reclaimed) = turn.reclaim(old) else { return };
            charge.join(reclaimed);
        }
        if let Some(shrunk) = unit.shrunk(bytes) {
            self.hold_shrunk(turn, unit, bytes, shrunk, charge);
        } else {
            // The plan was made for another kind of filter. The next one knows.
            unit.replace_planned_bytes(bytes, 0);
            turn.release();
        }
    }

    fn hold_shrunk(&self, turn: &Turn<'_>, unit: &Unit, planned: u64, shrunk: FilterBlock<Bytes>, mut charge: Charge) {
        let bytes = shrunk.as_bytes().len() as u64;
        charge.shrink_to(bytes);
        unit.replace_planned_bytes(planned, bytes);
        self.counts.shrinks.fetch_add(1, Ordering::Relaxed);
        turn.hold(shrunk, charge);
    }

    /// Shrinks or drops the next block that is larger than planned. `false` if there is none, or other threads are at
    /// it.
    fn release_one(&self) -> bool {
        try_lock(&self.hand).is_some_and(|mut hand| self.release_next(&mut hand))
    }

    fn release_next(&self, hand: &mut Hand) -> bool {
        let plan = self.number.load(Ordering::Relaxed);
        if hand.plan != plan {
            *hand = Hand { plan, ..Hand::default() };
        }
        while !hand.is_round_done {
            let Some((file, slots)) = self.registry.try_get(hand.slot) else { return false };
            let unit = file.as_ref().and_then(|file| file.units.get(hand.unit));
            match unit.map_or(Release::Nothing, |unit| self.release(unit)) {
                Release::Done => return true,
                Release::NoRoom => return false,
                Release::Nothing => {}
            }
            hand.advance(unit.is_some(), slots);
        }
        false
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
            // A limit that was lowered does not wait for a plan to come.
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

/// Whether a block may contain what it is probed for.
pub(super) type Matching<'a> = &'a dyn Fn(&FilterBlock<Bytes>) -> bool;

/// What became of an attempt to make a block smaller.
enum Release {
    Done,
    /// It is not above its plan, or busy.
    Nothing,
    /// The smaller block does not fit beside the larger one.
    NoRoom,
}

impl Hand {
    /// Goes on to the next unit of a file, or to the next file.
    fn advance(&mut self, is_within_file: bool, slots: u32) {
        if is_within_file {
            self.unit += 1;
            return;
        }
        self.unit = 0;
        self.slot = self.slot.saturating_add(1);
        self.is_round_done = self.slot >= slots;
    }
}

/// What the plan knows of a unit; `None` if it is not in use.
fn demand(unit: &Unit) -> Option<Demand> {
    let (held_bytes, is_failed) = match unit.held().as_deref() {
        Some(Held::Block(held)) => (held.bytes, false),
        Some(Held::Failed(_)) => (0, true),
        None => (0, false),
    };
    let absent = f64::from(unit.absent());
    let is_in_use = !is_failed && (absent > 0.0 || held_bytes > 0);
    is_in_use.then(|| Demand { absent, whole_bytes: unit.whole_bytes, held_bytes, curve: unit.curve() })
}

#[cfg(test)]
mod tests {
    use super::super::{FilterLayout, FilterSource};
    use super::*;
    use crate::hash::KeyHasher;
    use crate::policy::{BuildContext, KindPolicy};
    use crate::units::FalsePositiveRate;

    #[derive(Debug)]
    struct Source(Bytes);

    impl FilterSource for Source {
        fn load(&self, _unit: u32) -> Result<FilterBlock<Bytes>, BlockError> {
            FilterBlock::load(self.0.clone(), &KeyHasher::default())
        }
    }

    #[test]
    fn a_block_that_a_reader_keeps_from_growing_is_loaded_once_for_each_plan() {
        let policy = KindPolicy::ribbon(FalsePositiveRate::ONE_PERCENT).unwrap();
        let mut builder = policy.builder(&BuildContext::new(&KeyHasher::default()));
        (0..20_000_u32).for_each(|key| builder.add_key(&key.to_le_bytes()));
        let block = builder.finish().block.unwrap();
        let bytes = block.len() as u64;
        let pool = Pool::new(10 * bytes);
        let file = File::new(FilterLayout::Whole { bytes }, Arc::new(Source(block)));
        let unit = &file.units[0];
        let load_under = |plan: u8, planned_bytes: u64| {
            pool.number.store(plan, Ordering::Relaxed);
            unit.set_planned_bytes(planned_bytes);
            let loaded = pool.load(&file, 0, unit, &|_| true).is_some();
            (loaded, unit.held_bytes() > bytes / 2, pool.counts.loads.load(Ordering::Relaxed))
        };

        assert_eq!(load_under(1, bytes / 2), (true, false, 1));
        let reader = unit.held();
        assert_eq!(load_under(2, bytes / 4 * 3), (true, false, 2));
        assert_eq!(load_under(2, bytes / 4 * 3), (false, false, 2));
        drop(reader);
        assert_eq!(load_under(3, bytes / 4 * 3), (true, true, 3));
    }
}
