//! Names, counts and options that filters, policies and tables report. The failure guarded against: one of them is
//! wrong without losing a key. Every lookup is then right, but the dashboard, the log, or the size at which a table is
//! split is wrong.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use sstfilter::kind::{KindEntry, RibbonKind};
use sstfilter::{
    AutoPolicy, BitsPerKey, BlockBuilder, BuildContext, BuildPurpose, CountingBloom, CuckooFilter, DelimitedPrefix,
    DynamicFilter, FallbackReason, FalsePositiveRate, FilterBlock, FilterPolicy, FixedPolicy, FixedPrefix,
    HashIdentity, KeyExtractor, KeyHash, KeyHasher, KindId, MatchBitmap, Sizing,
};
use sstfilter_range::RangePolicy;
use sstfilter_store::FilterBudget;
use sstfilter_table::{Table, TableBuilder, TableOptions, TableWriter};

fn hashes(keys: u32) -> Vec<KeyHash> {
    let hasher = KeyHasher::default();
    (0..keys).map(|key| hasher.hash(&key.to_le_bytes())).collect()
}

fn bloom_block(keys: u32) -> Bytes {
    let mut builder = FixedPolicy::default().builder(&BuildContext::new(&KeyHasher::default()));
    builder.add_hashes(&hashes(keys));
    builder.finish().block.unwrap()
}

#[test]
fn every_kind_has_the_number_and_the_name_that_the_format_gives_it() {
    let kinds = [
        (KindId::BLOCKED_BLOOM, "bloom"),
        (KindId::RIBBON, "ribbon"),
        (KindId::STANDARD_BLOOM, "standard-bloom"),
        (KindId::COUNTING_BLOOM, "counting-bloom"),
        (KindId::REGISTER_BLOCKED_BLOOM, "register-blocked-bloom"),
        (KindId::CUCKOO, "cuckoo"),
        (KindId::XOR, "xor"),
        (KindId::XOR_PLUS, "xor+"),
        (KindId::BINARY_FUSE, "binary-fuse"),
        (KindId::LINE_RIBBON, "line-ribbon"),
    ];
    for (kind, name) in kinds {
        assert_eq!((kind.name(), kind.to_string().as_str()), (name, name));
        assert_eq!(format!("{kind:?}"), format!("KindId({}, {name})", kind.code()));
        assert!(KindId::from_code(kind.code()) == kind && !kind.is_user_defined());
    }
    for (code, name, is_user_defined) in
        [(127, "unknown", false), (128, "user-defined", true), (255, "user-defined", true)]
    {
        let kind = KindId::from_code(code);
        assert_eq!((kind.code(), kind.name(), kind.is_user_defined()), (code, name, is_user_defined));
    }
}

#[test]
fn every_fallback_reason_is_read_from_its_number_and_says_what_it_is() {
    let words = [
        "as requested",
        "too few keys",
        "not smaller",
        "too many keys",
        "memory budget",
        "construction failed",
        "self-check failed",
    ];
    for (code, words) in (0..).zip(words) {
        let reason = FallbackReason::from_code(code).unwrap();
        assert_eq!((reason.code(), reason.as_str(), reason.to_string().as_str()), (code, words, words));
    }
    assert_eq!(FallbackReason::from_code(7), None);
}

#[test]
fn policies_and_extractors_have_the_names_that_options_and_tables_show() {
    assert_eq!(FixedPolicy::default().name(), "bloom");
    assert_eq!(FixedPolicy::from(RibbonKind::same_rate_as_bloom(BitsPerKey::TEN).unwrap()).name(), "ribbon");
    assert_eq!(AutoPolicy::new(BitsPerKey::TEN).unwrap().name(), "auto");
    assert_eq!(FixedPrefix::new(3).name(), "fixed-prefix:3");
    assert_eq!(DelimitedPrefix::new(b'/').name(), "prefix-to-byte:0x2f");
}

#[test]
fn a_block_gives_back_its_bytes_its_size_its_rate_and_its_fill() {
    let bytes = bloom_block(1_000);
    let filter = FilterBlock::open_unverified(bytes.clone()).unwrap();
    assert_eq!((filter.as_bytes(), filter.clone().into_inner()), (&bytes[..], bytes.clone()));
    let info = filter.info();
    assert_eq!((info.keys, info.block_bytes), (1_000, bytes.len() as u64));
    let bits_per_key = bytes.len() as f64 * 8.0 / 1_000.0;
    assert!((info.bits_per_key() - bits_per_key).abs() < 1e-9, "{} bits per key", info.bits_per_key());
    // The rate of 10 bits per key is about 1 %, with half of the bits set.
    assert!((0.005..0.02).contains(&info.expected_fpr), "{}", info.expected_fpr);
    let fill = filter.fill_ratio().unwrap();
    assert!((0.35..0.65).contains(&fill), "{fill}");
}

#[test]
fn a_batch_of_answers_counts_and_lists_the_keys_that_may_be_present() {
    let bytes = bloom_block(100);
    let filter = FilterBlock::open_unverified(&bytes).unwrap();
    let asked = hashes(2_000);
    let mut matches = MatchBitmap::default();
    filter.may_contain_batch(&asked, &mut matches);
    let one_by_one: Vec<usize> = (0..asked.len()).filter(|&key| filter.may_contain(asked[key])).collect();
    assert!(one_by_one.len() < 300 && (0..100).all(|key| one_by_one[key] == key));
    assert_eq!((matches.len(), matches.is_empty(), matches.count()), (2_000, false, one_by_one.len() as u64));
    assert_eq!(matches.iter().collect::<Vec<_>>(), one_by_one);
    assert!(matches.may_contain(2_000) && matches.may_contain(usize::MAX), "beyond the end nothing is known");
}

/// A policy that records the context from the table's options, and builds no filter.
#[derive(Debug, Default)]
struct Listening(Mutex<Option<BuildContext>>);

impl FilterPolicy for Listening {
    fn name(&self) -> &'static str {
        "listening"
    }

    fn builder(&self, context: &BuildContext) -> Option<Box<dyn BlockBuilder>> {
        *self.0.lock().unwrap() = Some(context.clone());
        None
    }
}

#[test]
fn all_that_the_options_say_of_a_table_reaches_its_policy() {
    let policy = Arc::new(Listening::default());
    let hasher = KeyHasher::with_seed(7);
    let options = TableOptions::default()
        .with_context(
            BuildContext::new(&hasher)
                .with_purpose(BuildPurpose::Compaction)
                .with_level(3)
                .at_bottommost_level()
                .with_expected_keys(11)
                .with_memory_budget(1 << 20),
        )
        .with_policy(Arc::clone(&policy) as Arc<dyn FilterPolicy>);
    TableBuilder::new(Vec::new(), &options).unwrap().add(b"key", b"value").unwrap();
    let told = policy.0.lock().unwrap().take().unwrap();
    assert_eq!((told.purpose, told.level, told.bottommost), (BuildPurpose::Compaction, Some(3), true));
    assert_eq!((told.expected_keys, told.memory_budget), (Some(11), Some(1 << 20)));
    assert_eq!(told.hasher.identity(), hasher.identity());
}

fn table(keys: impl IntoIterator<Item = u32>, options: &TableOptions) -> Bytes {
    let mut builder = TableBuilder::new(Vec::new(), options).unwrap();
    keys.into_iter().for_each(|key| builder.add(format!("key{key:06}").as_bytes(), &[7; 20]).unwrap());
    builder.finish().unwrap().0.into()
}

#[test]
fn a_table_says_which_level_it_was_written_for() {
    for level in [None, Some(0), Some(6)] {
        let mut context = BuildContext::new(&KeyHasher::default());
        context.level = level;
        let bytes = table(0..10, &TableOptions::default().with_context(context));
        assert_eq!(Table::open_source(bytes, &TableOptions::default()).unwrap().properties().level, level);
    }
}

#[test]
fn the_size_of_a_table_in_the_making_is_estimated_at_every_number_of_entries() {
    let options = TableOptions::default();
    let mut builder = TableBuilder::new(Vec::new(), &options).unwrap();
    for key in 0..5_000 {
        assert_eq!(builder.entries(), u64::from(key));
        builder.add(format!("key{key:06}").as_bytes(), &[7; 20]).unwrap();
        if [0, 9, 99, 999, 4_999].contains(&key) {
            let (estimated, exact) = (builder.estimated_bytes(), table(0..=key, &options).len() as u64);
            assert!(estimated.abs_diff(exact) <= 512 + exact / 20, "{} entries: {estimated}, not {exact}", key + 1);
        }
    }
}

#[test]
fn a_reader_without_filters_asks_none_and_finds_the_same() {
    let bytes = table((0..1_000).map(|key| key * 2), &TableOptions::default());
    let with = Table::open_source(bytes.clone(), &TableOptions::default()).unwrap();
    let without = Table::open_source(bytes, &TableOptions::default().without_filter()).unwrap();
    for key in 0..2_000 {
        let key = format!("key{key:06}");
        assert_eq!(with.get(key.as_bytes()).unwrap(), without.get(key.as_bytes()).unwrap());
    }
    let (with, without) = (with.stats(), without.stats());
    // Of 1,000 absent keys, about 1 % are false positives.
    assert!(with.filters.filter.negatives > 900 && without.filters.filter.negatives == 0, "{with:?} {without:?}");
    // One block for each of the 1,000 present keys, and for each false positive.
    assert!(with.data_block_reads < 1_100 && without.data_block_reads > 1_900, "{with:?} {without:?}");
    assert_eq!((with.index_block_reads, without.index_block_reads), (1, 1));
}

#[test]
fn the_counts_of_a_set_are_the_sums_of_those_of_its_tables() {
    let open = |keys: std::ops::Range<u32>| {
        Table::open_source(table(keys.map(|key| key * 2), &TableOptions::default()), &TableOptions::default()).unwrap()
    };
    let set = crate::set_of(vec![open(0..500), open(400..900), open(1_000..1_500)]);
    for key in 0..3_200 {
        set.get(format!("key{key:06}").as_bytes()).unwrap();
    }
    let stats = set.stats();
    let sum = |count: fn(&sstfilter_table::TableStats) -> u64| {
        crate::tables_of(&set).iter().map(|table| count(&table.stats())).sum::<u64>()
    };
    assert_eq!(set.snapshot().view().lookups(), 3_200);
    assert_eq!(stats.filters.skipped_by_bounds, sum(|table| table.filters.skipped_by_bounds));
    assert_eq!(stats.index_block_reads, 3);
    assert_eq!(stats.data_block_reads, sum(|table| table.data_block_reads));
    assert_eq!(stats.bytes_read, sum(|table| table.bytes_read));
    assert!(stats.bytes_read > stats.data_block_reads * 1_000, "{stats:?}");
}

#[test]
fn the_candidates_of_many_keys_are_those_of_each_in_sets_of_more_than_64_tables() {
    let open = |first: u32| {
        Table::open_source(
            table((0..50).map(|key| first + key * 3), &TableOptions::default()),
            &TableOptions::default(),
        )
    };
    let set = crate::set_of((0..70).map(|first| open(first * 2).unwrap()).collect());
    let keys: Vec<String> = (0..320).map(|key| format!("key{key:06}")).collect();
    let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    let batched = crate::batch_matches_of(&set, &keys);
    for (key, batched) in keys.iter().zip(&batched) {
        assert_eq!(batched, &crate::matches_of(&set, key));
    }
    let count = batched.iter().map(Vec::len).sum::<usize>();
    assert!(count > 3_000, "{count} candidates");
}

#[test]
fn a_file_in_the_making_has_the_counts_and_sizes_of_the_table_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let options = TableOptions::default();
    let mut writer = TableWriter::create(directory.path().join("counted.sst"), &options).unwrap();
    let mut builder = TableBuilder::new(Vec::new(), &options).unwrap();
    for key in 0..3_000_u32 {
        assert_eq!((writer.entries(), writer.estimated_bytes()), (builder.entries(), builder.estimated_bytes()));
        writer.add(format!("key{key:06}").as_bytes(), &[7; 90]).unwrap();
        builder.add(format!("key{key:06}").as_bytes(), &[7; 90]).unwrap();
    }
    let path = writer.finish().unwrap().path.unwrap();
    let (written, built) = (std::fs::metadata(path).unwrap().len(), builder.finish().unwrap().0.len() as u64);
    assert!(written == built && written > 250_000, "{written} and {built} bytes");
}

#[test]
fn a_reader_with_another_extractor_is_told_what_both_have() {
    let options = TableOptions::default().with_extractor(Arc::new(FixedPrefix::new(4)));
    let bytes = table(0..100, &options);
    let table = Table::open_source(bytes.clone(), &TableOptions::default()).unwrap();
    let error = table.filter_problem().unwrap();
    assert!(error.is_foreign_filter());
    let message = error.to_string();
    assert!(message.contains("fixed-prefix:4") && message.contains("whole keys"), "{message}");
}

#[test]
fn the_block_of_a_filter_that_changes_is_as_full_as_the_filter() {
    let fill_of = |block: Bytes| FilterBlock::open_unverified(block).unwrap().fill_ratio().unwrap();
    let mut counting = CountingBloom::for_size(HashIdentity::default(), 1_000, BitsPerKey::TEN).unwrap();
    let mut cuckoo = CuckooFilter::for_rate(HashIdentity::default(), 1_000, FalsePositiveRate::ONE_PERCENT).unwrap();
    for hash in hashes(1_000) {
        counting.insert(hash);
        cuckoo.insert(hash).unwrap();
    }
    let (of_counting, of_cuckoo) = (fill_of(counting.to_block().unwrap()), fill_of(cuckoo.to_block().unwrap()));
    // About half of the counters, and 1,000 of at most about 1,200 slots, are in use.
    assert!((0.4..0.6).contains(&of_counting) && (0.4..=1.0).contains(&of_cuckoo), "{of_counting} {of_cuckoo}");
    assert!((of_counting - counting.health().fill_ratio).abs() < 1e-9, "{of_counting}");
    assert!((of_cuckoo - cuckoo.health().fill_ratio).abs() < 1e-9, "{of_cuckoo}");
}

#[test]
fn a_block_of_every_kind_expects_the_rate_that_its_policy_was_asked_for() {
    let asked = 1.0 / 256.0;
    let rate = FalsePositiveRate::new(asked).unwrap();
    let xor = |layout| Box::new(KindEntry::named(layout).unwrap().configure(Sizing::FingerprintBits(8)).unwrap());
    let policies: [(Box<dyn FilterPolicy>, KindId); 7] = [
        (Box::new(FixedPolicy::bloom(rate).unwrap()), KindId::BLOCKED_BLOOM),
        (Box::new(FixedPolicy::standard_bloom(rate).unwrap()), KindId::STANDARD_BLOOM),
        (Box::new(FixedPolicy::ribbon(rate).unwrap()), KindId::RIBBON),
        (xor("xor"), KindId::XOR),
        (xor("xor+"), KindId::XOR_PLUS),
        (Box::new(FixedPolicy::binary_fuse(Sizing::FingerprintBits(8)).unwrap()), KindId::BINARY_FUSE),
        (Box::new(FixedPolicy::line_ribbon(rate).unwrap()), KindId::LINE_RIBBON),
    ];
    for (policy, kind) in policies {
        let mut builder = policy.builder(&BuildContext::new(&KeyHasher::default())).unwrap();
        builder.add_hashes(&hashes(20_000));
        let built = builder.finish();
        let info = FilterBlock::open_unverified(built.block.unwrap()).unwrap().info();
        assert_eq!((info.kind, built.report.used), (kind, Some(kind)));
        assert!((0.9..1.01).contains(&(info.expected_fpr / asked)), "{kind}: {}", info.expected_fpr);
        assert!((info.expected_fpr - built.report.expected_fpr).abs() < 1e-12, "{kind}: {}", built.report.expected_fpr);
    }
}

#[test]
fn a_table_brings_its_counts_into_a_set_and_another_readers_filter_is_probed_for_itself() {
    let bytes = table((0..1_000).map(|key| key * 2), &TableOptions::default());
    let open = |options: &TableOptions| Table::open_source(bytes.clone(), options).unwrap();
    let table = open(&TableOptions::default());
    (0..999).for_each(|key| drop(table.get(format!("key{:06}", key * 2 + 1).as_bytes()).unwrap()));
    let before = table.stats();
    assert!(before.filters.filter.negatives > 900, "{before:?}");
    let set = crate::set_of(vec![table]);
    assert_eq!(crate::tables_of(&set)[0].stats(), before);
    assert!(crate::tables_of(&set)[0].filter_problem().is_none());

    let hasher = KeyHasher::with_seed(7);
    let options = TableOptions::default().with_context(BuildContext::new(&hasher));
    let other = self::table((0..1_000).map(|key| key * 2 + 1), &options);
    let other = Table::open_source(other, &TableOptions::default().with_hasher(hasher)).unwrap();
    let set = crate::set_of(vec![open(&TableOptions::default()), other]);
    for key in 0..2_000 {
        assert!(set.get(format!("key{key:06}").as_bytes()).unwrap().is_some(), "key {key}");
    }
    for table in crate::tables_of(&set) {
        let stats = table.stats().filters.filter;
        assert!(stats.true_positives == 1_000 && stats.unusable == 0, "{stats:?}");
    }
    assert!(set.stats().filters.filter.negatives > 900, "{:?}", set.stats());
}

/// An engine exports each figure by its name, or all of them as JSON.
#[test]
fn every_figure_is_visited_once_and_is_in_the_json() {
    let budget = FilterBudget::new(1 << 20);
    let ranges = RangePolicy::ordered(FalsePositiveRate::ONE_PERCENT).unwrap();
    let options = TableOptions::default().with_range_filter(ranges).with_filter_budget(budget.clone());
    let table = Table::open_source(table((0..1_000).map(|key| key * 2), &options), &options).unwrap();
    (0..2_000).for_each(|key| drop(table.get(format!("key{key:06}").as_bytes()).unwrap()));
    let _ = table.filters().may_contain_range(&b"key000001"[..]..&b"key0000011"[..]);
    let stats = table.filters().stats();
    let mut visited = BTreeMap::new();
    stats.visit(|name, count| assert_eq!(visited.insert(name, count), None, "{name}"));
    assert_eq!(visited.len(), 15);
    let named = |name: &str| visited[name];
    assert_eq!(named("filter_true_positives_total"), 1_000);
    assert_eq!(named("filter_negatives_total"), stats.filter.negatives);
    assert_eq!(named("range_filter_negatives_total") + named("range_filter_positives_total"), 1);
    assert_eq!(named("filter_searched_files_total"), stats.searched);
    assert_eq!((named("filter_overfull_files"), stats.overfull), (0, 0));
    let mut in_budget = BTreeMap::new();
    budget.stats().visit(|name, figure| assert_eq!(in_budget.insert(name, figure), None, "{name}"));
    assert_eq!((in_budget["filter_budget_limit_bytes"], in_budget["filter_budget_loads_total"]), (1 << 20, 2));

    let numbers = |value: &serde_json::Value| -> u64 {
        let fields = value.as_object().unwrap();
        let number = |field: &serde_json::Value| field.as_u64().or_else(|| Some(field.as_object()?.len() as u64));
        fields.values().map(|field| number(field).unwrap()).sum()
    };
    let json = serde_json::to_value(stats).unwrap();
    assert_eq!(json["filter"]["true_positives"], 1_000);
    assert_eq!(
        numbers(&json["filter"]) + numbers(&json["ranges"]),
        visited.values().sum::<u64>() - stats.searched - stats.skipped_by_bounds
    );
    assert_eq!(numbers(&serde_json::to_value(budget.stats()).unwrap()), in_budget.values().sum::<u64>());
}
