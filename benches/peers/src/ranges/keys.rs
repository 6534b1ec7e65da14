//! Sorted keys, and ranges between them.

use std::io::{self, Read};
use std::iter;
use std::ops::{Bound, Range};

use flate2::read::GzDecoder;
use sstfilter::KeyRange;

use crate::random::Random;
use crate::subject::Queries;

/// Names of Debian 12, and names of a later release that Debian 12 does not have.
const NAMES: &[u8] = include_bytes!("../../../../crates/cli/keys/debian-bookworm-packages.tsv.gz");
const ABSENT_NAMES: &[u8] = include_bytes!("../../../../crates/cli/keys/debian-sid-only-packages.txt.gz");

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

    /// A number of this distribution, big-endian, or eight letters.
    fn draw(self, random: &mut Random) -> [u8; 8] {
        match self {
            Self::Uniform => random.next().to_be_bytes(),
            Self::Normal => random.normal().to_be_bytes(),
            Self::Names | Self::NamesAndLetters => [(); 8].map(|()| random.letter()),
        }
    }
}

/// Concatenated byte strings.
#[derive(Clone, Debug, Default)]
pub struct Strings {
    bytes: Vec<u8>,
    spans: Vec<Range<usize>>,
}

/// Ranges with both ends included: a lower and an upper end in turn.
pub type RangeSet = Strings;

impl<S: AsRef<[u8]>> FromIterator<S> for Strings {
    fn from_iter<I: IntoIterator<Item = S>>(strings: I) -> Self {
        let mut all = Self::default();
        for string in strings {
            let start = all.bytes.len();
            all.bytes.extend_from_slice(string.as_ref());
            all.spans.push(start..all.bytes.len());
        }
        all
    }
}

impl Strings {
    /// The string at a position that exists.
    fn get(&self, index: usize) -> &[u8] {
        &self.bytes[self.spans[index].clone()]
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.spans.iter().map(|span| &self.bytes[span.clone()])
    }

    /// The big-endian numbers that they are; none unless all have eight bytes.
    fn numbers(&self) -> Vec<u64> {
        let numbers = self.iter().map(|string| string.try_into().map(u64::from_be_bytes));
        numbers.collect::<Result<_, _>>().unwrap_or_default()
    }

    /// Returns the ranges whose ends these are.
    pub fn view(&self) -> RangeView<'_> {
        let ends: Vec<_> = self.iter().map(Bound::Included).collect();
        let keys = ends.as_chunks().0.iter().map(|&[lower, upper]| KeyRange { lower, upper }).collect();
        RangeView { numbers: self.numbers(), keys }
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
    fn of<S: AsRef<[u8]> + Ord>(mut keys: Vec<S>) -> Self {
        keys.sort_unstable();
        keys.dedup();
        let bytes: Strings = keys.into_iter().collect();
        Self { numbers: bytes.numbers(), bytes }
    }

    /// `count` numbers, or all names.
    ///
    /// # Errors
    ///
    /// The decompressor's error.
    pub fn new(kind: KeyKind, count: usize) -> io::Result<Self> {
        if !kind.is_of_numbers() {
            return Ok(Self::of(names(NAMES)?));
        }
        let mut random = Random::new(1);
        Ok(Self::of((0..count).map(|_| kind.draw(&mut random)).collect()))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.bytes.spans.len()
    }

    /// Returns whether no key is in the range, both ends included.
    fn none_in(&self, [lower, upper]: &[Vec<u8>; 2]) -> bool {
        let first = self.bytes.spans.partition_point(|span| self.bytes.bytes[span.clone()] < **lower);
        first == self.len() || self.bytes.get(first) > upper.as_slice()
    }

    /// Returns `count` ranges of `length` without a key, or one for each absent name. They start like keys of this
    /// kind: at a number, at an absent name, or at random letters.
    ///
    /// # Errors
    ///
    /// The decompressor's error.
    pub fn empty_ranges(&self, kind: KeyKind, length: u64, count: usize) -> io::Result<RangeSet> {
        let mut random = Random::new(2);
        let starts: Box<dyn Iterator<Item = Vec<u8>>> = if kind == KeyKind::Names {
            let mut absent = names(ABSENT_NAMES)?;
            random.shuffle(&mut absent);
            Box::new(absent.into_iter())
        } else {
            Box::new(iter::repeat_with(|| kind.draw(&mut random).to_vec()))
        };
        let ranges = starts.map(|lower| range_from(lower, length));
        Ok(ranges.filter(|range| self.none_in(range)).take(count).flatten().collect())
    }

    /// Returns `count` ranges of `length` without a key that start up to 2^`distance_log2` above one, or fewer if keys
    /// are dense.
    pub fn ranges_above_keys(&self, distance_log2: u32, length: u64, count: usize) -> RangeSet {
        let mut random = Random::new(3);
        let ranges = (0..count).map(|_| {
            let key = self.numbers[random.below(self.numbers.len())];
            let lower = key.saturating_add(1 + random.below_u64(1 << distance_log2));
            range_from(lower.to_be_bytes(), length)
        });
        ranges.filter(|range| self.none_in(range)).flatten().collect()
    }

    /// Returns `count` ranges of `length` with a key at any position. With names, they start at the first bytes of the
    /// key.
    pub fn ranges_with_a_key(&self, length: u64, count: usize) -> RangeSet {
        let mut random = Random::new(4);
        let ranges = (0..count).map(|_| {
            let index = random.below(self.len());
            if let Some(number) = self.numbers.get(index) {
                return range_from(number.saturating_sub(random.below_u64(length)).to_be_bytes(), length);
            }
            let key = self.bytes.get(index);
            let cut = if length == 1 { 0 } else { random.below(5) };
            [key[..key.len().saturating_sub(cut)].to_vec(), plus(key, length - 1)]
        });
        ranges.flatten().collect()
    }

    /// Returns the ranges from above each key to the next one, which is in the range.
    pub fn ranges_between_keys(&self) -> RangeSet {
        let above = |key: &[u8]| if self.numbers.is_empty() { [key, &[0]].concat() } else { plus(key, 1) };
        let pairs = self.bytes.iter().zip(self.bytes.iter().skip(1));
        pairs.flat_map(|(before, key)| [above(before), key.to_vec()]).collect()
    }

    /// Returns `count` numbers close to multiples of `step`, and for each a range of `length` that contains it and
    /// crosses the multiple.
    pub fn around_multiples(step: u64, length: u64, count: usize, seed: u64) -> (Self, RangeSet) {
        let (mut keys, mut random) = (Vec::with_capacity(count), Random::new(16 + seed));
        let ranges = (0..count).flat_map(|_| {
            let multiple = (1 + random.below_u64(u64::MAX / step - 1)) * step;
            let key = multiple - (length - 1) + random.below_u64(2 * length - 2);
            let first = key.max(multiple) - (length - 1);
            let lower = first + random.below_u64(key.min(multiple - 1) - first + 1);
            keys.push(key.to_be_bytes());
            range_from(lower.to_be_bytes(), length)
        });
        let ranges = ranges.collect();
        (Self::of(keys), ranges)
    }
}

/// Returns the ends of a range of `length`.
fn range_from(lower: impl Into<Vec<u8>>, length: u64) -> [Vec<u8>; 2] {
    let lower = lower.into();
    let upper = plus(&lower, length - 1);
    [lower, upper]
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

/// The ranges of a [`RangeSet`], in the forms of all filters.
#[derive(Clone, Debug)]
pub struct RangeView<'a> {
    numbers: Vec<u64>,
    keys: Vec<KeyRange<'a>>,
}

impl RangeView<'_> {
    /// All of them.
    pub fn all(&self) -> Ranges<'_> {
        Ranges { numbers: self.numbers.as_chunks().0, keys: &self.keys }
    }
}

/// A part of a [`RangeView`].
#[derive(Clone, Copy, Debug)]
pub struct Ranges<'a> {
    /// The ends as numbers, if all have eight bytes.
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
                assert!(empty.view().keys.iter().all(|range| number_of_keys(&keys, range) == 0), "{kind:?} {length}");
                let held = keys.ranges_with_a_key(length, 50);
                assert!(held.view().keys.iter().all(|range| number_of_keys(&keys, range) > 0), "{kind:?} {length}");
            }
        }
    }

    #[test]
    fn ranges_around_multiples_hold_their_key_and_both_sides_of_a_multiple() {
        for length in [2, 3, 1 << 5] {
            let (keys, ranges) = SortedKeys::around_multiples(1_000, length, 500, 0);
            assert!(ranges.view().keys.iter().all(|range| number_of_keys(&keys, range) > 0), "{length}");
            assert!(
                ranges.view().all().numbers.iter().all(|[lower, upper]| lower / 1_000 != upper / 1_000),
                "{length}"
            );
            assert!(ranges.view().all().numbers.iter().all(|[lower, upper]| upper - lower == length - 1), "{length}");
        }
    }

    #[test]
    fn ranges_between_keys_hold_one_key_each() {
        let keys = SortedKeys::of([9_u64, 3, 4, 3].map(u64::to_be_bytes).to_vec());
        let ranges = keys.ranges_between_keys();
        assert_eq!(ranges.view().all().numbers, [[4, 4], [5, 9]]);
        assert!(ranges.view().keys.iter().all(|range| number_of_keys(&keys, range) == 1));
    }

    #[test]
    fn adding_to_a_string_carries_and_stops_at_its_end() {
        assert_eq!(plus(b"ab", 1), b"ac");
        assert_eq!(plus(&[1, 0xff], 2), [2, 1]);
        assert_eq!(plus(&[0xff, 0xff], 1), [0xff, 0xff]);
    }
}
