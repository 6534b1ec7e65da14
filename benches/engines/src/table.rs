//! Records as an aligned table.

use sstfilter_charts::{Align, Table};

use crate::engines::{self, FilterFamily};
use crate::record::{Operation, Record};

/// One line per engine and filter, one column per operation.
pub(crate) fn render(records: &[Record]) -> String {
    let operations = Operation::ALL.map(|operation| (operation.title(), Align::Right));
    let words = [("engine", Align::Left), ("filter", Align::Left)];
    let mut table = Table::new(words.into_iter().chain(operations).chain([("files", Align::Left)]));
    for first in records.iter().filter(|record| record.operation == Operation::Get) {
        let mut row = vec![first.engine.clone(), first.filter.clone()];
        row.extend(Operation::ALL.map(|operation| cell(first, operation, records)));
        row.push(first.note.clone());
        table.push(row);
    }
    table.aligned()
}

fn cell(row: &Record, operation: Operation, records: &[Record]) -> String {
    let of = |engine: &str, filter: &str| {
        records.iter().find(|r| r.engine == engine && r.filter == filter && r.operation == operation)
    };
    let Some(record) = of(&row.engine, &row.filter) else { return "-".to_owned() };
    let ours = of(engines::OURS, FilterFamily::of(&row.filter).ours());
    let ratio = ours.map_or(String::new(), |ours| format!("{:6.2}x", record.ns_per_key / ours.ns_per_key));
    format!("{:9.1}{ratio}", record.ns_per_key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::{BLOOM, NONE, OURS, RIBBON};
    use crate::record::tests::record;

    #[test]
    fn each_figure_stands_beside_its_multiple_of_ours_with_the_same_filter() {
        let records = [
            record(OURS, BLOOM, Operation::Get, 100.0),
            record(OURS, RIBBON, Operation::Get, 200.0),
            record("Rocks", BLOOM, Operation::Get, 150.0),
            record("Rocks", RIBBON, Operation::Get, 500.0),
            record("Rocks", NONE, Operation::Get, 1000.0),
        ];
        let text = render(&records);
        let ratio = |line: usize| text.lines().nth(line).unwrap().split_whitespace().find(|word| word.ends_with('x'));
        let ratios: Vec<_> = (1..6).filter_map(ratio).collect();
        assert_eq!(ratios, ["1.00x", "1.00x", "1.50x", "2.50x", "10.00x"]);
    }
}
