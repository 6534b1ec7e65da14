//! Sizes and rates of filters in storage engines.

use sstfilter::{
    BitsPerKey, BloomPolicy, FalsePositiveRate, FilterSet, GuardedFilter, HashIdentity, HitMatrix, KeyHasher,
    StandardBloom,
};

use super::{FAMILY, Figure, Row, STORAGE, Verdict};
use crate::report::contender::build_block;
use crate::report::effort::Effort;
use crate::report::keys;
use crate::units::{brief_percent, percent};

/// Files that a lookup passes through, and their keys.
const FILES: u64 = 70;
const KEYS_PER_FILE: u64 = 2_000;
const LOOKUPS: u64 = 20_000;

/// Bits per key, probes, and the published rate with its size for a million keys.
const CONFIGURATIONS: [(u64, u8, f64); 3] = [(10, 7, 0.01), (8, 6, 0.01), (5, 6, 0.05)];

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
    let hasher = KeyHasher::default();
    let set =
        FilterSet::new(blocks.iter().map(|block| GuardedFilter::load(block.as_bytes(), &hasher)), hasher.identity());
    let mut hits = HitMatrix::default();
    set.candidates_batch(&keys::absent(LOOKUPS), &mut hits);
    Ok(hits.count() as f64 / LOOKUPS as f64)
}

pub(super) fn rows(effort: &Effort) -> anyhow::Result<Vec<Row>> {
    let hashes = keys::present(0, effort.article_keys);
    let row = |(bits, probes, published): (u64, u8, f64)| {
        let observed = |bits_per_key: u64| -> anyhow::Result<f64> {
            let mut filter =
                StandardBloom::with_shape(HashIdentity::default(), effort.article_keys * bits_per_key, probes)?;
            filter.insert_all(&hashes);
            Ok(keys::observed_fpr(&filter, effort.most_probes / 5))
        };
        let (in_megabits, in_megabytes) = (observed(bits)?, observed(bits * 8)?);
        Ok(Row {
            article: STORAGE,
            what: format!("A million keys in {bits} MB, k = {probes}"),
            published: format!("about {}", brief_percent(published)),
            ours: format!(
                "{} in {bits} megabits, {} in {bits} megabytes",
                brief_percent(in_megabits),
                brief_percent(in_megabytes)
            ),
            verdict: Verdict::holds((in_megabytes / published - 1.0).abs() < 0.2),
            right: format!(
                "megabits are meant, {bits} bits per key; {}",
                if (in_megabits / published - 1.0).abs() < 0.2 {
                    "then the rate holds"
                } else {
                    "and even then the rate is higher"
                }
            ),
        })
    };
    CONFIGURATIONS.into_iter().map(row).collect()
}
