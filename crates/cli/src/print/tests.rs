//! A record of each kind of field, in every form. The failures guarded against: a field that JSON has and the text
//! leaves out unnoticed, a value whose unit the text changes, and a name that means two things.

use serde_json::{Map, json};

use super::page::faults;
use super::types::{Bits, Bytes, Dollars, Figure, Key, Nanoseconds, Open, PathName, Rate, Seconds};
use super::*;

words! {
    /// The state of a store.
    enum State {
        /// nothing is wrong
        Ok = "ok",
        Damaged = "damaged",
    }
}

record! {
    /// A store of this test.
    struct Store {
        path: PathName,
        is_open: bool,
        state: State [notable],
        bytes: Bytes,
        /// nanoseconds of a probe
        probe_ns: Nanoseconds,
        run_seconds: Seconds,
        dollars_per_day: Dollars,
        touched: Option<Figure>,
        missing: Option<u64>,
        parameters: Open,
        levels: Vec<u32>,
        place: Place,
        tables: Vec<TableRow>,
        findings: Vec<String> [notable],
        internal: u64 [json],
    }

    /// The place of a store.
    struct Place {
        volume: &'static str [row],
    }

    /// A table of the store.
    struct TableRow {
        smallest: Key [row],
        keys: u32 [row],
        place: Option<Place> [row],
        filters: Vec<Filter> [row],
        unknown: Option<bool> [row],
        note: String,
    }

    /// A filter of a table.
    struct Filter {
        bits_per_key: Bits [row],
        observed_fpr: Option<Rate> [row],
        observed_fpr_margin: Option<Rate> [row],
    }
}

fn filter(bits: f64, observed: Option<(f64, f64)>) -> Filter {
    let (observed_fpr, observed_fpr_margin) = observed.map(|(rate, margin)| (Rate(rate), Rate(margin))).unzip();
    Filter { bits_per_key: Bits(bits), observed_fpr, observed_fpr_margin }
}

fn table(smallest: &[u8], filters: Vec<Filter>) -> TableRow {
    let place = Some(Place { volume: "fast" }).filter(|_| !filters.is_empty());
    let (smallest, note) = (Key(smallest.to_vec()), "no column".to_owned());
    TableRow { smallest, keys: 1_500, place, filters, unknown: None, note }
}

fn store() -> Store {
    let parameters = Map::from_iter([("line_bytes".to_owned(), json!(64)), ("name".to_owned(), json!("a\x1b"))]);
    let measured = filter(10.0, Some((0.0095, 0.0013)));
    Store {
        path: PathName("db\n".into()),
        state: State::Damaged,
        bytes: Bytes(1_536),
        probe_ns: Nanoseconds(12.5),
        run_seconds: Seconds(1.25),
        dollars_per_day: Dollars(0.295),
        touched: Some(Figure(0.0156)),
        parameters: Open(parameters),
        levels: vec![0, 1, 6],
        place: Place { volume: "slow" },
        tables: vec![table(b"a\xff", vec![measured, filter(9.0, None)]), table(b"k", Vec::new())],
        findings: vec!["one finding".to_owned(), "another\nfinding".to_owned()],
        internal: 7,
        ..Store::default()
    }
}

const WHOLE: &str = r"path        db\n
is open     no
state       damaged
bytes       1.5 KiB
probe       12.5 ns
run         1.25 s
$ per day   0.29
touched     0.0156
parameters  line bytes 64, name a\x1b
levels      0, 1, 6

place:
  volume  slow

tables:
smallest   keys  volume  bits per key    observed fpr
a\xff     1,500  fast           10.00  0.95 +- 0.13 %
k         1,500  -                  -               -

one finding
another\nfinding
";

#[test]
fn text_has_each_known_field_once_in_its_unit() {
    assert_eq!(text(&store(), Extent::default()), WHOLE);
}

#[test]
fn quiet_text_has_only_what_is_notable() {
    let quiet = Extent { least: Show::Notable, ..Extent::default() };
    assert_eq!(text(&store(), quiet), "state  damaged\n\none finding\nanother\\nfinding\n");
}

#[test]
fn long_lists_are_cut_unless_all_is_asked_for() {
    let tables: Vec<_> = (0..100).map(|number: u32| table(number.to_string().as_bytes(), Vec::new())).collect();
    let findings = vec!["finding".to_owned(); 13];
    let store = Store { tables, findings, levels: (0..13).collect(), ..store() };
    let short = text(&store, Extent::default());
    assert!(short.contains("\n4         1,500\nand 95 more: --all\n\nfinding\n"), "{short}");
    assert!(short.contains("0, 1, 2, 3, 4, and 8 more\n"), "{short}");
    assert!(short.ends_with("finding\nand 8 more: --all\n"), "{short}");
    let long = text(&store, Extent { has_all_items: true, ..Extent::default() });
    assert!(long.contains("\n99        1,500\n") && !long.contains("more"), "{long}");
    assert_eq!(long.matches("finding\n").count(), 13);
}

#[test]
fn a_list_of_one_record_is_shown_like_the_record() {
    let store = Store { tables: vec![table(b"k", vec![filter(9.5, None)])], ..store() };
    let text = text(&store, Extent::default());
    let expected = "tables:\n  smallest  k\n  keys      1,500\n  place:\n    volume  fast\n  filters:\n    \
                    bits per key  9.50\n  note  no column\n";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn json_has_every_field_and_numbers_without_units() {
    let json = serde_json::to_value(Json(&store())).unwrap();
    let expected = json!({
        "path": "db\\n", "is_open": false, "state": "damaged", "bytes": 1536, "probe_ns": 12.5, "run_seconds": 1.25,
        "dollars_per_day": 0.295, "touched": 0.0156, "missing": null,
        "parameters": { "line_bytes": 64, "name": "a\u{1b}" },
        "levels": [0, 1, 6], "place": { "volume": "slow" },
        "tables": [
            {
                "smallest": { "hex": "61ff" }, "keys": 1500, "place": { "volume": "fast" },
                "filters": [
                    { "bits_per_key": 10.0, "observed_fpr": 0.0095, "observed_fpr_margin": 0.0013 },
                    { "bits_per_key": 9.0, "observed_fpr": null, "observed_fpr_margin": null },
                ],
                "unknown": null, "note": "no column",
            },
            { "smallest": "k", "keys": 1500, "place": null, "filters": [], "unknown": null, "note": "no column" },
        ],
        "findings": ["one finding", "another\nfinding"], "internal": 7,
    });
    assert_eq!(json, expected);
    let none = Store { bytes: Bytes(u64::MAX), probe_ns: Nanoseconds(f64::NAN), ..Store::default() };
    let printed = serde_json::to_string(&Json(&none)).unwrap();
    assert!(printed.contains(r#""bytes":18446744073709551615,"probe_ns":null"#), "{printed}");
    assert!(!text(&none, Extent::default()).contains("probe"), "a number that is none is unknown");
}

#[test]
fn a_page_has_the_same_values_and_its_details_have_all_fields() {
    let page = html::whole(&store(), Extent { least: Show::Json, ..Extent::default() });
    for part in [
        "<dt>$ per day</dt><dd>0.29</dd>",
        "<h3>place</h3><dl class=\"facts\"><div><dt>volume</dt><dd>slow</dd></div></dl>",
        "<th class=\"words\">smallest</th><th>keys</th><th class=\"words\">volume</th><th>bits per key</th>",
        "<td class=\"words\">a\\xff</td><td>1,500</td>",
        "<td>0.95 \u{b1} 0.13\u{a0}%</td>",
        "<li>another\\nfinding</li>",
        "<dt>internal</dt><dd>7</dd>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!html::whole(&store(), Extent::default()).contains("internal"));
    let tables: Vec<_> = (0..13).map(|_| table(b"<k>", Vec::new())).collect();
    let records: Vec<&dyn Record> = tables.iter().map(|table| table as &dyn Record).collect();
    let rows = html::rows(&records, Extent::default());
    assert!(rows.matches("<td class=\"words\">&lt;k&gt;</td>").count() == 5 && rows.ends_with("<p>and 8 more</p>"));
}

record! {
    /// Another report.
    struct Other {
        path: PathName,
        parameters: Open,
    }

    /// A record with faults.
    struct Faulty {
        path: u64 [row],
        length: Bytes,
        inner: Other,
        twice: Vec<Twice> [row],
    }

    /// A row with a column of the same name.
    struct Twice {
        path: u64 [row],
    }
}

#[test]
fn a_name_with_two_meanings_or_without_its_unit_is_a_fault() {
    let sound = || ("store", &Store::SCHEMA);
    let is_own = |fault: &String| !fault.starts_with("no field needs");
    let own = |reports: &[Report]| faults(reports).into_iter().filter(is_own).collect::<Vec<_>>();
    assert_eq!(own(&[sound()]), Vec::<String>::new());
    let faults = own(&[sound(), ("faulty", &Faulty::SCHEMA)]);
    for fault in ["path has two meanings or two types", "Faulty: two columns are path"] {
        assert!(faults.iter().any(|found| found == fault), "{fault}: {faults:?}");
    }
    assert!(faults.iter().any(|fault| fault.starts_with("length does not say its unit")), "{faults:?}");
}
