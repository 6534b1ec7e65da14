//! The finished partitions, and the container that they become.

use core::time::Duration;

use bytes::Bytes;

use super::PartitionCut;
use super::bounds::{PREFIX_GROUP, group_prefix, put_item};
use super::trailer::{ContainerTrailer, MAX_PARTITIONS};
use crate::block::FallbackReason;
use crate::block::{BlockIdentity, HeldParts};
use crate::codec::{AlignedBuffer, LINE_BYTES, checksum, put_u32, put_varint};
use crate::error::ConfigError;
use crate::filter::{FilterKind, MAX_KEYS};
use crate::policy::BuildReport;

/// Where the last partition must begin at the latest: places are 32-bit numbers of lines.
const MAX_OFFSET: u64 = u32::MAX as u64 * LINE_BYTES as u64;

/// The finished partitions of one file's filter. Each can be given bytes of the engine's before they are
/// [sealed](Self::seal) into a container.
#[derive(Debug)]
pub struct BuiltPartitions {
    pub(super) identity: BlockIdentity,
    pub(super) cut: PartitionCut,
    /// The field that says which parts of keys the filter holds.
    pub(super) held: Vec<u8>,
    pub(super) unstable_extractors: Vec<String>,
    pub(super) partitions: Vec<BuiltPartition>,
    pub(super) totals: Totals,
}

/// What concerns all partitions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Totals {
    pub(super) requested: FilterKind,
    /// Why there is no filter at all, if there is none.
    pub(super) refused: Option<FallbackReason>,
    pub(super) keys_added: u64,
    /// The most bytes held while hashes were collected and sorted, and while partitions were built of them all, beside
    /// finished blocks.
    pub(super) peak_hash_bytes: u64,
    pub(super) time: Duration,
}

/// A finished partition.
#[derive(Debug)]
pub(super) struct BuiltPartition {
    /// The shortest key that is above those of the partition before; empty for the first, and without order.
    pub(super) bound: Vec<u8>,
    pub(super) block: Option<Bytes>,
    /// The CRC32C of the block without its last four bytes.
    pub(super) checksum: u32,
    pub(super) aux: Vec<u8>,
    pub(super) report: BuildReport,
}

impl BuiltPartition {
    fn bytes(&self) -> u64 {
        self.block.as_ref().map_or(0, Bytes::len) as u64 + self.aux.len() as u64
    }

    fn put_entry(&self, out: &mut Vec<u8>) {
        put_varint(out, self.block.as_ref().map_or(0, Bytes::len) as u64);
        if self.block.is_some() {
            put_u32(out, self.checksum);
        }
        put_varint(out, self.aux.len() as u64);
        if !self.aux.is_empty() {
            put_u32(out, checksum(&self.aux));
        }
    }
}

impl BuiltPartitions {
    /// The number of partitions; 0 when the build was refused.
    #[must_use]
    pub fn partitions(&self) -> u32 {
        u32::try_from(self.partitions.len()).unwrap_or(u32::MAX)
    }

    /// How each partition was built, in order. A partition that fell back to another kind, or has no filter, says why.
    #[must_use]
    pub fn reports(&self) -> impl ExactSizeIterator<Item = &BuildReport> {
        self.partitions.iter().map(|partition| &partition.report)
    }

    /// The least key that a partition can hold: empty for the first, and where the filter is cut by hash range. `None`
    /// beyond the last partition.
    #[must_use]
    pub fn lower_bound(&self, number: u32) -> Option<&[u8]> {
        self.partitions.get(number as usize).map(|partition| &partition.bound[..])
    }

    /// Puts opaque bytes of the engine's behind the block of a partition, with a checksum of their own in the top
    /// index. They replace those given before.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] when there is no such partition, or when there are 2^32 bytes or more.
    pub fn set_aux(&mut self, number: u32, aux: &[u8]) -> Result<(), ConfigError> {
        let (length, most) = (aux.len() as u64, u64::from(u32::MAX));
        if length > most {
            let (option, expected) = ("bytes beside a partition", "at most 2^32 - 1");
            return Err(ConfigError::OutOfRange { option, expected, got: length });
        }
        let (option, expected) = ("number of a partition", "one below the number of partitions");
        let partition = self.partitions.get_mut(number as usize);
        let partition = partition.ok_or(ConfigError::OutOfRange { option, expected, got: number.into() })?;
        partition.aux = aux.to_vec();
        Ok(())
    }

    /// The whole filter: sums over the partitions, the bytes of the container, the mean rate weighted by keys. `used`
    /// and `reason` are those of the first partition that fell back, or of the first.
    #[must_use]
    pub fn report(&self) -> BuildReport {
        let Totals { requested, keys_added, peak_hash_bytes, time, .. } = self.totals;
        let mut report = BuildReport { keys_added, finish_time: time, ..BuildReport::new(requested) };
        report.unstable_extractors.clone_from(&self.unstable_extractors);
        if let Some(reason) = self.problem() {
            report.reason = reason;
            return report;
        }
        let fallen_back = self.reports().find(|report| report.used.is_some() && report.reason != FallbackReason::None);
        if let Some(shown) = fallen_back.or_else(|| self.reports().find(|report| report.used.is_some())) {
            (report.used, report.reason) = (shown.used, shown.reason);
        }
        let keys = self.keys();
        let expected: f64 = self.reports().map(|report| report.expected_fpr * report.distinct_keys as f64).sum();
        report.distinct_keys = keys;
        report.expected_fpr = if keys > 0 { expected / keys as f64 } else { 0.0 };
        report.attempts = self.reports().map(|report| report.attempts).max().unwrap_or(0);
        report.block_bytes = self.container_bytes();
        let blocks: u64 = self.partitions.iter().map(BuiltPartition::bytes).sum();
        let building = self.reports().map(|report| report.peak_build_bytes).max().unwrap_or(0);
        report.peak_build_bytes = blocks.saturating_add(peak_hash_bytes.max(building).max(report.block_bytes));
        report
    }

    /// Why [`seal`](Self::seal) gives no filter; `None` when it gives one. [`FallbackReason::None`] when the policy
    /// wanted none.
    #[must_use]
    pub fn problem(&self) -> Option<FallbackReason> {
        if self.totals.refused.is_some() {
            return self.totals.refused;
        }
        if self.partitions.iter().all(|partition| partition.block.is_none()) {
            let reasons = self.reports().map(|report| report.reason);
            return reasons.max_by_key(|&reason| reason != FallbackReason::None);
        }
        let fits = self.layout().1 <= MAX_OFFSET && self.partitions.len() <= MAX_PARTITIONS as usize;
        let fits = fits && self.keys() <= MAX_KEYS && u32::try_from(self.index().len()).is_ok();
        (!fits).then_some(FallbackReason::TooManyKeys)
    }

    fn keys(&self) -> u64 {
        self.reports().map(|report| report.distinct_keys).fold(0, u64::saturating_add)
    }

    /// The offsets of the partitions, and where the last one ends.
    fn layout(&self) -> (Vec<u64>, u64) {
        let mut end = 0_u64;
        let offsets = self.partitions.iter().map(|partition| {
            let offset = end.next_multiple_of(LINE_BYTES as u64);
            end = offset + partition.bytes();
            offset
        });
        (offsets.collect(), end)
    }

    /// The bytes of the container.
    fn container_bytes(&self) -> u64 {
        self.layout().1 + self.index().len() as u64 + self.trailer(&[]).end_bytes() as u64
    }

    fn index(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let has_bounds = self.cut == PartitionCut::KeyRange;
        let bounds: Vec<&[u8]> = self.partitions.iter().map(|partition| &partition.bound[..]).collect();
        let mut prefix: &[u8] = &[];
        for (number, partition) in self.partitions.iter().enumerate() {
            if has_bounds && number.is_multiple_of(PREFIX_GROUP) {
                prefix = group_prefix(&bounds, number);
                put_item(&mut out, prefix);
            }
            partition.put_entry(&mut out);
            if has_bounds && number > 0 {
                put_item(&mut out, partition.bound.get(prefix.len()..).unwrap_or_default());
            }
        }
        out
    }

    fn trailer(&self, index: &[u8]) -> ContainerTrailer {
        ContainerTrailer {
            identity: self.identity,
            cut: self.cut,
            partitions: self.partitions(),
            keys: self.keys(),
            index_bytes: u32::try_from(index.len()).unwrap_or(u32::MAX),
            index_checksum: checksum(index),
            parts_bytes: HeldParts::of_field(&self.held).field_bytes(),
        }
    }

    /// The container, to be written unchanged, with its first byte at a multiple of 64. `None` when there is no filter:
    /// [`problem`](Self::problem) says why.
    #[must_use]
    pub fn seal(self) -> Option<Bytes> {
        if self.problem().is_some() {
            return None;
        }
        let index = self.index();
        let end = self.trailer(&index).encode(HeldParts::of_field(&self.held));
        let (offsets, partition_bytes) = self.layout();
        let mut container = AlignedBuffer::empty(partition_bytes + index.len() as u64 + end.len() as u64)?;
        for (offset, partition) in offsets.into_iter().zip(self.partitions) {
            container.append_zeroed(offset - container.as_slice().len() as u64)?;
            container.append(partition.block.as_deref().unwrap_or_default());
            container.append(&partition.aux);
        }
        container.append(&index);
        container.append(&end);
        Some(container.freeze())
    }
}
