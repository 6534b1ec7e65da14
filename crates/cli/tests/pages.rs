//! Pages of the whole repository: their links lead somewhere, and they stay as short as they were meant to be. The
//! failure guarded against: a section is renamed, and readers of other pages end up at the top of a page, or nowhere.

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The most bytes of each page that has a limit: a page that grows by a sentence with every change is one that nobody
/// reads.
const MAX_BYTES: [(&str, usize); 12] = [
    ("ARCHITECTURE.md", 8_000),
    ("CONTRIBUTING.md", 4_000),
    ("FORMAT.md", 39_000),
    ("MISUSE.md", 9_100),
    ("README.md", 7_650),
    ("PROMISES.md", 12_000),
    ("SECURITY.md", 8_000),
    ("benches/RESULTS.md", 15_000),
    ("docs/c.md", 7_000),
    ("docs/engines.md", 25_000),
    ("docs/many-files.md", 9_000),
    ("docs/reports.md", 8_700),
];

/// Of text. Rows of tables cannot be wrapped.
const MAX_COLUMNS: usize = 120;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// All pages below a folder. Hidden folders and those of compilers have none of the repository's.
fn pages_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let is_own = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        !name.starts_with('.') && name != "target" && !path.join("CACHEDIR.TAG").exists()
    };
    let pages = files.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.chain(folders.iter().filter(|path| is_own(path)).flat_map(|folder| pages_below(folder))).collect()
}

/// The lines outside of code blocks.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    page.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let is_kept = |letter: &char| letter.is_alphanumeric() || "-_ ".contains(*letter);
    let kept: String = heading.to_lowercase().chars().filter(is_kept).collect();
    kept.trim().replace(' ', "-")
}

/// The anchors of a page. A heading that comes again gets a number.
fn anchors(page: &str) -> Vec<String> {
    let mut counts = BTreeMap::new();
    let headings =
        prose(page).filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    let mut numbered = |anchor: String| {
        let count = counts.entry(anchor.clone()).or_insert(0);
        *count += 1;
        if *count == 1 { anchor } else { format!("{anchor}-{}", *count - 1) }
    };
    headings.map(|heading| numbered(anchor(heading))).collect()
}

/// What the links of a page lead to. Links stand on one line each.
fn links(page: &str) -> Vec<String> {
    let without_code = |line: &str| line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let of_line = |line: String| {
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        targets.map(str::to_owned).collect::<Vec<_>>()
    };
    prose(page).map(without_code).flat_map(of_line).collect()
}

/// What is wrong with a link of the page at `path`.
fn fault(path: &Path, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let target = if file.is_empty() { path.to_path_buf() } else { path.parent().unwrap().join(file) };
    if !target.exists() {
        return Some(format!("no {}", target.display()));
    }
    let anchor = anchor.filter(|_| target.extension().is_some_and(|extension| extension == "md"))?;
    let is_there = anchors(&fs::read_to_string(&target).unwrap()).iter().any(|own| own == anchor);
    (!is_there).then(|| format!("no heading #{anchor} in {}", target.display()))
}

#[test]
fn every_link_of_every_page_leads_somewhere() {
    let pages = pages_below(&root());
    assert!(pages.len() > 20, "{pages:?}");
    let mut faults = Vec::new();
    for path in pages {
        for link in links(&fs::read_to_string(&path).unwrap()) {
            faults.extend(fault(&path, &link).map(|fault| format!("{}: {link}: {fault}", path.display())));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn no_page_is_longer_than_it_was_meant_to_be() {
    for (name, max_bytes) in MAX_BYTES {
        let bytes = fs::read(root().join(name)).unwrap().len();
        assert!(
            bytes <= max_bytes,
            "{name} has {bytes} bytes, more than {max_bytes}: shorten it, or move a part to another page"
        );
    }
}

#[test]
fn no_line_of_a_page_is_longer_than_a_line_of_code() {
    let of_format = pages_below(&root().join("docs"));
    for path in MAX_BYTES.iter().map(|(name, _)| root().join(name)).chain(of_format) {
        let page = fs::read_to_string(&path).unwrap();
        for (number, line) in page.lines().enumerate().filter(|(_, line)| !line.starts_with('|')) {
            let columns = line.chars().count();
            let at = format!("{}:{}", path.display(), number + 1);
            assert!(columns <= MAX_COLUMNS, "{at}: {columns} columns, more than {MAX_COLUMNS}");
        }
    }
}

#[test]
fn every_page_of_the_format_is_listed_in_its_first_page() {
    let listed = links(&fs::read_to_string(root().join("FORMAT.md")).unwrap());
    for path in pages_below(&root().join("docs/format")) {
        let names: Vec<_> = path.strip_prefix(root()).unwrap().components().map(Component::as_os_str).collect();
        let name = names.join("/".as_ref()).into_string().unwrap();
        assert!(listed.contains(&name), "{name}");
    }
}

#[test]
fn links_and_anchors_are_found_as_they_should_be() {
    let page = "# A b\n\n## A, `b`: c-d!\n\n[x](y.md#z) `[no](code)` [x](#a-b \"title\")\n\n\
                ```text\n# no\n[no](code)\n```\n# A b\n";
    assert_eq!(anchors(page), ["a-b", "a-b-c-d", "a-b-1"]);
    assert_eq!(links(page), ["y.md#z", "#a-b"]);
    let here = root().join("FORMAT.md");
    assert_eq!(
        [fault(&here, "#hashing"), fault(&here, "README.md"), fault(&here, "https://a.example/b")],
        [None, None, None]
    );
    assert!(fault(&here, "#no-such").is_some() && fault(&here, "no-such.md").is_some());
}
