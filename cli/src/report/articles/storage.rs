//! Sizes and rates of filters in storage engines.

use sstfilter::{BitsPerKey, BloomPolicy, FalsePositiveRate, FilterBlock, FilterSet, HitMatrix, KeyHasher};

use super::{FAMILY, Figure, Row};
use crate::report::contender::build_block;
use crate::report::effort::Effort;
use crate::report::keys;
use crate::units::percent;

/// Files that a lookup passes through, and their keys.
const FILES: u64 = 70;
const KEYS_PER_FILE: u64 = 2_000;
const LOOKUPS: u64 = 20_000;

pub(super) fn family_rows(effort: &Effort) -> anyhow::Result<Vec<Row>> {
    let ten_bits = build_block(&BloomPolicy::new(BitsPerKey::TEN), &keys::present(0, effort.article_keys))?;
    Ok(vec![
        Row::from(Figure {
            article: FAMILY,
            what: "RocksDB\u{2019}s default, ten bits per key in one line".to_owned(),
            published: 0.0084,
            ours: keys::observed_fpr(&ten_bits, effort.most_probes),
            tolerance: 0.05,
            show: percent,
            right:
                "0.82 % is the rate of a filter without lines; RocksDB\u{2019}s lines, of 512 bits and not bytes, give \
                    0.95 to 0.97 % like ours"
                    .to_owned(),
        }),
        Row::from(Figure {
            article: FAMILY,
            what: "Needless reads of an absent key in 70 files at 1 %".to_owned(),
            published: 0.7,
            ours: needless_reads()?,
            tolerance: 0.05,
            show: |reads| format!("{reads:.2} reads"),
            right: "files whose ranges all overlap; without filters it is 70 reads".to_owned(),
        }),
    ])
}

/// How many of the files' filters let an absent key through, in the mean.
fn needless_reads() -> anyhow::Result<f64> {
    let policy = BloomPolicy::for_rate(FalsePositiveRate::ONE_PERCENT)?;
    let blocks: Vec<_> = (0..FILES)
        .map(|file| build_block(&policy, &keys::present(file * KEYS_PER_FILE, KEYS_PER_FILE)))
        .collect::<anyhow::Result<_>>()?;
    let set =
        FilterSet::new(blocks.iter().map(|block| FilterBlock::open(block.as_bytes())), KeyHasher::default().identity());
    let mut hits = HitMatrix::default();
    set.candidates_batch(&keys::absent(LOOKUPS), &mut hits);
    Ok(hits.count() as f64 / LOOKUPS as f64)
}
