//! The test vectors of descriptions, sidecars and partitioned filters, which `fixtures/check_format.py` recomputes
//! without this library.

use std::sync::Arc;

use bytes::Bytes;
use sstfilter::{
    BuildContext, DelimitedPrefix, FalsePositiveRate, FileId, Filters, FixedPolicy, FixedPrefix, KeyHasher, KeyParts,
};
use sstfilter_range::{RangePolicy, RangeUnits};
use sstfilter_store::{
    FilterMetadata, FilterStore, PartitionCut, PartitionIndex, PartitionOptions, PartitionedBuilder,
};

use crate::cases::identity_of;
use crate::common::golden::hex;
use crate::common::vectors::vectors;
use crate::container::Container;

#[test]
fn three_keys_make_the_documented_sidecar_of_the_documented_table() {
    let files = vectors("files");
    let (own, table) = (&files["sidecar"], identity_of(&files["table"].whole()));
    assert_eq!((table.bytes, u64::from(table.checksum)), (own.number("table_bytes"), own.hex("table_checksum")));
    let (store, keys, documented) = (FilterStore::default(), own.keys("keys"), own.whole());
    let mut builder = store.sidecar_builder(&table);
    keys.iter().for_each(|key| builder.add_key(key));
    assert_eq!(hex(&builder.finish().seal_sidecar().unwrap()), hex(&documented));

    let metadata = FilterMetadata::of_sidecar(&documented, documented.len() as u64, &table).unwrap();
    let file = store.open(metadata, Bytes::from(documented));
    assert!(keys.iter().all(|key| !file.probe(key).is_absent()) && file.probe(b"bread").is_absent());
}

// promise: limited-memory
#[test]
fn a_description_of_all_that_there_can_be_has_the_documented_bytes() {
    let own = &vectors("files")["description_of_filters"];
    let ranges = &own.rows("ranges")[0];
    let extractors = [own.texts("extractors"), vec![ranges.text("extractor")]].concat();
    assert_eq!(extractors, ["prefix-to-byte:0x6e", "fixed-prefix:4"]);
    let parts = KeyParts::whole_keys().with_extractor(Arc::new(DelimitedPrefix::new(b'n')));
    let units = RangeUnits::integer(ranges.number("integer_bytes").try_into().unwrap()).unwrap();
    let (units, rate) =
        (units.with_prefix(Arc::new(FixedPrefix::new(4))), FalsePositiveRate::new(ranges.float("rate")).unwrap());
    let ranges = RangePolicy::hashed(units, ranges.number("max_units"), rate).unwrap();
    let store = FilterStore::new(Filters::default().with_key_parts(parts)).with_range_filters(ranges);
    let file = <[u8; 16]>::try_from(own.text("file_id").as_bytes()).unwrap();
    let mut builder = store.builder(file.into());
    own.keys("keys").iter().for_each(|key| builder.add_key(key));
    let documented = own.whole();
    assert_eq!(hex(&builder.finish().metadata().encode()), hex(&documented));
    let metadata = FilterMetadata::decode(&documented).unwrap();
    assert_eq!(metadata.encode(), documented);
    assert_eq!(metadata.sections().len(), 2);
    // The witnesses are the end of a description before its checksum, each after its length.
    let end = own.keys("witnesses").concat();
    assert!(documented[..documented.len() - 4].ends_with(&end), "{own}");
}

fn container_of(cut: PartitionCut, target_bytes: u32, context: &BuildContext, keys: &[Vec<u8>]) -> Bytes {
    let options = PartitionOptions::new(cut, target_bytes).unwrap();
    let mut builder = PartitionedBuilder::new(Arc::new(FixedPolicy::default()), context, options);
    keys.iter().for_each(|key| builder.add_key(key));
    builder.finish().block.unwrap()
}

/// The top index of a container that is not bound to a file.
fn top_index(container: &[u8]) -> &[u8] {
    let tail_bytes = usize::try_from(PartitionIndex::tail_bytes(container).unwrap()).unwrap();
    &container[container.len() - tail_bytes..container.len() - 32]
}

#[test]
fn containers_of_three_keys_have_the_documented_bytes() {
    for vector in vectors("partitioned").rows("containers") {
        let parts = match vector.texts("extractors")[..] {
            [] => KeyParts::whole_keys(),
            ["fixed-prefix:4"] => KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(4))),
            _ => panic!("another extractor in {vector}"),
        };
        let context = BuildContext::new(&KeyHasher::default()).with_key_parts(parts);
        let context = context.with_file_id(FileId::new(&vector.bytes("file_id")).unwrap());
        let container = container_of(PartitionCut::KeyRange, 16 << 10, &context, &vector.keys("keys"));
        assert_eq!(hex(&container), hex(&vector.whole()));
    }
}

#[test]
fn containers_have_the_documented_partitions_and_bytes() {
    let (own, context) = (vectors("partitioned"), BuildContext::new(&KeyHasher::default()));
    for (number, row) in own.rows("digests").iter().enumerate() {
        let cut = match row.text("cut") {
            "key range" => PartitionCut::KeyRange,
            cut => (cut == "hash range").then_some(PartitionCut::HashRange).unwrap(),
        };
        let target_bytes = row.number("target_bytes").try_into().unwrap();
        let container = container_of(cut, target_bytes, &context, &row.keys("keys"));
        let index = top_index(&container);
        let sums = [index, &container[..]].map(|bytes| u64::from(crc32c::crc32c(bytes)));
        assert_eq!(sums, [row.hex("index_crc"), row.hex("crc32c")], "{row}");
        let loaded = Container::load(&container, &KeyHasher::default()).unwrap();
        let sizes = [loaded.index.partitions().into(), container.len() as u64];
        assert_eq!(sizes, [row.number("partitions"), row.number("bytes")], "{row}");
        if number == 0 {
            assert_eq!(hex(index), own.text("top_index"), "{row}");
        }
    }
}
