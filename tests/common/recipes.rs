//! How fixtures are made from their keys: the hash, and the policy or the filter in memory.

use sstfilter::kind::KindEntry;
use sstfilter::{
    BitsPerKey, BuildContext, CountingBloom, CuckooFilter, DynamicFilter, FalsePositiveRate, FixedPolicy, KeyHash,
    KeyHasher, KeyParts, RegisterBlockedBloom, Sizing, StandardBloom,
};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// How a fixture's keys are hashed.
#[derive(Clone, Copy)]
pub(crate) enum Hash {
    Default,
    Secret(u64),
    Custom { tag: u64, seed: u64 },
}

impl Hash {
    pub(crate) fn hasher(self) -> KeyHasher {
        match self {
            Self::Default => KeyHasher::default(),
            Self::Secret(seed) => KeyHasher::with_secret_seed(seed),
            Self::Custom { tag, seed } => {
                KeyHasher::custom(tag, move |key| KeyHash::from_well_mixed(xxh3_64_with_seed(key, seed)))
            }
        }
    }

    /// The seed of XXH3-64, even if the block stores only its fingerprint.
    pub(crate) fn seed(self) -> u64 {
        match self {
            Self::Default => sstfilter::DEFAULT_HASH_SEED,
            Self::Secret(seed) | Self::Custom { seed, .. } => seed,
        }
    }
}

/// How a fixture is made from its keys.
#[derive(Clone, Copy)]
pub(crate) enum Recipe {
    /// By the builder of a policy.
    Policy(Policy),
    /// Inserted into a filter of this many bytes.
    RegisterBlocked { probes: u8, bytes: u64 },
    /// A counting Bloom filter of this many counters, every third key inserted again and removed once.
    CountingBloom { counters: u64, probes: u8 },
    /// A standard Bloom filter of this many bits.
    StandardBloom { bits: u64, probes: u8 },
    /// A cuckoo filter planned for exactly its number of keys.
    Cuckoo { tag_bits: u8 },
}

impl Recipe {
    pub(crate) fn describe(self) -> String {
        match self {
            Self::Policy(policy) => policy.describe(),
            Self::RegisterBlocked { probes, bytes } => {
                format!("register-blocked bloom, {probes} bits in 64, {bytes} bytes")
            }
            Self::CountingBloom { counters, probes } => {
                format!(
                    "counting bloom, {counters} counters, {probes} probes, keys 0, 3, 6, ... inserted again and removed once"
                )
            }
            Self::StandardBloom { bits, probes } => format!("standard bloom, {bits} bits, {probes} probes"),
            Self::Cuckoo { tag_bits } => format!("cuckoo, tags of {tag_bits} bits, planned for its keys"),
        }
    }

    /// Builds the block of `keys`, added in their order. Filters of policies hold these parts of keys, others whole
    /// keys.
    pub(crate) fn build(self, hasher: &KeyHasher, parts: KeyParts, keys: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
        match self {
            Self::Policy(policy) => {
                let mut builder = policy.make().builder(&BuildContext::new(hasher).with_key_parts(parts));
                keys.for_each(|key| builder.add_key(&key));
                builder.finish().block.unwrap().to_vec()
            }
            Self::RegisterBlocked { probes, bytes } => {
                let filter = RegisterBlockedBloom::with_shape(hasher.identity(), bytes, probes).unwrap();
                keys.for_each(|key| {
                    filter.insert(hasher.hash(&key));
                });
                filter.to_block().unwrap().to_vec()
            }
            Self::CountingBloom { counters, probes } => {
                let mut filter = CountingBloom::with_shape(hasher.identity(), counters, probes).unwrap();
                let hashes: Vec<KeyHash> = keys.map(|key| hasher.hash(&key)).collect();
                filter.insert_all(&hashes);
                hashes.iter().step_by(3).for_each(|&hash| {
                    filter.insert(hash);
                });
                hashes.iter().step_by(3).for_each(|&hash| filter.remove(hash).unwrap());
                filter.to_block().unwrap().to_vec()
            }
            Self::StandardBloom { bits, probes } => {
                let mut filter = StandardBloom::with_shape(hasher.identity(), bits, probes).unwrap();
                keys.for_each(|key| {
                    filter.insert(hasher.hash(&key));
                });
                filter.to_block().unwrap().to_vec()
            }
            Self::Cuckoo { tag_bits } => {
                let hashes: Vec<KeyHash> = keys.map(|key| hasher.hash(&key)).collect();
                let mut filter = CuckooFilter::with_tag_bits(hasher.identity(), hashes.len() as u64, tag_bits).unwrap();
                filter.insert_all(&hashes).unwrap();
                filter.to_block().unwrap().to_vec()
            }
        }
    }

    /// Whether the block's number of keys is counted, not estimated.
    pub(crate) fn is_counted(self) -> bool {
        !matches!(self, Self::RegisterBlocked { .. })
    }
}

/// The policy that builds a fixture.
#[derive(Clone, Copy)]
pub(crate) struct Policy {
    /// The kind's name in the table of kinds.
    kind: &'static str,
    /// Its name in the manifest.
    label: &'static str,
    size: Size,
    min_keys: u64,
}

#[derive(Clone, Copy)]
enum Size {
    BitsPerKey(f64),
    Rate(f64),
    FingerprintBits(u8),
}

impl Policy {
    const fn new(kind: &'static str, label: &'static str, size: Size) -> Self {
        Self { kind, label, size, min_keys: 0 }
    }

    /// Filters with fingerprints of `bits` bits.
    pub(crate) const fn of_fingerprints(kind: &'static str, label: &'static str, bits: u8) -> Self {
        Self::new(kind, label, Size::FingerprintBits(bits))
    }

    /// Blocked Bloom filters.
    pub(crate) const fn bloom(bits_per_key: f64) -> Self {
        Self::new("bloom", "bloom", Size::BitsPerKey(bits_per_key))
    }

    /// Standard Bloom filters.
    pub(crate) const fn standard_bloom(bits_per_key: f64) -> Self {
        Self::new("standard-bloom", "standard bloom", Size::BitsPerKey(bits_per_key))
    }

    /// Ribbon filters of a rate.
    pub(crate) const fn ribbon(rate: f64, min_keys: u64) -> Self {
        Self { min_keys, ..Self::new("ribbon", "ribbon", Size::Rate(rate)) }
    }

    /// Line ribbon filters of a size, which stands for a load.
    pub(crate) const fn line_ribbon(bits_per_key: f64, min_keys: u64) -> Self {
        Self { min_keys, ..Self::new("line-ribbon", "line ribbon", Size::BitsPerKey(bits_per_key)) }
    }

    pub(crate) fn make(self) -> FixedPolicy {
        let sizing = match self.size {
            Size::BitsPerKey(bits) => BitsPerKey::new(bits).unwrap().into(),
            Size::Rate(rate) => FalsePositiveRate::new(rate).unwrap().into(),
            Size::FingerprintBits(bits) => Sizing::FingerprintBits(bits),
        };
        KindEntry::named(self.kind).unwrap().configure(sizing).unwrap().with_min_keys(self.min_keys)
    }

    pub(crate) fn describe(self) -> String {
        let Self { label, min_keys, .. } = self;
        match self.size {
            Size::BitsPerKey(bits) if min_keys > 0 => format!("{label}, {bits} bits per key, from {min_keys} keys on"),
            Size::BitsPerKey(bits) => format!("{label}, {bits} bits per key"),
            Size::Rate(rate) => format!("{label}, false positive rate {rate}, from {min_keys} keys on"),
            Size::FingerprintBits(bits) if self.kind.starts_with("xor") => format!("{label}, {bits} bits"),
            Size::FingerprintBits(bits) => format!("{label}, fingerprints of {bits} bits"),
        }
    }
}
