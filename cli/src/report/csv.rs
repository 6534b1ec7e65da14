//! The figures as lines of comma-separated values, one header for all sections.

use core::fmt;

use super::data::Report;

const HEADER: [&str; 18] = [
    "section",
    "filter",
    "keys",
    "asked_fpr",
    "bytes",
    "bits_per_key",
    "expected_fpr",
    "observed_fpr",
    "build_ns_per_key",
    "query_one_ns",
    "query_batch_ns",
    "offered_percent",
    "refused_keys",
    "fill_ratio",
    "alarms",
    "what",
    "published",
    "ours",
];

/// One line's fields by their column; the others stay empty.
#[derive(Default)]
struct Line(Vec<(&'static str, String)>);

impl Line {
    fn with(mut self, column: &'static str, value: impl fmt::Display) -> Self {
        self.0.push((column, value.to_string()));
        self
    }

    fn write(&self, out: &mut String) {
        for (position, column) in HEADER.iter().enumerate() {
            if position > 0 {
                out.push(',');
            }
            if let Some((_, value)) = self.0.iter().find(|(name, _)| name == column) {
                out.push_str(&quoted(value));
            }
        }
        out.push('\n');
    }
}

/// The whole file.
pub(super) fn csv(report: &Report) -> String {
    let mut out = HEADER.join(",") + "\n";
    lines(report).iter().for_each(|line| line.write(&mut out));
    out
}

fn lines(report: &Report) -> Vec<Line> {
    let line = |section: &str, filter: &str| Line::default().with("section", section).with("filter", filter);
    let rates = report.rates.iter().map(|point| {
        line("rates", point.filter)
            .with("keys", point.keys)
            .with("asked_fpr", point.asked_fpr)
            .with("bytes", point.bytes)
            .with("bits_per_key", point.bits_per_key)
            .with("expected_fpr", point.expected_fpr)
            .with("observed_fpr", point.observed_fpr)
    });
    let by_keys = report.by_keys.iter().map(|point| {
        line("by_keys", point.filter)
            .with("keys", point.keys)
            .with("asked_fpr", report.by_keys_fpr)
            .with("bytes", point.bytes)
            .with("bits_per_key", point.bits_per_key)
            .with("expected_fpr", point.expected_fpr)
            .with("build_ns_per_key", point.build_ns_per_key)
            .with("query_one_ns", point.query_one_ns)
            .with("query_batch_ns", point.query_batch_ns)
    });
    let overfill = report.overfill.iter().map(|point| {
        line("overfill", point.filter)
            .with("keys", point.offered_keys)
            .with("asked_fpr", report.overfill_fpr)
            .with("expected_fpr", point.expected_fpr)
            .with("observed_fpr", point.observed_fpr)
            .with("offered_percent", point.offered_percent)
            .with("refused_keys", point.refused_keys)
            .with("fill_ratio", point.fill_ratio)
            .with("alarms", point.alarms.join(" "))
    });
    let articles = report.articles.iter().map(|row| {
        line("articles", "").with("what", &row.what).with("published", &row.published).with("ours", &row.ours)
    });
    rates.chain(by_keys).chain(overfill).chain(articles).collect()
}

/// A field, in quotation marks if it has to be.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_or_quotation_marks_are_quoted() {
        assert_eq!(quoted("1,000 keys"), "\"1,000 keys\"");
        assert_eq!(quoted("a \"b\""), "\"a \"\"b\"\"\"");
        assert_eq!(quoted("xor+"), "xor+");
    }

    #[test]
    fn every_line_has_as_many_fields_as_the_header() {
        let mut out = String::new();
        Line::default().with("filter", "xor").with("ours", "8").write(&mut out);
        assert_eq!(out.trim_end().split(',').count(), HEADER.len());
    }
}
