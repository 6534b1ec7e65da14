//! The policy without an engine. The engine passes any bytes that a table stores under the policy's name, and trusts
//! `false`: bytes that are not a sound filter of the key's partition must never be negative.

use std::sync::Arc;

use sstfilter::{BuildContext, FalsePositiveRate, FixedPolicy, FixedPrefix, KeyHasher, KeyParts, Sizing};
use sstfilter_surrealkv::{FilterCounts, SstFilterPolicy};
use surrealkv::FilterPolicy;

use crate::store::{custom_hasher, engine_bloom, engine_ribbon, key, migrating};

fn keys(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(key).collect()
}

/// Both kinds, plain and in both migrations.
fn policies() -> Vec<SstFilterPolicy> {
    let bloom = |old| SstFilterPolicy::bloom().migrating_from(old).unwrap();
    vec![
        SstFilterPolicy::bloom(),
        SstFilterPolicy::ribbon(),
        bloom(engine_bloom()),
        bloom(engine_ribbon()),
        migrating(engine_bloom()),
        migrating(engine_ribbon()),
    ]
}

fn contains_all(policy: &SstFilterPolicy, filter: &[u8], keys: &[Vec<u8>]) -> bool {
    keys.iter().all(|key| policy.may_contain(filter, key))
}

fn unusable(policy: &SstFilterPolicy) -> u64 {
    policy.counters().snapshot().unusable.total()
}

#[test]
fn keys_and_their_hashes_give_the_same_bytes_each_time_and_in_any_order() {
    for policy in policies() {
        for count in [1, 2, 1_023, 1_024, 6_000] {
            let mut keys = keys(count);
            let hashes: Vec<u64> = keys.iter().map(|key| policy.key_hash(key)).collect();
            let filter = policy.create_filter(&keys);
            assert_eq!(filter, policy.create_filter_from_hashes(&hashes));
            assert_eq!(filter, policy.clone().create_filter(&keys));
            keys.reverse();
            assert_eq!(filter, policy.create_filter(&keys), "{count} keys");
            assert!(contains_all(&policy, &filter, &keys));
        }
    }
}

#[test]
fn versions_of_a_key_take_no_more_bytes_than_the_key() {
    for policy in policies() {
        let keys = keys(2_000);
        let versions: Vec<Vec<u8>> = keys.iter().flat_map(|key| vec![key.clone(); 3]).collect();
        assert_eq!(policy.create_filter(&versions), policy.create_filter(&keys));
    }
}

#[test]
fn no_part_of_a_filter_answers_absent() {
    for policy in policies() {
        for count in [1, 40, 1_100] {
            let keys = keys(count);
            let filter = policy.create_filter(&keys);
            for length in 0..filter.len() {
                let (first, last) = (&filter[..length], &filter[filter.len() - length..]);
                assert!(is_like_an_old_filter(&policy, first) || contains_all(&policy, first, &keys[..1]), "{length}");
                assert!(contains_all(&policy, last, &keys[..1]), "{length}");
            }
        }
    }
}

/// The old policies recognize a filter only by its last byte. A block that is truncated at such a byte passes for an
/// old filter; only the engine, which stores lengths and checksums, can detect it.
fn is_like_an_old_filter(policy: &SstFilterPolicy, bytes: &[u8]) -> bool {
    policy.name().contains("Filter") && bytes.len() > 1 && (1..=30).contains(bytes.last().unwrap())
}

#[test]
fn every_flipped_bit_behind_the_payload_means_may_contain_and_none_panics() {
    for policy in policies() {
        for count in [1, 40, 1_100, 1_107] {
            let keys = keys(count);
            let filter = policy.create_filter(&keys);
            for bit in 0..filter.len() * 8 {
                let mut damaged = filter.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                let before = unusable(&policy);
                let answer = policy.may_contain(&damaged, &keys[0]);
                if bit / 8 + 36 >= filter.len() {
                    assert!(answer, "{policy:?}, bit {bit} of {}", filter.len() * 8);
                    assert_eq!(unusable(&policy), before + 1);
                }
            }
        }
    }
}

#[test]
fn foreign_bytes_mean_may_contain_and_are_counted() {
    let mut random = fastrand::Rng::with_seed(1);
    for policy in policies() {
        let name = policy.name().to_owned();
        let before = unusable(&policy);
        // The old policy answers for its own filters; a last byte of 31 to 254 belongs to neither policy.
        for length in 0..300 {
            let mut bytes: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
            if let Some(last) = bytes.last_mut() {
                *last = random.u8(31..255);
            }
            assert!(policy.may_contain(&bytes, b"key"), "{name}");
        }
        assert_eq!(unusable(&policy), before + 300, "{name}");
    }
}

#[test]
fn a_filter_of_another_hash_means_may_contain() {
    let hashers = [KeyHasher::with_seed(1), KeyHasher::with_secret_seed(1), custom_hasher(), KeyHasher::default()];
    for (writer, hasher) in hashers.iter().enumerate() {
        for (reader, other) in hashers.iter().enumerate() {
            for old in [None, Some(engine_bloom())] {
                let policy = |hasher: &KeyHasher| {
                    let policy = SstFilterPolicy::bloom().with_hasher(hasher.clone());
                    if let Some(old) = old.clone() { policy.migrating_from(old).unwrap() } else { policy }
                };
                let (writing, reading) = (policy(hasher), policy(other));
                let filter = writing.create_filter(&keys(500));
                assert!(contains_all(&reading, &filter, &keys(500)));
                let FilterCounts { unusable, positives, .. } = reading.counters().snapshot();
                let counted = (unusable.other_hash, positives);
                assert_eq!(counted, if writer == reader { (0, 500) } else { (500, 0) });
                assert_eq!(writing.name() == reading.name(), writer == reader || old.is_some());
            }
        }
    }
}

#[test]
fn a_block_of_parts_of_keys_alone_means_may_contain() {
    let parts = KeyParts::extracted(Arc::new(FixedPrefix::new(2)));
    let mut builder = FixedPolicy::default().builder(&BuildContext::new(&KeyHasher::default()).with_key_parts(parts));
    let keys = keys(500);
    keys.iter().for_each(|key| builder.add_key(key));
    let filter = builder.finish().block.unwrap();
    let policy = SstFilterPolicy::bloom();
    assert!(contains_all(&policy, &filter, &keys));
    assert_eq!(policy.counters().snapshot().unusable.other_hash, 500);
}

#[test]
fn a_block_of_a_newer_version_means_may_contain_even_if_its_checksum_is_right() {
    let policy = SstFilterPolicy::bloom();
    let keys = keys(500);
    let filter = policy.create_filter(&keys);
    // The version is in byte 25 of the trailer's 32.
    for byte in [0x02, 0x0f, 0x21, 0x41, 0x81] {
        let mut newer = filter.clone();
        let at = newer.len() - 32 + 25;
        newer[at] = byte;
        assert!(contains_all(&policy, &newer, &keys));
    }
    assert_eq!(policy.counters().snapshot().unusable.unknown, 2 * 500);
    assert_eq!(unusable(&policy), 5 * 500);
}

#[test]
fn bloom_ribbon_and_all_sizes_share_one_name_and_read_each_other() {
    let rate = FalsePositiveRate::new(0.001).unwrap();
    let kinds = [
        FixedPolicy::default(),
        FixedPolicy::bloom(rate).unwrap(),
        FixedPolicy::ribbon(rate).unwrap(),
        FixedPolicy::binary_fuse(Sizing::FingerprintBits(8)).unwrap(),
        FixedPolicy::xor(Sizing::FingerprintBits(8)).unwrap(),
    ];
    let policies: Vec<SstFilterPolicy> = kinds.into_iter().map(SstFilterPolicy::new).collect();
    let keys = keys(3_000);
    for writer in &policies {
        let filter = writer.create_filter(&keys);
        for reader in &policies {
            assert_eq!(writer.name(), reader.name());
            assert!(contains_all(reader, &filter, &keys));
            assert_eq!(unusable(reader), 0);
            let absent = (0..3_000).filter(|&number| !reader.may_contain(&filter, &key(1_000_000 + number))).count();
            assert!(absent > 2_900, "{absent} of 3,000");
        }
    }
}

#[test]
fn a_full_partition_is_as_large_as_the_engine_asks() {
    let rate = FalsePositiveRate::new(0.001).unwrap();
    let policies = [
        SstFilterPolicy::bloom(),
        SstFilterPolicy::ribbon(),
        SstFilterPolicy::new(FixedPolicy::ribbon(rate).unwrap()),
        SstFilterPolicy::new(FixedPolicy::binary_fuse(Sizing::FingerprintBits(8)).unwrap()),
        migrating(engine_bloom()),
    ];
    for policy in policies {
        for bytes in [2_048, 4_096, 16_384, 65_536] {
            let count = policy.filter_keys_per_partition(bytes);
            let filter = policy.create_filter(&keys(count));
            // Ribbon's size depends on the keys, by up to 1 %; sizes of the others grow by a line of 64 bytes or more.
            assert!(filter.len() <= bytes + bytes / 100, "{} for {bytes}", filter.len());
            assert!(filter.len() * 10 >= bytes * 8, "{} for {bytes}", filter.len());
        }
        assert_eq!(policy.filter_keys_per_partition(0), 1);
        assert_eq!(policy.filter_keys_per_partition(1), 1);
        assert!(policy.filter_keys_per_partition(usize::MAX) > 1 << 30);
    }
}

#[test]
fn what_was_built_and_answered_is_counted() {
    let policy = SstFilterPolicy::ribbon();
    let counters = policy.counters();
    let bytes = [10, 1_024].map(|count| policy.clone().create_filter(&keys(count)).len() as u64);
    let filter = policy.create_filter(&keys(2_000));
    assert!(policy.may_contain(&filter, &key(7)));
    assert!(!policy.may_contain(&filter, b"not there"));
    assert!(policy.may_contain(b"", &key(7)));
    assert!(policy.may_contain(b"foreign", &key(7)));

    let counts = counters.snapshot();
    assert_eq!((counts.positives, counts.negatives), (1, 1));
    assert_eq!((counts.unusable.empty, counts.unusable.not_a_block, counts.unusable.total()), (1, 1, 2));
    assert_eq!(counts.builds, [(sstfilter::KindId::BLOCKED_BLOOM, 1), (sstfilter::KindId::RIBBON, 2)]);
    assert_eq!(counts.fallbacks, [(sstfilter::FallbackReason::TooFewKeys, 1)]);
    assert_eq!(counts.bytes_built, bytes.iter().sum::<u64>() + filter.len() as u64);
    assert_eq!(counts.keys_built, 10 + 1_024 + 2_000);
}
