//! The builder of every kind, with the fallback to blocked Bloom when the requested kind cannot be built.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use super::hash_buffer::HashBuffer;
use super::key_hashing::KeyHashing;
use super::{BuildContext, BuildReport, BuiltFilter, FilterBuilder, SelfCheck};
use crate::block::{BlockIdentity, EncodeRequest, contains_all, encode};
use crate::filter::blocked_bloom::BlockedBloomKind;
use crate::filter::kind::{
    BuiltPayload, FallbackReason, FilterShape, Kind, MAX_KEYS, MAX_PAYLOAD_BYTES, StreamedPayload,
};
use crate::filter::{FilterKind, is_of_library};
use crate::hash::{KeyHash, SortScratch};
use crate::units::BitsPerKey;

/// What a policy adds to its kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) self_check: SelfCheck,
    pub(super) min_keys: u64,
    pub(super) max_keys: u64,
    pub(super) fallback_size: BitsPerKey,
}

impl Rules {
    /// The plan of a filter of `keys` keys, or the reason to fall back to blocked Bloom. The order of the checks is
    /// part of the documented rules, because the first that fails is the reason recorded in the block.
    pub(super) fn plan<K: Kind>(
        &self,
        kind: &K,
        keys: u64,
        memory_budget: Option<u64>,
    ) -> Result<K::Shape, FallbackReason> {
        if keys < self.min_keys {
            return Err(FallbackReason::TooFewKeys);
        }
        guarded::<K, _>(|| {
            let plan = kind.plan(keys)?;
            if keys > self.max_keys.min(MAX_KEYS) || plan.payload_bytes() > MAX_PAYLOAD_BYTES {
                return Err(FallbackReason::TooManyKeys);
            }
            if memory_budget.is_some_and(|budget| kind.build_bytes(keys, &plan) > budget) {
                return Err(FallbackReason::MemoryBudget);
            }
            Ok(plan)
        })
    }

    /// Approximate size of the block for `keys` keys, fallback included; `None` beyond the format's limits.
    pub(super) fn block_bytes<K: Kind>(&self, kind: &K, keys: u64) -> Option<u64> {
        let planned = self.plan(kind, keys, None);
        if let Ok(bytes) = planned.and_then(|plan| guarded::<K, _>(|| Ok(plan.block_bytes()))) {
            return Some(bytes);
        }
        let bloom = BlockedBloomKind::new(self.fallback_size).plan(keys).ok();
        bloom.filter(|_| keys <= MAX_KEYS).map(|shape| shape.block_bytes())
    }
}

/// Runs code of a kind. A panic in a user's kind fails the build, not the file's write. A user's kind with a number of
/// the library's fails too: readers would decode its blocks as the library's kind.
pub(super) fn guarded<K: Kind, T>(call: impl FnOnce() -> Result<T, FallbackReason>) -> Result<T, FallbackReason> {
    if is_of_library::<K>() {
        return call();
    }
    if !K::Shape::KIND.is_user_defined() {
        return Err(FallbackReason::ConstructionFailed);
    }
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(Err(FallbackReason::ConstructionFailed))
}

/// What to build, and what the block records about it.
#[derive(Clone, Debug)]
pub(super) struct Job<K> {
    kind: K,
    rules: Rules,
    identity: BlockIdentity,
    memory_budget: Option<u64>,
    /// The kind that the policy requested; `reason` says why `kind` differs, if it does.
    requested: FilterKind,
    reason: FallbackReason,
}

impl<K: Kind> Job<K> {
    pub(super) fn new(kind: K, rules: Rules, identity: BlockIdentity, memory_budget: Option<u64>) -> Self {
        let (requested, reason) = (K::Shape::KIND, FallbackReason::None);
        Self { kind, rules, identity, memory_budget, requested, reason }
    }

    fn plan(&self, keys: u64) -> Result<K::Shape, FallbackReason> {
        self.rules.plan(&self.kind, keys, self.memory_budget)
    }

    /// The job of building a blocked Bloom filter instead.
    fn fallback(&self, reason: FallbackReason) -> Job<BlockedBloomKind> {
        Job {
            kind: BlockedBloomKind::new(self.rules.fallback_size),
            rules: Rules { min_keys: 0, max_keys: MAX_KEYS, ..self.rules },
            identity: self.identity,
            memory_budget: self.memory_budget,
            requested: self.requested,
            reason,
        }
    }
}

/// A builder for one file. When the announced number of keys leads to Bloom, keys are not buffered.
pub(super) fn builder<K: Kind>(kind: &K, rules: Rules, context: &BuildContext) -> Box<dyn FilterBuilder> {
    let hashing = KeyHashing::new(context);
    let job = Job::new(kind.clone(), rules, hashing.identity(), context.memory_budget);
    match context.expected_keys.map(|keys| job.plan(keys)) {
        // The announced number already rules the kind out, so stream into Bloom at once and save the buffer. A streamed
        // kind that cannot be planned falls through: it buffers, and the true number of keys decides.
        Some(Err(reason)) if !K::IS_STREAMED => {
            let job = job.fallback(reason);
            let plan = context.expected_keys.and_then(|keys| job.plan(keys).ok());
            Box::new(KindBuilder::new(job, hashing, plan))
        }
        plan => Box::new(KindBuilder::new(job, hashing, plan.and_then(Result::ok))),
    }
}

#[derive(Debug)]
struct KindBuilder<K: Kind> {
    job: Job<K>,
    hashing: KeyHashing,
    state: State<K>,
}

/// With the number of keys known, streamed kinds insert keys as they arrive; otherwise hashes are buffered for
/// `finish`.
#[derive(Debug)]
enum State<K: Kind> {
    Streaming { plan: K::Shape, stream: K::Stream, last: Option<KeyHash>, added: u64, distinct: u64 },
    Buffering { buffer: HashBuffer, estimate: Estimate },
}

/// A cached estimate of the block's size. Writers query it after every entry, and planning each time would cost as much
/// as hashing the key.
#[derive(Debug, Default)]
struct Estimate {
    bytes: u64,
    /// Key count at which to re-estimate: 1/64 more, so the estimate lags by at most 1.6 %.
    renewed_at: u64,
}

impl<K: Kind> KindBuilder<K> {
    fn new(job: Job<K>, hashing: KeyHashing, plan: Option<K::Shape>) -> Self {
        // Two reasons to buffer instead of streaming: a self-check probes every hash at the end, and a user's stream
        // that panics midway would lack a key that the caller believes inserted.
        let can_stream = job.rules.self_check == SelfCheck::Off && is_of_library::<K>();
        let plan = plan.filter(|_| can_stream);
        let stream = plan.and_then(|plan| Some((plan, job.kind.stream(&plan, job.memory_budget)?)));
        let state = match stream {
            Some((plan, stream)) => State::Streaming { plan, stream, last: None, added: 0, distinct: 0 },
            None => State::Buffering { buffer: HashBuffer::default(), estimate: Estimate::default() },
        };
        Self { job, hashing, state }
    }
}

impl<K: Kind> Job<K> {
    fn renew(&self, estimate: &mut Estimate, keys: u64) {
        if keys >= estimate.renewed_at {
            let bytes = self.rules.block_bytes(&self.kind, keys).unwrap_or(0);
            // Streamed kinds promise exact sizes, and planning them is one division: no need to lag.
            let step = if K::IS_STREAMED { 0 } else { keys / 64 };
            *estimate = Estimate { bytes, renewed_at: keys + step + 1 };
        }
    }
}

impl<K: Kind> FilterBuilder for KindBuilder<K> {
    fn add_key(&mut self, key: &[u8]) {
        let hash = self.hashing.hash(key);
        self.add_hash(hash);
    }

    fn add_hash(&mut self, hash: KeyHash) {
        match &mut self.state {
            State::Streaming { stream, last, added, distinct, .. } => {
                *added += 1;
                if *last != Some(hash) {
                    stream.insert(hash);
                    *last = Some(hash);
                    *distinct += 1;
                }
            }
            State::Buffering { buffer, estimate } => {
                buffer.add(hash);
                self.job.renew(estimate, buffer.len());
            }
        }
    }

    fn add_hashes(&mut self, hashes: &[KeyHash]) {
        match &mut self.state {
            State::Streaming { stream, last, added, distinct, .. } => {
                *added += hashes.len() as u64;
                *distinct += count_fresh(*last, hashes);
                *last = hashes.last().copied().or(*last);
                // A repeated key sets no new bit; inserting it again is cheaper than filtering it out of the slice.
                stream.insert_all(hashes);
            }
            State::Buffering { buffer, estimate } => {
                if K::TAKES_ROUGH_ORDER {
                    // The fuse build reuses the buffer as its cells, which number up to a quarter more than the keys.
                    buffer.reserve(hashes.len() + hashes.len() / 4);
                }
                buffer.add_all(hashes);
                self.job.renew(estimate, buffer.len());
            }
        }
    }

    fn estimated_bytes(&self) -> u64 {
        let unbound = match &self.state {
            State::Streaming { plan, .. } => plan.block_bytes(),
            State::Buffering { buffer, estimate } if buffer.len() > 0 => estimate.bytes,
            State::Buffering { .. } => self.job.rules.block_bytes(&self.job.kind, 0).unwrap_or(0),
        };
        unbound.saturating_add(self.job.identity.file_bytes())
    }

    fn finish(self: Box<Self>) -> BuiltFilter {
        let started = Instant::now();
        let Self { job, hashing, state } = *self;
        if let Some(refusal) = hashing.refusal(job.requested) {
            return refusal;
        }
        let mut built = match state {
            State::Streaming { plan, stream, added, distinct, .. } => {
                let built = job.seal(BuiltPayload::of_stream(plan, stream), distinct);
                with_counts(built.unwrap_or_else(|reason| job.without_filter(reason, distinct)), added, 0)
            }
            State::Buffering { buffer, .. } => job.build(buffer),
        };
        built.report.finish_time = started.elapsed();
        built
    }
}

/// How many of `hashes` differ from their predecessor; `last` precedes the first.
fn count_fresh(last: Option<KeyHash>, hashes: &[KeyHash]) -> u64 {
    let first = u64::from(hashes.first().is_some_and(|&first| last != Some(first)));
    let later = hashes.iter().zip(hashes.iter().skip(1)).filter(|(before, hash)| before != hash);
    first + later.count() as u64
}

/// Why the requested kind is not used, and the memory that the attempt took.
struct Unused {
    reason: FallbackReason,
    peak_bytes: u64,
}

impl From<FallbackReason> for Unused {
    fn from(reason: FallbackReason) -> Self {
        Self { reason, peak_bytes: 0 }
    }
}

impl<K: Kind> Job<K> {
    /// Builds a filter from the buffered hashes. Bloom needs no sorting. Binary fuse first tries hashes that are only
    /// partitioned into windows, which is cheaper than sorting; a failed attempt, for instance because of repeated
    /// keys, sorts them and removes repetitions.
    pub(super) fn build(&self, mut buffer: HashBuffer) -> BuiltFilter {
        let (added, buffer_bytes) = (buffer.added(), buffer.bytes());
        if K::IS_STREAMED {
            return with_counts(self.build_or_fall_back(buffer.as_slice(), 0), added, buffer_bytes);
        }
        let budget = self.memory_budget.unwrap_or(u64::MAX);
        let mut scratch = SortScratch::default();
        if K::TAKES_ROUGH_ORDER && buffer.partition(&mut scratch, budget) {
            let sort_bytes = scratch.bytes();
            let spare = core::mem::take(&mut scratch).into_spare();
            if let Some(mut built) = self.build_single_attempt(buffer.as_slice(), spare) {
                built.report.peak_build_bytes = built.report.peak_build_bytes.max(sort_bytes);
                return with_counts(built, added, buffer_bytes);
            }
        }
        let hashes = &buffer.into_sorted_distinct(&mut scratch, budget);
        let sort_bytes = scratch.bytes();
        drop(scratch);
        with_counts(self.build_or_fall_back(hashes, sort_bytes), added, buffer_bytes)
    }

    /// The filter of partitioned hashes, if the first attempt succeeds.
    fn build_single_attempt(&self, hashes: &[KeyHash], spare: Vec<KeyHash>) -> Option<BuiltFilter> {
        let keys = hashes.len() as u64;
        let plan = self.plan(keys).ok()?;
        let built = guarded::<K, _>(|| {
            let built = self.kind.build_single_attempt(&plan, hashes, spare);
            let built = self.seal(built.ok_or(FallbackReason::ConstructionFailed)?, keys)?;
            Ok(self.is_sound(&built, hashes).then_some(built))
        });
        built.ok().flatten()
    }

    /// The requested filter of `hashes`, else a blocked Bloom filter, else none.
    fn build_or_fall_back(&self, hashes: &[KeyHash], sort_bytes: u64) -> BuiltFilter {
        let (mut built, peak_bytes) = match self.build_as_requested(hashes) {
            Ok(built) => (built, 0),
            Err(unused) if K::Shape::KIND == FilterKind::BLOCKED_BLOOM => {
                (self.without_filter(unused.reason, hashes.len() as u64), 0)
            }
            Err(unused) => (self.fallback(unused.reason).build_or_fall_back(hashes, 0), unused.peak_bytes),
        };
        built.report.peak_build_bytes = built.report.peak_build_bytes.max(peak_bytes).max(sort_bytes);
        built
    }

    fn build_as_requested(&self, hashes: &[KeyHash]) -> Result<BuiltFilter, Unused> {
        let keys = hashes.len() as u64;
        let plan = self.plan(keys)?;
        let (most_bytes, built) = guarded::<K, _>(|| {
            let built = self.kind.build(&plan, hashes, self.memory_budget)?;
            Ok((self.kind.most_block_bytes(keys, &plan).unwrap_or(u64::MAX), self.seal(built, keys)?))
        })?;
        let unused = |reason| Unused { reason, peak_bytes: built.report.peak_build_bytes };
        // The fingerprint's 8 bytes do not count: binding a block must not change its kind.
        if built.report.block_bytes - self.identity.file_bytes() > most_bytes {
            return Err(unused(FallbackReason::NotSmaller));
        }
        if !guarded::<K, _>(|| Ok(self.is_sound(&built, hashes)))? {
            return Err(unused(FallbackReason::SelfCheckFailed));
        }
        Ok(built)
    }

    /// Whether the filter passes the self-check; `true` when the self-check is off.
    fn is_sound(&self, built: &BuiltFilter, hashes: &[KeyHash]) -> bool {
        let block = built.block.as_deref();
        self.rules.self_check == SelfCheck::Off || block.is_none_or(|block| contains_all::<K>(block, hashes))
    }

    /// Seals a finished payload into a block and its report.
    pub(super) fn seal(&self, built: BuiltPayload<K::Shape>, keys: u64) -> Result<BuiltFilter, FallbackReason> {
        let BuiltPayload { shape, payload, attempts, peak_bytes } = built;
        let tail_bytes = shape.block_bytes() - shape.payload_bytes() + self.identity.file_bytes();
        let &Job { requested, reason, identity, .. } = self;
        let request = EncodeRequest { requested, reason, identity, keys };
        if payload.as_slice().len() as u64 != shape.payload_bytes() {
            return Err(FallbackReason::ConstructionFailed);
        }
        let block = encode(&shape, payload, request).ok_or(FallbackReason::TooManyKeys)?;
        let report = BuildReport {
            used: Some(K::Shape::KIND),
            reason,
            distinct_keys: keys,
            attempts,
            block_bytes: block.len() as u64,
            expected_fpr: shape.expected_fpr(keys),
            peak_build_bytes: peak_bytes + tail_bytes,
            ..BuildReport::new(requested)
        };
        Ok(BuiltFilter::new(Some(block), report))
    }

    /// The last resort: the file gets no filter.
    fn without_filter(&self, reason: FallbackReason, distinct_keys: u64) -> BuiltFilter {
        BuiltFilter::new(None, BuildReport { reason, distinct_keys, ..BuildReport::new(self.requested) })
    }
}

fn with_counts(mut built: BuiltFilter, added: u64, buffer_bytes: u64) -> BuiltFilter {
    built.report.keys_added = added;
    if built.block.is_some() {
        built.report.peak_build_bytes += buffer_bytes;
    }
    built
}
