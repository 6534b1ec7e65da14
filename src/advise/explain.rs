//! The sentence behind each place of the ranking.

use super::kinds::Entry;
use super::{FilterNeed, FilterTarget, Recommendation};

/// Says of each why it stands where it stands: of the first what speaks for it, of the others what they cost more.
pub(super) fn explain(ranked: &mut [(&Entry, Recommendation)], need: &FilterNeed) {
    let Some(((entry, first), others)) = ranked.split_first_mut() else { return };
    first.why = format!("{}{}", entry.strength, lock(entry, need));
    for (entry, other) in others {
        other.why = format!("{}{}", behind(other, first, need), lock(entry, need));
    }
}

/// What makes `other` dearer than the first.
fn behind(other: &Recommendation, first: &Recommendation, need: &FilterNeed) -> String {
    let bytes = other.block_bytes as f64 / first.block_bytes.max(1) as f64;
    let name = first.name;
    let size = match (need.target, bytes) {
        (FilterTarget::Bytes(_), _) => {
            let rate = times(other.expected_fpr, first.expected_fpr);
            format!("lets {rate} as many absent keys through as {name}")
        }
        (FilterTarget::Rate(_), 0.995..1.005) => format!("is as large as {name}"),
        (FilterTarget::Rate(_), ..1.0) => format!("is {:.0} % smaller than {name}", (1.0 - bytes) * 100.0),
        (FilterTarget::Rate(_), _) => format!("takes {:.0} % more memory than {name}", (bytes - 1.0) * 100.0),
    };
    format!("{size}, and takes {} its time over their life", times(seconds(other), seconds(first)))
}

/// The time of a recommendation over its life.
fn seconds(of: &Recommendation) -> f64 {
    of.cost / of.block_bytes.max(1) as f64
}

/// How many times `first` is in `other`; both may be 0, without keys.
fn times(other: f64, first: f64) -> String {
    match other / first {
        _ if other <= 0.0 && first <= 0.0 => "1.00 times".to_owned(),
        ratio @ ..10.0 => format!("{ratio:.2} times"),
        ratio @ ..1e6 => format!("{ratio:.0} times"),
        _ => "over a million times".to_owned(),
    }
}

fn lock(entry: &Entry, need: &FilterNeed) -> &'static str {
    if entry.is_locked(need) { "; many writers need a lock around it, which is counted" } else { "" }
}
