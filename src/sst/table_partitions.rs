//! The partitions of a table's filter: where they are, and how one is read.

use std::sync::Arc;

use bytes::Bytes;

use super::format::{BlockHandle, FilterHandle};
use super::io::{TableFile, WHOLE_BYTES};
use super::table_parts::TableParts;
use super::{TableError, TableLocation, TablePart};
use crate::block::{FilterBlock, LoadContext};
use crate::error::BlockError;
use crate::partition::PartitionIndex;

/// The top index of a partitioned filter, and where its partitions lie in the file.
#[derive(Clone, Debug)]
pub(crate) struct TablePartitions {
    pub(crate) index: Arc<PartitionIndex>,
    /// The first byte of the first partition.
    start: u64,
}

impl TablePartitions {
    /// Reads the top index, which must name partitions that fill the space before it.
    pub(crate) fn read(
        file: &TableFile,
        parts: &TableParts,
        handle: BlockHandle,
        context: LoadContext<'_>,
    ) -> Result<Self, TableError> {
        let filter = FilterHandle::Partitioned(handle);
        let tail = parts.read_filter(file, filter)?;
        let at = || file.location(TablePart::FilterIndex, handle.offset);
        let index = PartitionIndex::load(&tail, context).map_err(|source| TableError::Filter { at: at(), source })?;
        let start = filter.start(parts.properties.data_bytes);
        let (expected, got) = (handle.offset - start, index.partition_bytes());
        if expected != got {
            return Err(TableError::corrupt(at(), format!("partitions of {expected} bytes"), got));
        }
        Ok(Self { index: Arc::new(index), start })
    }

    /// Those of a sidecar, whose file begins with the filter of `filter_bytes`. `None` if that is a whole one.
    pub(crate) fn of_sidecar(
        file: &TableFile,
        filter_bytes: u64,
        context: LoadContext<'_>,
    ) -> Result<Option<Self>, TableError> {
        let refused = |source| TableError::Filter { at: file.location(TablePart::Filter, 0), source };
        let end_bytes = filter_bytes.min(PartitionIndex::MAX_END_BYTES as u64);
        let end = file.read_bytes(filter_bytes - end_bytes, end_bytes)?;
        let tail_bytes = match PartitionIndex::tail_bytes(&end) {
            Err(BlockError::NotPartitioned { .. } | BlockError::TooShort { .. }) => return Ok(None),
            tail_bytes => tail_bytes.map_err(refused)?,
        };
        if tail_bytes > filter_bytes.min(WHOLE_BYTES) {
            return Err(refused(BlockError::Length { expected: tail_bytes, got: filter_bytes }));
        }
        let tail = file.read_bytes(filter_bytes - tail_bytes, tail_bytes)?;
        let index = PartitionIndex::load(&tail, context).map_err(refused)?;
        if index.container_bytes() != filter_bytes {
            return Err(refused(BlockError::Length { expected: index.container_bytes(), got: filter_bytes }));
        }
        Ok(Some(Self { index: Arc::new(index), start: 0 }))
    }

    /// Reads a partition, and checks all that the index and the block say of it.
    pub(crate) fn read_block(&self, file: &TableFile, number: u32) -> Result<FilterBlock<Bytes>, TableError> {
        let place = self.index.block_place(number).unwrap_or_default();
        let refused = |source| TableError::Filter { at: self.location(file, place.start), source };
        let length = place.end - place.start;
        if length > WHOLE_BYTES {
            let (field, expected) =
                ("bytes of a partition", "at most 64 MiB, as there is room for before they are checked");
            return Err(refused(BlockError::Field { field, expected, got: length }));
        }
        let bytes = file.read_bytes(self.start + place.start, length)?;
        self.index.open(number, bytes).map_err(refused)
    }

    /// Reads the bytes beside a partition, and compares them with their checksum.
    pub(crate) fn check_aux(&self, file: &TableFile, number: u32) -> Result<(), TableError> {
        let place = self.index.aux_place(number).unwrap_or_default();
        if place.is_empty() {
            return Ok(());
        }
        let bytes = file.read_bytes(self.start + place.start, place.end - place.start)?;
        let at = || self.location(file, place.start);
        self.index.check_aux(number, &bytes).map_err(|source| TableError::Filter { at: at(), source })
    }

    /// Where a byte of the container lies in the file.
    pub(crate) fn location(&self, file: &TableFile, offset: u64) -> TableLocation {
        file.location(TablePart::Filter, self.start + offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHasher;
    use crate::partition::{PartitionCut, PartitionOptions, PartitionedBuilder};
    use crate::policy::{BuildContext, KindPolicy};

    /// Where the container begins in the file.
    const START: u64 = 5_000;

    /// Partitions with bytes beside the first, the second and the last, behind other bytes of a file.
    fn partitions() -> (Vec<u8>, TablePartitions) {
        let hasher = KeyHasher::default();
        let options = PartitionOptions::new(PartitionCut::KeyRange, 1_024).unwrap();
        let mut builder =
            PartitionedBuilder::new(Arc::new(KindPolicy::default()), &BuildContext::new(&hasher), options);
        (0..5_000).for_each(|key| builder.add_key(format!("{key:06}").as_bytes()));
        let mut built = builder.finish();
        for (number, aux) in [(0, &b"at the start"[..]), (1, b"seventeen bytes!!"), (built.partitions() - 1, b"last")] {
            built.set_aux(number, aux).unwrap();
        }
        let container = built.seal().unwrap();
        let tail_bytes = usize::try_from(PartitionIndex::tail_bytes(&container).unwrap()).unwrap();
        let index = PartitionIndex::load(&container[container.len() - tail_bytes..], &hasher).unwrap();
        let file = [&vec![0x5a; usize::try_from(START).unwrap()], &container[..]].concat();
        (file, TablePartitions { index: Arc::new(index), start: START })
    }

    #[test]
    fn a_flipped_bit_beside_a_partition_is_found_there_and_in_no_other_partition() {
        let (mut bytes, partitions) = partitions();
        let numbers = 0..partitions.index.partitions();
        let damaged = |bytes: &[u8]| {
            let file = TableFile::new(Box::new(Bytes::copy_from_slice(bytes)), None).unwrap();
            assert!(numbers.clone().all(|number| partitions.read_block(&file, number).is_ok()));
            let errors = numbers.clone().filter_map(|number| partitions.check_aux(&file, number).err());
            let found = errors.map(|error| match error {
                TableError::Filter { at, source: BlockError::PartitionChecksum { number, .. } } => (at.offset, number),
                other => panic!("{other}"),
            });
            found.collect::<Vec<_>>()
        };
        assert_eq!(damaged(&bytes), []);
        for number in [0, 1, numbers.end - 1] {
            let place = partitions.index.aux_place(number).unwrap();
            for at in [place.start, place.end - 1] {
                let at = usize::try_from(START + at).unwrap();
                bytes[at] ^= 1;
                assert_eq!(damaged(&bytes), [(START + place.start, number)]);
                bytes[at] ^= 1;
            }
        }
    }
}
