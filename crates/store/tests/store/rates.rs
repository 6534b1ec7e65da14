//! Counts of levels, compared with what was really searched: a wrong rate hides a bad filter.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use sstfilter::{DelimitedPrefix, FalsePositiveRate, FileId, Filters, FixedPolicy, FixedPrefix, KeyParts};
use sstfilter_range::{RangePolicy, RangeUnits};
use sstfilter_store::{
    FileFilters, FileStats, FilterBudget, FilterStore, FilterView, PartitionCut, PartitionOptions, ViewEdit,
};

use crate::common::effort;
use crate::common::random::Random;
use crate::engine::{AddNewest, File, all_candidates, file, file_to_be_read, numbered, unfiltered, view_of};

/// What the lookups of a level met, as the engine sees it.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    /// Files that lookups reached, with the key within their bounds but not in the file.
    absent: u64,
    /// Files of these that were searched.
    for_nothing: u64,
    /// Files that contained the key.
    found: u64,
    searched: u64,
}

/// Numbers of keys; those in files are even.
const NUMBERS: u32 = 40_000;

fn rate(rate: f64) -> Arc<FixedPolicy> {
    Arc::new(FixedPolicy::ribbon(FalsePositiveRate::new(rate).unwrap()).unwrap().with_min_keys(0))
}

/// Looks up keys, one at a time or several, and counts.
fn look_up(view: &FilterView<File>, random: &mut Random, lookups: usize, met: &mut [Met; 2]) {
    for _ in 0..lookups {
        let keys: Vec<[u8; 4]> = (0..=random.below(3))
            .map(|_| u32::try_from(random.below(NUMBERS as usize + 100)).unwrap().to_be_bytes())
            .collect();
        let mut ends = vec![None; keys.len()];
        let mut given: Vec<Vec<*const File>> = vec![Vec::new(); keys.len()];
        if let [key] = &keys[..] {
            let mut candidates = view.candidates(key);
            while let Some(file) = candidates.next_file() {
                given[0].push(Arc::as_ptr(file));
                if file.has(key) {
                    ends[0] = Some(Arc::as_ptr(file));
                    candidates.found();
                    break;
                }
            }
        } else {
            let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
            let mut batch = view.candidates_of_each(&keys);
            loop {
                let files: Vec<_> = batch.next_files().iter().map(|(at, file)| (*at, Arc::clone(file))).collect();
                if files.is_empty() {
                    break;
                }
                for (at, file) in files {
                    given[at].push(Arc::as_ptr(&file));
                    if file.has(keys[at]) {
                        ends[at] = Some(Arc::as_ptr(&file));
                        batch.found(at);
                    }
                }
            }
        }
        for ((key, given), end) in keys.iter().zip(given).zip(ends) {
            'levels: for level in 0..2 {
                for file in view.files(level) {
                    let is_given = given.contains(&Arc::as_ptr(file));
                    let bounds = file.filters.metadata().key_bounds();
                    let is_in_bounds = bounds.is_none_or(|(from, to)| from <= &key[..] && &key[..] <= to);
                    let met = &mut met[level as usize];
                    met.searched += u64::from(is_given);
                    if end == Some(Arc::as_ptr(file)) {
                        met.found += 1;
                        break 'levels;
                    }
                    assert!(is_in_bounds || !is_given);
                    met.absent += u64::from(is_in_bounds);
                    met.for_nothing += u64::from(is_given);
                }
            }
        }
    }
}

/// Returns a view of files that overlap and files that do not, each with a quarter of the keys within its bounds.
fn view(
    store: &FilterStore,
    random: &mut Random,
    open: impl Fn(&FilterStore, Vec<Vec<u8>>) -> Arc<File>,
) -> FilterView<File> {
    let mut edit = ViewEdit::new();
    let mut keys = |from: u32, to: u32| numbered((from..to).step_by(2).filter(|_| random.one_in(2)));
    for number in 0..70_u32 {
        let from = number * 400 % (NUMBERS - 4_000);
        edit = edit.add_newest(0, open(store, keys(from, from + 4_000)));
    }
    for number in 0..80_u32 {
        edit = edit.add(1, open(store, keys(number * 500, number * 500 + 500)));
    }
    FilterView::new(store).edited(edit).unwrap()
}

/// Checks that `observed` is within four standard errors of the rate that was met.
fn assert_rate(observed: Option<f64>, met: &Met, what: &str) {
    let (expected, trials) = (met.for_nothing as f64 / met.absent as f64, met.absent as f64);
    let sigma = (expected * (1.0 - expected) / trials).sqrt();
    let observed = observed.unwrap();
    assert!((observed - expected).abs() <= 4.0 * sigma + 1e-12, "{what}: counted {observed}, met {expected}");
}

/// Checks that counts are exact, if nothing is lost on the way.
fn assert_exact(stats: &FileStats, met: &Met, what: &str) {
    let filter = stats.filter;
    assert_eq!(stats.searched, met.searched, "{what}: {stats:?}");
    assert_eq!(filter.true_positives + filter.false_positives, filter.positives, "{what}: {stats:?}");
    assert_eq!(filter.negatives + filter.false_positives, met.absent, "{what}: {stats:?} {met:?}");
    assert_eq!((filter.true_positives, filter.false_positives), (met.found, met.for_nothing), "{what}");
}

fn lookups() -> usize {
    if effort::is_long() { 100_000 } else { 6_000 / effort::stride(3) }
}

fn partitioned(cut: PartitionCut) -> FilterStore {
    FilterStore::default().with_partitions(PartitionOptions::new(cut, 1 << 10).unwrap())
}

#[test]
fn a_range_filter_that_cannot_be_used_is_counted_by_scans() {
    let units = RangeUnits::integer(8).unwrap().with_prefix(Arc::new(FixedPrefix::new(2)));
    let within = RangePolicy::hashed(units, 64, FalsePositiveRate::ONE_PERCENT).unwrap();
    let writer = FilterStore::default().with_range_filters(within);
    let mut builder = writer.builder(FileId::random());
    (0..100_u64).for_each(|number| builder.add_key(&[b"ab", &(number * 1_000).to_be_bytes()[..]].concat()));
    let (bytes, metadata) = builder.finish().seal();
    // Knows nothing of the extractor.
    let reader = FilterStore::default();
    let file = Arc::new(reader.open(metadata, bytes));
    let view = FilterView::<FileFilters>::new(&reader).edited(ViewEdit::new().add(1, file.clone())).unwrap();
    let [from, to] = [1_100_u64, 1_150].map(|number| [b"ab", &number.to_be_bytes()[..]].concat());
    assert_eq!(view.candidates_in_range(&from[..]..&to[..]).count(), 1);
    assert_eq!(view.stats().ranges.unusable, 1);
    let problem = file.range_problem().unwrap().to_string();
    assert!(problem.contains("expected one of ranges of whole keys, got ranges within 'fixed-prefix:2'"), "{problem}");
}

#[test]
fn rates_of_levels_are_those_of_files_that_were_searched_for_nothing() {
    for (store, name) in [
        (FilterStore::default(), "whole"),
        (FilterStore::default().with_budget(FilterBudget::unlimited()), "whole, loaded when probed"),
        (partitioned(PartitionCut::KeyRange), "by key range"),
        (partitioned(PartitionCut::HashRange), "by hash range"),
        (partitioned(PartitionCut::HashRange).with_budget(FilterBudget::unlimited()), "by hash range, with a budget"),
    ] {
        let store = store.with_policy(rate(0.05));
        let (mut random, mut met) = (Random::new(5), [Met::default(); 2]);
        let view = view(&store, &mut random, file);
        look_up(&view, &mut random, lookups(), &mut met);
        for (level, met) in (0..).zip(&met) {
            let stats = view.level_stats(level);
            let what = format!("{name}, level {level}");
            assert_exact(&stats, met, &what);
            assert_rate(stats.filter.observed_fpr(), met, &what);
            // Filters of this few keys round their columns up. However many lookups there are, the sorted level has
            // about 30,000 pairs of a file and a key that it lacks, and each pair always has the same answer: five
            // standard errors.
            let observed = stats.filter.observed_fpr().unwrap();
            assert!((0.03..0.057).contains(&observed), "{what}: {observed}");
        }
    }
}

#[test]
fn rates_under_a_budget_that_holds_a_part_are_those_of_the_searches() {
    for (bytes, cut) in [
        (0, None),
        (8_000, None),
        (40_000, None),
        (40_000, Some(PartitionCut::KeyRange)),
        (20_000, Some(PartitionCut::HashRange)),
    ] {
        let store = cut.map_or_else(FilterStore::default, partitioned).with_policy(rate(0.02));
        let budget = FilterBudget::new(bytes).with_probes_per_plan(2_000);
        let store = store.with_budget(budget.clone());
        let (mut random, mut met) = (Random::new(6), [Met::default(); 2]);
        let view = view(&store, &mut random, file);
        look_up(&view, &mut random, lookups() / 2, &mut met);
        budget.set_bytes(bytes * 2);
        look_up(&view, &mut random, lookups() / 2, &mut met);
        for (level, met) in (0..).zip(&met) {
            let (stats, what) = (view.level_stats(level), format!("{bytes} bytes, {cut:?}, level {level}"));
            let filter = stats.filter;
            assert_eq!(stats.searched, met.searched, "{what}");
            assert_eq!(filter.probes(), met.absent + met.found, "{what}: {stats:?} {met:?}");
            assert!(filter.is_consistent());
            // Files whose filters are not in memory are searched, too.
            let searched = filter.positives + filter.not_loaded;
            assert_eq!(searched, met.searched, "{what}: {stats:?}");
        }
        let loaded = budget.stats();
        assert!(loaded.used_bytes <= bytes * 2 && (bytes == 0) == (loaded.used_bytes == 0), "{loaded:?}");
    }
}

#[test]
fn rates_stay_those_of_the_searches_across_edits_and_in_old_views() {
    let store = FilterStore::default().with_policy(rate(0.05));
    let lazy = store.clone().with_budget(FilterBudget::unlimited());
    let (mut random, mut met) = (Random::new(7), [Met::default(); 2]);
    let mut view = view(&store, &mut random, file);
    let mut before = view.clone();
    for round in 0..30 {
        look_up(&view, &mut random, lookups() / 30, &mut met);
        let of_level = |level: u32| view.files(level).cloned().collect::<Vec<_>>();
        let (overlapping, sorted) = (of_level(0), of_level(1));
        let mut edit = ViewEdit::new();
        // Files that lookups in the previous view still count for stay in the view, so that the counts are complete.
        let fresh = |keys: &std::collections::BTreeSet<Vec<u8>>| {
            file(if round % 3 == 0 { &lazy } else { &store }, keys.iter().cloned())
        };
        let at = random.below(overlapping.len());
        edit = edit.replace(0, &overlapping[at], fresh(&overlapping[at].keys));
        let at = random.below(sorted.len());
        edit = edit.replace(1, &sorted[at], fresh(&sorted[at].keys));
        let next = view.edited(edit).unwrap();
        let stats = [0, 1].map(|level| (view.level_stats(level), next.level_stats(level)));
        assert!(stats.iter().all(|(one, other)| one == other), "an edit counts nothing: {stats:?}");
        before = core::mem::replace(&mut view, next);
    }
    for (level, met) in (0..).zip(&met) {
        assert_exact(&view.level_stats(level), met, &format!("level {level}"));
    }
    // In an old view, for the files that the new view still has: all except one of each level.
    let replaced: Vec<_> = (0..2)
        .map(|level| {
            before.files(level).filter(|file| !view.files(level).any(|other| Arc::ptr_eq(file, other))).count()
        })
        .collect();
    assert_eq!(replaced, [1, 1]);
    let start = [0, 1].map(|level| before.level_stats(level));
    let mut of_old = [Met::default(); 2];
    look_up(&before, &mut random, lookups() / 10, &mut of_old);
    for (level, met) in (0..).zip(&of_old) {
        let counted = before.level_stats(level).since(&start[level as usize]);
        assert_exact(&counted, met, &format!("old view, level {level}"));
    }
}

#[test]
fn a_file_that_moves_brings_no_counts_to_its_new_level() {
    let store = FilterStore::default();
    let (moved, other) = (file(&store, numbered((0..100).step_by(2))), file(&store, numbered(500..600)));
    let view = view_of(&store, &[(0, &moved), (1, &other)]);
    for number in 0..100_u32 {
        let _ = crate::engine::all_candidates(&view, &number.to_be_bytes());
    }
    let after = view.edited(ViewEdit::new().remove(0, &moved).add(1, moved.clone())).unwrap();
    assert_eq!(after.level_stats(1).searched, 0);
    assert_eq!(view.level_stats(0), moved.filters.stats());
    assert_eq!(after.level_stats(0), moved.filters.stats(), "what was counted there stays");
    for number in 0..99_u32 {
        let _ = crate::engine::all_candidates(&after, &number.to_be_bytes());
    }
    assert_eq!(after.level_stats(1).filter.probes(), 99);
}

#[test]
fn a_lookup_under_way_hides_no_rate() {
    let store = FilterStore::default().with_policy(rate(0.05));
    let files: Vec<_> = (0..20).map(|at| file(&store, numbered((0..1_000).map(|number| number * 20 + at)))).collect();
    let view = view_of(&store, &files.iter().map(|file| (0, file)).collect::<Vec<_>>());
    let given = |number: &u32| all_candidates(&view, &number.to_be_bytes()).len();
    let two = (0..19_000).find(|number| given(number) > 2).unwrap().to_be_bytes();
    let quiet = view.level_stats(0).filter.observed_fpr().unwrap();
    let mut candidates = view.candidates(&two);
    assert!(candidates.next_file().is_some() && candidates.next_file().is_some());
    let under_way = view.level_stats(0).filter.observed_fpr();
    assert_eq!(under_way, Some(quiet), "the file that it has passed counts with its probe");
    drop(candidates);
    let stats = view.level_stats(0).filter;
    assert_eq!(stats.positives - stats.false_positives, 1, "the second one has no outcome: {stats:?}");
}

#[test]
fn an_edit_that_takes_a_file_out_and_puts_it_back_counts_nothing_twice() {
    let store = FilterStore::default();
    let file = file(&store, numbered((0..1_000).map(|number| number * 2)));
    let view = Mutex::new(view_of(&store, &[(1, &file)]));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let view = view.lock().unwrap().clone();
                (0..50_u32).for_each(|number| drop(all_candidates(&view, &(number * 2).to_be_bytes())));
            }
        });
        for _ in 0..20_000 {
            let before = view.lock().unwrap().clone();
            let edit = ViewEdit::new().remove(1, &file).add(1, file.clone());
            *view.lock().unwrap() = before.edited(edit).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(view.lock().unwrap().level_stats(1), file.filters.stats());
}

#[test]
fn keys_that_no_filter_is_probed_for_do_not_raise_its_rate() {
    // With only parts, keys without one, missing or not, say nothing about the filter.
    let parts = KeyParts::extracted(Arc::new(DelimitedPrefix::new(b':')));
    let store =
        FilterStore::new(Filters::default().with_key_parts(parts.with_extractor(Arc::new(FixedPrefix::new(20)))));
    let keys = crate::engine::tagged("t", 0..50);
    for level in [0, 1] {
        let file = file(&store, keys.clone());
        let view = view_of(&store, &[(level, &file)]);
        for number in 0..40_u32 {
            let _ = crate::engine::all_candidates(&view, &format!("t:{number:05}+").into_bytes());
            assert_eq!(
                crate::engine::all_candidates(&view, format!("t:{number:05}").replace(':', ";").as_bytes()).len(),
                0
            );
        }
        let filter = view.level_stats(level).filter;
        assert!(filter.observed_fpr().is_none_or(|rate| rate == 0.0), "level {level}: {filter:?}");
    }
}

/// An operator who watches the rate of useless reads must see those of prefix scans, too.
#[test]
fn scans_of_prefixes_record_what_became_of_the_point_filters_answers() {
    let extractor = || Arc::new(FixedPrefix::new(4));
    for parts in [KeyParts::whole_keys().with_extractor(extractor()), KeyParts::extracted(extractor())] {
        let filters = Filters::new(rate(0.2)).with_key_parts(parts);
        let whole = FilterStore::new(filters.clone());
        let cut = |cut| whole.clone().with_partitions(PartitionOptions::new(cut, 1 << 10).unwrap());
        for store in [whole.clone(), cut(PartitionCut::KeyRange), cut(PartitionCut::HashRange)] {
            let keys = numbered((0..8_000).map(|tenant| tenant * 10));
            let view = view_of(&store, &[(1, &file(&store, keys))]);
            let (mut found, mut for_nothing) = (0, 0);
            for tenant in 0..8_000_u32 {
                for (tenant, is_found) in [(tenant * 10, true), (tenant * 10 + 5, false)] {
                    let prefix = tenant.to_be_bytes();
                    for candidate in view.candidates_by_prefix(&prefix) {
                        candidate.record(is_found);
                        if candidate.was_probed() {
                            *(if is_found { &mut found } else { &mut for_nothing }) += 1;
                        }
                    }
                }
            }
            let stats = view.level_stats(1).filter;
            assert_eq!((stats.true_positives, stats.false_positives), (found, for_nothing), "{store:?}");
            assert!(found > 7_900, "{found}: all but those in the prefixes of the smallest and largest key");
            let rate = stats.useless_read_rate().unwrap();
            assert!((0.15..0.25).contains(&rate) && stats.is_consistent(), "{rate}: {stats:?}");
        }
    }
}

#[test]
fn scans_count_only_what_the_range_filter_was_probed_for() {
    use sstfilter_range::RangePolicy;
    let policy = RangePolicy::ordered(FalsePositiveRate::new(0.1).unwrap()).unwrap();
    for store in [FilterStore::default(), FilterStore::default().with_budget(FilterBudget::unlimited())] {
        let store = store.with_range_filters(policy.clone());
        let mut random = Random::new(3);
        let file = file(&store, numbered((0..8_000_000).step_by(1_000).filter(|_| random.one_in(2))));
        let view = view_of(&store, &[(0, &file)]);
        let (mut probed, mut found, mut for_nothing, mut skipped) = (0, 0, 0, 0);
        for _ in 0..5_000 {
            let from = u32::try_from(random.below(8_000_000)).unwrap();
            let (from, to) = (from.to_be_bytes(), (from + 300).to_be_bytes());
            let Some(candidate) = view.candidates_in_range(&from[..]..&to[..]).next() else {
                skipped += 1;
                continue;
            };
            let has_any = file.first_in((&from[..]..&to[..]).into()).is_some();
            if candidate.was_probed() {
                probed += 1;
                found += u64::from(has_any);
                for_nothing += u64::from(!has_any);
                candidate.record(has_any);
            }
        }
        let stats = file.filters.stats().ranges;
        assert_eq!((stats.true_positives, stats.false_positives), (found, for_nothing), "{stats:?}");
        assert_eq!(stats.positives, probed, "{stats:?}");
        assert!(stats.negatives <= skipped && skipped - stats.negatives < 20, "{stats:?}: {skipped} were skipped");
    }
}

#[test]
fn files_without_filters_and_files_to_be_read_count_searches_and_no_rate() {
    let store = FilterStore::default();
    let plain = unfiltered(&store, numbered(0..10), ..);
    let unread = file_to_be_read(&store, numbered((0..20).step_by(2)));
    let view = view_of(&store, &[(0, &plain), (0, &unread)]);
    for number in 0..19_u32 {
        assert_eq!(crate::engine::all_candidates(&view, &number.to_be_bytes()).len(), 2);
    }
    let (plain, unread) = (plain.filters.stats(), unread.filters.stats());
    assert_eq!((plain.searched, plain.filter.probes(), unread.searched, unread.filter.not_loaded), (19, 0, 19, 19));
    assert_eq!(unread.filter.positives, 0);
}

#[test]
fn a_level_counts_its_files_whose_bloom_filters_are_overfull() {
    let unlimited = FilterStore::new(Filters::new(FixedPolicy::default()));
    let budgeted = unlimited.clone().with_budget(FilterBudget::new(1 << 20));
    for store in [unlimited, budgeted] {
        let open = |announced| {
            let mut builder = store.builder(FileId::random()).with_expected_keys(announced);
            (0..20_000_u32).for_each(|key| builder.add_key(&key.to_be_bytes()));
            let (bytes, description) = builder.finish().seal();
            let file = Arc::new(store.open(description, bytes));
            // With a budget, a filter is loaded when it is first probed.
            let _ = file.probe(&7_u32.to_be_bytes());
            file
        };
        let (sound, overfull) = (open(20_000), open(2_000));
        assert_eq!([&sound, &overfull].map(|file| file.stats().overfull), [0, 1]);
        let view = FilterView::new(&store)
            .edited(ViewEdit::new().add_newest(0, sound).add_newest(0, overfull.clone()))
            .unwrap();
        assert_eq!((view.level_stats(0).overfull, view.stats().overfull), (1, 1));
        let moved = view.edited(ViewEdit::new().remove(0, &overfull).add(1, overfull.clone())).unwrap();
        assert_eq!([0, 1].map(|level| moved.level_stats(level).overfull), [0, 1]);
        let dropped = moved.edited(ViewEdit::new().remove(1, &overfull)).unwrap();
        assert_eq!([0, 1].map(|level| dropped.level_stats(level).overfull), [0, 0]);
    }
}
