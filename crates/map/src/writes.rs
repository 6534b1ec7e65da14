//! Write ids: which flushes wrote an entry of a key, for stores whose compactions rewrite files many times.
//!
//! A map of files must add an entry again whenever a compaction moves it to another file. A map of writes names the
//! flush that wrote the entry, which no compaction changes. Each file states the flushes that wrote its own entries, as
//! an interval, and is skipped if the key was written by none of them.

/// Bits of a counter.
const COUNTER_BITS: u32 = 40;

/// The number of a flush: the writer's epoch, and a counter within it.
///
/// A number must never be given to two flushes. The writer that repeats a flush after a crash would give the lost one's
/// number to other keys, and a map of the lost one would lose them. So the epoch is part of the number: take a new one,
/// and make it durable, each time the store is opened for writing, and for each clone of the store.
///
/// The counter may count flushes, from 1, or be the sequence number of an entry: a flush then writes an interval of
/// numbers. An entry keeps the epoch in which it was written, so store the sequence number at which each epoch begins.
/// When the counter is full, take a new epoch.
///
/// ```
/// use sstfilter_map::WriteId;
///
/// let lost = WriteId::new(1, 17).expect("a small number");
/// let repeated = WriteId::new(2, 17).expect("a small number");
/// assert!(lost < repeated);
/// assert_eq!(WriteId::from_stored(lost.get()), lost);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(pub(crate) u64);

impl WriteId {
    /// The least number.
    pub const MIN: Self = Self(0);

    /// The greatest number.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns a number of an epoch below 2^24 and a counter below 2^40, or `None`.
    #[must_use]
    pub const fn new(epoch: u32, counter: u64) -> Option<Self> {
        let fits = epoch >> (64 - COUNTER_BITS) == 0 && counter >> COUNTER_BITS == 0;
        if fits { Some(Self((epoch as u64) << COUNTER_BITS | counter)) } else { None }
    }

    /// Returns a number that was stored as [`get`](Self::get) returned it.
    #[must_use]
    pub const fn from_stored(stored: u64) -> Self {
        Self(stored)
    }

    /// Returns the number as it is stored.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the epoch of the writer.
    #[must_use]
    pub const fn epoch(self) -> u32 {
        (self.0 >> COUNTER_BITS) as u32
    }

    pub(crate) const fn counter(self) -> u64 {
        self.0 & ((1 << COUNTER_BITS) - 1)
    }

    /// Returns the least number above this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// An interval of write ids, with both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Writes {
    pub(crate) first: WriteId,
    pub(crate) last: WriteId,
}

impl Writes {
    /// All write ids.
    pub const ALL: Self = Self { first: WriteId::MIN, last: WriteId::MAX };

    /// Returns the interval of one number.
    #[must_use]
    pub const fn of(id: WriteId) -> Self {
        Self { first: id, last: id }
    }

    /// Returns the interval from `first` to `last`; `None` if `last` is below `first`.
    #[must_use]
    pub fn new(first: WriteId, last: WriteId) -> Option<Self> {
        (first <= last).then_some(Self { first, last })
    }

    /// Returns the least number.
    #[must_use]
    pub const fn first(self) -> WriteId {
        self.first
    }

    /// Returns the greatest number.
    #[must_use]
    pub const fn last(self) -> WriteId {
        self.last
    }

    /// Returns the least interval that includes both.
    #[must_use]
    pub fn including(self, other: Self) -> Self {
        Self { first: self.first.min(other.first), last: self.last.max(other.last) }
    }

    /// Returns what the map of a flush of these writes covers: also the numbers after `previous`, which belong to no
    /// flush. `previous` is the last number of the flush that joins the store before this one, whether it has joined by
    /// now or not. `None` is for the first flush of an empty store, and covers all smaller numbers. The views of
    /// `sstfilter-store` compute it (`FilterView::flush_covers`).
    ///
    /// Only the map covers these numbers; the file states its own.
    ///
    /// ```
    /// use sstfilter_map::{WriteId, Writes};
    ///
    /// let [last, lost, next] = [(1, 17), (1, 18), (2, 1)].map(|(epoch, number)| WriteId::new(epoch, number).unwrap());
    /// let covered = Writes::of(next).after(Some(last));
    /// assert!(covered.first() == lost && covered.last() == next);
    /// ```
    #[must_use]
    pub fn after(self, previous: Option<WriteId>) -> Self {
        let first = previous.map_or(WriteId::MIN, WriteId::next);
        Self { first: self.first.min(first), ..self }
    }

    /// Returns the part from `first` to `last`; `None` if there is none.
    #[must_use]
    pub fn within(self, first: WriteId, last: WriteId) -> Option<Self> {
        Self::new(self.first.max(first), self.last.min(last))
    }

    /// Returns whether the intervals have a number in common.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Sorts intervals, and unites those that overlap. Then unites neighbours without a gap, if both are below `floor`.
pub(crate) fn unite(mut all: Vec<Writes>, floor: WriteId) -> Vec<Writes> {
    all.sort_unstable_by_key(|writes| writes.first);
    let unite_if = |all: Vec<Writes>, is_one: &dyn Fn(Writes, Writes) -> bool| {
        let mut united = Vec::<Writes>::new();
        for writes in all {
            match united.last_mut() {
                Some(before) if is_one(*before, writes) => *before = before.including(writes),
                _ => united.push(writes),
            }
        }
        united
    };
    let apart = unite_if(all, &Writes::overlaps);
    // The gap between two intervals may be a flush that no map covers.
    unite_if(apart, &|before, writes| before.last.next() == writes.first && writes.last < floor)
}

/// Returns the position of the interval that includes `writes`, of intervals that ascend and do not overlap.
pub(crate) fn position_of(writes: Writes, all: &[Writes]) -> Option<usize> {
    let position = all.partition_point(|other| other.first <= writes.first).checked_sub(1)?;
    all.get(position).filter(|other| writes.last <= other.last).map(|_| position)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(first: u64, last: u64) -> Writes {
        Writes::new(WriteId(first), WriteId(last)).unwrap()
    }

    #[test]
    fn a_number_keeps_its_epoch_above_its_counter() {
        let id = |epoch, counter| WriteId::new(epoch, counter).map(WriteId::get);
        assert_eq!([id(0, 0), id(1, 2)], [Some(0), Some((1 << 40) + 2)]);
        assert_eq!([id(1 << 24, 0), id(0, 1 << 40)], [None; 2]);
        assert_eq!(WriteId::new((1 << 24) - 1, (1 << 40) - 1), Some(WriteId::MAX));
        assert_eq!((WriteId::MAX.next(), WriteId::MAX.epoch()), (WriteId::MAX, (1 << 24) - 1));
    }

    #[test]
    fn intervals_are_united_if_they_overlap_or_are_neighbours_below_the_floor() {
        let unite = |all: &[(u64, u64)], floor| {
            let united = unite(all.iter().map(|&(first, last)| writes(first, last)).collect(), WriteId(floor));
            united.iter().map(|writes| (writes.first.0, writes.last.0)).collect::<Vec<_>>()
        };
        assert_eq!(unite(&[], 9), []);
        assert_eq!(unite(&[(4, 6), (1, 3)], 0), [(1, 3), (4, 6)]);
        assert_eq!(unite(&[(4, 6), (1, 3), (7, 9)], 7), [(1, 6), (7, 9)]);
        assert_eq!(unite(&[(4, 6), (1, 3), (7, 9)], 9), [(1, 6), (7, 9)]);
        assert_eq!(unite(&[(4, 6), (1, 3), (7, 9)], 10), [(1, 9)]);
        // A write that no map covers.
        assert_eq!(unite(&[(1, 3), (5, 6)], 10), [(1, 3), (5, 6)]);
        assert_eq!(unite(&[(1, 8), (2, 3), (8, 12), (13, 13)], 13), [(1, 12), (13, 13)]);
        assert_eq!(unite(&[(0, u64::MAX), (3, 3)], 0), [(0, u64::MAX)]);
    }

    #[test]
    fn an_interval_is_covered_only_as_a_whole() {
        let all = [writes(2, 4), writes(6, 6)];
        let position = |first, last| position_of(writes(first, last), &all);
        assert_eq!([position(2, 4), position(3, 3), position(6, 6)], [Some(0), Some(0), Some(1)]);
        assert_eq!([position(1, 2), position(4, 5), position(4, 6), position(5, 5), position(7, 9)], [None; 5]);
        assert_eq!(position_of(Writes::ALL, &all), None);
    }
}
