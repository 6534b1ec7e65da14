//! What `inspect` says about sound files, and what all commands say about partitioned filters. The failures guarded
//! against: a figure that is not the library's or the engine's, a filter that is taken for one of another sort or for
//! none, a damaged partition that is hidden among the sound ones, and a page that leaves out what its reader needs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use sstfilter::{BuildContext, Domain, FilterBlock, FixedPolicy, FixedPrefix, KeyExtractor, KeyHasher, KeyParts};
use sstfilter_range::RangeInfo;
use sstfilter_store::{PartitionCut, PartitionOptions, PartitionedBuilder, sidecar_path};
use sstfilter_table::{Table, TableOptions, TableWriter};

use crate::common::{
    FIXTURES, Place, array, fixtures, flip, inspected, json, lines, number, part, probed, program, run, run_with_input,
};

const BLOCKS: &str = "../../fixtures/v1";

#[test]
fn the_fields_of_a_table_are_those_of_the_library() {
    let place = Place::new();
    let options = ["--policy", "ribbon", "--range-filter", "ordered", "--level", "3"];
    let path = format!("{}/000001.sst", place.build(3_000, &options));
    let table = Table::open(&path, &TableOptions::default()).unwrap();
    let (report, info) = (inspected(&[&path], 0), table.filters().block().unwrap().info());
    assert_eq!((&report["format"], &report["bytes"]), (&"table".into(), &table.file_bytes().into()));
    assert_eq!(report["place"], json!({"database": null, "column_family": null, "level": 3, "is_live": null}));
    let (contents, id) = (&report["contents"], format!("{:#018x}", info.file.unwrap().fingerprint()));
    assert_eq!((&contents["entries"], &contents["file_id"]), (&3_000.into(), &id.clone().into()));
    assert_eq!((&contents["smallest_key"], &contents["largest_key"]), (&"key0000".into(), &"key2999".into()));
    let filter = &report["filters"][0];
    for (field, value) in [
        ("role", "table".into()),
        ("kind", "ribbon".into()),
        ("requested", "ribbon".into()),
        ("fallback", Value::Null),
        ("policy", table.properties().filter_policy.clone().into()),
        ("keys", 3_000.into()),
        ("filter_bytes", info.block_bytes.into()),
        ("payload_bytes", info.payload_bytes.into()),
        ("expected_fpr", info.expected_fpr.into()),
        ("bits_per_key", info.bits_per_key().into()),
        ("holds", "whole keys".into()),
        ("hash", info.hash.to_string().into()),
        ("bound_to", id.into()),
        ("checksum", "sound".into()),
    ] {
        assert_eq!(filter[field], value, "{field}");
    }
    let shape: Vec<_> = info.shape.iter().map(|(name, _)| *name).collect();
    assert!(shape.iter().all(|name| !filter["shape"][name].is_null()), "{shape:?} in {filter}");
    assert_eq!(report["filters"][1]["kind"], "range");
    let parts: Vec<_> = report["parts"].as_array().unwrap().iter().map(|part| part["offset"].as_u64()).collect();
    assert_eq!(parts, table.layout().iter().map(|(_, range)| Some(range.start)).collect::<Vec<_>>());
}

#[test]
fn the_fields_of_partitions_are_those_of_their_index() {
    let place = Place::new();
    for (cut, words) in [("key", "a partition, cut by key range"), ("hash", "a partition, cut by hash range")] {
        let options = ["--policy", "bloom", "--overwrite", "--partitions", &format!("1Ki:{cut}")];
        let path = format!("{}/000001.sst", place.build(20_000, &options));
        let table = Table::open(&path, &TableOptions::default()).unwrap();
        let (filter, index) = (inspected(&[&path], 0)["filters"][0].clone(), table.filters().partitions().unwrap());
        let (bytes, parts) = (index.container_bytes(), index.partition_bytes());
        for (field, value) in [
            ("kind", Value::from("bloom")),
            ("unit", words.into()),
            ("partitions", index.partitions().into()),
            ("keys", index.keys().into()),
            ("filter_bytes", bytes.into()),
            ("top_index_bytes", (bytes - parts).into()),
            ("mean_partition_bytes", (parts / u64::from(index.partitions())).into()),
            ("bits_per_key", (bytes as f64 * 8.0 / 20_000.0).into()),
        ] {
            assert_eq!(filter[field], value, "{field}");
        }
        assert!((0.004..0.02).contains(&number(&filter["expected_fpr"])), "{filter}");
        let [min, max] = ["min_partition_bytes", "max_partition_bytes"].map(|field| number(&filter[field]));
        assert!(0.0 < min && min <= max && max <= 1_100.0, "{filter}");
    }
}

#[test]
fn the_fields_of_range_filters_are_those_of_their_blocks() {
    let place = Place::new();
    let keys = place.write("keys", lines(0..1_000, |row| format!("user{:02}:{:04}", row / 20, row % 20 * 10)));
    for (name, options, holds) in [
        ("ordered", &["--range-filter", "ordered:0.01"][..], "ordered keys, for ranges of any length"),
        (
            "hashed",
            &["--range-filter", "hashed:64:0.01:4", "--range-prefix", ":"],
            "hashed ranges of up to 2,048 units of 1 in a big-endian integer of 4 bytes after the prefix",
        ),
    ] {
        let out = place.text(name);
        run(&[&["filter", "--keys", &keys, "--out", &out], options].concat()).expect_code(0);
        let (report, info) = (inspected(&[&out], 0), RangeInfo::of_block(&fs::read(&out).unwrap()).unwrap());
        let filter = &report["filters"][0];
        assert_eq!((&report["format"], &filter["holds"]), (&"range filter".into(), &holds.into()));
        assert_eq!((&filter["keys"], &filter["filter_bytes"]), (&1_000.into(), &info.block_bytes.into()));
        assert_eq!((&filter["shape"]["codes"], &filter["shape"]["key_bytes"]), (&info.codes.into(), &11.into()));
        // Hashed codes have another rate for each length of ranges.
        let rates = filter["range_rates"].as_array().unwrap();
        assert_eq!(filter["expected_fpr"].is_null(), name == "hashed");
        for (rate, units) in rates.iter().zip([1, 32, 1_024, 1 << 20]) {
            assert_eq!(*rate, json!({"units": units, "expected_fpr": info.expected_fpr(units)}));
        }
        assert_eq!(rates.len(), if name == "hashed" { 4 } else { 0 });
    }
}

/// A report that took such tables for tables without filters would advise to build some.
#[test]
fn tables_whose_range_filter_is_exact_need_no_other_filter() {
    let place = Place::new();
    let keys = place.write("ids", lines(0..9_000, |id| format!("{:08x}", id * 3 / 2)));
    let out = place.text("tables");
    let build = ["build", "--input", &keys, "--keys-format", "hex", "--out", &out, "--range-filter", "ordered"];
    run(&[&build[..], &["--files", "2"]].concat()).expect_code(0);
    let report = run(&["report", &out, "--json"]).expect_code(0).json();
    assert_eq!(report["families"][0]["total"]["kinds"], "exact range (2)", "{report}");
    assert_eq!((&report["remarks"], &report["families"][0]["total"]["keys"]), (&json!([]), &9_000.into()), "{report}");
    assert_eq!((&report["files"][0]["state"], &report["files"][0]["observed"]["positives"]), (&"ok".into(), &0.into()));
    let filter = &report["files"][0]["filters"][0];
    assert_eq!(filter["holds"], "whole keys and ranges of any length, without false positives: bitmap", "{filter}");
    assert_eq!((&filter["expected_fpr"], &filter["shape"]["last_integer"]), (&0.0.into(), &13_497.into()), "{filter}");
    let rebuilt = run(&["rebuild", "--only-problems", &out, "--json"]).expect_code(0).json();
    assert_eq!(rebuilt["rebuilt"], 0, "{rebuilt}");
    let probe = ["probe", "--key", "0000000b", "--keys-format", "hex", &out, "--json"];
    assert_eq!(run(&probe).expect_code(0).json()["answers"][0]["candidates"], 0);
    let compare = ["compare", "--input", &keys, "--keys-format", "hex", "--range-length", "10", "--json"];
    let compared = run(&compare).expect_code(0).json();
    assert_eq!(compared["range_filters"][0]["exact"], "bitmap", "{compared}");
    assert!(compared["advice"].as_str().unwrap().ends_with("writes no point filter for such a file"), "{compared}");
    let rebuilt = run(&["rebuild", &out, "--json"]).expect_code(0).json();
    let after = &rebuilt["rebuilt_tables"][0]["after"];
    assert_eq!((&rebuilt["rebuilt"], &after["kind"]), (&2.into(), &"exact range".into()), "{rebuilt}");
    let report = run(&["report", &out, "--json"]).expect_code(0).json();
    assert_eq!(report["families"][0]["total"]["kinds"], "exact range (2)", "{report}");
}

#[test]
fn layers_of_all_sorts_are_described() {
    let all =
        [("late-bound-to-file-7", "late keys", true), ("scalable", "scalable", false), ("rotating", "rotating", false)];
    for (name, kind, is_bound) in all {
        let report = inspected(&[&format!("{BLOCKS}/layers-{name}.layers")], 0);
        let filter = &report["filters"][0];
        assert_eq!(
            (&report["format"], &report["state"], &filter["kind"]),
            (&"layers".into(), &"ok".into(), &kind.into())
        );
        assert!(filter["bound_to"].is_string() == is_bound && filter["expected_fpr"].is_number(), "{report}");
    }
}

/// The first bytes of a key, under a name that the program does not know.
#[derive(Debug)]
pub(crate) struct Tenant;

impl KeyExtractor for Tenant {
    fn name(&self) -> &'static str {
        "tenant"
    }

    fn extract<'key>(&self, key: &'key [u8]) -> Option<Cow<'key, [u8]>> {
        key.get(..5).map(Cow::Borrowed)
    }
}

fn keys() -> impl Iterator<Item = String> {
    (0..3_000).map(|key| format!("key{key:04}"))
}

fn whole_and_parts() -> KeyParts {
    KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(4))).with_extractor(Arc::new(Tenant))
}

/// Returns a block of these parts, and a container of them.
pub(crate) fn bare_filters(place: &Place, parts: &KeyParts) -> [String; 2] {
    let context = BuildContext::new(&KeyHasher::default()).with_key_parts(parts.clone());
    let mut block = FixedPolicy::default().builder(&context);
    let options = PartitionOptions::new(PartitionCut::KeyRange, 1 << 10).unwrap();
    let mut container = PartitionedBuilder::new(Arc::new(FixedPolicy::default()), &context, options);
    for key in keys() {
        block.add_key(key.as_bytes());
        container.add_key(key.as_bytes());
    }
    let [block, container] = [block.finish().block, container.finish().block].map(Option::unwrap);
    [place.write("block", block), place.write("container", container)]
}

#[test]
fn the_parts_of_keys_that_a_filter_holds_are_named_if_their_extractors_are_known() {
    let place = Place::new();
    let stored = place.write("stored", lines(0..3_000, |key| format!("key{key:04}")));
    let unknown = format!("parts by an extractor of unknown name (tag {:#018x})", Domain::new("tenant").tag());
    let whole = |tenant: &str| format!("whole keys, parts by fixed-prefix:4, {tenant}");
    for (parts, holds) in [
        (KeyParts::whole_keys(), "whole keys".to_owned()),
        (whole_and_parts(), whole(&unknown)),
        (KeyParts::extracted(Arc::new(Tenant)), unknown.clone()),
    ] {
        for (path, format) in bare_filters(&place, &parts).iter().zip(["filter block", "partitioned filter"]) {
            let report = inspected(&[path], 0);
            assert_eq!((&report["format"], &report["filters"][0]["holds"]), (&format.into(), &holds.clone().into()));
            run(&["verify", path]).expect_code(0);
            let found = probed(&[path, "--keys", &stored], 0);
            assert_eq!(found["files"][0]["read_for"], 3_000, "no stored key is absent: {found}");
            let is_of_unknown_parts = holds == unknown;
            let reason = found["files"][0]["reason"].as_str().unwrap_or_default();
            let words = "its filter holds only parts of keys, and this program does not have";
            assert_eq!(reason.contains(words), is_of_unknown_parts, "{found}");
        }
    }
    // A table and its sidecar record the names.
    for partitions in [None, Some(PartitionOptions::new(PartitionCut::HashRange, 1 << 10).unwrap())] {
        let options = TableOptions::default().with_key_parts(whole_and_parts());
        let options = partitions.map_or(options.clone(), |partitions| options.with_partitioned_filter(partitions));
        let path = place.text("table.sst");
        let mut builder = TableWriter::create(&path, &options).unwrap();
        keys().for_each(|key| builder.add(key.as_bytes(), b"value").unwrap());
        builder.finish().unwrap();
        let table = Table::open(&path, &TableOptions::default().with_key_parts(whole_and_parts())).unwrap();
        table.write_sidecar(&options).unwrap();
        let filters = inspected(&[&path], 0)["filters"].clone();
        let known: Value = whole("parts by tenant").into();
        assert_eq!((&filters[0]["role"], &filters[0]["holds"]), (&"sidecar".into(), &known));
        assert_eq!((&filters[1]["role"], &filters[1]["holds"]), (&"table".into(), &known));
        fs::remove_file(sidecar_path(Path::new(&path))).unwrap();
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn each_table_of_another_engine_is_described_as_its_engine_wrote_it() {
    let fixtures = fixtures();
    let paths: Vec<_> = fixtures.keys().map(String::as_str).collect();
    let reports = run(&[&["inspect", "--json"], &paths[..]].concat()).expect_code(0).json();
    for report in reports["files"].as_array().unwrap() {
        let (fixture, engine) = (&fixtures[report["path"].as_str().unwrap()], &report["engine"]);
        let checksum = ["no checksum", "CRC32C", "xxHash32", "xxHash64", "XXH3"];
        let checksum = checksum[usize::try_from(fixture["checksum"].as_u64().unwrap()).unwrap()];
        assert!(engine["checksum_type"].as_str().unwrap().eq_ignore_ascii_case(checksum), "{fixture} {engine}");
        // Pebble can write tables of the other two.
        let formats = [("leveldb", "LevelDB table"), ("rocksdb", "RocksDB table"), ("", "Pebble table")];
        let of_file = |(part, _): &&(&str, &str)| fixture["file"].as_str().unwrap().contains(part);
        let (_, format) = formats.iter().find(of_file).unwrap();
        assert_eq!(report["format"], *format, "{fixture}");
        if fixture["engine"] == "rocksdb" {
            assert_eq!(engine["engine_name"], "RocksDB");
            assert_eq!(engine["format_version"], fixture["format_version"], "{fixture}");
            assert_eq!(report["contents"]["comparator"], fixture["comparator"]);
            is_filter_described(fixture, report);
        }
    }
}

/// The kind of filter, the reason for another one, and the keys; the library's tests compare the rest.
fn is_filter_described(fixture: &Value, report: &Value) {
    let (filter, name) = (&report["filters"][0], fixture["file"].as_str().unwrap());
    let kind = match fixture["filter"].as_str().unwrap() {
        "none" => return assert!(filter.is_null() && report["state"] == "missing", "{report}"),
        _ if name.contains("own-order-partitions") => {
            return assert!(filter["reason"].as_str().unwrap().contains("fixtures.LastByteFirst"), "{report}");
        }
        "ribbon" => "Standard128Ribbon",
        "legacy_bloom" => "legacy Bloom",
        _ => "FastLocalBloom",
    };
    let kinds = filter["kind"].as_str().unwrap();
    // Bloom in place of Ribbon is what the engine intended, as all of these tables are of unknown levels.
    let is_bloom = name.contains("ribbon") && kinds.contains("FastLocalBloom");
    assert!(kinds.starts_with(kind) && filter["fallback"].is_string() == is_bloom, "{fixture} {filter}");
    assert!(filter["state"] != "fallback" && number(&filter["expected_fpr"]) < 0.3, "{filter}");
    assert_eq!(filter["unit"], if fixture["layout"] == "full" { "the table" } else { "a partition" }, "{fixture}");
    if !fixture["comparator"].as_str().unwrap().contains("LastByteFirst") {
        let (holds, extractor) = (filter["holds"].as_str().unwrap(), fixture["extractor"].as_str());
        assert_eq!(fixture["whole_key"], holds.starts_with("whole keys"), "{fixture} {holds}");
        assert!(extractor.is_none_or(|extractor| holds.contains(extractor)), "{fixture} {holds}");
    }
}

#[test]
fn a_map_names_the_files_that_it_covers_if_they_are_passed() {
    let place = Place::new();
    let tables = place.build(3_000, &["--files", "3"]);
    let list = place.write("0x0123456789abcdef.keys", "a\nb\n");
    let map = place.text("map");
    run(&["map", "build", &tables, "--key-lists", &list, "--out", &map]).expect_code(0);
    let second = format!("{tables}/000002.sst");
    let report = inspected(&[&map, &second, "--key-lists", &list], 0);
    let of_map = &report["map"];
    assert_eq!((&report["format"], &of_map["covered_files"]), (&"file map".into(), &4.into()));
    // Keys whose hashes agree in the bits that the map keeps are one entry.
    assert!((2_990.0..=3_002.0).contains(&number(&of_map["map_entries"])), "{of_map}");
    let ids: BTreeMap<_, _> = array(of_map, "covers")
        .iter()
        .filter_map(|covered| Some((covered["path"].as_str()?, covered["file_id"].clone())))
        .collect();
    let id = inspected(&[&second], 0)["contents"]["file_id"].clone();
    assert_eq!(ids, [(list.as_str(), "0x0123456789abcdef".into()), (&second, id)].into());
}

#[test]
fn many_files_are_cut_and_their_reasons_are_summed_up() {
    let place = Place::new();
    let out = place.build(300, &["--files", "30"]);
    let tables: Vec<_> = (1..=30).map(|number| format!("{out}/{number:06}.sst")).collect();
    let tables: Vec<_> = tables.iter().map(String::as_str).collect();
    let many = run(&[&["inspect"], &tables[..]].concat()).expect_code(0).stdout;
    let few = "30 files: bloom, because the file has too few keys for ribbon (";
    for words in ["and 25 more: --all", few, " and 27 more)", "data blocks were not checked: `sstfilter verify` checks"]
    {
        assert!(many.contains(words), "{words} in {many}");
    }
}

/// A running engine removes tables, and a shell has listed them before.
#[test]
fn a_file_that_is_gone_does_not_hide_the_others() {
    let place = Place::new();
    let (good, gone) = (format!("{BLOCKS}/bloom-1000-keys-10-bits.block"), place.text("gone"));
    let both = json(&["inspect", &gone, &good], 2);
    let states: Vec<_> = both["files"].as_array().unwrap().iter().map(|file| &file["state"]).collect();
    assert_eq!(states, ["unread", "ok"]);
    run(&["inspect", &gone]).expect_error("cannot read");
}

#[test]
fn standard_input_is_described_and_its_database_is_unknown() {
    let place = Place::new();
    let block = fs::read(format!("{BLOCKS}/bloom-bound-to-file-7.block")).unwrap();
    let report = run_with_input(&["inspect", "-", "--json"], &block).expect_code(0).json()["files"][0].clone();
    let info = FilterBlock::open_unverified(block).unwrap().info();
    assert_eq!(report["filters"][0]["bound_to"], format!("{:#018x}", info.file.unwrap().fingerprint()));
    let table = fs::read(format!("{}/000001.sst", place.build(100, &["--partitions", "1Ki"]))).unwrap();
    let report = run_with_input(&["inspect", "-", "--json"], &table).expect_code(0).json()["files"][0].clone();
    assert_eq!((&report["bytes"], &report["filters"][0]["keys"]), (&table.len().into(), &100.into()));
    for cut in [&table[..table.len() - 1], &[]] {
        run_with_input(&["inspect", "-"], cut).expect_code(1);
    }
    // A manifest of one record: the comparator `idb_cmp1` of Chromium's databases.
    place.write("CURRENT", "MANIFEST-000002\n");
    place.write("MANIFEST-000002", b"\xf6\xd0\x17\xc7\x0a\x00\x01\x01\x08\x69\x64\x62\x5f\x63\x6d\x70\x31");
    let table = fs::File::open(format!("{FIXTURES}/leveldb/6000-keys.ldb")).unwrap();
    let output = program().args(["inspect", "-"]).current_dir(place.path("")).stdin(table).output().unwrap();
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains("leveldb.BytewiseComparator\n    comparator from       keys\n"), "{page}");
}

const KEYS: usize = 20_000;

/// Builds a table, whose filter has partitions of 1 KiB.
fn partitioned(place: &Place, cut: &str) -> String {
    let partitions = format!("1Ki:{cut}");
    format!("{}/000001.sst", place.build(KEYS, &["--policy", "bloom", "--overwrite", "--partitions", &partitions]))
}

/// Keys between those of the table.
fn absent(place: &Place) -> String {
    place.write("absent", lines(0..KEYS, |key| format!("key{key:04}!")))
}

#[test]
fn partitions_of_tables_sidecars_and_filters_alone_are_probed_and_verified() {
    let place = Place::new();
    for (cut, name) in [("key", "key.sst"), ("hash", "hash.sst"), ("key", "beside.sst")] {
        fs::rename(partitioned(&place, cut), place.path(name)).unwrap();
    }
    let by_key = place.text("key.sst");
    run(&["rebuild", &place.text("beside.sst"), "--policy", "bloom", "--partitions", "1Ki:hash"]).expect_code(0);
    let [_, container] = bare_filters(&place, &KeyParts::whole_keys());
    for (name, keys) in
        [("key.sst", KEYS), ("hash.sst", KEYS), ("beside.sst", KEYS), ("beside.sst.filter", KEYS), ("container", 3_000)]
    {
        let path = place.text(name);
        let stored = place.write("stored", lines(0..keys, |key| format!("key{key:04}")));
        let found = probed(&[&path, "--keys", &stored], 0);
        assert_eq!(found["files"][0]["read_for"], keys, "no stored key is absent: {found}");
        let file = &probed(&[&path, "--keys", &absent(&place)], 0)["files"][0];
        let (observed, expected) = (number(&file["positive_rate"]), number(&file["expected_fpr"]));
        assert!(file["reason"].is_null() && expected > 0.004 && (observed / expected - 1.0).abs() < 0.4, "{file}");
        assert!(file["kind"].as_str().unwrap().contains("partitioned, bloom"), "{file}");
        let shown = inspected(&[&path], 0)["filters"].clone();
        let verified = json(&["verify", &path], 0)["files"][0].clone();
        // The filters of the table and of its sidecar.
        let partitions: f64 = shown.as_array().unwrap().iter().map(|filter| number(&filter["partitions"])).sum();
        assert!(partitions > 2.0 && verified["partitions"] == partitions, "{verified} {shown}");
    }
    assert!(run(&["inspect", &place.text("beside.sst.filter")]).expect_code(0).stdout.contains("cut by hash range"));
    for (file, words) in [(&container, "expected a table, got a filter"), (&by_key, "partitioned filter")] {
        run(&["filter", file, "--out", &place.text("out")]).expect_error(words);
    }
}

#[test]
fn a_damaged_partition_has_one_wording_and_costs_its_own_keys_alone() {
    let place = Place::new();
    let (table, absent) = (partitioned(&place, "key"), absent(&place));
    let rate = |code| number(&inspected(&[&table], code)["filters"][0]["expected_fpr"]);
    let (before, at) = (rate(0), part(&table, "filter").0 + 100);
    flip(&table, at);
    let after = rate(1);
    assert!((0.02..0.07).contains(&(after - before)), "one partition of some thirty: {before} {after}");
    let file = &probed(&[&table, "--keys", &absent], 1)["files"][0];
    let read = number(&file["read_for"]) / number(&file["in_bounds"]);
    assert!((read / after - 1.0).abs() < 0.4 && file["reason"].as_str().unwrap().contains("partition 0"), "{file}");
    run(&["get", &table, "key0042"]).expect_code(0);
    flip(&table, at);

    run(&["rebuild", &table, "--policy", "bloom", "--partitions", "1Ki"]).expect_code(0);
    let sidecar = format!("{table}.filter");
    // Flips of the payload and of the version; the result is not a newer version.
    let version = fs::read(&sidecar).unwrap().windows(3).position(|bytes| bytes == b"\x21SF").unwrap();
    for at in [100, version] {
        flip(&sidecar, at);
        for path in [&table, &sidecar] {
            let damaged = |command: &[&str]| {
                let text = run(command).expect_code(1).stdout;
                let words = "partition 0 of a filter is damaged or foreign: expected checksum ";
                let at = text.find(words).unwrap_or_else(|| panic!("{command:?}: {text}"));
                text[at..].split(['\n', '"', ';']).next().unwrap().to_owned()
            };
            let verified = damaged(&["verify", path]);
            assert_eq!(damaged(&["inspect", path]), verified);
            assert_eq!(damaged(&["inspect", path, "--json"]), verified);
            assert_eq!(damaged(&["probe", path, "--keys", &absent]), verified);
            let probes = &inspected(&[path, "--absent", &absent], 1)["observed"]["probes"];
            let share = number(probes) / KEYS as f64;
            assert!((0.9..0.98).contains(&share), "one partition of some thirty: {share}");
        }
        flip(&sidecar, at);
    }
    assert!(number(&inspected(&[&sidecar, "--absent", &absent], 0)["observed"]["observed_fpr"]) < 0.03);
}
