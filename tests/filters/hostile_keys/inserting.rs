//! Keys inserted by an attacker because of their positions in a filter.

use sstfilter::kind::{self, KindEntry};
use sstfilter::{
    BitsPerKey, CountingBloom, CuckooFilter, DEFAULT_HASH_SEED, FallbackReason, FilterBlock, FilterError, FixedPolicy,
    HashIdentity, KeyHash, KeyHasher,
};

use super::kinds::{Built, at_most, build, rate};
use super::xxh3::key_with_hash;
use super::{open_hasher, secret_hasher};
use crate::common;

/// Half of the keys are the store's, half the attacker's.
const HALF: u32 = 50_000;
const ABSENT: u32 = 200_000;

fn own_keys(count: u32) -> impl Iterator<Item = [u8; 8]> {
    (0..u64::from(count)).map(|key| (key << 32 | 1).to_le_bytes())
}

fn absent_keys() -> impl Iterator<Item = [u8; 8]> {
    (0..u64::from(ABSENT)).map(|key| (key << 32 | 2).to_le_bytes())
}

/// The result of an attack: the rate of ordinary absent keys, and the build.
struct Outcome {
    rate: f64,
    built: Built,
}

fn outcome(kind: &KindEntry, hasher: &KeyHasher, chosen: impl Iterator<Item = [u8; 8]>) -> Outcome {
    let keys: Vec<[u8; 8]> = own_keys(HALF).chain(chosen).collect();
    let built = build(kind, hasher, &keys);
    Outcome { rate: rate(&built.filter, hasher, absent_keys()), built }
}

/// Rates with honest keys, with chosen keys, and with the chosen keys under a secret seed, where they must not matter.
fn compare(attack: &str, kind: &KindEntry, chosen: &[u64]) -> [Outcome; 3] {
    assert_eq!(chosen.len(), HALF as usize);
    let name = kind.name;
    let honest = outcome(kind, &open_hasher(), own_keys(2 * HALF).skip(HALF as usize));
    let keys = || chosen.iter().map(|&hash| key_with_hash(hash, DEFAULT_HASH_SEED));
    let (known, secret) = (outcome(kind, &open_hasher(), keys()), outcome(kind, &secret_hasher(), keys()));
    println!(
        "{name}, {attack}: honest {:.2} %, seed known {:.2} %, secret {:.2} %; build x {:.1}, bytes x {:.2}, {:?}",
        honest.rate * 100.0,
        known.rate * 100.0,
        secret.rate * 100.0,
        known.built.time.as_secs_f64() / honest.built.time.as_secs_f64(),
        known.built.filter.as_bytes().len() as f64 / honest.built.filter.as_bytes().len() as f64,
        known.built.reason,
    );
    let most = at_most(honest.rate, ABSENT / 10);
    assert!(secret.rate <= most, "{name}, {attack}, secret: {}, at most {most}", secret.rate);
    assert_eq!(secret.built.reason, FallbackReason::None);
    [honest, known, secret]
}

/// Hashes whose first 24 bits are 0.
fn in_one_place(count: u32) -> Vec<u64> {
    common::key_set(7, count).map(|hash| hash.get() >> 24).collect()
}

// promise: no-false-negatives
// promise: never-fails-a-write
#[test]
fn keys_that_all_go_to_one_place_leave_the_rate_of_every_kind_within_bounds() {
    for kind in kind::all().iter().filter(|kind| kind.name != "cuckoo") {
        let name = kind.name;
        let [honest, known, _] = compare("all in one place", kind, &in_one_place(HALF));
        assert!(known.rate <= at_most(honest.rate, ABSENT / 10), "{name}: {}", known.rate);
        let times = known.built.filter.as_bytes().len() as f64 / honest.built.filter.as_bytes().len() as f64;
        assert!(times < 1.6, "{name}: {times} times the bytes");
    }
}

/// Keys that set the largest number of different bits of a line, chosen one by one as the best of some candidates.
fn masks_that_fill_a_line(keys: usize) -> Vec<u64> {
    let policy = FixedPolicy::bloom(BitsPerKey::TEN).unwrap();
    let fill = |hashes: &[KeyHash]| {
        let mut padded = hashes.to_vec();
        // The number of keys decides the number of probes' lines: as many as fit in one.
        padded.resize(keys, hashes[0]);
        let block = common::build(&policy, &padded).block.unwrap();
        FilterBlock::open_unverified(block).unwrap().fill_ratio().unwrap()
    };
    let mut chosen: Vec<KeyHash> = Vec::new();
    let mut candidates = common::key_set(9, u32::MAX).map(|hash| KeyHash::from_well_mixed(hash.get() >> 32));
    for _ in 0..keys {
        let best = candidates.by_ref().take(64).max_by(|a, b| {
            let with = |&hash: &KeyHash| fill(&[&chosen[..], &[hash]].concat());
            with(a).total_cmp(&with(b))
        });
        chosen.extend(best);
    }
    chosen.into_iter().map(KeyHash::get).collect()
}

#[test]
fn keys_that_share_no_bits_raise_the_rate_of_blocked_bloom_some_times_under_a_known_seed_only() {
    // Of 51 keys of a line, half are chosen; lines are taken in turn.
    let masks = masks_that_fill_a_line(26);
    let lines = (2 * HALF).div_ceil(51);
    let in_line = |number: u32| u64::from(number % lines) * (u64::MAX / u64::from(lines)) + (1 << 40);
    let hash = |number: u32| in_line(number) >> 32 << 32 | masks[(number / lines) as usize % masks.len()];
    let chosen: Vec<u64> = (0..HALF).map(hash).collect();
    let [honest, known, _] = compare("no bits shared", KindEntry::named("bloom").unwrap(), &chosen);
    let times = known.rate / honest.rate;
    assert!((1.2..6.0).contains(&times), "{times} times the rate");
}

/// The positions of a key in a standard Bloom filter (docs/format/growing.md).
fn positions(hash: u64, bits: u64) -> [u64; 7] {
    let (mut at, mut step) = (hash, hash.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    std::array::from_fn(|_| {
        let position = u64::try_from((u128::from(at) * u128::from(bits)) >> 64).unwrap();
        at = at.wrapping_add(step);
        step = step.rotate_left(23);
        position
    })
}

#[test]
fn keys_that_share_no_bits_raise_the_rate_of_standard_bloom_some_times_under_a_known_seed_only() {
    let bits = u64::from(2 * HALF * 10).next_multiple_of(64);
    let mut taken = vec![false; usize::try_from(bits).unwrap()];
    let at = |position: u64| usize::try_from(position).unwrap();
    let set = |taken: &mut Vec<bool>, hash: u64| positions(hash, bits).iter().for_each(|&bit| taken[at(bit)] = true);
    own_keys(HALF).for_each(|key| set(&mut taken, open_hasher().hash(&key).get()));
    let mut candidates = common::key_set(11, u32::MAX).map(KeyHash::get);
    let mut chosen = Vec::new();
    for _ in 0..HALF {
        let free = |hash: &u64| positions(*hash, bits).iter().filter(|&&bit| !taken[at(bit)]).count();
        let best = candidates.by_ref().take(24).max_by_key(free).unwrap();
        set(&mut taken, best);
        chosen.push(best);
    }
    for name in ["standard-bloom", "counting-bloom"] {
        let [honest, known, _] = compare("no bits shared", KindEntry::named(name).unwrap(), &chosen);
        let times = known.rate / honest.rate;
        assert!((1.5..8.0).contains(&times), "{name}: {times} times the rate");
    }
}

#[test]
fn nine_keys_fill_a_cuckoo_filter_under_a_known_seed_only_and_it_says_so_at_once() {
    let mut filter =
        CuckooFilter::for_rate(HashIdentity::default(), 100_000, sstfilter::FalsePositiveRate::new(0.01).unwrap())
            .unwrap();
    let tags = (1_u64 << filter.tag_bits()) - 1;
    let tag =
        |hash: u64| u64::try_from((u128::from(hash.wrapping_mul(0x9e37_79b9_7f4a_7c15)) * u128::from(tags)) >> 64);
    let alike: Vec<u64> = common::key_set(13, u32::MAX)
        .map(|hash| hash.get() >> 24)
        .filter(|&hash| tag(hash) == Ok(5))
        .take(100)
        .collect();
    let keys: Vec<[u8; 8]> = alike.iter().map(|&hash| key_with_hash(hash, DEFAULT_HASH_SEED)).collect();
    let hashes = |hasher: &KeyHasher| keys.iter().map(|key| hasher.hash(key)).collect::<Vec<_>>();
    let known = hashes(&open_hasher());
    assert!(known[..8].iter().all(|&hash| filter.insert(hash).is_ok()));
    let begun = std::time::Instant::now();
    for &hash in &known[8..] {
        assert!(matches!(filter.insert(hash), Err(FilterError::Full { keys: 8, .. })));
    }
    println!("Cuckoo: full after 8 of 100,000 keys; a refusal takes {:?}", begun.elapsed() / 92);
    assert!(known.iter().all(|&hash| filter.contains(hash)), "they all look alike");
    own_keys(1_000).for_each(|key| filter.insert(open_hasher().hash(&key)).unwrap());

    let mut guarded = CuckooFilter::with_tag_bits(HashIdentity::default(), 100_000, filter.tag_bits()).unwrap();
    assert!(hashes(&secret_hasher()).into_iter().all(|hash| guarded.insert(hash).is_ok()));
}

/// This attack needs no seed: writing one key again and again is enough.
#[test]
fn counters_that_one_key_saturates_stay_and_no_key_is_denied() {
    let hasher = secret_hasher();
    let mut filter = CountingBloom::for_size(HashIdentity::default(), 10_000, BitsPerKey::TEN).unwrap();
    let own: Vec<KeyHash> = own_keys(1_000).map(|key| hasher.hash(&key)).collect();
    filter.insert_all(&own);
    for key in 0..600_u64 {
        let hash = hasher.hash(&(key << 32 | 3).to_le_bytes());
        filter.insert_all(&[hash; 15]);
        (0..15).for_each(|_| filter.remove(hash).unwrap());
    }
    assert!(own.iter().all(|&hash| filter.contains(hash)));
    let stuck = filter.saturated() as f64 / filter.counters() as f64;
    println!("CountingBloom: 9,000 insertions and removals of 600 keys leave {:.1} % saturated", stuck * 100.0);
    assert!((0.035..0.045).contains(&stuck), "{stuck}");
}
