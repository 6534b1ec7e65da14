//! Pages of figures: self-contained HTML documents.

use sstfilter_charts::{Chart, Frame, css};

use crate::output::{Column, escaped_lines};

/// Returns the document. A later run recognizes it by `first_line`.
pub(crate) fn document(first_line: &str, title: &str, body: &str) -> String {
    // One file without references, so that it can be mailed, archived and opened offline.
    let (page_style, charts_style, title) = (include_str!("style.css"), css(), escaped(title));
    format!(
        "{first_line}<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <title>{title}</title><style>{page_style}{charts_style}</style></head>\
         <body><main>{body}</main></body></html>\n"
    )
}

/// Returns the title, an introduction and facts by name. The first fact gets twice the space.
pub(crate) fn head(title: &str, lead: &str, facts: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let fact = |(name, value): (&str, String)| format!("<div><dt>{name}</dt><dd>{}</dd></div>", escaped(&value));
    let facts: String = facts.into_iter().map(fact).collect();
    format!("<h1>{}</h1><p class=\"lead\">{}</p><dl class=\"facts\">{facts}</dl>", escaped(title), escaped(lead))
}

/// Returns links to sections by their identifiers.
pub(crate) fn links<'a>(sections: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let link = |(id, name)| format!("<a href=\"#{id}\">{name}</a>");
    format!("<nav>{}</nav>", sections.into_iter().map(link).collect::<String>())
}

pub(crate) fn section(id: &str, title: &str, text: &str) -> String {
    format!("<h2 id=\"{id}\">{}</h2>{}", escaped(title), paragraph(text))
}

pub(crate) fn paragraph(text: &str) -> String {
    format!("<p>{}</p>", escaped(text))
}

/// Returns a section with a list.
pub(crate) fn list(id: &str, title: &str, items: impl IntoIterator<Item = String>) -> String {
    format!("<h2 id=\"{id}\">{}</h2>{}", escaped(title), bullets(items))
}

pub(crate) fn bullets(items: impl IntoIterator<Item = String>) -> String {
    let item = |item: String| format!("<li>{}</li>", escaped(&item));
    format!("<ul class=\"findings\">{}</ul>", items.into_iter().map(item).collect::<String>())
}

/// Returns a chart in two drawings; the style sheet shows one of them.
pub(crate) fn figure(chart: &Chart) -> anyhow::Result<String> {
    let draw = |frame| chart.svg(frame).map_err(anyhow::Error::from_boxed);
    // Both are in the page, because a style sheet cannot redraw a chart for a phone.
    Ok(format!("<figure>{}{}</figure>", draw(Frame::WIDE)?, draw(Frame::NARROW)?))
}

pub(crate) fn details(summary: &str, table: &str) -> String {
    format!("<details><summary>{summary}</summary>{table}</details>")
}

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
    let is_word = |column: usize| rows.first().and_then(|row| row.get(column)).is_some_and(|cell| is_word(cell));
    let cell = |tag: &str, column: usize, text: &str| {
        let class = if is_word(column) { " class=\"words\"" } else { "" };
        format!("<{tag}{class}>{}</{tag}>", escaped(text))
    };
    let header = header.into_iter().enumerate().map(|(column, title)| cell("th", column, title.as_ref()));
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(column, text)| cell("td", column, text));
        format!("<tr>{}</tr>", cells.collect::<String>())
    };
    let (header, lines): (String, String) = (header.collect(), rows.iter().map(line).collect());
    format!("<div class=\"scroll\"><table><thead><tr>{header}</tr></thead><tbody>{lines}</tbody></table></div>")
}

fn is_word(cell: &str) -> bool {
    cell.starts_with(char::is_alphabetic)
}

/// Returns `text` for the page, with a non-breaking space before `%`, and with the plus-minus sign. Control characters,
/// which a document must not contain, are escaped.
pub(crate) fn escaped(text: &str) -> String {
    sstfilter_charts::escaped(&escaped_lines(text).replace(" %", "\u{a0}%").replace(" +- ", " \u{b1} "))
}
