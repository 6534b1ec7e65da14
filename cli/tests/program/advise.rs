//! `sstfilter advise` from outside. The failure guarded against: advice whose figures are not those of the filters
//! that are then built.

use crate::common::{Place, run};

#[test]
fn the_bytes_advised_are_the_bytes_built() {
    let advice = run(&["--json", "advise", "--keys", "3000", "--fpr", "0.01"]).expect_code(0).json();
    let bloom = advice["ranked"].as_array().unwrap().iter().find(|found| found["kind"] == "bloom").unwrap();
    let place = Place::new();
    let out = place.path("tables");
    let out = out.to_str().unwrap();
    run(&["build", "--generate", "3000", "--policy", "bloom", "--fpr", "0.01", "--out", out]).expect_code(0);
    let inspected = run(&["--json", "inspect", &format!("{out}/000001.sst")]).expect_code(0).json();
    let found = format!("\"block_bytes\":{}", bloom["block_bytes"]);
    assert!(inspected.to_string().contains(&found), "{bloom} {inspected}");
}

#[test]
fn bad_numbers_are_refused() {
    for bad in [
        ["advise", "--keys", "-1"].as_slice(),
        &["advise", "--keys", "10", "--fpr", "1.5"],
        &["advise", "--keys", "10", "--lookups-per-key", "NaN"],
        &["advise", "--keys", "10", "--fpr", "0.1", "--memory", "10"],
        &["advise", "--keys", "18446744073709551615", "--lookups-per-key", "1e9"],
    ] {
        let refused = run(bad).expect_code(2);
        assert!(refused.stderr.starts_with("error: "), "{bad:?}: {}", refused.stderr);
    }
}

#[test]
fn a_use_that_no_filter_serves_is_said_to_be_one() {
    let advice = run(&["advise", "--keys", "1000000", "--memory", "100"]).expect_code(1);
    assert!(advice.stdout.contains("no kind does all of this"), "{}", advice.stdout);
}
