//! Scans of ranges: keys, windows, and their cost with each range filter.

use core::ops::Range;

use slatedb::bytes::Bytes;
use slatedb::db_cache::CacheTarget;

use crate::AnyError;
use crate::contenders::{Contender, Parts, Ranges};
use crate::keys::{KeySet, Random, SstKeys};
use crate::lookups::{MetaCache, Outcome, Session};
use crate::store::{Layout, Sizes, Store};

/// Keys with a prefix, whose rest is in a range.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) prefix: Bytes,
    pub(crate) from: Bytes,
    pub(crate) to: Bytes,
}

impl Window {
    pub(crate) fn range(&self) -> Range<Bytes> {
        let end = |rest: &Bytes| [&self.prefix[..], rest].concat().into();
        end(&self.from)..end(&self.to)
    }
}

/// The form in which the engine gets a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScannedBy {
    Prefix,
    Range,
}

/// A workload of scans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// All records of a package that one SST contains.
    PresentName,
    /// All records of a package that no SST contains.
    AbsentName,
    /// A quarter of an hour of one sensor. Each SST has all sensors, for an hour.
    Quarter,
}

impl Workload {
    pub(crate) const ALL: [Self; 3] = [Self::AbsentName, Self::PresentName, Self::Quarter];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PresentName => "a package's records, present",
            Self::AbsentName => "a package's records, absent",
            Self::Quarter => "15 minutes of a sensor",
        }
    }
}

/// The filters that are compared. All except the first are Ribbon filters of the built-in rate with an addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RangeContender {
    None,
    Prefixes,
    Ordered,
    Hashed,
}

impl RangeContender {
    pub(crate) const ALL: [Self; 4] = [Self::None, Self::Prefixes, Self::Ordered, Self::Hashed];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "no filter",
            Self::Prefixes => "Ribbon with prefixes",
            Self::Ordered => "Ribbon, and ordered ranges",
            Self::Hashed => "Ribbon, and hashed ranges",
        }
    }

    fn contender(self) -> Contender {
        if self == Self::None { Contender::None } else { Contender::Ribbon }
    }

    fn scanned_by(self) -> ScannedBy {
        if self == Self::Prefixes { ScannedBy::Prefix } else { ScannedBy::Range }
    }

    fn parts(self, prefixes: Parts, hashed: Ranges) -> Parts {
        match self {
            Self::None => Parts::Whole,
            Self::Prefixes => prefixes,
            Self::Ordered => Parts::WholeAndRanges(Ranges::Ordered),
            Self::Hashed => Parts::WholeAndRanges(hashed),
        }
    }
}

/// Scans of one workload, with nothing cached, and with all filters and indexes cached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RangeScans {
    pub(crate) workload: Workload,
    pub(crate) contender: RangeContender,
    pub(crate) sizes: Sizes,
    pub(crate) cold: Outcome,
    pub(crate) cached: Outcome,
}

const HOUR_MS: u64 = 3_600_000;

/// Rows of one sensor in one SST.
const ROWS: usize = 20;

/// Readings of sensors: eight bytes of the sensor, and eight of the time in milliseconds. Every SST has an hour of all
/// sensors, so that all cover all of them.
pub(crate) struct Readings {
    ssts: usize,
    sensors: Vec<u64>,
}

impl Readings {
    pub(crate) fn new(ssts: usize, sensors: usize) -> Self {
        let mut random = Random::new(31);
        Self { ssts, sensors: (0..sensors).map(|_| random.next()).collect() }
    }

    pub(crate) fn len(&self) -> usize {
        self.ssts * self.sensors.len() * ROWS
    }

    fn start_of(sst: usize) -> u64 {
        1_600_000_000_000 + sst as u64 * HOUR_MS
    }

    /// Quarters of an hour of any sensor, within the hour of any SST.
    fn quarters(&self, count: usize) -> Vec<Window> {
        let mut random = Random::new(32);
        let window = |_| {
            let sensor = self.sensors[random.below(self.sensors.len())];
            let offset = random.next() % (HOUR_MS * 3 / 4);
            let from = Self::start_of(random.below(self.ssts)) + offset;
            let bytes = |number: u64| Bytes::copy_from_slice(&number.to_be_bytes());
            Window { prefix: bytes(sensor), from: bytes(from), to: bytes(from + HOUR_MS / 4) }
        };
        (0..count).map(window).collect()
    }
}

impl SstKeys for Readings {
    fn ssts(&self) -> usize {
        self.ssts
    }

    fn of_sst(&self, sst: usize) -> impl Iterator<Item = Bytes> {
        let mut random = Random::new(33 + sst as u64);
        self.sensors.iter().flat_map(move |sensor| {
            let key = |time: u64| Bytes::from([sensor.to_be_bytes(), time.to_be_bytes()].concat());
            let times: Vec<_> = (0..ROWS).map(|_| Self::start_of(sst) + random.next() % HOUR_MS).collect();
            times.into_iter().map(key).collect::<Vec<_>>()
        })
    }
}

/// All records of each name, and what follows the slash from the first byte to the last.
fn windows_of_names(prefixes: Vec<Bytes>) -> Vec<Window> {
    let (from, to) = (Bytes::new(), Bytes::from_static(&[0xff]));
    prefixes.into_iter().map(|prefix| Window { prefix, from: from.clone(), to: to.clone() }).collect()
}

/// Scans of names and of readings, with every contender.
pub(crate) async fn measure(
    names: &KeySet,
    readings: &Readings,
    scans: usize,
    value: &Bytes,
) -> Result<Vec<RangeScans>, AnyError> {
    let [present, absent] = names.prefixes(scans).map(windows_of_names);
    let quarters = readings.quarters(scans);
    let mut all = Vec::new();
    for contender in RangeContender::ALL {
        eprintln!("range scans: {}", contender.name());
        let parts = contender.parts(Parts::WholeAndPrefixes, Ranges::BoundedByName);
        let store = Store::write(names, value, Layout::L0, contender.contender(), parts).await?;
        all.push(scan(&store, contender, Workload::AbsentName, &absent).await?);
        all.push(scan(&store, contender, Workload::PresentName, &present).await?);
        let parts = contender.parts(Parts::WholeAndSensors, Ranges::BoundedByTime);
        let store = Store::write(readings, value, Layout::L0, contender.contender(), parts).await?;
        all.push(scan(&store, contender, Workload::Quarter, &quarters).await?);
    }
    Ok(all)
}

async fn scan(
    store: &Store,
    contender: RangeContender,
    workload: Workload,
    windows: &[Window],
) -> Result<RangeScans, AnyError> {
    let session = Session::open(store, contender.contender(), MetaCache::None).await?;
    let cold = session.windows(windows, contender.scanned_by()).await?;
    session.close().await?;

    let session = Session::open(store, contender.contender(), MetaCache::AMPLE).await?;
    if contender != RangeContender::None {
        session.cached_bytes(CacheTarget::Filters).await?;
    }
    session.cached_bytes(CacheTarget::Index).await?;
    let cached = session.windows(windows, contender.scanned_by()).await?;
    session.close().await?;
    Ok(RangeScans { workload, contender, sizes: store.sizes, cold, cached })
}
