//! The failures guarded against: a rebuilt filter that is not used, because it was made for an earlier table of the
//! same name, is incomplete, or is listed as another table; and a failed rebuild that removes the table's previous
//! filter.

use std::fs;

use crate::common::{Place, flip, lines, names, program, run};
use crate::damage::part;

/// Two tables of 2,000 keys each.
fn two_tables(place: &Place) -> String {
    place.build(4_000, &["--files", "2", "--policy", "bloom", "--bits-per-key", "4"])
}

#[test]
fn rebuilt_filters_are_used_and_the_tables_stay_as_they_are() {
    let place = Place::new();
    let out = two_tables(&place);
    let table = format!("{out}/000001.sst");
    let before = fs::read(&table).unwrap();
    let text = run(&["rebuild", &out, "--policy", "ribbon", "--fpr", "0.001"]).expect_code(0).stdout;
    assert!(text.contains("000001.sst.filter: ribbon, 2,000 keys") && text.contains("2 filters rebuilt"), "{text}");
    let expected = ["000001.sst", "000001.sst.filter", "000002.sst", "000002.sst.filter"];
    assert_eq!(names(&out), expected);
    assert_eq!(fs::read(&table).unwrap(), before);

    let absent = place.write("absent", lines(0..20_000, |key| format!("absent{key}")));
    let probed = run(&["probe", &out, "--keys", &absent, "--json"]).expect_code(0).json();
    let text = probed.to_string();
    assert!(text.contains("ribbon") && !text.contains(".filter\""), "two tables, and no file more: {text}");
    run(&["get", &out, "key0042"]).expect_code(0);
    let verified = run(&["verify", &out, "--json"]).expect_code(0).json();
    assert_eq!((&verified["sound"], &verified["entries"]), (&2.into(), &4_000.into()), "{verified}");
}

#[test]
fn inspect_shows_both_filters_of_a_table_and_knows_a_sidecar_that_is_given_itself() {
    let place = Place::new();
    let out = two_tables(&place);
    let (table, sidecar) = (format!("{out}/000001.sst"), format!("{out}/000001.sst.filter"));
    let rebuilt = run(&["rebuild", &table, "--policy", "ribbon", "--json"]).expect_code(0).json();
    assert_eq!(rebuilt["tables"][0]["sidecar"], sidecar, "{rebuilt}");
    assert_eq!(rebuilt["tables"][0]["kind"], "ribbon");
    assert_eq!(names(&out), ["000001.sst", "000001.sst.filter", "000002.sst"]);

    let shown = run(&["inspect", &table]).expect_code(0).stdout;
    assert!(shown.contains("bloom (1)") && shown.contains("sidecar, used instead:"), "{shown}");
    assert!(shown.contains("ribbon (2)") && shown.contains("whole keys"), "{shown}");
    let json = run(&["inspect", "--json", &table]).expect_code(0).json();
    assert_eq!(json["files"][0]["table"]["filter"]["kind"], "bloom", "{json}");
    assert_eq!(json["files"][0]["table"]["sidecar"]["filter"]["kind"], "ribbon", "{json}");
    assert_eq!(json["files"][0]["table"]["sidecar"]["key_parts"][0], "");
    let other = run(&["inspect", "--json", &format!("{out}/000002.sst")]).expect_code(0).json();
    assert!(other["files"][0]["table"]["sidecar"].is_null(), "{other}");

    let itself = run(&["inspect", "--json", &sidecar]).expect_code(0).json();
    assert_eq!(itself["files"][0]["sidecar"]["filter"]["kind"], "ribbon", "{itself}");
    let fingerprint = &itself["files"][0]["sidecar"]["file_fingerprint"];
    assert_eq!(*fingerprint, itself["files"][0]["sidecar"]["filter"]["file_fingerprint"]);
    assert!(run(&["inspect", &sidecar]).expect_code(0).stdout.contains(": sidecar of "));
    run(&["verify", &sidecar]).expect_code(0);
}

#[test]
fn a_sidecar_that_is_stale_or_damaged_is_said_to_be_and_the_tables_own_filter_answers() {
    let place = Place::new();
    let out = two_tables(&place);
    run(&["rebuild", &out]).expect_code(0);
    let (one, other) = (format!("{out}/000001.sst.filter"), format!("{out}/000002.sst.filter"));
    let sound = fs::read(&one).unwrap();
    let mut damaged = sound.clone();
    damaged[100] ^= 1;
    // With a matching checksum, it would be version 3.
    let mut of_no_version = sound.clone();
    of_no_version[sound.len() - 7] ^= 2;
    let stale = fs::read(&other).unwrap();
    for (bad, words) in [
        (&stale[..], "of another table, or of an earlier table of this name"),
        (&damaged, "damaged"),
        (&of_no_version, "sidecar is damaged"),
        (&sound[..500], "magic bytes of a sidecar"),
    ] {
        fs::write(&one, bad).unwrap();
        let shown = run(&["inspect", &format!("{out}/000001.sst")]).expect_code(1).stdout;
        assert!(shown.contains("sidecar not usable") && shown.contains(words), "{shown}");
        let verified = run(&["verify", &out]).expect_code(1).stdout;
        assert!(verified.contains(words) && verified.contains("1 sound, 1 "), "{verified}");
        run(&["verify", &one]).expect_code(1);
        let got = run(&["get", &out, "key0042"]).expect_code(0);
        assert!(got.stdout == "value0042\n" && got.stderr.contains("reading without a sidecar"), "{}", got.stderr);
    }
    let refused = run(&["rebuild", &out]).expect_code(2).stdout;
    assert!(
        refused.contains("000001.sst.filter was not written by this command, or was cut short"),
        "half a sidecar is none: {refused}"
    );
    assert!(refused.contains("delete it by hand if it is the rest of a sidecar"), "{refused}");
    assert_eq!(fs::read(&one).unwrap(), sound[..500]);
    let report = run(&["report", &out, "--json"]).expect_code(1).json();
    let advice = (&report["remarks"][0]["advice"], report["remarks"][0]["commands"].to_string());
    assert!(advice.0.as_str().unwrap().starts_with("Delete the sidecar") && !advice.1.contains("rebuild"), "{report}");
    // A crash can leave a file without its bytes.
    fs::write(&one, "").unwrap();
    let verified = run(&["verify", &out]).expect_code(1).stdout;
    assert!(verified.contains("length of a sidecar: expected at least 60 bytes, got 0"), "{verified}");
    let report = run(&["report", &out, "--json"]).expect_code(1).json();
    assert!(report["remarks"][0]["commands"].to_string().contains("rebuild"), "{report}");
    run(&["rebuild", &out]).expect_code(0);
    run(&["verify", &out]).expect_code(0);
    fs::remove_file(format!("{out}/000001.sst")).unwrap();
    run(&["verify", &one]).expect_code(0);
    let alone = run(&["inspect", &out, "--full"]).expect_code(0).stdout;
    assert!(alone.contains("000001.sst.filter: sidecar of"), "a sidecar without a table is listed: {alone}");
}

#[test]
fn a_filter_is_rebuilt_in_partitions_of_a_size() {
    let place = Place::new();
    let out = two_tables(&place);
    run(&["rebuild", &out, "--partitions", "1Ki"]).expect_code(0);
    run(&["verify", &out]).expect_code(0);
    assert_eq!(run(&["get", &out, "key0042"]).expect_code(0).stdout, "value0042\n");
    let shown = run(&["inspect", &format!("{out}/000001.sst")]).expect_code(0).stdout;
    assert!(shown.contains("sidecar, used instead:") && shown.contains("cut by key range"), "{shown}");
    let absent = place.write("absent", lines(0..3_000, |key| format!("key{key:04}x")));
    let probed = run(&["probe", &out, "--keys", &absent, "--json"]).expect_code(0).json();
    assert_eq!(probed["unusable_filters"], 0, "{probed}");
    assert!(probed.to_string().contains("partitioned"), "{probed}");
    let sidecar = format!("{out}/000001.sst.filter");
    run(&["verify", &sidecar]).expect_code(0);
    assert!(run(&["inspect", &sidecar]).expect_code(0).stdout.contains("partitions"));
    for wrong in ["100", "2M", "many"] {
        run(&["rebuild", &out, "--partitions", wrong]).expect_error("--partitions");
    }
}

/// A store whose filters were built for few false positives must not get more of them from the command that a report
/// prints.
#[test]
fn a_filter_is_rebuilt_with_the_policy_of_its_table_and_what_is_unknown_is_said() {
    let place = Place::new();
    let rebuilt = |options: &[&str], is_damaged: bool| {
        let out = place.build(8_000, &[options, &["--overwrite"]].concat());
        let table = format!("{out}/000001.sst");
        if is_damaged {
            flip(&table, part(&table, "filter").0 + 20);
        }
        let json = run(&["rebuild", &table, "--json"]).expect_code(0).json();
        let text = run(&["rebuild", &table]).expect_code(0).stdout;
        let rebuilt = &json["tables"][0];
        let policy = rebuilt["policy"].as_str().unwrap().to_owned();
        assert!(text.contains(&format!("; {policy}\n")), "{text}");
        (rebuilt["requested"].as_str().unwrap().to_owned(), rebuilt["expected_fpr"].as_f64().unwrap(), policy)
    };
    for (kind, is_damaged) in [("bloom", true), ("bloom", false), ("ribbon", true), ("cuckoo", false)] {
        let (requested, rate, policy) = rebuilt(&["--policy", kind, "--fpr", "0.001"], is_damaged);
        assert_eq!(requested, kind);
        assert!((0.0005..=0.001_02).contains(&rate), "{kind}: {rate}");
        assert!(policy.starts_with(&format!("{kind} at 0.")) && policy.ends_with(" % as recorded"), "{policy}");
    }
    let (_, rate, policy) = rebuilt(&["--policy", "bloom", "--fpr", "0.001", "--partitions", "1Ki"], false);
    assert!((0.0005..=0.001_3).contains(&rate) && policy.ends_with(" % as recorded"), "{rate}: {policy}");
    let (_, rate, policy) = rebuilt(&["--policy", "none"], false);
    assert!((0.005..0.015).contains(&rate), "{rate}");
    assert!(policy.starts_with("auto at 10 bits per key (the table records no policy"), "{policy}");
    let out = place.text("tables");
    let json = run(&["rebuild", &out, "--fpr", "0.2", "--json"]).expect_code(0).json();
    assert!(json["tables"][0]["policy"].is_null(), "{json}");
}

#[test]
fn a_build_that_replaces_tables_removes_their_sidecars() {
    let place = Place::new();
    let out = two_tables(&place);
    run(&["rebuild", &out]).expect_code(0);
    run(&["build", "--generate", "100", "--out", &out]).expect_error("already contains 2 tables");
    assert_eq!(names(&out).len(), 4);
    run(&["build", "--generate", "100", "--overwrite", "--out", &out]).expect_code(0);
    assert_eq!(names(&out), ["000001.sst"]);
}

#[test]
fn one_table_that_cannot_be_rebuilt_leaves_its_sidecar_and_does_not_stop_the_others() {
    let place = Place::new();
    let out = two_tables(&place);
    run(&["rebuild", &out]).expect_code(0);
    let (table, sidecar) = (format!("{out}/000001.sst"), format!("{out}/000001.sst.filter"));
    let (old, old_of_other) = (fs::read(&sidecar).unwrap(), fs::read(format!("{out}/000002.sst.filter")).unwrap());
    let mut damaged = fs::read(&table).unwrap();
    damaged[5_000] ^= 1;
    fs::write(&table, damaged).unwrap();
    let dumped = run(&["get", &table]).expect_code(2).stderr;
    assert!(dumped.contains("--salvage prints the entries that can be read: "), "{dumped}");
    let report = run(&["rebuild", &out, "--bits-per-key", "16", "--json"]).expect_code(2).json();
    assert!(report["tables"][0]["problem"].as_str().unwrap().contains("`sstfilter get --salvage`"), "{report}");
    assert_eq!((&report["rebuilt"], &report["failed"]), (&1.into(), &1.into()), "{report}");
    assert!(report["tables"][0]["problem"].as_str().unwrap().contains("000001.sst"), "{report}");
    assert_eq!(fs::read(&sidecar).unwrap(), old);
    assert_ne!(fs::read(format!("{out}/000002.sst.filter")).unwrap(), old_of_other);
    assert_eq!(names(&out).len(), 4, "no temporary file is left");
}

/// A sidecar for each sound table would cost a copy of all filters.
#[test]
fn only_tables_with_problems_are_rebuilt_if_that_is_asked() {
    let place = Place::new();
    let out = place.build(4_000, &["--files", "4", "--policy", "bloom"]);
    for number in [2, 3] {
        let table = format!("{out}/00000{number}.sst");
        flip(&table, part(&table, "filter").0 + 20);
    }
    let report = run(&["report", &out]).expect_code(1).stdout;
    assert!(report.contains("If only a filter is damaged, build a new one next to the table.\n"), "{report}");
    assert!(report.contains(&format!("sstfilter rebuild --only-problems {out}\n")), "{report}");
    let words = ["rebuild", "--only-problems", &out];
    assert!(run(&words).expect_code(0).stdout.contains("2 filters rebuilt"));
    assert_eq!(names(&out).len(), 6);
    assert!(run(&words).expect_code(0).stdout.contains("0 filters rebuilt, "));
    run(&["verify", &out]).expect_code(0);
}

#[test]
fn what_is_no_table_of_ours_gets_no_sidecar() {
    let place = Place::new();
    let foreign = "../interop/fixtures/leveldb/6000-keys.ldb";
    let refused = run(&["rebuild", foreign]).expect_code(2).stdout;
    assert!(refused.contains("is a table of LevelDB"), "{refused}");
    let refused = run(&["rebuild", "../../fixtures/v1/bloom-1000-keys-10-bits.block"]).expect_code(2).stdout;
    assert!(refused.contains("expected a table"), "{refused}");
    fs::create_dir(place.path("void")).unwrap();
    let void = run(&["rebuild", &place.text("void"), &place.text("missing")]).expect_code(2).stdout;
    assert!(void.contains("contains no table") && void.contains("cannot read"), "{void}");
    let standard = run(&["rebuild", "-"]).expect_code(2).stdout;
    assert!(standard.contains("standard input: expected a table's file"), "{standard}");
    run(&["rebuild"]).expect_error("<TABLE>");
}

#[test]
fn tables_of_a_secret_seed_are_rebuilt_with_it_alone() {
    let place = Place::new();
    let seed = place.write("seed", "00112233445566ff\n");
    let out = place.build(2_000, &["--secret-seed-file", &seed]);
    let refused = run(&["rebuild", &out]).expect_code(2).stdout;
    assert!(refused.contains("pass the seed with --secret-seed-file"), "{refused}");
    assert_eq!(names(&out), ["000001.sst"]);
    run(&["rebuild", &out, "--secret-seed-file", &seed, "--policy", "ribbon"]).expect_code(0);
    let table = format!("{out}/000001.sst");
    let json = run(&["inspect", &table, "--secret-seed-file", &seed, "--json"]).expect_code(0).json();
    assert!(json["files"][0]["table"]["sidecar"]["problem"].is_null(), "{json}");
    let without = run(&["inspect", &table]).expect_code(0).stdout;
    assert!(without.contains("sidecar not usable") && without.contains("--secret-seed-file"), "{without}");
    run(&["verify", &out]).expect_code(0);
}

#[test]
fn a_filter_is_rebuilt_under_the_seed_of_its_table_and_no_other() {
    let place = Place::new();
    let out = place.build(2_000, &["--hash-seed", "7"]);
    let refused = run(&["rebuild", &out, "--hash-seed", "8"]).expect_code(2).stdout;
    assert!(refused.contains("--hash-seed: expected the hash of the table") && refused.contains("leave"), "{refused}");
    assert_eq!(names(&out), ["000001.sst"]);
    for seed in [&["--hash-seed", "7"][..], &[]] {
        run(&[&["rebuild", &out, "--policy", "ribbon"], seed].concat()).expect_code(0);
        let json = run(&["inspect", &format!("{out}/000001.sst"), "--json"]).expect_code(0).json();
        assert!(json["files"][0]["table"]["sidecar"]["problem"].is_null(), "{json}");
        assert_eq!(json["files"][0]["table"]["sidecar"]["filter"]["hash_seed"], "0x0000000000000007", "{json}");
        assert_eq!(run(&["get", &out, "key0042"]).expect_code(0).stderr, "");
    }
    let seed = place.write("seed", "00112233445566ff\n");
    let secret = place.text("secret");
    run(&["build", "--generate", "100", "--out", &secret, "--secret-seed-file", &seed]).expect_code(0);
    let refused = run(&["rebuild", &secret, "--hash-seed", "8"]).expect_code(2).stdout;
    assert!(refused.contains("pass the seed with --secret-seed-file"), "{refused}");
}

/// The rebuild keeps the range filter, which is not used by a reader that does not name its prefix.
#[test]
fn a_sidecar_is_used_though_the_prefix_of_its_range_filter_is_not_given() {
    let place = Place::new();
    let out = place.build(2_000, &["--range-filter", "hashed:100:0.01:1", "--range-prefix", "4"]);
    run(&["rebuild", &out, "--bits-per-key", "20"]).expect_code(0);
    let table = format!("{out}/000001.sst");
    let shown = run(&["inspect", &table]).expect_code(0).stdout;
    assert!(shown.contains("sidecar, used instead") && shown.contains("range filter"), "{shown}");
    let got = run(&["get", &out, "key0042"]).expect_code(0);
    assert_eq!((got.stdout.as_str(), got.stderr.as_str()), ("value0042\n", ""));
    run(&["verify", &out]).expect_code(0);
}

#[test]
fn rebuild_prints_paths_as_they_were_passed() {
    let place = Place::new();
    two_tables(&place);
    let mut rebuild = program();
    let output = rebuild.args(["rebuild", "tables/000001.sst"]).current_dir(place.path("")).output().unwrap();
    assert!(output.stdout.starts_with(b"tables/000001.sst.filter: "), "{output:?}");
}
