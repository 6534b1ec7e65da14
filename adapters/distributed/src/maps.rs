//! File maps on an object store: what the processes of `tests/maps` say to each other, and the files that they write.
//! The engine is as small as it can be: a file is an object with sorted keys, and the list of files is a listing.

use serde::{Deserialize, Serialize};
use sstfilter::{FileId, Filters, KeyHash};

/// The folder of an engine's files.
pub const FILES: &str = "files";

/// The folder of its maps.
pub const MAPS: &str = "maps";

/// Key numbers of a file are below this.
const MAX_KEYS: u64 = 1 << 20;

/// How often a key is in two files.
const SHARED: u64 = 16;

/// A file by its number: its keys and its id follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct File(pub u64);

impl File {
    /// Returns the file's id.
    pub fn id(self) -> FileId {
        FileId::from_fingerprint(mix(self.0 ^ 0xf11e << 40))
    }

    /// Returns the file's name.
    #[must_use]
    pub fn name(self) -> String {
        format!("{:016x}", self.id().fingerprint())
    }

    /// Returns a key of the file. Some keys are also in another file, the [`twin`](Self::twin).
    #[must_use]
    pub fn key(self, number: u64) -> u64 {
        let file = if number.is_multiple_of(SHARED) { self.0 / 2 + (1 << 40) } else { self.0 };
        mix(file * MAX_KEYS + number)
    }

    /// Returns the other file that has key `number`, if one does.
    #[must_use]
    pub fn twin(self, number: u64) -> Option<Self> {
        number.is_multiple_of(SHARED).then_some(Self(self.0 ^ 1))
    }

    /// Returns the bytes of the file: `keys` keys, sorted, 8 bytes each.
    #[must_use]
    pub fn contents(self, keys: u64) -> Vec<u8> {
        let mut sorted: Vec<u64> = (0..keys).map(|number| self.key(number)).collect();
        sorted.sort_unstable();
        sorted.iter().flat_map(|key| key.to_le_bytes()).collect()
    }

    /// Returns the hashes of the file's keys.
    #[must_use]
    pub fn hashes(self, keys: u64, filters: &Filters) -> Vec<KeyHash> {
        (0..keys).map(|number| hash(filters, self.key(number))).collect()
    }
}

/// Returns whether a file with these bytes has a key.
#[must_use]
pub fn has_key(contents: &[u8], key: u64) -> bool {
    let (keys, _) = contents.as_chunks::<8>();
    keys.binary_search_by_key(&key, |bytes| u64::from_le_bytes(*bytes)).is_ok()
}

/// Returns a key that no file has.
#[must_use]
pub fn absent_key(number: u64) -> u64 {
    mix(1 << 63 | number)
}

/// Returns the hash of a key.
pub fn hash(filters: &Filters, key: u64) -> KeyHash {
    filters.hash(&key.to_le_bytes())
}

/// Returns a number that looks random.
#[must_use]
pub fn mix(seed: u64) -> u64 {
    KeyHash::mix(seed).get()
}

/// Files that are added with one map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// The day.
    pub cut: String,
    /// The files.
    pub files: Vec<File>,
}

/// A request to a process that works with maps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Writes files, and a map of them. Answered by [`Done`](crate::protocol::Answer::Done) once the manifest lists it.
    Add(Batch),
    /// Merges the maps of a day until no tier has enough of them. Answered by the number of merges.
    Merge(String),
    /// Deletes maps that left the manifest this many seconds ago. Answered by their number.
    Sweep(u64),
    /// Looks keys up one after the other. Answered by an [`Answer::Found`] for each.
    Lookup(Vec<u64>, View),
    /// Requests a reader's statistics.
    Statistics,
}

/// Which manifest and which files a reader uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum View {
    /// The newest.
    Newest,
    /// Those of its last lookup, however old they are.
    Kept,
}

/// An answer of a process that works with maps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The names of the files that have a key.
    Found(u64, Vec<String>),
    /// Requests for maps that were not there, and answers of maps that all of their files may have a key.
    Statistics {
        /// Objects that were missing.
        missing: u64,
        /// Answers that all files of a map may have a key.
        unknown: u64,
    },
}

/// The configuration of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MapRole {
    /// The name that the server logs.
    pub name: String,
    /// The server's address, as a URL.
    pub endpoint: String,
    /// Keys of a file.
    pub keys: u64,
    /// How long each PUT waits before it is sent, in milliseconds: time for a kill between two of them.
    pub pause: u64,
}
