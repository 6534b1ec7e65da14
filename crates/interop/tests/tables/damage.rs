//! One flipped bit in the bytes that an answer depends on.

use std::collections::BTreeSet;

use bytes::Bytes;
use sstfilter::Probe;
use sstfilter_interop::{ChecksumType, ForeignReport, ForeignTable, Part};

use crate::effort;
use crate::fixtures::{self, Fixture};

/// The maximum number of bits tested in a part: all bits of a short part, otherwise this many, evenly spread. Five
/// without `SSTFILTER_LONG=1`.
const SAMPLED_BITS: u64 = 64;

/// A sound table that the tests damage.
struct Subject {
    fixture: Fixture,
    bytes: Bytes,
    keys: Vec<Vec<u8>>,
    report: ForeignReport,
}

impl Subject {
    fn new(fixture: Fixture) -> Self {
        let table = fixture.open();
        let keys = table.user_keys().flatten().collect();
        let report = table.verify();
        Self { bytes: fixture.bytes(), fixture, keys, report }
    }

    fn has_checksum(&self) -> bool {
        self.fixture.open().checksum_type() != ChecksumType::None
    }

    /// Returns offsets and lengths of everything except data blocks and their index.
    fn parts(&self) -> Vec<(Part, u64, u64)> {
        let parts = self.report.blocks.iter().map(|block| (block.part, block.offset, block.bytes));
        parts.filter(|(part, ..)| !matches!(part, Part::Data | Part::Index)).collect()
    }

    /// Flips one bit, and probes stored keys: all of them, or every hundredth. Returns whether the damage is found.
    fn is_found(&self, bit: u64) -> bool {
        let mut bytes = self.bytes.to_vec();
        bytes[usize::try_from(bit / 8).expect("small")] ^= 1 << (bit % 8);
        let Ok(table) = ForeignTable::open(Bytes::from(bytes)) else { return true };
        let table = self.fixture.stated(table);
        let step = if self.keys.len() > 100 { self.keys.len() / 50 } else { 1 };
        for key in self.keys.iter().step_by(step) {
            assert!(!table.probe(key).is_absent(), "{}: bit {bit} loses {}", self.fixture.file, key.escape_ascii());
        }
        let report = table.verify();
        assert_eq!(report.keys_lost, 0, "{}: bit {bit}", self.fixture.file);
        !report.is_sound()
    }

    /// The value of the global sequence number, which RocksDB overwrites without a new checksum.
    fn bits_of_sequence_number(&self) -> BTreeSet<u64> {
        let name = b"global_seqno";
        let Some(found) = self.bytes.windows(name.len()).position(|window| window == name) else {
            return BTreeSet::new();
        };
        let start = 8 * (found + name.len()) as u64;
        (start..start + 56).collect()
    }
}

fn sampled(offset: u64, bytes: u64, at_most: u64) -> impl Iterator<Item = u64> {
    let bits = 8 * bytes;
    let step = bits.div_ceil(at_most).max(1);
    // An odd step meets every bit of a byte.
    let step = if step > 1 { step | 1 } else { 1 };
    (0..bits).step_by(usize::try_from(step).expect("small")).map(move |bit| 8 * offset + bit)
}

/// Returns the bits whose damage is not found.
fn missed(subject: &Subject, bits: impl Iterator<Item = u64>) -> Vec<u64> {
    let exempt = subject.bits_of_sequence_number();
    bits.filter(|bit| !exempt.contains(bit) && !subject.is_found(*bit)).collect()
}

/// The four bytes of the format version, which no checksum covers before format version 6.
fn is_version_bit(subject: &Subject, bit: u64) -> bool {
    let end = 8 * (subject.bytes.len() as u64 - 8);
    (end - 32..end).contains(&bit)
}

fn subjects() -> impl Iterator<Item = Subject> {
    fixtures::all().into_iter().map(Subject::new).filter(Subject::has_checksum)
}

/// Tests all bits in the long form; otherwise the bits of the version, and one in seven of the others, depending on the
/// table.
// promise: other-engines
#[test]
fn every_flipped_bit_of_a_footer_is_found_but_for_versions_that_say_the_same() {
    let (mut same, step) = (BTreeSet::new(), effort::sample(7) as u64);
    for (number, subject) in (0..).zip(subjects()) {
        let (_, offset, bytes) = subject.parts()[0];
        let bits = sampled(offset, bytes, u64::MAX);
        let bits = bits.filter(|&bit| (bit + number) % step == 0 || is_version_bit(&subject, bit));
        for bit in missed(&subject, bits) {
            assert!(is_version_bit(&subject, bit), "{}: bit {bit} of {}", subject.fixture.file, subject.bytes.len());
            let version = subject.fixture.format_version;
            let other = version ^ (1 << (bit - 8 * (subject.bytes.len() as u64 - 12)));
            same.insert((version, other));
        }
    }
    // No reader can distinguish these versions: their blocks are identical if the filter is Ribbon or missing.
    assert_eq!(same, BTreeSet::from([(2, 3), (4, 5), (5, 4)]));
}

// promise: other-engines
#[test]
fn flipped_bits_of_filter_metaindex_and_properties_are_found() {
    flip_bits_of_all_parts(if effort::is_long() { SAMPLED_BITS } else { SAMPLED_BITS / 12 });
}

fn flip_bits_of_all_parts(at_most: u64) {
    let subjects: Vec<_> = subjects().collect();
    let (first, second) = subjects.split_at(subjects.len() / 2);
    std::thread::scope(|scope| {
        for half in [first, second] {
            scope.spawn(move || half.iter().for_each(|subject| flip_bits_of_parts(subject, at_most)));
        }
    });
}

fn flip_bits_of_parts(subject: &Subject, at_most: u64) {
    for (part, offset, bytes) in subject.parts().into_iter().filter(|(part, ..)| *part != Part::Footer) {
        let missed = missed(subject, sampled(offset, bytes, at_most));
        assert!(missed.is_empty(), "{}: {part} at {offset}: bits {missed:?}", subject.fixture.file);
    }
}

/// Tests all bits in the long form; otherwise one in three.
#[test]
fn every_flipped_bit_of_small_tables_is_found() {
    for subject in subjects().filter(|subject| subject.fixture.count <= 7) {
        let bits = sampled(0, subject.bytes.len() as u64, u64::MAX).step_by(effort::sample(3));
        let mut missed = missed(&subject, bits);
        missed.retain(|&bit| !is_version_bit(&subject, bit));
        assert!(missed.is_empty(), "{} of {} bytes: bits {missed:?}", subject.fixture.file, subject.bytes.len());
    }
}

#[test]
fn a_table_without_checksums_says_so_and_its_filter_is_not_believed() {
    let unchecked: Vec<_> =
        fixtures::all().into_iter().map(Subject::new).filter(|subject| !subject.has_checksum()).collect();
    assert!(!unchecked.is_empty());
    for subject in unchecked {
        let no_checksum = |part| {
            let state = subject.report.blocks.iter().find(|block| block.part == part).map(|block| block.state.clone());
            assert_eq!(state, Some(sstfilter_interop::BlockState::NoChecksum), "{}: {part}", subject.fixture.file);
        };
        [Part::Metaindex, Part::Properties, Part::Filter, Part::Data].into_iter().for_each(no_checksum);
        let table = ForeignTable::open(subject.fixture.bytes()).expect("a sound table");
        assert!(matches!(table.probe(b"00000000!"), Probe::Unusable), "{}", subject.fixture.file);
    }
}
