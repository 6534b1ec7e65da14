//! Partitioned filters that are damaged in every bit, and mixed from several. The failure guarded against: a bit of a
//! top index sends a key to another partition, one damaged partition disables the filter of the whole file, or, worst,
//! it answers "absent" for a key in the file.

use std::ops::Range;

use sstfilter::KeyHash;
use sstfilter_store::PartitionIndex;

use crate::cases::{CONTAINERS, ContainerCase};
use crate::common;
use crate::common::cases::{self};
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

#[test]
fn the_partitions_of_another_file_or_of_an_earlier_write_answer_for_no_key() {
    for sound in Sound::all().into_iter().filter(|sound| sound.case.keys > 0) {
        // The same number of keys, file id and lengths, as after a reused file number or from a stale cache.
        let twin = sound.case.build_of((0..sound.case.keys).map(|number| cases::key(number + 500_000)));
        let mut foreign = 0;
        for ((number, own), other) in (0..).zip(&sound.ranges).zip(sound.case.load(&twin).ranges()) {
            let opened = sound.filter.index.open(number, &twin[other.clone()]);
            assert!(opened.is_err(), "{}: partition {number} of another file", sound.case.name);
            if own.len() == other.len() {
                let mut mixed = sound.bytes().to_vec();
                mixed[own.clone()].copy_from_slice(&twin[other]);
                sound.assert_contained(&mixed, &[number], "a partition of another file");
                foreign += 1;
            }
        }
        assert!(foreign > 0, "{}: no two partitions of equal length", sound.case.name);
        // All partitions of this file under the top index of the other, and the reverse.
        let [own_end, twin_end] = [sound.bytes(), &twin].map(|bytes| bytes.len() - tail_bytes(bytes));
        let crossed = [&sound.bytes()[..own_end], &twin[twin_end..]].concat();
        let crossed = Container::load(&crossed, sound.case.load_context());
        let loses = |filter: &Container| sound.present.iter().any(|(key, hash)| !filter.may_contain(key, *hash));
        assert!(crossed.as_ref().map_or(true, |filter| !loses(filter)), "{}", sound.case.name);
    }
}

fn tail_bytes(container: &[u8]) -> usize {
    usize::try_from(PartitionIndex::tail_bytes(container).unwrap()).unwrap()
}

#[test]
fn a_container_opened_without_reading_it_finds_damage_at_the_first_probe() {
    for sound in Sound::all().into_iter().filter(|sound| sound.ranges.len() > 1) {
        let mut damaged = sound.bytes().to_vec();
        damaged[sound.ranges[1].start] ^= 1;
        let filter = Container::open(&damaged, sound.case.load_context()).unwrap();
        for key in &sound.absent {
            assert_eq!(filter.may_contain(&key.0, key.1), sound.number_of(key) == 1, "{}", sound.case.name);
        }
        assert!(sound.present.iter().all(|(key, hash)| filter.may_contain(key, *hash)));
        assert_eq!(filter.problems().iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1], "{}", sound.case.name);
    }
}
