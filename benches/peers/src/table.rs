//! Tables, aligned for a terminal or as Markdown.

/// Where a column's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Titles and rows of text.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a row; cells that are missing are empty.
    pub fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// For a terminal: two spaces between columns.
    pub fn aligned(&self) -> String {
        let widths = self.widths();
        let line = |row: &[String]| {
            let cells = (0..self.columns.len()).map(|index| self.cell(row, index, widths[index]));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
        };
        let titles: Vec<_> = self.columns.iter().map(|&(title, _)| title.to_owned()).collect();
        std::iter::once(&titles).chain(&self.rows).map(|row| line(row)).collect()
    }

    /// For Markdown, which aligns by itself.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
        let titles = line(self.columns.iter().map(|&(title, _)| title).collect());
        let rule: String =
            self.columns.iter().map(|&(_, align)| if align == Align::Left { "---|" } else { "--:|" }).collect();
        let rows = self
            .rows
            .iter()
            .map(|row| line((0..self.columns.len()).map(|index| row.get(index).map_or("", String::as_str)).collect()));
        format!("{titles}|{rule}\n{}", rows.collect::<String>())
    }

    fn widths(&self) -> Vec<usize> {
        let width = |index: usize, title: &str| {
            let cells = self.rows.iter().filter_map(|row| row.get(index)).map(|cell| cell.chars().count());
            cells.chain([title.chars().count()]).max().unwrap_or(0)
        };
        self.columns.iter().enumerate().map(|(index, &(title, _))| width(index, title)).collect()
    }

    fn cell(&self, row: &[String], index: usize, width: usize) -> String {
        let text = row.get(index).map_or("", String::as_str);
        match self.columns[index].1 {
            Align::Left => format!("{text:<width$}"),
            Align::Right => format!("{text:>width$}"),
        }
    }
}

/// A time: three significant digits, as far as they are known.
pub fn nanoseconds(value: f64) -> String {
    if value.is_nan() { String::new() } else { format!("{value:.*}", decimals(value)) }
}

/// How many times as much as ours, or nothing where there is nothing to compare.
pub fn ratio(theirs: f64, ours: Option<f64>) -> String {
    let quotient = ours.map(|ours| theirs / ours).filter(|quotient| quotient.is_finite());
    quotient.map_or_else(String::new, |quotient| format!("{quotient:.*}x", decimals(quotient).min(2)))
}

/// As many as make three digits.
fn decimals(value: f64) -> usize {
    [10.0, 100.0].into_iter().filter(|&limit| value < limit).count()
}

/// A rate in percent.
pub fn percent(rate: f64) -> String {
    let decimals = if rate < 0.000_1 { 5 } else { 3 };
    format!("{:.decimals$} %", rate * 100.0)
}

/// A whole number with commas.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let comma_before = |index: usize| index > 0 && (digits.len() - index).is_multiple_of(3);
    let with_commas =
        digits.char_indices().flat_map(|(index, digit)| comma_before(index).then_some(',').into_iter().chain([digit]));
    with_commas.collect()
}

/// Bytes in MiB or KiB.
pub fn bytes(count: u64) -> String {
    let (kibibytes, mebibytes) = (count as f64 / 1024.0, count as f64 / 1_048_576.0);
    if mebibytes >= 1.0 { format!("{mebibytes:.1} MiB") } else { format!("{kibibytes:.1} KiB") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&[("name", Align::Left), ("ns", Align::Right)]);
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
    fn numbers_keep_three_digits_and_ratios_need_something_to_compare_with() {
        assert_eq!([0.914, 12.34, 123.4].map(nanoseconds), ["0.91", "12.3", "123"]);
        assert_eq!(nanoseconds(f64::NAN), "");
        assert_eq!(
            (ratio(3.0, Some(2.0)), ratio(3.0, None), ratio(3.0, Some(0.0))),
            ("1.50x".into(), String::new(), String::new())
        );
        assert_eq!([0, 999, 1_000, 10_000_000].map(grouped), ["0", "999", "1,000", "10,000,000"]);
        assert_eq!((percent(0.00972), percent(0.000_015)), ("0.972 %".into(), "0.00150 %".into()));
        assert_eq!((bytes(1536), bytes(3 << 20)), ("1.5 KiB".into(), "3.0 MiB".into()));
    }
}
