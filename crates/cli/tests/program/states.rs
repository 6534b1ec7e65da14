//! The states of files, also of stores that are looked after. The failures guarded against: damage that is called
//! sound; a sound table that is called damaged because of its sidecar, or because the secret seed of its filter was not
//! passed; a table that stays damaged although its filter was rebuilt; sidecars that are counted as tables after their
//! tables have gone; and a small table that needs a look because of what its policy chose.

use std::fs;

use serde_json::Value;
use sstfilter::{BuildContext, FalsePositiveRate, FixedPolicy, KeyHasher, KeyParts};
use sstfilter_table::{TableOptions, TableWriter};

use crate::common::{FIXTURES, Place, flip, inspected, json, lines, names, part, probed, run};
use crate::described::bare_filters;

/// A file, its state, the part that has it, words of the worst reason, and the exit code.
type Case = (String, &'static str, Option<&'static str>, &'static str, i32);

/// Builds one table of this number of keys in a directory of its own.
fn table_of(place: &Place, keys: usize, name: &str, options: &[&str]) -> String {
    let keys = place.write("keys", lines(0..keys, |key| format!("key{key:04}")));
    let out = place.text(name);
    run(&[&["build", "--input", &keys, "--out", &out], options].concat()).expect_code(0);
    format!("{out}/000001.sst")
}

fn table(place: &Place, name: &str, options: &[&str]) -> String {
    table_of(place, 8_000, name, options)
}

fn bloom(place: &Place, name: &str) -> String {
    table(place, name, &["--policy", "bloom", "--range-filter", "ordered"])
}

fn rebuild(table: &str) {
    run(&["rebuild", table, "--policy", "bloom"]).expect_code(0);
}

/// A table with one flipped bit in a part.
fn damaged(place: &Place, name: &str, of: &str) -> String {
    let table = bloom(place, name);
    flip(&table, part(&table, of).0 + 20);
    table
}

/// A table with a sidecar, of which some bytes are changed.
fn with_sidecar(place: &Place, name: &str, change: impl Fn(&mut Vec<u8>)) -> String {
    let table = bloom(place, name);
    rebuild(&table);
    let mut sidecar = fs::read(format!("{table}.filter")).unwrap();
    change(&mut sidecar);
    fs::write(format!("{table}.filter"), sidecar).unwrap();
    table
}

fn replaced(place: &Place, name: &str, of: &str) -> String {
    let table = damaged(place, name, of);
    rebuild(&table);
    table
}

fn cut(place: &Place, name: &str, bytes: usize) -> String {
    let table = bloom(place, name);
    let whole = fs::read(&table).unwrap();
    fs::write(&table, &whole[..whole.len() - bytes]).unwrap();
    table
}

fn foreign(place: &Place, name: &str, fixture: &str) -> String {
    place.write(name, fs::read(format!("{FIXTURES}/{fixture}")).unwrap())
}

fn own_tables(place: &Place) -> Vec<Case> {
    let stale = with_sidecar(place, "stale", |_| ());
    fs::copy(format!("{}.filter", with_sidecar(place, "other", |_| ())), format!("{stale}.filter")).unwrap();
    let sound = with_sidecar(place, "replaced", |_| ());
    let empty = place.text("empty.sst");
    TableWriter::create(&empty, &TableOptions::default().without_filter()).unwrap().finish().unwrap();
    let (seed, partitions) = (place.write("seed", "00112233445566ff\n"), ["--partitions", "1Ki"]);
    let partition = table(place, "partition", &[&partitions[..], &["--policy", "bloom"]].concat());
    flip(&partition, part(&partition, "filter").0 + 100);
    let hashed = table(place, "hashed", &["--range-filter", "hashed:64:0.001:4", "--range-prefix", "3"]);
    let few = "bloom, because the file has too few keys for ribbon";
    vec![
        (bloom(place, "sound"), "ok", None, "", 0),
        (table_of(place, 300, "few", &[]), "ok", Some("filter"), few, 0),
        (table_of(place, 300, "few parts", &partitions), "ok", Some("filter"), "bloom, not ribbon: too few keys", 0),
        (empty, "ok", None, "no filter, which a table without entries does not need", 0),
        (table(place, "none", &["--policy", "none"]), "missing", None, "no filter", 0),
        (table(place, "secret", &["--secret-seed-file", &seed]), "unusable", Some("filter"), "--secret-seed-file", 0),
        (hashed, "ok", Some("range filter"), "pass its prefix with --range-prefix", 0),
        (damaged(place, "filter", "filter"), "damaged", Some("filter"), "checksum", 1),
        (damaged(place, "ranges", "range-filter"), "damaged", Some("range filter"), "checksum", 1),
        (partition, "damaged", Some("filter"), "partition 0 of a filter is damaged", 1),
        (damaged(place, "index", "index"), "damaged", Some("index"), "checksum of the index", 1),
        (damaged(place, "properties", "properties"), "damaged", None, "checksum of the properties", 1),
        (damaged(place, "footer", "footer"), "damaged", None, "checksum", 1),
        (cut(place, "cut", 1), "damaged", None, "it may have been cut short", 1),
        (sound, "ok", None, "the sidecar's filter is used", 0),
        (replaced(place, "rebuilt", "filter"), "ok", None, "the table's own filter is damaged; the sidecar's", 0),
        (replaced(place, "rebuilt ranges", "range-filter"), "ok", None, "the sidecar has no range filter", 0),
        (stale.clone(), "stale", Some("sidecar"), "of another table, or of an earlier table of this name", 1),
        (format!("{stale}.filter"), "stale", None, "of another table, or of an earlier table of this name", 1),
        (with_sidecar(place, "a", |b| b[100] ^= 1), "damaged", Some("sidecar"), "; the table's own filter is used", 1),
        // With a matching checksum, it would be version 3.
        (with_sidecar(place, "b", |b| flip_version(b)), "damaged", Some("sidecar"), "sidecar is damaged", 1),
        (with_sidecar(place, "c", |b| b.truncate(500)), "damaged", Some("sidecar"), "magic bytes of a sidecar", 1),
    ]
}

fn flip_version(sidecar: &mut [u8]) {
    let at = sidecar.len() - 7;
    sidecar[at] ^= 2;
}

fn other_files(place: &Place) -> Vec<Case> {
    let orphan = format!("{}.filter", with_sidecar(place, "orphan", |_| ()));
    fs::remove_file(orphan.strip_suffix(".filter").unwrap()).unwrap();
    let mut builder = FixedPolicy::ribbon(FalsePositiveRate::ONE_PERCENT)
        .unwrap()
        .builder(&BuildContext::new(&KeyHasher::default()).with_memory_budget(1));
    (0..2_000_u32).for_each(|key| builder.add_key(&key.to_le_bytes()));
    let fallback = builder.finish().block.unwrap();
    let [mut payload, mut trailer] = [fallback.to_vec(), fallback.to_vec()];
    (payload[3], trailer[fallback.len() - 20]) = (payload[3] ^ 1, trailer[fallback.len() - 20] ^ 1);
    let bloom = foreign(place, "bloom.sst", "rocksdb/11.8-bloom-fv6.sst");
    flip(&bloom, part(&bloom, "fullfilter").0 + 9);
    foreign(place, "theirs.ldb", "leveldb/6000-keys.ldb");
    foreign(place, "none.ldb", "leveldb/0-keys.ldb");
    fs::copy(&orphan, place.path("theirs.ldb.filter")).unwrap();
    let ribbon = |file: &str| format!("{FIXTURES}/databases/ribbon/db/{file}");
    let flushed = "Bloom, which RocksDB's Ribbon policy intends for flushed tables";
    vec![
        (orphan, "orphan", None, "the table is gone, so no reader uses the sidecar: delete it", 0),
        (place.write("half.sst.filter", "half"), "damaged", None, "neither a table nor a filter block", 1),
        (place.write("block", &fallback), "fallback", None, "not ribbon: memory budget", 0),
        (place.write("payload", payload), "damaged", None, "checksum", 1),
        (place.write("trailer", trailer), "damaged", None, "checksum", 1),
        (place.write("text", "hello\n"), "damaged", None, "neither a table nor a filter block", 1),
        (place.write("pretender", b"\xffSSTFLTR\x1a".repeat(9)), "damaged", None, "checksum", 1),
        (bloom, "damaged", Some("filter"), "filter at", 1),
        (format!("{FIXTURES}/rocksdb/7.8-no-policy.sst"), "missing", None, "no filter", 0),
        (format!("{FIXTURES}/pebble/v8-bloom.sst"), "unusable", Some("filter"), "pass it with --comparator", 0),
        (place.text("none.ldb"), "ok", None, "", 0),
        (place.text("theirs.ldb"), "ok", None, "only tables of sstfilter have sidecars", 0),
        (ribbon("000011.sst"), "ok", Some("filter"), flushed, 0),
        (format!("{FIXTURES}/rocksdb/7.8-ribbon-asked-7-keys.sst"), "ok", Some("filter"), "too few keys", 0),
        (format!("{FIXTURES}/rocksdb/7.8-partitioned-ribbon.sst"), "ok", Some("filter"), "partitions, because", 0),
        (format!("{FIXTURES}/databases/running/db/000099.sst"), "not live", None, "does not name it", 0),
    ]
}

#[test]
fn each_file_has_the_state_of_its_worst_part_and_says_why() {
    let place = Place::new();
    for (path, state, of, words, code) in [own_tables(&place), other_files(&place)].concat() {
        let report = inspected(&[&path], code);
        let reasons = report["reasons"].as_array().unwrap();
        assert_eq!(report["state"], state, "{path}: {report}");
        let is_meant = |reason: &&Value| reason["why"].as_str().unwrap().contains(words);
        match reasons.iter().find(is_meant) {
            None => assert!(words.is_empty() && reasons.is_empty(), "{path}: '{words}' in {report}"),
            Some(reason) => {
                assert_eq!((reason["state"].as_str(), reason["part"].as_str()), (Some(state), of), "{path}");
            }
        }
        // A terminal shows the same.
        let page = run(&["inspect", &path]).expect_code(code).stdout;
        assert!(page.contains(&format!("state   {state}\n")) && page.contains(words), "{path}: {page}");
    }
}

/// Builds four tables of 8,000 keys, without fallbacks.
fn four_tables(place: &Place) -> String {
    place.build(8_000, &["--files", "4", "--policy", "bloom", "--range-filter", "ordered"])
}

/// Damages a part of a table.
fn damage(table: &str, name: &str) {
    flip(table, part(table, name).0 + 20);
}

#[test]
fn a_sound_sidecar_replaces_damaged_filters_of_its_table_and_nothing_else() {
    let place = Place::new();
    let store = four_tables(&place);
    let table = format!("{store}/000002.sst");
    damage(&table, "filter");
    damage(&table, "range-filter");
    run(&["verify", &store]).expect_code(1);
    rebuild(&table);
    let verified = run(&["verify", &store]).expect_code(0).stdout;
    for words in [
        "000002.sst: the filter in the table is damaged, but a sound sidecar replaces it: filter at",
        "replaces it: range-filter at offset",
        "0 damaged",
    ] {
        assert!(verified.contains(words), "{words} in {verified}");
    }
    let found = json(&["verify", &store], 0);
    assert_eq!((found["files"][1]["replaced"].as_array().unwrap().len(), &found["sound"]), (2, &4.into()), "{found}");
    let remark = &json(&["report", &store], 0)["remarks"][0];
    assert_eq!((&remark["state"], &remark["paths"][0]), (&"ok".into(), &table.as_str().into()));

    damage(&table, "data");
    let verified = run(&["verify", &table]).expect_code(1).stdout;
    for words in ["checksum of the data at", "a sound sidecar replaces it", "1 damaged; 1,"] {
        assert!(verified.contains(words), "{words} in {verified}");
    }
    run(&["report", &store]).expect_code(1);
    damage(&table, "data");
    // A damaged sidecar replaces nothing.
    flip(format!("{table}.filter"), 100);
    let verified = json(&["verify", &store], 1);
    let problems = verified["files"][0]["problems"].as_array().unwrap();
    assert_eq!((&verified["damaged"], problems.len()), (&1.into(), 3), "{verified}");
    let names_all = |problem: &Value| {
        problem.as_str().unwrap().contains(&format!("filter at offset 0 of {table}.filter is not used: "))
    };
    assert!(problems.iter().any(names_all), "{verified}");
    let probed = run(&["probe", &table, "--keys", &place.text("keys.tsv")]).expect_code(1).stdout;
    assert!(probed.contains("000002.sst.filter"), "{probed}");
}

/// All commands agree about it: the table is sound, and the exit code is 1.
#[test]
fn a_stale_sidecar_is_no_damage_and_its_table_can_be_rebuilt() {
    let place = Place::new();
    let store = four_tables(&place);
    let (table, other) = (format!("{store}/000002.sst"), format!("{store}/000003.sst"));
    rebuild(&other);
    fs::rename(format!("{other}.filter"), format!("{table}.filter")).unwrap();
    let keys = place.text("keys.tsv");
    let sidecar = format!("{table}.filter");
    for command in [&["probe", &store, "--keys", &keys][..], &["probe", &sidecar, "--keys", &keys]] {
        let text = run(command).expect_code(1).stdout;
        assert!(text.contains("the sidecar is of another table, or of an earlier table of this name"), "{text}");
    }
    let verified = run(&["verify", &store]).expect_code(1).stdout;
    let line = verified.lines().next().unwrap();
    assert!(line.starts_with(&format!("{table}: stale sidecar: ")), "{verified}");
    assert!(line.ends_with("; replace or delete it: `sstfilter rebuild TABLE` replaces it"), "{verified}");
    assert!(verified.contains("3 sound, 1 stale, 0 damaged; 8,000 entries"), "{verified}");
    assert_eq!(json(&["verify", &store], 1)["stale"], 1);
    run(&["verify", &sidecar]).expect_code(1);
    let report = json(&["report", &store], 1);
    assert_eq!(report["remarks"][0]["commands"], Value::from(vec![format!("sstfilter rebuild {table}")]), "{report}");

    rebuild(&table);
    for command in [["verify", &store], ["report", &store]] {
        run(&command).expect_code(0);
    }
}

#[test]
fn orphans_are_listed_and_counted_as_nothing() {
    let place = Place::new();
    let store = four_tables(&place);
    rebuild(&store);
    (3..5).for_each(|number| fs::remove_file(format!("{store}/00000{number}.sst")).unwrap());
    let (orphan, keys) = (format!("{store}/000003.sst.filter"), place.text("keys.tsv"));
    let verified = run(&["verify", &store]).expect_code(0).stdout;
    assert!(verified.contains("orphan: the table is gone") && verified.contains(&orphan), "{verified}");
    assert!(verified.contains("2 sound, 0 damaged; 4,000 entries"), "{verified}");
    // Half a sidecar is one by its name, and damage is reported all the same.
    fs::write(format!("{store}/000004.sst.filter"), "half").unwrap();
    assert!(run(&["verify", &store]).expect_code(1).stdout.contains("1 damaged"));

    let report = json(&["report", &store], 0);
    assert_eq!(report["files"].as_array().unwrap().len(), 2, "{report}");
    assert!(report["notes"][0].as_str().unwrap().starts_with("2 files: orphan: the table is gone"), "{report}");
    let all = run(&["probe", &store, "--keys", &keys]).expect_code(0).stdout;
    assert!(all.contains("probed files                     2"), "{all}");
    assert!(all.contains("2 files: orphan: ") && all.contains("delete it"), "{all}");
    let named = probed(&[&orphan, "--keys", &keys], 0);
    assert!(named["files"][0]["reason"].is_null(), "probed because it is named: {named}");
    let respelled = format!("{store}/../tables/000003.sst.filter");
    let named = probed(&[&store, &respelled, "--keys", &keys], 0);
    assert_eq!(named["probed_files"], 3, "each file counts once, however it is named: {named}");
    assert_eq!(run(&["verify", &respelled, &store, "--json"]).json()["orphans"].as_array().unwrap().len(), 2);

    (1..3).for_each(|number| fs::remove_file(format!("{store}/00000{number}.sst")).unwrap());
    assert_eq!(names(&store).len(), 4);
    run(&["report", &store]).expect_error("no table, only orphans");
    run(&["probe", &store, "--keys", &keys]).expect_error("no table, only orphans");
}

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
    for words in ["not compared with all keys", "built with a secret seed", "pass the seed with --secret-seed-file"] {
        assert!(unasked.contains(words), "{words} in {unasked}");
    }
    let unasked = run(&["verify", &out, "--secret-seed-file", &other]).expect_code(0).stdout;
    assert!(unasked.contains("built with another secret seed (fingerprint"), "{unasked}");
    let found = run(&["get", &out, "key0042", "--secret-seed-file", &other]).expect_code(0);
    assert!(found.stdout == "value0042\n" && found.stderr.contains("reading without a filter"));
}

/// Files of each sort, each with a key that it holds.
fn files(place: &Place) -> Vec<(String, &'static str)> {
    let keys = place.write("keys", lines(0..2_000, |key| format!("key{key:04}")));
    let filter = |name: &str, options: &[&str]| {
        run(&[&["filter", "--keys", &keys, "--out", &place.text(name)], options].concat()).expect_code(0);
        (place.text(name), "key0007")
    };
    let foreign = |name: &str, table: &str, key| (place.write(name, fs::read(table).unwrap()), key);
    let [_, container] = bare_filters(place, &KeyParts::whole_keys());
    vec![
        (format!("{}/000001.sst", place.build(500, &["--range-filter", "ordered"])), "key0007"),
        (container, "key0007"),
        filter("ribbon", &["--policy", "ribbon", "--fpr", "0.01"]),
        filter("ordered", &["--range-filter", "ordered"]),
        filter("hashed", &["--range-filter", "hashed:64:0.01:4", "--range-prefix", "3"]),
        foreign("rocksdb.sst", &format!("{FIXTURES}/rocksdb/11.8-bloom-fv6.sst"), "00000000"),
        foreign("zlib.sst", &format!("{FIXTURES}/databases/zlib/db/000009.sst"), "user:00000000"),
    ]
}

// promise: damage
#[test]
fn damage_anywhere_in_any_file_is_found_and_makes_no_stored_key_absent() {
    let place = Place::new();
    for (file, key) in files(&place) {
        let sound = fs::read(&file).unwrap();
        run(&["verify", &file]).expect_code(0);
        let probe = ["probe", &file, "--key", key, "--list", "absent"];
        let check = |bytes: &[u8], what: String| {
            fs::write(&file, bytes).unwrap();
            let verified = run(&["verify", &file]);
            // A flipped version of another engine may be a future one.
            let is_found = verified.code == Some(1) || verified.stdout.contains("format version");
            assert!(is_found, "{file}, {what}: {:?} {}", verified.code, verified.stdout);
            assert_eq!(run(&probe).stdout, "", "{file}, {what}");
        };
        for at in (0..sound.len()).step_by(sound.len() / 20).chain((sound.len() - 32..sound.len()).step_by(3)) {
            let mut flipped = sound.clone();
            flipped[at] ^= 1;
            check(&flipped, format!("byte {at}"));
        }
        for length in [0, 1, 8, 31, 53, 64, sound.len() / 2, sound.len() - 1] {
            check(&sound[..length], format!("{length} bytes"));
        }
    }
}

#[test]
fn verify_lists_every_damaged_block_and_says_how_many_entries_are_lost() {
    let place = Place::new();
    let table = format!("{}/000001.sst", place.build(20_000, &[]));
    let bytes = part(&table, "data").1;
    (0..14).for_each(|number| flip(&table, number * bytes / 14 + 10));
    flip(&table, part(&table, "filter").0 + 5);
    let found = run(&["verify", "--all", &table]).expect_code(1).stdout;
    let lines: Vec<_> = found.lines().filter(|line| line.contains("data at offset")).collect();
    assert_eq!(lines.len(), 14, "{found}");
    assert!(lines.iter().all(|line| line.starts_with(&format!("{table}: checksum of the data at"))), "{found}");
    assert_eq!(found.lines().filter(|line| line.contains("filter at offset")).count(), 1, "{found}");
    let json = json(&["verify", &table], 1);
    let (read, missing) = (json["files"][0]["entries"].as_u64().unwrap(), &json["files"][0]["missing_entries"]);
    assert!(read > 15_000 && missing.as_u64().unwrap() + read == 20_000, "{json}");
    assert!(found.contains("of 20,000 entries cannot be read: `get --salvage` prints the others"), "{found}");
}

#[test]
fn what_is_neither_table_nor_filter_is_said_to_be_and_a_filter_that_was_cut_short_is_not_skipped() {
    let place = Place::new();
    for (name, contents) in [("empty", vec![]), ("text", b"hello\n".repeat(100)), ("zeros", vec![0; 4_096])] {
        let path = place.write(name, contents);
        assert!(run(&["verify", &path]).expect_code(1).stdout.contains("neither"));
        run(&["get", &path, "k"]).expect_code(2);
    }
    let out = place.build(500, &[]);
    run(&["verify", &out]).expect_code(0);
    for length in [0, 20, 1_000] {
        fs::write(format!("{out}/000001.filter"), vec![7; length]).unwrap();
        run(&["verify", &out]).expect_code(1);
    }
    // A flipped bit leaves a file recognizable, unless it is one of the two magic bytes.
    let (block, end) = (place.text("block"), 32);
    run(&["filter", "--keys", &place.text("keys.tsv"), "--out", &block]).expect_code(0);
    let length = fs::read(&block).unwrap().len();
    for at in (0..end).filter(|at| ![26, 27].contains(at)) {
        flip(&block, length - end + at);
        let told = run(&["verify", &block]).expect_code(1).stdout;
        assert!(!told.contains("neither a table"), "byte {at}: {told}");
        flip(&block, length - end + at);
    }
}
