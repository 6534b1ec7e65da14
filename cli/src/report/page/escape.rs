//! Text in HTML and SVG.

/// `text` with the characters that mean something in markup written as entities, and no line break before a `%`.
pub(super) fn escaped(text: &str) -> String {
    let text = text.replace(" %", "\u{a0}%");
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_text_is_text() {
        assert_eq!(escaped("1 % of"), "1\u{a0}% of");
        assert_eq!(escaped("<a href=\"x\">&</a>"), "&lt;a href=&quot;x&quot;&gt;&amp;&lt;/a&gt;");
    }
}
