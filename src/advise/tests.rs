//! That the advice is what one would say, and that its figures are those of the filters that are then built.

use super::*;
use crate::filter::FilterKind;

fn rate(rate: f64) -> FilterTarget {
    FilterTarget::Rate(FalsePositiveRate::new(rate).unwrap())
}

fn first(need: &FilterNeed) -> FilterKind {
    advise(need).ranked[0].entry.id
}

#[test]
fn every_kind_is_measured_and_nothing_else() {
    let measured: Vec<&str> = measured::MEASURED.iter().map(|(name, _)| *name).collect();
    let names: Vec<&str> = kinds::all().iter().map(|entry| entry.name).collect();
    assert_eq!(measured, names);
}

#[test]
fn every_kind_is_ranked_or_refused() {
    for updates in [Updates::None, Updates::Insert, Updates::InsertAndRemove] {
        for writers in [Writers::One, Writers::Many] {
            for target in [rate(0.1), rate(0.01), rate(1e-9), FilterTarget::Bytes(100), FilterTarget::Bytes(1 << 30)] {
                for keys in [0, 1, 1_000, 1_000_000, 1 << 33, u64::MAX] {
                    let advice = advise(&FilterNeed::new(keys, target).with_updates(updates).with_writers(writers));
                    assert_eq!(advice.ranked.len() + advice.unsuitable.len(), kinds::all().len());
                    assert!(advice.ranked.iter().all(|found| found.cost >= 0.0));
                    assert!(advice.ranked.is_sorted_by(|one, other| one.cost <= other.cost));
                }
            }
        }
    }
}

#[test]
fn what_is_recommended_meets_the_target() {
    for keys in [1_000, 100_000, 3_000_000] {
        for target in [rate(0.05), rate(0.01), rate(0.000_1)] {
            for found in advise(&FilterNeed::new(keys, target)).ranked {
                let FilterTarget::Rate(wanted) = target else { continue };
                assert!(found.plan.expected_fpr <= wanted.get() * 1.11, "{keys} {wanted} {found:?}");
            }
        }
        for bytes in [keys, keys * 2] {
            let advice = advise(&FilterNeed::new(keys, FilterTarget::Bytes(bytes)));
            assert!(advice.ranked.len() >= 6, "{:?}", advice.unsuitable);
            for found in advice.ranked {
                assert!(found.plan.block_bytes <= bytes, "{keys} keys in {bytes}: {found:?}");
            }
        }
    }
}

#[test]
fn a_filter_that_is_probed_more_is_made_smaller() {
    let need = |lookups| FilterNeed::new(1_000_000, rate(0.01)).with_absent_lookups(lookups);
    assert_eq!(first(&need(0)), FilterKind::BLOCKED_BLOOM);
    assert_eq!(first(&need(100_000_000)), FilterKind::RIBBON);
}

#[test]
fn times_are_taken_from_between_the_columns_and_not_from_beyond() {
    let measured = [(1.0, 10.0), (2.0, 20.0), (4.0, 40.0), (8.0, 80.0)];
    assert_eq!(between(&measured, 0), (1.0, 10.0));
    assert_eq!(between(&measured, 100_000), (2.0, 20.0));
    assert_eq!(between(&measured, u64::MAX), (8.0, 80.0));
    let (build, probe) = between(&measured, 316_228);
    assert!((build - 3.0).abs() < 1e-5 && (probe - 30.0).abs() < 1e-4, "{build} {probe}");
}
