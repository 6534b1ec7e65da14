//! Asserts the claims of `RESULTS.md` on its counts.

use crate::contenders::Contender;
use crate::experiments::{BETWEEN_PERCENT, Measured, RECORDS, Results, Scans, SweepPoint};
use crate::keys::{Form, Skew};
use crate::lookups::Outcome;
use crate::ranges::{RangeContender, RangeScans, Workload};
use crate::shards::{MANY, ShardPoint, Shards};
use crate::store::Layout;

/// Panics at the first claim that does not hold.
pub(crate) fn check(results: &Results) {
    results.records.iter().chain(&results.names).for_each(check_arithmetic);
    results.scans.iter().for_each(check_scans);
    check_ranges(&results.ranges);
    check_shards(&results.shards);
    for layout in [Layout::L0, Layout::Runs] {
        check_sizes(results, layout);
    }
    check_window(results);
}

/// Each covering SST costs a request for its filter, and a false positive two more.
fn check_arithmetic(measured: &Measured) {
    let Measured { contender, cold_absent: cold, cached_absent: cached, .. } = measured;
    if *contender == Contender::None {
        assert_eq!(cold.requests.index.gets, cold.requests.data.gets, "{measured:?}");
        assert_eq!(cached.requests.all(), cached.requests.data, "{measured:?}");
        return;
    }
    assert!(cold.probes > 0 && cached.false_positives > 0, "{measured:?}");
    assert_eq!(cold.requests.all().gets, cold.probes + 2 * cold.false_positives, "{measured:?}");
    assert_eq!(cold.requests.filter.gets, cold.probes, "{measured:?}");
    assert_eq!(cached.requests.all().gets, cached.false_positives, "{measured:?}");
}

fn check_scans(scans: &Scans) {
    let Form::Record { per_name } = RECORDS else { return };
    let Scans { cold_absent, cold_present, cached_absent, .. } = scans;
    assert_eq!((cold_absent.rows, cold_present.rows), (0, cold_present.lookups * u64::from(per_name)), "{scans:?}");
    if scans.contender != Contender::None {
        assert_eq!(cold_absent.requests.all().gets, cold_absent.probes + 2 * cold_absent.false_positives, "{scans:?}");
        assert_eq!(cached_absent.requests.all().gets, cached_absent.false_positives, "{scans:?}");
    }
}

/// Checks that each filter finds the same rows. Ordered ranges save requests if no end is next to a key of an SST,
/// hashed ranges always.
pub(crate) fn check_ranges(scans: &[RangeScans]) {
    let find = |workload, contender| {
        let is_it = |one: &&RangeScans| (one.workload, one.contender) == (workload, contender);
        scans.iter().find(is_it).unwrap_or_else(|| panic!("no scans of {workload:?} with {contender:?}"))
    };
    for workload in Workload::ALL {
        let none = find(workload, RangeContender::None);
        for contender in RangeContender::ALL {
            let one = find(workload, contender);
            assert_eq!((one.cold.rows, one.cached.rows), (none.cold.rows, none.cold.rows), "{one:?}");
        }
        // Hashed ranges save nearly one of two requests when nothing is cached, ordered ones a fifth of all.
        let bytes = |outcome: &Outcome| outcome.requests.all().bytes;
        for (contender, times, cold_percent) in [(RangeContender::Hashed, 5, 55), (RangeContender::Ordered, 3, 80)] {
            let one = find(workload, contender);
            let is_beside_keys = workload == Workload::Quarter;
            if contender == RangeContender::Ordered && is_beside_keys {
                continue;
            }
            assert!(bytes(&one.cached) * times <= bytes(&none.cached), "{one:?}, {none:?}");
            assert!(one.cold.requests.all().gets * 100 <= none.cold.requests.all().gets * cold_percent, "{one:?}");
        }
    }
}

/// With any number of shards ours cost fewer requests. One shard has the whole gain.
pub(crate) fn check_shards(shards: &Shards) {
    let mean = |contender, count, percent| shards.find(contender, count, percent).map_or(f64::NAN, ShardPoint::mean);
    for point in shards.points.iter().filter(|point| point.contender == Contender::BuiltIn) {
        let ours = mean(Contender::Ribbon, point.shards, point.percent);
        assert!(ours < point.mean(), "{point:?}: {ours}");
    }
    let (one, many) = (mean(Contender::Ribbon, 1, BETWEEN_PERCENT), mean(Contender::Ribbon, MANY, BETWEEN_PERCENT));
    assert!(one * 5.0 < many, "{one} GETs per lookup with one shard, {many} with {MANY}");
    let two = mean(Contender::RibbonTwo, MANY, BETWEEN_PERCENT);
    // If filters are dealt to shards in few ways, all of them may be unlucky.
    let are_few = shards.points.iter().all(|point| point.gets.len() < 10);
    assert!(are_few || two < many, "{two} GETs per lookup with filters of 2 %, {many} with those of the built-in rate");
    for point in &shards.dealt {
        assert!(point.missed[1] <= point.missed[0], "{point:?}");
    }
}

/// The rate of the engine's own filters in at most 72 % of their bytes, or a quarter of it in all of them.
fn check_sizes(results: &Results, layout: Layout) {
    let find = |contender| results.records.iter().find(|one| one.layout == layout && one.contender == contender);
    let (Some(built_in), Some(ribbon)) = (find(Contender::BuiltIn), find(Contender::Ribbon)) else {
        panic!("no figures for {layout:?}")
    };
    assert!(ribbon.sizes.filter * 100 <= built_in.sizes.filter * 72, "{:?}, {:?}", ribbon.sizes, built_in.sizes);
    let positives = |measured: &Measured| measured.cached_absent.false_positives as f64;
    let (ours, theirs) = (positives(ribbon), positives(built_in));
    // Four standard deviations of the difference.
    assert!(ours <= theirs + 4.0 * (ours + theirs).sqrt(), "{ours} false positives, {theirs} of the engine's own");
    if let Some(ten) = find(Contender::RibbonTen) {
        assert!(ten.sizes.filter * 100 <= built_in.sizes.filter * 101, "{:?}, {:?}", ten.sizes, built_in.sizes);
        assert!(positives(ten) * 4.0 <= theirs, "{} false positives, {theirs} of the engine's own", positives(ten));
    }
}

fn check_window(results: &Results) {
    for (layout, factor) in [(Layout::L0, 20), (Layout::Runs, 4)] {
        for skew in [Skew::Uniform, Skew::Zipf] {
            let gets = |contender| {
                let is_it = |point: &&SweepPoint| {
                    (point.layout, point.skew, point.contender, point.percent)
                        == (layout, skew, contender, BETWEEN_PERCENT)
                };
                results.sweep.iter().find(is_it).map(|point| point.absent.requests.all().gets)
            };
            if let (Some(ours), Some(theirs)) = (gets(Contender::Ribbon), gets(Contender::BuiltIn)) {
                assert!(ours * factor <= theirs, "{layout:?}, {skew:?}: {ours} requests, {theirs} of the engine's own");
            }
        }
    }
    assert!(!results.sweep.is_empty(), "no cache was swept");
}
