//! Filters of key prefixes. The failures guarded against: the program treats such a filter as one of whole keys, so
//! that `probe` reports every stored key as absent, or it refuses to show a sound filter because it lacks the
//! extractor.

use std::borrow::Cow;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use sstfilter::{BuildContext, Domain, FixedPolicy, FixedPrefix, KeyExtractor, KeyHasher, KeyParts};
use sstfilter_store::{PartitionCut, PartitionOptions, PartitionedBuilder, sidecar_path};
use sstfilter_table::{Table, TableOptions, TableWriter};

use crate::common::{Place, lines, run};

const KEYS: usize = 3_000;

/// The first bytes of a key, under a name that the program does not know.
#[derive(Debug)]
struct Tenant;

impl KeyExtractor for Tenant {
    fn name(&self) -> &'static str {
        "tenant"
    }

    fn extract<'key>(&self, key: &'key [u8]) -> Option<Cow<'key, [u8]>> {
        key.get(..5).map(Cow::Borrowed)
    }
}

fn keys() -> impl Iterator<Item = String> {
    (0..KEYS).map(|key| format!("key{key:04}"))
}

fn whole_and_parts() -> KeyParts {
    KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(4))).with_extractor(Arc::new(Tenant))
}

/// Returns a block of these parts, and a container of them.
fn bare_filters(place: &Place, parts: &KeyParts) -> [String; 2] {
    let hasher = KeyHasher::default();
    let context = BuildContext::new(&hasher).with_key_parts(parts.clone());
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

fn tag(name: &str) -> String {
    format!("{:#018x}", Domain::new(name).tag())
}

fn fixed_and_tenant(tenant: &Value) -> Value {
    json!([{"tag": tag("fixed-prefix:4"), "name": "fixed-prefix:4"}, {"tag": tag("tenant"), "name": tenant}])
}

fn inspected(arguments: &[&str]) -> Value {
    run(&[&["inspect", "--json"], arguments].concat()).expect_code(0).json()["files"][0].clone()
}

#[test]
fn inspect_shows_the_parts_that_bare_filters_hold_and_names_the_extractors_that_are_known() {
    let place = Place::new();
    for (parts, whole_keys) in [(whole_and_parts(), true), (KeyParts::extracted(Arc::new(Tenant)), false)] {
        let paths = bare_filters(&place, &parts);
        for (path, sort) in paths.iter().zip(["filter_block", "partitioned_filter"]) {
            let held = |arguments: &[&str]| inspected(arguments)[sort]["key_parts"].clone();
            let extractors = |tenant: Value| {
                if whole_keys { fixed_and_tenant(&tenant) } else { json!([{"tag": tag("tenant"), "name": tenant}]) }
            };
            let unnamed = json!({"whole_keys": whole_keys, "extractors": extractors(Value::Null)});
            assert_eq!(held(&[path]), unnamed);
            assert_eq!(held(&[path, "--extractor", "other"]), unnamed);
            let named = json!({"whole_keys": whole_keys, "extractors": extractors("tenant".into())});
            assert_eq!(held(&[path, "--extractor", "other", "--extractor", "tenant"]), named);
        }
    }
    let [block, container] = bare_filters(&place, &whole_and_parts());
    let [fixed, tenant] = ["fixed-prefix:4", "tenant"].map(tag);
    for path in [block, container] {
        let text = run(&["inspect", &path]).expect_code(0).stdout;
        let line = format!(
            "holds             whole keys, parts by \"fixed-prefix:4\" (tag {fixed}), parts by an extractor of unknown name \
             (tag {tenant})"
        );
        assert!(text.contains(&line), "'{line}' in {text}");
    }
    let [block, _] = bare_filters(&place, &KeyParts::whole_keys());
    assert_eq!(inspected(&[&block])["filter_block"]["key_parts"], json!({"whole_keys": true, "extractors": []}));
    assert!(run(&["inspect", &block]).stdout.contains("holds             whole keys\n"));
}

#[test]
fn inspect_names_the_extractors_that_a_table_and_a_sidecar_name() {
    let place = Place::new();
    for partitions in [None, Some(PartitionOptions::new(PartitionCut::HashRange, 1 << 10).unwrap())] {
        let options = TableOptions::default().with_key_parts(whole_and_parts());
        let options =
            if let Some(partitions) = partitions { options.with_partitioned_filter(partitions) } else { options };
        let path = place.text("table.sst");
        let mut builder = TableWriter::create(&path, &options).unwrap();
        keys().for_each(|key| builder.add(key.as_bytes(), b"value").unwrap());
        builder.finish().unwrap();
        let table = Table::open(&path, &TableOptions::default().with_key_parts(whole_and_parts())).unwrap();
        table.write_sidecar(&options).unwrap();

        let shown = inspected(&[&path]);
        let field = if table.filters().partitions().is_some() { "partitions" } else { "filter" };
        let expected = json!({"whole_keys": true, "extractors": fixed_and_tenant(&"tenant".into())});
        assert_eq!(shown["table"][field]["key_parts"], expected, "{shown}");
        assert_eq!(shown["table"]["sidecar"][field]["key_parts"], expected, "{shown}");
        fs::remove_file(sidecar_path(Path::new(&path))).unwrap();
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn filters_of_parts_alone_are_sound_and_no_key_is_absent_from_them() {
    let place = Place::new();
    let stored = place.write("stored", lines(0..KEYS, |key| format!("key{key:04}")));
    for path in bare_filters(&place, &KeyParts::extracted(Arc::new(Tenant))) {
        run(&["verify", &path]).expect_code(0);
        let probed = run(&["probe", &path, "--keys", &stored, "--json"]).expect_code(0).json();
        assert_eq!((&probed["per_table"][0]["positives"], &probed["unusable_filters"]), (&KEYS.into(), &1.into()));
        let text = run(&["probe", &path, "--keys", &stored]).expect_code(0).stdout;
        assert!(text.contains("its filter holds only parts of keys, and this program does not have"), "{text}");
    }
}
