//! A salvage returns all sound entries of a damaged table, and names what is missing. The failures guarded against: one
//! bad block hides all later ones, so that nobody knows how much is lost and nothing can be saved; an entry of a
//! damaged block is returned as sound; a key is neither returned nor reported missing.

use std::collections::BTreeMap;
use std::ops::{Bound, Range, RangeBounds};

use bytes::Bytes;
use sstfilter_store::{PartitionCut, PartitionOptions};
use sstfilter_table::{FilterVerdict, Table, TableError, TableOptions, TablePart, VerifyReport};

use crate::Entries;
use crate::common::effort;
use crate::common::random::Random;
use crate::damage::data_blocks;

const ID: u8 = 7;

fn options(block_bytes: u32, restart_interval: u32) -> TableOptions {
    let options = TableOptions::default().with_table_id([ID; 16]);
    options.with_block_bytes(block_bytes).unwrap().with_restart_interval(restart_interval).unwrap()
}

fn build(entries: &Entries, options: &TableOptions) -> Vec<u8> {
    crate::bytes_of(entries, options).into()
}

fn open(bytes: &[u8]) -> Table {
    crate::open(&Bytes::copy_from_slice(bytes), &TableOptions::default())
}

fn place(bytes: &[u8], part: TablePart) -> Range<usize> {
    crate::region(&Bytes::copy_from_slice(bytes), part).unwrap()
}

/// Missing keys, bytes of the file, and number of blocks.
type Gap = (Bound<Bytes>, Bound<Bytes>, Range<u64>, Option<u64>);

/// The entries that a salvage returned, and the gaps that it reported.
struct Salvaged {
    entries: Entries,
    missing: Vec<Gap>,
}

impl Salvaged {
    fn of(table: &Table) -> Self {
        let mut salvaged = Self { entries: Entries::new(), missing: Vec::new() };
        for next in table.salvage() {
            match next {
                Ok(entry) => {
                    let is_behind = salvaged.entries.last_key_value().is_none_or(|(last, _)| last[..] < entry.key[..]);
                    assert!(is_behind, "keys ascend");
                    salvaged.entries.insert(entry.key.to_vec(), entry.value.map(|value| value.to_vec()));
                }
                Err(TableError::Missing { bytes, blocks, keys: (lower, upper), .. }) => {
                    salvaged.missing.push((lower, upper, bytes, blocks));
                }
                Err(other) => panic!("{other}"),
            }
        }
        salvaged
    }

    /// Checks that each key of the table is returned with its value or is in a gap, and that nothing else is returned.
    fn check(&self, all: &Entries, what: &str) {
        for (key, value) in all {
            let bounds = |(lower, upper, ..): &Gap| {
                let end = |bound: &Bound<Bytes>| bound.as_ref().map(|key| key.to_vec());
                (end(lower), end(upper)).contains(key)
            };
            let is_missing = self.missing.iter().any(bounds);
            match self.entries.get(key) {
                Some(found) => assert!(found == value && !is_missing, "{what}: {}", key.escape_ascii()),
                None => assert!(is_missing, "{what}: {} is neither given nor missing", key.escape_ascii()),
            }
        }
        assert!(self.entries.keys().all(|key| all.contains_key(key)), "{what}: a key that was never stored");
    }
}

fn small_entries(count: u32) -> Entries {
    let value = |number: u32| (number % 5 != 3).then(|| format!("value {number:05}").into_bytes());
    (0..count).map(|number| (format!("key{number:05}").into_bytes(), value(number))).collect()
}

/// Returns tables of all shapes that a block can have.
fn shapes() -> Vec<(&'static str, Entries, TableOptions)> {
    let long = |number: u32| {
        let value = vec![number.to_le_bytes()[0]; [0, 3, 5_000, 200_000][number as usize % 4]];
        (format!("k{number:03}").into_bytes(), Some(value))
    };
    // The empty key, keys of zeros, and values of zeros: only entry headers mark their beginnings.
    let zeros = (0..400_usize).map(|length| (vec![0; length], Some(vec![0; length % 50]))).collect();
    vec![
        ("one entry", small_entries(1), options(4096, 16)),
        ("small blocks", small_entries(700), options(96, 2)),
        ("every key whole", small_entries(700), options(512, 1)),
        ("one restart point", small_entries(3_000), options(4096, 1024)),
        ("defaults", small_entries(3_000), options(4096, 16)),
        ("long values", (0..40).map(long).collect(), options(4096, 16)),
        ("zeros", zeros, options(1024, 4)),
    ]
}

/// Damages `count` of the table's data blocks, and returns their ranges in file order.
fn damage_blocks(bytes: &mut [u8], count: usize, random: &mut Random) -> Vec<Range<usize>> {
    let blocks = data_blocks(bytes, ID);
    let mut hit: BTreeMap<usize, Range<usize>> = BTreeMap::new();
    while hit.len() < count.min(blocks.len()) {
        let block = random.pick(&blocks).clone();
        if hit.insert(block.start, block.clone()).is_some() {
            continue;
        }
        match random.below(3) {
            0 => bytes[block.start + random.below(block.len())] ^= 1 << random.below(8),
            1 => bytes[block].fill(0),
            _ => bytes[block].fill_with(|| random.next().to_le_bytes()[0]),
        }
    }
    hit.into_values().collect()
}

// promise: damage
#[test]
fn every_entry_of_a_sound_block_is_given_and_each_damaged_block_is_named() {
    for (shape, entries, options) in shapes() {
        let sound = build(&entries, &options);
        let all = Salvaged::of(&open(&sound));
        assert!(all.entries == entries && all.missing.is_empty(), "{shape}");
        for case in 0..12 {
            let (mut random, mut bytes) = (Random::new(case), sound.clone());
            let hit = damage_blocks(&mut bytes, 1 + random.below(8), &mut random);
            let table = open(&bytes);
            let salvaged = Salvaged::of(&table);
            salvaged.check(&entries, shape);
            let places: Vec<_> = salvaged.missing.iter().map(|(.., place, _)| place.clone()).collect();
            let expected: Vec<_> = hit.iter().map(|block| block.start as u64..block.end as u64).collect();
            assert_eq!(places, expected, "{shape}, case {case}");
            assert!(salvaged.missing.iter().all(|(.., blocks)| *blocks == Some(1)));

            let (report, damage) = table.verify_all();
            let offset = |problem: &TableError| match problem {
                TableError::Checksum { at, .. } => at.offset,
                other => panic!("{shape}, case {case}: {other}"),
            };
            assert!(damage.iter().map(offset).eq(places.iter().map(|place| place.start)), "{damage:?}");
            let counts = (report.entries, report.data_blocks + hit.len() as u64);
            assert_eq!(counts, (salvaged.entries.len() as u64, table.properties().data_blocks), "{shape}");
        }
    }
}

// promise: damage
#[test]
fn without_its_index_and_its_filter_a_table_gives_the_same_entries() {
    for (shape, entries, options) in shapes() {
        let sound = build(&entries, &options);
        let mut without_index = sound.clone();
        for part in [TablePart::Index, TablePart::Filter] {
            without_index[place(&sound, part)].fill(0xa5);
        }
        let table = open(&without_index);
        assert!(table.check_index().is_err());
        let all = Salvaged::of(&table);
        assert!(all.entries == entries && all.missing.is_empty(), "{shape}");
        let (report, damage) = table.verify_all();
        assert_eq!((report.entries, damage.len()), (entries.len() as u64, 2), "{shape}: {damage:?}");
        for case in 0..8 {
            let mut random = Random::new(case);
            let (mut with, mut without) = (sound.clone(), without_index.clone());
            let hit = damage_blocks(&mut with, 1 + random.below(5), &mut random);
            hit.iter().for_each(|block| without[block.clone()].copy_from_slice(&with[block.clone()]));
            let (with, without) = (Salvaged::of(&open(&with)), Salvaged::of(&open(&without)));
            let counts = (with.entries.len(), without.entries.len());
            assert!(with.entries == without.entries, "{shape}, case {case}: {counts:?}");
            without.check(&entries, shape);
            let bytes = |salvaged: &Salvaged| -> u64 {
                salvaged.missing.iter().map(|(.., place, _)| place.end - place.start).sum()
            };
            assert_eq!(bytes(&with), bytes(&without), "{shape}, case {case}");
        }
    }
}

/// Blocks of other tables are not data of this one, just like noise.
// promise: damage
#[test]
fn without_its_index_a_table_gives_no_block_of_another_table_or_place() {
    let entries = small_entries(700);
    let sound = build(&entries, &options(96, 2));
    let other = build(&entries, &options(96, 2).with_table_id([ID + 1; 16]));
    assert_eq!(sound.len(), other.len());
    let blocks = data_blocks(&sound, ID);
    let mut bytes = sound.clone();
    bytes[place(&sound, TablePart::Index)].fill(0);
    bytes[blocks[3].clone()].copy_from_slice(&other[blocks[3].clone()]);
    let (from, to) = (blocks[20].clone(), blocks[40].clone());
    assert_eq!(from.len(), to.len());
    bytes.copy_within(from, to.start);
    let salvaged = Salvaged::of(&open(&bytes));
    salvaged.check(&entries, "a block of another table, and one of another place");
    let places: Vec<_> = salvaged.missing.iter().map(|(.., place, _)| place.start).collect();
    assert_eq!(places, [blocks[3].start as u64, blocks[40].start as u64]);
}

/// After a damaged block, every byte may begin another one, and no file may make the search endless. The search gave up
/// if it did not reach the sound block after the damaged one. Only the long form uses all entries, otherwise a tenth.
// promise: damage
#[test]
fn a_table_that_was_made_to_be_slow_is_given_up_in_time() {
    let count = 100_000 / effort::sample(10);
    let entries: Entries = (0..count).map(|number| (format!("{number:06}").into_bytes(), None)).collect();
    // Each entry takes nine bytes, and four for its restart point. The last entries are in the block after.
    let sound = build(&entries, &options(u32::try_from(count).unwrap() * 13 - 1_000, 1));
    let mut bytes = sound.clone();
    bytes[place(&sound, TablePart::Index)].fill(0);
    let [first, _] = &data_blocks(&sound, ID)[..] else { panic!("not two blocks") };
    bytes[first.end - 1] ^= 1;
    let begun = std::time::Instant::now();
    let salvaged = Salvaged::of(&open(&bytes));
    assert!(begun.elapsed().as_secs() < 600, "{:?}", begun.elapsed());
    salvaged.check(&entries, "given up");
    assert!(salvaged.entries.is_empty(), "{} entries behind were found", salvaged.entries.len());
}

// promise: damage
#[test]
fn all_damage_is_listed_that_of_filters_and_their_partitions_too() {
    let options = options(256, 4).with_partitioned_filter(PartitionOptions::new(PartitionCut::KeyRange, 1024).unwrap());
    let sound = build(&small_entries(20_000), &options);
    let filter = place(&sound, TablePart::Filter);
    let mut bytes = sound.clone();
    for at in [10, 5_000, filter.start + 20, filter.start + 5_000, filter.end - 100] {
        bytes[at] ^= 1;
    }
    let (report, damage) = open(&bytes).verify_all();
    let parts: Vec<_> = damage.iter().map(part_of).collect();
    let expected = [[TablePart::Filter; 3].as_slice(), &[TablePart::Data; 2]].concat();
    assert_eq!(parts, expected, "{damage:?}");
    assert_eq!(report.filter, FilterVerdict::Damaged);
    assert!((19_900..20_000).contains(&report.entries));
    let VerifyReport { filter, entries, .. } = open(&sound).verify().unwrap();
    assert_eq!((filter, entries), (FilterVerdict::ContainsAll { keys: 20_000 }, 20_000));
}

fn part_of(problem: &TableError) -> TablePart {
    match problem {
        TableError::Checksum { at, .. } | TableError::Corrupt { at, .. } | TableError::Filter { at, .. } => at.part,
        other => panic!("{other}"),
    }
}
