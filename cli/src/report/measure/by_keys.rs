//! Size, build time and query times by the number of keys, at one rate.

use core::hint::black_box;
use std::time::Instant;

use anyhow::ensure;
use serde::Serialize;
use sstfilter::{FalsePositiveRate, HitBitmap, KeyHash};

use super::Omission;
use crate::progress::Stages;
use crate::report::contender::{ALL, Asked, Contender, Maker};
use crate::report::effort::Effort;
use crate::report::keys;
use crate::units::grouped;

/// The rate of all these filters: that of a fingerprint of a byte, at which no kind rounds its size.
pub(in crate::report) const RATE: f64 = 1.0 / 256.0;

/// Absent keys asked for in one sample.
const PROBES: u64 = 32_768;

/// Keys that one sample of building takes at least: small filters are built several times.
const KEYS_PER_SAMPLE: u64 = 30_000;

/// One contender with so many keys.
#[derive(Clone, Debug, Serialize)]
pub(in crate::report) struct KeysPoint {
    pub(in crate::report) filter: &'static str,
    pub(in crate::report) keys: u64,
    pub(in crate::report) bytes: u64,
    pub(in crate::report) bits_per_key: f64,
    pub(in crate::report) expected_fpr: f64,
    /// From hashes to the finished filter.
    pub(in crate::report) build_ns_per_key: f64,
    /// Absent keys, one by one, none waiting for the answer of the one before.
    pub(in crate::report) query_one_ns: f64,
    /// Absent keys, all at once.
    pub(in crate::report) query_batch_ns: f64,
}

/// One of a point's figures.
pub(in crate::report) type FigureOf = fn(&KeysPoint) -> f64;

/// Measures all contenders at every number of keys.
pub(in crate::report) fn measure(effort: &Effort, stages: &Stages) -> anyhow::Result<(Vec<KeysPoint>, Vec<Omission>)> {
    let (mut points, mut omissions) = (Vec::new(), Vec::new());
    let absent = keys::absent(PROBES);
    for &count in &effort.ladder {
        stages.at(format!("sizes and times: {} keys", grouped(count)));
        let hashes = keys::present(0, count);
        let mut subjects = Vec::new();
        for contender in ALL {
            match Subject::new(contender, &hashes) {
                Ok(subject) => subjects.push(subject),
                Err(error) => {
                    let at = format!("{} keys", grouped(count));
                    omissions.push(Omission { filter: contender.name, at, reason: format!("{error:#}") });
                }
            }
        }
        // Interleaved: a disturbance of the machine meets all contenders alike.
        for _ in 0..effort.repetitions {
            for subject in &mut subjects {
                subject.sample(&hashes, &absent)?;
            }
        }
        points.extend(subjects.iter().map(Subject::point));
        stages.step();
    }
    Ok((points, omissions))
}

/// A contender, its filter, and the best of its times so far.
struct Subject {
    contender: &'static Contender,
    maker: Maker,
    filter: Box<dyn Asked>,
    keys: u64,
    bytes: u64,
    build_ns: f64,
    query_one_ns: f64,
    query_batch_ns: f64,
    hits: HitBitmap,
}

impl Subject {
    fn new(contender: &'static Contender, hashes: &[KeyHash]) -> anyhow::Result<Self> {
        let maker = contender.at(FalsePositiveRate::new(RATE)?)?;
        let filter = maker.build(hashes)?;
        let lost = hashes.len() as u64 - filter.count_one_by_one(hashes);
        ensure!(lost == 0, "{}: {lost} of {} keys are denied, which must never be", contender.name, hashes.len());
        let (keys, bytes) = (hashes.len() as u64, filter.block_bytes()?);
        let best = f64::INFINITY;
        Ok(Self {
            contender,
            maker,
            filter,
            keys,
            bytes,
            build_ns: best,
            query_one_ns: best,
            query_batch_ns: best,
            hits: HitBitmap::default(),
        })
    }

    fn sample(&mut self, hashes: &[KeyHash], absent: &[KeyHash]) -> anyhow::Result<()> {
        let builds = KEYS_PER_SAMPLE.div_ceil(self.keys);
        let begun = Instant::now();
        for _ in 0..builds {
            black_box(self.maker.build(hashes)?);
        }
        self.build_ns = self.build_ns.min(per(begun, builds * self.keys));

        let begun = Instant::now();
        black_box(self.filter.count_one_by_one(absent));
        self.query_one_ns = self.query_one_ns.min(per(begun, PROBES));

        let begun = Instant::now();
        black_box(self.filter.count_batch(absent, &mut self.hits));
        self.query_batch_ns = self.query_batch_ns.min(per(begun, PROBES));
        Ok(())
    }

    fn point(&self) -> KeysPoint {
        let bytes = self.bytes;
        KeysPoint {
            filter: self.contender.name,
            keys: self.keys,
            bytes,
            bits_per_key: bytes as f64 * 8.0 / self.keys as f64,
            expected_fpr: self.filter.expected_fpr(),
            build_ns_per_key: self.build_ns,
            query_one_ns: self.query_one_ns,
            query_batch_ns: self.query_batch_ns,
        }
    }
}

/// Nanoseconds since `begun` for each of `count`.
fn per(begun: Instant, count: u64) -> f64 {
    begun.elapsed().as_nanos() as f64 / count as f64
}
