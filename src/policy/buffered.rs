//! The builder of kinds that are made at once, from all hashes of a file; and their fallback.

use core::fmt;
use std::time::Instant;

use super::bloom::{BloomBuilder, BloomRequest, bloom_block_bytes, build_from, contains_all};
use super::collect::HashBuffer;
use super::key_hashing::KeyHashing;
use super::{BuildContext, BuildReport, BuiltFilter, FilterBuilder, SelfCheck};
use crate::block::{BlockIdentity, EncodeRequest, FallbackReason, encode};
use crate::filter::blocked_bloom::BloomBits;
use crate::filter::{BuildFailure, BuiltPayload, FilterShape};
use crate::hash::{KeyHash, SortScratch};
use crate::units::BitsPerKey;

/// A policy's kind, when it is built from all hashes at once: what [`builder`] needs to know of it.
pub(super) trait BufferedKind: Clone + fmt::Debug + Send + Sync + 'static {
    type Shape: FilterShape;

    /// What is settled before building, by the number of keys.
    type Plan;

    /// The plan for `keys` keys, or why there is to be a filter of another kind.
    fn plan(&self, keys: u64, memory_budget: Option<u64>) -> Result<Self::Plan, FallbackReason>;

    /// Builds the filter of distinct, ascending `hashes`, with room for a tail behind the payload.
    fn build(&self, plan: Self::Plan, hashes: &[KeyHash]) -> Result<BuiltPayload<Self::Shape>, BuildFailure>;

    /// Whether [`build_at_once`](Self::build_at_once) can succeed.
    const TAKES_ROUGH_ORDER: bool = false;

    /// Builds the same filter of hashes that are only roughly in order and may come twice, if one attempt is enough
    /// and none does. `spare` is memory of about as many hashes.
    fn build_at_once(
        &self,
        _plan: Self::Plan,
        _hashes: &[KeyHash],
        _spare: Vec<KeyHash>,
    ) -> Option<BuiltPayload<Self::Shape>> {
        None
    }

    /// About how many bytes the block of a plan has.
    fn planned_bytes(&self, keys: u64, plan: &Self::Plan) -> Option<u64>;

    /// The most bytes that a finished block may have to be used, where the hashes decide how many it has: more, and
    /// a Bloom filter takes its place.
    ///
    /// `None` without a limit, which is right for kinds whose size follows from the number of keys: whoever asks for
    /// one of them asks for that size, above Bloom's for a few keys as it may be.
    fn most_block_bytes(&self, _keys: u64, _plan: &Self::Plan) -> Option<u64> {
        None
    }

    /// The size of the blocked Bloom filter that takes its place.
    fn fallback_size(&self) -> BitsPerKey;

    /// Whether finished filters are asked for all of their keys.
    fn self_check(&self) -> SelfCheck;

    /// About how many bytes the block of `keys` keys has, whatever its kind; `None` beyond the format.
    fn estimated_bytes(&self, keys: u64) -> Option<u64> {
        match self.plan(keys, None) {
            Ok(plan) => self.planned_bytes(keys, &plan),
            Err(_) => bloom_block_bytes(keys, self.fallback_size()),
        }
    }
}

/// A builder for one file. When the number of keys is known and leads to Bloom, keys are not buffered.
pub(super) fn builder<K: BufferedKind>(kind: &K, context: &BuildContext) -> Box<dyn FilterBuilder> {
    let budget = context.memory_budget;
    match context.expected_keys.map(|keys| kind.plan(keys, budget)) {
        Some(Err(reason)) => Box::new(BloomBuilder::<BloomBits>::new(bloom_request(kind, reason, budget), context)),
        _ => Box::new(BufferedBuilder {
            kind: kind.clone(),
            hashing: KeyHashing::new(context),
            memory_budget: budget,
            buffer: HashBuffer::default(),
            estimate: Estimate::default(),
        }),
    }
}

#[derive(Debug)]
struct BufferedBuilder<K> {
    kind: K,
    hashing: KeyHashing,
    memory_budget: Option<u64>,
    buffer: HashBuffer,
    estimate: Estimate,
}

/// The block's size as it was a few keys ago: writers ask after every entry, and planning each time would cost
/// as much as hashing the key.
#[derive(Debug, Default)]
struct Estimate {
    bytes: u64,
    /// The number of keys at which it is taken anew: 1/64 more.
    renewed_at: u64,
}

impl<K: BufferedKind> BufferedBuilder<K> {
    fn renew_estimate(&mut self) {
        let keys = self.buffer.len();
        if keys >= self.estimate.renewed_at {
            let bytes = self.kind.estimated_bytes(keys).unwrap_or(0);
            self.estimate = Estimate { bytes, renewed_at: keys + keys / 64 + 1 };
        }
    }
}

impl<K: BufferedKind> FilterBuilder for BufferedBuilder<K> {
    fn add_key(&mut self, key: &[u8]) {
        let hash = self.hashing.hash(key);
        self.add_hash(hash);
    }

    fn add_hash(&mut self, hash: KeyHash) {
        self.buffer.add(hash);
        self.renew_estimate();
    }

    fn add_hashes(&mut self, hashes: &[KeyHash]) {
        if K::TAKES_ROUGH_ORDER {
            // The buffer's memory becomes that of a quarter more cells.
            self.buffer.reserve(hashes.len() + hashes.len() / 4);
        }
        self.buffer.add_all(hashes);
        self.renew_estimate();
    }

    fn estimated_bytes(&self) -> u64 {
        self.estimate.bytes + self.hashing.identity().file_bytes()
    }

    fn finish(self: Box<Self>) -> BuiltFilter {
        let started = Instant::now();
        if let Some(refusal) = self.hashing.refusal(K::Shape::KIND) {
            return refusal;
        }
        let identity = self.hashing.identity();
        let mut built = build(&self.kind, self.buffer, identity, self.memory_budget);
        built.report.finish_time = started.elapsed();
        built
    }
}

/// Builds the filter of the buffered hashes, of whatever kind it becomes.
fn build<K: BufferedKind>(
    kind: &K,
    mut buffer: HashBuffer,
    identity: BlockIdentity,
    memory_budget: Option<u64>,
) -> BuiltFilter {
    let (added, buffer_bytes) = (buffer.added(), buffer.bytes());
    let mut sort_scratch = SortScratch::default();
    if K::TAKES_ROUGH_ORDER && buffer.sort_roughly(&mut sort_scratch, memory_budget.unwrap_or(u64::MAX)) {
        let sort_bytes = sort_scratch.bytes();
        let spare = core::mem::take(&mut sort_scratch).into_spare();
        if let Some(mut built) = build_at_once(kind, buffer.as_slice(), spare, identity, memory_budget) {
            built.report.keys_added = added;
            built.report.peak_build_bytes = buffer_bytes + built.report.peak_build_bytes.max(sort_bytes);
            return built;
        }
    }
    let hashes = &buffer.into_sorted_distinct(&mut sort_scratch, memory_budget.unwrap_or(u64::MAX));
    let sort_bytes = sort_scratch.bytes();
    drop(sort_scratch);
    match build_as_requested(kind, hashes, identity, memory_budget) {
        Ok(mut built) => {
            built.report.keys_added = added;
            built.report.peak_build_bytes = buffer_bytes + built.report.peak_build_bytes.max(sort_bytes);
            built
        }
        Err(unused) => {
            let request = bloom_request(kind, unused.reason, memory_budget);
            let mut built = build_from(request, identity, hashes, added, buffer_bytes);
            let before = buffer_bytes + unused.peak_bytes.max(sort_bytes);
            built.report.peak_build_bytes = built.report.peak_build_bytes.max(before);
            built
        }
    }
}

/// The filter of hashes in rough order, if there is one without ado.
fn build_at_once<K: BufferedKind>(
    kind: &K,
    hashes: &[KeyHash],
    spare: Vec<KeyHash>,
    identity: BlockIdentity,
    memory_budget: Option<u64>,
) -> Option<BuiltFilter> {
    let keys = hashes.len() as u64;
    let built = kind.build_at_once(kind.plan(keys, memory_budget).ok()?, hashes, spare)?;
    let built = seal(built, identity, keys)?;
    let is_denied = kind.self_check() == SelfCheck::On && !contains_all(built.block.as_deref(), hashes);
    (!is_denied).then_some(built)
}

/// Why there is to be a filter of another kind, and what finding out took.
struct Unused {
    reason: FallbackReason,
    peak_bytes: u64,
}

impl From<FallbackReason> for Unused {
    fn from(reason: FallbackReason) -> Self {
        Self { reason, peak_bytes: 0 }
    }
}

fn build_as_requested<K: BufferedKind>(
    kind: &K,
    hashes: &[KeyHash],
    identity: BlockIdentity,
    memory_budget: Option<u64>,
) -> Result<BuiltFilter, Unused> {
    let keys = hashes.len() as u64;
    let plan = kind.plan(keys, memory_budget)?;
    let most_bytes = kind.most_block_bytes(keys, &plan).unwrap_or(u64::MAX);
    let built = kind.build(plan, hashes).map_err(|failure| reason_of(&failure))?;
    let built = seal(built, identity, keys).ok_or(FallbackReason::TooManyKeys)?;
    let unused = |reason| Unused { reason, peak_bytes: built.report.peak_build_bytes };
    // The binding is no reason for another kind.
    if built.report.block_bytes - identity.file_bytes() > most_bytes {
        return Err(unused(FallbackReason::NotSmaller));
    }
    if kind.self_check() == SelfCheck::On && !contains_all(built.block.as_deref(), hashes) {
        return Err(unused(FallbackReason::SelfCheckFailed));
    }
    Ok(built)
}

fn bloom_request<K: BufferedKind>(kind: &K, reason: FallbackReason, memory_budget: Option<u64>) -> BloomRequest {
    let (size, self_check) = (kind.fallback_size(), kind.self_check());
    BloomRequest { size, requested: K::Shape::KIND, reason, self_check, memory_budget }
}

fn reason_of(failure: &BuildFailure) -> FallbackReason {
    match failure {
        BuildFailure::TooManyKeys => FallbackReason::TooManyKeys,
        BuildFailure::NoMemory => FallbackReason::MemoryBudget,
        BuildFailure::AttemptsExhausted => FallbackReason::ConstructionFailed,
    }
}

/// The block of a finished payload; `None` when it exceeds the format.
pub(super) fn seal<S: FilterShape>(built: BuiltPayload<S>, identity: BlockIdentity, keys: u64) -> Option<BuiltFilter> {
    let BuiltPayload { shape, payload, attempts, peak_bytes } = built;
    let request = EncodeRequest { requested: S::KIND, reason: FallbackReason::None, identity, keys };
    let block = encode(&shape, payload, request)?;
    let report = BuildReport {
        used: Some(S::KIND),
        distinct_keys: keys,
        attempts,
        block_bytes: block.len() as u64,
        expected_fpr: shape.expected_fpr(keys),
        peak_build_bytes: peak_bytes,
        ..BuildReport::new(S::KIND)
    };
    Some(BuiltFilter::new(Some(block), report))
}
