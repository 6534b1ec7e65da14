//! A store gets its first extractor, or another one, and scans by prefix. Its older files were written without those
//! parts. The failure guarded against: their filters are probed for parts that they never held and answer "absent" for
//! prefixes that are there, so scans lose keys silently, under valid checksums.

use std::sync::Arc;

use bytes::Bytes;
use sstfilter::{
    BitsPerKey, BlockBuilder, BlockError, BuildContext, BuiltFilter, DynamicFilter, FallbackReason, FileId,
    FilterBlock, FilterError, FilterPolicy, FilterSet, Filters, FixedPolicy, FixedPrefix, KeyHash, KeyHasher, KeyParts,
    LoadContext, LookupOutcome, MatchBitmap, PreparedPrefix, Probe, StandardBloom,
};
use sstfilter_store::{FileFilters, FilterProblem, FilterStore, PartitionCut, PartitionOptions, PartitionedBuilder};

use crate::container::{CUTS, Container};
use crate::engine::{layouts, with_key_parts};

const TENANTS: u32 = 100;

/// Keys in order: 200 of each tenant.
fn keys() -> impl Iterator<Item = Vec<u8>> {
    (0..TENANTS * 200).map(|number| format!("t{:03}:{:06}", number / 200, number).into_bytes())
}

fn tenant(number: u32) -> Vec<u8> {
    format!("t{number:03}").into_bytes()
}

fn whole_and(length: usize) -> KeyParts {
    KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(length)))
}

fn block_of(parts: &KeyParts) -> Bytes {
    let context = BuildContext::new(&KeyHasher::default()).with_key_parts(parts.clone());
    let mut builder = FixedPolicy::default().builder(&context);
    keys().for_each(|key| builder.add_key(&key));
    builder.finish().block.unwrap()
}

fn container_of(parts: &KeyParts, cut: PartitionCut) -> Bytes {
    let context = BuildContext::new(&KeyHasher::default()).with_key_parts(parts.clone());
    let options = PartitionOptions::new(cut, 1_024).unwrap();
    let mut builder = PartitionedBuilder::new(Arc::new(FixedPolicy::default()), &context, options);
    keys().for_each(|key| builder.add_key(&key));
    builder.finish().block.unwrap()
}

/// The filters of a file: whole, and in partitions of each cut.
struct Built {
    block: Bytes,
    containers: [Bytes; 2],
}

impl Built {
    fn of(parts: &KeyParts) -> Self {
        Self { block: block_of(parts), containers: CUTS.map(|cut| container_of(parts, cut)) }
    }
}

/// Returns whether a file may contain the prefix, by each way to probe it.
fn answers(written: &Built, read: &KeyParts, prefix: &[u8]) -> Vec<bool> {
    answers_for(written, read, &read.prefix(&KeyHasher::default(), prefix))
}

/// Returns the same answers for a prefix that need not be of the parts that the reader names.
fn answers_for(written: &Built, read: &KeyParts, prepared: &PreparedPrefix<'_>) -> Vec<bool> {
    let hasher = KeyHasher::default();
    // A reader that shares no part cannot load the filter; a tool loads it with any parts.
    let context = LoadContext::new(&hasher).with_key_parts(read);
    let block = &written.block;
    let context = if FilterBlock::load(block, context).is_ok() { context } else { context.with_any_key_parts() };
    let filters = Filters::default().with_key_parts(read.clone());
    let reader = || filters.reader(FilterBlock::load(block.clone(), context));
    let mut answers = vec![!reader().probe_prepared(prepared).is_absent()];
    answers.push(FilterBlock::load(block, context).unwrap().may_contain_prefix(prepared));
    let (set, mut matches) = (FilterSet::new(&filters, [reader()]), MatchBitmap::default());
    set.matches_prepared(prepared, &mut matches);
    answers.push(matches.may_contain(0));
    let containers = written.containers.each_ref().map(|bytes| Container::load(bytes, context).unwrap());
    answers.extend(containers.iter().map(|container| container.may_contain_prefix(prepared)));
    answers
}

/// Returns a file of these parts in a store that reads others: whole and in partitions, in memory and under a budget.
fn files(written: &KeyParts, read: &KeyParts) -> Vec<FileFilters> {
    let opened = |store: FilterStore| {
        let mut builder = store.builder(FileId::random());
        keys().for_each(|key| builder.add_key(&key));
        let (bytes, metadata) = builder.finish().seal();
        with_key_parts(store, read.clone()).open(metadata, bytes)
    };
    layouts(&with_key_parts(FilterStore::default(), written.clone())).into_iter().map(opened).collect()
}

// promise: no-false-negatives
// promise: documented-use
#[test]
fn an_extractor_that_is_added_or_changed_loses_no_prefix_of_older_files() {
    let read = whole_and(4);
    let parts_of_older_files =
        [KeyParts::whole_keys(), whole_and(3), KeyParts::extracted(Arc::new(FixedPrefix::new(5)))];
    for written in &parts_of_older_files {
        let built = Built::of(written);
        for number in [0, 1, 57, 99] {
            assert!(answers(&built, &read, &tenant(number)).into_iter().all(|may| may), "{written}");
        }
        let files = files(written, &read);
        assert!((0..TENANTS).all(|number| files.iter().all(|file| file.may_contain_prefix(&tenant(number)))));
        assert!(keys().step_by(99).all(|key| files.iter().all(|file| !file.probe(&key).is_absent())), "{written}");
    }
    let own = whole_and(4);
    for file in files(&own, &read) {
        assert!((0..TENANTS).all(|number| file.may_contain_prefix(&tenant(number))));
        let is_absent = |number: &u8| !file.may_contain_prefix(&[b't', b'0', b'0' + number % 9, b'a' + number / 9]);
        let absent = (0..90).filter(is_absent).count();
        assert!(absent > 80, "between the smallest and the largest key: {absent}");
    }
    let own = Built::of(&own);
    assert!(answers(&own, &read, &tenant(57)).into_iter().all(|may| may));
    let absent = (200..240).filter(|&number| answers(&own, &read, &tenant(number)).into_iter().all(|may| !may));
    assert!(absent.count() > 30, "a filter that has the part is probed for it");
}

/// Known keys are checked by the parts that the reader names. An extractor that changed under its name would go
/// unnoticed if the reader does not name it, and would still be probed for.
// promise: documented-use
#[test]
fn no_filter_answers_for_a_part_that_its_reader_does_not_name_or_for_the_prefix_of_another_hash() {
    let (hasher, parts) = (KeyHasher::default(), whole_and(4).with_extractor(Arc::new(FixedPrefix::new(3))));
    let written = Built::of(&parts);
    let of_four = whole_and(4);
    for number in 200..240 {
        let absent = tenant(number);
        let prepared = of_four.prefix(&hasher, &absent);
        for read in [KeyParts::whole_keys(), whole_and(3)] {
            assert!(answers_for(&written, &read, &prepared).into_iter().all(|may| may), "{read}");
        }
        let of_another_hash = of_four.prefix(&KeyHasher::with_seed(9), &absent);
        assert!(answers_for(&written, &of_four, &of_another_hash).into_iter().all(|may| may));
    }
}

/// A reader of only prefixes gets the filter of another file, which has keys of the same tenants.
// promise: documented-use
#[test]
fn whole_keys_are_checked_by_known_ones_whether_the_reader_names_them_or_not() {
    let hasher = KeyHasher::default();
    let named = KeyParts::extracted(Arc::new(FixedPrefix::new(4)));
    let (own, foreign): (&[u8], &[u8]) = (b"t000:000000", b"t000:another");
    for (known, is_own) in [([own], true), ([foreign], false)] {
        let context = LoadContext::new(&hasher).with_key_parts(&named).with_known_keys(&known);
        let block = FilterBlock::load(block_of(&whole_and(4)), context).map(drop).map_err(FilterProblem::from);
        let containers = CUTS.map(|cut| Container::load(&container_of(&whole_and(4), cut), context).map(drop));
        for loaded in containers.into_iter().chain([block]) {
            let refused = Err(BlockError::KnownKeyAbsent { hash: hasher.identity() }.into());
            assert_eq!(loaded, if is_own { Ok(()) } else { refused });
        }
    }
}

/// A filter does not answer for an unconfirmed part: if an extractor changed under its name, a file whose known keys
/// are outside its domain would lose nearly all prefixes.
// promise: documented-use
#[test]
fn a_part_that_no_known_key_has_is_not_answered() {
    let hasher = KeyHasher::default();
    let parts = KeyParts::extracted(Arc::new(FixedPrefix::new(4)));
    let outside: &[u8] = b"a";
    let (one, both) = ([outside], [outside, b"t000:000000"]);
    for (known, is_answered) in [(&one[..], false), (&both, true)] {
        let context = LoadContext::new(&hasher).with_key_parts(&parts).with_known_keys(known);
        let block = FilterBlock::load(block_of(&parts), context).unwrap();
        let containers = CUTS.map(|cut| Container::load(&container_of(&parts, cut), context).unwrap());
        let absent = parts.prefix(&hasher, b"none");
        assert_eq!(block.may_contain_prefix(&absent), !is_answered);
        assert!(containers.iter().all(|filter| filter.may_contain_prefix(&absent) != is_answered));
    }
}

// promise: no-false-negatives
#[test]
fn a_block_of_parts_alone_is_absent_for_no_key() {
    let hasher = KeyHasher::default();
    let parts = KeyParts::extracted(Arc::new(FixedPrefix::new(4)));
    let block = block_of(&parts);
    let refused = FilterBlock::load(&block, &hasher).unwrap_err();
    assert!(matches!(refused, BlockError::ExtractorMismatch { .. }), "{refused}");
    assert!(FilterBlock::probe_unverified(&block, hasher.identity(), hasher.hash(b"t000:000000")).is_err());
    let both = whole_and(4);
    for context in [
        LoadContext::new(&hasher).with_key_parts(&parts),
        LoadContext::new(&hasher).with_key_parts(&both),
        LoadContext::new(&hasher).with_any_key_parts(),
    ] {
        let (first, last) = (keys().next().unwrap(), keys().last().unwrap());
        let filter = FilterBlock::load(&block, context.with_known_keys(&[&first, &last])).unwrap();
        let hashes: Vec<KeyHash> = keys().map(|key| hasher.hash(&key)).collect();
        let mut matches = MatchBitmap::default();
        filter.may_contain_batch(&hashes, &mut matches);
        assert!(matches.count() == hashes.len() as u64 && hashes.iter().all(|&hash| filter.may_contain(hash)));
        assert!(!filter.may_contain_prefix(&parts.prefix(&hasher, b"zzzz")), "it is probed for what it holds");
    }
    let context = LoadContext::new(&hasher).with_key_parts(&parts);
    let filters = Filters::default().with_key_parts(parts.clone());
    let reader = || filters.reader(FilterBlock::load(block.clone(), context));
    let (set, reader) = (FilterSet::new(&filters, [reader()]), reader());
    let mut matches = MatchBitmap::default();
    let files = files(&parts, &parts);
    for key in keys().step_by(37) {
        let hash = hasher.hash(&key);
        assert_eq!((reader.probe_hash(hash), reader.probe(&key)), (Probe::Unusable, Probe::MaybePresent));
        set.matches_hash(hash, &mut matches);
        assert!(matches.may_contain(0));
        assert!(files.iter().all(|file| file.probe(&key) == Probe::MaybePresent), "by its parts");
        assert!(!reader.probe_prefix(&key).is_absent());
    }
    assert!(reader.probe_prefix(b"none").is_absent() && reader.probe(b"none").is_absent());
    assert_eq!(reader.probe(b"t"), Probe::MaybePresent, "outside the extractor's domain");
    reader.record_lookup(LookupOutcome::NotFound);
    assert_eq!(reader.stats().false_positives, 0, "the part may be there although the key is not");
}

/// A user-defined builder: uses another context than it is given, and hashes only whole keys, or not.
#[derive(Debug)]
struct Stubborn {
    context: BuildContext,
    hashes_whole_keys: bool,
}

#[derive(Debug)]
struct WholeKeys(KeyHasher, Box<dyn BlockBuilder>);

impl FilterPolicy for Stubborn {
    fn name(&self) -> &'static str {
        "stubborn"
    }

    fn builder(&self, _: &BuildContext) -> Option<Box<dyn BlockBuilder>> {
        let builder: Box<dyn BlockBuilder> = FixedPolicy::default().builder(&self.context);
        let hasher = self.context.hasher.clone();
        Some(if self.hashes_whole_keys { Box::new(WholeKeys(hasher, builder)) } else { builder })
    }
}

impl BlockBuilder for WholeKeys {
    fn add_key(&mut self, key: &[u8]) {
        self.1.add_hash(self.0.hash(key));
    }

    fn add_hash(&mut self, hash: KeyHash) {
        self.1.add_hash(hash);
    }

    fn estimated_bytes(&self) -> u64 {
        self.1.estimated_bytes()
    }

    fn finish(self: Box<Self>) -> BuiltFilter {
        self.1.finish()
    }
}

// promise: documented-use
#[test]
fn a_filter_that_is_not_what_its_store_says_is_not_stored() {
    let (parts, file) = (whole_and(4), FileId::from([7; 16]));
    let own = BuildContext::new(&KeyHasher::default()).with_key_parts(parts.clone()).with_file_id(file);
    let of_other_hash = BuildContext::new(&KeyHasher::with_seed(9)).with_key_parts(parts.clone()).with_file_id(file);
    let unbound = BuildContext::new(&KeyHasher::default()).with_key_parts(parts.clone());
    for (context, hashes_whole_keys, is_stored) in
        [(&own, false, true), (&own, true, false), (&of_other_hash, false, false), (&unbound, false, false)]
    {
        let policy = Stubborn { context: context.clone(), hashes_whole_keys };
        let store = FilterStore::new(Filters::default().with_key_parts(parts.clone())).with_policy(Arc::new(policy));
        let mut builder = store.builder(file);
        keys().take(1_000).for_each(|key| builder.add_key(&key));
        let built = builder.finish();
        assert_eq!(built.metadata().sections().len(), usize::from(is_stored), "{context:?}");
        let reason = if is_stored { FallbackReason::None } else { FallbackReason::ConstructionFailed };
        assert_eq!(built.point_report.unwrap().reason, reason);
    }
}

#[test]
fn expected_keys_are_keys_whatever_parts_they_have() {
    let (hasher, parts) = (KeyHasher::default(), whole_and(9));
    let context = BuildContext::new(&hasher).with_key_parts(parts).with_expected_keys(u64::from(TENANTS) * 200);
    let mut builder = FixedPolicy::default().builder(&context);
    keys().for_each(|key| builder.add_key(&key));
    let built = builder.finish();
    assert_eq!((built.report.keys_added, built.report.distinct_keys), (20_000, 20_000 + 200));
    let filter = FilterBlock::load(built.block.unwrap(), &hasher).unwrap();
    let positives = (0..20_000_u32).filter(|number| filter.may_contain(hasher.hash(format!("u{number}").as_bytes())));
    assert!(positives.count() < 300, "about 1 %");
}

// promise: documented-use
#[test]
fn hashes_of_the_engines_own_are_of_whole_keys_and_of_no_parts() {
    let hasher = KeyHasher::default();
    let load = |bytes: Bytes, parts: &KeyParts| {
        FilterBlock::load(bytes, LoadContext::new(&hasher).with_key_parts(parts)).unwrap().info()
    };
    let parts = whole_and(4);
    let mut builder = FixedPolicy::default().builder(&BuildContext::new(&hasher).with_key_parts(parts.clone()));
    builder.add_key(b"t001:a");
    builder.add_hashes(&[]);
    let info = load(builder.finish().block.unwrap(), &parts);
    assert_eq!((info.whole_keys, info.extractors.len()), (true, 1), "no hash, no loss");
    let mut builder = FixedPolicy::default().builder(&BuildContext::new(&hasher).with_key_parts(parts.clone()));
    builder.add_key(b"t001:a");
    builder.add_hash(hasher.hash(b"t002:b"));
    let info = load(builder.finish().block.unwrap(), &parts);
    assert_eq!((info.whole_keys, info.extractors), (true, vec![]), "nobody has extracted the parts of the second");

    let alone = KeyParts::extracted(Arc::new(FixedPrefix::new(4)));
    let mut builder = FixedPolicy::default().builder(&BuildContext::new(&hasher).with_key_parts(alone));
    builder.add_key(b"t001:a");
    builder.add_hash(hasher.hash(b"t002:b"));
    assert_eq!(builder.finish().block, None, "neither the whole keys nor the parts of all are there");
}

// promise: documented-use
#[test]
fn what_follows_a_block_around_keeps_its_parts() {
    let hasher = KeyHasher::default();
    let parts = whole_and(4);
    let context = LoadContext::new(&hasher).with_key_parts(&parts);
    let block = FilterBlock::load(block_of(&parts), context).unwrap();
    let file = FileId::random();
    let bound = FilterBlock::load(block.bound_to(file), context.with_file_id(file)).unwrap();
    let shrunk =
        FilterBlock::load(block.shrink_to(block.info().block_bytes).map(FilterBlock::into_inner).unwrap(), context)
            .unwrap();
    for other in [bound, shrunk] {
        assert_eq!(other.info().extractors, block.info().extractors);
        assert!((0..TENANTS).all(|number| other.may_contain_prefix(&parts.prefix(&hasher, &tenant(number)))));
        assert!(!other.may_contain_prefix(&parts.prefix(&hasher, b"zzzz")));
    }
}

// promise: limited-memory
#[test]
fn a_growing_filter_is_restored_from_a_block_of_whole_keys_alone_or_beside_parts_and_from_no_other() {
    let hasher = KeyHasher::default();
    let alone = KeyParts::extracted(Arc::new(FixedPrefix::new(4)));
    let restored = |parts: &KeyParts| {
        let policy = FixedPolicy::standard_bloom(BitsPerKey::TEN).unwrap();
        let mut builder = policy.builder(&BuildContext::new(&hasher).with_key_parts(parts.clone()));
        keys().for_each(|key| builder.add_key(&key));
        let block = builder.finish().block.unwrap();
        let contexts =
            [LoadContext::new(&hasher).with_key_parts(parts), LoadContext::new(&hasher).with_any_key_parts()];
        contexts.map(|context| StandardBloom::from_block(&block, context).and_then(|filter| filter.to_block()))
    };
    for refused in restored(&alone) {
        assert!(matches!(refused, Err(FilterError::Block(BlockError::ExtractorMismatch { .. }))), "{refused:?}");
    }
    let parts = whole_and(4);
    for block in restored(&parts).map(Result::unwrap) {
        let filter = FilterBlock::load(block, LoadContext::new(&hasher).with_key_parts(&parts)).unwrap();
        assert!(keys().all(|key| filter.may_contain(hasher.hash(&key))));
        assert!(filter.may_contain_prefix(&parts.prefix(&hasher, b"none")), "keys inserted since have no parts");
    }
}
