//! Counts of levels, compared with what was really searched: a wrong rate hides a bad filter.

use std::sync::Arc;

use sstfilter::{FalsePositiveRate, FileId, Filters, FixedPolicy, FixedPrefix, KeyParts};
use sstfilter_range::{RangePolicy, RangeUnits};
use sstfilter_store::{FileFilters, FileStats, FilterBudget, FilterStore, FilterView, ViewEdit};

use crate::common::effort;
use crate::common::random::Random;
use crate::engine::{AddNewest, File, file, layouts, numbered, view_of};

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
    assert!(file.range_problem().is_some());
}

#[test]
fn rates_of_levels_are_those_of_files_that_were_searched_for_nothing() {
    for store in layouts(&FilterStore::default().with_policy(rate(0.05))) {
        let (mut random, mut met) = (Random::new(5), [Met::default(); 2]);
        let view = view(&store, &mut random, file);
        look_up(&view, &mut random, lookups(), &mut met);
        for (level, met) in (0..).zip(&met) {
            let stats = view.level_stats(level);
            let what = format!("{store:?}, level {level}");
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

/// An operator who watches the rate of useless reads must see those of prefix scans, too.
#[test]
fn scans_of_prefixes_record_what_became_of_the_point_filters_answers() {
    let extractor = || Arc::new(FixedPrefix::new(4));
    for parts in [KeyParts::whole_keys().with_extractor(extractor()), KeyParts::extracted(extractor())] {
        let filters = Filters::new(rate(0.2)).with_key_parts(parts);
        for store in layouts(&FilterStore::new(filters)) {
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
