//! That the advice is what one would say, and that its figures are those of the filters that are then built.

use super::*;

fn rate(rate: f64) -> FilterTarget {
    FilterTarget::Rate(FalsePositiveRate::new(rate).unwrap())
}

fn first(need: &FilterNeed) -> FilterKind {
    advise(need).ranked[0].kind
}

#[test]
fn every_kind_is_ranked_or_refused_with_a_sentence() {
    for updates in [Updates::None, Updates::Insert, Updates::InsertAndRemove] {
        for writers in [Writers::One, Writers::Many] {
            for target in [rate(0.1), rate(0.01), rate(1e-9), FilterTarget::Bytes(100), FilterTarget::Bytes(1 << 30)] {
                for keys in [0, 1, 1_000, 1_000_000, 1 << 33, u64::MAX] {
                    let advice = advise(&FilterNeed::new(keys, target).with_updates(updates).with_writers(writers));
                    assert_eq!(advice.ranked.len() + advice.unsuitable.len(), kinds::ALL.len());
                    assert!(advice.ranked.iter().all(|found| !found.why.is_empty() && found.cost >= 0.0));
                    let is_number = |why: &str| !why.contains("NaN") && !why.contains("inf ");
                    assert!(advice.ranked.iter().all(|found| is_number(&found.why)), "{advice:?}");
                    assert!(advice.unsuitable.iter().all(|found| !found.why_not.is_empty()));
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
                assert!(found.expected_fpr <= wanted.get() * 1.11, "{keys} {wanted} {found:?}");
            }
        }
        for bytes in [keys, keys * 2] {
            for found in advise(&FilterNeed::new(keys, FilterTarget::Bytes(bytes))).ranked {
                assert!(found.block_bytes <= bytes, "{keys} keys in {bytes}: {found:?}");
            }
        }
    }
}

#[test]
fn a_filter_that_is_asked_more_is_made_smaller() {
    let need = |lookups| FilterNeed::new(1_000_000, rate(0.01)).with_absent_lookups(lookups);
    assert_eq!(first(&need(0)), FilterKind::BLOCKED_BLOOM);
    assert_eq!(first(&need(100_000_000)), FilterKind::RIBBON);
}
