//! Secret seeds. The failures guarded against: a filter that is used with another seed, and a sound filter that is called
//! damaged because the seed was not passed.

use crate::common::{Place, json, probed, run};

#[test]
fn tables_of_a_secret_seed_are_verified_with_its_file_and_said_to_be_unasked_without() {
    let place = Place::new();
    let (seed, other) = (place.write("seed", "00112233445566ff\n"), place.write("other", "8 bytes."));
    let out = place.build(2_000, &["--secret-seed-file", &seed]);

    let verified = json(&["verify", &out, "--secret-seed-file", &seed], 0);
    assert!(verified["files"][0]["keys_not_compared_because"].is_null());
    let absent = [&out, "--keys", &place.write("absent", "no\n"), "--secret-seed-file", &seed];
    assert!(probed(&absent, 0)["files"][0]["reason"].is_null());

    let unasked = run(&["verify", &out]).expect_code(0).stdout;
    assert!(
        unasked.contains("not compared with all keys") && unasked.contains("built with a secret seed"),
        "{unasked}"
    );
    assert!(unasked.contains("pass the seed with --secret-seed-file"), "{unasked}");
    let unasked = run(&["verify", &out, "--secret-seed-file", &other]).expect_code(0).stdout;
    assert!(unasked.contains("built with another secret seed (fingerprint"), "{unasked}");
    let found = run(&["get", &out, "key0042", "--secret-seed-file", &other]).expect_code(0);
    assert!(found.stdout == "value0042\n" && found.stderr.contains("reading without a filter"));

    let wrong = place.write("wrong", "0x42");
    run(&["verify", &out, "--secret-seed-file", &wrong]).expect_error("16 hexadecimal digits");
    run(&["build", "--generate", "9", "--out", &place.text("both"), "--hash-seed", "1", "--secret-seed-file", &seed])
        .expect_error("expected --hash-seed or --secret-seed-file, got both");
}
