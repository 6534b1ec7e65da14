//! Collects keys, cuts them into partitions, and writes these into a container.

use core::cmp::Ordering;
use std::sync::Arc;
use std::time::Instant;

use bytes::{BufMut, Bytes};
use crc32c::crc32c as checksum;
use sstfilter::internal::varint::put_varint;
use sstfilter::internal::{AlignedBuffer, HeldParts, Interruption, OrderedKeyHashes, Trailer, share, sort_hashes};
use sstfilter::kind::MAX_KEYS;
use sstfilter::{
    BlockIdentity, BuildContext, BuildReport, BuiltFilter, FallbackReason, FilterPolicy, KeyHash, KeyParts, KindId,
};

use super::bounds::{PREFIX_GROUP, group_prefix, separator};
use super::index::RESERVED;
use super::trailer::{ContainerTrailer, MAX_PARTITIONS};
use super::{PartitionCut, PartitionOptions};
use crate::checked::checked;
use crate::codec::{LINE_BYTES, checksum_without_last, compare, put_item};

/// Keys that make another thread worthwhile: a millisecond of work, against some 50 microseconds to start it.
const KEYS_PER_THREAD: usize = 1 << 16;

/// Builds the partitioned filter of one file.
///
/// Calls follow `(add_key | add_hash)* finish`. If the filter is cut by key range, keys must ascend, and a partition is
/// built as soon as it is full: the builder holds the hashes of one partition, not those of the file. If it is cut by
/// hash range, keys come in any order, and the builder holds all hashes until [`finish`](Self::finish), which builds as
/// many partitions at a time as the context has threads and memory for.
///
/// If the filter is cut by key range, a key and all of its [parts](BuildContext::with_key_parts) are in one partition;
/// if by hash range, each hash has its own place. The same keys, options and policy lead to the same bytes on every
/// platform and with any number of threads.
///
/// If a user-defined hash, extractor or policy panics in a call, the filter may lack that key, so it is not built
/// ([`FallbackReason::Panicked`]). Keys that do not ascend where they must have the same effect
/// ([`FallbackReason::KeysOutOfOrder`]), because a reader would look for them in the wrong partition.
///
/// ```
/// use std::sync::Arc;
/// use sstfilter_store::{PartitionOptions, PartitionedBuilder};
/// use sstfilter::{BuildContext, FileId, KeyHasher, FixedPolicy};
///
/// let context = BuildContext::new(&KeyHasher::default()).with_file_id(FileId::random());
/// let mut builder = PartitionedBuilder::new(Arc::new(FixedPolicy::default()), &context, PartitionOptions::default());
/// (0..50_000_u32).for_each(|key| builder.add_key(&key.to_be_bytes()));
/// assert!(builder.finish().block.is_some());
/// ```
#[derive(Debug)]
pub struct PartitionedBuilder {
    policy: Arc<dyn FilterPolicy>,
    /// The context of each partition, without the file and the parts of keys, which belong to the container.
    context: BuildContext,
    /// `None` after a panic in the hash or an extractor.
    parts: Option<Box<OrderedKeyHashes>>,
    identity: BlockIdentity,
    options: PartitionOptions,
    /// The number of hashes in a full partition.
    max_hashes: usize,
    /// Panics of the hash, an extractor or the policy.
    interruption: Interruption,
    keys_added: u64,
    /// The hashes of the partition being filled, or of all partitions if the filter is cut by hash range.
    hashes: Vec<KeyHash>,
    /// The hashes of the last key, if it is in the partition being filled.
    last_hashes: Vec<KeyHash>,
    last_key: Vec<u8>,
    is_out_of_order: bool,
    /// The lower bounds of the built partitions and of the one being filled: each is the shortest key above those of
    /// the partition before. The first is empty; if the filter is cut by hash range, there is no other.
    bounds: Vec<Vec<u8>>,
    built: Vec<BuiltFilter>,
    /// Approximate bytes of the built partitions, kept because writers ask for the estimate after each key.
    built_bytes: u64,
    /// Peak bytes while hashes were collected and sorted, and while partitions were built from all of them, not
    /// counting finished blocks.
    peak_hash_bytes: u64,
}

/// Approximate bytes of a partition in addition to its block: an entry of the top index, and zeros before the next
/// partition.
const BESIDE_PARTITION: u64 = 64;

/// The maximum offset of the last partition: offsets are 32-bit numbers of lines.
const MAX_OFFSET: u64 = u32::MAX as u64 * LINE_BYTES as u64;

impl PartitionedBuilder {
    /// Creates a builder for one file. Each partition gets a filter from `policy`, built in `context`; the container is
    /// bound to the context's file.
    #[must_use]
    pub fn new(policy: Arc<dyn FilterPolicy>, context: &BuildContext, options: PartitionOptions) -> Self {
        let identity = BlockIdentity { hash: context.hasher.identity(), file: context.file_id };
        let parts = Some(Box::new(OrderedKeyHashes::new(context.hasher.clone(), context.key_parts.clone())));
        let mut context = context.clone();
        (context.file_id, context.expected_keys, context.key_parts) = (None, None, KeyParts::whole_keys());
        Self {
            parts,
            max_hashes: max_hashes(&*policy, &context, options.target_bytes()),
            policy,
            context,
            identity,
            options,
            interruption: Interruption::default(),
            keys_added: 0,
            hashes: Vec::new(),
            last_hashes: Vec::new(),
            last_key: Vec::new(),
            is_out_of_order: false,
            bounds: vec![Vec::new()],
            built: Vec::new(),
            built_bytes: 0,
            peak_hash_bytes: 0,
        }
    }

    /// Adds the parts of a key that the context names, hashed with its hasher.
    pub fn add_key(&mut self, key: &[u8]) {
        self.interruption.enter();
        if let Some(mut parts) = self.parts.take() {
            // All parts, even those that the previous key shares: it may be in another partition.
            self.add(key, parts.of(key).all);
            self.parts = Some(parts);
        }
        self.interruption.leave();
    }

    /// Adds a whole key by its hash, for engines that have already computed it: the filter then holds whole keys and no
    /// other parts, whatever the context names. If the filter is cut by hash range, `key` is ignored and may be empty.
    pub fn add_hash(&mut self, key: &[u8], hash: KeyHash) {
        self.parts.iter_mut().for_each(|parts| parts.note_bare_hashes());
        self.interruption.enter();
        self.add(key, &[hash]);
        self.interruption.leave();
    }

    /// Adds the hashes of a key. If the filter is cut by key range, `key` is a position in the order, and equal keys
    /// share a partition.
    fn add(&mut self, key: &[u8], hashes: &[KeyHash]) {
        match self.options.cut() {
            PartitionCut::KeyRange => self.add_in_order(key, hashes),
            PartitionCut::HashRange => self.push(hashes),
        }
        self.keys_added += 1;
    }

    fn add_in_order(&mut self, key: &[u8], hashes: &[KeyHash]) {
        let order = if self.keys_added == 0 { Ordering::Greater } else { compare(key, &self.last_key) };
        if self.is_out_of_order || order.is_lt() {
            // The filter is refused anyway, so its memory can go.
            self.is_out_of_order = true;
            (self.hashes, self.built, self.built_bytes) = (Vec::new(), Vec::new(), 0);
            return;
        }
        // Never cut between equal keys: no separator lies between them.
        let is_new = order.is_gt();
        if is_new && !self.hashes.is_empty() && self.hashes.len() + hashes.len() > self.max_hashes {
            self.close_partition();
            self.bounds.push(separator(&self.last_key, key).to_vec());
        }
        self.push(hashes);
        if is_new {
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
    }

    /// Adds the hashes that the previous key did not have: neighbours in order share their prefixes.
    fn push(&mut self, hashes: &[KeyHash]) {
        let last = &mut self.last_hashes;
        if let ([hash], [last]) = (hashes, &mut last[..]) {
            // Whole keys alone.
            if last != hash {
                self.hashes.push(*hash);
                *last = *hash;
            }
            return;
        }
        self.hashes.extend(hashes.iter().filter(|&hash| !last.contains(hash)));
        last.clear();
        last.extend_from_slice(hashes);
    }

    /// Builds the filter of the partition being filled.
    fn close_partition(&mut self) {
        let buffer_bytes = bytes_of(&self.hashes);
        self.peak_hash_bytes = self.peak_hash_bytes.max(buffer_bytes);
        let built = build_partition(&*self.policy, &self.context, &self.hashes);
        // Saturating, here and wherever reports are summed: a user-defined builder may claim any number.
        self.built_bytes = self.built_bytes.saturating_add(built.report.block_bytes).saturating_add(BESIDE_PARTITION);
        self.built.push(built);
        self.hashes.clear();
        self.last_hashes.clear();
    }

    /// Returns the approximate size of the container if it were finished now, for writers that cut files by size.
    #[must_use]
    pub fn estimated_bytes(&self) -> u64 {
        let open = u128::from(self.options.target_bytes()) * self.hashes.len() as u128 / self.max_hashes as u128;
        let beside = u64::try_from(open).unwrap_or(u64::MAX).saturating_add(2 * BESIDE_PARTITION);
        self.built_bytes.saturating_add(beside)
    }

    /// Builds the remaining partitions, and returns the container. Write it unchanged, with its first byte at a
    /// multiple of 64.
    ///
    /// The report describes the whole filter: sums over the partitions, the bytes of the container, and the mean rate
    /// weighted by keys. `used` and `reason` are those of the first partition that fell back, or of the first partition
    /// with a filter.
    pub fn finish(mut self) -> BuiltFilter {
        let started = Instant::now();
        let parts = self.parts.take();
        let held = parts.as_ref().and_then(|parts| parts.held());
        let unstable_extractors = parts.map(|parts| parts.unstable_extractors()).unwrap_or_default();
        let container = self.build_all().and_then(|()| {
            let held = held.ok_or(FallbackReason::UnstableExtractor)?;
            self.seal(HeldParts::encode(&held))
        });
        let (keys_added, requested) = (self.keys_added, self.requested_kind());
        let mut report = BuildReport::new(requested);
        (report.keys_added, report.unstable_extractors) = (keys_added, unstable_extractors);
        match &container {
            Ok(container) => self.sum_up(&mut report, container.len() as u64),
            Err(reason) => report.reason = *reason,
        }
        report.finish_time = started.elapsed();
        BuiltFilter::new(container.ok(), report)
    }

    /// Builds the remaining partitions, if there can be a filter.
    fn build_all(&mut self) -> Result<(), FallbackReason> {
        if self.interruption.has_happened() {
            return Err(FallbackReason::Panicked);
        }
        if self.is_out_of_order {
            return Err(FallbackReason::KeysOutOfOrder);
        }
        match self.options.cut() {
            PartitionCut::KeyRange => self.close_partition(),
            PartitionCut::HashRange => self.cut_by_hash()?,
        }
        Ok(())
    }

    /// Returns the container of all partitions; none if no partition has a filter. If the policy wanted none, the
    /// reason is [`FallbackReason::None`].
    fn seal(&self, held: Vec<u8>) -> Result<Bytes, FallbackReason> {
        if self.built.iter().all(|partition| partition.block.is_none()) {
            let reasons = self.built.iter().map(|partition| partition.report.reason);
            let reason = reasons.max_by_key(|&reason| reason != FallbackReason::None);
            return Err(reason.unwrap_or(FallbackReason::None));
        }
        let has_bounds = self.options.cut() == PartitionCut::KeyRange;
        let too_many = || FallbackReason::TooManyKeys;
        let (mut index, mut prefix, mut end) = (Vec::new(), &[][..], 0_u64);
        for (number, partition) in (0..MAX_PARTITIONS).zip(&self.built) {
            if has_bounds && (number as usize).is_multiple_of(PREFIX_GROUP) {
                prefix = group_prefix(&self.bounds, number as usize);
                put_item(&mut index, prefix);
            }
            let block = block_of(partition);
            put_varint(&mut index, u32::try_from(block.len()).map_err(|_| too_many())?.into());
            if !block.is_empty() {
                index.put_u32_le(checksum_without_last(block));
            }
            put_varint(&mut index, RESERVED);
            if has_bounds && number > 0 {
                let lower = self.bounds.get(number as usize).and_then(|bound| bound.get(prefix.len()..));
                put_item(&mut index, lower.unwrap_or_default());
            }
            end = end.next_multiple_of(LINE_BYTES as u64) + block.len() as u64;
        }
        let trailer = ContainerTrailer {
            identity: self.identity,
            cut: self.options.cut(),
            partitions: u32::try_from(self.built.len()).map_err(|_| too_many())?,
            keys: self.distinct_keys(),
            index_bytes: u32::try_from(index.len()).map_err(|_| too_many())?,
            index_checksum: checksum(&index),
            held: held.into(),
        };
        // Checked before the container is allocated.
        if end > MAX_OFFSET || trailer.keys > MAX_KEYS || trailer.partitions > MAX_PARTITIONS {
            return Err(too_many());
        }
        index.extend(trailer.encode());
        let mut container = AlignedBuffer::empty(end + index.len() as u64).ok_or(FallbackReason::MemoryBudget)?;
        for partition in &self.built {
            let length = container.as_slice().len() as u64;
            let zeros = length.next_multiple_of(LINE_BYTES as u64) - length;
            container.append_zeroed(zeros).ok_or(FallbackReason::MemoryBudget)?;
            container.append(block_of(partition));
        }
        container.append(&index);
        Ok(container.freeze())
    }

    fn sum_up(&self, report: &mut BuildReport, container_bytes: u64) {
        let reports = || self.built.iter().map(|partition| &partition.report);
        let filters = || reports().filter(|report| report.used.is_some());
        let fallen_back = filters().find(|report| report.reason != FallbackReason::None);
        if let Some(shown) = fallen_back.or_else(|| filters().next()) {
            (report.used, report.reason) = (shown.used, shown.reason);
        }
        let keys = self.distinct_keys();
        let expected: f64 = reports().map(|report| report.expected_fpr * report.distinct_keys as f64).sum();
        report.distinct_keys = keys;
        report.expected_fpr = if keys > 0 { expected / keys as f64 } else { 0.0 };
        report.attempts = reports().map(|report| report.attempts).max().unwrap_or(0);
        report.block_bytes = container_bytes;
        let blocks: u64 = self.built.iter().map(|partition| block_of(partition).len() as u64).sum();
        let building = reports().map(|report| report.peak_build_bytes).max().unwrap_or(0);
        report.peak_build_bytes = blocks.saturating_add(self.peak_hash_bytes.max(building).max(container_bytes));
    }

    fn distinct_keys(&self) -> u64 {
        self.built.iter().map(|partition| partition.report.distinct_keys).fold(0, u64::saturating_add)
    }

    /// Sorts all hashes and builds the partitions from runs of them.
    fn cut_by_hash(&mut self) -> Result<(), FallbackReason> {
        let mut hashes = core::mem::take(&mut self.hashes);
        let sorting = sort_hashes(&mut hashes, self.context.threads, self.context.memory_budget.unwrap_or(u64::MAX));
        self.peak_hash_bytes = bytes_of(&hashes) + sorting;
        hashes.dedup();
        let partitions = odd_partitions(hashes.len(), self.max_hashes).ok_or(FallbackReason::TooManyKeys)?;
        let (mut left, mut runs) = (&hashes[..], Vec::new());
        for number in 0..partitions {
            let end = left.partition_point(|hash| hash.in_partition(partitions).0 <= number);
            let (own, others) = left.split_at_checked(end).unwrap_or((left, &[]));
            runs.push(own);
            left = others;
        }
        let building = self.build_runs(&runs, partitions);
        self.peak_hash_bytes = self.peak_hash_bytes.max(bytes_of(&hashes).saturating_add(building));
        Ok(())
    }

    /// Builds a partition of each run of hashes, several at a time if there are threads and memory for them. Returns
    /// the peak bytes.
    fn build_runs(&mut self, runs: &[&[KeyHash]], partitions: u32) -> u64 {
        let policy = &*self.policy;
        let build = |context: &BuildContext, inner: &mut Vec<KeyHash>, run: &[KeyHash]| {
            inner.clear();
            inner.reserve_exact(run.len());
            inner.extend(run.iter().map(|hash| hash.in_partition(partitions).1));
            build_partition(policy, context, inner)
        };
        let mut built: Vec<Option<BuiltFilter>> = runs.iter().map(|_| None).collect();
        let mut pieces: Vec<_> = runs.iter().zip(&mut built).collect();
        // The longest run is built first and by itself: its bytes show how many runs there is memory for.
        pieces.sort_by_key(|(run, _)| run.len());
        let Some((longest, first)) = pieces.pop() else { return 0 };
        let mut inner = Vec::new();
        let first = first.insert(build(&self.context, &mut inner, longest));
        let each_bytes = first.report.peak_build_bytes.saturating_add(bytes_of(&inner));
        let affordable = self.context.memory_budget.map_or(u64::MAX, |budget| budget / each_bytes.max(1));
        let max_threads = self.context.threads.min(usize::try_from(affordable).unwrap_or(usize::MAX));
        let keys: usize = pieces.iter().map(|(run, _)| run.len()).sum();
        let threads = max_threads.min(pieces.len()).min(keys / KEYS_PER_THREAD).max(1);
        // If there are fewer partitions than threads, the other threads work inside the partitions.
        let mut context = self.context.clone();
        context.threads /= threads;
        share(threads, pieces, &mut inner, |inner, (run, built)| *built = Some(build(&context, inner, run)));
        self.built = built.into_iter().flatten().collect();
        let max_bytes = self.built.iter().map(|built| built.report.peak_build_bytes).max().unwrap_or(0);
        max_bytes.saturating_add(bytes_of(&inner)).saturating_mul(threads as u64)
    }

    /// Returns the kind that the policy would build; blocked Bloom if it wants no filter.
    fn requested_kind(&self) -> KindId {
        let built = self.built.iter().find(|partition| partition.block.is_some());
        if let Some(partition) = built {
            return partition.report.requested;
        }
        let builder = if self.interruption.has_happened() { None } else { self.policy.builder(&self.context) };
        builder.map_or(KindId::BLOCKED_BLOOM, |builder| builder.finish().report.requested)
    }
}

fn bytes_of(hashes: &Vec<KeyHash>) -> u64 {
    (hashes.capacity() * size_of::<KeyHash>()) as u64
}

/// Returns the number of hashes in a full partition: as many as fit the policy's block of at most `target_bytes`, or
/// eight for ten bytes if the policy does not say.
fn max_hashes(policy: &dyn FilterPolicy, context: &BuildContext, target_bytes: u32) -> usize {
    let target = u64::from(target_bytes);
    let fits = |keys: u64| policy.block_bytes(context, keys).is_some_and(|bytes| bytes <= target);
    // Digit by digit from the highest, not by bisection: sizes fall where a kind's minimum number of keys is reached,
    // which is a power of two. At most eight keys per byte: a filter of less than a bit per key is useless.
    let highest = (target * 8).ilog2();
    let most =
        (0..=highest).rev().fold(0, |keys, digit| if fits(keys | 1 << digit) { keys | 1 << digit } else { keys });
    let most = if most == 0 { target * 8 / 10 } else { most };
    usize::try_from(most).unwrap_or(usize::MAX)
}

/// Returns into how many partitions to cut `hashes` hashes, so that hardly any has more than `most`: the mean lies four
/// standard deviations below. The number is odd, which keeps distinct hashes distinct inside a partition. `None` beyond
/// the format's limit.
pub(super) fn odd_partitions(hashes: usize, most: usize) -> Option<u32> {
    let mean = most.saturating_sub(4 * most.isqrt()).max(most / 2).max(1);
    let partitions = hashes.div_ceil(mean) | 1;
    u32::try_from(partitions).ok().filter(|&partitions| partitions <= MAX_PARTITIONS)
}

fn build_partition(policy: &dyn FilterPolicy, context: &BuildContext, hashes: &[KeyHash]) -> BuiltFilter {
    let keys = hashes.len() as u64;
    let mut context = context.clone();
    // Exact: every key of the partition is known by now.
    context.expected_keys = Some(keys);
    let Some(mut builder) = policy.builder(&context) else {
        let mut report = BuildReport::new(KindId::BLOCKED_BLOOM);
        (report.keys_added, report.distinct_keys) = (keys, keys);
        return BuiltFilter::new(None, report);
    };
    builder.add_hashes(hashes);
    // A user-defined builder may return anything.
    let built = checked(builder.finish(), &context.key_parts, context.hasher.identity().into());
    BuiltFilter::new(built.block.as_deref().and_then(as_partition), built.report)
}

/// Returns the block, marked as a partition.
fn as_partition(block: &[u8]) -> Option<Bytes> {
    let tail = Trailer { is_partition: true, ..Trailer::decode(block).ok()? }.encode(HeldParts::of_field(&[]));
    Some([block.get(..block.len().checked_sub(tail.len())?)?, &tail].concat().into())
}

fn block_of(partition: &BuiltFilter) -> &[u8] {
    partition.block.as_deref().unwrap_or_default()
}
