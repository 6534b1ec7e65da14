//! The failure guarded against: a page that is cut short, or broken by a character with a meaning in markup. Only its
//! reader would notice.

use roxmltree::{Document, Node, ParsingOptions};
use sstfilter_charts::Machine;

use super::html;
use crate::filters::{Omission, Times};
use crate::measure::kinds::{Effort, FilterSize, KeysPoint, RatePoint, SETTINGS};
use crate::measure::overfill::OverfillPoint;
use crate::measure::{Family, FilterInfo, Report};

/// Names, bits per key at a rate of 2^-8, times at ten million keys, and whether they grow.
const FILTERS: [(&str, f64, [f64; 3], bool); 10] = [
    ("blocked Bloom", 12.2, [3.0, 4.0, 1.8], false),
    ("standard Bloom", 11.6, [14.0, 12.0, 7.0], true),
    ("counting Bloom", 46.2, [25.0, 15.0, 9.0], true),
    ("register-blocked Bloom", 14.0, [2.0, 3.0, 2.1], true),
    ("cuckoo", 11.6, [40.0, 9.0, 4.4], true),
    ("Ribbon", 8.03, [96.0, 14.0, 5.8], false),
    ("xor", 9.84, [70.0, 10.0, 4.5], false),
    ("xor+", 8.7, [80.0, 14.0, 8.0], false),
    ("binary fuse 3", 9.05, [30.0, 9.0, 3.2], false),
    ("binary fuse 4", 8.65, [34.0, 10.0, 3.9], false),
];

fn rate_points() -> impl Iterator<Item = RatePoint> {
    FILTERS.into_iter().flat_map(|(filter, bits, ..)| {
        SETTINGS.map(|target_fpr| {
            let bits_per_key = bits / 8.0 * -target_fpr.log2();
            let observed_fpr = target_fpr * 0.99;
            let (keys, bytes, probes) = (1_000_000, 125_000, 5_000_000);
            let size = FilterSize { filter, keys, target_fpr, bytes, bits_per_key, expected_fpr: target_fpr };
            RatePoint { size, observed_fpr, probes }
        })
    })
}

fn key_points(ladder: &[u64]) -> impl Iterator<Item = KeysPoint> {
    FILTERS.into_iter().flat_map(move |(filter, bits, [build, one, batch], _)| {
        ladder.iter().map(move |&keys| {
            let (small, large) = (300.0 / keys as f64, (keys as f64).log10() / 7.0);
            let (target_fpr, bits_per_key) = (1.0 / 256.0, bits + small);
            KeysPoint {
                size: FilterSize { filter, keys, target_fpr, bytes: keys, bits_per_key, expected_fpr: target_fpr },
                times: Times {
                    build_ns_per_key: build * large + small * 10.0,
                    query_one_ns: one * large,
                    query_batch_ns: batch * large,
                },
            }
        })
    })
}

fn overfill_points() -> impl Iterator<Item = OverfillPoint> {
    let growing = FILTERS.into_iter().filter(|filter| filter.3).enumerate();
    growing.flat_map(|(number, (filter, ..))| {
        (1..=30_u64).map(move |look| {
            let load = look as f64 / (8.0 + number as f64);
            let fill_ratio = 1.0 - (-load * 0.7).exp();
            let observed_fpr = fill_ratio.powi(5 + i32::try_from(number).unwrap());
            let alarms = [(fill_ratio > 0.7, "fill"), (observed_fpr > 0.1, "rate")];
            OverfillPoint {
                filter,
                target_fpr: 0.01,
                planned_keys: 1_000,
                offered_keys: look * 100,
                offered_percent: look * 10,
                refused_keys: 0,
                fill_ratio,
                expected_fpr: observed_fpr * 1.02,
                observed_fpr,
                alarms: alarms.into_iter().filter(|alarm| alarm.0).map(|alarm| alarm.1).collect(),
            }
        })
    })
}

fn family() -> Family {
    let ladder = vec![100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000];
    Family {
        filters: FILTERS.map(|(name, _, _, grows)| FilterInfo { name, grows, removes: name == "cuckoo" }).to_vec(),
        rates: rate_points().collect(),
        by_keys: key_points(&ladder).collect(),
        overfill: overfill_points().collect(),
        effort: Effort { ladder, rate_keys: 1_000_000, max_probes: 5_000_000, repetitions: 1, overfill_keys: 1_000 },
    }
}

fn sample() -> Report {
    Report {
        program: "sstfilter",
        version: "0.0.0",
        date: "2000-01-01".to_owned(),
        command: "sstfilter measure --out DIR".to_owned(),
        machine: Machine::this("portable"),
        family: family(),
        omissions: vec![Omission { filter: "xor", at: "100 keys".to_owned(), reason: "a < b".to_owned() }],
        findings: vec!["Smallest & best: <none>".to_owned()],
        seconds: 1.0,
    }
}

fn with_document(check: impl FnOnce(&Document<'_>)) {
    let html = html(&sample()).unwrap();
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    check(&Document::parse_with_options(&html, options).unwrap());
}

fn charts<'a>(document: &'a Document<'_>, class: &'a str) -> impl Iterator<Item = Node<'a, 'a>> {
    document.descendants().filter(move |node| node.has_tag_name("svg") && node.attribute("class") == Some(class))
}

#[test]
fn the_page_is_well_formed_and_draws_each_chart_for_both_screens() {
    with_document(|document| {
        assert_eq!(charts(document, "wide").count(), 7);
        assert_eq!(charts(document, "narrow").count(), 7);
        let marks = charts(document, "wide").flat_map(|chart| chart.descendants().filter(is_tip).collect::<Vec<_>>());
        assert!(marks.count() > 10 * (9 + 4 * 9), "a tip for each point");
    });
}

fn is_tip(node: &Node<'_, '_>) -> bool {
    node.has_tag_name("circle") && node.descendants().any(|child| child.has_tag_name("title"))
}

#[test]
fn text_from_figures_is_text_on_the_page() {
    with_document(|document| {
        let has = |words: &str| document.descendants().any(|node| node.text() == Some(words));
        assert!(has("Smallest & best: <none>"));
        assert!(has("xor at 100 keys: a < b"));
    });
}

#[test]
fn labels_of_a_chart_stand_apart_from_each_other() {
    with_document(|document| {
        for chart in charts(document, "wide") {
            let name = |text: &str| text.trim().trim_end_matches(" \u{2191}").to_owned();
            let is_label = |node: &Node<'_, '_>| {
                let text = node.text().map(name);
                node.has_tag_name("text") && FILTERS.iter().any(|filter| text.as_deref() == Some(filter.0))
            };
            let mut heights: Vec<i32> = chart
                .descendants()
                .filter(is_label)
                .map(|label| label.attribute("y").unwrap().parse().unwrap())
                .collect();
            heights.sort_unstable();
            assert!(heights.len() >= 4, "{heights:?}");
            assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= 18), "{heights:?}");
        }
    });
}
