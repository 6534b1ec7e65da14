use super::*;
use crate::hash::{KeyHash, mix64};

/// Three cells anywhere, each in a third of the array.
#[derive(Clone, Copy)]
struct Thirds(usize);

impl Placement<3> for Thirds {
    fn place(&self, hash: u64) -> ([usize; 3], u32) {
        // Divided before the cast, so that the result does not depend on the width of `usize`.
        ([0, 1, 2].map(|third| third * self.0 + ((mix64(hash ^ third as u64) >> 16) % self.0 as u64) as usize), 0)
    }
}

fn hashes(count: u64) -> impl Iterator<Item = KeyHash> + Clone {
    (0..count).map(KeyHash::mix)
}

fn peeled(third: usize, hashes: impl Iterator<Item = KeyHash>) -> (CellSums, Option<PeelOrder>) {
    let mut sums = CellSums::new(3 * third as u64).unwrap();
    sums.add_all(Thirds(third), hashes).unwrap();
    let order = sums.peel(Thirds(third), NO_RESERVE);
    assert!(!matches!(order, Err(AttemptError::Fatal(_))));
    (sums, order.ok())
}

#[test]
fn cells_set_in_the_order_given_satisfy_every_key() {
    for count in [0, 1, 2, 10, 1_000, 100_000] {
        let third = (count as usize * 42 / 100).max(8);
        let (sums, order) = peeled(third, hashes(count));
        let (order, mut cells) = (order.unwrap(), vec![0_u64; 3 * third]);
        sums.assign(&order, |cell, hash| {
            assert_eq!(cells[cell], 0, "set twice");
            cells[cell] = Thirds(third).cells_of(hash).iter().fold(mix64(hash), |sum, &other| sum ^ cells[other]);
        });
        let sum_of = |hash: KeyHash| Thirds(third).cells_of(hash.get()).iter().fold(0, |sum, &cell| sum ^ cells[cell]);
        assert!(hashes(count).all(|hash| sum_of(hash) == mix64(hash.get())), "{count} keys");
    }
}

#[test]
fn the_order_depends_on_the_set_of_keys_alone() {
    let order_of = |hashes: Vec<KeyHash>| peeled(420, hashes.into_iter()).1.unwrap();
    let ascending: Vec<KeyHash> = hashes(1_000).collect();
    let descending: Vec<KeyHash> = ascending.iter().rev().copied().collect();
    assert_eq!(order_of(ascending), order_of(descending));
}

#[test]
fn too_many_keys_and_keys_that_come_twice_are_not_peeled() {
    assert!(peeled(1_000, hashes(3_000)).1.is_none());
    assert!(peeled(1_000, hashes(10).chain(hashes(1))).1.is_none());
    assert!(peeled(1_000, hashes(10).chain(hashes(1)).chain(hashes(1))).1.is_none());
}

#[test]
fn a_cell_with_more_keys_than_can_be_counted_is_an_error() {
    let mut sums = CellSums::new(300).unwrap();
    assert_eq!(sums.add_all(Thirds(100), core::iter::repeat_n(KeyHash::mix(1), 255)), Ok(()));
    assert_eq!(sums.add_all(Thirds(100), hashes(2)), Err(AttemptError::Retry));
    sums.clear();
    assert_eq!((sums.add_all(Thirds(100), hashes(2)), sums.added), (Ok(()), 2));
}

#[test]
fn more_cells_than_there_is_memory_for_are_refused() {
    assert_eq!(CellSums::new(1 << 60).err(), Some(FallbackReason::MemoryBudget));
}

/// The first half of the keys has its cells in the first half of the cells, and so on.
#[derive(Clone, Copy)]
struct Halves(usize);

impl Placement<3> for Halves {
    fn place(&self, hash: u64) -> ([usize; 3], u32) {
        let (cells, bits) = Thirds(self.0).place(hash);
        (cells.map(|cell| (hash >> 63) as usize * 3 * self.0 + cell), bits)
    }
}

#[test]
fn keys_that_threads_add_are_added_as_by_one() {
    for (third, count) in [(5_000, 10_000), (5, 500), (5, 10_000)] {
        let mut hashes: Vec<KeyHash> = hashes(count).collect();
        hashes.sort_unstable();
        let (first, second) = hashes.split_at(hashes.partition_point(|hash| hash.get() >> 63 == 0));
        let (halves, cells) = (Halves(third), 6 * third);
        let [mut by_one, mut by_parts] = [0; 2].map(|_| CellSums::new(cells as u64).unwrap());
        let parts = vec![(0..cells / 2, first), (cells / 2..cells, second)];
        let outcome = by_one.add_all(halves, hashes.iter().copied());
        assert_eq!(
            (&by_parts.add_parts(halves, parts, 2), outcome.is_err()),
            (&outcome, count == 10_000 && third == 5)
        );

        let [mut whole, mut by_block] = [0; 2].map(|_| CellSums::new(3 * third as u64).unwrap());
        let outcome = whole.add_all(Thirds(third), hashes.iter().copied());
        assert_eq!(by_block.add_by_block(Thirds(third), &hashes, 2), outcome);
        for (one, other) in [(by_one, by_parts), (whole, by_block)] {
            assert_eq!((&one.hashes, &one.keys, one.added), (&other.hashes, &other.keys, other.added));
        }
    }
}
