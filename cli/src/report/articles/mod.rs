//! What articles about these filters say in figures, measured with this library.

mod cuckoo;
mod deletion;
mod fuse;
mod items;
mod optimum;
mod saturated;
mod sizes;
mod storage;
mod two_bit;

use serde::Serialize;
use sstfilter::FalsePositiveRate;

use super::contender::{Asked, Contender};
use super::effort::Effort;
use super::keys;
use crate::progress::Stages;

/// Whether a published figure is what is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    Holds,
    Differs,
    /// There is no published figure: ours stands beside one.
    Unpublished,
}

impl Verdict {
    fn holds(is_so: bool) -> Self {
        if is_so { Self::Holds } else { Self::Differs }
    }
}

/// One published figure and ours.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    /// Whose figure it is.
    pub(super) article: &'static str,
    /// What the figure is of.
    pub(super) what: String,
    pub(super) published: String,
    pub(super) ours: String,
    pub(super) verdict: Verdict,
    /// What is right, where the article is not; else what there is to know.
    pub(super) right: String,
}

/// A figure whose unit is the same in the article and here.
struct Figure {
    article: &'static str,
    what: String,
    published: f64,
    ours: f64,
    /// The relative difference up to which the published figure holds.
    tolerance: f64,
    show: fn(f64) -> String,
    right: String,
}

impl From<Figure> for Row {
    fn from(figure: Figure) -> Self {
        let difference = (figure.ours / figure.published - 1.0).abs();
        Self {
            article: figure.article,
            what: figure.what,
            published: (figure.show)(figure.published),
            ours: (figure.show)(figure.ours),
            verdict: Verdict::holds(difference <= figure.tolerance),
            right: figure.right,
        }
    }
}

/// From Bloom's filter to Ribbon and fuse, with a program in C and tables of the whole family.
const FAMILY: &str = "The Bloom filter family, from Bloom to Ribbon";
/// On filters in the tables of LSM engines.
const STORAGE: &str = "Bloom filters in storage engines";
/// On the filter of the database Floe.
const FLOE: &str = "Two bits are better than one: Floe\u{2019}s filter";
/// On binary fuse filters, beside xor filters.
const FUSE: &str = "Binary fuse filters, smaller and faster than Bloom filters";
/// A page of a book of patterns, with questions and answers.
const PATTERN: &str = "The Bloom filter as a pattern, with questions";

type Measure = fn(&Effort) -> anyhow::Result<Vec<Row>>;

/// Groups of rows, in the order of the page: those of one article together.
const GROUPS: &[(&str, Measure)] = &[
    ("the best number of probes", optimum::rows),
    ("a hundred thousand items", items::rows),
    ("sizes of the family", sizes::rows),
    ("deletion", deletion::rows),
    ("cuckoo against Bloom", cuckoo::rows),
    ("RocksDB and seventy files", storage::family_rows),
    ("storage engines", storage::rows),
    ("two bits", two_bit::rows),
    ("binary fuse", fuse::rows),
    ("a saturated filter", saturated::rows),
];

/// How many steps [`measure`] counts.
pub(super) fn steps() -> u64 {
    GROUPS.len() as u64
}

/// Measures all rows.
pub(super) fn measure(effort: &Effort, stages: &Stages) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (task, measure) in GROUPS {
        stages.at(format!("the articles' numbers: {task}"));
        rows.extend(measure(effort)?);
        stages.step();
    }
    Ok(rows)
}

/// The contender's filter of `count` keys; none when this program does not have the contender.
fn filter_of(name: &str, rate: f64, count: u64) -> anyhow::Result<Option<Box<dyn Asked>>> {
    let build = |contender: &Contender| contender.at(FalsePositiveRate::new(rate)?)?.build(&keys::present(0, count));
    Contender::named(name).map(build).transpose()
}

/// Its bits per key.
fn bits_of(name: &str, rate: f64, count: u64) -> anyhow::Result<Option<f64>> {
    let bits = |filter: Box<dyn Asked>| Ok(filter.block_bytes()? as f64 * 8.0 / count as f64);
    filter_of(name, rate, count)?.map(bits).transpose()
}

/// Bits per key.
fn bits(value: f64) -> String {
    format!("{value:.2} bits")
}
