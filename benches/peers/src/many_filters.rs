//! One key, many filters: what a point lookup does in a store.

use bytes::Bytes;
use sbbf_rs_safe::Filter as Sbbf;
use sstfilter::simd::{self, InstructionSet};
use sstfilter::{
    BuildContext, FilterBlock, FilterReader, FilterSet, KeyHash, KeyHasher, KindPolicy, MatchBitmap, MatchMatrix,
};

use crate::harness::{Length, Stretches};
use crate::keys::KeySet;
use crate::record::ManyFilters;
use crate::subject::BuildError;
use crate::subjects::IsaChoice;
use crate::subjects::sstfilter::NAME;

/// Filters that are probed.
const FILTERS: u64 = 70;

/// Keys of each when all stay in the nearest caches, and when they fill 85 MB of memory.
const KEYS_PER_FILTER: [u64; 2] = [15_000, 971_000];

/// Absent keys in each turn: together they touch more lines than any cache holds.
const QUERIES: usize = 32_000;

/// Keys that are timed together: about a millisecond.
const STRETCH: usize = 500;

/// How many pairs of key and filter may be.
type Count<'a> = dyn FnMut(&[KeyHash]) -> u64 + 'a;

/// Probes all filters for all keys, in one of several ways.
struct Method<'a> {
    name: &'static str,
    implementation: &'static str,
    isa: Option<InstructionSet>,
    count: Box<Count<'a>>,
}

/// Measures both sizes.
///
/// # Errors
///
/// What a builder says when it cannot build.
pub fn measure(length: Length, isa: IsaChoice) -> Result<Vec<ManyFilters>, BuildError> {
    let turns = if length == Length::Quick { 3 } else { 20 };
    let mut records = Vec::new();
    for keys in KEYS_PER_FILTER {
        records.extend(measure_size(keys, turns, isa)?);
    }
    Ok(records)
}

fn measure_size(keys_per_filter: u64, turns: usize, isa: IsaChoice) -> Result<Vec<ManyFilters>, BuildError> {
    let ours = (0..FILTERS).map(|filter| our_filter(filter, keys_per_filter)).collect::<Result<Vec<_>, _>>()?;
    let set = FilterSet::new(
        ours.iter().cloned().map(|block| FilterReader::from(Ok(block))),
        KeyHasher::default().identity(),
    );
    let theirs: Vec<_> = (0..FILTERS).map(|filter| split_block_filter(filter, keys_per_filter)).collect();
    let sets = match isa {
        IsaChoice::Best => vec![None],
        IsaChoice::All => InstructionSet::available().map(Some).collect(),
    };
    let mut methods: Vec<_> = sets.into_iter().flat_map(|isa| our_methods(&ours, &set, isa)).collect();
    methods.push(Method {
        name: "one call per filter",
        implementation: "sbbf-rs-safe",
        isa: None,
        count: Box::new(|hashes| sum(hashes, |hash| count(&theirs, |filter| filter.contains_hash(hash.get())))),
    });

    let absent = KeySet::absent(QUERIES);
    let mut times = vec![Stretches::default(); methods.len()];
    for _ in 0..turns {
        for (method, times) in methods.iter_mut().zip(&mut times) {
            simd::select(method.isa.unwrap_or_else(InstructionSet::fastest))?;
            times.time(absent.all(), STRETCH, |keys| Some((method.count)(keys.hashes)));
        }
    }
    let our_bytes = ours.iter().map(|filter| filter.as_bytes().len()).sum::<usize>() as u64;
    let their_bytes = theirs.iter().map(|filter| filter.as_bytes().len()).sum::<usize>() as u64;
    let record = |(method, times): (&Method<'_>, Stretches)| ManyFilters {
        implementation: method.implementation.to_owned(),
        method: method.name.to_owned(),
        isa: method.isa.map(|isa| isa.name().to_owned()),
        filters: FILTERS,
        keys_per_filter,
        total_bytes: if method.implementation == NAME { our_bytes } else { their_bytes },
        ns_per_probe: times.mean().map_or(f64::NAN, |per_key| per_key / FILTERS as f64),
    };
    Ok(methods.iter().zip(times).map(record).collect())
}

/// The ways to probe ours.
fn our_methods<'a>(
    filters: &'a [FilterBlock<Bytes>],
    set: &'a FilterSet<Bytes>,
    isa: Option<InstructionSet>,
) -> [Method<'a>; 3] {
    let method = |name, count: Box<Count<'a>>| Method { name, implementation: NAME, isa, count };
    let (mut hits, mut matrix) = (MatchBitmap::default(), MatchMatrix::default());
    [
        method(
            "one call per filter",
            Box::new(|hashes| sum(hashes, |hash| count(filters, |filter| filter.may_contain(hash)))),
        ),
        method(
            "a set, one key",
            Box::new(move |hashes| {
                sum(hashes, |hash| {
                    set.matches(hash, &mut hits);
                    hits.count()
                })
            }),
        ),
        method(
            "a set, 32 keys",
            Box::new(move |hashes| {
                let batches = hashes.chunks(32).map(|batch| {
                    set.matches_batch(batch, &mut matrix);
                    matrix.count()
                });
                batches.sum()
            }),
        ),
    ]
}

#[inline]
fn sum(hashes: &[KeyHash], mut filters_that_may_hold: impl FnMut(KeyHash) -> u64) -> u64 {
    hashes.iter().map(|&hash| filters_that_may_hold(hash)).sum()
}

#[inline]
fn count<F>(filters: &[F], mut may_contain: impl FnMut(&F) -> bool) -> u64 {
    filters.iter().map(|filter| u64::from(may_contain(filter))).sum()
}

/// The keys of one filter, which are in no other.
fn hashes_of(filter: u64, keys: u64) -> impl Iterator<Item = KeyHash> {
    (filter << 32..).take(usize::try_from(keys).unwrap_or(usize::MAX)).map(KeyHash::mix)
}

fn our_filter(filter: u64, keys: u64) -> Result<FilterBlock<Bytes>, BuildError> {
    let context = BuildContext::new(&KeyHasher::default()).with_expected_keys(keys);
    let mut builder = KindPolicy::default().builder(&context);
    hashes_of(filter, keys).for_each(|hash| builder.add_hash(hash));
    Ok(FilterBlock::load(builder.finish().block.ok_or("no filter fits")?, &KeyHasher::default())?)
}

fn split_block_filter(filter: u64, keys: u64) -> Sbbf {
    let mut built = Sbbf::new(10, usize::try_from(keys).unwrap_or(usize::MAX));
    hashes_of(filter, keys).for_each(|hash| {
        built.insert_hash(hash.get());
    });
    built
}
