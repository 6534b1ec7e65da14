//! One key and many filters, as in a store's point lookup.

use bytes::Bytes;
use sstfilter::simd::{self, InstructionSet};
use sstfilter::{
    BuildContext, FilterBlock, FilterReader, FilterSet, Filters, FixedPolicy, KeyHash, KeyHasher, MatchBitmap,
    MatchMatrix,
};

use crate::harness::Stretches;
use crate::keys::KeySet;
use crate::record::{Allocation, ManyFilters};
use crate::subject::{BuildError, count_where};
use crate::subjects::sstfilter::NAME;
use crate::subjects::{IsaChoice, sbbf};

/// Filters that are probed.
const FILTERS: u64 = 70;

/// Keys of each. All filters together take 0.7 MB, which fits into second-level caches; 1.3 MB, which fits into some;
/// and 85 MB, which lie in memory.
const KEYS_PER_FILTER: [usize; 3] = [8_000, 15_000, 971_000];

/// Absent keys in each turn: together they touch more lines than any cache holds.
const QUERIES: usize = 32_000;

/// Keys that are timed together, about a millisecond.
const STRETCH: usize = 500;

/// One probe after the other, without a set.
pub const ONE_BY_ONE: &str = "one call per filter";

/// All filters for one key.
pub const SET_OF_ONE_KEY: &str = "a set, one key";

/// Counts the pairs of key and filter with a positive answer.
type Count<'a> = dyn FnMut(&[KeyHash]) -> u64 + 'a;

/// Probes all filters for all keys, in one of several ways.
struct Method<'a> {
    name: &'static str,
    implementation: &'static str,
    isa: Option<InstructionSet>,
    count: Box<Count<'a>>,
}

/// Measures all sizes, each with both ways to allocate.
///
/// # Errors
///
/// The builder's error.
pub fn measure(turns: usize, isa: IsaChoice) -> Result<Vec<ManyFilters>, BuildError> {
    let mut records = Vec::new();
    for keys in KEYS_PER_FILTER {
        for allocation in [Allocation::InARow, Allocation::AmongOthers] {
            records.extend(measure_size(keys, allocation, turns, isa)?);
        }
    }
    Ok(records)
}

/// Measures filters of `keys` keys each.
fn measure_size(
    keys: usize,
    allocation: Allocation,
    turns: usize,
    isa: IsaChoice,
) -> Result<Vec<ManyFilters>, BuildError> {
    let blocks = allocated(allocation, |filter| our_block(filter, keys))?;
    let theirs = allocated(allocation, |filter| Ok(sbbf::filled(10, keys, hashes_of(filter, keys).map(KeyHash::get))))?;
    let ours = isa.sets().into_iter().map(|isa| Ours::open(&blocks, isa)).collect::<Result<Vec<_>, _>>()?;
    let mut methods: Vec<_> = ours.iter().flat_map(Ours::methods).collect();
    let count = |hashes: &[KeyHash]| pairs(hashes, &theirs, |filter, hash| filter.contains_hash(hash.get()));
    methods.push(Method { name: ONE_BY_ONE, implementation: "sbbf-rs-safe", isa: None, count: Box::new(count) });

    let times = measure_methods(&mut methods, turns)?;
    let our_bytes = blocks.iter().map(Bytes::len).sum::<usize>();
    let their_bytes = theirs.iter().map(|filter| filter.as_bytes().len()).sum::<usize>();
    let record = |(method, times): (&Method<'_>, &Stretches)| ManyFilters {
        implementation: method.implementation.to_owned(),
        method: method.name.to_owned(),
        isa: method.isa.map(|isa| isa.name().to_owned()),
        filters: FILTERS,
        keys_per_filter: keys as u64,
        total_bytes: if method.implementation == NAME { our_bytes } else { their_bytes } as u64,
        allocation,
        ns_per_probe: times.mean() / FILTERS as f64,
    };
    Ok(methods.iter().zip(&times).map(record).collect())
}

fn measure_methods(methods: &mut [Method<'_>], turns: usize) -> Result<Vec<Stretches>, BuildError> {
    let absent = KeySet::absent(QUERIES);
    let mut times = vec![Stretches::default(); methods.len()];
    for _ in 0..turns {
        for (method, times) in methods.iter_mut().zip(&mut times) {
            // Again in each turn, because the method before may have selected another set.
            simd::select(method.isa.unwrap_or_else(InstructionSet::fastest))?;
            times.time(absent.all(), STRETCH, |keys| Some((method.count)(keys.hashes)));
        }
    }
    Ok(times)
}

/// Builds all filters with `build`. In filters of equal size a key's line has the same offset, so the addresses of the
/// buffers decide which of these lines share a cache set.
fn allocated<F>(
    allocation: Allocation,
    mut build: impl FnMut(u64) -> Result<F, BuildError>,
) -> Result<Vec<F>, BuildError> {
    let mut others = Vec::new();
    let filters = (0..FILTERS).map(|filter| {
        if allocation == Allocation::AmongOthers {
            others.extend(other_buffers(filter));
        }
        build(filter)
    });
    filters.collect()
}

/// Buffers that a store allocates before a filter, and keeps: blocks and indexes of many sizes, 256 bytes to
/// 64 KiB. Of eight, four are freed again.
fn other_buffers(filter: u64) -> impl Iterator<Item = Vec<u8>> {
    let buffers = (1..=8).map(|buffer| {
        let random = KeyHash::mix(8 * filter + buffer).get();
        // All powers of two in this range are equally likely, and so are all sizes between two of them.
        vec![1; (256 << (random % 8)) + usize::from(random.to_le_bytes()[7]) * 16]
    });
    buffers.collect::<Vec<_>>().into_iter().step_by(2)
}

/// Our filters, opened while one instruction set is selected.
struct Ours {
    readers: Vec<FilterReader<Bytes>>,
    blocks: Vec<FilterBlock<Bytes>>,
    set: FilterSet<Bytes>,
    isa: Option<InstructionSet>,
}

impl Ours {
    fn open(blocks: &[Bytes], isa: Option<InstructionSet>) -> Result<Self, BuildError> {
        simd::select(isa.unwrap_or_else(InstructionSet::fastest))?;
        let hasher = KeyHasher::default();
        let load = |block: &Bytes| FilterBlock::load(block.clone(), &hasher);
        let blocks = blocks.iter().map(load).collect::<Result<Vec<_>, _>>()?;
        let readers = || blocks.iter().cloned().map(|block| Filters::default().reader(Ok(block)));
        Ok(Self { readers: readers().collect(), set: FilterSet::new(&Filters::default(), readers()), blocks, isa })
    }

    /// Returns the ways to probe the filters. A reader and a set count their answers.
    fn methods(&self) -> [Method<'_>; 4] {
        let (mut matches, mut matrix) = (MatchBitmap::default(), MatchMatrix::default());
        [
            self.method(ONE_BY_ONE, |hashes| pairs(hashes, &self.blocks, FilterBlock::may_contain)),
            self.method("one counted call per filter", |hashes| {
                pairs(hashes, &self.readers, |reader, hash| !reader.probe_hash(hash).is_absent())
            }),
            self.method(SET_OF_ONE_KEY, move |hashes| {
                let keys = hashes.iter().map(|&hash| {
                    self.set.matches_hash(hash, &mut matches);
                    matches.count()
                });
                keys.sum()
            }),
            self.method("a set, 32 keys", move |hashes| {
                let batches = hashes.chunks(32).map(|batch| {
                    self.set.matches_batch(batch, &mut matrix);
                    matrix.count()
                });
                batches.sum()
            }),
        ]
    }

    fn method<'a>(&self, name: &'static str, count: impl FnMut(&[KeyHash]) -> u64 + 'a) -> Method<'a> {
        Method { name, implementation: NAME, isa: self.isa, count: Box::new(count) }
    }
}

/// Counts the pairs of key and filter with a positive answer, one call each.
#[inline]
fn pairs<F>(hashes: &[KeyHash], filters: &[F], may_contain: impl Fn(&F, KeyHash) -> bool) -> u64 {
    hashes.iter().map(|&hash| count_where(filters, |filter| may_contain(filter, hash))).sum()
}

/// Returns the keys of one filter, which are in no other.
fn hashes_of(filter: u64, keys: usize) -> impl Iterator<Item = KeyHash> {
    // A filter has fewer than 2^32 keys, so the ranges of counters never overlap.
    (filter << 32..).take(keys).map(KeyHash::mix)
}

fn our_block(filter: u64, keys: usize) -> Result<Bytes, BuildError> {
    let context = BuildContext::new(&KeyHasher::default()).with_expected_keys(keys as u64);
    let mut builder = FixedPolicy::default().builder(&context);
    hashes_of(filter, keys).for_each(|hash| builder.add_hash(hash));
    Ok(builder.finish().block.ok_or("no filter fits")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_to_probe_find_the_same_filters() {
        let blocks = allocated(Allocation::AmongOthers, |filter| our_block(filter, 100)).unwrap();
        let ours = Ours::open(&blocks, None).unwrap();
        let hashes: Vec<_> = hashes_of(3, 100).collect();
        let counts: Vec<_> = ours.methods().iter_mut().map(|method| (method.count)(&hashes)).collect();
        assert!(counts[0] >= 100 && counts.iter().all(|count| *count == counts[0]), "{counts:?}");
    }

    #[test]
    fn other_buffers_have_many_sizes_and_half_of_them_stay() {
        let kept: Vec<_> = (0..50).flat_map(other_buffers).collect();
        let sizes: std::collections::HashSet<_> = kept.iter().map(Vec::len).collect();
        assert!(kept.len() == 200 && sizes.len() > 100, "{} {}", kept.len(), sizes.len());
    }
}
