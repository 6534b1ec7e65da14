//! What stands out, in sentences of measured figures.

use super::measure::by_keys::{self, FigureOf, KeysPoint};
use super::measure::overfill::OverfillPoint;
use crate::units::{brief_percent, grouped};

/// Sentences about the largest filters, and about what overfilling does.
pub(super) fn findings(by_keys: &[KeysPoint], overfill: &[OverfillPoint]) -> Vec<String> {
    let most = by_keys.iter().map(|point| point.keys).max().unwrap_or(0);
    let largest: Vec<_> = by_keys.iter().filter(|point| point.keys == most).collect();
    let least = |of: FigureOf| largest.iter().copied().min_by(|a, b| of(a).total_cmp(&of(b)));
    let greatest = |of: FigureOf| largest.iter().copied().max_by(|a, b| of(a).total_cmp(&of(b)));
    let keys = grouped(most);
    let mut sentences = Vec::new();
    if let (Some(least), Some(greatest)) = (least(|point| point.bits_per_key), greatest(|point| point.bits_per_key)) {
        let bound = -by_keys::RATE.log2();
        sentences.push(format!(
            "Smallest at {keys} keys and {}: {} with {:.2} bits per key, {:.1} % above the information bound of \
             {bound:.0}; largest: {} with {:.1}.",
            brief_percent(by_keys::RATE),
            least.filter,
            least.bits_per_key,
            (least.bits_per_key / bound - 1.0) * 100.0,
            greatest.filter,
            greatest.bits_per_key,
        ));
    }
    let times: [(&str, FigureOf); 3] = [
        ("Building", |point| point.build_ns_per_key),
        ("Asking for absent keys one by one", |point| point.query_one_ns),
        ("Asking for them in batches", |point| point.query_batch_ns),
    ];
    for (task, of) in times {
        if let (Some(least), Some(greatest)) = (least(of), greatest(of)) {
            sentences.push(format!(
                "{task}, {keys} keys: fastest is {} with {:.1} ns per key, slowest {} with {:.1}.",
                least.filter,
                of(least),
                greatest.filter,
                of(greatest),
            ));
        }
    }
    sentences.extend(first_alarms(overfill));
    let asked: u64 = by_keys.iter().map(|point| point.keys).sum();
    sentences
        .push(format!("All {} keys of the filters that were timed were asked for; none was denied.", grouped(asked)));
    sentences
}

/// At which fill each filter raised its first alarm.
fn first_alarms(overfill: &[OverfillPoint]) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for point in overfill.iter().filter(|point| !point.alarms.is_empty()) {
        if !seen.contains(&point.filter) {
            seen.push(point.filter);
            let (name, percent) = (point.filter, point.offered_percent);
            parts.push(format!("{name} at {percent} % of its planned keys ({})", point.alarms.join(" and ")));
        }
    }
    (!parts.is_empty()).then(|| format!("Filled beyond the plan, alarms come from {}.", parts.join(", ")))
}
