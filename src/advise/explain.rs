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
    let time = seconds(other) / seconds(first);
    let name = first.name;
    let size = match (need.target, bytes) {
        (FilterTarget::Bytes(_), _) => {
            let rate = other.expected_fpr / first.expected_fpr;
            format!("lets {} as many absent keys through as {name}", times(rate))
        }
        (FilterTarget::Rate(_), 0.995..1.005) => format!("is as large as {name}"),
        (FilterTarget::Rate(_), ..1.0) => format!("is {:.0} % smaller than {name}", (1.0 - bytes) * 100.0),
        (FilterTarget::Rate(_), _) => format!("takes {:.0} % more memory than {name}", (bytes - 1.0) * 100.0),
    };
    format!("{size}, and takes {} its time over their life", times(time))
}

/// The time of a recommendation over its life.
fn seconds(of: &Recommendation) -> f64 {
    of.cost / of.block_bytes.max(1) as f64
}

fn times(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.2} times") } else { format!("{ratio:.0} times") }
}

fn lock(entry: &Entry, need: &FilterNeed) -> &'static str {
    if entry.is_locked(need) { "; many writers need a lock around it, which is counted" } else { "" }
}
