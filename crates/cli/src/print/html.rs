//! Records as HTML, and the parts of pages: self-contained documents without references.

use sstfilter_charts::{Align, Chart, Frame, css};

use super::blocks::{Block, Extent, Rows, and_more, blocks};
use super::record::Record;
use crate::words::escape::escaped_lines;

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
    format!("<h1>{}</h1><p class=\"lead\">{}</p>{}", escaped(title), escaped(lead), self::facts(facts))
}

/// Returns links to sections by their identifiers.
pub(crate) fn links<'a>(sections: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let link = |(id, name)| format!("<a href=\"#{id}\">{name}</a>");
    format!("<nav>{}</nav>", sections.into_iter().map(link).collect::<String>())
}

/// Returns a record: its facts, tables and lists.
pub(crate) fn whole(record: &dyn Record, extent: Extent) -> String {
    blocks(record, extent).iter().map(block).collect()
}

/// Returns a table of records, with a line for each.
pub(crate) fn rows(records: &[&dyn Record], extent: Extent) -> String {
    table(&Rows::of(records, extent))
}

fn block(block: &Block) -> String {
    match block {
        Block::Facts(facts) => self::facts(facts.iter().map(|(name, value)| (name.as_str(), value.clone()))),
        Block::Table { title, rows } => format!("<h3>{}</h3>{}", escaped(title), table(rows)),
        Block::Lines { lines, more } if lines.is_empty() => {
            and_more(*more).iter().map(|more| paragraph(more)).collect()
        }
        Block::Lines { lines, more } => bullets(lines.iter().cloned().chain(and_more(*more))),
        Block::Group { title, blocks } => {
            format!("<h3>{}</h3>{}", escaped(title), blocks.iter().map(self::block).collect::<String>())
        }
    }
}

fn facts<'a>(facts: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let fact =
        |(name, value): (&str, String)| format!("<div><dt>{}</dt><dd>{}</dd></div>", escaped(name), escaped(&value));
    let facts: String = facts.into_iter().map(fact).collect();
    format!("<dl class=\"facts\">{facts}</dl>")
}

fn table(Rows { titles, lines, more }: &Rows) -> String {
    let cell = |tag: &str, align: Align, text: &str| {
        let class = if align == Align::Left { " class=\"words\"" } else { "" };
        format!("<{tag}{class}>{}</{tag}>", escaped(text))
    };
    let header: String = titles.iter().map(|(title, align)| cell("th", *align, title)).collect();
    let line = |line: &Vec<String>| {
        let cells = titles.iter().zip(line).map(|((_, align), text)| cell("td", *align, text));
        format!("<tr>{}</tr>", cells.collect::<String>())
    };
    let lines: String = lines.iter().map(line).collect();
    let more = and_more(*more).map(|more| paragraph(&more)).unwrap_or_default();
    format!("<div class=\"scroll\"><table><thead><tr>{header}</tr></thead><tbody>{lines}</tbody></table></div>{more}")
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

/// Returns `text` for the page, with a non-breaking space before `%`, and with the plus-minus sign. Control characters,
/// which a document must not contain, are escaped.
pub(crate) fn escaped(text: &str) -> String {
    sstfilter_charts::escaped(&escaped_lines(text).replace(" %", "\u{a0}%").replace(" +- ", " \u{b1} "))
}
