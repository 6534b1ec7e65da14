//! Descriptions, sidecars and filters whose bytes are not those that were written.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::{
    BlockBuilder, BuildContext, DelimitedPrefix, FalsePositiveRate, FileId, FilterPolicy, Filters, FixedPolicy,
    FixedPrefix, KeyExtractor, KeyHasher, KeyParts, Probe, SecretSeed,
};
use sstfilter_range::{RangePolicy, RangeUnits};
use sstfilter_store::{
    FilterBudget, FilterMetadata, FilterProblem, FilterSection, FilterSource, FilterStore, PartitionCut,
    PartitionOptions, TableIdentity,
};

use crate::common::effort;
use crate::common::random::Random;
use crate::engine::{
    Disk, File, Key, all_candidates, build, build_with, file_to_be_read, is_candidate, numbered, tagged, view_of,
    with_key_parts,
};

/// Counts what each thread allocates.
struct Counting;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

#[allow(unsafe_code, reason = "an allocator cannot be had without")]
// SAFETY: all calls go to the system's allocator, unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATED.try_with(|allocated| allocated.set(allocated.get() + layout.size()));
        // SAFETY: the caller makes the promises that the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the bytes that a call allocates, including freed ones.
fn allocated<T>(call: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATED.get();
    let result = call();
    (result, ALLOCATED.get() - before)
}

fn crc(bytes: &[u8]) -> [u8; 4] {
    crc32c(bytes).to_le_bytes()
}

/// CRC32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |sum: u32| if sum & 1 == 1 { sum >> 1 ^ 0x82f6_3b78 } else { sum >> 1 };
    !bytes.iter().fold(u32::MAX, |sum, &byte| (0..8).fold(sum ^ u32::from(byte), |sum, _| step(sum)))
}

/// Appends a valid checksum.
fn sealed(mut description: Vec<u8>) -> Vec<u8> {
    let end = description.len() - 4;
    let sum = crc(&description[..end]);
    description[end..].copy_from_slice(&sum);
    description
}

fn partitioned(cut: PartitionCut) -> FilterStore {
    FilterStore::default().with_partitions(PartitionOptions::new(cut, 1 << 10).unwrap())
}

fn ranges() -> RangePolicy {
    let units = RangeUnits::integer(4).unwrap().with_prefix(Arc::new(FixedPrefix::new(2)));
    RangePolicy::hashed(units, 16, FalsePositiveRate::new(0.01).unwrap()).unwrap()
}

/// Returns descriptions with every field in use, and with few.
fn descriptions() -> Vec<FilterMetadata> {
    let parts = KeyParts::whole_keys().with_extractor(Arc::new(DelimitedPrefix::new(b':')));
    let full = with_key_parts(partitioned(PartitionCut::KeyRange), parts).with_range_filters(ranges());
    let secret =
        FilterStore::new(Filters::default().with_hasher(KeyHasher::with_secret_seed(SecretSeed::from_bytes([3; 8]))));
    let hidden: BTreeSet<Key> =
        [vec![b"a".to_vec()], tagged("t", 0..900), vec![b"z".to_vec()]].concat().into_iter().collect();
    let tombstone = (b"b".to_vec(), b"c".to_vec());
    vec![
        build(&full, &hidden).1,
        build_with(&full, &hidden, Some(&tombstone)).1,
        build_with(&secret, &numbered(0..9).into_iter().collect(), Some(&tombstone)).1,
        build(&secret, &BTreeSet::new()).1,
        secret.open_without_description(..).metadata().as_ref().clone(),
        secret.open_without_description(&b"a"[..]..&b"b"[..]).metadata().as_ref().clone(),
    ]
}

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
fn a_description_with_any_byte_changed_and_a_checksum_that_holds_never_panics_nor_allocates_much() {
    let values = effort::stride(51);
    for description in descriptions() {
        let bytes = description.encode();
        for at in 0..bytes.len() - 4 {
            for value in (0..=255).step_by(values) {
                let mut changed = bytes.clone();
                changed[at] = value;
                let changed = sealed(changed);
                let (decoded, allocated) = allocated(|| FilterMetadata::decode(&changed));
                assert!(allocated < 16 * bytes.len() + 4_096, "{allocated} bytes for {at} = {value}");
                if let Ok(decoded) = decoded {
                    // No field is believed: opening, probing and encoding it again do not panic.
                    let file = FilterStore::default().open(decoded.clone(), Bytes::from_static(&[7; 300]));
                    let _ = (file.probe(b"t:00001"), file.may_contain_prefix(b"t"), file.may_contain_range(..));
                    assert_eq!(FilterMetadata::decode(&decoded.encode()), Ok(decoded));
                }
            }
        }
    }
}

#[test]
fn random_bytes_are_no_description_and_no_sidecar() {
    let mut random = Random::new(1);
    let table = TableIdentity::new(FileId::from([1; 16]), 2, 3);
    for _ in 0..20_000 / effort::stride(10) {
        let mut bytes: Vec<u8> = (0..random.below(300)).map(|_| random.next().to_le_bytes()[0]).collect();
        if random.one_in(2) && bytes.len() >= 48 {
            bytes[..6].copy_from_slice(b"SFMD\x01\x07");
            bytes = sealed(bytes);
        }
        let (_, first) = allocated(|| FilterMetadata::decode(&bytes));
        if random.one_in(2) && bytes.len() >= 64 {
            let end = bytes.len() - 60;
            bytes[end + 53..end + 56].copy_from_slice(b"\x11SC");
            bytes[end + 36..end + 40].copy_from_slice(&u32::try_from(end).unwrap().to_le_bytes());
            let of_description = crc(&bytes[..end]);
            bytes[end + 40..end + 44].copy_from_slice(&of_description);
            let sum = crc(&bytes[end..end + 56]);
            bytes[end + 56..].copy_from_slice(&sum);
        }
        let length = bytes.len() as u64;
        let (_, second) = allocated(|| FilterMetadata::sidecar_tail_bytes(&bytes));
        let (_, third) = allocated(|| FilterMetadata::of_sidecar(&bytes, length, &table));
        assert!(first.max(second).max(third) < 16_384, "{first} {second} {third}");
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

/// Stores with each residency of filters: in memory from the start, or loaded when they are probed.
fn kinds() -> Vec<FilterStore> {
    let kinds = [FilterStore::default(), partitioned(PartitionCut::KeyRange), partitioned(PartitionCut::HashRange)];
    let secret =
        FilterStore::new(Filters::default().with_hasher(KeyHasher::with_secret_seed(SecretSeed::from_bytes([4; 8]))));
    let kinds = kinds.into_iter().chain([secret]).map(|store| store.with_range_filters(ranges()));
    let kinds: Vec<_> = kinds.collect();
    let lazy = kinds.iter().map(|store| store.clone().with_budget(FilterBudget::unlimited())).collect::<Vec<_>>();
    kinds.into_iter().chain(lazy).collect()
}

/// Opens filter bytes that do not match the description. No key may be lost; returns the reason.
fn problem_of(
    store: &FilterStore,
    metadata: &FilterMetadata,
    bytes: Bytes,
    keys: &BTreeSet<Key>,
    what: &str,
) -> Option<FilterProblem> {
    let disk = Disk::new(bytes);
    let filters = store.open(metadata.clone(), disk.clone());
    let file = Arc::new(File::new(keys.clone(), disk, filters));
    let view = view_of(store, &[(0, &file)]);
    for key in keys.iter().step_by(7) {
        assert!(is_candidate(&view, key, &file), "{what}: {key:?}");
        assert_eq!(view.candidates_in_range(&key[..]..=&key[..]).count(), 1, "{what}: {key:?}");
        assert_eq!(view.candidates_by_prefix(key).count(), 1, "{what}: {key:?}");
    }
    assert!(store.problem().is_none(), "{what}: damage is no reason to distrust the hasher: {:?}", store.problem());
    let problem = file.filters.problem();
    let text = problem.as_ref().map(ToString::to_string);
    assert!(text.is_none_or(|text| !text.is_empty()), "{what}");
    problem
}

#[test]
fn reads_that_are_given_wrong_bytes_lose_no_key() {
    for store in kinds() {
        for wrong in 0..5 {
            let file = file_to_be_read(&store, tagged("t", 0..2_400));
            let view = view_of(&store, &[(1, &file)]);
            for key in file.keys.iter().step_by(31) {
                for (_, read) in view.candidates(key).reads() {
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
            assert!(file.filters.problem().is_some());
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
        let store = FilterStore::new(Filters::default().with_key_parts(parts)).with_range_filters(policy);
        let keys: BTreeSet<Key> = tagged("t", 0..30).into_iter().collect();
        let (bytes, metadata) = build(&store, &keys);
        let decoded = FilterMetadata::decode(&metadata.encode());
        assert_eq!(decoded.as_ref(), Ok(&metadata), "{length}");
        let _ = problem_of(&store, &metadata, bytes, &keys, &format!("{length}"));
    }
}

#[test]
fn bytes_at_any_alignment_answer_alike() {
    let store = FilterStore::default();
    let keys: BTreeSet<Key> = numbered((0..2_000).step_by(2)).into_iter().collect();
    let (bytes, metadata) = build(&store, &keys);
    let answers = |shift: usize| -> Vec<bool> {
        let shifted = Bytes::from([&vec![0; shift][..], &bytes].concat()).slice(shift..);
        let file = Arc::new(File::new(keys.clone(), Disk::new(Bytes::new()), store.open(metadata.clone(), shifted)));
        let view = view_of(&store, &[(0, &file)]);
        numbered(0..2_000).iter().map(|key| !all_candidates(&view, key).is_empty()).collect()
    };
    let aligned = answers(0);
    assert!((1..9).all(|shift| answers(shift) == aligned));
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
fn a_scrub_sees_every_changed_byte_of_the_filters() {
    let ranges = || RangePolicy::ordered(FalsePositiveRate::ONE_PERCENT).unwrap();
    let partitioned = |cut| FilterStore::default().with_partitions(PartitionOptions::new(cut, 1 << 10).unwrap());
    let ribbon = FixedPolicy::ribbon(FalsePositiveRate::ONE_PERCENT).unwrap().with_min_keys(0);
    let by_key = || partitioned(PartitionCut::KeyRange);
    for (what, store) in [
        ("whole", FilterStore::default()),
        ("whole, with ranges", FilterStore::default().with_range_filters(ranges())),
        ("by key, with ranges", by_key().with_range_filters(ranges())),
        ("by hash", partitioned(PartitionCut::HashRange)),
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
    let options = PartitionOptions::new(PartitionCut::KeyRange, 1 << 10).unwrap();
    let store = FilterStore::default().with_partitions(options);
    let (bytes, metadata) = build(&store, &numbered(0..5_000).into_iter().collect());
    let section = metadata.sections()[0].clone();
    let index_at = usize::try_from(section.bytes - u64::from(section.index_bytes)).unwrap();
    let described_as = |bytes: u64| {
        let mut description = metadata.encode();
        description[60..68].copy_from_slice(&bytes.to_le_bytes());
        let end = description.len() - 4;
        let sum = crc(&description[..end]);
        description[end..].copy_from_slice(&sum);
        FilterMetadata::decode(&description).unwrap()
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
