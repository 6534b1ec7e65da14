//! Filters probed together must answer like each filter by itself. The failures guarded against: an answer is stored
//! for another filter, a mask is tested on a filter with another number of probes, or an unusable filter answers
//! "absent".

use crate::common;
use bytes::Bytes;
use sstfilter::{
    BitsPerKey, BlockError, BuildContext, FilterBlock, FilterSet, Filters, FixedPolicy, KeyHash, KeyHasher,
    LookupOutcome, MatchBitmap, MatchMatrix,
};

/// Bits per key that take 1 to 16 probes.
const SIZES: [f64; 16] = [1.0, 2.5, 4.0, 6.0, 8.0, 10.0, 11.0, 13.0, 15.0, 17.0, 20.0, 23.0, 26.0, 29.0, 32.0, 40.0];

type Member = Result<FilterBlock<Bytes>, BlockError>;

/// The filter, opened again with the currently selected instruction set.
fn reopened(member: &Member) -> Member {
    let block = member.as_ref().map_err(Clone::clone)?;
    FilterBlock::open_unverified(block.clone().into_inner())
}

fn bloom(set: u32, keys: u32, bits: f64) -> Member {
    let policy = FixedPolicy::bloom(BitsPerKey::new(bits).unwrap()).unwrap();
    let hashes: Vec<KeyHash> = common::key_set(set, keys).collect();
    FilterBlock::open_unverified(common::build(&policy, &hashes).block.unwrap())
}

fn ribbon(set: u32, keys: u32) -> Member {
    let hashes: Vec<KeyHash> = common::key_set(set, keys).collect();
    FilterBlock::open_unverified(common::build(&common::ribbon(0.01), &hashes).block.unwrap())
}

fn foreign(set: u32) -> Member {
    let hashes: Vec<KeyHash> = common::key_set(set, 100).collect();
    let context = BuildContext::new(&KeyHasher::with_seed(99));
    FilterBlock::open_unverified(common::build_in(&FixedPolicy::default(), &context, &hashes).block.unwrap())
}

/// Filters of all shapes in an order that repeats only after 80: all numbers of probes, sizes from no key
/// to thousands, Ribbon, damaged and foreign ones.
fn mixed(count: u32) -> Vec<Member> {
    (0..count)
        .map(|set| match set % 10 {
            3 => ribbon(set, 50 + set * 7),
            6 if set % 20 == 6 => FilterBlock::open_unverified(Bytes::from_static(b"not a filter block")),
            8 if set % 20 == 8 => foreign(set),
            9 => bloom(set, set % 4, 10.0),
            _ => bloom(set, 20 + set * 31 % 3_000, SIZES[(set * 7 % 16) as usize]),
        })
        .collect()
}

#[test]
fn the_mixed_filters_have_every_number_of_probes() {
    let sizes = SIZES.map(|bits| sstfilter::filter::blocked_bloom::probes_for(BitsPerKey::new(bits).unwrap()));
    assert_eq!(sizes.to_vec(), (1..=16).collect::<Vec<u8>>());
}

fn uniform(count: u32) -> Vec<Member> {
    (0..count).map(|set| bloom(set, 300, 10.0)).collect()
}

fn answers_alone(members: &[Member], hash: KeyHash) -> Vec<usize> {
    let identity = KeyHasher::default().identity();
    let may_contain = |member: &Member| match member {
        Ok(block) => block.hash_identity() != identity || block.may_contain(hash),
        Err(_) => true,
    };
    members.iter().enumerate().filter(|(_, member)| may_contain(member)).map(|(index, _)| index).collect()
}

/// Keys of the filters, and as many absent keys.
fn asked(filters: u32) -> Vec<KeyHash> {
    let present = (0..filters).flat_map(|set| common::key_set(set, 3));
    present.chain(common::key_set(9_999, 200)).collect()
}

fn assert_answers_as_each_alone(members: &[Member]) {
    let hashes = asked(u32::try_from(members.len()).unwrap());
    let expected: Vec<Vec<usize>> = hashes.iter().map(|&hash| answers_alone(members, hash)).collect();
    let (mut matches, mut matrix) = (MatchBitmap::default(), MatchMatrix::default());
    common::for_each_set(|instructions| {
        let opened = members.iter().map(|member| Filters::default().reader(reopened(member)));
        let set = FilterSet::new(&Filters::default(), opened);
        assert_eq!((set.len(), set.is_empty()), (members.len(), members.is_empty()));
        for (&hash, expected) in hashes.iter().zip(&expected) {
            set.matches_hash(hash, &mut matches);
            assert_eq!(&matches.iter().collect::<Vec<_>>(), expected, "{instructions}, {} filters", members.len());
            let mut first = [0x5555; 2];
            set.matches_words(hash, &mut first[..1]);
            let first_word = expected.iter().filter(|&&index| index < 64).fold(0, |word, &index| word | 1_u64 << index);
            assert_eq!(first, [if members.is_empty() { 0x5555 } else { first_word }, 0x5555]);
        }
        for batch in [hashes.len(), 33, 1, 0] {
            let hashes = &hashes[..batch.min(hashes.len())];
            set.matches_batch(hashes, &mut matrix);
            assert_eq!((matrix.keys(), matrix.filters()), (hashes.len(), members.len()));
            let rows: Vec<Vec<usize>> = (0..hashes.len()).map(|key| matrix.row(key).collect()).collect();
            assert_eq!(rows, expected[..hashes.len()], "{instructions}, {} filters, {batch} keys", members.len());
            assert_eq!(matrix.count(), rows.iter().map(Vec::len).sum::<usize>() as u64);
        }
    });
}

// promise: no-false-negatives
#[test]
fn a_set_answers_as_its_filters_do_alone_on_every_instruction_set() {
    // Around multiples of the 64 filters in a group.
    for count in [0, 1, 2, 63, 64, 65, 70, 128, 129, 200] {
        assert_answers_as_each_alone(&mixed(count));
        assert_answers_as_each_alone(&uniform(count));
    }
    // Larger than the caches, so that lines are prefetched before they are tested.
    let far: Vec<Member> = (0..70).map(|set| bloom(set, 40_000 + set * 1_000, 10.0)).collect();
    assert_answers_as_each_alone(&far);
    assert_answers_as_each_alone(&[far[..3].to_vec(), mixed(30), far[3..].to_vec()].concat());
}

#[test]
fn a_matrix_answers_may_be_present_beyond_its_ends() {
    let set = FilterSet::new(&Filters::default(), uniform(3).into_iter().map(|block| Filters::default().reader(block)));
    let mut matches = MatchMatrix::default();
    let absent: Vec<KeyHash> = common::key_set(77, 50).collect();
    set.matches_batch(&absent, &mut matches);
    assert!((0..50).any(|key| !matches.may_contain(key, 0)));
    assert!(matches.may_contain(0, 3) && matches.may_contain(0, 64) && matches.may_contain(50, 0));
    assert!(matches.may_contain(usize::MAX, 0) && matches.row(usize::MAX).next().is_none());
}

#[test]
fn a_set_counts_for_its_filters_one_by_one_and_in_batches() {
    let set = FilterSet::new(&Filters::default(), mixed(130).into_iter().map(|block| Filters::default().reader(block)));
    let absent: Vec<KeyHash> = common::key_set(9_999, 2_000).collect();
    let (mut matches, mut matrix) = (MatchBitmap::default(), MatchMatrix::default());
    let mut positives = vec![0; set.len()];
    for &hash in &absent[..500] {
        set.matches_hash(hash, &mut matches);
        matches.iter().for_each(|filter| positives[filter] += 1);
    }
    set.matches_batch(&absent[500..], &mut matrix);
    (0..matrix.keys()).flat_map(|key| matrix.row(key)).for_each(|filter| positives[filter] += 1);
    for (index, &positives) in positives.iter().enumerate() {
        let stats = set.filter(index).unwrap().stats();
        assert_eq!(stats.probes(), 2_000, "filter {index}");
        match set.problem(index) {
            None => assert_eq!((stats.positives, stats.negatives), (positives, 2_000 - positives), "filter {index}"),
            Some(_) => assert_eq!((stats.positives, stats.unusable), (0, 2_000), "filter {index}"),
        }
    }
}

// promise: documented-use
#[test]
fn outcomes_of_a_sets_probes_give_the_rate_and_no_alarm() {
    let set = FilterSet::new(&Filters::default(), [Filters::default().reader(bloom(0, 10_000, 10.0))]);
    let filter = set.filter(0).unwrap();
    let mut matches = MatchBitmap::default();
    for hash in common::key_set(0, 500) {
        set.matches_hash(hash, &mut matches);
        assert!(matches.may_contain(0));
        filter.record_lookup(LookupOutcome::Found);
    }
    assert_eq!(filter.stats().observed_fpr(), None, "keys that are there say nothing of the rate");
    for hash in common::key_set(1, 100_000) {
        set.matches_hash(hash, &mut matches);
        if matches.may_contain(0) {
            filter.record_lookup(LookupOutcome::NotFound);
        }
    }
    let stats = filter.stats();
    assert_eq!((stats.probes(), stats.true_positives), (100_500, 500));
    assert_eq!((stats.absent_probes(), stats.positives), (100_000, 500 + stats.false_positives));
    let observed = stats.observed_fpr().unwrap();
    assert!((0.008..0.011).contains(&observed), "{observed}");
    assert_eq!(stats.alarm(filter.block().unwrap().info().expected_fpr), None);
}

// promise: documented-use
// misuse: foreign-outcomes
#[test]
fn outcomes_reported_to_a_filter_that_did_not_answer_raise_no_alarm() {
    let (probed, kept) = (bloom(0, 10_000, 10.0), Filters::default().reader(bloom(0, 10_000, 10.0)));
    let set = FilterSet::new(&Filters::default(), [Filters::default().reader(probed)]);
    let mut matches = MatchBitmap::default();
    for hash in common::key_set(1, 10_000) {
        set.matches_hash(hash, &mut matches);
        if matches.may_contain(0) {
            kept.record_lookup(LookupOutcome::NotFound);
        }
    }
    let stats = kept.stats();
    assert!(stats.false_positives > 50 && !stats.is_consistent());
    assert_eq!((stats.observed_fpr(), stats.alarm(0.01)), (None, None));
}
