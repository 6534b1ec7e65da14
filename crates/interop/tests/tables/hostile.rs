//! Forged bytes, and unknown options.

use bytes::Bytes;
use sstfilter::Probe;
use sstfilter_interop::{
    BlockHandle, BlockState, Error, ForeignTable, KeyBatch, KeyCoverage, LevelDbFilterBlockBuilder, Part,
};

use crate::fixtures;
use crate::forged::{Forged, append, empty_filter, encoded, footer, row_block, varint};
use crate::reads::Watched;

/// Checks that probes of a table with an unknown option return the reason, one key at a time and in batches.
fn assert_unusable(forged: &Forged, why: &str) {
    let table = forged.open();
    let Err(error) = table.try_probe(b"key") else { panic!("{why}: {:?}", table.probe(b"key")) };
    assert!(error.to_string().contains(why), "\"{error}\" without \"{why}\"");
    let answers = table.probe_batch(&KeyBatch::new([b"key".as_slice()]));
    assert_eq!(answers.reasons, [error]);
}

#[test]
fn the_forged_table_is_read_if_nothing_is_wrong_with_it() {
    let table = Forged::with_filter(empty_filter()).open();
    assert_eq!(table.probe(b"key"), Probe::Absent);
    assert_eq!(table.filter_info().expect("a filter").bits_per_key(), Some(69.0 * 8.0 / 7.0));
}

// promise: other-engines
#[test]
fn options_that_are_not_known_make_a_filter_unusable() {
    let sound = Forged::with_filter(empty_filter());
    let whole_key = "rocksdb.block.based.table.whole.key.filtering";
    let prefixes = sound.clone().property(whole_key, b"0");
    let extractor = "rocksdb.prefix.extractor.name";
    assert_unusable(&sound.clone().property("rocksdb.comparator", b"idb_cmp1"), "idb_cmp1");
    assert_unusable(&sound.clone().without_property("rocksdb.comparator"), "comparator");
    assert_unusable(&sound.clone().property("rocksdb.comparator", b"leveldb.BytewiseComparator.u32ts"), "u32ts");
    assert_unusable(&sound.clone().property(whole_key, b"2"), whole_key);
    assert_unusable(&prefixes.clone().property(extractor, b"mine.3"), "mine.3");
    assert_unusable(&prefixes.clone().property(extractor, b"rocksdb.FixedPrefix"), "rocksdb.FixedPrefix");
    assert_unusable(&prefixes.clone().property(extractor, b"nullptr"), "neither");
    assert_unusable(&prefixes, "neither");
    assert_eq!(prefixes.clone().property(extractor, b"rocksdb.FixedPrefix.3").open().probe(b"key"), Probe::Absent);
    assert_eq!(prefixes.property(extractor, b"rocksdb.FixedPrefix.4").open().probe(b"key"), Probe::MaybePresent);
}

#[test]
fn a_filter_says_what_of_the_keys_it_holds() {
    let whole_keys = Forged::with_filter(empty_filter());
    let nothing = whole_keys.clone().property("rocksdb.block.based.table.whole.key.filtering", b"0");
    let extractor =
        |forged: &Forged, name: &str| forged.clone().property("rocksdb.prefix.extractor.name", name.as_bytes());
    let coverage = |forged: &Forged| forged.open().filter_info().expect("a filter").coverage;
    let name = "rocksdb.FixedPrefix.3";
    assert_eq!(coverage(&whole_keys), KeyCoverage::WholeKeys);
    assert_eq!(coverage(&extractor(&whole_keys, name)), KeyCoverage::WholeKeysAndPrefixes(name.into()));
    assert_eq!(coverage(&extractor(&nothing, name)), KeyCoverage::Prefixes(name.into()));
    for none in [nothing.clone(), extractor(&nothing, "nullptr"), whole_keys.property("rocksdb.comparator", b"mine")] {
        assert_eq!(coverage(&none), KeyCoverage::Unknown);
    }
}

#[test]
fn a_key_without_prefix_may_be_present_whatever_is_wrong_with_the_filter() {
    let cut = Forged::with_filter(vec![0x80; 6]).property("rocksdb.block.based.table.whole.key.filtering", b"0");
    let table = cut.property("rocksdb.prefix.extractor.name", b"rocksdb.FixedPrefix.3").open();
    let keys: [&[u8]; 2] = [b"ab", b"abc"];
    assert_eq!(table.probe(keys[0]), Probe::MaybePresent);
    assert_eq!(table.probe(keys[1]), Probe::Unusable);
    let answers = table.probe_batch(&KeyBatch::new(keys)).answers;
    assert_eq!(answers, [Probe::MaybePresent, Probe::Unusable]);
}

#[test]
fn filters_of_other_policies_are_unusable() {
    assert_unusable(&Forged::with_block("fullfilter.mine", empty_filter()), "mine");
    assert_unusable(&Forged::with_block("filter.rocksdb.BuiltinBloomFilter", empty_filter()), "removed");
    let full = Forged::with_filter(empty_filter());
    assert_unusable(&full.block("partitionedfilter.rocksdb.BuiltinBloomFilter", row_block([])), "2 filters");
    assert_unusable(&Forged::with_block("unrelated", empty_filter()), "no filter");
    assert_unusable(&Forged { compression: 1, ..Forged::with_filter(empty_filter()) }, "compression type 1");
}

#[test]
fn a_filter_without_bits_is_that_of_no_keys_only_in_a_table_without_entries() {
    for length in 0..=5 {
        let cut = Forged::with_filter(vec![0xff; length]);
        assert_eq!(cut.open().probe(b"key"), Probe::MaybePresent, "{length}");
        assert_eq!(cut.property("rocksdb.num.entries", &[0]).open().probe(b"key"), Probe::Absent, "{length}");
    }
}

/// A partitioned filter whose index is made from the file so far.
fn partitioned(make_index: impl Fn(BlockHandle, BlockHandle) -> Vec<(&'static [u8], Vec<u8>)>) -> Forged {
    partitioned_behind(empty_filter(), make_index)
}

/// The same with this first partition.
fn partitioned_behind(
    partition: Vec<u8>,
    make_index: impl Fn(BlockHandle, BlockHandle) -> Vec<(&'static [u8], Vec<u8>)>,
) -> Forged {
    let mut file = Vec::new();
    let [first, second] = [&partition, &empty_filter()].map(|filter| append(&mut file, filter, 0));
    let forged = Forged::with_block("first", partition).block("second", empty_filter());
    let forged = forged.property("rocksdb.index.key.is.user.key", &[1]);
    forged.block("partitionedfilter.rocksdb.BuiltinBloomFilter", row_block(make_index(first, second)))
}

/// The keys up to `m` are in a partition without bytes, the others in one of no keys.
fn with_partition_without_bytes() -> Forged {
    partitioned_behind(Vec::new(), |first, second| vec![(b"m", encoded(first)), (b"z", encoded(second))])
}

#[test]
fn a_partition_without_bytes_is_sound_and_its_keys_may_be_present() {
    let table = with_partition_without_bytes().open();
    let keys: [&[u8]; 2] = [b"a", b"n"];
    assert_eq!(keys.map(|key| table.probe(key)), [Probe::MaybePresent, Probe::Absent]);
    let answers = table.probe_batch(&KeyBatch::new(keys)).answers;
    assert_eq!(answers, [Probe::MaybePresent, Probe::Absent]);
    assert_eq!(table.filter_info().expect("a filter").blocks, 2);
    let report = table.verify();
    let partitions = report.blocks.iter().filter(|block| block.part == Part::Partition);
    assert!(partitions.map(|block| &block.state).eq([&BlockState::Sound, &BlockState::Sound]), "{report:?}");
}

/// A key without a prefix is in no filter, not even in a table without entries.
#[test]
fn a_batch_answers_as_single_probes_do_where_a_partition_has_no_bytes() {
    let forged = with_partition_without_bytes().property("rocksdb.block.based.table.whole.key.filtering", b"0");
    let forged = forged.property("rocksdb.num.entries", &[0]);
    let prefixes = forged.clone().property("rocksdb.prefix.extractor.name", b"rocksdb.FixedPrefix.3").open();
    let keys: [&[u8]; 4] = [b"ab", b"abc", b"no", b"nop"];
    let [maybe, absent] = [Probe::MaybePresent, Probe::Absent];
    assert_batch_equals_single(&prefixes, keys, [maybe, absent, maybe, absent]);
    let unknown = forged.property("rocksdb.prefix.extractor.name", b"mine.3").open();
    assert_batch_equals_single(&unknown, keys, [Probe::Unusable; 4]);
}

fn assert_batch_equals_single<const N: usize>(table: &ForeignTable<Bytes>, keys: [&[u8]; N], expected: [Probe; N]) {
    assert_eq!(keys.map(|key| table.probe(key)), expected);
    assert_eq!(table.probe_batch(&KeyBatch::new(keys)).answers, expected);
}

#[test]
fn a_partition_index_that_lies_is_unusable() {
    let sound = partitioned(|first, second| vec![(b"m", encoded(first)), (b"z", encoded(second))]);
    assert_eq!(sound.open().probe(b"key"), Probe::Absent);
    let index_type = "rocksdb.block.based.table.index.type";
    assert_unusable(&sound.clone().property(index_type, &[9, 0, 0, 0]), "index type 9");
    assert_unusable(&sound.clone().property("rocksdb.index.value.is.delta.encoded", &[2]), "delta");
    assert_unusable(&sound.clone().property("rocksdb.index.key.is.user.key", &[2]), "user.key");
    assert_unusable(&sound.property("rocksdb.index.key.is.user.key", &[0]), "8 bytes or more");
    assert_unusable(&partitioned(|_, _| Vec::new()), "none");
    assert_unusable(&partitioned(|first, second| vec![(b"z", encoded(first)), (b"m", encoded(second))]), "in order");
    let twice = partitioned(|first, _| vec![(b"m", encoded(first)), (b"z", encoded(first))]);
    let swapped = partitioned(|first, second| vec![(b"m", encoded(second)), (b"z", encoded(first))]);
    [twice, swapped].iter().for_each(|forged| assert_unusable(forged, "one behind the other"));
    let behind_the_file = |offset, size| partitioned(move |_, _| vec![(b"z", encoded(BlockHandle { offset, size }))]);
    assert_unusable(&behind_the_file(0, 1 << 40), "to end before");
    assert_unusable(&behind_the_file(u64::MAX, 1), "to end before");
    assert_unusable(&behind_the_file(1, u64::MAX), "to end before");
    // The index itself, and bytes that are no block.
    assert_unusable(&behind_the_file(148, 20), "partition");
    assert_unusable(&behind_the_file(3, 10), "checksum");
    // A block always has bytes. RocksDB answers "absent" for such a partition.
    assert_unusable(&behind_the_file(0, 0), "checksum");
}

#[test]
fn a_filter_that_cannot_be_opened_and_a_version_that_is_too_old_show_when_a_table_is_verified() {
    let state = |forged: Forged| {
        let blocks = forged.open().verify().blocks;
        let of_filter = |part| matches!(part, Part::Filter | Part::PartitionIndex);
        blocks.into_iter().find(|block| of_filter(block.part)).expect("a filter").state
    };
    let cut = Forged::with_filter([&[0xff; 63][..], &[0xff, 0, 6, 0, 0]].concat());
    for damaged in [cut, partitioned(|_, _| Vec::new())] {
        assert!(matches!(state(damaged), BlockState::Damaged(Error::Malformed { .. })));
    }
    for unknown in [Forged::with_filter(vec![0xfd; 69]), Forged::with_block("fullfilter.mine", empty_filter())] {
        assert!(matches!(state(unknown), BlockState::Unsupported(_)));
    }
    for (version, is_sound) in [(4, true), (3, false)] {
        let forged = Forged { version, ..Forged::with_filter(empty_filter()) }.property("rocksdb.num.entries", &[0]);
        let forged = forged.property("rocksdb.index.value.is.delta.encoded", &[1]);
        assert_eq!(forged.open_with_empty_index().verify().is_sound(), is_sound, "version {version}");
    }
}

#[test]
fn an_index_of_two_levels_is_followed_behind_a_lower_block_that_lies() {
    let (mut file, first, second) = (Vec::new(), b"a\x01\0\0\0\0\0\0\0", b"b\x01\0\0\0\0\0\0\0");
    let data = append(&mut file, &row_block([(&second[..], Vec::new())]), 0);
    let lying = append(&mut file, &row_block([(&first[..], b"no handle".map(|_| 0xff).to_vec())]), 0);
    let sound = append(&mut file, &row_block([(&second[..], encoded(data))]), 0);
    let top = row_block([(&first[..], encoded(lying)), (&second[..], encoded(sound))]);
    let top = append(&mut file, &top, 0);
    let forged = Forged::with_filter(full_filter()).property("rocksdb.block.based.table.index.type", &[2, 0, 0, 0]);
    let table = ForeignTable::open(forged.written(file, top)).expect("a table");
    let report = table.verify();
    assert_eq!((report.keys_checked, report.damaged().count()), (1, 1), "{report:?}");
    assert_eq!(table.user_keys().flatten().count(), 0, "a list with a gap would look complete");
}

#[test]
fn an_index_that_names_a_block_twice_is_followed_up_to_there() {
    let (mut file, keys) = (Vec::new(), [b'a', b'b', b'c'].map(|key| [key, 1, 0, 0, 0, 0, 0, 0, 0]));
    let [one, other] = [0, 2].map(|number| append(&mut file, &row_block([(&keys[number][..], Vec::new())]), 0));
    let index = row_block(keys.iter().map(|key| &key[..]).zip([one, one, other].map(encoded)));
    let index = append(&mut file, &index, 0);
    let report = ForeignTable::open(Forged::with_filter(full_filter()).written(file, index)).expect("a table").verify();
    assert_eq!((report.keys_checked, report.damaged().count()), (1, 1), "{report:?}");
}

#[test]
fn an_ingested_table_has_the_checksum_of_before() {
    let name = "rocksdb.external_sst_file.global_seqno";
    let of_session = |session: &[u8]| {
        let forged = Forged::with_filter(empty_filter()).property(name, &[0; 8]);
        let forged = forged.property("rocksdb.creating.db.identity", b"database");
        let forged = forged.property("rocksdb.creating.session.identity", session);
        forged.property("rocksdb.original.file.number", &[7]).bytes()
    };
    let bytes = of_session(b"session");
    let start =
        bytes.windows(name.len()).position(|window| window == name.as_bytes()).expect("a property") + name.len();
    let with = |number: u64| {
        let mut bytes = bytes.to_vec();
        bytes[start..start + 8].copy_from_slice(&number.to_le_bytes());
        ForeignTable::open(Bytes::from(bytes)).expect("a table")
    };
    let ingested = with(1_234_567);
    assert_eq!(ingested.properties().global_sequence_number(), Some(1_234_567));
    assert_eq!(ingested.probe(b"key"), Probe::Absent);
    assert_eq!(ingested.fingerprint(), with(0).fingerprint(), "the same table");
    let other = ForeignTable::open(of_session(b"another")).expect("a table");
    assert!(other.fingerprint().is_ok_and(|other| Ok(other) != ingested.fingerprint()));
    // No sequence number has 64 bits.
    let damaged = with(u64::MAX);
    assert!(matches!(damaged.try_probe(b"key"), Err(Error::Checksum { part: Part::Properties, .. })));
}

#[test]
fn a_metaindex_whose_keys_share_too_much_is_malformed() {
    // A key of 60,000 bytes, and then entries of four bytes that share all of it.
    let long = vec![b'x'; 60_000];
    let mut entries = [varint(0), varint(60_000), varint(2), long, vec![0, 0]].concat();
    for _ in 0..60_000 {
        entries.extend([varint(60_000), varint(1), varint(2), vec![b'y', 0, 0]].concat());
    }
    entries.extend([0, 0, 0, 0, 1, 0, 0, 0]);
    let mut file = Vec::new();
    let metaindex = append(&mut file, &entries, 0);
    footer(&mut file, metaindex);
    assert!(matches!(ForeignTable::open(Bytes::from(file)), Err(Error::Malformed { part: Part::Metaindex, .. })));
}

/// A block whose entries all have the one long value behind the keys.
fn block_of_one_separate_value(entries: u32) -> Vec<u8> {
    let value_bytes = 10_000;
    let (mut keys, mut restarts) = (Vec::new(), Vec::new());
    for entry in 0..entries {
        restarts.extend(u32::try_from(keys.len()).expect("small").to_le_bytes());
        let name = format!("{entry:06}").into_bytes();
        keys.extend([varint(0), varint(6), varint(value_bytes), varint(0), name].concat());
    }
    let values_offset = u32::try_from(keys.len()).expect("small").to_le_bytes();
    let count = (entries | 1 << 28).to_le_bytes();
    [keys, vec![b'v'; 10_000], restarts, values_offset.into(), count.into()].concat()
}

#[test]
fn only_data_blocks_may_have_separate_values() {
    let mut file = Vec::new();
    let properties = append(&mut file, &block_of_one_separate_value(3), 0);
    let metaindex = row_block([(b"rocksdb.properties".as_slice(), encoded(properties))]);
    let metaindex = append(&mut file, &metaindex, 0);
    footer(&mut file, metaindex);
    let table = ForeignTable::open(Bytes::from(file)).expect("a table");
    let error = table.checked_properties().expect_err("one value of many entries");
    assert!(error.to_string().contains("separate"), "{error}");

    let mut file = Vec::new();
    let metaindex = append(&mut file, &block_of_one_separate_value(3), 0);
    footer(&mut file, metaindex);
    let error = ForeignTable::open(Bytes::from(file)).expect_err("a metaindex of separate values");
    assert!(error.to_string().contains("separate"), "{error}");
}

/// Returns the text that a table displays.
fn shown(table: &ForeignTable<Bytes>) -> Vec<String> {
    let mut shown: Vec<_> = table.properties().readable().map(|(name, value)| format!("{name} = {value}")).collect();
    if let Err(error) = table.try_probe(b"key") {
        shown.push(error.to_string());
    }
    shown.extend(table.verify().blocks.iter().map(|block| format!("{:?}", block.state)));
    shown.extend(table.filter_info().err().map(|error| error.to_string()));
    shown
}

#[test]
fn control_characters_of_a_file_are_shown_escaped() {
    let evil = "\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31m";
    let full = Forged::with_filter(empty_filter());
    let partitioned = Forged::with_block("partitionedfilter.rocksdb.BuiltinBloomFilter", row_block([]));
    for forged in [
        full.clone().property("rocksdb.comparator", evil.as_bytes()),
        partitioned.property("rocksdb.comparator", evil.as_bytes()),
        full.clone().property("rocksdb.prefix.extractor.name", evil.as_bytes()),
        full.property(evil, evil.as_bytes()),
    ] {
        for line in shown(&forged.open()) {
            assert!(!line.contains(char::is_control), "{line:?}");
        }
    }
}

/// An entry whose key shares `shared` bytes with the one before, and has no value.
fn entry(shared: u64, rest: &[u8]) -> Vec<u8> {
    [varint(shared), varint(rest.len() as u64), varint(0), rest.to_vec()].concat()
}

fn one_restart(mut entries: Vec<u8>) -> Vec<u8> {
    entries.extend([0, 0, 0, 0, 1, 0, 0, 0]);
    entries
}

/// A filter of RocksDB that is positive for every key.
fn full_filter() -> Vec<u8> {
    [&[0xff; 64][..], &[0xff, 0, 6, 0, 0]].concat()
}

#[test]
fn keys_of_a_block_that_share_too_much_are_not_walked_through() {
    // A key of 60,000 bytes, and then entries of 16 bytes that share all of it.
    let mut entries = entry(0, &[vec![b'x'; 60_000], vec![0; 8]].concat());
    for i in 0..4_000 {
        entries.extend(entry(60_000, &[format!("{i:04}").as_bytes(), &[0; 8]].concat()));
    }
    let table = Forged::with_filter(full_filter()).open_with_data(&one_restart(entries));
    let walked = table.user_keys().count();
    assert!((2..1_000).contains(&walked), "{walked}");
    assert!(matches!(table.user_keys().last(), Some(Err(Error::Unsupported { part: Part::Data, .. }))));
    let report = table.verify();
    assert!(report.keys_checked < 1_000 && report.keys_lost == 0, "{report:?}");
    assert!(matches!(report.keys_unchecked, Some(Error::Unsupported { part: Part::Data, .. })), "{report:?}");
    assert_eq!(report.damaged().count(), 0, "{report:?}");
}

#[test]
fn a_number_of_entries_that_the_data_blocks_do_not_have_is_found() {
    let entries = |count: u8| (0..count).flat_map(|key| entry(0, &[key, 0, 0, 0, 0, 0, 0, 0, 0])).collect();
    let seven = Forged::with_filter(full_filter());
    let problem_of = |forged: &Forged, count| {
        let report = forged.open_with_data(&one_restart(entries(count))).verify();
        assert_eq!(report.keys_checked, u64::from(count));
        let properties = report.blocks.iter().find(|block| block.part == Part::Properties).cloned();
        assert_eq!(report.is_sound(), report.damaged().next().is_none());
        properties.is_some_and(|block| matches!(block.state, BlockState::Damaged(Error::Malformed { .. })))
    };
    assert!(!problem_of(&seven, 7));
    assert!(problem_of(&seven, 6));
    assert!(problem_of(&seven, 8));
    assert!(!problem_of(&seven.clone().property("rocksdb.num.range-deletions", &[2]), 5));
    assert!(!problem_of(&seven.clone().without_property("rocksdb.num.entries"), 5));
    // It is unknown which of the entries are range tombstones.
    assert!(!problem_of(&seven.block("rocksdb.range_del", row_block([])), 5));
}

/// A LevelDB table whose keys, with what follows the user key, come in the order of `keys`.
pub(crate) fn leveldb_table(keys: &[Vec<u8>]) -> Bytes {
    leveldb_table_by("leveldb.BuiltinBloomFilter2", keys, <[u8]>::to_vec)
}

/// Writes a table whose policy has this name, and adds the part `added` of each key.
fn leveldb_table_by(policy: &str, keys: &[Vec<u8>], added: fn(&[u8]) -> Vec<u8>) -> Bytes {
    let (mut file, mut separators, mut filters) = (Vec::new(), Vec::new(), LevelDbFilterBlockBuilder::new(10));
    for block in keys.chunks(10) {
        filters.start_block(file.len() as u64);
        block.iter().for_each(|key| filters.add_key(&added(key)));
        let data = append(&mut file, &row_block(block.iter().map(|key| (key.as_slice(), Vec::new()))), 0);
        separators.extend(block.last().map(|key| (key.as_slice(), encoded(data))));
    }
    let filter = append(&mut file, &filters.finish(), 0);
    let name = format!("filter.{policy}");
    let metaindex = row_block([(name.as_bytes(), encoded(filter))]);
    let metaindex = append(&mut file, &metaindex, 0);
    let index = append(&mut file, &row_block(separators), 0);
    let mut handles = [encoded(metaindex), encoded(index)].concat();
    handles.resize(40, 0);
    file.extend(handles);
    file.extend(0xdb47_7524_8b80_fb57_u64.to_le_bytes());
    Bytes::from(file)
}

/// A policy of the user's own may add anything, and write it like the engine's.
// promise: other-engines
#[test]
fn a_filter_of_an_unknown_policy_is_used_only_if_it_has_all_stored_keys() {
    let suffix = [1, 0, 0, 0, 0, 0, 0, 0];
    let keys: Vec<Vec<u8>> = (0..100).map(|i| [format!("{i:04}").as_bytes(), &suffix].concat()).collect();
    let user_key = |key: &[u8]| key[..4].to_vec();
    let cut_in_one = |key: &[u8]| if key.starts_with(b"0077") { b"007".to_vec() } else { key[..4].to_vec() };
    let confirmed = |added| {
        let mut table = ForeignTable::open(leveldb_table_by("mine", &keys, added)).expect("a table");
        table = table.with_comparator("leveldb.BytewiseComparator");
        assert!(table.try_probe(b"0005").expect_err("unknown").to_string().contains("the policy \"mine\""));
        let agreed = table.confirm_by_keys();
        assert_eq!(table.confirm_by_keys(), agreed, "asked again");
        let report = table.verify();
        assert!(report.is_sound() && (report.keys_checked == 100) == agreed.is_ok(), "{report:?}");
        assert_eq!(report.keys_unchecked.is_none(), agreed.is_ok(), "{report:?}");
        (agreed.is_ok(), table.probe(b"0005"), table.probe(b"0005x"))
    };
    assert_eq!(confirmed(user_key), (true, Probe::MaybePresent, Probe::Absent));
    assert_eq!(confirmed(cut_in_one), (false, Probe::Unusable, Probe::Unusable));
    assert_eq!(confirmed(<[u8]>::to_vec), (false, Probe::Unusable, Probe::Unusable));
}

#[test]
fn a_leveldb_table_in_another_order_is_not_damaged_but_unsupported() {
    let suffix = [1, 0, 0, 0, 0, 0, 0, 0];
    let keys: Vec<Vec<u8>> = (0..100).rev().map(|i| [format!("{i:04}").as_bytes(), &suffix].concat()).collect();
    let file = leveldb_table(&keys);
    let open = || ForeignTable::open(file.clone()).expect("a table");
    let of_properties = |table: ForeignTable<Bytes>, name: &str| {
        let Err(Error::Unsupported { part: Part::Properties, what }) = table.filter_info() else {
            panic!("{:?}", table.filter_info());
        };
        assert!(what.contains(name), "{what}");
        assert!(matches!(table.try_probe(b"0007"), Err(Error::Unsupported { part: Part::Properties, .. })));
        assert_eq!(table.verify().damaged().count(), 0);
    };
    of_properties(open().with_comparator("idb_cmp1"), "idb_cmp1");
    let mut stated = open().with_comparator("idb_cmp1");
    assert_eq!(stated.confirm_by_keys(), Ok(()), "what is stated is not overruled by keys");
    of_properties(stated, "idb_cmp1");
    for table in [open(), open().with_comparator("leveldb.BytewiseComparator")] {
        assert!(matches!(table.filter_info(), Err(Error::Unsupported { part: Part::Index, .. })));
        assert!(matches!(table.try_probe(b"0007"), Err(Error::Unsupported { .. })));
    }
}

#[test]
fn a_leveldb_table_of_keys_without_sequence_numbers_is_unusable() {
    let keys: Vec<Vec<u8>> = (0..100).map(|i| format!("{i:04}-user-key").into_bytes()).collect();
    let table =
        ForeignTable::open(leveldb_table(&keys)).expect("a table").with_comparator("leveldb.BytewiseComparator");
    for key in &keys {
        assert!(matches!(table.try_probe(key), Err(Error::Unsupported { part: Part::Index, .. })));
    }
    assert!(matches!(table.user_keys().next(), Some(Err(Error::Unsupported { part: Part::Data, .. }))));
    assert_eq!(table.verify().damaged().count(), 0);
}

/// A filter that could not be read during the comparison with the keys has not passed it.
#[test]
fn a_failed_read_does_not_pass_for_a_filter_that_agrees_with_its_keys() {
    // The filter contains the key with its sequence number: like a filter of another comparator, it is negative for the
    // user key.
    let file = leveldb_table(&[b"key\x01\0\0\0\0\0\0\0".to_vec()]);
    let agreed_with_failing = |failing_read| {
        let flaky = Watched::failing_once(file.clone(), failing_read);
        let mut table = ForeignTable::open(&flaky).ok()?;
        let agreed = table.confirm_by_keys();
        assert_eq!(table.probe(b"key"), Probe::Unusable, "read {failing_read}: {:?}", table.probe(b"key"));
        Some(agreed)
    };
    let is_unread = |agreed: &Result<(), Error>| matches!(agreed, Err(Error::Io { .. }));
    let mut agreed = (0..).filter_map(agreed_with_failing);
    // The index and the data block for the key, the index and the filter for its probe.
    assert_eq!(agreed.by_ref().take_while(is_unread).count(), 4);
    // No read was left to fail.
    let agreed = agreed.next();
    assert!(matches!(agreed, Some(Err(Error::Unsupported { part: Part::Properties, .. }))), "{agreed:?}");
}

#[test]
fn a_metaindex_of_more_than_64_mib_is_not_read() {
    let metaindex = BlockHandle { offset: 0, size: (64 << 20) + 1 };
    let mut file = vec![0; (64 << 20) + 100];
    footer(&mut file, metaindex);
    let refused = ForeignTable::open(Bytes::from(file));
    assert!(matches!(refused, Err(Error::Unsupported { part: Part::Metaindex, .. })), "{refused:?}");
}

#[test]
fn many_names_of_one_block_are_not_read_many_times() {
    let mut file = Vec::new();
    let block = append(&mut file, &vec![7; 1_000_000], 0);
    let names: Vec<String> = (0..2_000).map(|i| format!("name{i:04}")).collect();
    let metaindex = row_block(names.iter().map(|name| (name.as_bytes(), encoded(block))));
    let metaindex = append(&mut file, &metaindex, 0);
    footer(&mut file, metaindex);
    let report = ForeignTable::open(Bytes::from(file)).expect("a table").verify();
    let sound =
        report.blocks.iter().filter(|block| block.part == Part::Other && block.state == BlockState::Sound).count();
    assert_eq!((sound, report.damaged().count() >= 1_999), (1, true));
}

#[test]
fn a_table_that_is_cut_anywhere_is_no_table_or_loses_no_key() {
    for fixture in fixtures::all().into_iter().step_by(7) {
        let bytes = fixture.bytes();
        let keys: Vec<_> = fixture.open().user_keys().flatten().step_by(50).collect();
        let step = (bytes.len() / 100).max(1);
        for cut in (1..bytes.len()).step_by(step) {
            for half in [bytes.slice(..cut), bytes.slice(cut..)] {
                let Ok(table) = ForeignTable::open(half) else { continue };
                let lost = keys.iter().filter(|key| table.probe(key).is_absent()).count();
                assert_eq!(lost, 0, "{} cut at {cut}", fixture.file);
                assert!(!table.verify().is_sound(), "{} cut at {cut}", fixture.file);
            }
        }
    }
}

/// LevelDB's tables do not store their order. In another order, a key may be in another data block than a bytewise
/// search finds.
// promise: other-engines
// misuse: stated-comparator
#[test]
fn a_table_that_does_not_name_its_comparator_denies_nothing_until_it_is_stated() {
    let open = || fixtures::opened("leveldb/6000-keys.ldb");
    let absent = b"00000000!";
    assert!(matches!(open().try_probe(absent), Err(Error::Unsupported { part: Part::Properties, .. })));
    assert_eq!(open().with_comparator("idb_cmp1").probe(absent), Probe::Unusable);
    assert_eq!(open().with_comparator("leveldb.BytewiseComparator").probe(absent), Probe::Absent);
    let mut table = open();
    assert_eq!(table.confirm_by_keys(), Ok(()));
    assert_eq!(table.probe(absent), Probe::Absent);
}

/// Pebble stores the name of its comparer, but not how it splits keys: a comparer with the default one's name and
/// another `Split`, for filters of prefixes, makes tables that look identical.
#[test]
fn a_pebble_table_that_does_not_say_what_its_filter_holds_denies_nothing_until_it_is_stated() {
    for file in ["rocksdbv2-bloom.sst", "leveldb-bloom.sst", "v4-bloom.sst", "v8-bloom.sst"] {
        let open = || fixtures::opened(&format!("pebble/{file}"));
        let absent = b"00000000!";
        assert!(matches!(open().try_probe(absent), Err(Error::Unsupported { .. })), "{file}");
        assert_eq!(open().with_comparator("mine").probe(absent), Probe::Unusable, "{file}");
        assert_eq!(open().with_comparator("leveldb.BytewiseComparator").probe(absent), Probe::Absent, "{file}");
    }
}
