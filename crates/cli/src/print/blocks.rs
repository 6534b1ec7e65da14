//! What text and HTML show of a record: facts by name, tables, lines, and groups of these. Both draw the same blocks.

use core::iter;

use serde_json::{Map, Value};
use sstfilter_charts::Align;

use super::record::{Cell, Field, Kind, Record, Schema, Show};
use crate::words::escape::{escaped_line, key_text};
use crate::words::units::{self, grouped, nanoseconds, percent, with_margin};

/// Lists and tables of more items are cut. There are as many kinds of filter, with `auto`.
const MAX_ITEMS: usize = 12;

/// Items of a list that is cut.
const CUT_ITEMS: usize = 5;

/// Records of `[pages]` that each have a page.
pub(crate) const MAX_PAGES: usize = 3;

/// How much of a record is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Fields that are shown in fewer places are left out.
    pub(crate) least: Show,
    /// Whether long lists are shown in full.
    pub(crate) has_all_items: bool,
}

impl Default for Extent {
    fn default() -> Self {
        Self { least: Show::Page, has_all_items: false }
    }
}

/// A part of a page. All text in it is escaped for a terminal.
#[derive(Debug)]
pub(super) enum Block {
    Facts(Vec<(String, String)>),
    Table { title: String, rows: Rows },
    Lines { lines: Vec<String>, more: u64 },
    Group { title: String, blocks: Vec<Block> },
}

/// A table of records.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) titles: Vec<(String, Align)>,
    pub(super) lines: Vec<Vec<String>>,
    /// Number of records without a line.
    pub(super) more: u64,
}

/// Returns the blocks of a single record. Unknown values and empty lists have none.
pub(super) fn blocks(record: &dyn Record, extent: Extent) -> Vec<Block> {
    let mut all = Vec::new();
    for (field, cell) in entries(record.schema(), Some(record)) {
        if field.show >= extent.least {
            add(&mut all, field, cell, extent);
        }
    }
    all
}

fn add(all: &mut Vec<Block>, field: &'static Field, cell: Cell<'_>, extent: Extent) {
    match (field.kind, cell) {
        (_, Cell::One(record)) => add_group(all, label(field), record, extent),
        (_, Cell::Many(records)) => match records[..] {
            [] => {}
            // One record has room for all of its fields.
            [record] => add_group(all, label(field), record, extent),
            _ if field.show == Show::Pages && records.len() <= MAX_PAGES => {
                let title = |number| format!("{}, {number} of {}", label(field), records.len());
                (1..).zip(&records).for_each(|(number, record)| add_group(all, title(number), *record, extent));
            }
            _ => all.push(list(field, &records, extent)),
        },
        (Kind::Lines, Cell::List(cells)) if !cells.is_empty() => {
            let (cells, more) = cut(&cells, extent);
            all.push(Block::Lines { lines: cells.iter().filter_map(|cell| value(cell, extent)).collect(), more });
        }
        (_, cell) => {
            let Some(value) = value(&cell, extent) else { return };
            match all.last_mut() {
                Some(Block::Facts(facts)) => facts.push((label(field), value)),
                _ => all.push(Block::Facts(vec![(label(field), value)])),
            }
        }
    }
}

fn add_group(all: &mut Vec<Block>, title: String, record: &dyn Record, extent: Extent) {
    let blocks = blocks(record, inside(record.schema(), extent));
    if !blocks.is_empty() {
        all.push(Block::Group { title, blocks });
    }
}

/// Returns how much is shown of a record inside: its row at least, as in a table, or its page if it has no columns.
fn inside(schema: &'static Schema, extent: Extent) -> Extent {
    let mut row = Vec::new();
    add_row(schema, None, extent, &mut row);
    let least = if row.is_empty() { Show::Page } else { Show::Row };
    Extent { least: extent.least.min(least), ..extent }
}

/// Returns a table of records; of records without columns, a group of each. The first fact of such a record is its
/// title.
fn list(field: &Field, records: &[&dyn Record], extent: Extent) -> Block {
    let (title, rows) = (label(field), Rows::of(records, extent));
    if !rows.titles.is_empty() {
        return Block::Table { title, rows };
    }
    let (shown, more) = cut(records, extent);
    let group = |record: &&dyn Record| {
        let mut blocks = blocks(*record, inside(record.schema(), extent));
        let title = match blocks.first_mut() {
            Some(Block::Facts(facts)) if !facts.is_empty() => facts.remove(0).1,
            _ => String::new(),
        };
        Block::Group { title, blocks }
    };
    let blocks = shown.iter().map(group).chain([Block::Lines { lines: Vec::new(), more }]).collect();
    Block::Group { title, blocks }
}

impl Rows {
    /// Returns the table of these records, which have one schema. Columns without any known value are left out.
    pub(super) fn of(records: &[&dyn Record], extent: Extent) -> Self {
        let (shown, more) = cut(records, extent);
        let mut rows = Vec::new();
        for record in shown {
            let mut row = Vec::new();
            add_row(record.schema(), Some(*record), extent, &mut row);
            rows.push(row);
        }
        let fields: Vec<_> = rows.first().into_iter().flatten().map(|(field, _)| *field).collect();
        let is_known = |column: &usize| rows.iter().any(|row| row.get(*column).is_some_and(|(_, text)| text.is_some()));
        let columns: Vec<_> = (0..fields.len()).filter(is_known).collect();
        let text = |row: &Vec<RowCell>, column: usize| row[column].1.clone().unwrap_or_else(|| "-".into());
        Self {
            titles: columns.iter().map(|&column| (label(fields[column]), align(fields[column].kind))).collect(),
            lines: rows.iter().map(|row| columns.iter().map(|&column| text(row, column)).collect()).collect(),
            more,
        }
    }
}

/// A field of a row and its value, `None` if that is unknown.
type RowCell = (&'static Field, Option<String>);

/// Adds the values of a record's row. Records inside add their own rows, and lists of records the row of their first.
fn add_row(schema: &'static Schema, record: Option<&dyn Record>, extent: Extent, row: &mut Vec<RowCell>) {
    for (field, cell) in entries(schema, record) {
        match (field.kind, cell) {
            _ if field.show < Show::Row => {}
            (Kind::One(_) | Kind::Many(_), _) if field.show == Show::Notable => {}
            (Kind::One(inner), Cell::One(record)) => add_row(inner, Some(record), extent, row),
            (Kind::Many(inner), Cell::Many(records)) => add_row(inner, records.first().copied(), extent, row),
            (Kind::One(inner) | Kind::Many(inner), _) => add_row(inner, None, extent, row),
            (_, cell) => row.push((field, value(&cell, extent))),
        }
    }
}

/// Returns the names of the columns of a record's row.
#[cfg(test)]
pub(super) fn columns(schema: &'static Schema) -> Vec<&'static str> {
    let mut row = Vec::new();
    add_row(schema, None, Extent::default(), &mut row);
    row.into_iter().map(|(field, _)| field.name).collect()
}

/// Returns the fields of a record with their values. A margin joins the rate before it.
fn entries<'a>(schema: &'static Schema, record: Option<&'a dyn Record>) -> Vec<(&'static Field, Cell<'a>)> {
    let cells = record.map(Record::cells).unwrap_or_default();
    let mut entries: Vec<(&'static Field, Cell<'a>)> = Vec::new();
    for (field, cell) in schema.fields.iter().zip(cells.into_iter().chain(iter::repeat(Cell::Unknown))) {
        match entries.last_mut() {
            Some((before, measured)) if field.name.strip_suffix("_margin") == Some(before.name) => {
                if let (Cell::Rate(rate), Cell::Rate(margin)) = (measured.clone(), cell) {
                    *measured = Cell::Measured(rate, margin);
                }
            }
            _ => entries.push((field, cell)),
        }
    }
    entries
}

/// Returns the first items, and the number of the others.
fn cut<T>(items: &[T], extent: Extent) -> (&[T], u64) {
    let is_whole = extent.has_all_items || items.len() <= MAX_ITEMS;
    let (shown, others) = items.split_at(if is_whole { items.len() } else { CUT_ITEMS });
    (shown, others.len() as u64)
}

/// Returns what ends a list that was cut.
pub(super) fn and_more(more: u64) -> Option<String> {
    (more > 0).then(|| format!("and {} more", grouped(more)))
}

/// Returns the name of a field in words, without the unit that its values show.
fn label(field: &Field) -> String {
    let words = field.name.replace('_', " ");
    let unit = match field.kind {
        Kind::Bytes => " bytes",
        Kind::Nanoseconds => " ns",
        Kind::Seconds => " seconds",
        Kind::Dollars => return words.replace("dollars", "$"),
        _ => return words,
    };
    words.strip_suffix(unit).map(str::to_owned).unwrap_or(words)
}

fn align(kind: Kind) -> Align {
    match kind {
        Kind::Flag | Kind::Word(_) | Kind::Text | Kind::Path | Kind::Key | Kind::Open | Kind::Lines | Kind::List => {
            Align::Left
        }
        _ => Align::Right,
    }
}

/// Returns a value in words; `None` if it is unknown, empty or a record.
fn value(cell: &Cell<'_>, extent: Extent) -> Option<String> {
    let finite = |number: f64, format: fn(f64) -> String| number.is_finite().then(|| format(number));
    match cell {
        Cell::Unknown | Cell::One(_) | Cell::Many(_) => None,
        Cell::Flag(is_true) => Some(if *is_true { "yes" } else { "no" }.to_owned()),
        Cell::Count(count) => Some(grouped(*count)),
        Cell::Bytes(length) => Some(units::bytes(*length)),
        Cell::Rate(rate) => finite(*rate, percent),
        Cell::Measured(rate, margin) => rate.is_finite().then(|| with_margin(*rate, *margin)),
        Cell::Bits(bits) => finite(*bits, |bits| format!("{bits:.2}")),
        Cell::Figure(figure) => finite(*figure, units::figure),
        Cell::Nanoseconds(time) => finite(*time, nanoseconds),
        Cell::Seconds(time) => finite(*time, |seconds| format!("{seconds:.2} s")),
        Cell::Dollars(dollars) => finite(*dollars, units::dollars),
        Cell::Text(text) => Some(escaped_line(text)),
        Cell::Key(key) => Some(key_text(key)),
        Cell::Open(values) => joined(&open_values(values).collect::<Vec<_>>(), 0),
        Cell::List(cells) => {
            let (cells, more) = cut(cells, extent);
            joined(&cells.iter().filter_map(|cell| value(cell, extent)).collect::<Vec<_>>(), more)
        }
    }
}

fn joined(values: &[String], more: u64) -> Option<String> {
    let values = values.join(", ");
    (!values.is_empty()).then(|| and_more(more).map_or_else(|| values.clone(), |more| format!("{values}, {more}")))
}

fn open_values(values: &Map<String, Value>) -> impl Iterator<Item = String> {
    values.iter().map(|(name, value)| {
        let value = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.as_u64().map_or_else(|| number.to_string(), grouped),
            other => other.to_string(),
        };
        escaped_line(&format!("{} {value}", name.replace('_', " ")))
    })
}
