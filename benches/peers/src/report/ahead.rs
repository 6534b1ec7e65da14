//! The figures in which somebody else is ahead of us.

use crate::record::{Record, ours_beside};
use crate::subjects::sstfilter::NAME;
use crate::table::{Align, Table, grouped};

/// A figure, of which less is better.
type Figure = fn(&Record) -> f64;

const FIGURES: [(&str, Figure); 5] = [
    ("fewer bits per key", |record| record.bits_per_key),
    ("fewer false positives", |record| record.fpr),
    ("faster build", |record| record.build_ns_per_key),
    ("faster miss", |record| record.query_miss_ns),
    ("faster hit", |record| record.query_hit_ns),
];

/// Differences below this share are noise.
const NOISE: f64 = 0.03;

/// Each peer that is ahead in something, and at how many keys.
pub fn table(records: &[Record]) -> Table {
    let mut columns = vec![("crate", Align::Left), ("filter", Align::Left), ("compared with our", Align::Left)];
    columns.extend(FIGURES.map(|(title, _)| (title, Align::Left)));
    let mut table = Table::new(&columns);
    for peer in peers(records) {
        let cells = FIGURES.map(|(_, figure)| sizes_ahead(peer, records, figure));
        if cells.iter().any(|cell| !cell.is_empty()) {
            let mut row = vec![peer.implementation.clone(), peer.kind.clone(), peer.against.clone()];
            row.extend(cells);
            table.push(row);
        }
    }
    table
}

/// The first record of each peer's kind.
fn peers(records: &[Record]) -> Vec<&Record> {
    let mut peers: Vec<&Record> = Vec::new();
    for record in records.iter().filter(|record| record.implementation != NAME) {
        if !peers.iter().any(|peer| peer.title() == record.title()) {
            peers.push(record);
        }
    }
    peers
}

fn sizes_ahead(peer: &Record, records: &[Record], figure: Figure) -> String {
    let is_ahead = |record: &&Record| {
        let ours = ours_beside(record, records);
        ours.is_some_and(|ours| figure(record) < figure(ours) * (1.0 - NOISE))
    };
    let of_peer = records.iter().filter(|record| record.title() == peer.title());
    let sizes: Vec<_> = of_peer.clone().filter(is_ahead).map(|record| grouped(record.n)).collect();
    if sizes.len() == of_peer.count() && sizes.len() > 1 { "always".to_owned() } else { sizes.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::record;

    #[test]
    fn only_figures_that_are_clearly_less_than_ours_are_listed() {
        let mut rows = vec![record(NAME, "a", "a", 10), record(NAME, "a", "a", 1_000)];
        rows.extend([record("peer", "b", "a", 10), record("peer", "b", "a", 1_000), record("equal", "c", "a", 10)]);
        rows[2].build_ns_per_key = 3.0;
        rows[3].build_ns_per_key = 3.0;
        rows[3].fpr = 0.005;
        rows[4].query_miss_ns = 1.99;
        let text = table(&rows).markdown();
        assert!(text.ends_with("| peer | b | a |  | 1,000 | always |  |  |\n"), "{text}");
        assert!(!text.contains("equal"), "{text}");
    }
}
