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
            facts.iter().map(|(label, value)| format!("{label:<width$}  {value}\n")).collect()
        }
        Block::Table { title, rows } => format!("{title}:\n{}", table(rows)),
        Block::Lines { lines, more } => lines.iter().map(|line| format!("{line}\n")).collect::<String>() + &rest(*more),
        Block::Group { title, blocks } => {
            let inside: String = blocks.iter().map(self::block).collect();
            let inside: String = inside.lines().map(|line| format!("{INDENT}{line}\n")).collect();
            format!("{title}:\n{inside}")
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
