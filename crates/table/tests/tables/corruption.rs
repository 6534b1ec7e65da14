//! Lies under checksums that hold, as faulty writers and forgers leave them. The failures guarded against: a filter that
//! hides keys although nothing is damaged; a reader that panics, never ends, or allocates memory that only a length
//! claims. `matrix` and `damage` cover bytes that differ from those that were written.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::{FixedPrefix, KeyParts, RandomAccess};
use sstfilter_store::{FilterBudget, PartitionOptions};
use sstfilter_table::{Lookup, Table, TableError, TableOptions, TablePart};

use crate::callers::{Builder, Policy};
use crate::container::CUTS;
use crate::damage::data_blocks;
use crate::{Entries, assert_holds, bytes_of, of_keys, open};

// Few, so that all keys can be read after every single flipped bit.
const ENTRIES: u32 = 24;

fn key(number: u32) -> Vec<u8> {
    format!("a:{number:04}").into_bytes()
}

fn value(number: u32) -> Option<Vec<u8>> {
    (number % 4 != 3).then(|| format!("value {number:04}").into_bytes())
}

/// Table 1, of the even numbers. Blocks are small, so that the few entries fill several.
fn build(options: TableOptions) -> Vec<u8> {
    build_as(1, options)
}

fn build_as(id: u8, options: TableOptions) -> Vec<u8> {
    let options = options.with_block_bytes(96).unwrap().with_restart_interval(2).unwrap();
    bytes_of(&entries(), &options.with_table_id([id; 16])).into()
}

fn entries() -> Entries {
    (0..ENTRIES).map(|number| (key(number * 2), value(number))).collect()
}

/// Checks that every lookup and walk is right.
fn assert_reads_are_right(table: &Table, what: &str) {
    assert_holds(table, &entries(), what);
    let walked = table.iter().map(|entry| entry.map(|entry| entry.value.map(Vec::from)));
    assert!(walked.map(Result::unwrap).eq((0..ENTRIES).map(value)), "{what}");
}

fn region(bytes: &[u8], part: TablePart) -> Range<usize> {
    crate::region(&Bytes::copy_from_slice(bytes), part).unwrap()
}

/// The checksum of contents at `offset` of table 1, computed from the specification.
fn bound_checksum(contents: &[u8], offset: usize) -> u32 {
    crc32c::crc32c(&[contents, &[1; 16], &(offset as u64).to_le_bytes()].concat())
}

/// Writes the checksum of a block, and the checksums in the handles that lead to it: in `parents`, the later blocks
/// that refer to it one after the other, and in the footer.
fn reseal(bytes: &mut [u8], block: Range<usize>, parents: &[Range<usize>]) {
    let old = handle_at(bytes, &block);
    let sum = bound_checksum(&bytes[block.start..block.end - 4], block.start);
    bytes[block.end - 4..block.end].copy_from_slice(&sum.to_le_bytes());
    let Some((parent, parents)) = parents.split_first() else {
        let start = bytes.len() - 64;
        bytes[start + 44..start + 48].copy_from_slice(&sum.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[start..start + 52]);
        bytes[start + 52..start + 56].copy_from_slice(&sum.to_le_bytes());
        return;
    };
    let named = bytes[parent.clone()].windows(old.len()).position(|window| window == old).unwrap();
    let new = handle_at(bytes, &block);
    bytes[parent.start + named..][..new.len()].copy_from_slice(&new);
    reseal(bytes, parent.clone(), parents);
}

/// Returns the handle of the sealed block at `block`: offset, length, checksum.
fn handle_at(bytes: &[u8], block: &Range<usize>) -> Vec<u8> {
    [varint(block.start as u64), varint(block.len() as u64 - 4), bytes[block.end - 4..block.end].to_vec()].concat()
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut out = vec![];
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
    out
}

/// Returns the range of the description of the filters.
fn description(bytes: &[u8]) -> Range<usize> {
    let properties = region(bytes, TablePart::Properties);
    let start = bytes[properties.clone()].windows(4).position(|window| window == b"SFMD").unwrap() + properties.start;
    // It ends before the three numbers that precede the next property's name.
    let name = b"raw-key-bytes";
    let next = bytes[start..properties.end].windows(name.len()).position(|window| window == name).unwrap();
    start..start + next - 3
}

/// Offset of the first section in a description.
const SECTION: usize = 44;

/// Returns the table with other bytes in the first section of its description, and nothing else changed.
fn with_section(bytes: &[u8], at: usize, section: &[u8]) -> Vec<u8> {
    let (start, mut lying) = (description(bytes).start + SECTION + at, bytes.to_vec());
    lying[start..start + section.len()].copy_from_slice(section);
    reseal(&mut lying, region(bytes, TablePart::Properties), &[region(bytes, TablePart::Metaindex)]);
    lying
}

/// Offset, length and checksum in a section, which begin behind the kind.
fn place(offset: u64, length: u64, sum: u32) -> Vec<u8> {
    [&offset.to_le_bytes()[..], &length.to_le_bytes(), &sum.to_le_bytes()].concat()
}

/// Panics when a read exceeds its bytes: the reader must have allocated memory for it before.
struct Modest(Bytes);

impl RandomAccess for Modest {
    fn len(&self) -> io::Result<u64> {
        RandomAccess::len(&self.0)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        assert!(buf.len() <= self.0.len(), "a buffer of {} bytes for {}", buf.len(), self.0.len());
        self.0.read_exact_at(buf, offset)
    }
}

fn open_modest(bytes: Vec<u8>) -> Result<Table, TableError> {
    Table::open_source(Modest(bytes.into()), &TableOptions::default())
}

/// Flips each bit of each block, of the filter, and of the description of the filter.
// promise: safe-to-open
#[test]
fn lies_under_checksums_that_hold_neither_panic_nor_hang() {
    let bytes = build(TableOptions::default());
    let [filter, properties, index, metaindex] =
        [TablePart::Filter, TablePart::Properties, TablePart::Index, TablePart::Metaindex]
            .map(|part| region(&bytes, part));
    let data = data_blocks(&bytes, 1).into_iter().map(|block| (block, vec![index.clone(), metaindex.clone()]));
    let named = [(metaindex.clone(), vec![]), (index.clone(), vec![metaindex.clone()])];
    let described = [filter.clone(), properties.clone()].map(|block| (block, vec![metaindex.clone()]));
    for (block, parents) in data.chain(named).chain(described) {
        let end = if block == filter { block.end } else { block.end - 4 };
        for bit in block.start * 8..end * 8 {
            let mut lying = bytes.clone();
            lying[bit / 8] ^= 1 << (bit % 8);
            if block == filter {
                // With the right checksum in the description, only the filter block's own checks are left.
                let sum = crc32c::crc32c(&lying[filter.start..filter.end - 4]);
                lying = with_section(&lying, 24, &sum.to_le_bytes());
            } else {
                reseal(&mut lying, block.clone(), &parents);
            }
            let Ok(table) = open_modest(lying) else { continue };
            let _ = table.verify();
            for number in [0, 1, 7, 22, 40] {
                let _ = table.get(&key(number));
            }
            assert!(table.range(&key(5)[..]..).count() <= ENTRIES as usize + 1);
        }
    }
}

/// A faulty writer's description names another extractor than the one whose parts the filter holds.
// promise: limited-memory
#[test]
fn a_table_whose_filter_lacks_a_part_that_its_description_names_loses_no_prefix() {
    let parts = |length| KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(length)));
    let whole = TableOptions::default().with_key_parts(parts(4));
    let partitioned = CUTS.map(|cut| whole.clone().with_partitioned_filter(PartitionOptions::new(cut, 1_024).unwrap()));
    for options in [whole].into_iter().chain(partitioned) {
        let mut lying = build(options);
        let (properties, metaindex) = (region(&lying, TablePart::Properties), region(&lying, TablePart::Metaindex));
        let at = lying.windows(14).position(|window| window == b"fixed-prefix:4").unwrap();
        lying[at + 13] = b'5';
        reseal(&mut lying, properties, &[metaindex]);
        let lying = Bytes::from(lying);
        for options in [TableOptions::default(), TableOptions::default().with_filter_budget(FilterBudget::unlimited())]
        {
            let table = open(&lying, &options.with_key_parts(parts(5)));
            let may_contain = |number| table.filters().may_contain_prefix(&key(number * 2)[..5]);
            assert!((0..ENTRIES).all(may_contain), "{table:?}");
            assert!(matches!(table.filter_problem(), Some(TableError::Filter { .. })), "{:?}", table.filter_problem());
            assert_reads_are_right(&table, "other parts");
        }
    }
}

// promise: safe-to-open
#[test]
fn a_description_that_leads_elsewhere_than_to_the_filter_loses_no_key_and_makes_no_room_for_what_it_claims() {
    let bytes = build(TableOptions::default());
    let filter = region(&bytes, TablePart::Filter);
    let (start, length) = (filter.start as u64, filter.len() as u64);
    let sum = crc32c::crc32c(&bytes[filter.start..filter.end - 4]);
    assert_eq!(with_section(&bytes, 8, &place(0, length, sum)), bytes, "the description of this test is the writer's");
    let others = [TablePart::Properties, TablePart::Index, TablePart::Metaindex, TablePart::Footer].map(|part| {
        let other = region(&bytes, part);
        // The checksum of that part holds.
        let sum = crc32c::crc32c(&bytes[other.start..other.end - 4]);
        place(other.start as u64 - start, other.len() as u64, sum)
    });
    let shorter = [place(0, length - 64, 0), place(64, length - 64, 0)];
    let vast = [0, 64, 1 << 40, u64::MAX].into_iter().flat_map(|offset| {
        [bytes.len() as u64, 1 << 32, 1 << 62, u64::MAX - 4, u64::MAX].map(|huge| place(offset, huge, 0))
    });
    let mut opened = 0;
    for section in others.into_iter().chain(shorter).chain(vast) {
        // A place beyond 2^64 is refused, like that of any part.
        let Ok(table) = open_modest(with_section(&bytes, 8, &section)) else { continue };
        opened += 1;
        assert!(matches!(table.filter_problem(), Some(TableError::Filter { .. })), "{section:?}");
        assert_reads_are_right(&table, "a filter elsewhere");
        assert!(table.stats().filters.filter.unusable > 0 && table.verify().is_err(), "{section:?}");
    }
    assert!(opened > 15, "{opened}");
    // A section of an unknown kind: nothing describes the bytes of the filter.
    assert!(matches!(open_modest(with_section(&bytes, 0, &[99])), Err(TableError::Corrupt { .. })));
}

#[test]
fn a_damaged_newer_table_of_a_set_is_an_error_and_not_an_older_value() {
    let sound = build(TableOptions::default());
    let mut damaged = sound.clone();
    damaged[region(&sound, TablePart::Data)].fill(0xaa);
    let open = |bytes: Vec<u8>| open(&bytes.into(), &TableOptions::default());
    let set = crate::set_of(vec![open(damaged), open(build_as(2, TableOptions::default()))]);
    let present = key(4);
    assert!(set.get(&present).is_err());
    assert!(matches!(set.multi_get(&[&present])[..], [Err(TableError::Checksum { .. })]));
    let stats = set.stats().filters;
    let counts = (set.snapshot().view().lookups(), stats.searched, stats.skipped_by_bounds + stats.filter.negatives);
    assert_eq!(counts, (2, 2, 0), "the older one is not counted");
    assert_eq!(stats.filter.true_positives, 0, "nobody knows whether the key was there");
}

/// The description shows that the hash is the writer's: the filter is at fault, not the reader.
#[test]
fn a_filter_that_denies_a_key_is_found_by_verify_and_is_not_used_if_that_key_is_the_first() {
    let without = |forgotten: Vec<u8>| {
        let policy = Policy::of(move |context| {
            let forgotten = forgotten.clone();
            Some(Builder::new(context).adding(move |inner, key| {
                if key != forgotten {
                    inner.add_key(key);
                }
            }))
        });
        let bytes = bytes_of(&of_keys((0..50).map(key)), &TableOptions::default().with_policy(policy));
        open(&bytes, &TableOptions::default().reject_foreign_filters())
    };
    match without(key(5)).verify() {
        Err(TableError::FalseNegative { key: found, .. }) => assert_eq!(found, key(5)),
        other => panic!("{other:?}"),
    }
    let table = without(key(0));
    let problem = table.filter_problem().unwrap();
    assert!(!problem.is_foreign_filter() && problem.to_string().contains("built wrong"), "{problem}");
    assert!(matches!(table.get(&key(0)).unwrap(), Lookup::Found(_)));
    assert!(matches!(table.verify(), Err(TableError::Filter { .. })));
}
