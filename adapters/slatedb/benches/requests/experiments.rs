//! The experiments: their order and their keys.

use slatedb::bytes::Bytes;
use slatedb::db_cache::CacheTarget;

use crate::AnyError;
use crate::contenders::{Contender, Parts};
use crate::keys::{Form, KeySet, Skew};
use crate::lookups::{MetaCache, Outcome, Session};
use crate::ranges::{self, RangeScans, Readings};
use crate::shards::{self, MANY, ShardExtent, Shards};
use crate::store::{Layout, Sizes, Store};

/// All counts.
#[derive(Debug, Default)]
pub(crate) struct Results {
    /// Keys of each set: records, and names.
    pub(crate) record_keys: usize,
    pub(crate) name_keys: usize,
    pub(crate) ssts: usize,
    /// Stores of records, in both layouts.
    pub(crate) records: Vec<Measured>,
    /// Stores of names, in L0.
    pub(crate) names: Vec<Measured>,
    pub(crate) sweep: Vec<SweepPoint>,
    pub(crate) scans: Vec<Scans>,
    pub(crate) reading_keys: usize,
    pub(crate) ranges: Vec<RangeScans>,
    pub(crate) shards: Shards,
}

/// Lookups in one store without a cache, and with all filters and indexes cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Measured {
    pub(crate) layout: Layout,
    pub(crate) contender: Contender,
    pub(crate) sizes: Sizes,
    /// The bytes of all filters, and of all indexes, in the cache.
    pub(crate) filter_charge: u64,
    pub(crate) index_charge: u64,
    pub(crate) cold_absent: Outcome,
    pub(crate) cold_present: Outcome,
    pub(crate) cached_absent: Outcome,
    pub(crate) cached_present: Outcome,
}

/// Absent lookups with a cache of one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SweepPoint {
    pub(crate) layout: Layout,
    pub(crate) skew: Skew,
    pub(crate) contender: Contender,
    /// The cache's size, in percent of the engine's own filters in it.
    pub(crate) percent: u64,
    pub(crate) cache_bytes: u64,
    pub(crate) absent: Outcome,
}

/// Scans of prefixes in one store, in L0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scans {
    pub(crate) contender: Contender,
    pub(crate) sizes: Sizes,
    pub(crate) cold_absent: Outcome,
    pub(crate) cold_present: Outcome,
    pub(crate) cached_absent: Outcome,
    pub(crate) cached_present: Outcome,
}

/// The extent of a measurement.
#[derive(Clone, Copy, Debug)]
struct Extent {
    contenders: &'static [Contender],
    percents: &'static [u64],
    skews: &'static [Skew],
    cold: usize,
    cached: usize,
    scans: usize,
    sensors: usize,
    shards: ShardExtent,
}

const FULL: Extent = Extent {
    contenders: &Contender::ALL,
    percents: &[
        10, 20, 30, 40, 50, 60, 65, 70, 75, 80, 85, 90, 95, 100, 105, 110, 115, 120, 130, 140, 150, 160, 180, 200,
    ],
    skews: &[Skew::Uniform, Skew::Zipf],
    cold: 1_000,
    cached: 4_000,
    scans: 500,
    sensors: 1_000,
    shards: ShardExtent { shards: &[1, 2, MANY, 16], percents: &[75, BETWEEN_PERCENT, 95, 110, 130], deals: 40 },
};

const QUICK: Extent = Extent {
    contenders: &[Contender::None, Contender::BuiltIn, Contender::Ribbon],
    percents: &[50, BETWEEN_PERCENT, 200],
    skews: &[Skew::Uniform],
    cold: 100,
    cached: 500,
    scans: 50,
    sensors: 300,
    shards: ShardExtent { shards: &[1, MANY], percents: &[BETWEEN_PERCENT, 110], deals: 3 },
};

/// A cache size into which only our Ribbon filters fit, in percent of the engine's own filters.
pub(crate) const BETWEEN_PERCENT: u64 = 85;

/// The number that a writer leaves when the compactor stops for a while.
const SSTS: usize = 64;

/// Bytes of a value.
pub(crate) const VALUE_BYTES: usize = 100;

/// Records of one name: all in one SST before compaction, as a batch job writes them.
pub(crate) const RECORDS: Form = Form::Record { per_name: 20 };

/// The whole comparison.
pub(crate) async fn full() -> Result<Results, AnyError> {
    let records = KeySet::new(RECORDS, SSTS, usize::MAX)?;
    let names = KeySet::new(Form::Name, SSTS, usize::MAX)?;
    let mut results = Results { record_keys: records.len(), name_keys: names.len(), ssts: SSTS, ..Results::default() };
    for layout in [Layout::L0, Layout::Runs] {
        results.measure_records(&records, layout, &FULL).await?;
    }
    results.measure_names(&names, &FULL).await?;
    results.measure_scans(&records, &FULL).await?;
    results.measure_ranges(&records, &FULL).await?;
    results.shards = shards::measure(&records, FULL.shards).await?;
    Ok(results)
}

/// The caches of several shards of the whole comparison.
pub(crate) async fn shards_alone() -> Result<Results, AnyError> {
    let records = KeySet::new(RECORDS, SSTS, usize::MAX)?;
    let shards = shards::measure(&records, FULL.shards).await?;
    Ok(Results { record_keys: records.len(), ssts: SSTS, shards, ..Results::default() })
}

/// The range scans of the whole comparison.
pub(crate) async fn ranges_alone() -> Result<Results, AnyError> {
    let records = KeySet::new(RECORDS, SSTS, usize::MAX)?;
    let mut results = Results { record_keys: records.len(), ssts: SSTS, ..Results::default() };
    results.measure_ranges(&records, &FULL).await?;
    Ok(results)
}

/// Half the keys, three contenders, and only the cache sizes that matter; and the names twice.
pub(crate) async fn quick() -> Result<Results, AnyError> {
    let records = KeySet::new(RECORDS, SSTS, 32_000)?;
    let names = KeySet::new(Form::Name, SSTS, usize::MAX)?;
    let mut results = Results { record_keys: records.len(), name_keys: names.len(), ssts: SSTS, ..Results::default() };
    let mut again = Results::default();
    for results in [&mut results, &mut again] {
        results.measure_names(&names, &QUICK).await?;
    }
    assert_eq!(results.names, again.names, "two runs of the same lookups");
    for layout in [Layout::L0, Layout::Runs] {
        results.measure_records(&records, layout, &QUICK).await?;
    }
    results.measure_scans(&records, &QUICK).await?;
    results.measure_ranges(&records, &QUICK).await?;
    results.shards = shards::measure(&records, QUICK.shards).await?;
    Ok(results)
}

/// Returns the contender whose store a contender reads. A contender without filters needs no separate store.
fn writer(contender: Contender) -> Contender {
    if contender == Contender::None { Contender::BuiltIn } else { contender }
}

pub(crate) fn value() -> Bytes {
    Bytes::from_static(&[b'v'; VALUE_BYTES])
}

/// Returns the stores that the contenders of `extent` read, with the readers of each.
fn readers(extent: &Extent) -> impl Iterator<Item = (Contender, Vec<Contender>)> {
    let writers = extent.contenders.iter().filter(|contender| writer(**contender) == **contender);
    writers.map(|&wrote| (wrote, extent.contenders.iter().copied().filter(|one| writer(*one) == wrote).rev().collect()))
}

impl Results {
    async fn measure_records(&mut self, keys: &KeySet, layout: Layout, extent: &Extent) -> Result<(), AnyError> {
        for (wrote, readers) in readers(extent) {
            let store = Store::write(keys, &value(), layout, wrote, Parts::Whole).await?;
            for contender in readers {
                eprintln!("{} keys, {}: {}", keys.len(), layout.name(), contender.name());
                self.records.push(measure(&store, keys, layout, contender, extent).await?);
                for &skew in extent.skews {
                    self.sweep(&store, keys, (layout, skew, contender), extent).await?;
                }
            }
        }
        Ok(())
    }

    async fn measure_names(&mut self, keys: &KeySet, extent: &Extent) -> Result<(), AnyError> {
        for (wrote, readers) in readers(extent) {
            let store = Store::write(keys, &value(), Layout::L0, wrote, Parts::Whole).await?;
            for contender in readers {
                eprintln!("{} names: {}", keys.len(), contender.name());
                self.names.push(measure(&store, keys, Layout::L0, contender, extent).await?);
            }
        }
        Ok(())
    }

    async fn measure_scans(&mut self, keys: &KeySet, extent: &Extent) -> Result<(), AnyError> {
        for (wrote, readers) in readers(extent) {
            let store = Store::write(keys, &value(), Layout::L0, wrote, Parts::WholeAndPrefixes).await?;
            for contender in readers {
                eprintln!("{} keys, prefixes: {}", keys.len(), contender.name());
                self.scans.push(scans(&store, keys, contender, extent).await?);
            }
        }
        Ok(())
    }

    async fn measure_ranges(&mut self, names: &KeySet, extent: &Extent) -> Result<(), AnyError> {
        let readings = Readings::new(SSTS, extent.sensors);
        self.reading_keys = readings.len();
        self.ranges = ranges::measure(names, &readings, extent.scans, &value()).await?;
        Ok(())
    }

    /// Returns the bytes of the engine's own filters in the cache.
    pub(crate) fn built_in_charge(&self, layout: Layout) -> u64 {
        self.filter_charge(layout, Contender::BuiltIn)
    }

    /// Returns the bytes of a contender's filters in the cache.
    pub(crate) fn filter_charge(&self, layout: Layout, contender: Contender) -> u64 {
        let is_it = |one: &&Measured| (one.layout, one.contender) == (layout, contender);
        self.records.iter().find(is_it).map_or(0, |one| one.filter_charge)
    }

    async fn sweep(
        &mut self,
        store: &Store,
        keys: &KeySet,
        (layout, skew, contender): (Layout, Skew, Contender),
        extent: &Extent,
    ) -> Result<(), AnyError> {
        let full = self.built_in_charge(layout);
        let (fill, count) = sweep_lookups(layout, contender);
        let (fill, lookups) = (keys.absent(skew, fill, 5), keys.absent(skew, count, 6));
        for &percent in extent.percents {
            let cache_bytes = full * percent / 100;
            let session = Session::open(store, contender, MetaCache::Bytes(cache_bytes)).await?;
            session.absent(&fill).await?;
            let absent = session.absent(&lookups).await?;
            session.close().await?;
            self.sweep.push(SweepPoint { layout, skew, contender, percent, cache_bytes, absent });
        }
        Ok(())
    }
}

/// Returns the number of lookups that fill the cache, and of lookups that are counted. In sorted runs a lookup probes
/// only a sixteenth of the filters, so more lookups are needed to reach each. Without filters, in L0, all lookups cost
/// the same.
pub(crate) fn sweep_lookups(layout: Layout, contender: Contender) -> (usize, usize) {
    match (layout, contender) {
        (Layout::L0, Contender::None) => (20, 50),
        (Layout::L0, _) => (200, 500),
        (Layout::Runs, _) => (2_000, 5_000),
    }
}

async fn measure(
    store: &Store,
    keys: &KeySet,
    layout: Layout,
    contender: Contender,
    extent: &Extent,
) -> Result<Measured, AnyError> {
    let (absent, present) = (keys.absent(Skew::Uniform, extent.cold, 1), keys.present(Skew::Uniform, extent.cold, 2));
    let cold = Session::open(store, contender, MetaCache::None).await?;
    let (cold_absent, cold_present) = (cold.absent(&absent).await?, cold.present(&present).await?);
    cold.close().await?;

    let (absent, present) =
        (keys.absent(Skew::Uniform, extent.cached, 3), keys.present(Skew::Uniform, extent.cached, 4));
    let cached = Session::open(store, contender, MetaCache::AMPLE).await?;
    let filter_charge = match contender {
        Contender::None => 0,
        _ => cached.cached_bytes(CacheTarget::Filters).await?,
    };
    let index_charge = cached.cached_bytes(CacheTarget::Index).await?;
    let (cached_absent, cached_present) = (cached.absent(&absent).await?, cached.present(&present).await?);
    cached.close().await?;

    let sizes = sizes_for(contender, store.sizes);
    Ok(Measured {
        layout,
        contender,
        sizes,
        filter_charge,
        index_charge,
        cold_absent,
        cold_present,
        cached_absent,
        cached_present,
    })
}

fn sizes_for(contender: Contender, sizes: Sizes) -> Sizes {
    if contender == Contender::None { Sizes { filter: 0, ..sizes } } else { sizes }
}

async fn scans(store: &Store, keys: &KeySet, contender: Contender, extent: &Extent) -> Result<Scans, AnyError> {
    let [present, absent] = keys.prefixes(extent.scans);
    let cold = Session::open(store, contender, MetaCache::None).await?;
    let (cold_absent, cold_present) = (cold.scans(&absent).await?, cold.scans(&present).await?);
    cold.close().await?;

    let cached = Session::open(store, contender, MetaCache::AMPLE).await?;
    if contender != Contender::None {
        cached.cached_bytes(CacheTarget::Filters).await?;
    }
    cached.cached_bytes(CacheTarget::Index).await?;
    let (cached_absent, cached_present) = (cached.scans(&absent).await?, cached.scans(&present).await?);
    cached.close().await?;

    let sizes = sizes_for(contender, store.sizes);
    Ok(Scans { contender, sizes, cold_absent, cold_present, cached_absent, cached_present })
}
