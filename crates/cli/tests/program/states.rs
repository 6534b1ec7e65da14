//! The states of files. The failures guarded against: damage that is called sound; a sound table that is called damaged
//! because of its sidecar; a table that stays damaged although its filter was rebuilt; and a small table that needs a
//! look because of what its policy chose.

use std::fs;

use sstfilter::{BuildContext, FalsePositiveRate, FixedPolicy, KeyHasher};
use sstfilter_table::{TableOptions, TableWriter};

use crate::common::{Place, flip, inspected, part, run};
use crate::engines::FIXTURES;

/// A file, its state, the part that has it, words of the worst reason, and the exit code.
type Case = (String, &'static str, Option<&'static str>, &'static str, i32);

/// Builds one table of 8,000 keys in a directory of its own.
fn table(place: &Place, name: &str, options: &[&str]) -> String {
    let keys = place.write("keys", crate::common::lines(0..8_000, |key| format!("key{key:04}")));
    let out = place.text(name);
    run(&[&["build", "--input", &keys, "--out", &out], options].concat()).expect_code(0);
    format!("{out}/000001.sst")
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
        (few_keys(place, "few", &[]), "ok", Some("filter"), few, 0),
        (few_keys(place, "few parts", &partitions), "ok", Some("filter"), "bloom, not ribbon: too few keys", 0),
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

fn few_keys(place: &Place, name: &str, options: &[&str]) -> String {
    let keys = place.write("few keys", crate::common::lines(0..300, |key| format!("key{key:04}")));
    let out = place.text(name);
    run(&[&["build", "--input", &keys, "--out", &out], options].concat()).expect_code(0);
    format!("{out}/000001.sst")
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
        let is_meant = |reason: &&serde_json::Value| reason["why"].as_str().unwrap().contains(words);
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
