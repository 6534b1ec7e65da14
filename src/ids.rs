//! Identifiers used by all layers: the kind of a filter, and the file that a block is bound to.

use core::fmt;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::ConfigError;

/// The number of a kind of filter, as a block's trailer records it.
///
/// 0 is never written; 1 to 127 belong to this project, 128 to 255 to user-defined kinds.
///
/// ```
/// use sstfilter::KindId;
///
/// assert_eq!(KindId::RIBBON.name(), "ribbon");
/// assert!(KindId::from_code(200).is_user_defined());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[must_use]
pub struct KindId(u8);

impl KindId {
    /// Blocked Bloom, one 64-byte line per key: the default.
    pub const BLOCKED_BLOOM: Self = Self(1);
    /// Bumped Ribbon.
    pub const RIBBON: Self = Self(2);
    /// Bloom over the whole array, by double hashing.
    pub const STANDARD_BLOOM: Self = Self(3);
    /// Bloom with 4-bit counters instead of bits.
    pub const COUNTING_BLOOM: Self = Self(4);
    /// Bloom with all bits of a key in one word, for many threads.
    pub const REGISTER_BLOCKED_BLOOM: Self = Self(5);
    /// Cuckoo: tags in buckets of four.
    pub const CUCKOO: Self = Self(6);
    /// Xor: fingerprints in three blocks.
    pub const XOR: Self = Self(7);
    /// Xor+: an xor filter whose third block leaves out its empty cells.
    pub const XOR_PLUS: Self = Self(8);
    /// Binary fuse: fingerprints in three neighbouring segments. The variant `binary-fuse-4` has four.
    pub const BINARY_FUSE: Self = Self(9);
    /// Filters for ranges of keys, of the package `sstfilter-range`. [`all`](crate::kind::all) leaves it out, because
    /// it lists kinds that are built from hashes and probed for single keys.
    pub const RANGE: Self = Self(10);
    /// Line ribbon: Ribbon with all slots of a key in one cache line.
    pub const LINE_RIBBON: Self = Self(11);

    /// Returns the kind's name, as used in reports and option files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BLOCKED_BLOOM => "bloom",
            Self::RIBBON => "ribbon",
            Self::STANDARD_BLOOM => "standard-bloom",
            Self::COUNTING_BLOOM => "counting-bloom",
            Self::REGISTER_BLOCKED_BLOOM => "register-blocked-bloom",
            Self::CUCKOO => "cuckoo",
            Self::XOR => "xor",
            Self::XOR_PLUS => "xor+",
            Self::BINARY_FUSE => "binary-fuse",
            Self::RANGE => "range",
            Self::LINE_RIBBON => "line-ribbon",
            Self(128..) => "user-defined",
            _ => "unknown",
        }
    }

    /// Returns the kind with this number, known or not.
    pub const fn from_code(code: u8) -> Self {
        Self(code)
    }

    /// Returns the kind's number.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// Returns whether the number is in the range reserved for user-defined kinds.
    #[must_use]
    pub const fn is_user_defined(self) -> bool {
        self.0 >= 128
    }
}

impl fmt::Debug for KindId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KindId({}, {})", self.0, self.name())
    }
}

impl fmt::Display for KindId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The seed of file fingerprints: the ASCII bytes `sstfbind`, read as a big-endian number. It differs from the seed of
/// key hashes, so that no file id has the fingerprint that the same bytes have as a key.
const FINGERPRINT_SEED: u64 = 0x7373_7466_6269_6e64;

/// The id of the file that a filter block is built for: random ([`FileId::random`]), a UUID, or any 1 to 16 bytes that
/// never stand for other contents, in this store or in any store that it exchanges files with.
///
/// Only a *bound* block identifies its file. An unbound block of another file (a swapped sidecar, a misdirected or
/// stale write) has valid checksums and answers "absent" for nearly every key. So pass the id when you build the filter
/// and again when you load it: a block bound to another file, or to none, is then
/// [unusable](crate::BlockError::FileMismatch). The block stores a 64-bit fingerprint of the id, in 8 bytes.
///
/// If an id is reused, readers accept a stale block of the former file, and lose nearly all keys of the new one. So
/// draw the id at random when the file is begun, and store it in the file's metadata. A file number is an id only if it
/// never stands for two contents. It may do so after a crash, when the next number comes from a directory listing or
/// from a manifest that was not synced, or in a replica, a shard or an exporter that counts the same numbers.
///
/// ```
/// use sstfilter::{FileId, Filters};
///
/// let (filters, file) = (Filters::default(), FileId::random());
/// let mut builder = filters.builder(file);
/// builder.add_key(b"apple");
/// let block = builder.finish().block.expect("one key fits");
///
/// // Kept in the file itself: in its footer, for example.
/// let stored: u64 = file.fingerprint();
/// assert!(filters.load(Some(&block), FileId::from_fingerprint(stored)).block().is_ok());
/// assert!(filters.load(Some(&block), FileId::random()).block().is_err(), "the filter of another file");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[must_use]
pub struct FileId {
    pub(crate) fingerprint: u64,
}

impl FileId {
    /// Returns the id made from 1 to 16 bytes. Ids of different lengths differ.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] for 0 bytes, or more than 16.
    pub fn new(id: &[u8]) -> Result<Self, ConfigError> {
        let refused = ConfigError::out_of_range("file id", "1 to 16 bytes", id.len() as u64);
        if (1..=16).contains(&id.len()) { Ok(Self::of(id)) } else { Err(refused) }
    }

    /// Draws an id at random that no other file has. Store its [`fingerprint`](Self::fingerprint) with the file:
    /// readers need it.
    ///
    /// # Panics
    ///
    /// On bare WebAssembly (`wasm32-unknown-unknown`). It has neither a clock nor random numbers, so that each run
    /// would draw the same ids; get random bytes from the host, and pass them to [`new`](Self::new).
    #[cfg(feature = "std")]
    pub fn random() -> Self {
        Self::of(&unique_id())
    }

    /// Returns the fingerprint that a block stores.
    #[must_use]
    pub const fn fingerprint(self) -> u64 {
        self.fingerprint
    }

    /// Returns the id that has this stored fingerprint.
    pub const fn from_fingerprint(fingerprint: u64) -> Self {
        Self { fingerprint }
    }

    fn of(id: &[u8]) -> Self {
        Self { fingerprint: xxh3_64_with_seed(id, FINGERPRINT_SEED) }
    }
}

/// Returns 16 unique bytes, made of the process's random seed, the time, the process id and a counter. Unique, not
/// secret.
#[cfg(feature = "std")]
fn unique_id() -> [u8; 16] {
    use core::hash::{BuildHasher, Hasher};
    use core::sync::atomic::{AtomicU64, Ordering};
    use std::hash::RandomState;
    use std::time::SystemTime;

    static CREATED: AtomicU64 = AtomicU64::new(0);
    let count = CREATED.fetch_add(1, Ordering::Relaxed);
    // Bare WebAssembly has no clock, so the standard library panics here. That is intended: `RandomState` has the same
    // seed in each run there, and ids would repeat.
    let nanos = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
    // WASI has no process ids, and `std::process::id` would panic. It has a clock, and a new seed in each run.
    let process = if cfg!(target_os = "wasi") { 0 } else { std::process::id() };
    // Two keyed hashes of the same input, because one has only 64 bits. Each `RandomState::new` has other keys.
    let half = || {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u64(count);
        hasher.write_u128(nanos);
        hasher.write_u32(process);
        u128::from(hasher.finish())
    };
    (half() << 64 | half()).to_le_bytes()
}

impl From<[u8; 16]> for FileId {
    /// Makes the id of a UUID, or of any 16 bytes.
    fn from(id: [u8; 16]) -> Self {
        Self::of(&id)
    }
}

impl fmt::Debug for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileId(fingerprint {:#018x})", self.fingerprint)
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fingerprint {:#018x}", self.fingerprint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHasher;

    #[test]
    fn ids_of_other_bytes_or_another_length_have_other_fingerprints() {
        let mut seen = std::collections::HashSet::new();
        for length in 1..=16 {
            for byte in [0, 1, 0xff] {
                assert!(seen.insert(FileId::new(&vec![byte; length]).unwrap()), "{length} times {byte}");
            }
        }
        assert!((0..10_000).all(|_| seen.insert(FileId::random())), "no id is drawn twice");
    }

    #[test]
    fn an_id_has_one_to_sixteen_bytes() {
        for length in [0, 17, 1_000] {
            let refused = FileId::new(&vec![0; length]);
            assert!(matches!(refused, Err(ConfigError::OutOfRange { got, .. }) if got == length as u64));
        }
        let drawn = FileId::random();
        assert_eq!(FileId::from_fingerprint(drawn.fingerprint()), drawn);
        assert_eq!(FileId::from([7; 16]), FileId::new(&[7; 16]).unwrap());
    }

    #[test]
    fn a_fingerprint_is_not_the_hash_of_the_same_bytes_as_a_key() {
        assert_ne!(
            FileId::new(&7_u64.to_le_bytes()).unwrap().fingerprint(),
            KeyHasher::default().hash(&7_u64.to_le_bytes()).get()
        );
    }
}
