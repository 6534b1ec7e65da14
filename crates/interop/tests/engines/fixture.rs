//! The fixtures: tables that the engines wrote, the keys in them, and the engines' own answers
//! (`crates/interop/fixtures/README.md`).

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use bytes::Bytes;
use serde::Deserialize;
use sstfilter::{Probe, RandomAccess};
use sstfilter_interop::ForeignTable;

/// The number of absent keys that each engine probed.
pub(crate) const ABSENT_KEYS: u32 = 100_000;

/// One line of `manifest.json`.
#[derive(Debug, Deserialize)]
pub(crate) struct Fixture {
    pub(crate) file: String,
    pub(crate) engine: String,
    pub(crate) format_version: u32,
    pub(crate) checksum: u8,
    pub(crate) filter: String,
    pub(crate) layout: String,
    pub(crate) whole_key: bool,
    pub(crate) compression: String,
    pub(crate) comparator: String,
    pub(crate) extractor: Option<String>,
    pub(crate) keys: String,
    pub(crate) count: u32,
    pub(crate) stride: u32,
    pub(crate) positives: usize,
    pub(crate) unfiltered: u32,
    pub(crate) prefixes: usize,
    pub(crate) prefix_positives: usize,
}

/// Every fixture in the manifest.
pub(crate) fn all() -> Vec<Fixture> {
    serde_json::from_str(&fs::read_to_string(folder().join("manifest.json")).unwrap()).unwrap()
}

/// The fixtures of one engine; there must be some.
pub(crate) fn of_engine(engine: &str) -> Vec<Fixture> {
    let fixtures: Vec<_> = all().into_iter().filter(|fixture| fixture.engine == engine).collect();
    assert!(!fixtures.is_empty(), "no fixture of {engine}");
    fixtures
}

/// Where the fixtures are.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

impl Fixture {
    /// Where the table is.
    pub(crate) fn path(&self) -> PathBuf {
        folder().join(&self.file)
    }

    /// The table's bytes.
    pub(crate) fn bytes(&self) -> Bytes {
        fs::read(self.path()).unwrap().into()
    }

    /// Whether the table has a filter.
    pub(crate) fn has_filter(&self) -> bool {
        self.filter != "none"
    }

    /// Returns whether readers know the order of its keys.
    pub(crate) fn has_known_order(&self) -> bool {
        !self.comparator.starts_with("fixtures.")
    }

    /// Returns whether this package, with the features of this build, reads its codec.
    pub(crate) fn has_known_codec(&self) -> bool {
        let codecs = [
            ("none", true),
            ("nocompression", true),
            ("none_dictionary", true),
            ("snappy", cfg!(feature = "snappy")),
            ("snappy_dictionary", cfg!(feature = "snappy")),
            ("zlib", cfg!(feature = "zlib")),
            ("lz4", cfg!(feature = "lz4")),
            ("lz4hc", cfg!(feature = "lz4")),
            ("zstd", cfg!(feature = "zstd")),
        ];
        codecs.contains(&(self.compression.as_str(), true))
    }

    /// Returns whether its probes must answer: it has a filter, and all of its options are known.
    pub(crate) fn is_usable(&self) -> bool {
        // LevelDB compresses the index, which determines a key's data block and so its filter.
        let index_is_read = self.engine != "leveldb" || self.has_known_codec();
        self.has_filter() && self.has_known_order() && index_is_read
    }

    /// Returns the table with its comparator stated, if the table does not name it.
    pub(crate) fn stated<R: RandomAccess>(&self, table: ForeignTable<R>) -> ForeignTable<R> {
        table.with_comparator(&self.comparator).with_unchecked_filter()
    }

    /// Opens the table.
    pub(crate) fn open(&self) -> ForeignTable<Bytes> {
        let table = ForeignTable::open(self.bytes()).unwrap_or_else(|error| panic!("{}: {error}", self.file));
        let mut table = self.stated(table);
        if self.file.contains("own-name") {
            assert_eq!(table.probe(b"anything"), Probe::Unusable, "{}: not confirmed", self.file);
            table.confirm_by_keys().unwrap_or_else(|error| panic!("{}: {error}", self.file));
        }
        table
    }

    /// Whether the filter is cut into partitions.
    pub(crate) fn is_partitioned(&self) -> bool {
        self.layout == "partitioned" || self.layout == "decoupled"
    }

    /// The keys in the table, ascending bytewise.
    pub(crate) fn stored(&self) -> impl Iterator<Item = Vec<u8>> + use<'_> {
        (0..self.count).map(|i| self.key(i * self.stride))
    }

    /// Returns one in `step` of the absent keys that the engine probed.
    pub(crate) fn absent(&self, step: usize) -> impl Iterator<Item = Vec<u8>> + use<'_> {
        (0..ABSENT_KEYS).step_by(step).map(|i| self.key(i + i / (self.stride - 1) + 1))
    }

    /// Returns the prefixes of absent keys that the engine probed, without repetition and without prefixes of stored
    /// keys.
    pub(crate) fn absent_prefixes(&self) -> Vec<Vec<u8>> {
        let stored: HashSet<_> = self.stored().filter_map(|key| self.prefix(key)).collect();
        let mut prefixes: Vec<_> = self.absent(1).filter_map(|key| self.prefix(key)).collect();
        prefixes.dedup();
        prefixes.retain(|prefix| !stored.contains(prefix));
        prefixes
    }

    /// The stored keys' prefixes, without repetition.
    pub(crate) fn stored_prefixes(&self) -> Vec<Vec<u8>> {
        let mut prefixes: Vec<_> = self.stored().filter_map(|key| self.prefix(key)).collect();
        prefixes.dedup();
        prefixes
    }

    /// Returns the engine's answer for each absent key: whether it may be present.
    pub(crate) fn answers(&self) -> Vec<bool> {
        self.positions("positives", self.positives, ABSENT_KEYS as usize)
    }

    /// Returns the engine's answer for each absent prefix.
    pub(crate) fn prefix_answers(&self) -> Vec<bool> {
        self.positions("prefix_positives", self.prefix_positives, self.prefixes)
    }

    /// The key's prefix, if the extractor has one for it.
    pub(crate) fn prefix(&self, mut key: Vec<u8>) -> Option<Vec<u8>> {
        let extractor = self.extractor.as_deref()?;
        if extractor == "rocksdb.Noop" {
            return Some(key);
        }
        let (kind, bytes) = extractor.rsplit_once('.').unwrap();
        let bytes: usize = bytes.parse().unwrap();
        let whole = kind == "rocksdb.FixedPrefix" && key.len() < bytes;
        key.truncate(bytes);
        (!whole).then_some(key)
    }

    /// Whether all keys that begin with `prefix` have this prefix, and not a longer one.
    pub(crate) fn is_prefix_of_all(&self, prefix: &[u8]) -> bool {
        self.prefix([prefix, b"more"].concat()).as_deref() == Some(prefix)
    }

    fn key(&self, number: u32) -> Vec<u8> {
        match self.keys.as_str() {
            "decimal" => format!("{number:08}").into_bytes(),
            "mixed" => mixed_key(number),
            "testkeys" => testkeys_key(number),
            "cockroach" => cockroach_key(number),
            other => panic!("{}: no rule for keys called {other}", self.file),
        }
    }

    /// Returns one answer per probe. There is no file if no answer was negative.
    fn positions(&self, extension: &str, positives: usize, questions: usize) -> Vec<bool> {
        if positives == questions {
            return vec![true; questions];
        }
        let path = self.path().with_extension(extension);
        let mut answers = vec![false; questions];
        let mut position = 0;
        for distance in distances(&fs::read(&path).unwrap()) {
            position += distance;
            answers[position] = true;
        }
        assert_eq!(answers.iter().filter(|answer| **answer).count(), positives, "{}", path.display());
        answers
    }
}

fn mixed_key(number: u32) -> Vec<u8> {
    let mixed = number.wrapping_mul(2_654_435_761) >> 16;
    let tail_bytes = if mixed.is_multiple_of(16) { mixed / 16 % 304 } else { mixed % 16 };
    let head = &number.to_be_bytes()[1..];
    let tail = (0..tail_bytes).map(|i| (mixed + 31 * i).to_le_bytes()[0]);
    head.iter().copied().chain(tail).collect()
}

/// A key of Pebble's own tests: digits, and for two of three a suffix.
fn testkeys_key(number: u32) -> Vec<u8> {
    let suffix = if number.is_multiple_of(3) { String::new() } else { format!("@{}", number % 97) };
    format!("{number:08}{suffix}").into_bytes()
}

/// A key of `CockroachDB`: digits, a byte 0, and a version of one of four kinds, with its length behind it.
fn cockroach_key(number: u32) -> Vec<u8> {
    let wall_time = (u64::from(number) + 1).to_be_bytes();
    let version = match number % 4 {
        0 => Vec::new(),
        1 => wall_time.to_vec(),
        2 => [wall_time.as_slice(), &(number + 1).to_be_bytes()].concat(),
        _ => [&[0], wall_time.as_slice(), &[0; 8]].concat(),
    };
    let mut key = format!("{number:08}\0").into_bytes();
    if !version.is_empty() {
        key.extend_from_slice(&version);
        key.push(u8::try_from(version.len()).unwrap() + 1);
    }
    key
}

/// Numbers in LEB128, one after another.
fn distances(bytes: &[u8]) -> Vec<usize> {
    let mut distances = Vec::new();
    let (mut value, mut shift) = (0, 0);
    for byte in bytes {
        value |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            distances.push(value);
            (value, shift) = (0, 0);
        }
    }
    distances
}
