//! The builder of every kind, with the fallback to blocked Bloom if the requested kind cannot be built.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::fmt;

use super::report::stopwatch;
use super::{BlockBuilder, BuildContext, BuildReport, BuiltFilter};
use crate::block::trailer::Trailer;
use crate::block::{BlockIdentity, FallbackReason, HeldParts};
use crate::filter::blocked_bloom::{BlockedBloomKind, smallest_size_for};
use crate::filter::{
    AnyKind, AnyShape, BuildLimits, BuiltPayload, KindId, MAX_KEYS, MAX_PAYLOAD_BYTES, Planned, RATE_KEYS,
    StreamedPayload,
};
use crate::hash::{KeyHash, KeyHasher, KeyParts, OrderedKeyHashes, SortScratch};
use crate::panics::Interruption;
use crate::threads::worthwhile;
use crate::units::{BitsPerKey, FalsePositiveRate};

/// Returns whether a block with this shape contains all hashes.
type SelfCheck = fn(&[u8], &AnyShape, &[KeyHash]) -> bool;

/// The rules that a policy adds to its kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Checks a finished filter. A pointer: programs without self-checks do not link them.
    pub(super) self_check: Option<SelfCheck>,
    pub(super) min_keys: u64,
    pub(super) max_keys: u64,
    pub(super) fallback_size: BitsPerKey,
    /// Whether filters will shrink.
    pub(super) is_shrinkable: bool,
    /// The kind that the policy would request if it were compiled in.
    pub(super) instead_of: Option<KindId>,
}

impl Rules {
    /// The default rules for a kind.
    pub(super) fn of(kind: &dyn AnyKind) -> Self {
        let fallback_size = kind.fallback_size().unwrap_or_else(|| bloom_size_of_equal_rate(kind));
        Self {
            self_check: None,
            min_keys: kind.traits().min_keys,
            max_keys: MAX_KEYS,
            fallback_size,
            is_shrinkable: false,
            instead_of: None,
        }
    }

    /// The kind to fall back to. If it will shrink, it keeps its probes and so its rate.
    pub(super) fn fallback(&self) -> BlockedBloomKind {
        let kind = BlockedBloomKind::new(self.fallback_size);
        if self.is_shrinkable { kind.foldable() } else { kind }
    }

    /// Plans a filter of `keys` keys, or returns the reason to fall back to blocked Bloom. The order of the checks is
    /// part of the documented rules: the block records the first check that fails.
    pub(super) fn plan(
        &self,
        kind: &dyn AnyKind,
        keys: u64,
        memory_budget: Option<u64>,
    ) -> Result<Planned, FallbackReason> {
        if keys < self.min_keys {
            return Err(FallbackReason::TooFewKeys);
        }
        let plan = kind.plan(keys)?;
        if keys > self.max_keys.min(MAX_KEYS) || plan.shape.payload_bytes() > MAX_PAYLOAD_BYTES {
            return Err(FallbackReason::TooManyKeys);
        }
        if memory_budget.is_some_and(|budget| plan.build_bytes > budget) {
            return Err(FallbackReason::MemoryBudget);
        }
        Ok(plan)
    }

    /// Approximate size of the block for `keys` keys, with the fallback; `None` beyond the format's limits.
    pub(super) fn block_bytes(&self, kind: &dyn AnyKind, keys: u64) -> Option<u64> {
        if let Ok(plan) = self.plan(kind, keys, None) {
            return Some(plan.shape.block_bytes());
        }
        let bloom = AnyKind::plan(&self.fallback(), keys).ok();
        bloom.filter(|_| keys <= MAX_KEYS).map(|plan| plan.shape.block_bytes())
    }
}

/// If this many keys or fewer are announced, a kind that buffers does not stream into a Bloom filter instead: the
/// number may be too small, and the buffer takes at most 512 KiB if it is not.
const CHEAP_TO_BUFFER: u64 = 1 << 16;

/// The filter to build, and the facts that its block records.
#[derive(Clone)]
pub(super) struct Job {
    kind: Arc<dyn AnyKind>,
    rules: Rules,
    identity: BlockIdentity,
    /// The field that records which parts of keys the block holds.
    held: Vec<u8>,
    limits: BuildLimits,
    /// The kind that the policy requested; if `kind` differs, `reason` says why.
    requested: KindId,
    reason: FallbackReason,
}

impl Job {
    pub(super) fn new(kind: Arc<dyn AnyKind>, rules: Rules, identity: BlockIdentity, limits: BuildLimits) -> Self {
        let missing = rules.instead_of.map(|requested| (requested, FallbackReason::NotCompiled));
        let (requested, reason) = missing.unwrap_or((kind.id(), FallbackReason::None));
        Self { kind, rules, identity, held: Vec::new(), limits, requested, reason }
    }

    fn plan(&self, keys: u64) -> Result<Planned, FallbackReason> {
        self.rules.plan(&*self.kind, keys, self.limits.scratch_bytes)
    }

    fn block_bytes(&self, keys: u64) -> u64 {
        self.rules.block_bytes(&*self.kind, keys).unwrap_or(0)
    }

    /// Limits for building a planned filter: no more threads than the number of keys and the memory budget justify.
    ///
    /// The plan is made first, for one thread: a filter's kind must not depend on the number of threads.
    fn limits_for(&self, keys: u64, plan: &Planned) -> BuildLimits {
        let mut limits = BuildLimits { threads: worthwhile(self.limits.threads, keys), ..self.limits };
        if let Some(budget) = limits.scratch_bytes
            && limits.threads > 1
        {
            let left = budget.saturating_sub(plan.build_bytes);
            // Threads that take no memory are not limited by it.
            let more = left.checked_div(plan.thread_bytes).unwrap_or(u64::MAX);
            limits.threads = limits.threads.min(usize::try_from(more).unwrap_or(usize::MAX).saturating_add(1));
        }
        limits
    }

    /// Returns a builder for one file. If the announced number of keys leads to Bloom, keys are not buffered.
    pub(super) fn builder(mut self, context: &BuildContext) -> Box<dyn BlockBuilder> {
        let has_parts = !context.key_parts.are_whole_keys();
        self.held = HeldParts::encode(&context.key_parts);
        // Keys of several parts have more entries than keys, and their number is known only at the end.
        let is_streamed = self.kind.traits().is_streamed;
        let expected = context.expected_keys.filter(|&keys| !has_parts && (is_streamed || keys > CHEAP_TO_BUFFER));
        let plan = match expected.map(|keys| self.plan(keys)) {
            // The announced number already rules the kind out, so stream into Bloom at once and save the buffer. A
            // streamed kind that cannot be planned falls through: it buffers, and the true number of keys decides.
            Some(Err(reason)) if !is_streamed => return self.fallback(reason).builder(context),
            plan => plan.and_then(Result::ok),
        };
        // A self-check probes every hash at the end, so hashes must be buffered.
        let plan = plan.filter(|_| self.rules.self_check.is_none());
        let state = match plan.and_then(|plan| Some((self.kind.stream(&plan.shape, self.limits)?, plan.shape))) {
            Some((stream, shape)) => State::Streaming(Box::new(Streaming::new(shape, stream))),
            None => State::Buffering(Vec::new()),
        };
        let hasher = context.hasher.clone();
        let parts = has_parts.then(|| Box::new(OrderedKeyHashes::new(hasher.clone(), context.key_parts.clone())));
        let is_plain = !has_parts && !hasher.is_custom();
        let interruption = Interruption::default();
        Box::new(KindBuilder {
            job: self,
            hasher,
            is_plain,
            parts,
            interruption,
            added: 0,
            state,
            estimate: Cell::default(),
        })
    }

    /// Returns the job of building a blocked Bloom filter instead.
    fn fallback(&self, reason: FallbackReason) -> Self {
        let kind = Arc::new(self.rules.fallback());
        // The policy's limits are for its own kind.
        let rules = Rules { min_keys: 0, max_keys: MAX_KEYS, ..self.rules };
        let requested = self.requested;
        Self { requested, reason, held: self.held.clone(), ..Self::new(kind, rules, self.identity, self.limits) }
    }
}

struct KindBuilder {
    job: Job,
    hasher: KeyHasher,
    /// Whether adding a key runs no user code: whole keys, hashed by the library.
    is_plain: bool,
    /// `None` for only whole keys.
    parts: Option<Box<OrderedKeyHashes>>,
    /// Detects a panic in user code: the hash function or an extractor.
    interruption: Interruption,
    /// Keys added, repetitions included.
    added: u64,
    state: State,
    /// The block's size with a number of buffered hashes, as far as it was asked for.
    estimate: Cell<(u64, u64)>,
}

/// If the number of keys is known, streamed kinds insert keys as they arrive. Otherwise hashes are buffered for
/// `finish`.
enum State {
    Streaming(Box<Streaming>),
    Buffering(Vec<KeyHash>),
}

/// Keys that are staged and then inserted together: several times as many as Bloom prefetches lines ahead, in 2 KiB
/// that stay in L1.
const STAGED_KEYS: usize = 256;

/// A filter that is built as keys arrive.
struct Streaming {
    shape: AnyShape,
    stream: Box<dyn StreamedPayload>,
    /// Hashes that were added one by one and are not inserted yet.
    staged: [KeyHash; STAGED_KEYS],
    staged_keys: usize,
    last: Option<KeyHash>,
    distinct: u64,
}

impl Streaming {
    fn new(shape: AnyShape, stream: Box<dyn StreamedPayload>) -> Self {
        let staged = [KeyHash::from_well_mixed(0); STAGED_KEYS];
        Self { shape, stream, staged, staged_keys: 0, last: None, distinct: 0 }
    }

    /// Inserts a hash. Drops only adjacent repetitions, which covers sorted files.
    #[inline]
    fn insert(&mut self, hash: KeyHash) {
        if self.last == Some(hash) {
            return;
        }
        if self.staged_keys == STAGED_KEYS {
            self.insert_staged();
        }
        self.staged[self.staged_keys] = hash;
        self.staged_keys += 1;
        self.last = Some(hash);
        self.distinct += 1;
    }

    #[cold]
    fn insert_staged(&mut self) {
        self.stream.insert_all(&self.staged[..self.staged_keys]);
        self.staged_keys = 0;
    }

    fn insert_all(&mut self, more: &[KeyHash]) {
        // A repeated key sets no new bit; inserting it again is cheaper than filtering it out of the slice.
        self.distinct += self.stream.insert_and_count(self.last, more);
        self.last = more.last().copied().or(self.last);
    }

    /// Returns the payload, and the number of distinct keys.
    fn finish(mut self) -> (BuiltPayload<AnyShape>, u64) {
        self.insert_staged();
        (BuiltPayload::of_stream(self.shape, self.stream), self.distinct)
    }
}

impl BlockBuilder for KindBuilder {
    fn add_key(&mut self, key: &[u8]) {
        if !self.is_plain {
            return self.add_with_code_of_the_engine(key);
        }
        let hash = self.hasher.hash(key);
        self.added += 1;
        self.insert(hash);
    }

    #[inline]
    fn add_hash(&mut self, hash: KeyHash) {
        if let Some(parts) = &mut self.parts {
            parts.note_bare_hashes();
        }
        self.added += 1;
        self.insert(hash);
    }

    fn add_hashes(&mut self, more: &[KeyHash]) {
        if let Some(parts) = self.parts.as_mut().filter(|_| !more.is_empty()) {
            parts.note_bare_hashes();
        }
        self.added += more.len() as u64;
        self.insert_all(more);
    }

    fn estimated_bytes(&self) -> u64 {
        let unbound = match &self.state {
            State::Streaming(streaming) => streaming.shape.block_bytes(),
            State::Buffering(hashes) => self.estimate_for(hashes.len() as u64),
        };
        unbound.saturating_add(self.job.identity.file_bytes()).saturating_add(self.job.held.len() as u64)
    }

    fn finish(self: Box<Self>) -> BuiltFilter {
        let elapsed = stopwatch();
        let Self { mut job, parts, interruption, added, state, .. } = *self;
        if interruption.has_happened() {
            // A filter that may lack a key would hide it, so the file gets none.
            return job.without_filter(FallbackReason::Panicked, 0);
        }
        let held = parts.as_ref().map_or_else(|| Some(KeyParts::whole_keys()), |parts| parts.held());
        let unstable_extractors = parts.map(|parts| parts.unstable_extractors()).unwrap_or_default();
        // Only now is it certain which extractors kept their promise, and whether bare hashes came.
        job.held = held.as_ref().map(HeldParts::encode).unwrap_or_default();
        let mut built = match state {
            _ if held.is_none() => job.without_filter(FallbackReason::UnstableExtractor, 0),
            State::Streaming(streaming) => {
                let (built, distinct) = streaming.finish();
                job.seal(built, distinct).unwrap_or_else(|reason| job.without_filter(reason, distinct))
            }
            State::Buffering(hashes) => job.build(hashes),
        };
        built.report.keys_added = added;
        built.report.unstable_extractors = unstable_extractors;
        built.report.finish_time = elapsed();
        built
    }
}

impl fmt::Debug for KindBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KindBuilder").field("kind", &self.job.kind).field("keys", &self.added).finish_non_exhaustive()
    }
}

impl KindBuilder {
    /// Returns the size of the block of `keys` buffered hashes. Writers query it after every entry, and planning each
    /// time would cost as much as hashing the key, so it lags by at most 1/64. Planning a streamed kind is a division:
    /// its size is exact.
    fn estimate_for(&self, keys: u64) -> u64 {
        let (estimated_keys, bytes) = self.estimate.get();
        if bytes > 0 && !self.job.kind.traits().is_streamed && keys <= estimated_keys + estimated_keys / 64 {
            return bytes;
        }
        let bytes = self.job.block_bytes(keys);
        self.estimate.set((keys, bytes));
        bytes
    }

    /// Adds the parts of a key that the previous key has not added.
    #[inline(never)]
    fn add_with_code_of_the_engine(&mut self, key: &[u8]) {
        self.interruption.enter();
        // Taken out of `self`, because `insert` borrows all of it.
        let mut parts = self.parts.take();
        let whole_key;
        let new = if let Some(parts) = &mut parts {
            parts.of(key).new
        } else {
            whole_key = [self.hasher.hash(key)];
            &whole_key
        };
        for &hash in new {
            self.insert(hash);
        }
        self.parts = parts;
        self.added += 1;
        self.interruption.leave();
    }

    #[expect(clippy::inline_always, reason = "part of `add_key`, of whose time a call takes a twentieth")]
    #[inline(always)]
    fn insert(&mut self, hash: KeyHash) {
        match &mut self.state {
            State::Streaming(streaming) => streaming.insert(hash),
            State::Buffering(hashes) if hashes.last() == Some(&hash) => {}
            State::Buffering(hashes) => hashes.push(hash),
        }
    }

    fn insert_all(&mut self, more: &[KeyHash]) {
        match &mut self.state {
            State::Streaming(streaming) => streaming.insert_all(more),
            State::Buffering(hashes) => {
                if self.job.kind.traits().accepts_partitioned_hashes {
                    // The fuse build reuses the buffer as its cells, which number up to a quarter more than the keys.
                    hashes.reserve(more.len() + more.len() / 4);
                }
                for run in more.chunk_by(|left, right| left != right) {
                    // Every run but the first begins with the last hash of the previous run.
                    let is_repeated = run.first() == hashes.last();
                    hashes.extend_from_slice(&run[usize::from(is_repeated)..]);
                }
            }
        }
    }
}

impl Job {
    /// Builds a filter from the buffered hashes.
    ///
    /// Binary fuse first tries hashes that are only partitioned into windows, which is cheaper than sorting. If that
    /// fails, for instance because of repeated keys, the hashes are sorted and repetitions removed.
    fn build(&self, mut hashes: Vec<KeyHash>) -> BuiltFilter {
        let buffer_bytes = (hashes.capacity() * size_of::<KeyHash>()) as u64;
        // The sort has the whole budget: its copy is freed or reused before the construction takes memory.
        let budget = self.limits.scratch_bytes.unwrap_or(u64::MAX);
        let mut scratch = SortScratch::of_threads(self.limits.threads);
        let mut at_once = None;
        if self.kind.partition(&mut hashes, &mut scratch, budget) {
            let mut peak_bytes = scratch.bytes();
            // The sort's copy becomes memory of the construction.
            let spare = core::mem::take(&mut scratch).spare;
            at_once = self.attempt(&hashes, &mut peak_bytes, Some(spare)).ok();
            if let Some(built) = &mut at_once {
                built.report.peak_build_bytes = peak_bytes;
            }
        }
        let mut built = at_once.unwrap_or_else(|| {
            self.kind.sort(&mut hashes, &mut scratch, budget);
            let sort_bytes = scratch.bytes();
            drop(scratch);
            self.build_or_fall_back(&hashes, sort_bytes)
        });
        if built.block.is_some() {
            built.report.peak_build_bytes += buffer_bytes;
        }
        built
    }

    /// Builds the requested filter, else a blocked Bloom filter, else none. `peak_bytes` is the peak so far.
    fn build_or_fall_back(&self, hashes: &[KeyHash], mut peak_bytes: u64) -> BuiltFilter {
        let mut built = match self.attempt(hashes, &mut peak_bytes, None) {
            Ok(built) => built,
            Err(reason) if self.kind.id() == KindId::BLOCKED_BLOOM => {
                // Blocked Bloom itself has nothing to fall back to.
                return self.without_filter(reason, hashes.len() as u64);
            }
            Err(reason) => self.fallback(reason).build_or_fall_back(hashes, 0),
        };
        built.report.peak_build_bytes = built.report.peak_build_bytes.max(peak_bytes);
        built
    }

    /// Builds the filter, unless it is too large or fails the self-check: from partitioned hashes with `spare` memory,
    /// or from sorted ones. Raises `peak_bytes` to the bytes that building took, even if the filter is not used.
    fn attempt(
        &self,
        hashes: &[KeyHash],
        peak_bytes: &mut u64,
        spare: Option<Vec<KeyHash>>,
    ) -> Result<BuiltFilter, FallbackReason> {
        let keys = hashes.len() as u64;
        let plan = self.plan(keys)?;
        let built = self.kind.build(&plan.shape, hashes, spare, self.limits_for(keys, &plan))?;
        let max_bytes = plan.max_block_bytes.unwrap_or(u64::MAX);
        let shape = built.shape.clone();
        let built = self.seal(built, keys)?;
        *peak_bytes = built.report.peak_build_bytes.max(*peak_bytes);
        // Without the file's fingerprint and the field of parts: binding a block must not change its kind.
        if built.report.block_bytes - self.identity.file_bytes() - self.held.len() as u64 > max_bytes {
            return Err(FallbackReason::NotSmaller);
        }
        match (self.rules.self_check, &built.block) {
            (Some(is_sound), Some(block)) if !is_sound(block, &shape, hashes) => Err(FallbackReason::SelfCheckFailed),
            _ => Ok(built),
        }
    }

    /// Seals a finished payload into a block and its report.
    fn seal(&self, built: BuiltPayload<AnyShape>, keys: u64) -> Result<BuiltFilter, FallbackReason> {
        let BuiltPayload { shape, payload, attempts, peak_bytes } = built;
        let payload_bytes = payload.as_slice().len() as u64;
        // A user-defined kind may return another size than its shape's.
        if payload_bytes != shape.payload_bytes() {
            return Err(FallbackReason::ConstructionFailed);
        }
        let held = HeldParts::of_field(&self.held);
        let trailer = Trailer {
            requested: self.requested,
            reason: self.reason,
            parts_bytes: held.field_bytes(),
            has_whole_keys: held.has_whole_keys(),
            ..Trailer::new(self.kind.id(), self.identity, shape.encode(keys), &payload)
        };
        let block = trailer.seal(payload, held).ok_or(FallbackReason::TooManyKeys)?;
        let block_bytes = block.len() as u64;
        let report = BuildReport {
            used: Some(self.kind.id()),
            reason: self.reason,
            distinct_keys: keys,
            attempts,
            block_bytes,
            expected_fpr: shape.expected_fpr(keys),
            is_overfull: shape.is_overfull(keys),
            peak_build_bytes: peak_bytes + block_bytes - payload_bytes,
            ..BuildReport::new(self.requested)
        };
        Ok(BuiltFilter::new(Some(block), report))
    }

    /// The last resort: the file gets no filter.
    fn without_filter(&self, reason: FallbackReason, distinct_keys: u64) -> BuiltFilter {
        BuiltFilter::new(None, BuildReport { reason, distinct_keys, ..BuildReport::new(self.requested) })
    }
}

/// Returns the size at which blocked Bloom has this kind's false positive rate.
fn bloom_size_of_equal_rate(kind: &dyn AnyKind) -> BitsPerKey {
    let rate = kind.plan(RATE_KEYS).map(|plan| plan.shape.expected_fpr(RATE_KEYS));
    let rate = rate.ok().and_then(|rate| FalsePositiveRate::new(rate).ok());
    rate.map_or(BitsPerKey::TEN, |rate| smallest_size_for(RATE_KEYS, rate))
}

/// Whether a block with this shape contains all of `hashes`. Checks the recorded parameters, too.
pub(super) fn contains_all(block: &[u8], shape: &AnyShape, hashes: &[KeyHash]) -> bool {
    let payload = usize::try_from(shape.payload_bytes()).ok().and_then(|bytes| block.get(..bytes));
    let is_recorded = Trailer::decode(block).is_ok_and(|trailer| trailer.shape == shape.encode(hashes.len() as u64));
    is_recorded && payload.is_some_and(|payload| shape.contains_all(payload, hashes))
}
