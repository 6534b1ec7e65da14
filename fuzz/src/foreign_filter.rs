//! Exercises bare filters of other engines. They have no checksum, so opening and probing must be safe for any bytes.

use arbitrary::{Result, Unstructured};
use sstfilter_interop::{Filter, FilterKind, LevelDbFilterBlock, LevelDbFilterBlockBuilder, build_leveldb_bloom};

/// The most bits per key of a filter that is built.
const MAX_BITS_PER_KEY: u32 = 2_000;
/// The most keys of one.
const MAX_KEYS: usize = 64;
/// One input in this many computes rates, which take a thousand times as long as the rest.
const RATES_ONE_IN: u8 = 64;

/// Opens filters, or builds them, as `bytes` say.
pub fn exercise(bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    let _ = run(&mut input);
}

fn run(input: &mut Unstructured<'_>) -> Result<()> {
    let with_rates = input.arbitrary::<u8>()? % RATES_ONE_IN == 0;
    match input.int_in_range(0..=5)? {
        0 => built_filter(input),
        1 => built_block(input),
        2 => any_block(input),
        3 => {
            let (key, bytes) = (key(input)?, with_trailer(input)?);
            probe(Filter::rocksdb(bytes), &key, with_rates);
            Ok(())
        }
        _ => {
            let key = key(input)?;
            let bytes = input.bytes(input.len())?;
            probe(Filter::rocksdb(bytes), &key, with_rates);
            probe(Filter::leveldb(bytes), &key, with_rates);
            probe(Filter::pebble_fuse(bytes), &key, with_rates);
            Ok(())
        }
    }
}

fn key(input: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let length = input.arbitrary::<u8>()?;
    Ok(input.bytes(input.len().min(length.into()))?.to_vec())
}

fn keys(input: &mut Unstructured<'_>) -> Result<Vec<Vec<u8>>> {
    let mut keys = Vec::new();
    while !input.is_empty() && keys.len() < MAX_KEYS && input.ratio(15, 16)? {
        keys.push(key(input)?);
    }
    Ok(keys)
}

/// Data of whole lines behind which any trailer stands.
fn with_trailer(input: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let trailer: [u8; 5] = input.arbitrary()?;
    let unit = *input.choose(&[64, 16, 128, 1])?;
    let units = input.int_in_range(1..=64)?;
    let data = input.bytes(input.len())?;
    let repeated = data.iter().chain(&[0xff]).cycle().take(unit * units);
    Ok(repeated.copied().chain(trailer).collect())
}

/// Checks that all ways to probe agree, and that a filter without data is never negative.
fn probe<D: AsRef<[u8]>, E>(opened: core::result::Result<Filter<D>, E>, key: &[u8], with_rates: bool) {
    let Ok(filter) = opened else { return };
    let hash = filter.hash_function().hash(key);
    let answer = filter.may_contain(key);
    assert_eq!(answer, filter.may_contain_hash(hash), "{:?}", filter.kind());
    let hashes: Vec<u64> = (0..11_u64).map(|i| hash.wrapping_mul(2 * i + 1)).collect();
    let mut answers = Vec::new();
    filter.may_contain_hashes(&hashes, &mut answers);
    let single: Vec<bool> = hashes.iter().map(|&hash| filter.may_contain_hash(hash)).collect();
    assert_eq!(answers, single, "{:?}", filter.kind());
    if matches!(filter.kind(), FilterKind::AlwaysMaybe | FilterKind::NoKeys) {
        assert!(answer, "a filter without data says absent");
    }
    assert!(filter.parameters().all(|(name, value)| !name.is_empty() && !value.is_empty()));
    if with_rates {
        // Any number of keys, with small ones as likely as large ones.
        let keys = hash >> (hash % 64);
        let rate = filter.expected_fpr(keys).unwrap_or(0.0);
        assert!((0.0..=1.0).contains(&rate), "{:?}: rate {rate} for {keys} keys", filter.kind());
    }
}

fn built_filter(input: &mut Unstructured<'_>) -> Result<()> {
    let bits_per_key = input.int_in_range(0..=MAX_BITS_PER_KEY)?;
    let keys = keys(input)?;
    let filter = Filter::leveldb(build_leveldb_bloom(&keys, bits_per_key)).expect("LevelDB's own filter");
    assert!(keys.iter().all(|key| filter.may_contain(key)), "a filter lost a key");
    Ok(())
}

/// Data blocks at any distance from each other.
fn built_block(input: &mut Unstructured<'_>) -> Result<()> {
    let mut builder = LevelDbFilterBlockBuilder::new(input.int_in_range(0..=MAX_BITS_PER_KEY)?);
    let mut blocks = Vec::new();
    let mut offset = 0_u64;
    while !input.is_empty() && blocks.len() < 8 {
        builder.start_block(offset);
        let keys = keys(input)?;
        keys.iter().for_each(|key| builder.add_key(key));
        blocks.push((offset, keys));
        offset += u64::from(input.arbitrary::<u16>()?);
    }
    let block = LevelDbFilterBlock::open(builder.finish()).expect("LevelDB's own filter block");
    for (offset, keys) in blocks.iter().filter(|(_, keys)| !keys.is_empty()) {
        let filter = block.filter_of(*offset).expect("a filter of a data block with keys");
        assert!(keys.iter().all(|key| filter.may_contain(key)), "the filter of {offset} lost a key");
    }
    Ok(())
}

fn any_block(input: &mut Unstructured<'_>) -> Result<()> {
    let (offset, key) = (input.arbitrary()?, key(input)?);
    let Ok(block) = LevelDbFilterBlock::open(input.bytes(input.len())?) else { return Ok(()) };
    probe(block.filter_of(offset), &key, false);
    for index in 0..block.filters() {
        probe(block.filter(index), &key, false);
    }
    Ok(())
}
