//! The test vectors of descriptions, sidecars and partitioned filters, which `fixtures/check_format.py` recomputes
//! without this library.

use std::sync::Arc;

use bytes::Bytes;
use sstfilter::{
    BuildContext, DelimitedPrefix, FalsePositiveRate, FileId, FilterBlock, Filters, FixedPolicy, FixedPrefix,
    KeyHasher, KeyParts, LoadContext,
};
use sstfilter_range::{RangePolicy, RangeUnits};
use sstfilter_store::{
    FilterMetadata, FilterStore, PartitionCut, PartitionIndex, PartitionOptions, PartitionedBuilder,
};

use crate::cases::identity_of;
use crate::common::documented::{FORMAT, bytes_of_dump, dump_below, hex};
use crate::container::Container;

const FRUIT: [&[u8]; 3] = [b"apple", b"banana", b"cherry"];

#[test]
fn three_keys_make_the_documented_sidecar_of_the_documented_table() {
    let table = identity_of(&dump_below("### A whole mini SST file"));
    let store = FilterStore::default();
    let mut builder = store.builder((*b"store 7, file 42").into());
    FRUIT.iter().for_each(|key| builder.add_key(key));
    let documented = dump_below("### A whole sidecar file");
    assert_eq!(hex(&builder.finish().seal_as_sidecar(&table).unwrap()), hex(&documented));

    let metadata = FilterMetadata::of_sidecar(&documented, documented.len() as u64, &table).unwrap();
    let file = store.open(metadata, Arc::new(Bytes::from(documented)));
    assert!(FRUIT.iter().all(|key| !file.probe(key).is_absent()) && file.probe(b"bread").is_absent());
}

// promise: limited-memory
#[test]
fn a_description_of_all_that_there_can_be_has_the_documented_bytes() {
    let parts = KeyParts::whole_keys().with_extractor(Arc::new(DelimitedPrefix::new(b'n')));
    let units = RangeUnits::integer(1).unwrap().with_prefix(Arc::new(FixedPrefix::new(4)));
    let ranges = RangePolicy::hashed(units, 4, FalsePositiveRate::ONE_PERCENT).unwrap();
    let store = FilterStore::new(Filters::default().with_key_parts(parts)).with_range_filters(ranges);
    let mut builder = store.builder((*b"store 7, file 42").into());
    FRUIT.iter().for_each(|key| builder.add_key(key));
    let documented = dump_below("### A whole description of filters");
    assert_eq!(hex(&builder.finish().metadata().encode()), hex(&documented));
    let metadata = FilterMetadata::decode(&documented).unwrap();
    assert_eq!(metadata.encode(), documented);
    assert_eq!(metadata.sections().len(), 2);
}

fn container_of(cut: PartitionCut, target_bytes: u32, context: &BuildContext, keys: &[&[u8]], aux: &[u8]) -> Bytes {
    let options = PartitionOptions::new(cut, target_bytes).unwrap();
    let mut builder = PartitionedBuilder::new(Arc::new(FixedPolicy::default()), context, options);
    keys.iter().for_each(|key| builder.add_key(key));
    builder.finish_with_user_data(|_, _, _| aux.to_vec()).block.unwrap()
}

/// The top index of a container that is not bound to a file.
fn top_index(container: &[u8]) -> &[u8] {
    let tail_bytes = usize::try_from(PartitionIndex::tail_bytes(container).unwrap()).unwrap();
    &container[container.len() - tail_bytes..container.len() - 32]
}

#[test]
fn a_container_of_three_keys_has_the_documented_bytes() {
    let file = FileId::new(&7_u64.to_le_bytes()).unwrap();
    let context = BuildContext::new(&KeyHasher::default()).with_file_id(file);
    let container = container_of(PartitionCut::KeyRange, 16 << 10, &context, &FRUIT, b"note");
    assert_eq!(hex(&container), hex(&dump_below("A whole container:")));
}

#[test]
fn a_block_and_a_container_of_parts_have_the_documented_bytes() {
    let parts = KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(4)));
    let file = FileId::new(&7_u64.to_le_bytes()).unwrap();
    let context = BuildContext::new(&KeyHasher::default()).with_file_id(file).with_key_parts(parts.clone());
    let container = container_of(PartitionCut::KeyRange, 16 << 10, &context, &FRUIT, b"note");
    assert_eq!(hex(&container), hex(&dump_below("The same container of whole keys and their parts")));

    let parts = parts.with_extractor(Arc::new(DelimitedPrefix::new(b'n')));
    let mut builder =
        FixedPolicy::default().builder(&BuildContext::new(&KeyHasher::default()).with_key_parts(parts.clone()));
    FRUIT.iter().for_each(|key| builder.add_key(key));
    let block = builder.finish().block.unwrap();
    let documented = FORMAT.split_once("### A whole block of parts").unwrap().1.split("```").nth(1).unwrap();
    assert_eq!(hex(&block), hex(&bytes_of_dump(documented)));
    let filter = FilterBlock::load(&block, LoadContext::new(&KeyHasher::default()).with_key_parts(&parts)).unwrap();
    let holds = |prefix| filter.may_contain_prefix(&parts.prefix(&KeyHasher::default(), prefix));
    assert_eq!([&b"banana"[..], b"ban", b"bandit", b"appl", b"ab"].map(holds), [true, true, false, true, true]);
}

#[test]
fn containers_have_the_documented_partitions_and_bytes() {
    let context = BuildContext::new(&KeyHasher::default());
    let rows = FORMAT.split_once("Larger ones, of keys `key-000000` and so on:").unwrap().1;
    let rows: Vec<Vec<&str>> = rows
        .lines()
        .skip(4)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    assert_eq!(rows.len(), 4);
    for row in rows {
        let number = |at: usize| row[at].replace(',', "").parse::<u32>().unwrap();
        let cut = if row[2] == "key range" { PartitionCut::KeyRange } else { PartitionCut::HashRange };
        let keys: Vec<String> = (0..number(0)).map(|key| format!("key-{key:06}")).collect();
        let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        let container = container_of(cut, number(3), &context, &keys, b"");
        let index = top_index(&container);
        let sums = [index, &container[..]].map(|bytes| format!("{:08x}", crc32c::crc32c(bytes)));
        let loaded = Container::load(&container, &KeyHasher::default()).unwrap();
        assert_eq!((loaded.index.partitions(), container.len()), (number(4), number(5) as usize), "{row:?}");
        assert_eq!((&sums[0][..], &sums[1][..]), (row[6], row[7]), "{row:?}");
        if number(0) == 2_000 {
            assert_eq!(hex(index), hex(&dump_below("The top index of the keys")), "{row:?}");
        }
    }
}
