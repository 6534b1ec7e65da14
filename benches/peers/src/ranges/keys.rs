//! Sorted keys, and ranges between them.

use std::io::{self, Read};
use std::ops::Bound;

use flate2::read::GzDecoder;
use sstfilter::KeyRange;

use crate::random::Random;
use crate::subject::Queries;

/// Names of Debian 12, and names of a later release that Debian 12 does not have.
const NAMES: &[u8] = include_bytes!("../../../../crates/cli/keys/debian-bookworm-packages.tsv.gz");
const ABSENT_NAMES: &[u8] = include_bytes!("../../../../crates/cli/keys/debian-sid-only-packages.txt.gz");

/// Letters at which a random range starts.
const LETTERS: usize = 8;

/// A kind of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// Numbers of 64 bits, uniformly distributed.
    Uniform,
    /// Numbers of 64 bits, normally distributed: close together around 2^63.
    Normal,
    /// Package names of Debian 12; absent names are from a later release.
    Names,
    /// Package names of Debian 12, with ranges that start at random letters.
    NamesAndLetters,
}

impl KeyKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Uniform, Self::Normal, Self::Names, Self::NamesAndLetters];

    /// Returns the name in the records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "u64, uniform",
            Self::Normal => "u64, normal",
            Self::Names => "Debian names",
            Self::NamesAndLetters => "Debian names, ranges at random",
        }
    }

    /// Returns whether the keys are numbers.
    pub fn is_of_numbers(self) -> bool {
        matches!(self, Self::Uniform | Self::Normal)
    }

    /// A number of this distribution.
    fn draw(self, random: &mut Random) -> u64 {
        if self == Self::Normal { random.normal() } else { random.next() }
    }
}

/// Concatenated byte strings.
#[derive(Clone, Debug, Default)]
pub struct Strings {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Strings {
    fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len());
    }

    fn of_numbers(numbers: &[u64]) -> Self {
        let mut strings = Self::default();
        numbers.iter().for_each(|number| strings.push(&number.to_be_bytes()));
        strings
    }

    /// The string at a position that exists.
    fn get(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[index]]
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).map(|index| self.get(index))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the first string that is not below `string`.
    fn seek_hint(&self, string: &[u8]) -> Option<&[u8]> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.get(middle) < string { low = middle + 1 } else { high = middle }
        }
        (low < self.len()).then(|| self.get(low))
    }
}

/// Keys in order, each once.
#[derive(Clone, Debug)]
pub struct SortedKeys {
    /// The keys as numbers; none of names.
    pub numbers: Vec<u64>,
    /// The keys as bytes: big-endian numbers, or names.
    pub bytes: Strings,
}

impl SortedKeys {
    /// These numbers.
    pub fn of_numbers(mut numbers: Vec<u64>) -> Self {
        numbers.sort_unstable();
        numbers.dedup();
        Self { bytes: Strings::of_numbers(&numbers), numbers }
    }

    /// `count` numbers, or all names.
    ///
    /// # Errors
    ///
    /// The decompressor's error.
    pub fn new(kind: KeyKind, count: usize) -> io::Result<Self> {
        if !kind.is_of_numbers() {
            let mut bytes = Strings::default();
            names(NAMES)?.iter().for_each(|name| bytes.push(name));
            return Ok(Self { numbers: Vec::new(), bytes });
        }
        let mut random = Random::new(1);
        Ok(Self::of_numbers((0..count).map(|_| kind.draw(&mut random)).collect()))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether no key is in the range, both ends included.
    fn none_in(&self, lower: &[u8], upper: &[u8]) -> bool {
        self.bytes.seek_hint(lower).is_none_or(|key| key > upper)
    }

    fn no_number_in(&self, lower: u64, upper: u64) -> bool {
        let index = self.numbers.partition_point(|&key| key < lower);
        self.numbers.get(index).is_none_or(|&key| key > upper)
    }

    /// Returns `count` ranges of `length` without a key, or one for each absent name. They start like keys of this
    /// kind: at a number, at an absent name, or at random letters.
    ///
    /// # Errors
    ///
    /// The decompressor's error.
    pub fn empty_ranges(&self, kind: KeyKind, length: u64, count: usize) -> io::Result<RangeSet> {
        let (mut ranges, mut random) = (RangeSet::default(), Random::new(2));
        let lowers = match kind {
            KeyKind::Uniform | KeyKind::Normal => Vec::new(),
            KeyKind::Names => {
                let mut absent = names(ABSENT_NAMES)?;
                random.shuffle(&mut absent);
                absent
            }
            KeyKind::NamesAndLetters => (0..count).map(|_| random.letters(LETTERS)).collect(),
        };
        for lower in lowers.into_iter().take(count) {
            let upper = plus(&lower, length - 1);
            if self.none_in(&lower, &upper) {
                ranges.push(&lower, &upper);
            }
        }
        while kind.is_of_numbers() && ranges.len() < count {
            self.push_if_empty(kind.draw(&mut random), length, &mut ranges);
        }
        Ok(ranges)
    }

    /// Returns `count` ranges of `length` without a key that start up to 2^`distance_log2` above one, or fewer if keys
    /// are dense.
    pub fn ranges_above_keys(&self, distance_log2: u32, length: u64, count: usize) -> RangeSet {
        let (mut ranges, mut random) = (RangeSet::default(), Random::new(3));
        for _ in 0..count {
            let key = self.numbers[random.below(self.numbers.len())];
            let start = key.saturating_add(1 + random.below_u64(1 << distance_log2));
            self.push_if_empty(start, length, &mut ranges);
        }
        ranges
    }

    fn push_if_empty(&self, lower: u64, length: u64, ranges: &mut RangeSet) {
        let upper = lower.saturating_add(length - 1);
        if self.no_number_in(lower, upper) {
            ranges.push_numbers(lower, upper);
        }
    }

    /// Returns `count` ranges of `length` with a key at any position. With names, they start at the first bytes of the
    /// key.
    pub fn ranges_with_a_key(&self, length: u64, count: usize) -> RangeSet {
        let (mut ranges, mut random) = (RangeSet::default(), Random::new(4));
        for _ in 0..count {
            let index = random.below(self.len());
            if let Some(&key) = self.numbers.get(index) {
                let lower = key.saturating_sub(random.below_u64(length));
                ranges.push_numbers(lower, lower.saturating_add(length - 1));
            } else {
                let key = self.bytes.get(index);
                let cut = if length == 1 { 0 } else { random.below(5) };
                ranges.push(&key[..key.len().saturating_sub(cut)], &plus(key, length - 1));
            }
        }
        ranges
    }

    /// Returns the ranges from above each key to the next one, which is in the range.
    pub fn ranges_between_keys(&self) -> RangeSet {
        let mut ranges = RangeSet::default();
        for index in 1..self.len() {
            if let (Some(&before), Some(&key)) = (self.numbers.get(index - 1), self.numbers.get(index)) {
                ranges.push_numbers(before + 1, key);
            } else {
                let mut above = self.bytes.get(index - 1).to_vec();
                above.push(0);
                ranges.push(&above, self.bytes.get(index));
            }
        }
        ranges
    }

    /// Returns `count` numbers close to multiples of `step`, and for each a range of `length` that contains it and
    /// crosses the multiple.
    pub fn around_multiples(step: u64, length: u64, count: usize, seed: u64) -> (Self, RangeSet) {
        let (mut ranges, mut random) = (RangeSet::default(), Random::new(16 + seed));
        let mut numbers = Vec::with_capacity(count);
        for _ in 0..count {
            let multiple = (1 + random.below_u64(u64::MAX / step - 1)) * step;
            let key = multiple - (length - 1) + random.below_u64(2 * length - 2);
            let first = key.max(multiple) - (length - 1);
            let lower = first + random.below_u64(key.min(multiple - 1) - first + 1);
            numbers.push(key);
            ranges.push_numbers(lower, lower + (length - 1));
        }
        (Self::of_numbers(numbers), ranges)
    }
}

/// The first field of each line.
fn names(compressed: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let mut text = String::new();
    GzDecoder::new(compressed).read_to_string(&mut text)?;
    Ok(text.lines().map(|line| line.split('\t').next().unwrap_or(line).into()).collect())
}

/// Returns `string` plus `amount`, as big-endian numbers of the same length.
fn plus(string: &[u8], amount: u64) -> Vec<u8> {
    let (mut sum, mut rest) = (string.to_vec(), amount);
    for byte in sum.iter_mut().rev() {
        rest += u64::from(*byte);
        *byte = rest.to_le_bytes()[0];
        rest >>= 8;
    }
    if rest == 0 { sum } else { vec![u8::MAX; string.len()] }
}

/// Ranges with both ends included, as numbers for peers that take numbers, and as bytes for all.
#[derive(Clone, Debug, Default)]
pub struct RangeSet {
    numbers: Vec<[u64; 2]>,
    ends: Strings,
}

impl RangeSet {
    fn push(&mut self, lower: &[u8], upper: &[u8]) {
        self.ends.push(lower);
        self.ends.push(upper);
    }

    fn push_numbers(&mut self, lower: u64, upper: u64) {
        self.numbers.push([lower, upper]);
        self.push(&lower.to_be_bytes(), &upper.to_be_bytes());
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len() / 2
    }

    /// Returns the ranges in the form of our filters.
    pub fn keys(&self) -> Vec<KeyRange<'_>> {
        let end = |index| Bound::Included(self.ends.get(index));
        (0..self.len()).map(|index| KeyRange { lower: end(2 * index), upper: end(2 * index + 1) }).collect()
    }

    /// All of them; `keys` are those of [`keys`](Self::keys).
    pub fn all<'a>(&'a self, keys: &'a [KeyRange<'a>]) -> Ranges<'a> {
        Ranges { numbers: &self.numbers, keys }
    }
}

/// A part of a [`RangeSet`].
#[derive(Clone, Copy, Debug)]
pub struct Ranges<'a> {
    /// The ends as numbers; none of names.
    pub numbers: &'a [[u64; 2]],
    /// The same ranges of bytes, in the same order.
    pub keys: &'a [KeyRange<'a>],
}

impl Queries for Ranges<'_> {
    fn chunks(self, count: usize) -> impl Iterator<Item = Self> {
        self.keys.chunks(count).enumerate().map(move |(part, keys)| {
            let numbers = self.numbers.get(part * count..part * count + keys.len()).unwrap_or_default();
            Self { numbers, keys }
        })
    }

    fn len(self) -> usize {
        self.keys.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number_of_keys(keys: &SortedKeys, range: &KeyRange<'_>) -> usize {
        keys.bytes.iter().filter(|key| range.contains(key)).count()
    }

    #[test]
    fn empty_ranges_hold_no_key_and_the_others_hold_one() {
        for kind in KeyKind::ALL {
            let keys = SortedKeys::new(kind, 2_000).unwrap();
            let strings: Vec<_> = keys.bytes.iter().collect();
            assert!(strings.is_sorted() && !strings.is_empty(), "{kind:?}");
            for length in [1, 1 << 5, 1 << 20] {
                let empty = keys.empty_ranges(kind, length, 50).unwrap();
                assert!(empty.keys().iter().all(|range| number_of_keys(&keys, range) == 0), "{kind:?} {length}");
                let held = keys.ranges_with_a_key(length, 50);
                assert!(held.keys().iter().all(|range| number_of_keys(&keys, range) > 0), "{kind:?} {length}");
            }
        }
    }

    #[test]
    fn ranges_around_multiples_hold_their_key_and_both_sides_of_a_multiple() {
        for length in [2, 3, 1 << 5] {
            let (keys, ranges) = SortedKeys::around_multiples(1_000, length, 500, 0);
            assert!(ranges.keys().iter().all(|range| number_of_keys(&keys, range) > 0), "{length}");
            assert!(ranges.numbers.iter().all(|[lower, upper]| lower / 1_000 != upper / 1_000), "{length}");
            assert!(ranges.numbers.iter().all(|[lower, upper]| upper - lower == length - 1), "{length}");
        }
    }

    #[test]
    fn ranges_between_keys_hold_one_key_each() {
        let keys = SortedKeys::of_numbers(vec![9, 3, 4, 3]);
        let ranges = keys.ranges_between_keys();
        assert_eq!(ranges.numbers, [[4, 4], [5, 9]]);
        assert!(ranges.keys().iter().all(|range| number_of_keys(&keys, range) == 1));
    }

    #[test]
    fn adding_to_a_string_carries_and_stops_at_its_end() {
        assert_eq!(plus(b"ab", 1), b"ac");
        assert_eq!(plus(&[1, 0xff], 2), [2, 1]);
        assert_eq!(plus(&[0xff, 0xff], 1), [0xff, 0xff]);
    }
}
