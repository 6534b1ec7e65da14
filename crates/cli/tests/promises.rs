//! Checks pages of the whole repository. It is here because copies of the library alone have neither the pages nor this
//! package.
//!
//! The failure guarded against: a promise whose tests were renamed, removed or ignored, so that nothing checks it any
//! more. Tests name the promise that they check in a comment, other pages name single tests, and both must exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The pages that name tests, scripts or commands.
const PAGES: [&str; 9] = [
    "PROMISES.md",
    "MISUSE.md",
    "SECURITY.md",
    "FORMAT.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "benches/RESULTS.md",
    "docs/engines.md",
    "docs/reports.md",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// What stands between backticks, line by line.
fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// The tests that a page names as `path/to/file.rs::function`.
fn tests_named_in(text: &str) -> BTreeSet<(&str, &str)> {
    code_spans(text)
        .filter_map(|span| span.split_once("::"))
        .filter(|(file, _)| Path::new(file).extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

/// Whether `source` has a test of this name, whatever stands between the attribute and the function.
fn has_test(source: &str, name: &str) -> bool {
    let Some(at) = source.find(&format!("fn {name}(")) else { return false };
    let before = source.get(..at).unwrap_or_default();
    let last_function = before.rfind("fn ").unwrap_or(0);
    let is_test = |between: &str| ["#[test]", "#[tokio::test"].iter().any(|attribute| between.contains(attribute));
    before.get(last_function..).is_some_and(|between| is_test(between) && !between.contains("#[ignore"))
}

#[test]
fn every_test_script_and_test_program_that_a_page_names_is_there() {
    let programs = programs();
    for name in PAGES {
        let page = page(name);
        assert!(!page.contains("@@"), "{name} has a gap that was to be filled");
        for (file, test) in tests_named_in(&page) {
            let source =
                fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{name}: {file}: {error}"));
            assert!(has_test(&source, test), "{name} names {file}::{test}, which is no test");
        }
        for script in scripts_named_in(&page) {
            assert!(root().join(script).exists(), "{name} names {script}, which is not there");
        }
        for command in code_spans(&page).filter(|span| span.contains("cargo test")) {
            for program in command.split("--test ").skip(1).filter_map(|rest| rest.split([' ', '`']).next()) {
                assert!(programs.contains(program), "{name}: no test program {program}: {command}");
            }
        }
    }
}

#[test]
fn every_reported_fault_has_a_test() {
    let page = page("docs/reports.md");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| |")).collect();
    assert_eq!(rows.len(), 42);
    for row in rows {
        assert!(!tests_named_in(row).is_empty(), "no test: {row}");
    }
}

/// The scripts that a page names as `ci/name`, with arguments or without.
fn scripts_named_in(text: &str) -> BTreeSet<&str> {
    code_spans(text).filter(|span| span.starts_with("ci/")).filter_map(|span| span.split(' ').next()).collect()
}

/// The test programs of all packages, by the names that `--test` takes.
fn programs() -> BTreeSet<String> {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let folders = entries(&root().join("crates")).chain([root()]).flat_map(|folder| [folder.join("tests"), folder]);
    let mut programs = BTreeSet::new();
    for folder in folders {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        let named = manifest.split("[[test]]\nname = \"").skip(1).filter_map(|rest| rest.split('"').next());
        programs.extend(named.map(str::to_owned));
        let found = entries(&folder.join("tests"));
        let found =
            found.filter(|path| path.join("main.rs").is_file() || path.extension().is_some_and(|end| end == "rs"));
        programs.extend(found.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())));
    }
    programs
}

/// A promise of the page: a numbered section, and the marker below its title.
#[derive(Debug)]
struct Promise {
    title: String,
    marker: String,
}

fn promises() -> Vec<Promise> {
    let page = page("PROMISES.md");
    let sections = page.split("\n## ").filter(|section| section.starts_with(|first: char| first.is_ascii_digit()));
    let promise = |section: &str| {
        let (title, rest) = section.split_once('\n').unwrap_or((section, ""));
        let marker = rest.trim_start().strip_prefix("Marker: `").and_then(|rest| rest.split_once('`'));
        let (marker, _) = marker.unwrap_or_else(|| panic!("PROMISES.md: no marker below {title:?}"));
        Promise { title: title.to_owned(), marker: marker.to_owned() }
    };
    sections.map(promise).collect()
}

/// A comment that ties a test to a promise, or to an entry of MISUSE.md.
struct Marker<'a> {
    line: usize,
    word: &'static str,
    name: &'a str,
    /// Why it proves nothing.
    fault: Option<&'static str>,
}

/// What a marker begins with.
const WORDS: [&str; 2] = ["promise", "misuse"];

/// The word and the name of a marker, however the comment is spelled.
fn marker_in(line: &str) -> Option<(&'static str, &str)> {
    let text = line.strip_prefix(['/', '#'])?.trim_start_matches(['/', '#', '!', ' ']);
    let (word, name) = text.split_once(':')?;
    let word = WORDS.into_iter().find(|other| word.trim().eq_ignore_ascii_case(other))?;
    Some((word, name.trim()))
}

/// The markers of a source file, whose comments begin with `//`, or of a script, where they begin with `#`.
fn markers<'a>(text: &'a str, sign: &str) -> Vec<Marker<'a>> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut markers = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((word, name)) = marker_in(line) else { continue };
        let fault = if *line != format!("{sign} {word}: {name}") {
            Some("is not spelled as git grep searches for it")
        } else if sign == "//" {
            fault_of_place(&lines[..at], &lines[at + 1..])
        } else {
            None
        };
        markers.push(Marker { line: at + 1, word, name, fault });
    }
    markers
}

/// What is wrong with a marker between these lines of a source file.
fn fault_of_place(above: &[&str], below: &[&str]) -> Option<&'static str> {
    let mut below = below.iter().skip_while(|line| marker_in(line).is_some());
    let first = below.next().copied().unwrap_or_default();
    if first.contains("fuzz_target!(") {
        return None;
    }
    if first != "#[test]" {
        return Some("is not directly above #[test] or fuzz_target!");
    }
    let attributes_above = above.iter().rev().take_while(|line| line.starts_with('#') || line.starts_with("//"));
    let attributes_below = below.take_while(|line| !line.starts_with("fn "));
    let mut attributes = attributes_above.chain(attributes_below);
    attributes.any(|line| line.starts_with("#[ignore")).then_some("is above a test that is ignored")
}

/// The sources and scripts that can have markers.
fn files_with_markers() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders =
        ["adapters", "ci", "crates", "fixtures", "fuzz", "src", "tests"].map(|name| root().join(name)).to_vec();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            let is_source = path.extension().is_some_and(|extension| extension == "rs" || extension == "py");
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.is_file() && (is_source || folder.ends_with("ci")) {
                files.push(path);
            }
        }
    }
    files
}

/// Calls `visit` for each marker of the repository that begins with `word`: its place and its name.
fn for_each_marker(word: &str, mut visit: impl FnMut(&str, &str)) {
    for path in files_with_markers() {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let sign = if path.extension().is_some_and(|extension| extension == "rs") { "//" } else { "#" };
        for marker in markers(&text, sign).into_iter().filter(|marker| marker.word == word) {
            let Marker { line, name, fault, .. } = marker;
            let at = format!("{}:{line}: the marker {name:?}", path.strip_prefix(root()).unwrap_or(&path).display());
            assert_eq!(fault, None, "{at} proves nothing");
            visit(&at, name);
        }
    }
}

/// A promise with fewer tests was hardly tried.
const MIN_MARKERS: usize = 3;

#[test]
fn every_promise_has_tests_with_its_marker_and_every_marker_a_promise() {
    let promises = promises();
    assert!(promises.len() >= 8, "{promises:?}");
    let mut counts = vec![0; promises.len()];
    for_each_marker("promise", |at, name| {
        let promise = promises.iter().position(|promise| promise.marker == name);
        counts[promise.unwrap_or_else(|| panic!("{at} is not in PROMISES.md"))] += 1;
    });
    for (Promise { title, marker }, count) in promises.iter().zip(counts) {
        println!("{count:>4}  {marker}");
        assert!(count >= MIN_MARKERS, "{count} tests have the marker {marker:?} of {title:?}, expected {MIN_MARKERS}");
        // Otherwise the search for one would find the tests of the other, too.
        let begins = |other: &&Promise| other.marker.starts_with(marker);
        assert_eq!(promises.iter().filter(begins).count(), 1, "another marker begins with {marker:?}");
    }
    let command = format!("git grep -n 'promise: {}'", promises[0].marker);
    assert!(page("PROMISES.md").contains(&command), "no command finds the tests of the first promise: {command}");
}

/// The slugs in MISUSE.md, each of which begins an item of a list or a row of a table.
fn slugs_of(page: &str) -> Vec<&str> {
    let begins = page.lines().filter_map(|line| line.strip_prefix("- `").or_else(|| line.strip_prefix("| `")));
    begins.filter_map(|rest| Some(rest.split_once('`')?.0)).collect()
}

#[test]
fn every_misuse_with_a_slug_has_a_test_and_every_marker_an_entry() {
    let page = page("MISUSE.md");
    let slugs = slugs_of(&page);
    let distinct: BTreeSet<&str> = slugs.iter().copied().collect();
    assert!(slugs.len() >= 20 && distinct.len() == slugs.len(), "{slugs:?}");
    let mut untested = distinct.clone();
    for_each_marker("misuse", |at, name| {
        assert!(distinct.contains(name), "{at} is not in MISUSE.md");
        untested.remove(name);
    });
    assert!(untested.is_empty(), "entries of MISUSE.md without a test: {untested:?}");
    let searches = page.split("`git grep -n 'misuse: ").skip(1).filter_map(|rest| rest.split('\'').next());
    let searches: BTreeSet<&str> = searches.collect();
    assert!(!searches.is_empty() && searches.is_subset(&distinct), "commands of the page: {searches:?}");
}

#[test]
fn a_marker_proves_something_only_above_a_test_that_runs() {
    let is_faulty = |text: &str, sign: &str| {
        let markers = markers(text, sign);
        assert!(!markers.is_empty() && markers.iter().all(|marker| marker.name == "damage"), "{text}");
        markers.iter().any(|marker| marker.fault.is_some())
    };
    let marker = "/// Why.\n    // promise: damage\n    // misuse: damage\n";
    let sound = [
        "#[test]\nfn f() {}",
        "    #[test]\n    #[cfg(unix)]\n    fn f(a in any()) {}",
        "fuzz_target!(|bytes| f(bytes));",
    ];
    for below in sound.iter().copied().chain(["// promise: damage\n#[test]\nfn f() {}"]) {
        assert!(!is_faulty(&format!("{marker}{below}"), "//"), "{below}");
    }
    for below in
        ["", "fn f() {}", "\n#[test]\nfn f() {}", "#[cfg(test)]\nmod t {}", "#[test]\n#[ignore = \"slow\"]\nfn f() {}"]
    {
        assert!(is_faulty(&format!("{marker}{below}"), "//"), "{below}");
    }
    assert!(is_faulty(&format!("#[ignore]\n{marker}{}", sound[0]), "//"));
    for misspelled in
        ["//promise: damage", "/// promise: damage", "// Promise: damage", "// promise:damage", "# promise: damage"]
    {
        assert!(is_faulty(&format!("{misspelled}\n{}", sound[0]), "//"), "{misspelled}");
    }
    assert!(!is_faulty("#!/bin/sh\n# promise: damage\nset -e\n", "#") && is_faulty("#promise: damage\n", "#"));
}

#[test]
fn a_test_is_told_from_other_functions() {
    let source = "#[test]\nfn one() {}\n\nfn other() {}\n\n    #[test]\n    #[cfg(unix)]\n    fn two(bytes in any()) {}\n\n\
         #[test]\n#[ignore]\nfn slow() {}\n\n#[tokio::test]\nasync fn served() {}\n";
    assert!(has_test(source, "one") && has_test(source, "two") && has_test(source, "served"));
    assert!(!has_test(source, "other") && !has_test(source, "three") && !has_test(source, "slow"));
}
