//! RESULTS.md.

use std::fmt::Write as _;

use sstfilter_charts::Machine;

use super::{Material, ahead, engines};
use crate::record::{Measurements, Record};
use crate::table::grouped;
use crate::tables;

/// How every time was taken, and what the columns mean.
const METHOD: &str = "\
One thread; everybody in turn, several turns, the best of them. All get the same 64-bit hashes where they take\n\
hashes or `u64` keys (\"given\"; some mix them once more), and hash the number otherwise (\"included\"). *miss* and *hit*\n\
are loops over 1,048,576 absent keys and as many draws from the present ones, asked one by one; *batch* is the\n\
crate's own batch call, 4,096 absent keys at a time, answers counted. *bits/key* is the whole filter, as it is stored.\n\
*rate* is the share of 4,194,304 absent keys that are let through. *build* is everything from a slice of hashes to\n\
a filter that can be asked; *peak* is the most memory allocated meanwhile, beyond that slice. *vs ours* is how many\n\
times as long as ours it takes: above 1 we are faster. Bloom, cuckoo and quotient filters are compared with our\n\
Bloom filter of 10 bits per key, filters that are built at once with our Ribbon filter of as many fingerprint bits;\n\
without a batch call of its own, a crate's *miss* is compared with our *batch*.\n";

/// What the engines' figures include, and ours do not.
const ENGINES: &str = "\
Our side is a `TableSet`: immutable tables, and what is needed to read a key from them. It has no memtable, no sequence\n\
numbers, snapshots or versions, no merge operators, and no block cache with its bookkeeping: blocks that it keeps stay\n\
until the table is closed. RocksDB has all of that, and its figures include it; the other engines have most of it. The\n\
ratios are those of whole reads, then, and not of filters. RocksDB is compiled for the machine (`-march=native`), the\n\
other engines for any x86-64; our kernels choose AVX2 or AVX-512 at run time. [engines/README.md](engines/README.md)\n\
says how the engines are set up.\n";

/// The whole file.
pub fn text(material: &Material) -> String {
    let Measurements { date, machine, records, many_filters, .. } = &material.peers;
    let mut text = format!("# Benchmark results\n\nMeasured on {date} (UTC). {}\n\n{METHOD}\n", describe(machine));
    push(&mut text, "To get them again", &commands(&material.peers));
    if !material.notes.trim().is_empty() {
        push(&mut text, "Notes", &material.notes);
    }
    let images = material.charts.iter().map(|chart| format!("![{}](results/{})\n", chart.title, chart.file));
    push(&mut text, "At a glance", &images.collect::<Vec<_>>().join("\n"));
    push(&mut text, "Where others are ahead of us", &ahead::table(records).markdown());
    for n in tables::sizes(records) {
        let title = format!("{} keys", grouped(n));
        push(&mut text, &title, &tables::of_size(records, n).markdown());
    }
    if !many_filters.is_empty() {
        push(&mut text, "One absent key, many filters", &tables::many_filters(many_filters).markdown());
    }
    if !material.engines.is_empty() {
        push(&mut text, "Storage engines", &format!("{ENGINES}\n{}", engines::table(&material.engines).markdown()));
    }
    push(&mut text, "Versions", &versions(records));
    text.trim_end().to_owned() + "\n"
}

fn push(text: &mut String, title: &str, body: &str) {
    let _ = write!(text, "## {title}\n\n{body}\n");
}

fn describe(machine: &Machine) -> String {
    let Machine { cpu, cores, caches, instruction_sets, kernels, system, rustc } = machine;
    format!(
        "{cpu}, {cores} cores, caches {}; instruction sets {}, our kernels: {kernels}; {system}; {rustc}.",
        caches.join(", "),
        instruction_sets.join(", ")
    )
}

fn commands(measurements: &Measurements) -> String {
    let run = "cargo run --release --manifest-path benches/peers/Cargo.toml --";
    let mut arguments = measurements.arguments.join(" ");
    if !arguments.is_empty() {
        arguments.push(' ');
    }
    let portable = format!("{run} --isa all    # prints the portable figures of the notes, too");
    format!("```sh\n{run} {arguments}--json benches/results/peers.json\n{run} report\n{portable}\n```\n")
}

fn versions(records: &[Record]) -> String {
    let mut versions: Vec<_> =
        records.iter().map(|record| format!("{} {}", record.implementation, record.version)).collect();
    versions.sort_unstable();
    versions.dedup();
    versions.join(", ") + "\n"
}
