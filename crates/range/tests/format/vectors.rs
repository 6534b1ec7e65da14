//! The range filters of the test vectors, `fixtures/vectors/ranges.json`: their bytes, and what they answer. They are
//! the failure story of the golden files on one page: a reader that counts one slot too few at an exclusive end loses
//! a key, and still passes every round trip.

use core::ops::Bound;

use sstfilter::{BuildContext, FalsePositiveRate, KeyHasher, KeyRange};
use sstfilter_range::{RangeFilter, RangePolicy, RangeUnits};

use crate::common::golden::hex;
use crate::common::vectors::{Value, vectors};

fn policy_of(vector: &Value) -> RangePolicy {
    let rate = FalsePositiveRate::new(vector.float("rate")).unwrap();
    if vector.text("map") != "hashed" {
        return RangePolicy::ordered(rate).unwrap();
    }
    let [integer_bytes, low_bits] = ["integer_bytes", "low_bits"].map(|name| vector.number(name).try_into().unwrap());
    let units = RangeUnits::integer(integer_bytes).unwrap().with_granularity_bits(low_bits).unwrap();
    RangePolicy::hashed(units, vector.number("max_units"), rate).unwrap()
}

/// The vectors, each with the filter that its keys make.
fn filters() -> Vec<(Value, RangeFilter<bytes::Bytes>)> {
    let hasher = KeyHasher::default();
    let built = |vector: &Value| {
        let mut builder = policy_of(vector).builder(&BuildContext::new(&hasher));
        vector.keys("keys").iter().for_each(|key| builder.add_key(key));
        (vector.clone(), RangeFilter::load(builder.finish().block.unwrap(), &hasher).unwrap())
    };
    vectors("ranges").rows("filters").iter().map(built).collect()
}

fn bound(end: &str, is_inclusive: bool) -> Bound<&[u8]> {
    match (end.trim().as_bytes(), is_inclusive) {
        ([], _) => Bound::Unbounded,
        (end, true) => Bound::Included(end),
        (end, false) => Bound::Excluded(end),
    }
}

/// A range written with a square bracket beside an inclusive end, a round one beside an exclusive end.
fn parsed(text: &str) -> KeyRange<'_> {
    let (lower, upper) = text[1..text.len() - 1].split_once(',').unwrap();
    KeyRange { lower: bound(lower, text.starts_with('[')), upper: bound(upper, text.ends_with(']')) }
}

#[test]
fn range_filters_of_a_few_keys_have_the_documented_bytes_answers_and_next_keys() {
    let filters = filters();
    assert_eq!(filters.len(), 4);
    for (vector, filter) in &filters {
        let map = vector.text("map");
        assert_eq!(hex(filter.as_bytes()), hex(&vector.whole()), "{map}");
        assert!(vector.rows("answers").len() > 10);
        for row in vector.rows("answers") {
            let answer = filter.may_contain_range(parsed(row.text("range")));
            assert_eq!(answer, row.bool("may_contain"), "{map}: {row}");
        }
    }
    for (vector, filter) in filters.iter().filter(|(vector, _)| vector.text("map") != "hashed") {
        assert!(vector.rows("next_keys").len() > 5);
        for row in vector.rows("next_keys") {
            let bound = filter.seek_hint(row.text("from").as_bytes()).map(|bound| hex(&bound));
            assert_eq!(bound.as_deref(), row.text_or_null("bound"), "{}: {row}", vector.text("map"));
        }
    }
}
