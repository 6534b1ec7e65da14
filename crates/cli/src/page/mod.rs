//! Parts of pages for reports that are not records yet.

use sstfilter_charts::Align;

use crate::output::Column;
use crate::print::html::cells;
pub(crate) use crate::print::html::{details, document, figure, head, links, list, paragraph, section};

/// Returns a table of `rows`. The first column names the subject of the figures in the others.
pub(crate) fn table<'a, T: 'a>(columns: &[Column<T>], rows: impl IntoIterator<Item = &'a T>) -> String {
    let rows = rows.into_iter().map(|row| columns.iter().map(|(_, cell)| cell(row)).collect());
    table_of_cells(columns.iter().map(|(title, _)| *title), rows)
}

/// Returns a table of rows with any number of columns. A column is aligned as words if its first cell begins with a
/// letter.
pub(crate) fn table_of_cells(
    header: impl IntoIterator<Item = impl AsRef<str>>,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    // Collected, because the first row decides how the header is aligned.
    let rows: Vec<_> = rows.into_iter().collect();
    let align = |column: usize| {
        let is_word = rows.first().and_then(|row| row.get(column)).is_some_and(|cell| is_word(cell));
        if is_word { Align::Left } else { Align::Right }
    };
    let header = header.into_iter().enumerate().map(|(column, title)| (title.as_ref().to_owned(), align(column)));
    cells(&header.collect::<Vec<_>>(), &rows)
}

fn is_word(cell: &str) -> bool {
    cell.starts_with(char::is_alphabetic)
}
