//! Partitioned filters that are damaged in every bit. The failure guarded against: a bit of a
//! top index sends a key to another partition, one damaged partition disables the filter of the whole file, or, worst,
//! it answers "absent" for a key in the file.

use std::ops::Range;

use sstfilter::KeyHash;

use crate::cases::{CONTAINERS, ContainerCase};
use crate::common;
use crate::common::effort;
use crate::container::Container;

type Keys = Vec<(Vec<u8>, KeyHash)>;

/// A sound container with some keys that it contains and some that it lacks.
struct Sound {
    case: ContainerCase,
    filter: Container,
    /// The range of each partition's block.
    ranges: Vec<Range<usize>>,
    present: Keys,
    absent: Keys,
}

impl Sound {
    fn all() -> Vec<Self> {
        let of = |case: &ContainerCase| {
            let filter = case.load(&case.read());
            let ranges = filter.ranges();
            let present = case.keys().into_iter().step_by(97).collect();
            let absent =
                case.absent_keys(200).into_iter().filter(|(key, hash)| !filter.may_contain(key, *hash)).collect();
            Self { case: *case, filter, ranges, present, absent }
        };
        CONTAINERS.iter().map(of).collect()
    }

    fn bytes(&self) -> &[u8] {
        self.filter.as_bytes()
    }

    fn number_of(&self, (key, hash): &(Vec<u8>, KeyHash)) -> u32 {
        self.filter.index.locate(key, *hash).0
    }

    /// Returns the partitions whose blocks contain one of these bytes.
    fn touched(&self, from: usize, to: usize) -> Vec<u32> {
        let ranges = (0..).zip(&self.ranges);
        ranges.filter(|(_, range)| from < range.end && to > range.start).map(|(number, _)| number).collect()
    }

    /// Checks that damage is noticed, loses no key, and leaves the other partitions unchanged. Only the partitions in
    /// `touched` may become unusable.
    fn assert_contained(&self, damaged: &[u8], touched: &[u32], what: &str) {
        let name = self.case.name;
        let Ok(filter) = Container::load(damaged, self.case.load_context()) else {
            assert!(touched.is_empty(), "{name}: {what} makes the whole filter unusable");
            return;
        };
        assert!(filter.verify().is_err(), "{name}: {what} passes for sound");
        assert_eq!(filter.problems().iter().map(|(number, _)| *number).collect::<Vec<_>>(), touched, "{name}: {what}");
        for (key, hash) in &self.present {
            assert!(filter.may_contain(key, *hash), "{name}: {what} loses {key:?}");
        }
        for key in &self.absent {
            let is_touched = touched.contains(&self.number_of(key));
            assert_eq!(filter.may_contain(&key.0, key.1), is_touched, "{name}: {what}: {key:?}");
        }
    }
}

/// Flips all bits in the long form, otherwise one in five.
// promise: limited-memory
#[test]
fn every_flipped_bit_is_found_and_makes_only_the_keys_of_its_partition_may_be_present() {
    for sound in Sound::all() {
        assert!(sound.case.keys == 0 || sound.ranges.len() > 2 && sound.absent.len() > 150, "{}", sound.case.name);
        let (bytes, step) = (sound.bytes(), effort::sample(5));
        common::on_all_cores((bytes.len() * 8).div_ceil(step), |number| {
            let (at, bit) = (number * step / 8, number * step % 8);
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 1 << bit;
            sound.assert_contained(&damaged, &sound.touched(at, at + 1), &format!("bit {bit} of byte {at}"));
        });
    }
}
