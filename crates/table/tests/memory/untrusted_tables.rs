//! A table from a disk that lost most of it, or from an attacker who computed its checksums. The failures guarded
//! against: a file of 4 KiB on disk makes its reader allocate gigabytes because a header says so; keys share so many
//! bytes that a small file takes hours to walk. Here the allocator itself counts.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::allocator::{alone, measure};
use crate::common;
use bytes::Bytes;
use sstfilter::{BlockBuilder, BuildContext, FileId, FilterPolicy, KeyHasher, KindId};
use sstfilter_table::{Lookup, Table, TableBuilder, TableError, TableOptions};

const ID: [u8; 16] = [7; 16];

fn varint(mut number: u64) -> Vec<u8> {
    let mut out = vec![];
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
    out
}

/// Encodes numbers as bytes of the same order.
fn ascending(number: u32) -> [u8; 4] {
    let mut bytes = number.to_le_bytes();
    bytes.reverse();
    bytes
}

/// A block of entries: bytes shared with the previous key, the rest of the key, the value. Entries that share nothing
/// may be restart points.
#[derive(Default)]
struct Entries {
    contents: Vec<u8>,
    restarts: Vec<u32>,
}

impl Entries {
    fn restart(&mut self, key: &[u8], value: &[u8]) {
        self.restarts.push(self.contents.len().try_into().unwrap());
        self.add(0, key, value);
    }

    fn add(&mut self, shared: usize, rest: &[u8], value: &[u8]) {
        for number in [shared, rest.len(), value.len() * 2] {
            self.contents.extend(varint(number as u64));
        }
        self.contents.extend(rest);
        self.contents.extend(value);
    }

    fn seal(mut self) -> Vec<u8> {
        let count = u32::try_from(self.restarts.len()).unwrap();
        self.restarts.into_iter().chain([count]).for_each(|word| self.contents.extend(word.to_le_bytes()));
        self.contents
    }
}

/// A table assembled block by block. Holes cost nothing, and every checksum of a written block is valid.
#[derive(Default)]
struct Forged {
    pieces: Vec<(u64, Vec<u8>)>,
    end: u64,
}

impl Forged {
    /// Writes a block, and returns its handle.
    fn block(&mut self, contents: &[u8]) -> Vec<u8> {
        let sum = crc32c::crc32c(&[contents, &ID, &self.end.to_le_bytes()].concat());
        let handle = [varint(self.end), varint(contents.len() as u64), sum.to_le_bytes().to_vec()].concat();
        self.piece(&[contents, &sum.to_le_bytes()].concat());
        handle
    }

    fn piece(&mut self, bytes: &[u8]) {
        self.pieces.push((self.end, bytes.to_vec()));
        self.end += bytes.len() as u64;
    }

    /// Leaves a hole, and returns the handle of a block with checksum `sum` that fills it.
    fn hole(&mut self, bytes: u64, sum: u32) -> Vec<u8> {
        let handle = [varint(self.end), varint(bytes - 4), sum.to_le_bytes().to_vec()].concat();
        self.end += bytes;
        handle
    }

    /// Writes an index of no blocks, the metaindex and the footer.
    fn finish_without_data(&mut self, properties: &[u8]) {
        let index = self.block(&Entries::default().seal());
        self.finish(&index, properties);
    }

    /// Writes the metaindex and the footer.
    fn finish(&mut self, index: &[u8], properties: &[u8]) {
        let mut entries = Entries::default();
        entries.restart(b"index", index);
        entries.restart(b"properties", properties);
        let (at, contents) = (self.end, entries.seal());
        let handle = self.block(&contents);
        let sum = *handle.last_chunk::<4>().unwrap();
        self.footer(at, contents.len() as u64, u32::from_le_bytes(sum));
    }

    fn footer(&mut self, at: u64, metaindex_bytes: u64, sum: u32) {
        let mut footer = vec![];
        footer.extend([at, metaindex_bytes, self.end + 64].map(u64::to_le_bytes).concat());
        footer.extend(ID);
        footer.extend(version());
        footer.extend(sum.to_le_bytes());
        footer.extend([0; 4]);
        footer.extend(crc32c::crc32c(&footer).to_le_bytes());
        footer.extend(b"SSTFLTR\x1a");
        self.piece(&footer);
    }

    fn bytes(&self) -> Bytes {
        self.pieces.iter().flat_map(|(_, bytes)| bytes).copied().collect::<Vec<_>>().into()
    }

    /// Writes the file, including holes.
    fn write(&self, directory: &Path) -> PathBuf {
        let path = directory.join("hollow.sst");
        let file = File::create(&path).unwrap();
        // A sparse file: holes take no space on disk.
        file.set_len(self.end).unwrap();
        self.pieces.iter().for_each(|(at, bytes)| file.write_all_at(bytes, *at).unwrap());
        path
    }
}

/// The current version.
fn version() -> [u8; 4] {
    let table = TableBuilder::new(Vec::new(), &TableOptions::default()).unwrap().finish().unwrap().0;
    // Read from a table, so that this file need not change with the version.
    *table[table.len() - 24..].first_chunk().unwrap()
}

/// A properties block, with `entries` of `raw_key_bytes` from the first to the last key, in `blocks` of `data_bytes`.
#[derive(Default)]
struct Properties {
    entries: u64,
    raw_key_bytes: u64,
    blocks: u64,
    data_bytes: u64,
    bounds: Option<[Vec<u8>; 2]>,
    /// Length and checksum of a filter after the data.
    filter: Option<(u64, u32)>,
}

impl Properties {
    fn of_one_block(entries: u64, raw_key_bytes: u64, data_bytes: u64, bounds: Option<[Vec<u8>; 2]>) -> Self {
        Self { entries, raw_key_bytes, blocks: 1, data_bytes, bounds, filter: None }
    }

    fn entries(&self) -> Entries {
        let mut out = Entries::default();
        let mut number = |name: &str, number: u64| out.restart(name.as_bytes(), &number.to_le_bytes());
        // Names must ascend, so the description is between the numbers.
        number("block-bytes", 4096);
        number("data-blocks", self.blocks);
        number("data-bytes", self.data_bytes);
        number("entries", self.entries);
        out.restart(b"filters", &self.description());
        let mut number = |name: &str, number: u64| out.restart(name.as_bytes(), &number.to_le_bytes());
        number("raw-key-bytes", self.raw_key_bytes);
        number("raw-value-bytes", 0);
        number("restart-interval", 16);
        number("tombstones", 0);
        out
    }

    /// Encodes the description of the filters as docs/format/files.md specifies.
    fn description(&self) -> Vec<u8> {
        let mut out = b"SFMD\x01".to_vec();
        out.extend([1 | if self.bounds.is_some() { 2 } else { 0 }, 44, 0]);
        // The file, the default hash and its seed.
        out.extend(FileId::from(ID).fingerprint().to_le_bytes());
        out.extend([0; 8]);
        out.extend([1, self.filter.is_some().into(), 0, 0, 0, 0, 0, 0]);
        out.extend(self.entries.to_le_bytes());
        let hash = |key: &Vec<u8>| KeyHasher::with_seed(0).hash(key).get().to_le_bytes();
        out.extend(crc32c::crc32c(&self.bounds.iter().flatten().flat_map(hash).collect::<Vec<_>>()).to_le_bytes());
        if let Some((bytes, sum)) = self.filter {
            out.extend([1, KindId::BLOCKED_BLOOM.code(), 0, 0, 0, 0, 0, 0]);
            out.extend([0, bytes].map(u64::to_le_bytes).concat());
            out.extend(sum.to_le_bytes());
        }
        for key in self.bounds.iter().flatten() {
            out.extend(varint(key.len() as u64));
            out.extend(key);
        }
        out
    }
}

const VAST: u64 = 3 << 30;

/// Length of a hole that poses as a block with this checksum. One with the checksum of zeros is read to its end before
/// it is refused.
fn vast(sum: u32) -> u64 {
    if sum == 0 && !common::is_long() { 1 << 27 } else { VAST }
}

/// Memory that a reader may use in addition to the file's own bytes.
const FEW: usize = 4 << 20;

fn open(path: &Path) -> Result<Table, TableError> {
    Table::open(path, &TableOptions::default())
}

/// Returns the message of an error, and asserts that it took little memory.
fn refused_at_little_cost<T>(what: &str, step: impl FnOnce() -> Result<T, TableError>) -> String {
    let (result, peak) = measure(step);
    let message = result.err().unwrap_or_else(|| panic!("{what} was accepted")).to_string();
    println!("{what}: {peak} bytes held at the most; {message}");
    assert!(peak <= FEW, "{what}: {peak} bytes held");
    message
}

// promise: safe-to-open
#[test]
fn a_hollow_metaindex_or_properties_block_of_three_gib_is_refused_without_making_room() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    for sum in [0, 7] {
        let mut forged = Forged::default();
        // 0 is what a hole has for a stored checksum; 7 is refused after four bytes.
        forged.hole(VAST, sum);
        forged.footer(0, VAST - 4, sum);
        let path = forged.write(directory.path());
        let message = refused_at_little_cost("metaindex", || open(&path));
        assert!(message.contains("at most 4096 bytes") && message.contains("3221225468"), "{message}");

        // The second is longer than any properties block: refused without a read.
        for (bytes, expected) in [(vast(sum), "damaged"), (VAST * 2, "at most 4429185024 bytes")] {
            let mut forged = Forged::default();
            let properties = forged.hole(bytes, sum);
            forged.finish_without_data(&properties);
            let path = forged.write(directory.path());
            let message = refused_at_little_cost("properties", || open(&path));
            assert!(message.contains(expected), "{message}");
        }
    }
}

// promise: safe-to-open
#[test]
fn a_hollow_filter_of_three_gib_is_not_used_and_takes_no_memory() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    for sum in [0, 7] {
        let mut forged = Forged::default();
        // Read to its end, because its stored checksum matches.
        forged.hole(vast(0), 0);
        let claims = Properties { filter: Some((vast(0), sum)), ..Properties::default() };
        let properties = forged.block(&claims.entries().seal());
        forged.finish_without_data(&properties);
        let path = forged.write(directory.path());
        let (table, peak) = measure(|| open(&path).unwrap());
        assert!(table.filter_problem().is_some() && peak <= FEW, "{peak} bytes held");
        assert_eq!(table.get(b"key").unwrap(), Lookup::Absent);
        refused_at_little_cost("filter", || table.verify());
    }
}

// promise: safe-to-open
#[test]
fn a_hollow_index_or_data_block_of_three_gib_is_an_error_and_takes_no_memory() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let bounds = || Some([b"key".to_vec(), b"key".to_vec()]);
    let one = |data_bytes| Properties::of_one_block(1, 3, data_bytes, bounds());
    for sum in [0, 7] {
        let mut forged = Forged::default();
        // Never read, because the index comes first.
        let data_bytes = 64;
        forged.hole(data_bytes, sum);
        let properties = forged.block(&one(data_bytes).entries().seal());
        let index = forged.hole(vast(sum), sum);
        forged.finish(&index, &properties);
        let path = forged.write(directory.path());
        let table = open(&path).unwrap();
        refused_at_little_cost("index, read by get", || table.get(b"key"));
        refused_at_little_cost("index, read by verify", || table.verify());

        let mut forged = Forged::default();
        let data = forged.hole(vast(sum), sum);
        let properties = forged.block(&one(vast(sum)).entries().seal());
        let mut index = Entries::default();
        index.restart(b"key", &data);
        let index = forged.block(&index.seal());
        forged.finish(&index, &properties);
        let path = forged.write(directory.path());
        for options in [TableOptions::default(), TableOptions::default().with_block_cache(1 << 30)] {
            let table = Table::open(&path, &options).unwrap();
            refused_at_little_cost("data, read by get", || table.get(b"key"));
            refused_at_little_cost("data, read by a walk", || table.iter().collect::<Result<Vec<_>, _>>());
            refused_at_little_cost("data, read by verify", || table.verify());
        }
    }
}

// promise: safe-to-open
#[test]
fn property_names_are_not_copied_though_they_share_their_bytes_or_are_many() {
    let _alone = alone();
    let sharing = |names: u32| {
        let mut entries = Properties::default().entries();
        entries.restart(&vec![b'u'; 100_000], b"");
        (1..names).for_each(|number| entries.add(100_000 - 4, &[b"uv", &ascending(number)[2..]].concat(), b""));
        entries
    };
    let mut short = Properties::default().entries();
    (0..500_000).for_each(|number| short.restart(&[b"u", &ascending(number)[..]].concat(), b""));
    for (what, entries) in [("1,000 long", sharing(1_000)), ("1,020 long", sharing(1_020)), ("short", short)] {
        let table = table_of(entries);
        // A block of short names is read as a whole.
        let allowed = (1 << 20) + if what == "short" { table.len() } else { 0 };
        let (opened, peak) = measure(|| Table::open_source(table.clone(), &TableOptions::default()));
        println!("{what} names, {} bytes of table: {peak} bytes held at the most", table.len());
        assert!(peak <= allowed, "{what}: {peak} bytes held");
        opened.unwrap().verify().unwrap();
    }
}

/// A table without data.
fn table_of(properties: Entries) -> Bytes {
    let mut forged = Forged::default();
    let properties = forged.block(&properties.seal());
    forged.finish_without_data(&properties);
    forged.bytes()
}

/// Returns a table of one data block, and the first and the last of its long keys. Between two keys of one byte, it has
/// `restarts` keys of `key_bytes`, each followed by `following` keys that repeat all but three of its bytes.
fn bomb(key_bytes: usize, restarts: u8, following: u32) -> (Bytes, [Vec<u8>; 2]) {
    let key = |restart: u8, number: u32| {
        let mut key = vec![restart; key_bytes];
        key[key_bytes - 3..].copy_from_slice(&ascending(number)[1..]);
        key
    };
    let mut entries = Entries::default();
    entries.restart(b"\0", b"");
    for restart in 1..=restarts {
        entries.restart(&key(restart, 0), b"");
        (1..=following).for_each(|number| entries.add(key_bytes - 3, &ascending(number)[1..], b""));
    }
    entries.restart(b"\xff", b"");
    let mut forged = Forged::default();
    let data = forged.block(&entries.seal());
    let count = u64::from(restarts) * (u64::from(following) + 1);
    let (raw_key_bytes, bounds) = (count * key_bytes as u64 + 2, Some([b"\0".to_vec(), b"\xff".to_vec()]));
    let properties = Properties::of_one_block(count + 2, raw_key_bytes, forged.end, bounds);
    let properties = forged.block(&properties.entries().seal());
    let mut index = Entries::default();
    index.restart(b"\xff", &data);
    let index = forged.block(&index.seal());
    forged.finish(&index, &properties);
    (forged.bytes(), [key(1, 0), key(restarts, following)])
}

/// Returns the bytes of keys in a walk, and how it ended.
fn walk(table: &Table) -> (u64, Result<(), TableError>) {
    let mut key_bytes = 0;
    for entry in table {
        match entry {
            Ok(entry) => key_bytes += entry.key.len() as u64,
            Err(error) => return (key_bytes, Err(error)),
        }
    }
    (key_bytes, Ok(()))
}

fn sizes() -> &'static [usize] {
    if common::is_long() { &[10_000_000, 20_000_000] } else { &[3_000_000] }
}

// promise: safe-to-open
#[test]
fn keys_that_repeat_each_other_make_a_walk_at_most_1024_times_as_long_as_the_file() {
    let _alone = alone();
    for &size in sizes() {
        for restarts in [1, 3] {
            let (bytes, [first, last]) = bomb(size / usize::from(restarts), restarts, 1_023);
            for options in [TableOptions::default(), TableOptions::default().with_block_cache(1 << 30)] {
                let table = Table::open_source(bytes.clone(), &options).unwrap();
                for present in [&first, &last] {
                    assert!(matches!(table.get(present).unwrap(), Lookup::Found(_)));
                }
                assert_eq!(table.get(&[&first[..], b"\0"].concat()).unwrap(), Lookup::Absent);
            }
            let table = Table::open_source(bytes.clone(), &TableOptions::default()).unwrap();
            let ((key_bytes, end), peak) = measure(|| walk(&table));
            end.unwrap();
            table.verify().unwrap();
            let factor = key_bytes as f64 / bytes.len() as f64;
            println!("{} bytes, {restarts} restarts: {factor:.0} times in keys, {peak} bytes held", bytes.len());
            assert!((1_000.0..=1_024.0).contains(&factor) && peak <= bytes.len() * 5, "{factor}, {peak} bytes held");
        }
    }
}

// promise: safe-to-open
#[test]
fn more_entries_after_a_restart_point_than_any_writer_puts_there_are_damage_for_every_reader() {
    let _alone = alone();
    for &size in sizes() {
        let key_bytes = size / 2;
        let (bytes, [first, last]) = bomb(key_bytes, 1, 200_000);
        for options in [TableOptions::default(), TableOptions::default().with_block_cache(1 << 30)] {
            let table = Table::open_source(bytes.clone(), &options).unwrap();
            assert!(matches!(table.get(&first).unwrap(), Lookup::Found(_)));
            let refused = [
                walk(&table).1,
                table.get(&last).map(drop),
                table.verify().map(drop),
                table.range(&last[..]..).next().unwrap().map(drop),
            ];
            for refused in refused {
                let message = refused.unwrap_err().to_string();
                assert!(message.contains("at most 1024 entries"), "{message}");
            }
        }
        let table = Table::open_source(bytes.clone(), &TableOptions::default()).unwrap();
        assert_eq!(walk(&table).0, 1 + 1_024 * key_bytes as u64);
    }
    let (bytes, _) = bomb(100, 2, 1_024);
    let table = Table::open_source(bytes, &TableOptions::default()).unwrap();
    assert!(table.verify().is_err(), "one entry too many");
}

/// A policy with a long name and without a filter.
#[derive(Debug)]
struct LongName(String);

impl FilterPolicy for LongName {
    fn name(&self) -> &str {
        &self.0
    }

    fn builder(&self, _: &BuildContext) -> Option<Box<dyn BlockBuilder>> {
        None
    }
}

/// Tries the longest name, and in the long form also shorter ones.
#[test]
fn properties_of_long_keys_and_a_long_name_are_read_as_they_were_written() {
    let _alone = alone();
    let write = |name_bytes| {
        let policy = LongName("p".repeat(name_bytes));
        let mut builder =
            TableBuilder::new(Vec::new(), &TableOptions::default().with_policy(Arc::new(policy))).unwrap();
        let key = |number| vec![number; 64 << 20];
        builder.add(&key(0), b"").unwrap();
        builder.add(&key(1), b"").unwrap();
        builder.finish().map(|(bytes, _)| bytes)
    };
    for name_bytes in [70 << 10, 60 << 10, 1].into_iter().step_by(common::effort::sample(3)) {
        let bytes = Bytes::from(write(name_bytes).unwrap());
        Table::open_source(bytes, &TableOptions::default()).unwrap().verify().unwrap();
    }
}
