//! Layers in bytes: the blocks of the parts, an index of numbers, and the ending that blocks and containers share.

use alloc::vec::Vec;

use bytes::{BufMut, Bytes};

use super::{Growth, LayeredFilter, Numbers, Part, Scalable, load_base};
use crate::block::trailer::{CheckedTail, Ending};
use crate::block::{FilterBlock, HeldParts, LoadContext};
use crate::codec::checksum;
use crate::error::BlockError;
use crate::filter::MAX_KEYS;
use crate::filter::error::FilterError;
use crate::units::FalsePositiveRate;

/// The bytes `ST`.
const MAGIC: u16 = 0x5453;
const VERSION: u8 = 1;

/// Bytes of each number in the index: the rate, the planned keys, then the size of each block.
const NUMBER_BYTES: usize = 8;

impl<P: Part, G: Growth> LayeredFilter<P, G> {
    /// Stores all parts as one.
    ///
    /// # Errors
    ///
    /// [`FilterError::NoMemory`] when allocation fails.
    pub fn to_bytes(&self) -> Result<Bytes, FilterError> {
        let base = self.base.as_ref().map_or(&[][..], FilterBlock::as_bytes);
        let index_bytes = ((3 + self.parts.len()) * NUMBER_BYTES) as u64;
        let blocks = self.parts.iter().map(P::block_bytes).sum::<u64>() + base.len() as u64;
        let most = blocks + index_bytes + Ending::MAX_BYTES as u64;
        let no_memory = || FilterError::NoMemory { bytes: most };
        let (mut bytes, mut sizes) = (Vec::new(), Vec::new());
        bytes.try_reserve_exact(usize::try_from(most).map_err(|_| no_memory())?).map_err(|_| no_memory())?;
        if self.base.is_some() {
            bytes.extend_from_slice(base);
            sizes.push(base.len() as u64);
        }
        for part in &self.parts {
            let block = part.to_block()?;
            bytes.extend_from_slice(&block);
            sizes.push(block.len() as u64);
        }
        let Numbers { rate, keys, .. } = self.numbers;
        let mut tail = Vec::new();
        [rate.get().to_bits(), keys].iter().chain(&sizes).for_each(|&number| tail.put_u64_le(number));
        self.ending(tail.len(), checksum(&bytes)).put(&mut tail, self.identity, HeldParts::of_field(&[]));
        bytes.extend_from_slice(&tail);
        Ok(bytes.into())
    }

    fn ending(&self, index_bytes: usize, checksum: u32) -> Ending {
        #[expect(clippy::cast_possible_truncation, reason = "at most `MAX_PARTS`")]
        let length = index_bytes as u32;
        let own = [G::TYPE, 0, 0, self.identity.hash.id.code() << 4];
        Ending { length, checksum, keys: self.numbers.inserted.min(MAX_KEYS), own, version: VERSION, magic: MAGIC }
    }

    /// Loads what [`to_bytes`](Self::to_bytes) stored, for more keys. `context` is that of a block: the reader's hash,
    /// and the known keys that the filter must have. Late keys are bound to the file of their static filter; the other
    /// types to none, so load them without a file. Treat every error as "may be present".
    ///
    /// Bytes that were stored before a key was inserted load as well. Pass the last key that was inserted as a known
    /// key: stale bytes do not have it.
    ///
    /// # Errors
    ///
    /// [`FilterError::Block`] if the bytes are damaged, store another type, or do not match the context.
    pub fn from_bytes<'a>(bytes: impl Into<Bytes>, context: impl Into<LoadContext<'a>>) -> Result<Self, FilterError> {
        Self::load(&bytes.into(), &context.into())
    }

    fn load(bytes: &Bytes, context: &LoadContext<'_>) -> Result<Self, FilterError> {
        let (sizes, numbers) = Self::decode(bytes, context)?;
        let mut filter = Self::without_parts(context.identity(), numbers);
        let mut start = 0;
        for size in sizes {
            // The sizes were added up.
            let block = bytes.slice(start..start + size);
            start += size;
            if G::HAS_BASE && filter.base.is_none() {
                filter.base = Some(load_base(block, context.with_known_keys(&[]))?);
            } else {
                filter.parts.push(P::from_block(&block, filter.identity.hash)?);
            }
        }
        filter.check_plan()?;
        for known in HeldParts::of_field(&[]).known_hashes(context)? {
            if !filter.contains(known.hash) {
                return Err(BlockError::KnownKeyAbsent { hash: filter.identity.hash }.into());
            }
        }
        Ok(filter)
    }

    /// Checks that the numbers by which the next part of a scalable filter is planned explain the newest one. Its size
    /// was rounded up, and its rate computed on another platform perhaps.
    fn check_plan(&self) -> Result<(), BlockError> {
        let Some(newest) = self.parts.last().filter(|_| G::TYPE == Scalable::TYPE) else { return Ok(()) };
        let (keys, rate) = self.numbers.scalable_part(self.parts.len() - 1);
        let expected = "a number for which the newest part has its planned rate";
        BlockError::require(newest.expected_fpr(keys) <= rate * 1.01, "planned keys of layers", expected, keys)
    }

    /// Checks the end of a container and the checksum of its blocks, and returns their sizes and the numbers.
    fn decode(bytes: &[u8], context: &LoadContext<'_>) -> Result<(Vec<usize>, Numbers), BlockError> {
        let (trailer, flags) = Ending::fields(bytes, (MAGIC, VERSION), |got| BlockError::Magic { got })?;
        BlockError::require(flags & !Ending::BOUND == 0, "flags of layers", "0, or 1 if bound to a file", flags >> 4)?;
        let (stored, hash) = (trailer.u8::<21>(), trailer.u8::<24>());
        let expected = "1 late, 2 scalable, 3 rotating: the one to load";
        BlockError::require(stored == G::TYPE, "type of layers", expected, stored)?;
        let reserved = trailer.u16::<22>() | u16::from(hash & 15);
        BlockError::require(reserved == 0, "reserved bits of layers", "0", reserved)?;
        let length = trailer.u32::<8>();
        let is_count = length % 8 == 0 && (length / 8).checked_sub(2).is_some_and(|count| G::PARTS.contains(&count));
        let expected = "two numbers of 8 bytes, and one for each part that the type has";
        BlockError::require(is_count, "index of layers", expected, length)?;
        let index_bytes = usize::try_from(length).unwrap_or(usize::MAX);
        let tail = CheckedTail::read(bytes, trailer, index_bytes)?;
        context.identity().check(tail.identity(hash >> 4)?)?;

        let end_bytes = index_bytes + Ending::bytes_after_parts(flags & Ending::BOUND != 0);
        let blocks = bytes.get(..bytes.len() - end_bytes).unwrap_or_default();
        let (sizes, numbers) =
            Numbers::decode(tail.params.as_flattened(), trailer.uint::<16, { Ending::KEYS_BYTES }>())?;
        let total = sizes.iter().try_fold(0_usize, |sum, &size| sum.checked_add(size)).unwrap_or(usize::MAX);
        if total != blocks.len() {
            let expected = total.saturating_add(end_bytes) as u64;
            return Err(BlockError::Length { expected, got: bytes.len() as u64 });
        }
        let (expected, got) = (trailer.u32::<12>(), checksum(blocks));
        if expected == got { Ok((sizes, numbers)) } else { Err(BlockError::PayloadChecksum { expected, got }) }
    }
}

impl Numbers {
    /// Returns the sizes of the blocks and the numbers of an index.
    fn decode(index: &[u8], inserted: u64) -> Result<(Vec<usize>, Self), BlockError> {
        let mut numbers = index.as_chunks::<NUMBER_BYTES>().0.iter().map(|&number| u64::from_le_bytes(number));
        let (rate, keys) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        BlockError::require(keys > 0, "planned keys of layers", "1 or more", keys)?;
        let wrong = BlockError::field("rate of layers", "a number between 0 and 1", rate);
        let rate = FalsePositiveRate::new(f64::from_bits(rate)).map_err(|_| wrong)?;
        let sizes = numbers.map(|size| usize::try_from(size).unwrap_or(usize::MAX)).collect();
        Ok((sizes, Self { rate, keys, inserted }))
    }
}
