//! Caches of several shards. Each shard has its part of the bytes, and the filters that a hash deals to it.

use foyer::{Cache, CacheBuilder};
use slatedb::db_cache::CacheTarget;

use crate::AnyError;
use crate::contenders::{Contender, Parts};
use crate::experiments::value;
use crate::keys::{KeySet, Skew};
use crate::lookups::{MetaCache, Session};
use crate::store::{Layout, Store};

/// Absent lookups over 64 overlapping SSTs, with caches of one size and number of shards.
#[derive(Clone, Debug)]
pub(crate) struct ShardPoint {
    pub(crate) contender: Contender,
    pub(crate) shards: usize,
    /// The cache's size, in percent of the engine's own filters in it.
    pub(crate) percent: u64,
    /// GETs per lookup, each time with the filters dealt to shards in another way.
    pub(crate) gets: Vec<f64>,
}

/// Filters without an engine, each used once in every round, in a cache of one size and number of shards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DealtPoint {
    pub(crate) filters: usize,
    pub(crate) shards: usize,
    /// Percent of the filters that are not in the cache when they are used: the engine's own, and ours.
    pub(crate) missed: [f64; 2],
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Shards {
    pub(crate) points: Vec<ShardPoint>,
    pub(crate) dealt: Vec<DealtPoint>,
}

/// The numbers of shards, sizes, and ways to deal filters to shards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardExtent {
    pub(crate) shards: &'static [usize],
    pub(crate) percents: &'static [u64],
    pub(crate) deals: u64,
}

/// The contenders of all numbers of shards, and of [`MANY`].
const CONTENDERS: [Contender; 4] = [Contender::BuiltIn, Contender::Ribbon, Contender::RibbonTwo, Contender::RibbonFour];

/// The shards of a machine with eight cores, for which all contenders are measured.
pub(crate) const MANY: usize = 8;

/// The size of a cache of filters without an engine, in percent of the engine's own filters.
pub(crate) const DEALT_PERCENT: usize = 85;

/// Filters of a cache, for a table.
pub(crate) const DEALT_FILTERS: [usize; 5] = [64, 256, 1_024, 4_096, 16_384];

/// Shards of a cache, for a table.
pub(crate) const DEALT_SHARDS: [usize; 6] = [1, 2, 4, 8, 16, 32];

pub(crate) async fn measure(keys: &KeySet, extent: ShardExtent) -> Result<Shards, AnyError> {
    let (fill, lookups) = (keys.absent(Skew::Uniform, 100, 5), keys.absent(Skew::Uniform, 200, 6));
    let mut all = Shards::default();
    let mut charges = Vec::new();
    for contender in CONTENDERS {
        eprintln!("{} keys, shards: {}", keys.len(), contender.name());
        let store = Store::write(keys, &value(), Layout::L0, contender, Parts::Whole).await?;
        let ample = Session::open(&store, contender, MetaCache::AMPLE).await?;
        charges.push(ample.cached_bytes(CacheTarget::Filters).await?);
        ample.close().await?;
        let is_usual = matches!(contender, Contender::BuiltIn | Contender::Ribbon);
        for &shards in extent.shards.iter().filter(|shards| is_usual || **shards == MANY) {
            for &percent in extent.percents {
                let bytes = charges[0] * percent / 100;
                let mut gets = Vec::new();
                for scope in 0..if shards == 1 { 1 } else { extent.deals } {
                    let session = Session::open(&store, contender, MetaCache::Sharded { bytes, shards, scope }).await?;
                    session.absent(&fill).await?;
                    gets.push(session.absent(&lookups).await?.gets_per_thousand() / 1e3);
                    session.close().await?;
                }
                all.points.push(ShardPoint { contender, shards, percent, gets });
            }
        }
    }
    for filters in DEALT_FILTERS {
        for shards in DEALT_SHARDS {
            let missed = [0, 1].map(|contender| {
                let share = charges[contender] as f64 / charges[0] as f64;
                missed(filters, shards, share, extent.deals.min(20))
            });
            all.dealt.push(DealtPoint { filters, shards, missed });
        }
    }
    Ok(all)
}

/// Returns the percentage of filters that are not in the cache when they are used, in the last of some rounds. `share`
/// is the size of a filter, as a fraction of the engine's own.
fn missed(filters: usize, shards: usize, share: f64, deals: u64) -> f64 {
    /// The size of the engine's own, so large that shares and parts of capacities hardly round.
    const OWN: usize = 100_000;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shares are near 1")]
    let weight = (OWN as f64 * share) as usize;
    let mut missed = 0;
    for deal in 0..deals {
        let cache: Cache<(u64, usize), ()> = CacheBuilder::new(OWN * filters * DEALT_PERCENT / 100)
            .with_shards(shards)
            .with_weighter(move |_, ()| weight)
            .build();
        for round in 0..4 {
            for filter in 0..filters {
                if cache.get(&(deal, filter)).is_none() {
                    cache.insert((deal, filter), ());
                    missed += usize::from(round == 3);
                }
            }
        }
    }
    100.0 * missed as f64 / (deals as f64 * filters as f64)
}

impl ShardPoint {
    pub(crate) fn mean(&self) -> f64 {
        self.gets.iter().sum::<f64>() / self.gets.len() as f64
    }

    /// The least and the most GETs of any deal.
    pub(crate) fn range(&self) -> (f64, f64) {
        let gets = || self.gets.iter().copied();
        (gets().fold(f64::INFINITY, f64::min), gets().fold(0.0, f64::max))
    }
}

impl Shards {
    pub(crate) fn find(&self, contender: Contender, shards: usize, percent: u64) -> Option<&ShardPoint> {
        let is_it = |one: &&ShardPoint| (one.contender, one.shards, one.percent) == (contender, shards, percent);
        self.points.iter().find(is_it)
    }
}
