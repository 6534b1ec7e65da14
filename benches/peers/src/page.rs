//! Pages of text with places for figures.

/// Fills the places of a page, which are names in braces. A section is left out if a value of it is missing or empty.
pub fn filled(page: &str, values: &[(&str, String)]) -> String {
    let sections = page.split("\n#").filter_map(|section| filled_section(section, values));
    sections.collect::<Vec<_>>().join("\n#").trim_end().to_owned() + "\n"
}

fn filled_section(section: &str, values: &[(&str, String)]) -> Option<String> {
    // Text and names take turns, because braces enclose nothing but names.
    let mut parts = section.split(['{', '}']);
    let mut text = parts.next()?.to_owned();
    while let (Some(name), Some(rest)) = (parts.next(), parts.next()) {
        let (_, value) = values.iter().find(|(other, value)| *other == name && !value.is_empty())?;
        text += value.trim_end();
        text += rest;
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_without_a_value_is_left_out_and_values_may_have_braces() {
        let page = "# A\n\n{a}, {b}\n\n## B\n\n{b}{c}\n\n## D\n\n{d}\n\n## E\n\nalways\n";
        let values = [("a", "{b}".to_owned()), ("b", "2\n".to_owned()), ("c", String::new())];
        assert_eq!(filled(page, &values), "# A\n\n{b}, 2\n\n## E\n\nalways\n");
    }
}
