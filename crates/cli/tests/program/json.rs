//! The failures guarded against: a page of fields that is not that of the program, and a script that waits for an object
//! that a command prints twice, in another form, or not at all.

use std::fs;

use crate::common::{Place, run};

#[test]
fn the_page_is_that_of_the_records() {
    let expected = sstfilter_cli::json_page();
    if std::env::var_os("SSTFILTER_BLESS").is_some() {
        return fs::write("JSON.md", expected).unwrap();
    }
    assert_eq!(fs::read_to_string("JSON.md").unwrap(), expected, "SSTFILTER_BLESS=1 writes the page");
}

#[test]
fn after_an_error_there_is_one_object_too() {
    let place = Place::new();
    let (out, missing) = (place.build(10, &[]), place.text("missing"));
    for arguments in [
        &["get", &missing, "key"][..],
        &["get"],
        &["build", "--generate", "0", "--out", &out],
        &["build", "--generate", "9", "--out", &out],
        &["probe", &out, "--keys", &missing],
        &["completions", "bash"],
        &["frobnicate"],
        &[],
    ] {
        let run = run(&[arguments, &["--json"]].concat()).expect_code(2);
        let object = run.json();
        let error = object["error"].as_str().unwrap();
        assert!(
            !error.is_empty() && !error.starts_with("error") && run.stderr.contains(error),
            "{arguments:?}: {object}"
        );
        // `get` may have printed entries before it fails.
        assert!(object.as_object().unwrap().len() == 1 || object["found"].is_array(), "{object}");
    }
    assert!(run(&["--help", "--json"]).expect_code(0).stdout.contains("Usage"));
}
