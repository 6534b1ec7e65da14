//! Descriptions, sidecars and filters whose bytes are not those that were written.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::{
    BlockBuilder, BuildContext, FalsePositiveRate, FileId, FilterPolicy, FixedPolicy, KeyExtractor, KeyParts, Probe,
};
use sstfilter_range::{RangePolicy, RangeUnits};
use sstfilter_store::{
    FilterMetadata, FilterProblem, FilterSection, FilterSource, FilterStore, PartitionCut, TableIdentity,
};

use crate::common::effort;
use crate::descriptions::{crc, descriptions, ranges, sealed};
use crate::engine::{
    Key, assert_keeps_all, build, file_to_be_read, is_candidate, layouts, numbered, open, partitioned, tagged, view_of,
    with_key_parts,
};

#[test]
fn every_flipped_bit_and_every_cut_of_a_description_is_noticed() {
    for description in descriptions() {
        let bytes = description.encode();
        assert_eq!(FilterMetadata::decode(&bytes).as_ref(), Ok(&description));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(FilterMetadata::decode(&flipped).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(FilterMetadata::decode(&bytes[..length]).is_err(), "{length} bytes");
        }
        let longer = [&bytes[..], b"\0"].concat();
        assert!(FilterMetadata::decode(&longer).is_err());
    }
}

#[test]
fn a_sidecars_end_is_that_of_its_description_and_nothing_else() {
    let table = TableIdentity::new(FileId::from([1; 16]), 1 << 30, 77);
    let mut builder = FilterStore::default().sidecar_builder(&table);
    tagged("t", 0..100).iter().for_each(|key| builder.add_key(key));
    let sidecar = builder.finish().seal_sidecar().unwrap().to_vec();
    let changed = |at: usize, value: u8| {
        let (mut changed, end) = (sidecar.clone(), sidecar.len() - 60);
        changed[end + at] = value;
        let sum = crc(&changed[end..end + 56]);
        changed[end + 56..].copy_from_slice(&sum);
        FilterMetadata::of_sidecar(&changed, changed.len() as u64, &table)
    };
    let sound = sidecar[sidecar.len() - 60..].to_vec();
    assert!(changed(53, sound[53]).is_ok());
    assert!(matches!(changed(53, 0x12), Err(FilterProblem::Block(sstfilter::BlockError::Version { got: 2, .. }))));
    // Other flags, another file, seed and hash, and bits that are reserved.
    for (at, value) in [(53, 0x01), (53, 0x51), (53, 0x91), (20, !sound[20]), (28, !sound[28]), (52, 0x20)] {
        assert!(changed(at, value).is_err(), "byte {at} is {value}");
    }
    for at in [49, 50, 51, 52] {
        assert!(changed(at, sound[at] | 1).is_err(), "a reserved bit of byte {at}");
    }
}

#[test]
fn unknown_sections_and_longer_headers_are_passed_over() {
    let description = &descriptions()[0];
    let bytes = description.encode();
    // A header of eight more bytes, and a section of type 9 before the known ones.
    let mut longer = [&bytes[..44], &[0xaa; 8], &[9; 28], &bytes[44..]].concat();
    longer[6] = 52;
    longer[25] += 1;
    assert_eq!(FilterMetadata::decode(&sealed(longer)).as_ref(), Ok(description));
    let mut newer = bytes.clone();
    newer[4] = 2;
    let newer = FilterMetadata::decode(&sealed(newer)).unwrap_err();
    assert!(matches!(newer, FilterProblem::Version { expected: 1, got: 2, .. }), "{newer}");
    let mut shorter = bytes;
    shorter[6] = 39;
    assert!(FilterMetadata::decode(&sealed(shorter)).is_err());
}

#[test]
fn reads_that_are_given_wrong_bytes_lose_no_key() {
    for store in layouts(&FilterStore::default().with_range_filters(ranges())) {
        for wrong in 0..5 {
            let file = file_to_be_read(&store, tagged("t", 0..2_400));
            let view = view_of(&store, &[(1, &file)]);
            for key in file.keys.iter().step_by(31) {
                for (_, read) in view.candidates(key).reads().pending {
                    let range = read.range();
                    let length = usize::try_from(range.end - range.start).unwrap();
                    let from = usize::try_from(range.start).unwrap();
                    let mut bytes = file.disk.bytes()[from..from + length].to_vec();
                    match wrong {
                        0 => bytes.truncate(length - 1),
                        1 => bytes.push(0),
                        2 => bytes.clear(),
                        3 => bytes[length / 2] ^= 1,
                        _ => bytes.reverse(),
                    }
                    read.complete(Ok::<_, &str>(bytes.into()));
                }
                assert!(is_candidate(&view, key, &file));
            }
            let problem = file.filters.problem().unwrap();
            assert!(wrong > 2 || matches!(problem, FilterProblem::Length { .. }), "{problem}");
            assert_eq!(file.filters.residency().bytes, 0);
        }
    }
}

#[test]
fn an_extractors_name_of_any_length_makes_a_description_that_can_be_read() {
    #[derive(Debug)]
    struct Named(String);
    impl KeyExtractor for Named {
        fn name(&self) -> &str {
            &self.0
        }
        fn extract<'key>(&self, key: &'key [u8]) -> Option<std::borrow::Cow<'key, [u8]>> {
            key.get(..2).map(std::borrow::Cow::Borrowed)
        }
        fn extract_prefix<'key>(&self, prefix: &'key [u8]) -> Option<std::borrow::Cow<'key, [u8]>> {
            self.extract(prefix)
        }
    }
    for length in [0, 1, 255, 256, 300] {
        let named = || Arc::new(Named("n".repeat(length)));
        let parts = KeyParts::whole_keys().with_extractor(named());
        let units = RangeUnits::integer(4).unwrap().with_prefix(named());
        let policy = RangePolicy::hashed(units, 16, FalsePositiveRate::new(0.01).unwrap()).unwrap();
        let store = with_key_parts(FilterStore::default(), parts).with_range_filters(policy);
        let keys: BTreeSet<Key> = tagged("t", 0..30).into_iter().collect();
        let (bytes, metadata) = build(&store, &keys);
        let decoded = FilterMetadata::decode(&metadata.encode()).unwrap();
        assert_eq!(decoded, metadata, "{length}");
        let file = Arc::new(open(&store, keys, (bytes, decoded)));
        assert_keeps_all(&view_of(&store, &[(0, &file)]), &file, "a long name");
        assert!(file.filters.may_contain_prefix(b"t:") && file.filters.may_contain_range(&b"t:"[..]..), "{length}");
    }
}

/// Builds no filter for partitions with fewer keys.
#[derive(Debug)]
struct LargePartitions(FixedPolicy);

impl FilterPolicy for LargePartitions {
    fn name(&self) -> &'static str {
        "large partitions"
    }

    fn builder(&self, context: &BuildContext) -> Option<Box<dyn BlockBuilder>> {
        let is_large = context.expected_keys.is_none_or(|keys| keys >= 400);
        is_large.then(|| self.0.builder(context))
    }
}

#[test]
fn keys_of_a_partition_without_a_filter_may_be_present() {
    let large = || Arc::new(LargePartitions(FixedPolicy::default()));
    for store in layouts(&FilterStore::default().with_policy(large())) {
        let keys: BTreeSet<Key> = numbered((0..2_500).map(|number| number * 3)).into_iter().collect();
        let built = build(&store, &keys);
        let file = Arc::new(open(&store, keys, built));
        assert_keeps_all(&view_of(&store, &[(0, &file)]), &file, "some without a filter");
        assert_eq!(file.filters.problem(), None);
    }
}

#[test]
fn a_scrub_sees_every_changed_byte_of_the_filters() {
    let ranges = || RangePolicy::ordered(FalsePositiveRate::ONE_PERCENT).unwrap();
    let ribbon = FixedPolicy::ribbon(FalsePositiveRate::ONE_PERCENT).unwrap().with_min_keys(0);
    let by_key = || partitioned(&FilterStore::default(), PartitionCut::KeyRange);
    for (what, store) in [
        ("whole", FilterStore::default()),
        ("whole, with ranges", FilterStore::default().with_range_filters(ranges())),
        ("by key, with ranges", by_key().with_range_filters(ranges())),
        ("by hash", partitioned(&FilterStore::default(), PartitionCut::HashRange)),
        ("Ribbon by key", by_key().with_policy(Arc::new(ribbon))),
        ("the last one without a filter", by_key().with_policy(Arc::new(LargePartitions(FixedPolicy::default())))),
    ] {
        let (bytes, metadata) = build(&store, &numbered((0..2_500).map(|number| number * 3)).into_iter().collect());
        assert_eq!(store.verify(&metadata, &bytes), [], "{what}");
        let is_in_filter = |at: usize| {
            let holds =
                |section: &FilterSection| (section.offset..section.offset + section.bytes).contains(&(at as u64));
            metadata.sections().iter().any(holds)
        };
        for at in (0..bytes.len()).filter(|&at| is_in_filter(at)).step_by(effort::stride(7)) {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 0x10;
            assert_ne!(store.verify(&metadata, &Bytes::from(damaged)), [], "{what}: byte {at}");
        }
    }
}

/// Remembers the highest offset that was read.
struct Watched(Bytes, AtomicU64);

impl FilterSource for Watched {
    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        self.1.fetch_max(range.end, Ordering::Relaxed);
        self.0.read(range)
    }
}

#[test]
fn a_scrub_reads_a_partitioned_filter_within_its_description() {
    let store = partitioned(&FilterStore::default(), PartitionCut::KeyRange);
    let (bytes, metadata) = build(&store, &numbered(0..5_000).into_iter().collect());
    let section = metadata.sections()[0].clone();
    let index_at = usize::try_from(section.bytes - u64::from(section.index_bytes)).unwrap();
    let described_as = |bytes: u64| {
        let mut description = metadata.encode();
        description[60..68].copy_from_slice(&bytes.to_le_bytes());
        FilterMetadata::decode(&sealed(description)).unwrap()
    };
    for (what, container) in [
        ("longer", [&bytes[..index_at], &[0xee; 64], &bytes[index_at..]].concat()),
        ("the index alone", [&[0; 64], &bytes[index_at..]].concat()),
    ] {
        let lying = described_as(container.len() as u64);
        let source = Watched([&container[..], &vec![7; 1 << 16]].concat().into(), AtomicU64::new(0));
        let found = store.verify(&lying, &source);
        assert!(matches!(found[..], [(_, FilterProblem::Length { .. })]), "{what}: {found:?}");
        assert_eq!(source.1.load(Ordering::Relaxed), container.len() as u64, "{what}");
        assert!(matches!(store.open(lying, source).problem(), Some(FilterProblem::Length { .. })), "{what}");
    }
}

/// Found by fuzzing: such a section was never read, so nothing noticed that its filter was unusable.
#[test]
fn a_filter_of_no_bytes_is_a_problem_and_denies_nothing() {
    let store =
        FilterStore::default().with_range_filters(RangePolicy::ordered(FalsePositiveRate::ONE_PERCENT).unwrap());
    let store = store.with_point_filters(sstfilter_store::PointFilters::All);
    let mut builder = store.builder(FileId::random());
    numbered(0..1_000).iter().for_each(|key| builder.add_key(key));
    let (bytes, metadata) = builder.finish().seal();
    // Sections begin after a header of 44 bytes and have 28 each; their lengths are at byte 16.
    let mut covered = metadata.encode_covered();
    [44, 72].into_iter().for_each(|section| covered[section + 16..section + 24].fill(0));
    let empty = FilterMetadata::decode_covered(&covered).unwrap();
    assert!(empty.sections().len() == 2 && empty.sections().iter().all(|section| section.bytes == 0));
    for source in [bytes, Bytes::new()] {
        let file = store.open(empty.clone(), source);
        assert!(file.point_problem().is_some() && file.range_problem().is_some());
        for key in numbered(0..1_000) {
            assert_eq!(file.probe(&key), Probe::Unusable);
            assert_eq!(file.probe_range(&key[..]..=&key[..]), Probe::Unusable);
        }
        assert_eq!(file.stats().filter.unusable, 1_000);
    }
}
