//! Damage as disks and file systems cause it: random bytes, sectors of zeros, unwritten pages that show an earlier file
//! of that name, misplaced blocks, files cut and extended. The failures guarded against: a lost key, a wrong value,
//! undetected damage. (Other tests flip every single bit and cut at every length.)
//!
//! CRC32C detects every change within 32 adjacent bits, and all but one in 2^32 of the others. Of a million cases, none
//! is expected to be accepted; the probability is one in 4,300 for each million. Because all seeds are fixed, it
//! happens always or never, and the test asserts that none of these cases is accepted.
//!
//! Tries some thousand cases, and with `SSTFILTER_LONG=1` more than half a million. `-- --nocapture` prints the
//! outcomes.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Range, RangeBounds};
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::FilterPolicy;
use sstfilter_table::{Lookup, Table, TableError, TableOptions, TablePart};

use crate::Entries;
use crate::common::effort;
use crate::common::policies::every_policy;
use crate::common::random::Random;

/// A way to damage a run of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// 2 to 16 bytes at random offsets.
    RandomBytes,
    /// 5 to 64 adjacent bytes.
    RandomBurst,
    /// A page of this size is zeros.
    ZeroPage(usize),
    /// A page of this size is an earlier file's of this name.
    StalePage(usize),
    /// All pages from some page on, or up to it, are an earlier file's.
    StalePages(usize),
    /// One or a few parts are an earlier file's, with the same id and offset and valid checksums.
    EarlierParts,
    /// One part is another table's.
    OtherPart,
    /// Two ranges of one length are swapped.
    SwappedWithin,
    CutShort,
    Prolonged,
    /// The first bytes are another table's.
    HeadOfOther,
    /// The last bytes are another table's.
    TailOfOther,
}

/// All ways, with pages of these sizes.
fn ways(small_page: usize, large_page: usize) -> [Way; 15] {
    [
        Way::RandomBytes,
        Way::RandomBurst,
        Way::ZeroPage(small_page),
        Way::ZeroPage(large_page),
        Way::StalePage(small_page),
        Way::StalePage(large_page),
        Way::StalePages(small_page),
        Way::StalePages(large_page),
        Way::EarlierParts,
        Way::OtherPart,
        Way::SwappedWithin,
        Way::CutShort,
        Way::Prolonged,
        Way::HeadOfOther,
        Way::TailOfOther,
    ]
}

/// The file to damage, and others.
struct Files<'a> {
    sound: &'a [u8],
    /// Earlier files of this name, if of the same length.
    earlier: Vec<&'a [u8]>,
    others: Vec<&'a [u8]>,
    /// The ranges of blocks and checksums.
    parts: &'a [Range<usize>],
}

impl Way {
    /// Damages a copy; `None` if this way does not apply.
    fn apply(self, files: &Files<'_>, random: &mut Random) -> Option<Vec<u8>> {
        let mut bytes = files.sound.to_vec();
        let length = bytes.len();
        let any_of = |from: &[&'_ [u8]], random: &mut Random| (!from.is_empty()).then(|| random.pick(from).to_vec());
        match self {
            Self::RandomBytes => {
                (0..2 + random.below(15)).for_each(|_| bytes[random.below(length)] = random.next().to_le_bytes()[0]);
            }
            Self::RandomBurst => {
                let size = 5 + random.below(60);
                let range = stretch(random, length, size);
                bytes[range].fill_with(|| random.next().to_le_bytes()[0]);
            }
            Self::ZeroPage(page) => bytes[a_page(random, length, page)].fill(0),
            Self::StalePage(page) => {
                let range = a_page(random, length, page);
                bytes[range.clone()].copy_from_slice(&any_of(&files.earlier, random)?[range]);
            }
            Self::StalePages(page) => {
                // As after a crash between the writes of two pages, in either order.
                let at = a_page(random, length, page).start;
                let range = if random.one_in(2) { at..length } else { 0..at };
                bytes[range.clone()].copy_from_slice(&any_of(&files.earlier, random)?[range]);
            }
            Self::EarlierParts => {
                let earlier = any_of(&files.earlier, random)?;
                // Several parts may agree with each other, and still be stale.
                for _ in 0..=random.below(3) {
                    let range = random.pick(files.parts).clone();
                    bytes[range.clone()].copy_from_slice(&earlier[range]);
                }
            }
            Self::OtherPart => {
                let (other, range) = (any_of(&files.others, random)?, random.pick(files.parts).clone());
                // Other tables may be shorter.
                bytes[range.clone()].copy_from_slice(other.get(range)?);
            }
            Self::SwappedWithin => swap_within(&mut bytes, files.parts, random),
            Self::CutShort => bytes.truncate(random.below(length)),
            Self::Prolonged => {
                let more = any_of(&files.others, random)?;
                let size = 1 + random.below(more.len());
                bytes.extend_from_slice(&more[stretch(random, more.len(), size)]);
            }
            Self::HeadOfOther => {
                let other = any_of(&files.others, random)?;
                let cut = random.below(length.min(other.len()));
                bytes[..cut].copy_from_slice(&other[..cut]);
            }
            Self::TailOfOther => {
                let other = any_of(&files.others, random)?;
                let kept = random.below(length.min(other.len()));
                bytes.truncate(kept);
                bytes.extend_from_slice(&other[kept..]);
            }
        }
        Some(bytes)
    }
}

/// Swaps two parts of one length if there are any, otherwise two random ranges.
fn swap_within(bytes: &mut [u8], parts: &[Range<usize>], random: &mut Random) {
    let (mut first, mut second) = (random.pick(parts).clone(), random.pick(parts).clone());
    if first.len() != second.len() || first == second || random.one_in(2) {
        let size = 1 + random.below(bytes.len() / 2);
        (first, second) = (stretch(random, bytes.len(), size), stretch(random, bytes.len(), size));
    }
    // A copy, because the two ranges may overlap.
    let before = bytes.to_vec();
    bytes[first.clone()].copy_from_slice(&before[second.clone()]);
    bytes[second].copy_from_slice(&before[first]);
}

/// Returns a random range of `size` of `length` bytes, or all if there are fewer.
fn stretch(random: &mut Random, length: usize, size: usize) -> Range<usize> {
    let size = size.min(length);
    let start = random.below(length - size + 1);
    start..start + size
}

fn a_page(random: &mut Random, length: usize, page: usize) -> Range<usize> {
    let start = random.below(length.div_ceil(page)) * page;
    start..(start + page).min(length)
}

/// The outcome of one case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// The damage left every byte as it was.
    Identical,
    /// It does not open.
    Refused,
    /// It opens, and some reads fail.
    ReadsRefused,
    /// It opens, the filter is not used, and all reads are right.
    FilterUnusable,
    /// It opens, all reads are right, and verifying finds the damage.
    Unread,
    /// Accepted by all checks, although it is not as it was written.
    Accepted,
    /// Every byte is another table's.
    OtherTable,
    /// The footer is another table's, so this is that table, damaged: reads fail, or answer like that table.
    OtherFooter,
}

/// The outcomes of all cases.
#[derive(Default)]
struct Totals(BTreeMap<Way, BTreeMap<Outcome, u64>>);

impl Totals {
    fn count(&mut self, way: Way, outcome: Outcome) {
        *self.0.entry(way).or_default().entry(outcome).or_default() += 1;
    }

    fn of(&self, outcome: Outcome) -> u64 {
        self.0.values().filter_map(|outcomes| outcomes.get(&outcome)).sum()
    }

    fn cases(&self) -> u64 {
        self.0.values().flat_map(BTreeMap::values).sum()
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (way, outcomes) in &self.0 {
            writeln!(f, "  {way:?}: {outcomes:?}")?;
        }
        let all = self.0.values().flatten().fold(BTreeMap::new(), |mut all, (outcome, count)| {
            *all.entry(outcome).or_insert(0) += count;
            all
        });
        write!(f, "  all {}: {all:?}", self.cases())
    }
}

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

fn open(bytes: Vec<u8>) -> Result<Table, TableError> {
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
fn try_all(cases: u64) -> Totals {
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

// promise: damage
#[test]
fn damaged_tables_lose_no_key_and_give_no_wrong_value() {
    let totals = try_all(effort::of_minutes(20_000, 2_500, 230));
    println!("tables:\n{totals}");
    assert_eq!(totals.of(Outcome::Accepted), 0);
    let reached = [Outcome::Refused, Outcome::ReadsRefused, Outcome::FilterUnusable, Outcome::OtherFooter];
    assert!(reached.into_iter().all(|outcome| totals.of(outcome) > totals.cases() / 100), "{totals}");
    assert!(totals.of(Outcome::Unread) > 0, "{totals}");
}
