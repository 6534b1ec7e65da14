//! Tables as aligned text for a terminal, or as Markdown.

use core::iter;

/// The alignment of a column's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// A column: its title, its alignment, and the function that returns its cell for a row.
pub type Column<T> = (&'static str, Align, fn(&T) -> String);

/// Titles and rows of text.
///
/// ```
/// use sstfilter_charts::{Align, Table, grouped};
///
/// let sizes = [("Bloom", 1_200_032), ("Ribbon", 830_112)];
/// let table = Table::of(sizes, &[
///     ("filter", Align::Left, |(name, _)| name.to_string()),
///     ("bytes", Align::Right, |(_, bytes)| grouped(*bytes)),
/// ]);
/// assert_eq!(table.aligned(), "filter      bytes\nBloom   1,200,032\nRibbon    830,112\n");
/// ```
#[derive(Clone, Debug)]
pub struct Table {
    titles: Vec<String>,
    aligns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns a table without rows.
    pub fn new<S: Into<String>>(columns: impl IntoIterator<Item = (S, Align)>) -> Self {
        let (titles, aligns) = columns.into_iter().map(|(title, align)| (title.into(), align)).unzip();
        Self { titles, aligns, rows: Vec::new() }
    }

    /// Returns a table with a line for each of `rows`.
    pub fn of<T>(rows: impl IntoIterator<Item = T>, columns: &[Column<T>]) -> Self {
        let mut table = Self::new(columns.iter().map(|&(title, align, _)| (title, align)));
        table.rows.extend(rows.into_iter().map(|row| columns.iter().map(|(.., cell)| cell(&row)).collect()));
        table
    }

    /// Whether the table has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a row; missing cells are empty.
    pub fn push(&mut self, mut row: Vec<String>) {
        row.resize(self.titles.len(), String::new());
        self.rows.push(row);
    }

    /// Formats the table for a terminal, with two spaces between columns.
    #[must_use]
    pub fn aligned(&self) -> String {
        let lines = || iter::once(&self.titles).chain(&self.rows);
        let width = |column: usize| lines().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let columns: Vec<_> = self.aligns.iter().enumerate().map(|(column, align)| (width(column), align)).collect();
        let cell = |(text, &(width, align)): (&String, &(usize, &Align))| match align {
            Align::Left => format!("{text:<width$}"),
            Align::Right => format!("{text:>width$}"),
        };
        let line = |line: &Vec<String>| line.iter().zip(&columns).map(cell).collect::<Vec<_>>().join("  ");
        lines().map(|cells| line(cells).trim_end().to_owned() + "\n").collect()
    }

    /// Formats the table as Markdown, which needs no padding.
    #[must_use]
    pub fn markdown(&self) -> String {
        let line = |cells: &Vec<String>| format!("| {} |\n", cells.join(" | "));
        let rule = |align: &Align| if *align == Align::Left { "---|" } else { "--:|" };
        let (titles, rule) = (line(&self.titles), self.aligns.iter().map(rule).collect::<String>());
        format!("{titles}|{rule}\n{}", self.rows.iter().map(line).collect::<String>())
    }
}

/// Formats `1234567` as `1,234,567`.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let comma_before = |index: usize| index > 0 && (digits.len() - index).is_multiple_of(3);
    let with_commas =
        digits.char_indices().flat_map(|(index, digit)| comma_before(index).then_some(',').into_iter().chain([digit]));
    with_commas.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new([("name", Align::Left), ("ns", Align::Right)]);
        table.push(vec!["a".to_owned(), "12.50".to_owned()]);
        table.push(vec!["longer".to_owned()]);
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_lines_end_without_spaces() {
        assert_eq!(table().aligned(), "name       ns\na       12.50\nlonger\n");
    }

    #[test]
    fn markdown_says_which_columns_are_numbers() {
        assert_eq!(table().markdown(), "| name | ns |\n|---|--:|\n| a | 12.50 |\n| longer |  |\n");
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (63_666, "63,666"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
