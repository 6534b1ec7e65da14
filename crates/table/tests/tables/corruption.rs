//! A damaged table may refuse to answer, but must not answer wrongly. The failures guarded against: a flipped bit in a
//! filter that hides a key, a block of an old table in place of a new one, a truncated file that reads as one with
//! fewer keys, and a length that makes the reader allocate more memory than there is.

#![expect(clippy::cast_possible_truncation, reason = "tables of some hundred bytes")]

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::RandomAccess;
use sstfilter::{
    BlockBuilder, BuildContext, BuiltFilter, FilterPolicy, FixedPolicy, FixedPrefix, KeyHash, KeyHasher, KeyParts,
};
use sstfilter_store::{FilterBudget, FilterProblem, PartitionCut, PartitionOptions};
use sstfilter_table::{Lookup, Table, TableBuilder, TableError, TableOptions};

// Few, so that all keys can be read after every single flipped bit.
const ENTRIES: u32 = 24;

fn key(table: &str, number: u32) -> Vec<u8> {
    format!("{table}:{number:04}").into_bytes()
}

fn value(table: &str, number: u32) -> Option<Vec<u8>> {
    (number % 4 != 3).then(|| format!("{table} value {number:04}").into_bytes())
}

/// A table of the even numbers. Tables whose names have one length have the same shape.
fn build(table: &str, id: u8) -> Vec<u8> {
    build_with(TableOptions::default(), table, id)
}

fn build_with(options: TableOptions, table: &str, id: u8) -> Vec<u8> {
    // Small, so that the few entries fill several blocks and restart intervals.
    let options = options.with_block_bytes(96).unwrap().with_restart_interval(2).unwrap();
    let options = options.with_table_id([id; 16]);
    let mut builder = TableBuilder::new(Vec::new(), &options).unwrap();
    for number in 0..ENTRIES {
        match value(table, number) {
            Some(value) => builder.add(&key(table, number * 2), &value).unwrap(),
            None => builder.delete(&key(table, number * 2)).unwrap(),
        }
    }
    builder.finish().unwrap().0
}

fn expected(table: &str, number: u32) -> Lookup {
    if number % 2 == 1 || number / 2 >= ENTRIES {
        return Lookup::Absent;
    }
    value(table, number / 2).map_or(Lookup::Deleted, |value| Lookup::Found(value.into()))
}

fn open(bytes: &[u8]) -> Result<Table, TableError> {
    Table::open_source(Bytes::copy_from_slice(bytes), &TableOptions::default())
}

/// Checks that every lookup and walk is right or an error; `true` if there was no error.
fn reads_are_right_or_errors(table: &Table, name: &str, what: &str) -> bool {
    let mut is_sound = true;
    for number in 0..ENTRIES * 2 + 2 {
        match table.get(&key(name, number)) {
            Ok(lookup) => assert_eq!(lookup, expected(name, number), "{what}: key {number}"),
            Err(_) => is_sound = false,
        }
    }
    let mut walked = 0;
    for entry in table {
        let Ok(entry) = entry else { return false };
        assert_eq!(entry.key, key(name, walked * 2), "{what}");
        assert_eq!(entry.value.map(Vec::from), value(name, walked), "{what}");
        walked += 1;
    }
    assert_eq!(walked, ENTRIES, "{what}: a walk that ends without an error has seen every key");
    is_sound
}

/// Asserts that opening or verifying fails, and that no read is wrong.
fn assert_caught(bytes: &[u8], name: &str, what: &str) {
    if let Ok(table) = open(bytes) {
        reads_are_right_or_errors(&table, name, what);
        assert!(table.verify().is_err(), "{what}: verify did not see it");
    }
}

/// The parts of a table by name, with the data blocks of `build` as one part.
fn regions(bytes: &[u8]) -> Vec<(&'static str, Range<usize>)> {
    let layout = open(bytes).unwrap().layout();
    layout.into_iter().map(|(part, region)| (part.name(), region.start as usize..region.end as usize)).collect()
}

fn region(bytes: &[u8], name: &str) -> Range<usize> {
    regions(bytes).into_iter().find(|(found, _)| *found == name).unwrap().1
}

#[test]
fn the_table_under_test_has_all_the_parts_and_is_sound() {
    let bytes = build("a", 1);
    let names: Vec<&str> = regions(&bytes).iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["data", "padding", "filter", "properties", "index", "metaindex", "footer"]);
    let table = open(&bytes).unwrap();
    assert!(table.properties().data_blocks >= 4);
    assert!(reads_are_right_or_errors(&table, "a", "sound"));
    table.verify().unwrap();
}

// promise: damage
#[test]
fn a_block_of_an_earlier_table_of_the_same_id_is_damage_though_its_own_checksum_holds() {
    let (now, earlier) = (build("a", 1), build("b", 1));
    let data = data_blocks(&now).into_iter().map(|block| ("data", block));
    let named = ["properties", "index", "metaindex"].map(|name| (name, region(&now, name)));
    for (name, block) in data.chain(named) {
        let mut mixed = now.clone();
        mixed[block.clone()].copy_from_slice(&earlier[block.clone()]);
        let sum = u32::from_le_bytes(mixed[block.end - 4..block.end].try_into().unwrap());
        // The block's own checksum matches, so only the one in its handle reveals the damage.
        assert_eq!(sum, bound_checksum(&mixed[block.start..block.end - 4], block.start), "{name}");
        assert_caught(&mixed, "a", name);
    }
    let mut mixed = now.clone();
    let filter = region(&now, "filter");
    mixed[filter.clone()].copy_from_slice(&earlier[filter]);
    let table = open(&mixed).unwrap();
    let problem = table.filter_problem();
    assert!(matches!(problem, Some(TableError::Filter { source: FilterProblem::Checksum { .. }, .. })), "{problem:?}");
    assert!(matches!(table.verify(), Err(TableError::Filter { .. })));
    assert!(reads_are_right_or_errors(&table, "a", "an earlier filter"));
    assert_eq!(table.stats().filters.filter.negatives, 0);
}

/// Finds the data blocks: one ends where the bound checksum of the preceding bytes matches.
fn data_blocks(bytes: &[u8]) -> Vec<Range<usize>> {
    let data = region(bytes, "data");
    let mut blocks = vec![];
    let mut start = 0;
    // Even an empty block has a number of restart points and a checksum, 4 bytes each.
    for end in 8..=data.end {
        let stored = u32::from_le_bytes(bytes[end - 4..end].try_into().unwrap());
        if end >= start + 8 && stored == bound_checksum(&bytes[start..end - 4], start) {
            blocks.push(start..end);
            start = end;
        }
    }
    assert_eq!(start, data.end);
    blocks
}

/// The checksum of contents at `offset` of table 1, computed from the specification.
fn bound_checksum(contents: &[u8], offset: usize) -> u32 {
    let input = [contents, &[1; 16], &(offset as u64).to_le_bytes()].concat();
    crc32c::crc32c(&input)
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

/// Returns the handle of the sealed block at `block`.
fn handle_at(bytes: &[u8], block: &Range<usize>) -> Vec<u8> {
    let sum = u32::from_le_bytes(bytes[block.end - 4..block.end].try_into().unwrap());
    handle(block.start as u64, block.len() as u64 - 4, sum)
}

/// Returns the range of the description of the filters.
fn description(bytes: &[u8]) -> Range<usize> {
    let properties = region(bytes, "properties");
    let start = bytes[properties.clone()].windows(4).position(|window| window == b"SFMD").unwrap() + properties.start;
    // It ends before the three numbers that precede the next property's name.
    let name = b"raw-key-bytes";
    let next = bytes[start..properties.end].windows(name.len()).position(|window| window == name).unwrap();
    start..start + next - 3
}

/// Offset of the first section in a description.
const SECTION: usize = 44;

/// Returns the table with another offset, length and checksum of the filter in its description, and nothing else
/// changed.
fn with_section(bytes: &[u8], offset: u64, length: u64, sum: u32) -> Vec<u8> {
    let (at, mut lying) = (description(bytes), bytes.to_vec());
    let section = at.start + SECTION;
    lying[section + 8..section + 16].copy_from_slice(&offset.to_le_bytes());
    lying[section + 16..section + 24].copy_from_slice(&length.to_le_bytes());
    lying[section + 24..section + 28].copy_from_slice(&sum.to_le_bytes());
    reseal(&mut lying, region(bytes, "properties"), &[region(bytes, "metaindex")]);
    lying
}

#[test]
fn the_description_of_this_test_is_the_writers_own() {
    let bytes = build("a", 1);
    let filter = region(&bytes, "filter");
    let sum = crc32c::crc32c(&bytes[filter.start..filter.end - 4]);
    assert_eq!(with_section(&bytes, 0, filter.len() as u64, sum), bytes);
}

#[test]
fn lies_in_filters_and_their_descriptions_neither_panic_nor_hang() {
    let bytes = build("a", 1);
    let [filter, properties, metaindex] = ["filter", "properties", "metaindex"].map(|name| region(&bytes, name));
    let at = description(&bytes);
    let bits = |range: &Range<usize>| range.start * 8..range.end * 8;
    for bit in bits(&at).chain(bits(&filter)) {
        let mut lying = bytes.clone();
        lying[bit / 8] ^= 1 << (bit % 8);
        // With the right checksum in the description, only the filter block's own checks are left.
        if filter.contains(&(bit / 8)) {
            let sum = crc32c::crc32c(&lying[filter.start..filter.end - 4]).to_le_bytes();
            lying[at.start + SECTION + 24..at.start + SECTION + 28].copy_from_slice(&sum);
        }
        reseal(&mut lying, properties.clone(), std::slice::from_ref(&metaindex));
        let Ok(table) = open_modest(lying) else { continue };
        let _ = table.verify();
        for number in [0, 1, 7, 22, 40] {
            let _ = table.get(&key("a", number));
        }
        assert!(table.range(&key("a", 5)[..]..).count() <= ENTRIES as usize + 1);
    }
}

// promise: safe-to-open
#[test]
fn lies_under_checksums_that_hold_neither_panic_nor_hang() {
    let bytes = build("a", 1);
    let [properties, index, metaindex] = ["properties", "index", "metaindex"].map(|name| region(&bytes, name));
    let named = [properties, index.clone()].map(|block| (block, vec![metaindex.clone()]));
    let data = data_blocks(&bytes).into_iter().map(|block| (block, vec![index.clone(), metaindex.clone()]));
    for (block, parents) in data.chain(named).chain([(metaindex.clone(), vec![])]) {
        for bit in block.start * 8..(block.end - 4) * 8 {
            let mut lying = bytes.clone();
            lying[bit / 8] ^= 1 << (bit % 8);
            reseal(&mut lying, block.clone(), &parents);
            let Ok(table) = open(&lying) else { continue };
            let _ = table.verify();
            for number in [0, 1, 7, 22, 40] {
                let _ = table.get(&key("a", number));
            }
            assert!(table.range(&key("a", 5)[..]..).count() <= ENTRIES as usize + 1);
        }
    }
}

/// A faulty writer's description names another extractor than the one whose parts the filter holds.
// promise: limited-memory
#[test]
fn a_table_whose_filter_lacks_a_part_that_its_description_names_loses_no_prefix() {
    let parts = |length| KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(length)));
    let whole = TableOptions::default().with_key_parts(parts(4));
    let cuts = [PartitionCut::KeyRange, PartitionCut::HashRange];
    let partitioned = cuts.map(|cut| whole.clone().with_partitioned_filter(PartitionOptions::new(cut, 1_024).unwrap()));
    for options in [whole].into_iter().chain(partitioned) {
        let mut lying = build_with(options, "a", 1);
        let (properties, metaindex) = (region(&lying, "properties"), region(&lying, "metaindex"));
        let at = lying.windows(14).position(|window| window == b"fixed-prefix:4").unwrap();
        lying[at + 13] = b'5';
        reseal(&mut lying, properties, &[metaindex]);
        for options in [TableOptions::default(), TableOptions::default().with_filter_budget(FilterBudget::unlimited())]
        {
            let options = options.with_key_parts(parts(5));
            let table = Table::open_source(Bytes::copy_from_slice(&lying), &options).unwrap();
            assert!(
                (0..ENTRIES).all(|number| table.filters().may_contain_prefix(&key("a", number * 2)[..5])),
                "{table:?}"
            );
            assert!(matches!(table.filter_problem(), Some(TableError::Filter { .. })), "{:?}", table.filter_problem());
            assert!(reads_are_right_or_errors(&table, "a", "other parts"));
        }
    }
}

/// Encodes a block with a restart point at every entry.
fn entry_block(entries: &[(&[u8], Vec<u8>)]) -> Vec<u8> {
    let (mut block, mut restarts) = (Vec::new(), Vec::new());
    for (key, value) in entries {
        restarts.extend((block.len() as u32).to_le_bytes());
        block.push(0);
        block.extend(varint(key.len() as u64));
        block.extend(varint(value.len() as u64 * 2));
        block.extend_from_slice(key);
        block.extend_from_slice(value);
    }
    block.extend(&restarts);
    block.extend((entries.len() as u32).to_le_bytes());
    block
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut out = vec![];
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
    out
}

fn handle(offset: u64, contents_bytes: u64, sum: u32) -> Vec<u8> {
    [varint(offset), varint(contents_bytes), sum.to_le_bytes().to_vec()].concat()
}

fn handle_of(bytes: &[u8], name: &str) -> Vec<u8> {
    handle_at(bytes, &region(bytes, name))
}

/// Returns the table with another metaindex, valid checksums, and nothing else changed.
fn with_metaindex(bytes: &[u8], entries: &[(&[u8], Vec<u8>)]) -> Vec<u8> {
    let mut out = bytes[..region(bytes, "metaindex").start].to_vec();
    let start = out.len();
    let contents = entry_block(entries);
    out.extend(&contents);
    let sum = bound_checksum(&contents, start);
    out.extend(sum.to_le_bytes());
    let file_bytes = out.len() as u64 + 64;
    out.extend(footer(start as u64, contents.len() as u64, file_bytes, sum));
    out
}

fn footer(metaindex_offset: u64, metaindex_bytes: u64, file_bytes: u64, metaindex_sum: u32) -> Vec<u8> {
    let mut footer = vec![];
    footer.extend([metaindex_offset, metaindex_bytes, file_bytes].map(u64::to_le_bytes).concat());
    footer.extend([1; 16]);
    footer.extend(1_u32.to_le_bytes());
    footer.extend(metaindex_sum.to_le_bytes());
    footer.extend([0; 4]);
    footer.extend(crc32c::crc32c(&footer).to_le_bytes());
    footer.extend(b"SSTFLTR\x1a");
    footer
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

#[test]
fn the_metaindex_of_this_test_is_the_writers_own() {
    let bytes = build("a", 1);
    let names = ["index", "properties"].map(|name| (name.as_bytes(), handle_of(&bytes, name)));
    assert_eq!(with_metaindex(&bytes, &names), bytes);
}

// promise: safe-to-open
#[test]
fn a_handle_that_claims_more_than_the_file_is_refused_without_making_room_for_it() {
    let bytes = build("a", 1);
    let good = |name: &'static str| (name.as_bytes(), handle_of(&bytes, name));
    for huge in [bytes.len() as u64, 1 << 32, 1 << 62, u64::MAX - 4, u64::MAX] {
        for offset in [0, 64, 1 << 40, u64::MAX] {
            let lie = handle(offset, huge, 0);
            match open_modest(with_section(&bytes, offset, huge, 0)) {
                Err(_) => assert!(offset.checked_add(huge).is_none(), "{offset}, {huge}"),
                Ok(table) => {
                    assert!(reads_are_right_or_errors(&table, "a", "huge filter"));
                    assert!(table.stats().filters.filter.unusable > 0 && table.verify().is_err());
                }
            }
            let index = with_metaindex(&bytes, &[(b"index", lie.clone()), good("properties")]);
            assert!(open_modest(index).is_err());
            let properties = with_metaindex(&bytes, &[good("index"), (b"properties", lie)]);
            assert!(open_modest(properties).is_err());
            let mut metaindex = bytes[..bytes.len() - 64].to_vec();
            metaindex.extend(footer(offset, huge, bytes.len() as u64, 0));
            assert!(open_modest(metaindex).is_err());
        }
    }
}

#[test]
fn a_description_that_leads_elsewhere_than_to_the_filter_is_damage_though_that_blocks_checksum_holds() {
    let bytes = build("a", 1);
    let start = region(&bytes, "filter").start;
    for misled in ["properties", "index", "metaindex", "footer"].map(|name| region(&bytes, name)) {
        let sum = crc32c::crc32c(&bytes[misled.start..misled.end - 4]);
        let lying = with_section(&bytes, (misled.start - start) as u64, misled.len() as u64, sum);
        let table = open(&lying).unwrap();
        let problem = table.filter_problem().unwrap();
        assert!(matches!(problem, TableError::Filter { .. }), "{problem}");
        assert!(reads_are_right_or_errors(&table, "a", "misled filter"));
        assert!(table.stats().filters.filter.unusable > 0 && table.verify().is_err());
    }
}

#[test]
fn a_metaindex_has_an_index_and_properties_and_nothing_else() {
    let bytes = build("a", 1);
    let good = |name: &'static str| (name.as_bytes(), handle_of(&bytes, name));
    let unknown = [good("index"), good("properties"), (&b"surprise"[..], handle(0, 1, 0))];
    assert!(open(&with_metaindex(&bytes, &unknown)).is_err());
    assert!(open(&with_metaindex(&bytes, &[good("index")])).is_err());
    assert!(open(&with_metaindex(&bytes, &[good("properties")])).is_err());
}

#[test]
fn a_description_of_a_shorter_filter_or_of_none_does_not_let_the_filters_bytes_go_unread() {
    let bytes = build("a", 1);
    let length = region(&bytes, "filter").len() as u64;
    assert_caught(&with_section(&bytes, 0, length - 64, 0), "a", "a shorter filter");
    assert_caught(&with_section(&bytes, 64, length - 64, 0), "a", "a later filter");
    // A section of an unknown kind.
    let (at, mut lying) = (description(&bytes), bytes.clone());
    lying[at.start + SECTION] = 99;
    reseal(&mut lying, region(&bytes, "properties"), &[region(&bytes, "metaindex")]);
    assert_caught(&lying, "a", "no filter");
}

#[test]
fn a_damaged_newer_table_of_a_set_is_an_error_and_not_an_older_value() {
    let (new, old) = (build("a", 1), build("a", 2));
    let mut damaged = new.clone();
    damaged[region(&new, "data")].fill(0xaa);
    let set = crate::set_of(vec![open(&damaged).unwrap(), open(&old).unwrap()]);
    let present = key("a", 4);
    assert!(set.get(&present).is_err());
    assert!(matches!(set.multi_get(&[&present])[..], [Err(TableError::Checksum { .. })]));
    let stats = set.stats().filters;
    let counts = (set.snapshot().view().lookups(), stats.searched, stats.skipped_by_bounds + stats.filter.negatives);
    assert_eq!(counts, (2, 2, 0), "the older one is not counted");
}

#[test]
fn errors_say_which_block_of_which_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("000042.sst");
    let mut bytes = build("a", 1);
    let data = region(&bytes, "data");
    bytes[data.start + 3] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let table = Table::open(&path, &TableOptions::default()).unwrap();
    let message = table.get(&key("a", 0)).unwrap_err().to_string();
    for part in ["data at offset 0", "000042.sst", "checksum of the", "expected 0x", "got 0x"] {
        assert!(message.contains(part), "{message}");
    }
    bytes.truncate(10);
    let Err(TableError::FileLength { expected: 64, got: 10, .. }) = open(&bytes) else { panic!("not refused as cut") };
    let Err(TableError::NotATable { .. }) = open(&[7; 100]) else { panic!("not refused as foreign") };
}

/// Builds Bloom filters without one of the keys.
#[derive(Debug)]
struct Forgetful(KeyHash);

impl FilterPolicy for Forgetful {
    fn name(&self) -> &'static str {
        "forgetful"
    }

    fn builder(&self, context: &BuildContext) -> Option<Box<dyn BlockBuilder>> {
        let inner = FixedPolicy::default().builder(context);
        Some(Box::new(ForgetfulBuilder { forgotten: self.0, inner }))
    }
}

#[derive(Debug)]
struct ForgetfulBuilder {
    forgotten: KeyHash,
    inner: Box<dyn BlockBuilder>,
}

impl BlockBuilder for ForgetfulBuilder {
    fn add_key(&mut self, key: &[u8]) {
        self.add_hash(KeyHasher::default().hash(key));
    }

    fn add_hash(&mut self, hash: KeyHash) {
        if hash != self.forgotten {
            self.inner.add_hash(hash);
        }
    }

    fn estimated_bytes(&self) -> u64 {
        self.inner.estimated_bytes()
    }

    fn finish(self: Box<Self>) -> BuiltFilter {
        self.inner.finish()
    }
}

#[test]
fn verify_finds_the_key_that_a_faulty_filter_denies() {
    let forgotten = key("a", 5);
    let policy = Forgetful(KeyHasher::default().hash(&forgotten));
    let options = TableOptions::default().with_policy(Arc::new(policy));
    let mut builder = TableBuilder::new(Vec::new(), &options).unwrap();
    for number in 0..50 {
        builder.add(&key("a", number), b"").unwrap();
    }
    let table = open(&builder.finish().unwrap().0).unwrap();
    match table.verify() {
        Err(TableError::FalseNegative { key, .. }) => assert_eq!(key, forgotten),
        other => panic!("{other:?}"),
    }
}

/// The description shows that the hash is the writer's: the filter is at fault, not the reader.
#[test]
fn a_filter_that_denies_the_first_key_of_its_table_is_not_used_and_is_no_mistake_of_the_readers() {
    let first = key("a", 0);
    let options = TableOptions::default().with_policy(Arc::new(Forgetful(KeyHasher::default().hash(&first))));
    let mut builder = TableBuilder::new(Vec::new(), &options).unwrap();
    (0..50).for_each(|number| builder.add(&key("a", number), b"").unwrap());
    let bytes = Bytes::from(builder.finish().unwrap().0);
    let table = Table::open_source(bytes, &TableOptions::default().reject_foreign_filters()).unwrap();
    let problem = table.filter_problem().unwrap();
    assert!(!problem.is_foreign_filter() && problem.to_string().contains("built wrong"), "{problem}");
    assert!(matches!(table.get(&first).unwrap(), Lookup::Found(_)));
    assert!(matches!(table.verify(), Err(TableError::Filter { .. })));
}
