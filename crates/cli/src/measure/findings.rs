//! Notable results, in sentences of measured figures.

use super::kinds::{self, FigureOf, KeysPoint};
use super::overfill::{OverfillPoint, first_of_each};
use crate::units::{brief_percent, grouped};

/// Returns sentences about the largest filters, and about the effects of overfilling.
pub(super) fn findings(by_keys: &[KeysPoint], overfill: &[OverfillPoint]) -> Vec<String> {
    let most = by_keys.iter().map(|point| point.size.keys).max().unwrap_or(0);
    // Only the largest filters: rounding and trailers decide the order of small ones.
    let largest: Vec<_> = by_keys.iter().filter(|point| point.size.keys == most).collect();
    let extremes = |of: FigureOf| {
        let least = largest.iter().min_by(|a, b| of(a).total_cmp(&of(b)))?;
        Some((least, largest.iter().max_by(|a, b| of(a).total_cmp(&of(b)))?))
    };
    let keys = grouped(most);
    let mut sentences = Vec::new();
    if let Some((least, greatest)) = extremes(|point| point.size.bits_per_key) {
        let (rate, bound) = (brief_percent(kinds::RATE), kinds::BOUND);
        let above = (least.size.bits_per_key / bound - 1.0) * 100.0;
        sentences.push(format!(
            "Smallest at {keys} keys and {rate}: {} with {:.2} bits per key, {above:.1} % above the information bound of \
             {bound:.0}; largest: {} with {:.1}.",
            least.size.filter, least.size.bits_per_key, greatest.size.filter, greatest.size.bits_per_key,
        ));
    }
    let times: [(&str, FigureOf); 3] = [
        ("Building", |point| point.times.build_ns_per_key),
        ("Probing for absent keys one by one", |point| point.times.query_one_ns),
        ("Probing for them in batches", |point| point.times.query_batch_ns),
    ];
    for (task, of) in times {
        if let Some((least, greatest)) = extremes(of) {
            let (fast, slow) = (of(least), of(greatest));
            sentences.push(format!(
                "{task}, {keys} keys: fastest is {} with {fast:.1} ns per key, slowest {} with {slow:.1}.",
                least.size.filter, greatest.size.filter,
            ));
        }
    }
    sentences.extend(first_alarms(overfill));
    let probed: u64 = by_keys.iter().map(|point| point.size.keys).sum();
    sentences.push(format!("The timed filters found all of their {} keys.", grouped(probed)));
    sentences
}

/// Returns the fill at which each filter raised its first alarm.
fn first_alarms(overfill: &[OverfillPoint]) -> Option<String> {
    let alarm = |point: &OverfillPoint| {
        let (name, percent) = (point.filter, point.offered_percent);
        format!("{name} at {percent} % of its planned keys ({})", point.alarms.join(" and "))
    };
    let alarms: Vec<_> = first_of_each(overfill, |point| !point.alarms.is_empty()).into_iter().map(alarm).collect();
    (!alarms.is_empty())
        .then(|| format!("When filled beyond the plan, these filters raise alarms: {}.", alarms.join(", ")))
}
