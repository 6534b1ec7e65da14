//! The records of a run.

use std::fs;
use std::io;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sstfilter::simd::InstructionSet;
use sstfilter_charts::{Machine, today};

use crate::subject::{Family, HashUse};

/// When, how and where figures were measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The day, as `YYYY-MM-DD`, UTC.
    pub date: String,
    /// The arguments it was run with.
    pub arguments: Vec<String>,
    /// The machine.
    pub machine: Machine,
}

impl Run {
    /// A run today on this machine.
    pub fn now(arguments: Vec<String>) -> Self {
        Self { date: today(), arguments, machine: Machine::this(InstructionSet::fastest().name()) }
    }

    /// The machine in a sentence.
    pub fn machine(&self) -> String {
        let Machine { cpu, cores, caches, instruction_sets, kernels, system, rustc } = &self.machine;
        format!(
            "{cpu}, {cores} cores, caches {}; instruction sets {}, our kernels: {kernels}; {system}; {rustc}.",
            caches.join(", "),
            instruction_sets.join(", ")
        )
    }
}

/// Everything of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurements {
    /// The run.
    #[serde(flatten)]
    pub run: Run,
    /// One filter at a time.
    pub records: Vec<Record>,
    /// A few filters in use.
    #[serde(flatten)]
    pub uses: Uses,
}

/// The uses that only a few filters take part in. A run of some subjects has none of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Uses {
    /// One key, many filters.
    pub many_filters: Vec<ManyFilters>,
    /// From the bytes of a key to its hash, and to the answer.
    pub key_bytes: Vec<KeyBytes>,
    /// Probes that are checked and counted.
    pub counted: Vec<CountedProbe>,
}

/// One subject at one number of keys. Times are of one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The crate.
    #[serde(rename = "impl")]
    pub implementation: String,
    /// Its version.
    pub version: String,
    /// The kind of filter and its size.
    pub kind: String,
    /// How it is built and used.
    pub family: Family,
    /// The instruction set of our kernels, if one was chosen by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isa: Option<String>,
    /// The CPU that the program was compiled for, if not for any of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cpu: Option<String>,
    /// The kind of ours that it is compared with.
    pub against: String,
    /// Keys in the filter.
    pub n: u64,
    /// Whether the times include hashing.
    pub hash: HashUse,
    /// Bits of the whole filter per key.
    pub bits_per_key: f64,
    /// The share of positives among absent keys.
    pub fpr: f64,
    /// Nanoseconds of building per key.
    pub build_ns_per_key: f64,
    /// Nanoseconds per absent key, one by one.
    pub query_miss_ns: f64,
    /// Nanoseconds per present key, one by one.
    pub query_hit_ns: f64,
    /// Nanoseconds per absent key in batches; `None` without such a call.
    pub batch_miss_ns: Option<f64>,
    /// The peak of allocated bytes during the build, without the input hashes.
    pub bytes_peak: u64,
}

/// Many filters, probed for one absent key after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ManyFilters {
    /// The crate.
    #[serde(rename = "impl")]
    pub implementation: String,
    /// The method of probing.
    pub method: String,
    /// The instruction set of our kernels, if one was chosen by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isa: Option<String>,
    /// Filters.
    pub filters: u64,
    /// Keys in each.
    pub keys_per_filter: u64,
    /// Bytes of all filters.
    pub total_bytes: u64,
    /// The allocation of their buffers.
    #[serde(default)]
    pub allocation: Allocation,
    /// Nanoseconds per key and filter.
    pub ns_per_probe: f64,
}

/// The order in which the buffers of many filters are allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Allocation {
    /// Nothing is allocated between them.
    #[default]
    InARow,
    /// Other buffers are allocated and freed between them, as in a store.
    AmongOthers,
}

impl Allocation {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        if self == Self::InARow { "in a row" } else { "among others" }
    }
}

/// An operation on the bytes of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ByteOperation {
    /// They are hashed.
    Hash,
    /// They are hashed, and the hash is probed, one key after the other.
    HashAndProbe,
}

/// One way from the bytes of a key to its hash, or to the answer. Times are of one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyBytes {
    /// The operation.
    pub operation: ByteOperation,
    /// The crate.
    #[serde(rename = "impl")]
    pub implementation: String,
    /// The called function.
    pub method: String,
    /// The method of ours that it is compared with.
    pub against: String,
    /// Bytes of each key.
    pub bytes_per_key: u64,
    /// Keys in the filter; 0 where there is none.
    pub n: u64,
    /// Nanoseconds per absent key.
    pub ns_per_key: f64,
}

/// The single probe of one of our filters, bare or through the reader that checks and counts it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CountedProbe {
    /// The kind of filter and its size.
    pub kind: String,
    /// Keys in the filter.
    pub n: u64,
    /// Nanoseconds per absent key of `FilterBlock::may_contain`.
    pub bare_ns: f64,
    /// Nanoseconds per absent key of `FilterReader::probe`.
    pub counted_ns: f64,
    /// Counted probes from many threads; `None` if the process may use only one CPU.
    pub shared: Option<SharedProbe>,
}

/// Counted probes of one reader from many threads. If they share no written cache line, each thread is as fast as one
/// alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SharedProbe {
    /// As many as there are CPUs.
    pub threads: u64,
    /// Nanoseconds per probe of a single thread.
    pub alone_ns: f64,
    /// Nanoseconds per probe and thread while all probe.
    pub together_ns: f64,
}

/// One operation of a storage engine, as the engines' benchmark writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EngineRecord {
    /// The engine.
    pub engine: String,
    /// Its filter.
    pub filter: String,
    /// Files that may hold the key.
    pub files: u64,
    /// Keys in each.
    pub keys_per_file: u64,
    /// `get`, `multi_get_32` or `get_present`.
    pub operation: String,
    /// Nanoseconds per key looked up.
    pub ns_per_key: f64,
    /// A remark on the figure.
    #[serde(default)]
    pub note: Option<String>,
}

impl Record {
    /// The crate, with the instruction set if one was chosen.
    pub fn name(&self) -> String {
        with_isa(&self.implementation, self.isa.as_deref())
    }

    /// Crate and kind.
    pub fn title(&self) -> String {
        format!("{} {}", self.name(), self.kind)
    }
}

impl ManyFilters {
    /// The crate, with the instruction set if one was chosen.
    pub fn name(&self) -> String {
        with_isa(&self.implementation, self.isa.as_deref())
    }
}

fn with_isa(implementation: &str, isa: Option<&str>) -> String {
    isa.map_or_else(|| implementation.to_owned(), |isa| format!("{implementation} ({isa})"))
}

/// Returns the row to compare `record` with: our kind of its size, with the fastest kernels (our last record, because
/// sets are measured from the slowest to the fastest).
pub fn ours_beside<'a>(record: &Record, records: &'a [Record]) -> Option<&'a Record> {
    let is_ours = |other: &&Record| {
        other.implementation == crate::subjects::sstfilter::NAME && other.kind == record.against && other.n == record.n
    };
    records.iter().rfind(is_ours)
}

/// The version of a crate that this program was built with.
pub fn crate_version(name: &str) -> Option<&'static str> {
    let lock = include_str!("../Cargo.lock");
    let entry = format!("name = \"{name}\"\nversion = \"");
    let version = lock.get(lock.find(&entry)? + entry.len()..)?;
    version.split('"').next()
}

/// Reads JSON.
///
/// # Errors
///
/// The error of the system or the parser, with the path.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    let name = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let bytes = fs::read(path).map_err(name)?;
    serde_json::from_slice(&bytes).map_err(|error| name(error.into()))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::subjects::IsaChoice;

    /// A record with round figures.
    pub fn record(implementation: &str, kind: &str, against: &str, n: u64) -> Record {
        Record {
            implementation: implementation.to_owned(),
            version: "1.2.3".to_owned(),
            kind: kind.to_owned(),
            family: Family::Bloom,
            isa: None,
            target_cpu: None,
            against: against.to_owned(),
            n,
            hash: HashUse::Given,
            bits_per_key: 10.0,
            fpr: 0.01,
            build_ns_per_key: 4.0,
            query_miss_ns: 2.0,
            query_hit_ns: 2.5,
            batch_miss_ns: None,
            bytes_peak: 1_250_000,
        }
    }

    /// A key of 8 bytes, hashed and probed.
    pub fn key_bytes(implementation: &str, method: &str, against: &str, ns_per_key: f64) -> KeyBytes {
        KeyBytes {
            operation: ByteOperation::HashAndProbe,
            implementation: implementation.to_owned(),
            method: method.to_owned(),
            against: against.to_owned(),
            bytes_per_key: 8,
            n: 10,
            ns_per_key,
        }
    }

    #[test]
    fn the_lock_file_knows_every_peer() {
        let subjects = crate::subjects::all(IsaChoice::Best);
        let names = subjects.iter().map(|subject| subject.label().implementation);
        for name in names.chain(["grafite", "range-filters", "rsurf", "xxhash-rust"]) {
            let version = crate_version(name).unwrap_or_default();
            assert!(version.split('.').count() == 3, "{name} {version}");
        }
        assert_eq!(crate_version("no-such-crate"), None);
    }

    #[test]
    fn records_survive_json_with_the_names_that_readers_expect() {
        let mut written = record("xorf", "Xor8", "Ribbon, 2^-8", 10_000);
        written.batch_miss_ns = Some(0.1 + 0.2);
        let json = serde_json::to_string(&written).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&json).unwrap(), written);
        for field in ["\"impl\":\"xorf\"", "\"hash\":\"given\"", "\"query_miss_ns\":2.0", "\"family\":\"bloom\""] {
            assert!(json.contains(field), "{field} in {json}");
        }
    }

    #[test]
    fn a_record_is_compared_with_our_fastest_row_of_the_same_size() {
        let mut rows = vec![record("sstfilter", "a", "a", 10), record("sstfilter", "a", "a", 10)];
        rows[1].isa = Some("avx2".to_owned());
        rows.push(record("sstfilter", "a", "a", 20));
        rows.push(record("peer", "b", "a", 10));
        assert_eq!(ours_beside(&rows[3], &rows), Some(&rows[1]));
        assert_eq!(ours_beside(&record("peer", "b", "c", 10), &rows), None);
    }

    #[test]
    fn engine_records_may_lack_a_note() {
        let json = r#"{"engine":"e","filter":"f","files":70,"keys_per_file":15000,"operation":"get","ns_per_key":1.5}"#;
        assert_eq!(serde_json::from_str::<EngineRecord>(json).unwrap().note, None);
    }
}
