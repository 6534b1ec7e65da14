//! The page of results: every figure in it is a count of this run, or follows from counts.

use core::fmt::Write;

use sstfilter_charts::grouped;

use crate::AnyError;
use crate::contenders::Contender;
use crate::experiments::{BETWEEN_PERCENT, Measured, Results, Scans, SweepPoint, VALUE_BYTES, sweep_lookups};
use crate::files::{chart_file, path};
use crate::keys::Skew;
use crate::lookups::Outcome;
use crate::ranges::{RangeScans, Workload};
use crate::shards::{DEALT_FILTERS, DEALT_PERCENT, DEALT_SHARDS, DealtPoint, MANY};
use crate::store::Layout;

/// The four sweeps, from the one with the sharpest edge on.
const WORKLOADS: [(Layout, Skew, &str); 4] = [
    (Layout::L0, Skew::Uniform, "64 overlapping SSTs, uniform lookups"),
    (Layout::L0, Skew::Zipf, "64 overlapping SSTs, Zipf lookups"),
    (Layout::Runs, Skew::Uniform, "four sorted runs, uniform lookups"),
    (Layout::Runs, Skew::Zipf, "four sorted runs, Zipf lookups"),
];

/// Cache sizes that the tables show; the rest are in the CSV file.
const SHOWN_PERCENTS: [u64; 10] = [20, 50, 70, 75, 80, 90, 100, 110, 130, 200];

pub(crate) fn write(results: &Results) -> Result<(), AnyError> {
    let sections = [
        head(results)?,
        shards(results)?,
        windows(results)?,
        explanation(results)?,
        sweeps(results)?,
        sizes(results)?,
        lookups(results)?,
        scans(results)?,
        ranges(results)?,
        small(results)?,
        losses(results)?,
        method(results)?,
    ];
    Ok(std::fs::write(path("RESULTS.md"), sections.join("\n"))?)
}

pub(crate) fn write_ranges(results: &Results) -> Result<(), AnyError> {
    replace(RANGES_HEADING, &ranges(results)?)
}

pub(crate) fn write_shards(results: &Results) -> Result<(), AnyError> {
    replace(SHARDS_HEADING, &shards(results)?)
}

/// Replaces a section of the page, and leaves the rest unchanged.
fn replace(heading: &str, section: &str) -> Result<(), AnyError> {
    let page = std::fs::read_to_string(path("RESULTS.md"))?;
    let (before, rest) = page.split_once(heading).ok_or_else(|| format!("no {heading}"))?;
    let (_, after) = rest.split_once("\n## ").ok_or_else(|| format!("no section after {heading}"))?;
    Ok(std::fs::write(path("RESULTS.md"), format!("{before}{section}\n## {after}"))?)
}

const RANGES_HEADING: &str = "## Range scans\n";

const SHARDS_HEADING: &str = "## Shards\n";

fn head(results: &Results) -> Result<String, AnyError> {
    let mut page = format!(
        "# SlateDB: requests to the object store, with each filter\n\n\
         SlateDB keeps filters and indexes in one metadata cache. Our Ribbon filters have the false positive rate of its own\n\
         Bloom filters and take {} % of their space in it. A cache between the two sizes holds all of our filters, but not all\n\
         of SlateDB's.\n\n\
         **By default, SlateDB's cache has one shard for each core, and saves less.** GETs per absent lookup over {} overlapping\n\
         SSTs, with a cache of {BETWEEN_PERCENT} % of what SlateDB's own filters take: {:.1} with SlateDB's Bloom and {:.1} with our Ribbon in one\n\
         shard, but {:.1} and {:.1} in {MANY} shards. [Shards](#shards) has the other sizes, and what to configure. All other sections are about\n\
         a cache of one shard, in which 1,000 lookups of absent keys cost at {BETWEEN_PERCENT} %:\n\n\
         | GET requests per 1,000 absent lookups | no filter | SlateDB's Bloom | our Ribbon | |\n|---|--:|--:|--:|--:|\n",
        percent_text(charge_share(results, Layout::L0, Contender::Ribbon)?),
        results.ssts,
        sharded(results, Contender::BuiltIn, 1, BETWEEN_PERCENT)?,
        sharded(results, Contender::Ribbon, 1, BETWEEN_PERCENT)?,
        sharded(results, Contender::BuiltIn, MANY, BETWEEN_PERCENT)?,
        sharded(results, Contender::Ribbon, MANY, BETWEEN_PERCENT)?,
    );
    for (layout, skew, name) in WORKLOADS {
        let gets = |contender| -> Result<f64, AnyError> {
            Ok(swept(results, (layout, skew), contender, BETWEEN_PERCENT)?.gets_per_thousand())
        };
        let (none, theirs, ours) = (gets(Contender::None)?, gets(Contender::BuiltIn)?, gets(Contender::Ribbon)?);
        let ratio = ratio(theirs, ours);
        writeln!(page, "| {name} | {} | {} | {} | {ratio} |", count(none), count(theirs), count(ours))?;
    }
    writeln!(
        page,
        "\n![64 overlapping SSTs, uniform lookups]({})\n\n![four sorted runs, Zipf lookups]({})\n\n\
         All figures are counts of requests, not times: `cargo bench` writes this page and every figure on it ([how](#how-it-is-counted)).\n\
         [Where our filters do not win](#where-our-filters-do-not-win) is below. SlateDB's metadata cache has 128 MiB by default: as long as\n\
         all filters and indexes of a store fit into it, with space to spare in each shard, smaller filters save nothing.",
        chart_file(Layout::L0, Skew::Uniform),
        chart_file(Layout::Runs, Skew::Zipf),
    )?;
    Ok(page)
}

/// The numbers of shards in the table of lookups.
const SHARDS: [usize; 4] = [1, 2, MANY, 16];

/// The sizes in the tables of several shards.
const SHARD_PERCENTS: [u64; 5] = [75, BETWEEN_PERCENT, 95, 110, 130];

/// The filters of a shard with which hardly any shard is too small if all filters take five sixths of the cache.
const FILTERS_OF_SHARD: usize = 256;

/// GETs per absent lookup in a cache of several shards, on average over all deals.
fn sharded(results: &Results, contender: Contender, shards: usize, percent: u64) -> Result<f64, AnyError> {
    let point = results.shards.find(contender, shards, percent);
    Ok(point.ok_or_else(|| format!("no cache of {percent} % in {shards} shards was measured"))?.mean())
}

/// The first two lines of a table with a column for each number of shards.
fn head_of_shards(first: &str, shards: &[usize]) -> String {
    let titles: Vec<_> = shards.iter().map(|&one| format!("{one} shard{}", if one == 1 { "" } else { "s" })).collect();
    format!("| {first} | {} |\n|---|{}\n", titles.join(" | "), "--:|".repeat(shards.len()))
}

fn shards(results: &Results) -> Result<String, AnyError> {
    let point = results.shards.find(Contender::Ribbon, MANY, BETWEEN_PERCENT).ok_or("nothing was measured")?;
    let mut page = format!(
        "{SHARDS_HEADING}\n\
         `FoyerCacheOptions::default()` makes one shard for each core. A shard has an equal part of the bytes, and the filters\n\
         that a hash assigns to it: of 64 filters in {MANY} shards, one shard may get four and another 13. A shard that is too\n\
         small for its filters misses every one of them. GETs per absent lookup over the 64 overlapping SSTs, SlateDB's Bloom /\n\
         our Ribbon, averaged over {} assignments:\n\n{}",
        point.gets.len(),
        head_of_shards("cache, % of SlateDB's filters", &SHARDS),
    );
    for percent in SHARD_PERCENTS {
        write!(page, "| {percent} |")?;
        for count in SHARDS {
            let gets = |contender| sharded(results, contender, count, percent);
            write!(page, " {:.1} / {:.1} |", gets(Contender::BuiltIn)?, gets(Contender::Ribbon)?)?;
        }
        page.push('\n');
    }
    let (least, most) = point.range();
    writeln!(
        page,
        "\nAssignments differ widely: with {MANY} shards and {BETWEEN_PERCENT} %, ours cost {least:.1} to {most:.1} GETs. The ids of SSTs are random, so the\n\
         two tables of GETs in this section differ from run to run; nothing else on this page does. All counts are in\n\
         [shards.csv](results/shards.csv).\n",
    )?;
    Ok(page + &dealt(results)? + &smaller(results)?)
}

fn dealt(results: &Results) -> Result<String, AnyError> {
    let mut page = format!(
        "**Configure at most one shard for every {FILTERS_OF_SHARD} filters in use.** With many filters per shard, all shards get nearly the\n\
         same number. The next table has filters of one size in a `foyer` cache of {DEALT_PERCENT} % of the bytes of SlateDB's own, without\n\
         an engine. Each is used once per round. Percent of uses that miss, SlateDB's Bloom / our Ribbon\n\
         ([dealt.csv](results/dealt.csv)):\n\n{}",
        head_of_shards("filters in use", &DEALT_SHARDS),
    );
    for filters in DEALT_FILTERS {
        write!(page, "| {} |", grouped(filters as u64))?;
        for count in DEALT_SHARDS {
            let is_it = |one: &&DealtPoint| (one.filters, one.shards) == (filters, count);
            let [own, ours] = results.shards.dealt.iter().find(is_it).ok_or("nothing was dealt")?.missed;
            write!(page, " {own:.0} / {ours:.0} |")?;
        }
        page.push('\n');
    }
    Ok(page)
}

fn smaller(results: &Results) -> Result<String, AnyError> {
    let contenders = [Contender::BuiltIn, Contender::Ribbon, Contender::RibbonTwo, Contender::RibbonFour];
    let mut page = format!(
        "\n**Or use smaller filters.** If the number of shards must stay, a higher rate leaves each shard more space, and costs a\n\
         request for each additional false positive. GETs per absent lookup with {MANY} shards:\n\n\
         | cache, % of SlateDB's filters | {} |\n|---|--:|--:|--:|--:|\n",
        contenders.map(Contender::name).join(" | "),
    );
    for percent in SHARD_PERCENTS {
        write!(page, "| {percent} |")?;
        for contender in contenders {
            write!(page, " {:.1} |", sharded(results, contender, MANY, percent)?)?;
        }
        page.push('\n');
    }
    page.push_str(
        "\nOne shard does better than any of them. All threads then share one lock, whose cost is not measured here. A policy cannot\n\
         spread a filter over shards: SlateDB caches all filters of an SST as one entry.\n",
    );
    Ok(page)
}

fn windows(results: &Results) -> Result<String, AnyError> {
    let mut page = "## The window\n\n\
         Cache sizes at which SlateDB's own filters cost a multiple of the requests of our Ribbon filters, in percent of what\n\
         SlateDB's own filters take, with one shard. The page claims nothing between measured sizes.\n\n\
         | | twice or more | five times or more | 20 times or more | most |\n|---|---|---|---|--:|\n"
        .to_owned();
    for (layout, skew, name) in WORKLOADS {
        let ratios = ratios(results, (layout, skew))?;
        let most = ratios.iter().copied().max_by(|one, other| one.1.total_cmp(&other.1)).unwrap_or((0, 0.0));
        let window = |factor| window(&ratios, factor);
        writeln!(
            page,
            "| {name} | {} | {} | {} | {:.1} times, at {} % |",
            window(2.0),
            window(5.0),
            window(20.0),
            most.1,
            most.0
        )?;
    }
    Ok(page)
}

/// Returns the ratio of requests, the engine's own filters to our Ribbon, by the cache's size.
fn ratios(results: &Results, workload: (Layout, Skew)) -> Result<Vec<(u64, f64)>, AnyError> {
    percents(results)
        .into_iter()
        .map(|percent| {
            let theirs = swept(results, workload, Contender::BuiltIn, percent)?.gets_per_thousand();
            let ours = swept(results, workload, Contender::Ribbon, percent)?.gets_per_thousand();
            Ok((percent, theirs / ours))
        })
        .collect()
}

/// The longest row of sizes that reach the factor.
fn window(ratios: &[(u64, f64)], factor: f64) -> String {
    let rows = ratios.split(|(_, ratio)| *ratio < factor);
    match rows.max_by_key(|row| row.len()).unwrap_or_default() {
        [] => "at no size".to_owned(),
        [(only, _)] => format!("{only} %"),
        [(first, _), .., (last, _)] => format!("{first} % to {last} %"),
    }
}

fn explanation(results: &Results) -> Result<String, AnyError> {
    let own = find(&results.records, Layout::L0, Contender::BuiltIn)?;
    let ribbon = find(&results.records, Layout::L0, Contender::Ribbon)?;
    let own_at = |percent| {
        let outcome = swept(results, (Layout::L0, Skew::Uniform), Contender::BuiltIn, percent);
        outcome.map(|outcome| count(outcome.gets_per_thousand()))
    };
    let ours_per_sst = (ribbon.filter_charge - ribbon.sizes.filter.min(ribbon.filter_charge)) / ribbon.sizes.ssts;
    Ok(format!(
        "## Explanation\n\n\
         - **A cliff where SSTs overlap.** A lookup probes all {ssts} filters, each time in the same order. When they do not\n  \
           all fit, a cache that evicts the least recently used entry evicts each filter shortly before it is needed again,\n  \
           and no lookup finds a filter in it. A cache of 95 % is then as bad as one of 10 %: {at_95} and {at_10}\n  \
           requests with SlateDB's own filters. Which keys are\n  \
           looked up makes no difference: every lookup probes every filter.\n\
         - **A slope in sorted runs.** A lookup probes one filter of each run, which the key determines. A cache of half\n  \
           the filters holds about half of the probed ones. With Zipf lookups it holds more, because often used filters stay.\n  \
           In both cases our filters reach the end of the slope with the smaller cache.\n\
         - **Indexes share the cache.** At blocks of 4 KiB and values of {VALUE_BYTES} bytes, the indexes take {index} KB,\n  \
           SlateDB's own filters {own_charge} KB and our Ribbon filters {ribbon_charge} KB. An absent lookup reads an index only after a false\n  \
           positive ({positives:.2} per lookup in L0), and each such index displaces filters. So a\n  \
           cache of exactly 100 % still costs {at_full} requests with SlateDB's own filters, and requests go on falling beyond it.\n\
         - **Charges.** Our filters charge the cache for all their memory: the stored bytes, and {ours_per_sst} bytes\n  \
           more per SST. SlateDB's own charge only their bit array. In SSTs of {keys} keys, ours charge {charged} % of\n  \
           SlateDB's and are stored in {stored} %.\n\
         - **Without filters** a lookup reads the index of each SST that may contain the key, and then a block. The best it can\n  \
           reach is one request per SST, with all indexes cached.\n",
        ssts = results.ssts,
        index = kilobytes(own.index_charge),
        own_charge = kilobytes(own.filter_charge),
        ribbon_charge = kilobytes(ribbon.filter_charge),
        at_full = own_at(100)?,
        at_95 = own_at(95)?,
        at_10 = own_at(10)?,
        positives = own.cached_absent.false_positives as f64 / own.cached_absent.lookups as f64,
        keys = grouped((results.record_keys / results.ssts) as u64),
        charged = percent_text(charge_share(results, Layout::L0, Contender::Ribbon)?),
        stored = percent_text(ribbon.sizes.filter as f64 / own.sizes.filter as f64),
    ))
}

fn sweeps(results: &Results) -> Result<String, AnyError> {
    let mut page = format!(
        "## Every size of the cache\n\n\
         GET requests per 1,000 absent lookups, by the size of the metadata cache in percent of what SlateDB's own filters take\n\
         ({} KB in L0, {} KB in sorted runs). All sizes are in [sweep.csv](results/sweep.csv).\n",
        kilobytes(results.built_in_charge(Layout::L0)),
        kilobytes(results.built_in_charge(Layout::Runs)),
    );
    for (layout, skew, name) in WORKLOADS {
        write!(page, "\n### {}{}\n\n{}", name[..1].to_uppercase(), &name[1..], sweep_table(results, (layout, skew))?)?;
        if (layout, skew) != (Layout::L0, Skew::Uniform) && (layout, skew) != (Layout::Runs, Skew::Zipf) {
            writeln!(page, "\n![{name}]({})", chart_file(layout, skew))?;
        }
    }
    Ok(page)
}

fn sweep_table(results: &Results, workload: (Layout, Skew)) -> Result<String, AnyError> {
    let mut table = "| cache |".to_owned();
    SHOWN_PERCENTS.iter().try_for_each(|percent| write!(table, " {percent} % |"))?;
    write!(table, "\n|---|{}\n", "--:|".repeat(SHOWN_PERCENTS.len()))?;
    for contender in Contender::ALL {
        write!(table, "| {} |", contender.name())?;
        for percent in SHOWN_PERCENTS {
            write!(table, " {} |", count(swept(results, workload, contender, percent)?.gets_per_thousand()))?;
        }
        table.push('\n');
    }
    Ok(table)
}

fn sizes(results: &Results) -> Result<String, AnyError> {
    let mut page = format!(
        "## Sizes and false positives\n\n\
         The {} SSTs of L0, {} keys. Rates are of {} probes each.\n\n\
         | | stored | bits per key | of SlateDB's | in the cache | of SlateDB's | false positives |\n|---|--:|--:|--:|--:|--:|--:|\n",
        results.ssts,
        grouped(results.record_keys as u64),
        grouped(find(&results.records, Layout::L0, Contender::BuiltIn)?.cached_absent.probes),
    );
    let own = find(&results.records, Layout::L0, Contender::BuiltIn)?;
    for contender in Contender::ALL.into_iter().filter(|one| *one != Contender::None) {
        let one = find(&results.records, Layout::L0, contender)?;
        writeln!(
            page,
            "| {} | {} KB | {:.2} | {} % | {} KB | {} % | {:.3} % |",
            contender.name(),
            kilobytes(one.sizes.filter),
            one.sizes.filter as f64 * 8.0 / results.record_keys as f64,
            percent_text(one.sizes.filter as f64 / own.sizes.filter as f64),
            kilobytes(one.filter_charge),
            percent_text(one.filter_charge as f64 / own.filter_charge as f64),
            one.cached_absent.false_positive_rate() * 100.0,
        )?;
    }
    writeln!(page, "\nIndexes take {} KB, data blocks {} KB.", kilobytes(own.index_charge), kilobytes(own.sizes.data))?;
    Ok(page)
}

fn lookups(results: &Results) -> Result<String, AnyError> {
    let mut page = "## No cache, and all metadata cached\n\n\
         Per 1,000 uniform lookups. A cold absent lookup costs one request for each SST that covers the key, to read its\n\
         filter, and two more for each false positive: that is asserted to the exact count. Once filters and indexes are\n\
         cached, only false positives cost a request.\n"
        .to_owned();
    for (layout, name) in [(Layout::L0, "64 overlapping SSTs"), (Layout::Runs, "Four sorted runs")] {
        let measured = results.records.iter().filter(|one| one.layout == layout);
        write!(page, "\n### {name}\n\n{}", lookup_table(&in_order(measured))?)?;
    }
    page.push_str(
        "\nA present lookup stops at the newest SST that has the key, after half of those that cover it on average. Over a network,\n\
         SlateDB reads up to four SSTs at once, and some of these reads turn out not to be needed; in memory each read ends\n\
         before the next begins, and none is wasted. All counts are in [lookups.csv](results/lookups.csv).\n",
    );
    Ok(page)
}

fn in_order<'a>(measured: impl Iterator<Item = &'a Measured>) -> Vec<&'a Measured> {
    let mut measured: Vec<_> = measured.collect();
    measured.sort_by_key(|one| one.contender);
    measured
}

fn lookup_table(measured: &[&Measured]) -> Result<String, AnyError> {
    let mut table = "| | absent, cold | filters + indexes + blocks | read | present, cold | read | absent, cached | present, cached |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for one in measured {
        let (absent, present) = (&one.cold_absent, &one.cold_present);
        writeln!(
            table,
            "| {} | {} | {} | {} MB | {} | {} MB | {} | {} |",
            one.contender.name(),
            count(absent.gets_per_thousand()),
            by_section(absent),
            megabytes(absent),
            count(present.gets_per_thousand()),
            megabytes(present),
            count(one.cached_absent.gets_per_thousand()),
            count(one.cached_present.gets_per_thousand()),
        )?;
    }
    Ok(table)
}

/// Filter, index and block requests per 1,000 lookups.
fn by_section(outcome: &Outcome) -> String {
    let sections = [outcome.requests.filter, outcome.requests.index, outcome.requests.data];
    sections.map(|section| count(outcome.per_thousand(section.gets))).join(" + ")
}

fn scans(results: &Results) -> Result<String, AnyError> {
    let mut page = "## Prefix scans\n\n\
         Filters of whole keys and of prefixes, over the 64 overlapping SSTs. A prefix is a package name and a slash; its 20\n\
         records are in one SST, or in none. Requests per 1,000 scans:\n\n\
         | | filter bytes | absent, cold | present, cold | absent, cached | present, cached |\n|---|--:|--:|--:|--:|--:|\n"
        .to_owned();
    let mut all: Vec<&Scans> = results.scans.iter().collect();
    all.sort_by_key(|one| one.contender);
    for one in all {
        let outcomes = [one.cold_absent, one.cold_present, one.cached_absent, one.cached_present];
        let cells = outcomes.map(|outcome| count(outcome.gets_per_thousand())).join(" | ");
        writeln!(page, "| {} | {} KB | {cells} |", one.contender.name(), kilobytes(one.sizes.filter))?;
    }
    page.push_str(
        "\nWithout prefixes in the filters, a scan reads an index and a block of every SST and no filter: the first row is then that of\n\
         every filter. All counts are in [scans.csv](results/scans.csv).\n",
    );
    Ok(page)
}

fn ranges(results: &Results) -> Result<String, AnyError> {
    let mut page = format!(
        "{RANGES_HEADING}\n\
         Range filters of 1 % in addition to the Ribbon filters, over 64 SSTs that all cover nearly every range: the {} records above, and\n\
         {} readings of sensors, each SST with an hour of all of them. Per 1,000 scans. False positives are SSTs that were\n\
         read for nothing, in percent of those without a row of the scan.\n",
        grouped(results.record_keys as u64),
        grouped(results.reading_keys as u64),
    );
    for workload in Workload::ALL {
        write!(
            page,
            "\n| {} | filter bytes | GETs, cold | read | GETs, cached | read | false positives |\n|---|--:|--:|--:|--:|--:|--:|\n",
            workload.name(),
        )?;
        for one in results.ranges.iter().filter(|one| one.workload == workload) {
            let RangeScans { contender, sizes, cold, cached, .. } = one;
            writeln!(
                page,
                "| {} | {} KB | {} | {} MB | {} | {} MB | {} |",
                contender.name(),
                kilobytes(sizes.filter),
                count(cold.gets_per_thousand()),
                megabytes(cold),
                count(cached.gets_per_thousand()),
                megabytes(cached),
                false_positives(cached),
            )?;
        }
    }
    page.push_str(
        "\n- **Ordered** ranges have their rate where a range begins and ends without regard to an SST's keys. Package names are\n  \
           often close to others, so they are read in vain more often than that; and a quarter of an hour of a sensor begins and\n  \
           ends next to rows of that sensor in each SST, where all answers are \"may be present\". **Hashed** ones keep their rate.\n\
         - **Prefixes** tell which SSTs have a package. They cannot tell times of a sensor apart, which each SST has: the filters are\n  \
           then read in vain.\n\
         - **Cold**, a range filter costs one request for each SST and saves two for all but those with rows and false positives. It is\n  \
           read with the point filter: for sensors, hashed ranges are more bytes than the indexes and blocks that they save.\n\
         - Hashed ranges take two units for a package, and 1,024 of 1,024 ms for a sensor. All counts are in\n  \
           [ranges.csv](results/ranges.csv).\n",
    );
    Ok(page)
}

fn false_positives(outcome: &Outcome) -> String {
    if outcome.probes == 0 {
        return String::new();
    }
    let negatives = outcome.probes - outcome.positives;
    format!("{:.2} %", outcome.false_positives as f64 * 100.0 / (negatives + outcome.false_positives) as f64)
}

fn small(results: &Results) -> Result<String, AnyError> {
    let find = |contender| find(&results.names, Layout::L0, contender);
    let (own, ribbon) = (find(Contender::BuiltIn)?, find(Contender::Ribbon)?);
    Ok(format!(
        "## Small SSTs: package names only\n\n\
         The same 64 SSTs with {} names of packages, {} keys each. `SlateFilters` builds blocked Bloom filters for so\n\
         few keys, also where Ribbon is configured. Stored filters take {} KB ({} KB of SlateDB's own), and\n\
         {} KB in the cache ({} KB of its own): the fixed memory of each filter weighs more than its bits save.\n\n{}",
        grouped(results.name_keys as u64),
        grouped((results.name_keys / results.ssts) as u64),
        kilobytes(ribbon.sizes.filter),
        kilobytes(own.sizes.filter),
        kilobytes(ribbon.filter_charge),
        kilobytes(own.filter_charge),
        lookup_table(&in_order(results.names.iter()))?,
    ))
}

fn losses(results: &Results) -> Result<String, AnyError> {
    let find = |contender| find(&results.records, Layout::L0, contender);
    let (own, bloom, ribbon, ten) =
        (find(Contender::BuiltIn)?, find(Contender::Bloom)?, find(Contender::Ribbon)?, find(Contender::RibbonTen)?);
    let names = |contender| self::find(&results.names, Layout::L0, contender);
    let at = |contender, percent| {
        swept(results, (Layout::L0, Skew::Uniform), contender, percent).map(|one| count(one.gets_per_thousand()))
    };
    Ok(format!(
        "## Where our filters do not win\n\n\
         - **Nothing cached.** A filter of any size is one request: {} and {} requests per 1,000 absent lookups. Only the bytes\n  \
           differ, {} MB and {} MB.\n\
         - **A cache for everything, or for next to nothing.** At 200 % SlateDB's own filters cost {} requests and our Ribbon filters of\n  \
           the same rate {}; at 50 %, {} and {}. With a large cache, take Ribbon filters of 10 bits per key: {} requests at 200 %, from\n  \
           {} % of the stored bytes, with {:.3} % false positives instead of {:.3} %. They fit no earlier than SlateDB's own.\n\
         - **Our blocked Bloom filters** of 10 bits per key take {} % of the bytes of SlateDB's own and have {:.3} % false positives where it\n  \
           has {:.3} %. They save no requests; a writer uses them for large SSTs because they are built faster.\n\
         - **SSTs of a thousand keys.** Ours take {} % of what SlateDB's own take in the cache.\n\
         - **Present keys.** No filter saves reading the block: with all metadata cached, 1,000 lookups cost {} requests\n  \
           with SlateDB's own filters and {} with Ribbon.\n\
         - **Caches of several shards** with fewer than {FILTERS_OF_SHARD} filters per shard: see [above](#shards).\n\
         - **Not measured:** other eviction policies, and several lookups or reads at a time.\n",
        count(own.cold_absent.gets_per_thousand()),
        count(ribbon.cold_absent.gets_per_thousand()),
        megabytes(&own.cold_absent),
        megabytes(&ribbon.cold_absent),
        at(Contender::BuiltIn, 200)?,
        at(Contender::Ribbon, 200)?,
        at(Contender::BuiltIn, 50)?,
        at(Contender::Ribbon, 50)?,
        at(Contender::RibbonTen, 200)?,
        percent_text(ten.sizes.filter as f64 / own.sizes.filter as f64),
        ten.cached_absent.false_positive_rate() * 100.0,
        own.cached_absent.false_positive_rate() * 100.0,
        percent_text(bloom.sizes.filter as f64 / own.sizes.filter as f64),
        bloom.cached_absent.false_positive_rate() * 100.0,
        own.cached_absent.false_positive_rate() * 100.0,
        percent_text(names(Contender::Ribbon)?.filter_charge as f64 / names(Contender::BuiltIn)?.filter_charge as f64),
        count(own.cached_present.gets_per_thousand()),
        count(ribbon.cached_present.gets_per_thousand()),
    ))
}

fn method(results: &Results) -> Result<String, AnyError> {
    let runs = find(&results.records, Layout::Runs, Contender::BuiltIn)?;
    let [(l0_fill, l0_counted), (runs_fill, runs_counted)] =
        [Layout::L0, Layout::Runs].map(|layout| sweep_lookups(layout, Contender::BuiltIn));
    Ok(format!(
        "## How it is counted\n\n\
         ```sh\n\
         cargo bench --profile dev --manifest-path adapters/Cargo.toml -p sstfilter-slatedb --bench requests\n\
         cargo test --manifest-path adapters/Cargo.toml -p sstfilter-slatedb --bench requests   # short; asserts, and writes nothing\n\
         ```\n\n\
         The first command rewrites this page, the charts and the CSV files, and takes some minutes. Seeds are fixed and everything\n\
         runs on one thread: each run writes the same files, bit for bit, except for lookups in several shards. Nothing depends on\n\
         the machine or the optimization, so the profile is the one in which tests have already compiled the engine. With\n\
         `-- --ranges` or `-- --shards` at its end, it rewrites only the section of range scans, or of shards.\n\n\
         - **Engine.** SlateDB 0.18 with an object store in memory. A wrapper around it counts each GET when it is issued and sorts it\n  \
           by the sections of SSTs in the manifest. For absent keys, the benchmark asserts that SlateDB's own request counters agree.\n\
         - **Keys.** Records `name/number`, 20 for each of the 63,666 package names of Debian 12: {} keys with values of {VALUE_BYTES} bytes.\n  \
           Absent keys are records of package names of a later release, all of them within the range of every SST of L0.\n\
         - **L0.** {} SSTs, each with all records of {} random names, so that all overlap. SlateDB's defaults would compact them at 8: it\n  \
           is the state of a store whose compactor has fallen behind, and the sharpest case.\n\
         - **Sorted runs.** These SSTs, compacted by a standalone compactor into 4 runs of {} SSTs in all.\n\
         - **Lookups.** Uniform over names, or by Zipf's law: the name of rank r with weight 1/r. Names are ranked at random, so that often\n  \
           used ones are spread over all SSTs. One lookup at a time.\n\
         - **Cache.** SlateDB's `FoyerCache` (by default a variant of least recently used) with one shard, as metadata cache of a `SplitCache` without a block cache: each\n  \
           needed data block is a request. In each sweep, {l0_fill} lookups fill the cache and {l0_counted} are counted; in sorted runs, {} and {}.\n\
         - **Settings** that differ from the defaults: `min_filter_keys` 0, no garbage collection, no limit of L0 SSTs, manifests not polled.\n",
        grouped(results.record_keys as u64),
        results.ssts,
        grouped((results.name_keys / results.ssts) as u64),
        runs.sizes.ssts,
        grouped(runs_fill as u64),
        grouped(runs_counted as u64),
    ))
}

fn find(measured: &[Measured], layout: Layout, contender: Contender) -> Result<&Measured, AnyError> {
    let found = measured.iter().find(|one| (one.layout, one.contender) == (layout, contender));
    found.ok_or_else(|| format!("nothing was measured for {}", contender.name()).into())
}

fn swept(
    results: &Results,
    workload: (Layout, Skew),
    contender: Contender,
    percent: u64,
) -> Result<&Outcome, AnyError> {
    let is_it = |point: &&SweepPoint| {
        ((point.layout, point.skew), point.contender, point.percent) == (workload, contender, percent)
    };
    let found = results.sweep.iter().find(is_it).map(|point| &point.absent);
    found.ok_or_else(|| format!("no cache of {percent} % was measured").into())
}

/// The sizes of the cache, from the smallest on.
fn percents(results: &Results) -> Vec<u64> {
    let mut percents: Vec<u64> = results.sweep.iter().map(|point| point.percent).collect();
    percents.sort_unstable();
    percents.dedup();
    percents
}

/// Returns the size of a contender's filters in the cache, as a fraction of the engine's own.
fn charge_share(results: &Results, layout: Layout, contender: Contender) -> Result<f64, AnyError> {
    let charge = |contender| find(&results.records, layout, contender).map(|one| one.filter_charge as f64);
    Ok(charge(contender)? / charge(Contender::BuiltIn)?)
}

fn ratio(theirs: f64, ours: f64) -> String {
    if theirs >= ours {
        format!("{:.1} times fewer", theirs / ours)
    } else {
        format!("{:.1} times more", ours / theirs)
    }
}

fn count(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts are small and not negative")]
    let rounded = value.round() as u64;
    grouped(rounded)
}

fn percent_text(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

fn kilobytes(bytes: u64) -> String {
    count(bytes as f64 / 1e3)
}

/// Bytes read per 1,000 lookups.
fn megabytes(outcome: &Outcome) -> String {
    format!("{:.1}", outcome.per_thousand(outcome.requests.all().bytes) / 1e6)
}
