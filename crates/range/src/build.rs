//! Builds a file's range filter from its sorted keys.

use std::time::Instant;

use bytes::Bytes;
use sstfilter::internal::{AlignedBuffer, HeldParts, Interruption, Trailer};
use sstfilter::kind::{MAX_KEYS, MAX_PAYLOAD_BYTES};
use sstfilter::{BlockIdentity, BuildContext, BuildReport, BuiltFilter, FallbackReason, KindId};

use super::exact::build::ExactBuilder;
use super::hashed::build::HashedBuilder;
use super::ordered::build::OrderedBuilder;
use super::plan::MapPlan;

/// Collects the keys of one file, in ascending bytewise order, and builds its range filter.
///
/// Calls follow `(add_key | add_range_tombstone)* finish`. A key may repeat, for example for several versions of it.
/// `finish` never fails the file's write: if no filter can be correct, it builds none, and the report says why.
///
/// # Contract
///
/// A filter covers only the keys that were added. A scan that skips the file skips everything in it:
///
/// - **Point tombstones** are entries of the file: add their keys like all others.
/// - **Range tombstones** delete keys of other files. A file with a range tombstone must not be skipped for ranges that
///   the tombstone overlaps, whatever keys the file contains. The engine either checks range tombstones next to the
///   filter, or calls [`add_range_tombstone`](Self::add_range_tombstone): the file then gets no range filter.
/// - **Order** is bytewise. An engine whose comparator orders keys differently must not build range filters at all,
///   because its ranges contain other keys. If keys do not ascend bytewise, no filter is built
///   ([`FallbackReason::KeysOutOfOrder`]). A comparator that differs only for keys that are not in this file cannot be
///   detected here.
/// - **Memory**: ordered codes keep the keys of one segment and the output so far, and dense integers 2 bytes per key
///   until [`finish`](Self::finish). Hashed codes keep 16 bytes per key,
///   and as much again in [`finish`](Self::finish). [`BuildContext::memory_budget`] limits only the sort.
/// - **Keys** are the bytes that bound scans: user keys, without sequence numbers.
#[derive(Debug)]
pub struct RangeBuilder {
    map: MapBuilder,
    identity: BlockIdentity,
    memory_budget: Option<u64>,
    /// Counts the keys so far.
    report: BuildReport,
    /// The rate that the report states if a filter is built.
    rate: f64,
    last: Vec<u8>,
    /// Lengths of the shortest and of the longest key.
    key_bytes: [usize; 2],
    /// Detects a panic in the engine's code (hash function or extractor).
    interruption: Interruption,
    refused: Option<FallbackReason>,
}

#[derive(Debug)]
enum MapBuilder {
    Hashed(Box<HashedBuilder>),
    Ordered(Box<OrderedBuilder>),
    /// Of a plan for ordered codes, as long as the codes may be exact.
    Exact(Box<ExactBuilder>),
}

impl RangeBuilder {
    pub(super) fn new(plan: &MapPlan, context: &BuildContext) -> Self {
        let identity = BlockIdentity { hash: context.hasher.identity(), file: context.file_id };
        let (map, rate) = match plan {
            MapPlan::Hashed(plan) => {
                let rate = plan.rate();
                (MapBuilder::Hashed(Box::new(HashedBuilder::new(plan.clone(), context.hasher.clone()))), rate)
            }
            MapPlan::Ordered(plan) => (MapBuilder::Exact(Box::new(ExactBuilder::new(*plan))), plan.rate()),
        };
        let mut report = BuildReport::new(KindId::RANGE);
        // No map retries with another salt.
        report.attempts = 1;
        Self {
            map,
            identity,
            memory_budget: context.memory_budget,
            report,
            rate,
            last: Vec::new(),
            key_bytes: [usize::MAX, 0],
            refused: None,
            interruption: Interruption::default(),
        }
    }

    /// Adds a key, which must not be below the previous one.
    #[inline]
    pub fn add_key(&mut self, key: &[u8]) {
        if let (MapBuilder::Exact(builder), None) = (&mut self.map, self.refused) {
            if let Some(is_new) = builder.add(key) {
                self.report.keys_added += 1;
                self.report.distinct_keys += u64::from(is_new);
                return;
            }
            self.leave_exact();
        }
        self.add_inexact(key);
    }

    /// Goes on with ordered codes, from the first key.
    #[cold]
    pub(super) fn leave_exact(&mut self) {
        let MapBuilder::Exact(exact) = &self.map else { return };
        let mut ordered = OrderedBuilder::new(exact.plan);
        exact.for_each_key(|key| {
            ordered.add(key, true);
            self.last.clear();
            self.last.extend_from_slice(key);
            self.key_bytes = [key.len(); 2];
        });
        self.map = MapBuilder::Ordered(Box::new(ordered));
    }

    fn add_inexact(&mut self, key: &[u8]) {
        self.report.keys_added += 1;
        // Repeated keys count as added, but get no second code.
        if self.report.distinct_keys > 0 && key <= self.last.as_slice() {
            if key < self.last.as_slice() {
                self.refuse(FallbackReason::KeysOutOfOrder);
            }
            return;
        }
        self.report.distinct_keys += 1;
        if self.refused.is_some() {
            return;
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        let [shortest, longest] = self.key_bytes;
        let [shortest, longest] = [shortest.min(key.len()), longest.max(key.len())];
        self.key_bytes = [shortest, longest];
        self.interruption.enter();
        match &mut self.map {
            MapBuilder::Hashed(builder) => builder.add(key),
            MapBuilder::Ordered(builder) => builder.add(key, shortest == longest),
            MapBuilder::Exact(_) => {}
        }
        self.interruption.leave();
    }

    /// Records that the file contains a range tombstone, so that no filter is built. An engine that checks range
    /// tombstones before it skips a file does not call this.
    pub fn add_range_tombstone(&mut self) {
        self.refuse(FallbackReason::RangeTombstone);
    }

    fn refuse(&mut self, reason: FallbackReason) {
        // The first reason is reported.
        self.refused.get_or_insert(reason);
    }

    /// Returns the approximate size of the block if it were finished now, for writers that cut files by size; 0 if no
    /// block will be built.
    #[must_use]
    pub fn estimated_bytes(&self) -> u64 {
        if self.refused.is_some() {
            return 0;
        }
        let payload = match &self.map {
            MapBuilder::Hashed(builder) => builder.estimated_bytes(),
            MapBuilder::Ordered(builder) => builder.estimated_bytes(),
            MapBuilder::Exact(builder) => builder.estimated_bytes(),
        };
        payload + Trailer::tail_bytes(7) as u64 + self.identity.file_bytes()
    }

    /// Builds the filter. The report's `expected_fpr` is the rate that the policy planned for its intended ranges; the
    /// rate of other ranges depends on the keys.
    pub fn finish(self) -> BuiltFilter {
        let started = Instant::now();
        let (mut report, rate, is_exact) = (self.report.clone(), self.rate, self.exact_low_bits().is_some());
        let block = self.build(&mut report.peak_build_bytes).map_err(|reason| report.reason = reason).ok();
        if let Some(block) = &block {
            report.used = Some(KindId::RANGE);
            report.expected_fpr = if report.distinct_keys == 0 || is_exact { 0.0 } else { rate };
            report.block_bytes = block.len() as u64;
        }
        report.finish_time = started.elapsed();
        BuiltFilter::new(block, report)
    }

    /// Returns the low bits of a code if the filter would be exact if it were finished now: it then answers for single
    /// keys, too. Without low bits, it would be a bitmap.
    #[must_use]
    pub fn exact_low_bits(&self) -> Option<u32> {
        let MapBuilder::Exact(builder) = &self.map else { return None };
        builder.shape().filter(|_| self.refused.is_none()).map(|shape| shape.low_bits)
    }

    fn build(mut self, peak_bytes: &mut u64) -> Result<Bytes, FallbackReason> {
        if self.interruption.has_happened() {
            // A panic in the extractor or the hash function may have left out a key, which would be a false negative.
            return Err(FallbackReason::Panicked);
        }
        if let Some(reason) = self.refused {
            return Err(reason);
        }
        if self.exact_low_bits().is_none() {
            self.leave_exact();
        }
        let keys = self.report.distinct_keys;
        if keys > MAX_KEYS {
            return Err(FallbackReason::TooManyKeys);
        }
        // The field has 32 bits, and 0 means "varies": empty and longer keys are recorded as if lengths varied.
        let [shortest, longest] = self.key_bytes;
        let key_bytes = u32::try_from(longest).ok().filter(|&bytes| bytes != 0 && shortest == longest);
        let (shape, parts) = match self.map {
            MapBuilder::Hashed(builder) => {
                if builder.is_unstable() {
                    return Err(FallbackReason::UnstableExtractor);
                }
                let buffer_bytes = builder.buffer_bytes();
                // Keys (16 bytes), codes (8) and the sort's copy (8) count as if held at once, although the keys are
                // dropped before the sort. Below, the payload counts twice.
                let built = builder.finish(keys, key_bytes, self.memory_budget)?;
                *peak_bytes = buffer_bytes * 2;
                built
            }
            MapBuilder::Ordered(builder) => {
                let buffer_bytes = builder.buffer_bytes();
                let built = builder.finish(keys, key_bytes)?;
                *peak_bytes = buffer_bytes;
                built
            }
            MapBuilder::Exact(builder) => {
                let shape = builder.shape().ok_or(FallbackReason::TooManyKeys)?;
                // Below, the payload counts twice.
                *peak_bytes = builder.buffer_bytes() + shape.payload_bytes() * 2;
                builder.finish(shape)?
            }
        };
        let payload_bytes = shape.payload_bytes();
        if payload_bytes > MAX_PAYLOAD_BYTES {
            return Err(FallbackReason::TooManyKeys);
        }
        // One fallible allocation of the whole payload: without memory, the file gets no filter instead of an abort.
        let mut payload = AlignedBuffer::empty(payload_bytes).ok_or(FallbackReason::MemoryBudget)?;
        for part in parts {
            payload.append(&part);
        }
        debug_assert_eq!(payload.as_slice().len() as u64, payload_bytes, "{shape:?}");
        *peak_bytes = (*peak_bytes).max(payload_bytes * 2);
        let trailer = Trailer::new(KindId::RANGE, self.identity, shape.encode(), &payload);
        trailer.seal(payload, HeldParts::of_field(&[])).ok_or(FallbackReason::TooManyKeys)
    }
}
