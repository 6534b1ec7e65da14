//! Checks pages of the whole repository. It is here because copies of the library alone have neither the pages nor this
//! package.
//!
//! The table of promises names the tests and scripts that hold it. The failure guarded against: a promise whose test
//! was renamed or removed, and that nothing holds any more.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The pages that name tests and scripts.
const PAGES: [&str; 4] = ["PROMISES.md", "MISUSE.md", "SECURITY.md", "FORMAT.md"];

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
    before.get(last_function..).is_some_and(|between| between.contains("#[test]") && !between.contains("#[ignore"))
}

#[test]
fn every_test_that_a_page_names_is_there() {
    for name in PAGES {
        for (file, test) in tests_named_in(&page(name)) {
            let source =
                fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{name}: {file}: {error}"));
            assert!(has_test(&source, test), "{name} names {file}::{test}, which is no test");
        }
    }
}

/// The scripts that a page names as `ci/name`, with arguments or without.
fn scripts_named_in(text: &str) -> BTreeSet<&str> {
    code_spans(text).filter(|span| span.starts_with("ci/")).filter_map(|span| span.split(' ').next()).collect()
}

#[test]
fn every_script_that_a_page_names_is_there() {
    for name in PAGES {
        for script in scripts_named_in(&page(name)) {
            assert!(root().join(script).is_file(), "{name} names {script}, which is not there");
        }
    }
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

#[test]
fn every_test_program_in_a_command_is_there() {
    let programs = programs();
    for name in PAGES {
        let page = page(name);
        for command in code_spans(&page).filter(|span| span.contains("cargo test")) {
            for program in command.split("--test ").skip(1).filter_map(|rest| rest.split([' ', '`']).next()) {
                assert!(programs.contains(program), "{name}: no test program {program}: {command}");
            }
        }
    }
}

#[test]
fn no_page_has_a_gap_that_was_to_be_filled() {
    for name in PAGES {
        assert!(!page(name).contains("@@"), "{name}");
    }
}

#[test]
fn every_promise_names_a_test_and_a_command() {
    let page = page("PROMISES.md");
    let promises: Vec<&str> = page.split("\n## ").skip(1).filter(|part| part.starts_with(char::is_numeric)).collect();
    assert!(promises.len() >= 8, "{} promises", promises.len());
    for promise in promises {
        let title = promise.lines().next().unwrap();
        assert!(!tests_named_in(promise).is_empty(), "no test holds {title:?}");
        let is_command = |span: &str| ["cargo ", "ci/", "python3 ", ".ci/run"].iter().any(|start| span.contains(start));
        assert!(code_spans(promise).any(is_command), "no command shows {title:?}");
    }
}

#[test]
fn a_test_is_told_from_other_functions() {
    let source = "#[test]\nfn one() {}\n\nfn other() {}\n\n    #[test]\n    #[cfg(unix)]\n    fn two(bytes in any()) {}\n\n\
         #[test]\n#[ignore]\nfn slow() {}\n";
    assert!(has_test(source, "one") && has_test(source, "two"));
    assert!(!has_test(source, "other") && !has_test(source, "three") && !has_test(source, "slow"));
}
