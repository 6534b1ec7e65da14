//! Every fixture table with every single bit flipped (in the long form), truncated at every length, and extended:
//! damage may cost an error, but never a key.

#![expect(clippy::cast_possible_truncation, reason = "fixtures of some thousand bytes")]

use bytes::Bytes;
use sstfilter_table::{Lookup, Table, TableError, TableOptions};

use crate::cases::{TABLES, TableCase};
use crate::common;
use crate::common::cases;
use crate::common::effort;

fn open(bytes: &[u8]) -> Result<Table, TableError> {
    Table::open_source(Bytes::copy_from_slice(bytes), &TableOptions::default())
}

/// Asserts that a read returns the right answer or an error; outside the table, "absent" or an error.
fn assert_reads_right(case: &TableCase, table: &Table, numbers: impl Iterator<Item = u32>, what: &str) {
    for number in numbers {
        let expected = case.value(number).map_or(Lookup::Deleted, |value| Lookup::Found(value.into()));
        let expected = if number < case.entries { expected } else { Lookup::Absent };
        if let Ok(got) = table.get(&cases::key(number)) {
            assert_eq!(got, expected, "{}: {what}: key {number}", case.name);
        }
        let between = [&cases::key(number)[..], b"!"].concat();
        if let Ok(got) = table.get(&between) {
            assert_eq!(got, Lookup::Absent, "{}: {what}: behind key {number}", case.name);
        }
    }
}

/// Asserts that opening or verifying fails, and that no read is wrong.
fn assert_table_damage_is_caught(case: &TableCase, damaged: &[u8], numbers: impl Iterator<Item = u32>, what: &str) {
    let Ok(table) = open(damaged) else { return };
    assert!(table.verify().is_err(), "{}: {what} passes for sound", case.name);
    assert_reads_right(case, &table, numbers, what);
}

/// Returns the keys to read after damage number `turn`, including one beyond the end: all keys of a small table; five
/// of a large one, spread evenly and shifted from turn to turn, so that all keys are read many times.
fn sampled(case: &TableCase, turn: usize) -> impl Iterator<Item = u32> {
    let stride = if case.entries <= 100 { 1 } else { case.entries / 5 };
    let first = if stride == 1 { 0 } else { (turn as u32).wrapping_mul(7) % stride };
    (first..case.entries).step_by(stride as usize).chain([case.entries])
}

/// The long form tries all bits. Otherwise, every third bit, and in tables of more than a hundred entries one bit in
/// every twenty bytes.
// promise: damage
#[test]
fn every_flipped_bit_of_every_table_is_caught_and_no_read_is_wrong() {
    for case in &TABLES {
        common::for_each_flip(&case.read(), |damaged, bit| {
            let is_taken = if case.entries <= 100 {
                bit % effort::of_minutes(1, 2, 3) == 0
            } else {
                // Each bit of a byte in turn.
                let bits = effort::of_minutes(1, 40, 160);
                bits == 1 || bit % bits == bit / bits % 8 * 5
            };
            if is_taken {
                assert_table_damage_is_caught(case, damaged, sampled(case, bit), &format!("bit {bit} flipped"));
            }
        });
    }
}

// promise: damage
#[test]
fn every_table_cut_short_or_prolonged_is_refused_when_it_is_opened() {
    for case in &TABLES {
        let bytes = case.read();
        for length in 0..bytes.len() {
            assert!(open(&bytes[..length]).is_err(), "{}: first {length} bytes", case.name);
            assert!(open(&bytes[bytes.len() - length..]).is_err(), "{}: last {length} bytes", case.name);
        }
        for more in 1..=100 {
            let padding = vec![0; more];
            assert!(open(&[&bytes[..], &padding].concat()).is_err(), "{}: {more} more", case.name);
            assert!(open(&[&padding, &bytes[..]].concat()).is_err(), "{}: {more} more in front", case.name);
        }
    }
}
