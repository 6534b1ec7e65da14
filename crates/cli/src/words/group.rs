//! Groups files that share a text: ten thousand tables with one problem take one line.

use core::hash::Hash;
use std::borrow::Cow;
use std::collections::HashMap;

use super::units::{counted, grouped};

/// Maximum number of files named in a line.
const NAMED: usize = 3;

/// Returns the files with the same key, in the order of the first file of each group.
pub(crate) fn by<'a, T, K: Clone + Eq + Hash>(
    files: impl IntoIterator<Item = &'a T>,
    key: impl Fn(&'a T) -> K,
) -> Vec<(K, Vec<&'a T>)> {
    let (mut groups, mut numbers) = (Vec::<(K, Vec<&'a T>)>::new(), HashMap::new());
    for file in files {
        let key = key(file);
        let number = *numbers.entry(key.clone()).or_insert(groups.len());
        match groups.get_mut(number) {
            Some((_, files)) => files.push(file),
            None => groups.push((key, vec![file])),
        }
    }
    groups
}

/// Returns the line of a group: `a.sst: damaged`, or `9 tables: missing (a.sst, b.sst, c.sst and 6 more)`.
pub(crate) fn line(text: &str, noun: &str, paths: &[impl AsRef<str>]) -> String {
    match paths.len() as u64 {
        1 => format!("{}: {text}", named(paths)),
        count => format!("{}: {text} ({})", counted(count, noun), named(paths)),
    }
}

/// Returns the first paths, and the number of the others.
pub(crate) fn named(paths: &[impl AsRef<str>]) -> String {
    let first = paths.iter().take(NAMED).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    match paths.len().saturating_sub(NAMED) as u64 {
        0 => first,
        more => format!("{first} and {} more", grouped(more)),
    }
}

/// Returns the lines of all groups of files with the same text.
pub(crate) fn lines<'a>(noun: &str, texts: impl IntoIterator<Item = (String, Cow<'a, str>)>) -> Vec<String> {
    let texts: Vec<_> = texts.into_iter().collect();
    let groups = by(&texts, |(text, _)| text).into_iter();
    groups.map(|(text, files)| line(text, noun, &files.iter().map(|(_, name)| name).collect::<Vec<_>>())).collect()
}

/// Returns a message about the file at `path` without its path, because the path precedes the message.
pub(crate) fn without_path(message: &str, path: &str) -> String {
    let of = format!(" of {path}");
    let mut text = message.strip_prefix(&format!("{path}: ")).unwrap_or(message).to_owned();
    // With the character after it: the path of a sidecar begins with that of its table.
    for end in [":", ";", " "] {
        text = text.replace(&(of.clone() + end), end);
    }
    text.strip_suffix(&of).map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_one_text_take_one_line() {
        let files = ["a", "b", "c", "d", "e"];
        let groups = by(&files, |&file| if file == "b" { "damaged" } else { "missing" });
        let lines: Vec<_> = groups.iter().map(|(text, files)| line(text, "table", files)).collect();
        assert_eq!(lines, ["4 tables: missing (a, c, d and 1 more)", "b: damaged"]);
    }

    #[test]
    fn a_message_loses_the_path_of_its_file_and_keeps_that_of_the_sidecar() {
        let without = |message| without_path(message, "d/1.sst");
        assert_eq!(without("d/1.sst: cut short"), "cut short");
        assert_eq!(without("data at offset 9 of d/1.sst: expected 1"), "data at offset 9: expected 1");
        assert_eq!(without("filter of d/1.sst is damaged"), "filter is damaged");
        assert_eq!(without("filter of d/1.sst.filter is damaged"), "filter of d/1.sst.filter is damaged");
        assert_eq!(without("a of d/1.sst.filter: b of d/1.sst"), "a of d/1.sst.filter: b");
    }
}
