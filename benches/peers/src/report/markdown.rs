//! tables.md.

use std::fmt::Write as _;

use sstfilter_charts::grouped;

use super::{Material, ahead, describe, engines, ranges, versions};
use crate::record::{Measurements, Record};
use crate::tables;

/// Where the page comes from.
const ORIGIN: &str = "\
Made by `sstfilter-peers report` from the JSON files in this folder; changes by hand are lost. The conclusions are in\n\
[RESULTS.md](../RESULTS.md).\n";

/// How every time was taken, and what the columns mean.
const METHOD: &str = "\
One thread. Candidates take turns, and the best of several rounds counts. All get the same 64-bit hashes if they\n\
take hashes or `u64` keys (\"given\"; some mix them once more), and hash the number otherwise (\"included\").\n\
*single miss* and *single hit* are loops over 131,072 absent keys (1,048,576 from ten million keys on) and as\n\
many random present ones, one call per key. *batch miss* is the crate's own batch call, 4,096 absent keys at a\n\
time, with the answers counted. *bits/key* is the whole stored filter. *rate* is the share of 4,194,304 absent\n\
keys that may be present. *build* starts from a slice of hashes and ends with a filter that can be probed;\n\
*peak* is the most memory allocated meanwhile, beyond that slice. *vs ours* is the crate's time divided by ours:\n\
above 1 we are faster. Single probes are compared with our single probes, and batches with our batches; if a\n\
crate has no batch call, a column of its own compares its single probe with our batch. Bloom filters are\n\
compared with our blocked Bloom filter of 10 bits per key, Ribbon filters with our Ribbon filter of as many\n\
fingerprint bits, the others with our filter of their kind. sbbf-rs-safe appears at our size (10 bits per key)\n\
and at our false positive rate (10.6 bits per key).\n";

/// The introduction to the tables of uses.
const KEY_BYTES: &str = "\
Keys of one length lie one after the other in the nearest caches. Hashing is the sum of all hashes.\n\
`KeyHasher::hash` calls `xxh3_64_with_seed`, which is also measured alone.\n";
const BYTES_TO_ANSWER: &str = "\
The same keys, each hashed and then probed alone. All are absent. Filters that take hashes get XXH3 of the key.\n";
const COUNTED: &str = "\
A `FilterReader` verifies its block when it is loaded, and counts every answer; *may_contain* is the bare probe\n\
of the same block. With several threads, all probe one reader. *one thread alone* is one such thread. If the\n\
threads wrote to the same cache lines, *vs alone* would show it.\n";
const MANY_FILTERS: &str = "\
Absent keys, one after the other, against filters of equal size. *in a row*: nothing is allocated between their\n\
buffers. *among others*: buffers of 256 bytes to 64 KiB are allocated and freed between them, as in a store.\n\
Sets and counted calls count each answer. sbbf-rs-safe has no call for many filters.\n";
const COMPILED_FOR_CPU: &str = "\
Measured by a program compiled with `-C target-cpu`, our code and the other crates alike. *as usual* repeats the\n\
times of the other tables: compiled for any CPU of the target, with our kernels selected at run time.\n";

/// The costs that only the engines' figures include.
const ENGINES: &str = "\
Our side is a `TableSet`: immutable tables, a block cache, and what is needed to read a key from them. It has no\n\
memtable, sequence numbers, snapshots, versions or merge operators. RocksDB has all of these, and its figures\n\
include them; the other engines have most of them. The ratios are therefore those of whole reads, not of\n\
filters. *get* and *multi_get_32* read all absent keys, one by one and 32 in a call, false positives included.\n\
*get_negative* and *multi_get_32_negative* read those for which all our filters are negative. *get_present*\n\
reads present keys. RocksDB is compiled for the machine (`-march=native`), the other engines for any x86-64; our\n\
kernels choose AVX2 or AVX-512 at run time. [engines/README.md](../engines/README.md) says how the engines are\n\
set up.\n";

/// The whole file.
pub fn text(material: &Material) -> String {
    let Measurements { date, machine, records, .. } = &material.peers;
    let mut text =
        format!("# Benchmark tables\n\n{ORIGIN}\nMeasured on {date} (UTC). {}\n\n{METHOD}\n", describe(machine));
    push(&mut text, "To reproduce", &commands(material));
    let images = material.charts.iter().map(|chart| format!("![{}]({})\n", chart.title, chart.file));
    push(&mut text, "At a glance", &images.collect::<Vec<_>>().join("\n"));
    push(&mut text, "Where others are ahead of us", &others_ahead(&material.peers));
    for n in tables::sizes(records) {
        let title = format!("{} keys", grouped(n));
        push(&mut text, &title, &tables::of_size(records, n).markdown());
    }
    push_uses(&mut text, &material.peers);
    if let Some(native) = &material.native {
        push_compiled_for_cpu(&mut text, native, records);
    }
    if !material.engines.is_empty() {
        push(&mut text, "Storage engines", &format!("{ENGINES}\n{}", engines::table(&material.engines).markdown()));
    }
    if let Some(run) = &material.ranges {
        push(&mut text, "Range filters", &ranges::text(run));
    }
    push(&mut text, "Versions", &versions(records.iter().map(|record| (&record.implementation, &record.version))));
    text.trim_end().to_owned() + "\n"
}

fn others_ahead(peers: &Measurements) -> String {
    let (filters, uses) = (ahead::table(&peers.records), ahead::uses(&peers.key_bytes, &peers.many_filters));
    let uses = if uses.is_empty() { String::new() } else { format!("\n{}", uses.markdown()) };
    format!("Single probes against single probes, batches against batches.\n\n{}{uses}", filters.markdown())
}

/// The tables of what is measured of a few filters only. A run of some subjects has none of them.
fn push_uses(text: &mut String, peers: &Measurements) {
    let uses = [
        ("Hashing keys", KEY_BYTES, tables::hashing(&peers.key_bytes)),
        ("From key bytes to an answer", BYTES_TO_ANSWER, tables::hashing_and_probing(&peers.key_bytes)),
        ("Counted single probes", COUNTED, tables::counted(&peers.counted)),
        ("One absent key, many filters", MANY_FILTERS, tables::many_filters(&peers.many_filters)),
    ];
    for (title, method, table) in uses {
        if !table.is_empty() {
            push(text, title, &format!("{method}\n{}", table.markdown()));
        }
    }
}

fn push_compiled_for_cpu(text: &mut String, native: &Measurements, usual: &[Record]) {
    let machine = describe(&native.machine);
    let table = tables::compiled_for_cpu(&native.records, usual).markdown();
    push(
        text,
        "Compiled for the CPU",
        &format!("Measured on {} (UTC). {machine}\n\n{COMPILED_FOR_CPU}\n{table}", native.date),
    );
}

fn push(text: &mut String, title: &str, body: &str) {
    let _ = write!(text, "## {title}\n\n{body}\n");
}

fn commands(material: &Material) -> String {
    let run = "cargo run --release --manifest-path benches/peers/Cargo.toml";
    let mut lines = vec![format!("{run} -- {}--json benches/results/peers.json", arguments(&material.peers.arguments))];
    if let Some(native) = &material.native {
        let cpu = native.records.iter().find_map(|record| record.target_cpu.as_deref()).unwrap_or("native");
        lines.push(format!(
            "RUSTFLAGS=\"-C target-cpu={cpu}\" {run} --target-dir benches/peers/target/native -- \\\n    {}--json \
             benches/results/peers-native.json",
            arguments(&native.arguments)
        ));
    }
    if !material.engines.is_empty() {
        lines.push("(cd benches/engines && cargo run --release -- --json ../results/engines.json)".to_owned());
    }
    if let Some(ranges) = &material.ranges {
        let arguments = arguments(&ranges.arguments);
        lines.push(format!("{run} -- ranges {arguments}--json benches/results/ranges.json"));
    }
    lines.push(format!("{run} -- report"));
    format!("```sh\n{}\n```\n", lines.join("\n"))
}

/// The arguments of a run, with a space behind them.
fn arguments(given: &[String]) -> String {
    let mut arguments = given.join(" ");
    if !arguments.is_empty() {
        arguments.push(' ');
    }
    arguments
}
