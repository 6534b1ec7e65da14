//! A measurement takes minutes, which are wasted if it ends without its files, or with a page that does not open. And
//! if it left out a kind silently, nobody would notice.

use std::collections::BTreeSet;
use std::fs;

use crate::common::{Place, names, run};
use roxmltree::{Document, ParsingOptions};
use serde_json::Value;

fn texts(values: &Value) -> Vec<&str> {
    values.as_array().unwrap().iter().map(|value| value.as_str().unwrap()).collect()
}

/// Returns the fields of one line of comma-separated values.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    for character in line.chars() {
        match character {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            _ => fields.last_mut().unwrap().push(character),
        }
    }
    assert!(!is_quoted, "{line}");
    fields
}

#[test]
fn a_measurement_is_three_files_that_agree_and_need_nothing_else() {
    let place = Place::new();
    let out = place.text("new/measured");
    let summary = run(&["measure", "--out", &out, "--max-keys", "3000", "--json"]).expect_code(0).json();
    assert_eq!(names(&out), ["measure.csv", "measure.html", "measure.json"], "and no left-over");

    let json: Value = serde_json::from_slice(&fs::read(format!("{out}/measure.json")).unwrap()).unwrap();
    let filters: Vec<_> =
        json["filters"].as_array().unwrap().iter().map(|filter| filter["name"].as_str().unwrap()).collect();
    assert!(filters.contains(&"bloom") && filters.contains(&"ribbon"), "{filters:?}");
    assert_eq!(texts(&summary["filters"]), filters);
    check_json(&json, &filters);
    check_csv(&fs::read_to_string(format!("{out}/measure.csv")).unwrap(), &json);
    // A logarithmic axis cannot show a rate of zero.
    let rates = json["rates"].as_array().unwrap().iter();
    let drawn = rates.filter(|point| point["observed_fpr"].as_f64().unwrap() > 0.0);
    let drawn: BTreeSet<&str> = drawn.map(|point| point["filter"].as_str().unwrap()).collect();
    assert!(drawn.len() >= 10, "{drawn:?}");
    check_page(&fs::read_to_string(format!("{out}/measure.html")).unwrap(), &drawn);
}

/// Every filter has every figure, or a reason for its absence.
fn check_json(json: &Value, filters: &[&str]) {
    let count = |section: &str, filter: &str| {
        json[section].as_array().unwrap().iter().filter(|figure| figure["filter"] == filter).count()
    };
    for filter in filters {
        let figures = count("rates", filter) + count("by_keys", filter) + count("omissions", filter);
        assert_eq!(figures, 9 + json["effort"]["ladder"].as_array().unwrap().len(), "{filter}");
    }
    for point in json["rates"].as_array().unwrap() {
        let (observed, expected) = (point["observed_fpr"].as_f64().unwrap(), point["expected_fpr"].as_f64().unwrap());
        let sigma = (expected / point["probes"].as_f64().unwrap()).sqrt();
        assert!((observed - expected).abs() < 0.35 * expected + 6.0 * sigma, "{point}");
        assert!(point["bits_per_key"].as_f64().unwrap() > -expected.log2(), "below the bound: {point}");
    }
    let overfilled = json["overfill"].as_array().unwrap();
    let scalable: Vec<_> = overfilled.iter().filter(|point| point["filter"] == "scalable").collect();
    assert!(scalable.len() == 30 && overfilled.iter().any(|point| point["expected_fpr"].as_f64().unwrap() > 0.1));
    for point in scalable {
        let rate = point["expected_fpr"].as_f64().unwrap();
        assert!(rate <= 0.01 && point["fill_ratio"].as_f64().unwrap() > 0.0, "it grows: {point}");
    }
    for point in json["by_keys"].as_array().unwrap() {
        for time in ["build_ns_per_key", "query_one_ns", "query_batch_ns"] {
            assert!(point[time].as_f64().unwrap() > 0.0, "{point}");
        }
    }
}

fn check_csv(csv: &str, json: &Value) {
    let lines: Vec<_> = csv.lines().map(fields).collect();
    assert!(lines.iter().all(|line| line.len() == lines[0].len()));
    for (section, array) in [("rates", "rates"), ("by_keys", "by_keys"), ("overfill", "overfill")] {
        let count = lines.iter().filter(|line| line[0] == section).count();
        assert_eq!(count, json[array].as_array().unwrap().len(), "{section}");
    }
}

fn check_page(html: &str, filters: &BTreeSet<&str>) {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(html, options).unwrap();
    let has_class = |node: &roxmltree::Node<'_, '_>, class: &str| node.attribute("class") == Some(class);
    let charts: Vec<_> =
        document.descendants().filter(|node| node.has_tag_name("svg") && has_class(node, "wide")).collect();
    assert!(charts.len() >= 5, "{}", charts.len());
    for filter in filters {
        let is_label = |node: roxmltree::Node<'_, '_>| {
            node.has_tag_name("text") && node.text().is_some_and(|text| text.trim().starts_with(filter))
        };
        assert!(charts[0].descendants().any(is_label), "{filter} is not in the first chart");
    }
    // Self-contained: nothing is loaded, and links lead to places of the page.
    for word in ["http:", "https:", "<script", "<img", "<link", "@import", "url(\""] {
        assert!(!html.contains(word), "{word}");
    }
    let ids: Vec<_> = document.descendants().filter_map(|node| node.attribute("id")).collect();
    for link in document.descendants().filter_map(|node| node.attribute("href")) {
        assert!(ids.contains(&link.trim_start_matches('#')), "{link}");
    }
    let mut once = ids.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), ids.len(), "an identifier stands twice");
}

#[test]
fn a_measurement_that_is_made_again_replaces_its_files_and_no_others() {
    let place = Place::new();
    place.write("notes.txt", "mine");
    let out = place.text("");
    let measure = ["measure", "--out", &out, "--max-keys", "1000"];
    for mine in ["measure.html", "measure.csv", "measure.json"] {
        place.write(mine, "{\n  \"program\": \"of mine\"");
        run(&measure).expect_error(&format!("{mine} was not written by this command"));
        assert_eq!(names(&out).len(), 2, "nothing else is written");
        fs::remove_file(place.path(mine)).unwrap();
    }
    run(&measure).expect_code(0);
    let text = run(&measure).expect_code(0).stdout;
    assert!(text.contains("binary-fuse-4") && text.contains("measure.html"), "{text}");
    assert_eq!(fs::read_to_string(place.path("notes.txt")).unwrap(), "mine");
    assert!(fs::read_to_string(place.path("measure.csv")).unwrap().starts_with("section,filter,"));
    assert_eq!(names(&out), ["measure.csv", "measure.html", "measure.json", "notes.txt"]);
}

#[test]
fn a_directory_that_cannot_be_made_is_refused_before_anything_is_measured() {
    let place = Place::new();
    let file = place.write("file", "not a directory");
    run(&["measure", "--out", &format!("{file}/below")]).expect_error("cannot create the directory");
    run(&["measure", "--out", &file]).expect_error("cannot create the directory");
    assert_eq!(run(&["measure"]).code, Some(2));
}
