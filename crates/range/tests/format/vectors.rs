//! The range filters of FORMAT.md's appendix: their bytes and their answers. The failure guarded against: a reader that
//! counts one slot too few at an exclusive end loses a key, but still passes every round trip.

use core::ops::Bound;

use sstfilter::{BuildContext, FalsePositiveRate, KeyHasher};
use sstfilter_range::{KeyRange, RangeFilter, RangePolicy, RangeUnits};

use crate::common::documented::{FORMAT, dump_below, hex};

fn filter_of_fruit(policy: &RangePolicy) -> RangeFilter<bytes::Bytes> {
    let hasher = KeyHasher::default();
    let mut builder = policy.builder(&BuildContext::new(&hasher));
    [&b"apple"[..], b"banana", b"cherry"].iter().for_each(|key| builder.add_key(key));
    RangeFilter::load(builder.finish().block.unwrap(), &hasher).unwrap()
}

fn filters() -> [(&'static str, RangeFilter<bytes::Bytes>); 2] {
    let rate = FalsePositiveRate::ONE_PERCENT;
    let units = RangeUnits::integer(8).unwrap().with_granularity_bits(40).unwrap();
    let policies = [RangePolicy::ordered(rate).unwrap(), RangePolicy::hashed(units, 4, rate).unwrap()];
    let [ordered, hashed] = policies.map(|policy| filter_of_fruit(&policy));
    [("ordered", ordered), ("hashed", hashed)]
}

/// Returns the first two cells of each row of the table below `heading`, without backticks.
fn rows_below(heading: &str) -> Vec<[&'static str; 2]> {
    let table = FORMAT.split_once(heading).unwrap().1.split_once("\n\n").unwrap().1;
    let rows = table.lines().take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| {
        let mut cells = row.split('|').map(|cell| cell.trim().trim_matches('`'));
        cells.next();
        [cells.next().unwrap(), cells.next().unwrap()]
    })
    .collect()
}

fn bound(end: &str, is_inclusive: bool) -> Bound<&[u8]> {
    match (end.trim().as_bytes(), is_inclusive) {
        ([], _) => Bound::Unbounded,
        (end, true) => Bound::Included(end),
        (end, false) => Bound::Excluded(end),
    }
}

/// Parses a range, with square brackets at inclusive ends and round ones at exclusive ends.
fn parsed(text: &str) -> KeyRange<'_> {
    let (lower, upper) = text[1..text.len() - 1].split_once(',').unwrap();
    KeyRange { lower: bound(lower, text.starts_with('[')), upper: bound(upper, text.ends_with(']')) }
}

#[test]
fn range_filters_of_three_keys_have_the_documented_bytes() {
    for (map, filter) in filters() {
        assert_eq!(filter.as_bytes(), dump_below(&format!("The {map} filter of the three keys")), "{map}");
    }
}

#[test]
fn range_filters_of_three_keys_give_the_documented_answers() {
    for (map, filter) in filters() {
        let rows = rows_below(&format!("Answers of the {map} filter"));
        assert!(rows.len() > 10);
        for [range, answer] in rows {
            let expected = ["absent", "may be present"].iter().position(|&word| word == answer).unwrap() == 1;
            assert_eq!(filter.may_contain_range(parsed(range)), expected, "{map}: {range}");
        }
    }
}

#[test]
fn an_ordered_filter_gives_the_documented_next_keys() {
    let [(_, ordered), _] = filters();
    let rows = rows_below("Next keys of the ordered filter");
    assert!(rows.len() > 5);
    for [from, bound] in rows {
        let got = match ordered.seek_hint(from.as_bytes()) {
            None => "none".to_owned(),
            Some(bound) => hex(&bound),
        };
        assert_eq!(got, bound, "from {from}");
    }
}
