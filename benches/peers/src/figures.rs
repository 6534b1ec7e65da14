//! Formats figures, and compares others' figures with ours.

use sstfilter_charts::{Align, Table};

/// Formats a time with three significant digits.
pub fn nanoseconds(value: f64) -> String {
    if value.is_nan() { String::new() } else { format!("{value:.*}", decimals(value)) }
}

/// Formats the ratio to our figure, or nothing without one.
pub fn ratio(theirs: f64, ours: Option<f64>) -> String {
    let quotient = ours.map(|ours| theirs / ours).filter(|quotient| quotient.is_finite());
    quotient.map_or_else(String::new, |quotient| format!("{quotient:.*}x", decimals(quotient).min(2)))
}

/// A record, and our record to compare with, unless it is ours itself.
pub type Beside<'a, R> = (&'a R, Option<&'a R>);

/// Formats the ratio of a record's time to ours, or nothing without one of them.
pub fn times_ours<R>((record, ours): &Beside<'_, R>, time: fn(&R) -> Option<f64>) -> String {
    time(record).map_or_else(String::new, |theirs| ratio(theirs, ours.and_then(time)))
}

/// Returns the number of decimals for three significant digits.
fn decimals(value: f64) -> usize {
    [10.0, 100.0].into_iter().filter(|&limit| value < limit).count()
}

/// A rate in percent.
pub fn percent(rate: f64) -> String {
    let decimals = if rate < 0.000_1 { 5 } else { 3 };
    format!("{:.decimals$} %", rate * 100.0)
}

/// Bytes in MiB or KiB.
pub fn bytes(count: u64) -> String {
    let (kibibytes, mebibytes) = (count as f64 / 1024.0, count as f64 / 1_048_576.0);
    if mebibytes >= 1.0 { format!("{mebibytes:.1} MiB") } else { format!("{kibibytes:.1} KiB") }
}

/// Returns the records of each key, in the order in which keys first occur.
pub fn groups<'a, R, K: PartialEq>(
    records: impl IntoIterator<Item = &'a R>,
    key: impl Fn(&'a R) -> K,
) -> Vec<(K, Vec<&'a R>)> {
    let mut groups: Vec<(K, Vec<&R>)> = Vec::new();
    for record in records {
        let own = key(record);
        match groups.iter_mut().find(|(other, _)| *other == own) {
            Some((_, members)) => members.push(record),
            None => groups.push((own, vec![record])),
        }
    }
    groups
}

/// Differences below this share are noise.
const NOISE: f64 = 0.03;

/// Returns whether a figure is clearly less than ours.
pub fn is_ahead(theirs: f64, ours: f64) -> bool {
    theirs < ours * (1.0 - NOISE)
}

/// A figure of a record for which less is better, with its name; `None` if a record has none.
pub type Figure<R> = (&'static str, fn(&R) -> Option<f64>);

/// Lists the peers that are clearly ahead in some figure, with the names of these records. `peers` are a peer's cells
/// below `titles` and its records; `ours` returns our record to compare with.
pub fn ahead<'a, R: 'a>(
    titles: &[&'static str],
    figures: &[Figure<R>],
    peers: impl IntoIterator<Item = (Vec<String>, Vec<&'a R>)>,
    ours: impl Fn(&'a R) -> Option<&'a R>,
    name: fn(&R) -> String,
) -> Table {
    let titles = titles.iter().chain(figures.iter().map(|(title, _)| title));
    let mut table = Table::new(titles.map(|title| (*title, Align::Left)));
    for (mut row, records) in peers {
        let names_ahead = |(_, figure): &Figure<R>| {
            let both = |record| figure(record).zip(ours(record).and_then(figure));
            let is_ahead = |record: &&&'a R| both(record).is_some_and(|(theirs, ours)| is_ahead(theirs, ours));
            let names: Vec<_> = records.iter().filter(is_ahead).map(|record| name(record)).collect();
            if names.len() == records.len() && names.len() > 1 { "always".to_owned() } else { names.join("; ") }
        };
        let cells: Vec<_> = figures.iter().map(names_ahead).collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            row.extend(cells);
            table.push(row);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits_and_ratios_need_something_to_compare_with() {
        assert_eq!([0.914, 12.34, 123.4].map(nanoseconds), ["0.91", "12.3", "123"]);
        assert_eq!(nanoseconds(f64::NAN), "");
        assert_eq!(
            (ratio(3.0, Some(2.0)), ratio(3.0, None), ratio(3.0, Some(0.0))),
            ("1.50x".into(), String::new(), String::new())
        );
        assert_eq!((percent(0.00972), percent(0.000_015)), ("0.972 %".into(), "0.00150 %".into()));
        assert_eq!((bytes(1536), bytes(3 << 20)), ("1.5 KiB".into(), "3.0 MiB".into()));
    }
}
