//! Published range filters lose keys at boundaries: where a hashed range wraps around, where an end is a key plus a
//! zero byte, where one key is a prefix of another. So these tests compare both maps with a sorted set, on all ranges
//! of small universes, with parameters so small that every range crosses some boundary.

use core::cell::Cell;
use core::ops::Bound;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use sstfilter::internal::code_line::{Portable, Query};
use sstfilter::{
    BlockError, BuildContext, DelimitedPrefix, FallbackReason, FalsePositiveRate, FileId, FixedPrefix, KeyExtractor,
    KeyHasher, KeyRange, LoadContext, MatchBitmap,
};

use super::plan::{HashedPlan, MapPlan, OrderedPlan, RangeUnits};
use super::policy::RangePolicy;

use super::params::CodeMap;
use super::view::ExactRanges;
use super::{RangeBuilder, RangeFilter};
use crate::hashed::mix64;
use crate::{RangeContext, effort};

mod exact;

type Key = Vec<u8>;

/// Returns all strings of `least..=most` bytes of an alphabet.
fn strings(alphabet: &[u8], least: u32, most: u32) -> Vec<Key> {
    let of_length = |length: u32| {
        let letters = alphabet.len();
        (0..letters.pow(length)).map(move |number| {
            (0..length).rev().map(|place| alphabet[number / letters.pow(place) % letters]).collect::<Key>()
        })
    };
    let mut all: Vec<Key> = (least..=most).flat_map(of_length).collect();
    all.sort();
    all
}

/// Returns about `share` / 256 of the universe.
fn sample(universe: &[Key], share: u64, case: u64) -> BTreeSet<Key> {
    let is_in = |number: &(u64, &Key)| mix64(number.0 ^ case << 32) & 255 < share;
    (0..).zip(universe).filter(is_in).map(|(_, key)| key.clone()).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "most callers make the extractor where they pass it")]
fn filter_of(
    plan: MapPlan,
    keys: &BTreeSet<Key>,
    extractor: Option<Arc<dyn KeyExtractor>>,
) -> RangeFilter<bytes::Bytes> {
    let hasher = KeyHasher::default();
    let mut builder = RangePolicy { plan }.builder(&BuildContext::new(&hasher));
    keys.iter().for_each(|key| builder.add_key(key));
    let built = builder.finish();
    let context = RangeContext::new(&hasher, extractor.as_ref());
    RangeFilter::load(built.block.unwrap_or_else(|| panic!("{:?}", built.report)), context).unwrap()
}

/// Returns a filter of ordered codes, also where exact ones would be possible.
fn ordered_of(low_bits: u32, segment_keys: u32, keys: &BTreeSet<Key>) -> RangeFilter<bytes::Bytes> {
    let hasher = KeyHasher::default();
    let mut builder = RangePolicy { plan: ordered(low_bits, segment_keys) }.builder(&BuildContext::new(&hasher));
    builder.leave_exact();
    keys.iter().for_each(|key| builder.add_key(key));
    RangeFilter::load(builder.finish().block.unwrap(), &hasher).unwrap()
}

fn ordered(low_bits: u32, segment_keys: u32) -> MapPlan {
    MapPlan::Ordered(OrderedPlan { low_bits, segment_keys })
}

fn hashed(units: RangeUnits, low_bits: u32, line_codes: u32, chunk_bits: u32) -> MapPlan {
    MapPlan::Hashed(HashedPlan { units, longest: 1, low_bits, line_codes, chunk_bits })
}

/// Counts of a set of answers.
#[derive(Default, Debug)]
struct Answers {
    empty: u64,
    false_positives: u64,
}

/// The exhaustive form tries all pairs of ends, the others one in seven.
fn pairs_stride() -> usize {
    effort::of_minutes(1, 7, 7)
}

/// The short form tries one set of keys in six. The shares of keys repeat every four sets, so they still differ.
const CASES: usize = 6;

/// Compares a filter with the set of its keys, on all ranges between `ends` with all kinds of bounds.
fn compare(filter: &RangeFilter<bytes::Bytes>, keys: &BTreeSet<Key>, ends: &[Key], what: &str) -> Answers {
    let (sorted, view) = (keys.iter().collect::<Vec<&Key>>(), filter.view().unwrap());
    let mut answers = Answers::default();
    // `first` is the first key within the lower bound.
    let mut check = |first: Option<&&Key>, lower: Bound<&Key>, upper: Bound<&Key>| {
        let range = KeyRange::from((lower, upper));
        let has_key = first.is_some_and(|key| range.contains(key));
        let may_contain_range = filter.may_contain_range(range);
        assert!(!may_contain_range || !range.is_empty(), "{what}: {range:?} is empty");
        assert!(may_contain_range || !has_key, "{what}: {range:?} holds {first:?}");
        let in_plain_rust = match view.shape.map {
            CodeMap::Exact(map) => ExactRanges(&view, map, &[range]).run::<Portable>() == 1,
            _ => view.may_contain_range::<Portable>(range),
        };
        assert_eq!(in_plain_rust, may_contain_range, "{what}: {range:?} in plain Rust");
        answers.empty += u64::from(!has_key);
        answers.false_positives += u64::from(may_contain_range && !has_key);
    };
    check(sorted.first(), Bound::Unbounded, Bound::Unbounded);
    let stride = pairs_stride();
    for (number, lower) in ends.iter().enumerate() {
        let at_or_above = sorted.get(sorted.partition_point(|key| *key < lower));
        let above = sorted.get(sorted.partition_point(|key| *key <= lower));
        check(at_or_above, Bound::Included(lower), Bound::Unbounded);
        check(above, Bound::Excluded(lower), Bound::Unbounded);
        check(sorted.first(), Bound::Unbounded, Bound::Included(lower));
        check(sorted.first(), Bound::Unbounded, Bound::Excluded(lower));
        // Each lower end skips another number of upper ends, so that pairs of every distance are tried even if not all
        // pairs are.
        for upper in ends.iter().skip((number + number / stride) % stride).step_by(stride) {
            check(at_or_above, Bound::Included(lower), Bound::Included(upper));
            check(at_or_above, Bound::Included(lower), Bound::Excluded(upper));
            check(above, Bound::Excluded(lower), Bound::Included(upper));
            check(above, Bound::Excluded(lower), Bound::Excluded(upper));
        }
    }
    answers
}

/// Compares seek hints with the set.
fn compare_next(filter: &RangeFilter<bytes::Bytes>, keys: &BTreeSet<Key>, ends: &[Key]) {
    for lower in ends {
        let next = keys.range(lower.clone()..).next();
        match filter.seek_hint(lower) {
            None => assert_eq!(next, None, "from {lower:?}"),
            Some(bound) => {
                assert!(bound >= *lower, "{bound:?} is below {lower:?}");
                assert!(next.is_none_or(|next| bound <= *next), "from {lower:?}: {bound:?} is above {next:?}");
            }
        }
    }
}

fn big_endian(number: u64) -> [u8; 8] {
    number.swap_bytes().to_le_bytes()
}

/// Returns integers as big-endian bytes.
fn integers(bits: u32, bytes: usize) -> Vec<Key> {
    (0..1_u64 << bits).map(|number| big_endian(number)[8 - bytes..].to_vec()).collect()
}

// promise: range-filters
#[test]
fn ordered_codes_lose_no_key_on_all_ranges_of_small_universes() {
    let universes = [
        strings(&[0, 1, 0xff], 0, 4),
        strings(&[0, b'a'], 0, 6),
        strings(&[0, 0xff], 3, 6),
        strings(b"ab", 7, 7),
        integers(8, 1),
        integers(8, 2),
    ];
    for (number, universe) in universes.iter().enumerate() {
        for case in (0..12).step_by(effort::strides(3, CASES)) {
            let keys = sample(universe, [6, 30, 90, 200][case as usize % 4], case);
            for (low_bits, segment_keys) in [(0, 224), (0, 7), (1, 3), (3, 60), (0, 1)] {
                let what =
                    format!("universe {number}, case {case}, {low_bits} low bits, {segment_keys} keys a segment");
                let any = filter_of(ordered(low_bits, segment_keys), &keys, None);
                for filter in [any, ordered_of(low_bits, segment_keys, &keys)] {
                    let answers = compare(&filter, &keys, universe, &what);
                    assert!(!filter.is_exact() || answers.false_positives == 0, "{what}");
                    compare_next(&filter, &keys, universe);
                }
            }
        }
    }
}

// promise: range-filters
#[test]
fn many_segments_however_they_are_spread_lose_no_key() {
    // The search first guesses the position of a head. These spreads are even, dense at either end or in the middle, or
    // have ends far beyond the last head.
    let spreads: [fn(u64) -> u64; 5] = [
        |number| number << 50,
        |number| (number * number * number) << 30,
        |number| u64::MAX - ((number * number * number) << 30),
        |number| (1 << 62) | (number << 20),
        |number| if number < 200 { number << 55 } else { u64::MAX / 2 + number },
    ];
    for spread in spreads {
        let mut universe: Vec<Key> = (0..256).map(|number| big_endian(spread(number)).to_vec()).collect();
        universe.extend([vec![], vec![0xff; 9], vec![0xff; 8], big_endian(1 << 63).to_vec()]);
        universe.sort();
        for segment_keys in [1, 2, 5] {
            let keys: BTreeSet<Key> =
                sample(&universe, 128, segment_keys.into()).into_iter().filter(|key| key.len() == 8).collect();
            let filter = ordered_of(1, segment_keys, &keys);
            compare(&filter, &keys, &universe, "many segments");
            compare_next(&filter, &keys, &universe);
        }
    }
}

// promise: range-filters
#[test]
fn hashed_codes_lose_no_key_on_all_ranges_of_small_universes() {
    let whole =
        |bytes: u32, low_bits: u32| RangeUnits::integer(bytes).unwrap().with_granularity_bits(low_bits).unwrap();
    let universes = [
        (integers(8, 1), [whole(1, 0), whole(2, 3), whole(8, 50)]),
        (integers(9, 2), [whole(2, 0), whole(1, 0), whole(2, 4)]),
        (strings(&[0, 1, 0xff], 0, 4), [whole(2, 0), whole(3, 9), whole(8, 40)]),
        (strings(&[0, b'a'], 0, 6), [whole(8, 0), whole(1, 0), whole(5, 20)]),
    ];
    for (number, (universe, units)) in universes.iter().enumerate() {
        for case in (0..8).step_by(effort::strides(3, CASES)) {
            let keys = sample(universe, [6, 30, 90, 200][case as usize % 4], case);
            for units in units {
                for (low_bits, line_codes, chunk_bits) in [(0, 192, 8), (0, 1, 0), (1, 20, 4), (2, 192, 10), (0, 3, 2)]
                {
                    let filter = filter_of(hashed(units.clone(), low_bits, line_codes, chunk_bits), &keys, None);
                    let what =
                        format!("universe {number}, case {case}, {units:?}, {low_bits} {line_codes} {chunk_bits}");
                    compare(&filter, &keys, universe, &what);
                    compare_next(&filter, &keys, universe);
                }
            }
        }
    }
}

// promise: range-filters
#[test]
fn hashed_codes_inside_prefixes_lose_no_key() {
    let fixed = |bytes| Arc::new(FixedPrefix::new(bytes)) as Arc<dyn KeyExtractor>;
    let extractors =
        [fixed(0), fixed(1), fixed(2), Arc::new(DelimitedPrefix::new(b':')), Arc::new(DelimitedPrefix::new(0xff))];
    let universes = [strings(&[0, b':', 0xff], 0, 4), strings(b":;", 0, 6), strings(&[0, 0xff], 4, 4)];
    let mut told = 0;
    for (number, universe) in universes.iter().enumerate() {
        for case in (0..8).step_by(effort::strides(3, CASES)) {
            let keys = sample(universe, [6, 30, 90, 200][case as usize % 4], case);
            for extractor in &extractors {
                for (bytes, dropped, chunk_bits) in [(8, 0, 4), (2, 4, 8), (1, 0, 0), (8, 56, 3)] {
                    let units = RangeUnits::integer(bytes).unwrap().with_granularity_bits(dropped).unwrap();
                    let plan = hashed(units.with_prefix(extractor.clone()), 1, 20, chunk_bits);
                    let filter = filter_of(plan, &keys, Some(extractor.clone()));
                    let what =
                        format!("universe {number}, case {case}, {extractor:?}, {bytes} bytes, {dropped} dropped");
                    let answers = compare(&filter, &keys, universe, &what);
                    told += answers.empty - answers.false_positives;
                }
            }
        }
    }
    assert!(
        told > 100_000 / (effort::stride(CASES) * pairs_stride()) as u64,
        "the filters answered \"absent\" for {told} ranges"
    );
}

#[test]
fn ranges_inside_a_prefix_are_absent_where_all_keys_are_outside_the_domain() {
    let extractor: Arc<dyn KeyExtractor> = Arc::new(FixedPrefix::new(4));
    let keys = BTreeSet::from([b"a".to_vec(), b"abc".to_vec()]);
    let units = RangeUnits::integer(8).unwrap().with_prefix(Arc::clone(&extractor));
    let filter = filter_of(hashed(units, 8, 192, 4), &keys, Some(extractor));
    assert!(!filter.may_contain_range(&b"abcde"[..]..&b"abcdz"[..]));
    assert!(filter.may_contain_range(&b"abc"[..]..&b"abcdz"[..]), "the first end has no prefix");
}

// misuse: changed-range-extractor
#[test]
fn a_filter_is_not_used_if_no_known_key_is_in_its_extractors_domain() {
    // The hash function changes, but its tag does not.
    let hasher = |seed| KeyHasher::custom(1, move |key: &[u8]| KeyHasher::with_seed(seed).hash(key));
    let plan = hashed(RangeUnits::integer(8).unwrap().with_prefix(Arc::new(FixedPrefix::new(4))), 8, 192, 4);
    let context = BuildContext::new(&hasher(1));
    let mut builder = RangePolicy { plan }.builder(&context);
    let inside: Vec<Key> = (0..=255).map(|number| [b"mmmm", &[0, 0, 0, 0, 0, 0, 0, number][..]].concat()).collect();
    let ends = [b"a".to_vec(), b"z".to_vec()];
    builder.add_key(&ends[0]);
    inside.iter().for_each(|key| builder.add_key(key));
    builder.add_key(&ends[1]);
    let block = builder.finish().block.unwrap();
    let load = |seed, known: &[&[u8]]| {
        let (hasher, extractor) = (hasher(seed), Arc::new(FixedPrefix::new(4)) as Arc<dyn KeyExtractor>);
        let context = LoadContext::new(&hasher).with_known_keys(known);
        RangeFilter::load(&block[..], RangeContext::new(context, Some(&extractor))).err()
    };
    let (ends, middle) = ([&ends[0][..], &ends[1]], &inside[100][..]);
    assert_eq!((load(1, &[]), load(1, &[middle]), load(1, &[ends[0], middle])), (None, None, None));
    assert_eq!((load(1, &ends), load(2, &ends)), (Some(BlockError::PartNotHeld), Some(BlockError::PartNotHeld)));
    assert!(matches!(load(2, &[ends[0], middle]), Some(BlockError::KnownKeyAbsent { .. })));
}

#[test]
fn dense_keys_of_one_length_are_told_exactly_by_ordered_codes() {
    let universe = integers(10, 4);
    for case in (0..6).step_by(effort::strides(3, CASES)) {
        let keys = sample(&universe, 128, case);
        let filter = ordered_of(3, 224, &keys);
        let answers = compare(&filter, &keys, &universe, "dense keys");
        assert!(answers.empty > 1_000);
        assert_eq!(answers.false_positives, 0);
    }
}

#[test]
fn no_keys_and_one_key_have_filters_too() {
    let universe = strings(&[0, 1, 0xff], 0, 3);
    let hashed = || hashed(RangeUnits::integer(2).unwrap(), 0, 192, 4);
    for plan in [ordered(7, 224), hashed()] {
        let none = filter_of(plan.clone(), &BTreeSet::new(), None);
        assert!(!none.may_contain_range(..));
        assert_eq!(none.seek_hint(b""), None);
        for key in &universe {
            let keys = BTreeSet::from([key.clone()]);
            let filter = filter_of(plan.clone(), &keys, None);
            compare(&filter, &keys, &universe, "one key");
            compare_next(&filter, &keys, &universe);
        }
    }
}

// promise: range-filters
#[test]
fn long_keys_and_long_common_prefixes_lose_no_key() {
    // Prefixes with lengths around the limits: the head, the window, and the 16-bit field of shared bytes.
    for shared in [0, 1, 7, 8, 9, 15, 16, 17, 24, 65_534, 65_535, 65_536, 70_000] {
        let ends: Vec<Key> =
            strings(&[0, b'x'], 0, 4).into_iter().map(|rest| [vec![b'p'; shared], rest].concat()).collect();
        let ends = if shared > 100 { ends.into_iter().step_by(3).collect() } else { ends };
        for share in [60, 200] {
            let keys = sample(&ends, share, shared as u64);
            for segment_keys in [2, 5, 224] {
                let filter = filter_of(ordered(2, segment_keys), &keys, None);
                compare(&filter, &keys, &ends, &format!("{shared} bytes in common"));
                compare_next(&filter, &keys, &ends);
            }
        }
    }
}

/// Extractors with which no range filter can be correct or useful.
#[derive(Debug)]
enum Wrong {
    /// The last byte, which is not a prefix of the key.
    Suffix,
    /// Up to two bytes, so a longer key may have another part.
    UpToTwo,
    /// The first byte of a key, but no part for any prefix.
    Silent,
    /// The first two bytes: stable, but different from the other extractors of this name.
    FirstTwo,
}

impl KeyExtractor for Wrong {
    fn name(&self) -> &'static str {
        "wrong"
    }

    fn extract<'key>(&self, key: &'key [u8]) -> Option<std::borrow::Cow<'key, [u8]>> {
        let part = match self {
            Self::Suffix => key.get(key.len().checked_sub(1)?..)?,
            Self::UpToTwo => key.get(..key.len().min(2))?,
            Self::Silent => key.get(..1)?,
            Self::FirstTwo => key.get(..2)?,
        };
        Some(part.into())
    }

    fn extract_prefix<'key>(&self, prefix: &'key [u8]) -> Option<std::borrow::Cow<'key, [u8]>> {
        if matches!(self, Self::Silent) { None } else { self.extract(prefix) }
    }
}

// promise: range-filters
// misuse: range-tombstones
#[test]
fn a_file_whose_filter_could_be_wrong_gets_none() {
    let context = BuildContext::new(&KeyHasher::default());
    let reason = |plan: MapPlan, calls: &dyn Fn(&mut RangeBuilder)| {
        let mut builder = RangePolicy { plan }.builder(&context);
        calls(&mut builder);
        let built = builder.finish();
        assert!(built.block.is_none());
        assert_eq!((built.report.used, built.report.expected_fpr), (None, 1.0));
        built.report.reason
    };
    let add = |keys: &'static [&'static [u8]]| {
        move |builder: &mut RangeBuilder| keys.iter().for_each(|key| builder.add_key(key))
    };
    let units = || RangeUnits::integer(8).unwrap();
    for plan in [ordered(7, 224), hashed(units(), 8, 192, 4)] {
        assert_eq!(reason(plan.clone(), &add(&[b"b", b"a"])), FallbackReason::KeysOutOfOrder);
        assert_eq!(reason(plan.clone(), &add(&[b"a\0", b"a"])), FallbackReason::KeysOutOfOrder);
        let tombstone = |builder: &mut RangeBuilder| {
            builder.add_key(b"a");
            builder.add_range_tombstone();
            builder.add_key(b"b");
        };
        assert_eq!(reason(plan, &tombstone), FallbackReason::RangeTombstone);
    }
    for wrong in [Wrong::Suffix, Wrong::UpToTwo, Wrong::Silent] {
        let plan = hashed(units().with_prefix(Arc::new(wrong)), 8, 192, 4);
        assert_eq!(reason(plan, &add(&[b"abc", b"abd", b"bcd"])), FallbackReason::UnstableExtractor);
    }
}

// promise: range-filters
#[test]
fn a_reader_whose_extractor_gives_no_part_for_its_own_parts_skips_no_range() {
    let keys: BTreeSet<Key> = strings(b"ab", 2, 4).into_iter().collect();
    let plan = hashed(RangeUnits::integer(2).unwrap().with_prefix(Arc::new(Wrong::FirstTwo)), 8, 192, 4);
    let block = filter_of(plan, &keys, Some(Arc::new(Wrong::FirstTwo))).into_inner();
    // The extractor has changed, but not its name.
    let (hasher, extractor) = (KeyHasher::default(), Arc::new(Wrong::Silent) as Arc<dyn KeyExtractor>);
    let context = RangeContext::new(&hasher, Some(&extractor));
    let filter = RangeFilter::load(block, context).unwrap();
    assert!(keys.iter().all(|key| filter.may_contain_range(key..=key)));
}

/// Bytes that become shorter after they were loaded, like a mapped file that is truncated.
#[derive(Clone)]
struct Shrinking(Vec<u8>, Rc<Cell<bool>>);

impl AsRef<[u8]> for Shrinking {
    fn as_ref(&self) -> &[u8] {
        if self.1.get() { &self.0[..5] } else { &self.0 }
    }
}

#[test]
fn a_block_that_has_become_shorter_loses_no_key() {
    let keys = BTreeSet::from([b"a".to_vec(), b"b".to_vec()]);
    for plan in [ordered(7, 224), hashed(RangeUnits::integer(8).unwrap(), 8, 192, 4)] {
        let (block, is_cut) = (filter_of(plan, &keys, None).into_inner().to_vec(), Rc::default());
        let filter = RangeFilter::load(Shrinking(block, Rc::clone(&is_cut)), &KeyHasher::default()).unwrap();
        is_cut.set(true);
        assert!(filter.may_contain_range(&b"a"[..]..=&b"a"[..]));
        let mut matches = MatchBitmap::default();
        filter.may_contain_range_batch(&[KeyRange::from(&b"x"[..]..), KeyRange::from(..)], &mut matches);
        assert_eq!((matches.len(), matches.count()), (2, 2));
        assert_eq!(filter.seek_hint(b"a"), Some(b"a".to_vec()));
        assert!(filter.verify().is_err());
    }
}

#[test]
fn every_policy_that_is_accepted_builds_blocks_that_load() {
    let units = |bytes| RangeUnits::integer(bytes).unwrap();
    let rates = [0.999, 0.9, 0.5, 0.01, 1e-6, 1e-9, 1e-12].map(|rate| FalsePositiveRate::new(rate).unwrap());
    let keys = BTreeSet::from([b"a".to_vec(), b"b".to_vec()]);
    let mut accepted = 0;
    for rate in rates {
        let bounded = (0..64).flat_map(|log2| [(1_u64 << log2) - 1, 1 << log2, (1 << log2) + 1]);
        let bounded = bounded.map(|longest| RangePolicy::hashed(units(8), longest, rate));
        for policy in bounded.chain([RangePolicy::ordered(rate)]).flatten() {
            compare(&filter_of(policy.plan, &keys, None), &keys, &strings(b"ab", 0, 2), "any policy");
            accepted += 1;
        }
    }
    assert!(accepted > 300, "{accepted}");
}

#[test]
fn a_batch_answers_like_single_probes() {
    let universe = strings(&[0, 1, 0xff], 0, 4);
    let keys = sample(&universe, 40, 1);
    for plan in [ordered(1, 9), hashed(RangeUnits::integer(3).unwrap(), 1, 30, 8)] {
        let filter = filter_of(plan, &keys, None);
        let ranges: Vec<_> = universe
            .iter()
            .flat_map(|lower| universe.iter().step_by(3).map(move |upper| KeyRange::from(lower..upper)))
            .collect();
        let mut matches = MatchBitmap::default();
        filter.may_contain_range_batch(&ranges, &mut matches);
        assert_eq!(matches.len(), ranges.len());
        for (index, range) in ranges.iter().enumerate() {
            assert_eq!(matches.may_contain(index), filter.may_contain_range(*range), "{range:?}");
        }
    }
}

/// Returns keys of files: numbers; numbers after one long prefix; and clusters of numbers, each with its own long
/// prefix, so that most bytes of a filter are separators.
fn file_keys(keys: u64) -> [(&'static str, BTreeSet<Key>); 3] {
    let numbers = (0..keys).map(|key| big_endian(mix64(key)).to_vec());
    let prefixed = numbers.clone().map(|number| [vec![b'p'; 60], number].concat());
    let cluster =
        |key: u64| [vec![b'p'; 60], big_endian(mix64(key / 300)).repeat(9), big_endian(key).to_vec()].concat();
    [
        ("numbers", numbers.collect()),
        ("prefixed numbers", prefixed.collect()),
        ("clusters", (0..keys).map(cluster).collect()),
    ]
}

/// A writer that cuts files by size adds the estimate to the size of the data.
#[test]
fn an_estimate_is_within_a_key_and_three_percent_of_the_block() {
    let context = BuildContext::new(&KeyHasher::default());
    for (what, keys) in [0, 1, 50, 1_000, 20_000].into_iter().flat_map(file_keys) {
        let units = RangeUnits::integer(8).unwrap();
        let hashed = [hashed(units.clone(), 9, 192, 4), hashed(units, 0, 20, 4)].into_iter();
        // All other keys have the same integer.
        let hashed = hashed.filter(|_| what == "numbers");
        for plan in hashed.chain([ordered(7, 224), ordered(0, 60)]) {
            let policy = RangePolicy { plan };
            let mut builders = [context.clone(), context.clone().with_file_id(FileId::new(b"a file").unwrap())]
                .map(|context| policy.builder(&context));
            builders.iter_mut().for_each(|builder| keys.iter().for_each(|key| builder.add_key(key)));
            let [estimate, of_bound] = builders.each_ref().map(RangeBuilder::estimated_bytes);
            let [block, bound] = builders.map(|builder| builder.finish().block.unwrap().len() as u64);
            assert_eq!((of_bound - estimate, bound - block), (8, 8), "a file's fingerprint");
            let max_off = keys.first().map_or(0, Vec::len) as u64 + 16 + block * 3 / 100;
            let policy = policy.plan;
            assert!(estimate.abs_diff(block) <= max_off, "{} {what}, {policy:?}: {estimate}, {block}", keys.len());
        }
    }
    let mut refused = RangePolicy { plan: ordered(7, 224) }.builder(&context);
    refused.add_range_tombstone();
    assert_eq!(refused.estimated_bytes(), 0);
}

#[test]
fn a_report_says_how_much_a_build_held() {
    let peak_and_block = |plan: MapPlan, keys: &BTreeSet<Key>| {
        let mut builder = RangePolicy { plan }.builder(&BuildContext::new(&KeyHasher::default()));
        keys.iter().for_each(|key| builder.add_key(key));
        let report = builder.finish().report;
        (report.peak_build_bytes, report.block_bytes)
    };
    let [(_, numbers), ..] = file_keys(20_000);
    // 16 bytes per key, and as much again; the memory for keys may be half empty.
    let (peak, _) = peak_and_block(hashed(RangeUnits::integer(8).unwrap(), 9, 192, 4), &numbers);
    assert!((20_000 * 32..=20_000 * 64).contains(&peak), "{peak}");
    // Twice the payload, without the trailer of 60 bytes.
    let (peak, block) = peak_and_block(ordered(7, 224), &numbers);
    assert_eq!(peak, (block - 60) * 2);
    // The keys of an unfinished segment.
    let (peak, _) = peak_and_block(ordered(7, 224), &(0..100).map(|key| vec![key; 10_000]).collect());
    assert!((1_000_000..=2_100_000).contains(&peak), "{peak}");
}
