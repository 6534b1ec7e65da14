//! Damages tables with filters of every kind.

use std::fmt;
use std::ops::{Range, RangeBounds};
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::FilterPolicy;
use sstfilter_table::{Lookup, Table, TableError, TableOptions, TablePart};

use super::ways::{Files, ways};
use super::{Outcome, Totals};
use crate::Entries;
use crate::common::policies::every_policy;
use crate::common::random::Random;

/// A sound table and its contents.
struct Subject {
    bytes: Vec<u8>,
    entries: Entries,
    parts: Vec<Range<usize>>,
}

impl Subject {
    /// Returns a table of `count` keys that only tables of this `letter` contain, between two that all contain. Tables
    /// of one policy and count have the same shape for every letter and id.
    fn new(policy: Option<&Arc<dyn FilterPolicy>>, count: u32, letter: char, id: u8) -> Self {
        // Small, so that even small tables have several blocks and restart intervals.
        let options = TableOptions::default().with_block_bytes(192).unwrap().with_restart_interval(4).unwrap();
        let options = options.with_table_id([id; 16]);
        let options = match policy {
            Some(policy) => options.with_policy(policy.clone()),
            None => options.without_filter(),
        };
        let entry = |number: u32| {
            let value = format!("{letter} value {number:04}").into_bytes();
            (format!("k{number:04}{letter}").into_bytes(), (number % 4 != 3).then_some(value))
        };
        let entries: Entries = (0..count)
            .map(entry)
            // Common first and last keys: bounds of keys cannot distinguish the tables.
            .chain([b"a", b"z"].map(|end| (end.to_vec(), Some(letter.to_string().into_bytes()))))
            .collect();
        let bytes = Vec::from(crate::bytes_of(&entries, &options));
        let parts = parts(&bytes, id);
        Self { bytes, entries, parts }
    }

    fn expected(&self, key: &[u8]) -> Lookup {
        match self.entries.get(key) {
            None => Lookup::Absent,
            Some(None) => Lookup::Deleted,
            Some(Some(value)) => Lookup::Found(value.clone().into()),
        }
    }

    fn footer(&self) -> &[u8] {
        self.bytes.last_chunk::<64>().unwrap()
    }
}

/// Returns each data block, found by its checksum, and each other part.
fn parts(bytes: &[u8], id: u8) -> Vec<Range<usize>> {
    let table = open(bytes.to_vec()).unwrap();
    let place = |offset: u64| usize::try_from(offset).unwrap();
    let mut parts = data_blocks(bytes, id);
    let others = table.layout().into_iter().filter(|(part, _)| *part != TablePart::Data);
    parts.extend(others.map(|(_, region)| place(region.start)..place(region.end)));
    parts
}

/// Returns the data blocks with their checksums, of a sound table whose id is this byte 16 times.
pub(crate) fn data_blocks(bytes: &[u8], id: u8) -> Vec<Range<usize>> {
    let table = open(bytes.to_vec()).unwrap();
    let place = |offset: u64| usize::try_from(offset).unwrap();
    let (mut blocks, mut start, mut seen) = (vec![], 0, 0);
    for end in 0..place(table.properties().data_bytes).saturating_sub(3) {
        // Extended byte by byte, because hashing each candidate from its start would take quadratic time.
        let bound = || crc32c::crc32c_append(crc32c::crc32c_append(seen, &[id; 16]), &(start as u64).to_le_bytes());
        if end >= start + 4 && bytes[end..end + 4] == bound().to_le_bytes() {
            blocks.push(start..end + 4);
            (start, seen) = (end + 4, 0);
        }
        if end >= start {
            seen = crc32c::crc32c_append(seen, &bytes[end..=end]);
        }
    }
    assert_eq!(blocks.len() as u64, table.properties().data_blocks);
    blocks
}

fn open(bytes: Vec<u8>) -> Result<Table, sstfilter_table::TableError> {
    Table::open_source(Bytes::from(bytes), &TableOptions::default())
}

/// The table to damage, earlier tables of its name, and tables of other names.
struct Family {
    /// The table and three earlier ones.
    named: Vec<Subject>,
    others: Vec<Subject>,
}

impl Family {
    fn new(policy: Option<&Arc<dyn FilterPolicy>>, count: u32) -> Self {
        let subject = |letter, id| Subject::new(policy, count, letter, id);
        let sound = subject('m', 1);
        let length = sound.bytes.len();
        let letters = ('b'..='x').filter(|&letter| letter != 'm');
        let earlier = letters.map(|letter| subject(letter, 1)).filter(|earlier| earlier.bytes.len() == length);
        let named: Vec<Subject> = [sound].into_iter().chain(earlier.take(3)).collect();
        assert_eq!(named.len(), 4, "{policy:?}: too few tables of this length");
        Self { named, others: vec![subject('m', 2), subject('c', 3)] }
    }

    fn files(&self) -> Files<'_> {
        let (sound, earlier) = self.named.split_first().unwrap();
        Files {
            sound: &sound.bytes,
            earlier: earlier.iter().map(|earlier| &earlier.bytes[..]).collect(),
            others: self.others.iter().map(|other| &other.bytes[..]).collect(),
            parts: &sound.parts,
        }
    }

    /// Returns some keys of the damaged table, of `root`, and of all others.
    fn asked<'a>(&'a self, root: &'a Subject, random: &mut Random) -> impl Iterator<Item = &'a [u8]> {
        let any = random.pick(&self.others);
        let mut from = |subject: &'a Subject, count: usize| {
            let every = subject.entries.len().div_ceil(count);
            subject.entries.keys().skip(random.below(every)).step_by(every)
        };
        let (sound, other) = (from(&self.named[0], 30), from(any, 8));
        let root = (root.footer() != self.named[0].footer()).then(|| from(root, 30));
        sound.chain(other).chain(root.into_iter().flatten()).map(Vec::as_slice)
    }

    /// Opens, reads and verifies the damaged table.
    fn outcome(&self, bytes: &[u8], random: &mut Random, what: fmt::Arguments<'_>) -> Outcome {
        let sound = &self.named[0];
        if bytes == sound.bytes {
            return Outcome::Identical;
        }
        let Ok(table) = open(bytes.to_vec()) else { return Outcome::Refused };
        let root = self.named.iter().chain(&self.others).find(|subject| bytes.ends_with(subject.footer()));
        let root = root.unwrap_or_else(|| panic!("{what}: opened with a footer that nobody wrote"));
        let are_reads_right = reads_are_right(&table, root, self.asked(root, random), what);
        salvage_is_right(&table, root, what);
        if bytes == root.bytes {
            Outcome::OtherTable
        } else if table.verify().is_ok() {
            Outcome::Accepted
        } else if root.footer() != sound.footer() {
            Outcome::OtherFooter
        } else if !are_reads_right {
            Outcome::ReadsRefused
        } else if table.filter_problem().is_some() {
            Outcome::FilterUnusable
        } else {
            Outcome::Unread
        }
    }
}

/// Looks up keys, and walks. Asserts that every answer is that of `root`; `false` if the table refused to answer.
fn reads_are_right<'a>(
    table: &Table,
    root: &Subject,
    keys: impl Iterator<Item = &'a [u8]>,
    what: fmt::Arguments<'_>,
) -> bool {
    let mut is_sound = true;
    for key in keys {
        match table.get(key) {
            Ok(lookup) => assert_eq!(lookup, root.expected(key), "{what}: {}", key.escape_ascii()),
            Err(_) => is_sound = false,
        }
    }
    let mut expected = root.entries.iter();
    for entry in table {
        let Ok(entry) = entry else { return false };
        let (key, value) = expected.next().unwrap();
        assert_eq!((&entry.key[..], entry.value.as_deref()), (&key[..], value.as_deref()), "{what}: walking");
    }
    assert_eq!(expected.next(), None, "{what}: a walk that ends without an error has seen every key");
    is_sound
}

/// Asserts that a salvage returns only entries of `root`, and reports all others as missing. Without an index, a block
/// that an earlier table of the same id had at the same offset cannot be distinguished from the table's own.
fn salvage_is_right(table: &Table, root: &Subject, what: fmt::Arguments<'_>) {
    if table.check_index().is_err() {
        return;
    }
    let mut left = root.entries.iter().peekable();
    for next in table.salvage() {
        match next {
            Ok(entry) => {
                let (key, value) = left.next().unwrap();
                assert_eq!((&entry.key[..], entry.value.as_deref()), (&key[..], value.as_deref()), "{what}: salvaged");
            }
            Err(TableError::Missing { keys: (lower, upper), .. }) => {
                let (lower, upper) = (lower.map(|key| key.to_vec()), upper.map(|key| key.to_vec()));
                while left.next_if(|(key, _)| (lower.clone(), upper.clone()).contains(*key)).is_some() {}
            }
            Err(other) => panic!("{what}: {other}"),
        }
    }
    assert_eq!(left.next(), None, "{what}: neither salvaged nor missing");
}

/// Enough keys for a page of 4096 bytes to be only a part of the file.
const LARGE: u32 = 260;
const SMALL: u32 = 26;

/// Damages small and large tables of every policy and kind in `cases` ways each.
pub(crate) fn try_all(cases: u64) -> Totals {
    let mut totals = Totals::default();
    for (number, policy) in (0..).zip(every_policy()) {
        for (count, cases, ways) in [(SMALL, cases, ways(128, 512)), (LARGE, cases / 3, ways(512, 4096))] {
            let family = Family::new(policy.as_ref(), count);
            let files = family.files();
            for case in 0..cases {
                let mut random = Random::new(u64::from(count) << 40 | number << 32 | case);
                let way = *random.pick(&ways);
                let Some(bytes) = way.apply(&files, &mut random) else { continue };
                let what = format_args!("{way:?}, {policy:?}, {count} keys, case {case}");
                totals.count(way, family.outcome(&bytes, &mut random, what));
            }
        }
    }
    totals
}
