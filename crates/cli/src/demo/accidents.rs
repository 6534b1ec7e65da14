//! The accidents of `examples/accidents.rs`: how many keys of a file does each lose?
//!
//! A plain Bloom filter is bits and nothing else: any bytes of the right length answer. A block knows its file, its
//! hash and its checksum, so that a wrong one answers "may be present", and says what is wrong.

use std::hash::{DefaultHasher, Hash, Hasher};

use anyhow::Context;
use serde::Serialize;
use sstfilter::{BlockError, FileId, Filters, KeyHasher};

/// Keys of a file.
pub(super) const KEYS: u32 = 10_000;

/// The hash seed with which filters are built.
const SEED: u64 = 1;

/// What a reader of file 0 meets: the accident's name, the file whose filter it finds, the seed with which it probes,
/// and what happened to the filter's bytes.
type Accident = (&'static str, u32, u64, fn(&mut [u8]));

const ACCIDENTS: [Accident; 5] = [
    ("none", 0, SEED, |_| {}),
    ("another file's filter", 1, SEED, |_| {}),
    ("a damaged byte", 0, SEED, |bytes| bytes[7_000] ^= 0xff),
    // The first page was written.
    ("a torn write", 0, SEED, |bytes| bytes[4_096..].fill(0)),
    ("a changed hash seed", 0, SEED + 1, |_| {}),
];

/// The keys that an accident loses, because the filter is negative for them.
#[derive(Debug, Serialize)]
pub(super) struct AccidentFigures {
    pub(super) accident: &'static str,
    pub(super) plain_bloom_false_negatives: u64,
    pub(super) false_negatives: u64,
    /// Why sstfilter does not use the filter.
    pub(super) problem: Option<String>,
}

pub(super) fn measure() -> anyhow::Result<Vec<AccidentFigures>> {
    let mut figures = Vec::new();
    for (accident, file, seed, damage) in ACCIDENTS {
        let (mut plain, mut block) = (plain(file), block(file)?);
        damage(&mut plain);
        damage(&mut block);
        let is_absent = |key: &[u8; 4]| plain_bits(seed, *key).any(|(byte, bit)| plain[byte] & bit == 0);
        let filter = filters(seed).load(Some(block), FileId::from_fingerprint(0));
        figures.push(AccidentFigures {
            accident,
            plain_bloom_false_negatives: keys(0).filter(is_absent).count() as u64,
            false_negatives: keys(0).filter(|key| filter.probe(key).is_absent()).count() as u64,
            problem: filter.problem().map(BlockError::to_string),
        });
    }
    Ok(figures)
}

fn keys(file: u32) -> impl Iterator<Item = [u8; 4]> {
    (0..KEYS).map(move |key| (key * 2 + file).to_le_bytes())
}

/// The bits of a key in a plain Bloom filter of 10 bits per key, by double hashing.
fn plain_bits(seed: u64, key: [u8; 4]) -> impl Iterator<Item = (usize, u8)> {
    let [first, step] = [0, 1].map(|part| {
        let mut hasher = DefaultHasher::new();
        (seed, part, key).hash(&mut hasher);
        hasher.finish()
    });
    let positions = (0..7).map(move |probe| first.wrapping_add(step.wrapping_mul(probe)) % u64::from(KEYS * 10));
    positions.map(|position| ((position / 8) as usize, 1 << (position % 8)))
}

fn plain(file: u32) -> Vec<u8> {
    let mut bytes = vec![0; KEYS as usize * 10 / 8];
    keys(file).flat_map(|key| plain_bits(SEED, key)).for_each(|(byte, bit)| bytes[byte] |= bit);
    bytes
}

fn filters(seed: u64) -> Filters {
    Filters::default().with_hasher(KeyHasher::with_seed(seed))
}

fn block(file: u32) -> anyhow::Result<Vec<u8>> {
    let mut builder = filters(SEED).builder(FileId::from_fingerprint(file.into()));
    keys(file).for_each(|key| builder.add_key(&key));
    Ok(builder.finish().block.context("the policy builds no filter")?.to_vec())
}
