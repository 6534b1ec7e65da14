//! Records as text for a person.

use sstfilter_charts::Table;

use super::blocks::{Block, Extent, Rows, and_more, blocks};
use super::record::Record;

/// Columns that a group is indented.
const INDENT: &str = "  ";

/// Returns the text of a record, with an empty line between its parts.
pub(crate) fn text(record: &dyn Record, extent: Extent) -> String {
    blocks(record, extent).iter().map(block).collect::<Vec<_>>().join("\n")
}

fn block(block: &Block) -> String {
    match block {
        Block::Facts(facts) => {
            let width = facts.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
            let line = |(label, value): &(String, String)| format!("{label:<width$}  {value}\n");
            facts.iter().map(line).collect()
        }
        Block::Table { title, rows } => format!("{title}:\n{}", table(rows)),
        Block::Lines { lines, more } => {
            let line = |line: &String| format!("{line}\n");
            lines.iter().map(line).collect::<String>() + &rest(*more)
        }
        Block::Group { title, blocks } => {
            let inside: String = blocks.iter().map(self::block).collect();
            let indented = |line: &str| format!("{INDENT}{line}\n");
            format!("{title}:\n{}", inside.lines().map(indented).collect::<String>())
        }
    }
}

fn table(rows: &Rows) -> String {
    let mut table = Table::new(rows.titles.iter().cloned());
    rows.lines.iter().for_each(|line| table.push(line.clone()));
    table.aligned() + &rest(rows.more)
}

/// Returns the line that ends a list that was cut.
fn rest(more: u64) -> String {
    and_more(more).map(|more| format!("{more}: --all\n")).unwrap_or_default()
}
