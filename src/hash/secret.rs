//! The secret seed of a store.

use core::fmt;

use xxhash_rust::xxh3::xxh3_64;

/// A hash seed to keep secret: whoever knows it can prepare keys that defeat a store's filters.
///
/// Keep the eight bytes outside the files, and as carefully as a password. Without them the filters are useless, though
/// tables stay readable. `Debug` prints only the fingerprint.
///
/// ```
/// use sstfilter::{KeyHasher, SecretSeed};
///
/// let (hasher, seed) = KeyHasher::random_secret()?;
/// let kept: [u8; 8] = seed.to_bytes();
/// // After a restart:
/// let again = KeyHasher::with_secret_seed(SecretSeed::from_bytes(kept));
/// assert_eq!(again.hash(b"key"), hasher.hash(b"key"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct SecretSeed(u64);

impl SecretSeed {
    /// Draws a seed from the system's source of randomness: `/dev/urandom` on Unix.
    ///
    /// # Errors
    ///
    /// Returns the system's error. There is no fallback, because a seed that can be guessed protects nothing.
    #[cfg(feature = "std")]
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; 8];
        fill_with_randomness(&mut bytes)?;
        Ok(Self::from_bytes(bytes))
    }

    /// Restores a seed from the bytes that the engine has kept.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(u64::from_le_bytes(bytes))
    }

    /// Returns the bytes to keep.
    #[must_use]
    pub const fn to_bytes(&self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    /// Returns the 32 bits that files store instead of the seed, to detect a wrong one.
    #[must_use]
    pub fn fingerprint(&self) -> u32 {
        let mut input = *b"sstfilter secret seed: ........";
        if let Some(tail) = input.last_chunk_mut::<8>() {
            *tail = self.to_bytes();
        }
        u32::try_from(xxh3_64(&input) >> 32).unwrap_or_default()
    }

    pub(super) const fn get(&self) -> u64 {
        self.0
    }
}

impl From<u64> for SecretSeed {
    /// Wraps a seed that the engine has drawn or derived itself.
    fn from(seed: u64) -> Self {
        Self(seed)
    }
}

impl fmt::Debug for SecretSeed {
    /// Shows only the fingerprint.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretSeed(fingerprint {:#010x})", self.fingerprint())
    }
}

#[cfg(all(feature = "std", unix))]
// The crate `getrandom` would bring two others here. A store draws one seed in its life, long after the system has
// collected enough randomness.
fn fill_with_randomness(bytes: &mut [u8]) -> std::io::Result<()> {
    use std::io::Read;
    use std::os::unix::fs::FileTypeExt;

    let failed = |error| std::io::Error::other(format!("no randomness for a secret seed from /dev/urandom: {error}"));
    let mut source = std::fs::File::open("/dev/urandom").map_err(failed)?;
    if !source.metadata()?.file_type().is_char_device() {
        return Err(std::io::Error::other("no randomness for a secret seed: /dev/urandom is not a device"));
    }
    source.read_exact(bytes).map_err(failed)
}

#[cfg(all(feature = "std", any(windows, target_os = "wasi")))]
// `getrandom` is a dependency only on these systems.
fn fill_with_randomness(bytes: &mut [u8]) -> std::io::Result<()> {
    let failed = |error| std::io::Error::other(format!("no randomness for a secret seed: {error}"));
    getrandom::fill(bytes).map_err(failed)
}

#[cfg(all(feature = "std", not(any(unix, windows, target_os = "wasi"))))]
fn fill_with_randomness(_bytes: &mut [u8]) -> std::io::Result<()> {
    let reason = "no randomness for a secret seed on this system: draw one elsewhere and pass its bytes";
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_seeds_differ_and_come_back_from_their_bytes() {
        let (one, other) = (SecretSeed::random().unwrap(), SecretSeed::random().unwrap());
        assert_ne!(one.to_bytes(), other.to_bytes());
        assert_eq!(SecretSeed::from_bytes(one.to_bytes()).get(), one.get());
        assert_eq!(SecretSeed::from(0x0102_0304_0506_0708).to_bytes(), [8, 7, 6, 5, 4, 3, 2, 1]);
    }

    #[test]
    fn a_seed_prints_its_fingerprint_and_nothing_else_of_itself() {
        // From `fixtures/vectors/hashing.json`.
        let seed = SecretSeed::from(0xdead_beef_cafe_f00d);
        assert_eq!(format!("{seed:?}"), "SecretSeed(fingerprint 0x1c8205bc)");
    }
}
