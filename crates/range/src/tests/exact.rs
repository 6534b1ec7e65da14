//! Exact codes of dense integers, alone and probed together, and what becomes of keys that only begin like them.

use super::*;
use crate::ExactFilters;

/// Integers at either end of their space, keys of other lengths, gaps that end at a word, a line or a sample: each is
/// where an integer filter loses its first key. Keys are drawn at every density, with every number of bytes.
// promise: range-filters
#[test]
fn exact_codes_of_dense_integers_lose_no_key_and_have_no_false_positives() {
    let probes = effort::of_minutes(1_000_000_000, 20_000_000, 1_000_000);
    let (mut done, mut exact, mut case) = (0, [0, 0], 0);
    while done < probes {
        case += 1;
        let random = |number: u64| mix64(case << 32 ^ number);
        let (bytes, prefix) = (case % 8 + 1, vec![0xfe; [0, 0, 1, 9][(case / 8 % 4) as usize]]);
        let count = [1, 2, 63, 64, 65, 300, 5_000][(random(1) % 7) as usize];
        let gap = [1, 2, 3, 8, 9, 20, 100, 700][(random(2) % 8) as usize];
        let (max, span) = (u64::MAX >> (64 - 8 * bytes), count * gap);
        let first = [0, max.saturating_sub(span), random(3) & max][(random(4) % 3) as usize];
        let key = |integer: u64| [&prefix, &big_endian(integer)[8 - bytes as usize..]].concat();
        let integers: BTreeSet<u64> =
            (0..count).map(|number| first.saturating_add(random(number + 9) % span).min(max)).collect();
        // At every place where one word, level or sample ends and the next begins.
        let integers: BTreeSet<u64> = match random(5) % 3 {
            0 => integers
                .into_iter()
                .map(|integer| integer | 63)
                .collect::<BTreeSet<_>>()
                .range(..=max)
                .copied()
                .collect(),
            _ => integers,
        };
        let keys: BTreeSet<Key> = integers.iter().map(|&integer| key(integer)).collect();
        if keys.is_empty() {
            continue;
        }
        let filter = filter_of(ordered(7, 224), &keys, None);
        assert!(keys.iter().all(|key| filter.may_contain(key)), "case {case}");
        done += keys.len();
        let is_sparse = span > max || gap > 100 || random(5) % 3 == 0;
        assert!(filter.is_exact() || is_sparse, "case {case}: {bytes} bytes, {count} keys, gap {gap}");
        if !filter.is_exact() {
            continue;
        }
        exact[usize::from(filter.info().low_bits > 0)] += 1;
        for number in 0..2_000 {
            let (low, high) = (span / 8 + 2, span + span / 4 + 4);
            let integer = first.saturating_sub(low).saturating_add(random(number ^ 77 << 20) % high).min(max);
            let (start, end) = (key(integer), key(integer.saturating_add(random(number ^ 99 << 20) % (3 * gap))));
            assert_eq!(filter.may_contain(&start), integers.contains(&integer), "case {case}: {integer}");
            let longer = [&start[..], &[0]].concat();
            let (shorter, other) = (&start[..start.len() - 1], [b"x", &start[1..]].concat());
            assert!(!filter.may_contain(&longer) && !filter.may_contain(shorter), "case {case}: another length");
            assert!(prefix.is_empty() || !filter.may_contain(&other), "case {case}: another prefix");
            let next = keys.range(start.clone()..).next();
            for end in [&end[..], shorter, &longer] {
                let (included, excluded) = (KeyRange::from(&start[..]..=end), KeyRange::from(&start[..]..end));
                for range in [included, excluded, KeyRange { lower: Bound::Excluded(&start), ..included }] {
                    let first = keys.range::<[u8], _>((range.lower, Bound::Unbounded)).next();
                    let expected = first.is_some_and(|key| range.contains(key));
                    assert_eq!(filter.may_contain_range(range), expected, "case {case}: {range:?}");
                }
            }
            assert_eq!(filter.seek_hint(&start).as_ref(), next, "case {case}: from {start:?}");
            done += 14;
        }
    }
    assert!(exact.iter().all(|&cases| cases > 5), "{exact:?}");
}

// promise: range-filters
#[test]
fn keys_that_are_not_dense_integers_after_all_have_the_filter_of_any_keys() {
    let ids = |count: u64| (0..count).map(|id| big_endian(id).to_vec());
    let with = |count: u64, other: &[u8]| ids(count).chain([other.to_vec()]).collect::<BTreeSet<Key>>();
    for (what, keys) in [
        ("a key of one more byte", with(1_000, &[&big_endian(999)[..], b"x"].concat())),
        ("a key of one byte less", with(1_000, &[0xff; 7])),
        ("another prefix", (0..1_000_u64).map(|id| [&[(id / 999) as u8][..], &big_endian(id)].concat()).collect()),
        ("two's complement", (-500_i64..500).map(|id| big_endian(id.cast_unsigned()).to_vec()).collect()),
        ("a gap of half the space", with(1_000, &[0x80; 8])),
        ("a gap after many keys", with(200_000, &[0x80; 8])),
        (
            "a gap of more than 16 bits, and one after it",
            ids(70_000).chain([big_endian(1 << 25).to_vec(), vec![0x80; 8]]).collect(),
        ),
    ] {
        let filter = filter_of(ordered(7, 224), &keys, None);
        assert!(!filter.is_exact(), "{what}");
        assert!(keys.iter().all(|key| filter.may_contain(key)), "{what}");
        // As if it had never been tried.
        assert_eq!(filter.as_bytes(), ordered_of(7, 224, &keys).as_bytes(), "{what}");
    }
    // Signed integers whose first bit is flipped, and descending ones, are dense.
    let flipped = |id: i64| big_endian(id.cast_unsigned() ^ 1 << 63).to_vec();
    for keys in [(-500..500).map(flipped).collect(), (0..1_000).map(|id| big_endian(!id).to_vec()).collect()] {
        assert!(filter_of(ordered(7, 224), &keys, None).is_exact());
    }
    // Repeated keys count once.
    let mut builder = RangePolicy { plan: ordered(7, 224) }.builder(&BuildContext::new(&KeyHasher::default()));
    ids(100).for_each(|id| (0..3).for_each(|_| builder.add_key(&id)));
    let report = builder.finish().report;
    assert_eq!((report.keys_added, report.distinct_keys, report.expected_fpr), (300, 100, 0.0));
}

// promise: range-filters
#[test]
fn bitmaps_that_are_probed_together_answer_like_each_alone() {
    let ids = |prefix: &[u8], first: u64| {
        let keys = (first..first + 300).filter(|id| id % 3 != 0).map(|id| [prefix, &big_endian(id)].concat());
        filter_of(ordered(7, 224), &keys.collect(), None)
    };
    let mut group = ExactFilters::default();
    let filters = [(2, ids(b"t1:", 0)), (3, ids(b"t1:", 200)), (63, ids(b"t1:", u64::MAX - 400))];
    assert!(filters.iter().all(|(slot, filter)| group.push(*slot, filter)));
    for slot in [64, 63, 7] {
        assert!(!group.push(slot, &ids(b"t1:", 0)), "slot {slot}");
    }
    let mut others = ExactFilters::default();
    let split = filter_of(ordered(7, 224), &(0..99).map(|id| big_endian(id * 50).to_vec()).collect(), None);
    assert!(split.is_exact() && !others.push(0, &split) && others.slots() == 0);
    assert!(others.push(0, &ids(b"t1:", 0)) && !others.push(1, &ids(b"t2:", 0)) && !others.push(1, &ids(b"", 0)));
    for id in (0..600).chain(u64::MAX - 500..=u64::MAX) {
        for key in [&b"t1:"[..], b"t2:", b"t1", b""].map(|prefix| [prefix, &big_endian(id)].concat()) {
            let alone = filters.iter().filter(|(_, filter)| filter.may_contain(&key));
            let alone = alone.fold(0, |slots, (slot, _)| slots | 1_u64 << slot);
            assert_eq!(group.probe(&key, u64::MAX), !group.slots() | alone, "{key:?}");
            assert_eq!(group.probe(&key, 0b1101), 0b0001 | alone & 0b1100, "{key:?}");
        }
    }
    // Bytes that become shorter may have had any key.
    let (keys, is_cut) = ((0..99).map(|id| big_endian(id * 5).to_vec()).collect::<BTreeSet<Key>>(), Rc::default());
    let block = filter_of(ordered(7, 224), &keys, None).into_inner().to_vec();
    let filter = RangeFilter::load(Shrinking(block, Rc::clone(&is_cut)), &KeyHasher::default()).unwrap();
    let mut cut = ExactFilters::default();
    assert!(cut.push(0, &filter));
    is_cut.set(true);
    assert!(keys.iter().all(|key| cut.probe(key, 1) == 1 && filter.may_contain(key)));
}
