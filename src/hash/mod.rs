//! Hashing: key bytes to one 64-bit [`KeyHash`], once per key for all files of a store.
//!
//! [`KeyHasher`] is XXH3-64 with the store's hash seed. Filters see only hashes, never keys. The seed is part of the
//! format: each filter block carries it or its fingerprint, so a filter is never probed with hashes of another
//! function.
//!
//! If keys come from untrusted users, use a secret seed ([`KeyHasher::random_secret`]). An attacker who knows the seed
//! can prepare colliding keys and raise the false positive rate up to 100 %. This never causes a false negative.
//! SECURITY.md has the figures.

mod extract;
mod parts;
mod secret;
mod sort;

use alloc::sync::Arc;
use core::fmt;

use xxhash_rust::xxh3::xxh3_64_with_seed;

pub use extract::{DelimitedPrefix, FixedPrefix, KeyExtractor, check_prefix_stability};
pub use parts::{Domain, KeyParts, OrderedKeyHashes, PrefixWatch, PreparedPrefix};
pub use secret::SecretSeed;
pub use sort::sort_hashes;
pub(crate) use sort::{SORT_THREAD_BYTES, SortScratch, partition_hashes, sort_with};

/// The default hash seed: the ASCII bytes `sstfilte`, read as a big-endian number.
///
/// It is not 0, because an engine may shard its keys by plain XXH3: with that seed, all hashes in a shard's filter
/// would share their high bits.
pub const DEFAULT_HASH_SEED: u64 = 0x7373_7466_696c_7465;

/// A well-mixed 64-bit hash of one key. Filters are built from hashes and probed with hashes.
///
/// ```
/// use sstfilter::{KeyHash, KeyHasher};
///
/// let hash: KeyHash = KeyHasher::default().hash(b"key");
/// assert_eq!(hash, KeyHasher::default().hash(b"key"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
#[must_use]
pub struct KeyHash(u64);

impl KeyHash {
    /// Wraps a hash that the engine has computed itself, unchanged.
    ///
    /// The hash must meet two requirements. Every bit depends on every bit of the key, as in XXH3, `SipHash` and
    /// wyhash, but not in FNV, CRC or the key itself. No bit was used to group keys (sharding, partitioning,
    /// bucketing). Otherwise false positives are more frequent, though no false negative occurs; use [`KeyHash::mix`]
    /// instead.
    pub const fn from_well_mixed(hash: u64) -> Self {
        Self(hash)
    }

    /// Mixes a 64-bit value that identifies a key but is not well mixed: an integer key, a weak hash, or a hash whose
    /// high bits select the shard.
    ///
    /// The mixing is a bijection: distinct values stay distinct.
    pub const fn mix(value: u64) -> Self {
        Self(mix64(value ^ DEFAULT_HASH_SEED))
    }

    /// The hash as a number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the hash's partition among `partitions`, and the hash inside that partition: the two halves of one
    /// product.
    ///
    /// With an odd number of partitions, distinct hashes of one partition stay distinct: the lower half is a bijection
    /// of the whole hash. Sorted hashes stay sorted inside a partition, and the low bits do not depend on the bits that
    /// selected the partition. Only that partition's filter contains the hash, and only if it was built with the same
    /// number of partitions.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the halves: the upper is below the number of partitions")]
    pub const fn in_partition(self, partitions: u32) -> (u32, Self) {
        let product = self.0 as u128 * partitions as u128;
        ((product >> 64) as u32, Self(product as u64))
    }

    /// Returns the hash under a filter's salt, for one multiplication. Each salt yields a different hash.
    #[inline]
    pub(crate) const fn salted(self, salt: SaltStep) -> u64 {
        let product = (self.0 ^ salt.0).wrapping_mul(SALT_MULTIPLIER);
        // Low bits of a product depend only on low bits of its factors, so the high half is folded in.
        product ^ (product >> 32)
    }
}

/// The step that a salt adds to a hash before mixing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SaltStep(u64);

impl SaltStep {
    pub(crate) const fn new(salt: u8) -> Self {
        // Plus one, so that salt 0 changes the hash, too.
        Self(STEP.wrapping_mul(salt as u64 + 1))
    }
}

/// The golden ratio in 64 bits. Salt `s` adds `s + 1` times this number to a hash.
pub(crate) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The first 64 bits of the fraction of pi. They form an odd number, so multiplying by it is a bijection.
const SALT_MULTIPLIER: u64 = 0x243f_6a88_85a3_08d3;

/// A bijection of 64-bit words in which every output bit depends on every input bit.
///
/// Shifts and multipliers are those of the `SplitMix64` output function (Steele, Lea, Flood 2014; constants by
/// Stafford, variant 13).
pub(crate) const fn mix64(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Maps a well-mixed `hash` to `0..range`: the high 64 bits of the 128-bit product. This needs no division, has no
/// bias, and is monotone, so sorted hashes map to ascending slots. Rejected: `%`, which divides and uses the low bits,
/// and a product of 32-bit halves, which is biased in filters of more than a few million lines.
pub(crate) const fn map_to_range(hash: u64, range: u64) -> u64 {
    ((hash as u128 * range as u128) >> 64) as u64
}

/// Like [`map_to_range`], for a range below 2^32, with multiplications of 32 bits: vectors have no 128-bit product.
#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled with the instructions of its caller")]
pub(crate) const fn map_to_small_range(hash: u64, range: u64) -> u64 {
    let range = range & 0xffff_ffff;
    ((hash >> 32) * range + (((hash & 0xffff_ffff) * range) >> 32)) >> 32
}

/// The function that computed the hashes of a filter block; four bits of its trailer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HashId {
    /// XXH3-64 with the seed that the block carries.
    Xxh3,
    /// XXH3-64 with a secret seed; the block carries the seed's fingerprint.
    Xxh3Secret,
    /// A user-defined function; the block carries the engine's tag for it.
    Custom,
    /// A function that this release does not know. It cannot probe such a filter.
    Unknown(u8),
}

impl HashId {
    /// The number recorded in a trailer.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Xxh3 => 1,
            Self::Xxh3Secret => 2,
            Self::Custom => 15,
            Self::Unknown(code) => code,
        }
    }

    /// The function with this number in a trailer.
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        match code {
            1 => Self::Xxh3,
            2 => Self::Xxh3Secret,
            15 => Self::Custom,
            code => Self::Unknown(code),
        }
    }
}

/// The identity of a hash function. Equal identities mean equal hashes, except for one wrong secret seed in 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[must_use]
pub struct HashIdentity {
    /// The function.
    pub id: HashId,
    /// Its seed, the fingerprint of its secret seed, or the engine's tag, depending on `id`.
    pub seed: u64,
}

impl HashIdentity {
    /// Creates an identity as a block records it. For a secret seed, pass its fingerprint: blocks store this number in
    /// the clear. Blocks have four bits for `id`, so no block is written for an [unknown](HashId::Unknown) code above
    /// 15.
    pub const fn new(id: HashId, seed: u64) -> Self {
        Self { id, seed }
    }

    /// Returns the identity of a user-defined hash with this tag. Use it for filters that see only hashes, not keys.
    pub const fn custom(tag: u64) -> Self {
        Self { id: HashId::Custom, seed: tag }
    }
}

impl Default for HashIdentity {
    /// The identity of the default [`KeyHasher`].
    fn default() -> Self {
        Self { id: HashId::Xxh3, seed: DEFAULT_HASH_SEED }
    }
}

impl fmt::Display for HashIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id {
            HashId::Xxh3 => write!(f, "XXH3-64, seed {:#018x}", self.seed),
            HashId::Xxh3Secret => write!(f, "XXH3-64, secret seed with fingerprint {:#010x}", self.seed),
            HashId::Custom => write!(f, "custom hash, tag {:#018x}", self.seed),
            HashId::Unknown(code) => write!(f, "unknown hash {code}, seed {:#018x}", self.seed),
        }
    }
}

/// A user-defined hash function.
type CustomHash = dyn Fn(&[u8]) -> KeyHash + Send + Sync;

/// Turns key bytes into a [`KeyHash`]. Create one per store. Clones are cheap.
///
/// ```
/// use sstfilter::KeyHasher;
///
/// let default = KeyHasher::default();
/// let seeded = KeyHasher::with_seed(42);
/// assert_ne!(default.hash(b"key"), seeded.hash(b"key"));
/// assert_ne!(default.identity(), seeded.identity());
/// ```
#[derive(Clone)]
#[must_use]
pub struct KeyHasher {
    /// The seed of XXH3; unused with a custom function.
    seed: u64,
    custom: Option<Arc<CustomHash>>,
    identity: HashIdentity,
}

impl KeyHasher {
    /// Returns XXH3-64 with a seed that every filter block stores in the clear.
    pub const fn with_seed(seed: u64) -> Self {
        Self { seed, custom: None, identity: HashIdentity { id: HashId::Xxh3, seed } }
    }

    /// Returns XXH3-64 with a secret seed. Blocks carry only a 32-bit fingerprint of the seed, which detects a wrong
    /// one.
    ///
    /// The engine must keep the seed: without it, its tables stay readable but their filters are useless. The
    /// fingerprint misses one wrong seed in 2^32. Tables catch nearly all of these by probing the filter for two keys
    /// that it must contain. The fingerprint has only 32 bits so that it reveals little of the seed (SECURITY.md).
    pub fn with_secret_seed(seed: impl Into<SecretSeed>) -> Self {
        let seed = seed.into();
        let identity = HashIdentity { id: HashId::Xxh3Secret, seed: seed.fingerprint().into() };
        Self { seed: seed.get(), custom: None, identity }
    }

    /// Returns XXH3-64 with a random secret seed, and the seed. The engine must keep the seed for the next start.
    ///
    /// ```
    /// use sstfilter::KeyHasher;
    ///
    /// let (hasher, seed) = KeyHasher::random_secret()?;
    /// assert!(!format!("{hasher:?} {seed:?}").contains(&format!("{:?}", seed.to_bytes())));
    /// assert_eq!(KeyHasher::with_secret_seed(seed).identity(), hasher.identity());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`SecretSeed::random`].
    #[cfg(feature = "std")]
    pub fn random_secret() -> std::io::Result<(Self, SecretSeed)> {
        let seed = SecretSeed::random()?;
        Ok((Self::with_secret_seed(seed.clone()), seed))
    }

    /// Returns a hasher that calls `function`. Filter blocks record `tag`, which stands for the function and its seed:
    /// change the tag whenever either changes.
    ///
    /// [`KeyHash::from_well_mixed`] states the requirements on the function.
    pub fn custom(tag: u64, function: impl Fn(&[u8]) -> KeyHash + Send + Sync + 'static) -> Self {
        Self { seed: 0, custom: Some(Arc::new(function)), identity: HashIdentity::custom(tag) }
    }

    /// Returns the hasher with this identity; `None` if the seed is secret or the function is custom, because the
    /// identity then does not determine the hasher.
    #[must_use]
    pub fn from_identity(identity: HashIdentity) -> Option<Self> {
        (identity.id == HashId::Xxh3).then(|| Self::with_seed(identity.seed))
    }

    /// The identity that filter blocks record for this hasher.
    pub const fn identity(&self) -> HashIdentity {
        self.identity
    }

    /// Hashes `key`.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        match &self.custom {
            None => KeyHash(xxh3_64_with_seed(key, self.seed)),
            Some(function) => function(key),
        }
    }

    /// Whether the function is custom. Such a function may panic.
    pub(crate) const fn is_custom(&self) -> bool {
        self.custom.is_some()
    }

    /// Whether both hashers certainly compute the same hashes. Equal identities do not prove it: two secret seeds can
    /// share a fingerprint, and two functions a tag.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        // Functions cannot be compared, only their addresses.
        let address = |hasher: &Self| hasher.custom.as_ref().map(|function| Arc::as_ptr(function).cast::<()>());
        self.identity == other.identity && self.seed == other.seed && address(self) == address(other)
    }
}

impl Default for KeyHasher {
    /// XXH3-64 with [`DEFAULT_HASH_SEED`].
    fn default() -> Self {
        Self::with_seed(DEFAULT_HASH_SEED)
    }
}

impl fmt::Debug for KeyHasher {
    /// Shows only the identity, to keep a secret seed out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyHasher").field("identity", &self.identity).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_xxh3_64_of_the_key_bytes() {
        // Published check value of XXH3-64 for the empty input with seed 0.
        assert_eq!(KeyHasher::with_seed(0).hash(b"").get(), 0x2d06_8005_38d3_94c2);
        assert_eq!(KeyHasher::default().hash(b"key").get(), xxh3_64_with_seed(b"key", DEFAULT_HASH_SEED));
    }

    #[test]
    fn a_secret_seed_hashes_alike_but_is_not_in_the_identity_nor_in_debug_output() {
        let open = KeyHasher::with_seed(0xdead_beef_cafe_f00d);
        let secret = KeyHasher::with_secret_seed(0xdead_beef_cafe_f00d);
        assert_eq!(open.hash(b"k"), secret.hash(b"k"));
        assert_ne!(open.identity(), secret.identity());
        assert!(u32::try_from(secret.identity().seed).is_ok());
        assert!(!format!("{secret:?}").contains(&0xdead_beef_cafe_f00d_u64.to_string()));
        assert!(KeyHasher::from_identity(secret.identity()).is_none());
    }

    #[test]
    fn a_custom_function_is_called_and_carries_its_tag() {
        let hasher = KeyHasher::custom(7, |key| KeyHash::mix(key.len() as u64));
        assert_eq!(hasher.hash(b"ab"), KeyHash::mix(2));
        assert_eq!(hasher.identity(), HashIdentity { id: HashId::Custom, seed: 7 });
    }

    #[test]
    fn salts_give_unrelated_hashes_that_are_still_distinct() {
        let salted = |salt| (0..1_000).map(move |key| KeyHash::mix(key).salted(SaltStep::new(salt)));
        let mut all: Vec<u64> = (0..16).flat_map(salted).collect();
        let flipped: u32 = salted(0).zip(salted(1)).map(|(one, other)| (one ^ other).count_ones()).sum();
        assert!((31_000..33_000).contains(&flipped), "{flipped} of 64,000 bits");
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 16_000);
    }

    #[test]
    fn hash_id_codes_round_trip() {
        let is_known = |&code: &u8| !matches!(HashId::from_code(code), HashId::Unknown(_));
        assert_eq!((0..=255).filter(is_known).collect::<Vec<_>>(), [1, 2, 15]);
        assert!((0..=255).all(|code| HashId::from_code(code).code() == code));
    }
}
