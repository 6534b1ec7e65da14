//! A set of tables compared with maps that are searched one after the other. The failures guarded against: a table is
//! skipped although the key is within its bounds (keys that share their first bytes, are shorter than eight, or equal a
//! bound); an older entry hides a newer one; counts add up only if no lookup ends early.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::AddNewest;

use bytes::Bytes;
use proptest::prelude::*;
use sstfilter::{
    BitsPerKey, BuildContext, FilterBlock, FilterPolicy, FilterStats, FixedPolicy, FixedPrefix, KeyExtractor,
    KeyHasher, KeyParts,
};
use sstfilter_store::ViewEdit;
use sstfilter_table::{Table, TableBuilder, TableOptions, TableSet};

type Model = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// The filter of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filter {
    Bloom(u32),
    /// Built with another hash than the set's, so it cannot be probed.
    Foreign,
    None,
}

/// Tables opened with the same options are probed together, others one by one.
fn reading(extractor: Option<&Arc<FixedPrefix>>) -> TableOptions {
    let read = TableOptions::default().with_hasher(KeyHasher::default());
    match extractor {
        Some(extractor) => read.with_extractor(extractor.clone()),
        None => read,
    }
}

fn table(model: &Model, filter: Filter, extractor: Option<&Arc<FixedPrefix>>, read: &TableOptions) -> Table {
    let mut options = TableOptions::default();
    options = match filter {
        Filter::Bloom(bits) => {
            let policy: Arc<dyn FilterPolicy> =
                Arc::new(FixedPolicy::bloom(BitsPerKey::new(bits.into()).unwrap()).unwrap());
            options.with_policy(policy)
        }
        Filter::Foreign => options.with_context(BuildContext::new(&KeyHasher::with_seed(1))),
        Filter::None => options.without_filter(),
    };
    if let Some(extractor) = extractor {
        options = options.with_extractor(extractor.clone());
    }
    Table::open_source(Bytes::from(crate::built(model, &options).0), read).unwrap()
}

/// The expected counts of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    range_skips: u64,
    filter: FilterStats,
}

/// A set without groups of tables: searches one table after the other.
struct Naive {
    models: Vec<Model>,
    /// Each table opened again, to probe its filter without counting.
    tables: Vec<Table>,
    counts: Vec<Counts>,
    touched: u64,
}

impl Naive {
    fn new(models: &[Model], filters: &[Filter], extractor: Option<&Arc<FixedPrefix>>) -> Self {
        let read = reading(extractor);
        let tables: Vec<Table> =
            models.iter().zip(filters).map(|(model, &filter)| table(model, filter, extractor, &read)).collect();
        let counts = vec![Counts::default(); models.len()];
        Self { models: models.to_vec(), tables, counts, touched: 0 }
    }

    fn holds(model: &Model, key: &[u8]) -> bool {
        let ends = model.keys().next().zip(model.keys().next_back());
        ends.is_some_and(|(smallest, largest)| smallest.as_slice() <= key && key <= largest.as_slice())
    }

    fn get(&mut self, key: &[u8], extractor: Option<&FixedPrefix>, filters: &[Filter]) -> Option<Vec<u8>> {
        let hasher = KeyHasher::default();
        let parts = extractor.map(|extractor| KeyParts::extracted(Arc::new(extractor.clone())));
        let is_probed = extractor.is_none_or(|extractor| extractor.extract(key).is_some());
        let may_contain = |block: &FilterBlock<Bytes>| match &parts {
            None => block.may_contain(hasher.hash(key)),
            Some(parts) => block.may_contain_prefix(&parts.prefix(&hasher, key)),
        };
        for (index, model) in self.models.iter().enumerate() {
            let counts = &mut self.counts[index];
            if !Self::holds(model, key) {
                counts.range_skips += 1;
                continue;
            }
            let found = model.get(key);
            match (filters[index], is_probed) {
                (Filter::None, _) | (_, false) => {}
                (Filter::Foreign, true) => counts.filter.unusable += 1,
                (Filter::Bloom(_), true) => {
                    if !may_contain(self.tables[index].filters().block().unwrap()) {
                        counts.filter.negatives += 1;
                        assert!(found.is_none());
                        continue;
                    }
                    counts.filter.positives += 1;
                    counts.filter.true_positives += u64::from(found.is_some());
                    counts.filter.false_positives += u64::from(found.is_none() && extractor.is_none());
                }
            }
            self.touched += 1;
            if let Some(value) = found {
                return value.clone();
            }
        }
        None
    }
}

/// Compares values, candidates and counts for the keys `asked`, in single lookups and batches, with tables that are
/// probed together and one by one.
fn assert_same(models: &[Model], filters: &[Filter], asked: &[Vec<u8>], extractor: Option<&Arc<FixedPrefix>>) {
    let shared = reading(extractor);
    let open = |read: &dyn Fn() -> TableOptions| {
        let tables = models.iter().zip(filters).map(|(model, &filter)| table(model, filter, extractor, &read()));
        crate::set_of(tables.collect())
    };
    assert_set_is_same(&open(&|| shared.clone()), models, filters, asked, extractor);
    assert_set_is_same(&open(&|| reading(extractor)), models, filters, asked, extractor);
}

fn assert_set_is_same(
    set: &TableSet,
    models: &[Model],
    filters: &[Filter],
    asked: &[Vec<u8>],
    extractor: Option<&Arc<FixedPrefix>>,
) {
    let tables = set.snapshot();
    let mut naive = Naive::new(models, filters, extractor);
    let mut lookups = 0;
    // Single lookups first, then batches: both must count the same.
    for round in 0..2 {
        let expected: Vec<_> = asked.iter().map(|key| naive.get(key, extractor.map(AsRef::as_ref), filters)).collect();
        let refs: Vec<&[u8]> = asked.iter().map(Vec::as_slice).collect();
        if round == 0 {
            let singly: Vec<_> = refs.iter().map(|key| set.get(key).unwrap().map(Vec::from)).collect();
            assert_eq!(singly, expected);
        } else {
            let batches = refs.chunks(32).flat_map(|keys| set.multi_get(keys));
            assert_eq!(batches.map(|value| value.unwrap().map(Vec::from)).collect::<Vec<_>>(), expected);
        }
        lookups += asked.len() as u64;

        let counted = tables.all_tables().map(|table| {
            let stats = table.stats();
            assert_eq!(table.filters().stats(), stats.filters);
            Counts { range_skips: stats.filters.skipped_by_bounds, filter: stats.filters.filter }
        });
        assert_eq!(counted.collect::<Vec<_>>(), naive.counts);
        let stats = set.stats().filters;
        assert_eq!((set.snapshot().view().lookups(), stats.searched), (lookups, naive.touched));
        assert_eq!(stats.skipped_by_bounds, naive.counts.iter().map(|counts| counts.range_skips).sum::<u64>());
        assert_eq!(stats.filter.negatives, naive.counts.iter().map(|counts| counts.filter.negatives).sum::<u64>());
    }
    let refs: Vec<&[u8]> = asked.iter().map(Vec::as_slice).collect();
    let mut of_each = vec![Vec::new(); asked.len()];
    let mut batch = tables.view().candidates_of_each(&refs);
    loop {
        let files = batch.next_files();
        if files.is_empty() {
            break;
        }
        files.iter().for_each(|&(index, table)| of_each[index].push(Arc::as_ptr(table)));
    }
    drop(batch);
    let all: Vec<&Arc<Table>> = tables.all_tables().collect();
    for (key, of_batch) in asked.iter().zip(of_each) {
        let candidates = crate::matches_of(set, key);
        assert_eq!(of_batch, candidates.iter().map(|&table| Arc::as_ptr(all[table])).collect::<Vec<_>>());
        let holders = (0..models.len()).filter(|&table| models[table].contains_key(key));
        assert!(holders.into_iter().all(|table| candidates.contains(&table)));
        assert!(candidates.iter().all(|&table| Naive::holds(&models[table], key)));
        let alone = (0..models.len()).filter(|&table| all[table].may_contain_key(key));
        assert_eq!(alone.collect::<Vec<_>>(), candidates);
    }
    assert_eq!(set.snapshot().view().lookups(), lookups + 2 * asked.len() as u64);
}

/// Returns every key, its neighbours in key order, its prefixes, and all bounds.
fn neighbours(models: &[Model]) -> Vec<Vec<u8>> {
    let around = |key: &Vec<u8>| {
        let after = [key.as_slice(), &[0]].concat();
        let mut before = key.clone();
        if let Some(last) = before.last_mut() {
            *last = last.wrapping_sub(1);
        }
        let prefix = key[..key.len() / 2].to_vec();
        [key.clone(), after, before, prefix]
    };
    // Around the eight bytes of a head, and the ends of key order.
    let edges = [vec![], vec![0], vec![255; 9], vec![255; 8], vec![0; 8], vec![0; 9]];
    models.iter().flat_map(Model::keys).flat_map(around).chain(edges).collect()
}

fn all(filter: Filter, count: usize) -> Vec<Filter> {
    vec![filter; count]
}

fn numbered(keys: impl IntoIterator<Item = u32>, age: usize) -> Model {
    let value = |key: u32| (!(key as usize + age).is_multiple_of(7)).then(|| format!("{key} of {age}").into_bytes());
    keys.into_iter().map(|key| (format!("tenant-0042/user:{key:06}").into_bytes(), value(key))).collect()
}

#[test]
fn overlapping_tables_answer_and_count_as_if_asked_one_by_one() {
    // Around the 64 tables of one word of a match bitmap.
    for count in [0, 1, 63, 64, 65, 130] {
        let models: Vec<Model> =
            (0..count).map(|age| numbered((0..40).map(|key| key * 131 % 997 + age % 9), age as usize)).collect();
        let asked: Vec<Vec<u8>> =
            numbered(0..1_010, 0).into_keys().chain(neighbours(&models[..models.len().min(3)])).collect();
        assert_same(&models, &all(Filter::Bloom(10), models.len()), &asked, None);
    }
}

#[test]
fn disjoint_tables_answer_and_count_as_if_asked_one_by_one() {
    let models: Vec<Model> =
        (0..150).map(|age| numbered((0..10).map(|key| age * 20 + key * 2), age as usize)).collect();
    assert_same(&models, &all(Filter::Bloom(10), 150), &neighbours(&models), None);
}

#[test]
fn tables_without_usable_filters_are_searched_and_counted_as_such() {
    let filters: Vec<Filter> = (0..70)
        .map(|table| match table % 5 {
            0 => Filter::Foreign,
            1 => Filter::None,
            // Almost no false positives, and many.
            2 => Filter::Bloom(24),
            _ => Filter::Bloom(3),
        })
        .collect();
    let models: Vec<Model> = (0..70).map(|age| numbered((0..20).map(|key| key * 17 + age), age as usize)).collect();
    let asked: Vec<Vec<u8>> = numbered(0..400, 0).into_keys().collect();
    assert_same(&models, &filters, &asked, None);
}

#[test]
fn keys_outside_the_extractors_domain_are_searched_without_filters() {
    let extractor = Arc::new(FixedPrefix::new(3));
    let key = |number: u32| format!("{:x}", number * 37).into_bytes();
    let models: Vec<Model> = (0..70)
        .map(|age| (0..30).map(|number| (key(number * 5 + age), Some(vec![7; age as usize]))).collect())
        .collect();
    let asked: Vec<Vec<u8>> = (0..300).map(key).chain(neighbours(&models[..2])).collect();
    assert_same(&models, &all(Filter::Bloom(10), 70), &asked, Some(&extractor));
}

#[test]
fn empty_tables_among_others_hold_nothing() {
    let models = [Model::new(), numbered(0..5, 1), Model::new(), numbered(3..9, 3)];
    assert_same(&models, &all(Filter::Bloom(10), 4), &neighbours(&models), None);
    let empty = [Model::new(), Model::new()];
    assert_same(&empty, &all(Filter::Bloom(10), 2), &neighbours(&empty), None);
}

// promise: threads
#[test]
fn threads_that_share_a_set_count_every_lookup() {
    let models: Vec<Model> = (0..70).map(|age| numbered((0..50).map(|key| key * 11 + age), age as usize)).collect();
    let read = reading(None);
    let set = crate::set_of(models.iter().map(|model| table(model, Filter::Bloom(10), None, &read)).collect());
    let asked: Vec<Vec<u8>> = numbered(0..800, 0).into_keys().collect();
    let refs: Vec<&[u8]> = asked.iter().map(Vec::as_slice).collect();
    refs.iter().for_each(|key| drop(set.get(key).unwrap()));
    let counts = || (set.snapshot().view().lookups(), set.stats().filters);
    let (lookups, once) = counts();
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (set, refs) = (&set, &refs);
            scope.spawn(move || {
                if thread % 2 == 0 {
                    refs.iter().for_each(|key| drop(set.get(key).unwrap()));
                } else {
                    refs.chunks(32).for_each(|keys| drop(set.multi_get(keys)));
                }
            });
        }
    });
    let (all_lookups, all) = counts();
    // Once by this thread, and once by each of six others.
    assert_eq!((all_lookups, all.searched), (lookups * 7, once.searched * 7));
    assert_eq!(all.skipped_by_bounds, once.skipped_by_bounds * 7);
    assert_eq!(all.filter.negatives, once.filter.negatives * 7);
    assert_eq!(all.filter.positives, once.filter.positives * 7);
}

fn any_key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        // Two letters and up to 10 bytes: many keys are prefixes of others, around the 8 bytes of a head.
        prop::collection::vec(0_u8..2, 0..11),
        prop::collection::vec(prop::sample::select(vec![0_u8, 1, 127, 128, 255]), 0..10),
        "shared/[ab]{0,10}".prop_map(String::into_bytes),
    ]
}

fn any_models() -> impl Strategy<Value = Vec<Model>> {
    let entries = |keys: BoxedStrategy<Vec<u8>>| {
        prop::collection::btree_map(keys, prop::option::of(prop::collection::vec(any::<u8>(), 0..4)), 0..12)
    };
    let mixed = prop::collection::vec(entries(any_key().boxed()), 0..8);
    // All keys of a set share a prefix, which may be longer than the eight bytes that are compared first.
    let shared = ("[xy]{0,12}", prop::collection::vec(entries(prop::collection::vec(0_u8..3, 0..12).boxed()), 0..70));
    let shared = shared.prop_map(|(prefix, models)| {
        let under = |(key, value): (Vec<u8>, _)| ([prefix.as_bytes(), &key].concat(), value);
        models.into_iter().map(|model: Model| model.into_iter().map(under).collect()).collect()
    });
    prop_oneof![mixed, shared]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::common::cases(32, 96)))]

    #[test]
    fn any_set_answers_and_counts_as_if_asked_one_by_one(models in any_models(), asked in prop::collection::vec(any_key(), 0..20)) {
        let asked: Vec<Vec<u8>> = asked.into_iter().chain(neighbours(&models)).collect();
        assert_same(&models, &all(Filter::Bloom(5), models.len()), &asked, None);
    }
}

#[test]
fn a_batch_reads_no_block_twice_that_a_cache_keeps() {
    let keys: Vec<Vec<u8>> = (0..32_u8).map(|key| vec![key]).collect();
    let refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    for level in [0, 1] {
        // One entry per block.
        let options = TableOptions::default().without_filter().with_block_bytes(64).unwrap();
        let mut builder = TableBuilder::new(Vec::new(), &options).unwrap();
        keys.iter().for_each(|key| builder.add(key, &[7; 64]).unwrap());
        let bytes = Bytes::from(builder.finish().unwrap().0);
        let table = Table::open_source(bytes, &TableOptions::default().with_block_cache(1 << 30)).unwrap();
        assert_eq!(table.properties().data_blocks, 32);
        // Reads the index, so that the counts below are only of data blocks.
        table.get(&keys[31]).unwrap();
        let set = TableSet::new([]).unwrap();
        set.apply(ViewEdit::new().add_newest(level, Arc::new(table))).unwrap();
        let counted = |keys: &[&[u8]]| {
            let before = set.stats();
            assert!(set.multi_get(keys).into_iter().all(|value| value.unwrap().unwrap() == [7; 64][..]));
            let after = set.stats();
            let reads = after.data_block_reads - before.data_block_reads;
            (reads, after.block_cache_hits - before.block_cache_hits)
        };
        assert_eq!(counted(&refs[..20]), (20, 0), "not in the cache");
        assert_eq!(counted(&refs[..20]), (0, 20), "in the cache");
        // The first key of a block reads it, and the others find it in the cache.
        let thrice = [refs[29], refs[29], refs[30], refs[29]];
        assert_eq!(counted(&thrice), (2, 2));
    }
}
