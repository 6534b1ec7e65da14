//! The top index of a partitioned filter, held in memory.

use core::fmt;
use core::ops::Range;
use std::sync::OnceLock;

use crc32c::crc32c as checksum;
use sstfilter::internal::HeldParts;
use sstfilter::{
    BlockError, Domain, FileId, FilterBlock, HashIdentity, KeyHash, KindRegistry, LoadContext, PreparedPrefix,
};

use super::PartitionCut;
use super::bounds::{Bounds, PREFIX_GROUP};
use super::trailer::ContainerTrailer;
use crate::codec::{Cursor, LINE_BYTES};
use crate::error::FilterProblem;

/// The top index of one file's filter: where its partitions are, and which keys are in them.
///
/// It does no input or output: it says which bytes to read, and opens them. So it serves any reader, synchronous or
/// not, with any cache. To open a file:
///
/// 1. [`tail_bytes`](Self::tail_bytes) returns how many bytes at the end of the container hold the index, from the
///    container's last [`MAX_END_BYTES`](Self::MAX_END_BYTES) bytes.
/// 2. [`load`](Self::load) verifies these bytes and keeps what a lookup needs: about 16 bytes per partition, and the
///    bounds of keys.
/// 3. With [known keys](LoadContext::with_known_keys), [`check_known_keys`](Self::check_known_keys) reads the
///    partitions that must hold them. No partition opens before that.
///
/// For a lookup:
///
/// 1. [`locate`](Self::locate) returns the number of the key's partition, and the hash to probe it with.
/// 2. [`block_range`](Self::block_range) returns where the partition's block is.
/// 3. [`open`](Self::open) verifies its bytes. **Probe it with the hash from `locate`**, which differs from the key's
///    own if the filter is cut by hash range.
///
/// Every failure means "may be present". A cache of open partitions needs cache keys that never recur, such as the
/// file's fingerprint; a file number can recur after a crash. A cache of partition bytes is safe under any key, because
/// `open` verifies them.
///
/// ```
/// use std::sync::Arc;
/// use sstfilter_store::{PartitionIndex, PartitionOptions, PartitionedBuilder};
/// use sstfilter::{BuildContext, FileId, KeyHasher, FixedPolicy, LoadContext};
///
/// let (hasher, id) = (KeyHasher::default(), FileId::random());
/// let (context, options) = (BuildContext::new(&hasher).with_file_id(id), PartitionOptions::default());
/// let mut builder = PartitionedBuilder::new(Arc::new(FixedPolicy::default()), &context, options);
/// (0..100_000_u32).for_each(|key| builder.add_key(&key.to_be_bytes()));
/// let file = builder.finish().block.expect("a filter");
///
/// // When the file is opened: the end, then the top index. These bytes stay in memory.
/// let end = file.len() - PartitionIndex::MAX_END_BYTES.min(file.len());
/// let tail_bytes = PartitionIndex::tail_bytes(&file[end..])? as usize;
/// let index = PartitionIndex::load(&file[file.len() - tail_bytes..], LoadContext::new(&hasher).with_file_id(id))?;
/// assert!(index.memory_bytes() < file.len() / 100);
///
/// // For a lookup: one partition, from a cache or from the file.
/// let key = 4_711_u32.to_be_bytes();
/// let (number, hash) = index.locate(&key, hasher.hash(&key));
/// let range = index.block_range(number)?;
/// let partition = index.open(number, &file[range.start as usize..range.end as usize])?;
/// assert!(partition.may_contain(hash));
/// # Ok::<(), sstfilter_store::FilterProblem>(())
/// ```
pub struct PartitionIndex {
    trailer: ContainerTrailer,
    entries: Vec<Entry>,
    /// Empty if the filter is cut by hash range.
    bounds: Bounds,
    kinds: KindRegistry,
    /// A bit for each extractor of the filter whose parts the reader names.
    answered: u64,
    /// Sorted by partition.
    known: Box<[Known]>,
}

/// Follows the block in each entry.
pub(super) const RESERVED: u64 = 0;

/// A partition. It has twelve bytes, because files have thousands of partitions.
#[derive(Clone, Copy)]
struct Entry {
    /// The offset, in lines of 64 bytes.
    line: u32,
    /// The length of the block; 0 if the partition has no filter.
    bytes: u32,
    /// 0 for no bytes.
    checksum: u32,
}

impl PartitionIndex {
    /// The maximum bytes after the top index of a container: [`tail_bytes`](Self::tail_bytes) needs no more.
    pub const MAX_END_BYTES: usize = super::trailer::MAX_END_BYTES;

    /// Returns how many bytes at the end of a container hold its top index and trailer. Pass the container's last
    /// [`MAX_END_BYTES`](Self::MAX_END_BYTES), or all of a shorter one. Compare the result with the container's length
    /// before allocating memory for it.
    ///
    /// # Errors
    ///
    /// [`FilterProblem`] if the bytes are not the end of a partitioned filter, are damaged, or are of a later version.
    pub fn tail_bytes(end: &[u8]) -> Result<u64, FilterProblem> {
        ContainerTrailer::decode(end).map(|trailer| trailer.tail_bytes())
    }

    /// Loads the index from exactly the last [`tail_bytes`](Self::tail_bytes) of a container. `context` describes the
    /// reader: a [`LoadContext`], or a `&KeyHasher` if the container is not bound to a file. Known keys are kept, and
    /// checked in the partitions that must hold them before any partition opens.
    ///
    /// In addition to the known keys, it takes at most ten times the memory of the bytes passed, whatever they claim.
    ///
    /// # Errors
    ///
    /// [`FilterProblem`] if the bytes are damaged or contradict each other, or if their hash or file differs from the
    /// reader's. For reads, all of these mean "may be present" for every key of the file.
    pub fn load<'a>(tail: &[u8], context: impl Into<LoadContext<'a>>) -> Result<Self, FilterProblem> {
        let context = context.into();
        let trailer = ContainerTrailer::decode(tail)?;
        let (expected_bytes, got) = (trailer.tail_bytes(), tail.len() as u64);
        if expected_bytes != got {
            return Err(BlockError::Length { expected: expected_bytes, got }.into());
        }
        let index = tail.get(..tail.len() - trailer.end_bytes()).unwrap_or_default();
        let sum = checksum(index);
        if sum != trailer.index_checksum {
            let (expected, what) = (trailer.index_checksum, "top index of a partitioned filter");
            return Err(FilterProblem::Checksum { what, expected, got: sum });
        }
        HeldParts::of_field(&trailer.held).check_for(&context, trailer.identity)?;
        let kinds = context.kinds().cloned().unwrap_or_default();
        let (entries, bounds, known) = (Vec::new(), Bounds::default(), Box::default());
        let mut decoded = Self { trailer, entries, bounds, kinds, answered: 0, known };
        decoded.decode(index)?;
        let held = decoded.held_parts();
        let mut known = held.known_hashes(&context)?;
        // A partition without a filter loses no key, and confirms none. If no other partition holds one of the whole
        // keys, these stay in the list: the filter is then not used.
        let place = |key, hash| decoded.locate_hash(key, hash);
        let has_filter = |key, hash| decoded.entry(place(key, hash).0).is_ok_and(|entry| entry.bytes > 0);
        let confirms = known.iter().any(|known| known.domain.is_none() && has_filter(known.key, known.hash));
        if !held.has_whole_keys() || confirms {
            known.retain(|known| has_filter(known.key, known.hash));
        }
        let answered = held.answered(&context, &known);
        let places = known.iter().map(|known| place(known.key, known.hash));
        let mut known: Vec<_> =
            places.map(|(partition, hash)| Known { partition, hash, is_held: OnceLock::new() }).collect();
        known.sort_by_key(|known| known.partition);
        (decoded.answered, decoded.known) = (answered, known.into());
        Ok(decoded)
    }

    fn decode(&mut self, index: &[u8]) -> Result<(), BlockError> {
        // Checked before memory is allocated for the entries: the shortest has two bytes.
        let most = u32::try_from(index.len() / 2).unwrap_or(u32::MAX);
        let (partitions, expected) = (self.trailer.partitions, "at most one for two bytes of the top index");
        BlockError::require(partitions <= most, "partitions", expected, partitions)?;
        self.entries = Vec::with_capacity(partitions as usize);
        if self.cut() == PartitionCut::KeyRange {
            self.bounds = Bounds::with_capacity(partitions as usize);
        }
        let mut cursor = Cursor(index);
        for number in 0..partitions {
            let expected = "one inside the index, its lower bound above the one before, its partition below 2^38 bytes";
            let refused = || BlockError::Field { field: "entry of the top index", expected, got: number.into() };
            self.decode_entry(&mut cursor, number as usize).ok_or_else(refused)?;
        }
        self.bounds.shrink_to_fit();
        BlockError::require(
            cursor.0.is_empty(),
            "bytes behind the last entry of the top index",
            "0",
            cursor.0.len() as u64,
        )
    }

    /// Reads the entry of the next partition, and before the first of a group, the prefix of the group.
    fn decode_entry(&mut self, cursor: &mut Cursor<'_>, number: usize) -> Option<()> {
        let line = u32::try_from(self.partition_bytes().div_ceil(LINE_BYTES as u64)).ok()?;
        let has_bounds = self.cut() == PartitionCut::KeyRange;
        if has_bounds && number.is_multiple_of(PREFIX_GROUP) {
            self.bounds.push_item(cursor.item()?)?;
        }
        let bytes = u32::try_from(cursor.varint()?).ok()?;
        let checksum = if bytes > 0 { cursor.fields::<4>()?.u32::<0>() } else { 0 };
        if cursor.varint()? != RESERVED {
            return None;
        }
        if has_bounds {
            self.bounds.push_item(if number == 0 { &[] } else { cursor.item()? })?;
            if number > 0 && !self.bounds.is_above_previous(number) {
                return None;
            }
        }
        self.entries.push(Entry { line, bytes, checksum });
        Some(())
    }

    /// Returns the partitions that must hold known keys and have not been read. Returns none if a partition lacks such
    /// a key: no partition opens then, whatever the others hold.
    pub fn unchecked_partitions(&self) -> impl Iterator<Item = u32> + '_ {
        let lacks_one = self.known.iter().any(|known| known.is_held.get() == Some(&false));
        let known = if lacks_one { &[] } else { &*self.known };
        let partitions = known.chunk_by(|one, other| one.partition == other.partition);
        partitions.filter_map(|own| own.iter().find(|known| known.is_held.get().is_none())).map(|known| known.partition)
    }

    /// Checks that every known key is present: either all partitions can be used, or none.
    fn check_known(&self) -> Result<(), FilterProblem> {
        let mut unchecked = None;
        // One pass that loads each flag once, because another thread may be finding out that a key is absent.
        for known in &self.known {
            match known.is_held.get() {
                Some(true) => {}
                Some(false) => return Err(BlockError::KnownKeyAbsent { hash: self.hash_identity() }.into()),
                None => unchecked = unchecked.or(Some(known.partition)),
            }
        }
        unchecked.map_or(Ok(()), |partition| Err(FilterProblem::KnownKeysUnchecked { partition }))
    }

    /// Reads the partitions that must hold [known keys](LoadContext::with_known_keys), and checks that they do. Reads
    /// nothing if the result is already known, or if there are no such keys.
    ///
    /// # Errors
    ///
    /// [`BlockError::KnownKeyAbsent`] if the filter was built with another hash of the same identity, or belongs to
    /// another file. The error of `read` for the first partition that cannot be read: try again later. In both cases no
    /// partition opens.
    pub fn check_known_keys<D: AsRef<[u8]>>(
        &self,
        mut read: impl FnMut(u32) -> Result<D, FilterProblem>,
    ) -> Result<(), FilterProblem> {
        for number in self.unchecked_partitions().collect::<Vec<_>>() {
            match read(number).and_then(|block| self.open(number, block).map(drop)) {
                // Other partitions have not been read yet.
                Ok(()) | Err(FilterProblem::KnownKeysUnchecked { .. }) => {}
                Err(problem) => return Err(problem),
            }
        }
        self.check_known()
    }

    /// Returns the number of the only partition that can hold the key, and the hash to probe it with, which is not the
    /// key's own if the filter is cut by hash range. `hash` is that of the whole key, by the hasher of the container.
    /// In a filter of only extracted parts, every key may be present, and the number belongs to no partition.
    #[inline]
    pub fn locate(&self, key: &[u8], hash: KeyHash) -> (u32, KeyHash) {
        // No partition has this number, so none opens, whatever the caller keeps of the result.
        if self.has_whole_keys() { self.locate_hash(key, hash) } else { (u32::MAX, hash) }
    }

    /// Returns the partition and inner hash for one of the hashes that were added for the key.
    #[inline]
    pub(crate) fn locate_hash(&self, key: &[u8], hash: KeyHash) -> (u32, KeyHash) {
        match self.trailer.cut {
            PartitionCut::KeyRange => (self.number_of(key), hash),
            PartitionCut::HashRange => hash.in_partition(self.trailer.partitions),
        }
    }

    /// Returns the [partitions and hashes](Self::locate) to probe for keys with the prefix, in order. The file contains
    /// such a key only if the block of one of these partitions may contain the hash returned with it.
    ///
    /// # Errors
    ///
    /// [`BlockError::PartNotHeld`] if the filter holds no part that follows from the prefix: the file may contain such
    /// keys.
    pub fn partitions_with_prefix<'a>(
        &'a self,
        prefix: &PreparedPrefix<'a>,
    ) -> Result<impl Iterator<Item = (u32, KeyHash)> + 'a, BlockError> {
        let is_own = prefix.hash_identity() == self.hash_identity();
        let mut held =
            prefix.hashes().filter(|&(domain, _)| is_own && self.held_parts().is_answered(self.answered, domain));
        let (_, hash) = held.next().ok_or(BlockError::PartNotHeld)?;
        Ok(self.places_with_part(prefix.bytes(), hash))
    }

    /// Returns whether whole keys are in the filter, as in every filter except those of only extracted parts.
    #[must_use]
    #[inline]
    pub fn has_whole_keys(&self) -> bool {
        self.held_parts().has_whole_keys()
    }

    /// Returns the domains of the extractors whose parts are in the filter: [`Domain::new`] of their names.
    pub fn extractors(&self) -> impl Iterator<Item = Domain> + '_ {
        self.held_parts().domains()
    }

    fn held_parts(&self) -> HeldParts<'_> {
        HeldParts::of_field(&self.trailer.held)
    }

    /// Returns the partitions that can hold a key with the prefix, if each such key was added with this hash.
    pub(crate) fn places_with_part<'a>(
        &'a self,
        prefix: &'a [u8],
        hash: KeyHash,
    ) -> impl Iterator<Item = (u32, KeyHash)> + 'a {
        let (first, hash) = self.locate_hash(prefix, hash);
        // The partition of the prefix itself, and all whose lower bounds begin with it: the first other bound is above
        // all keys with the prefix. If the filter is cut by hash range, no partition has a bound.
        let others = (first + 1..self.partitions()).take_while(move |&number| {
            self.cut() == PartitionCut::KeyRange && self.bounds.begins_with(number as usize, prefix)
        });
        core::iter::once(first).chain(others).map(move |number| (number, hash))
    }

    /// Returns the last partition whose lower bound is not above the key.
    fn number_of(&self, key: &[u8]) -> u32 {
        // Not `partition_point`, because bounds are stored in two pieces and not as a slice.
        let (mut number, mut above) = (0, self.trailer.partitions);
        while above - number > 1 {
            let middle = number.midpoint(above);
            if self.bounds.is_at_most(middle as usize, key) {
                number = middle;
            } else {
                above = middle;
            }
        }
        number
    }

    /// Opens the block of a partition, which must fill `block` exactly. Reads all of it once: the length, the checksum
    /// in the index and those in the block must match, and its hash must be that of the container.
    ///
    /// Probe it with the hash from [`locate`](Self::locate), and only for keys that `locate` assigns to this partition:
    /// it is negative for all others.
    ///
    /// # Errors
    ///
    /// [`FilterProblem`] if the partition has no filter, or the bytes are not those that were written for it; if a
    /// known key is absent, here or in a partition that was read before; [`FilterProblem::KnownKeysUnchecked`] while
    /// partitions that must hold known keys have not been read. For reads, all of these mean "may be present" for the
    /// keys of this partition.
    pub fn open<D: AsRef<[u8]>>(&self, number: u32, block: D) -> Result<FilterBlock<D>, FilterProblem> {
        let entry = self.entry(number)?;
        if entry.bytes == 0 {
            return Err(FilterProblem::WithoutFilter);
        }
        let (expected, got) = (u64::from(entry.bytes), block.as_ref().len() as u64);
        if expected != got {
            return Err(FilterProblem::Length { what: "partition of a filter", expected, got });
        }
        let (loaded, got) = match FilterBlock::load_partition(block, self.hash_identity(), Some(&self.kinds)) {
            Ok(block) => {
                let got = block.checksum_without_last();
                (Ok(block), got)
            }
            // The trailer is sound.
            Err((_, error @ BlockError::NotAPartition)) => return Err(error.into()),
            Err((bytes, error)) => {
                let covered = bytes.as_ref().split_last_chunk::<4>().map_or(&[][..], |(covered, _)| covered);
                (Err(error), checksum(covered))
            }
        };
        // The checksum decides first, so that all damage has one name: an unknown version may be a flipped bit.
        let expected = entry.checksum;
        if got != expected {
            return Err(FilterProblem::PartitionChecksum { number, expected, got });
        }
        let block = loaded?;
        for known in self.known.iter().filter(|known| known.partition == number) {
            known.is_held.get_or_init(|| block.may_contain(known.hash));
        }
        self.check_known()?;
        Ok(block)
    }

    /// Returns where the block of a partition is, from the first byte of the container. The range is empty if the
    /// partition has no filter: every key of the partition may then be present.
    ///
    /// # Errors
    ///
    /// [`BlockError::Field`], in a [`FilterProblem`], if there is no such partition.
    pub fn block_range(&self, number: u32) -> Result<Range<u64>, FilterProblem> {
        self.entry(number).map(Entry::range)
    }

    /// Returns the smallest key that a partition can hold: empty for the first partition, and if the filter is cut by
    /// hash range.
    #[must_use]
    pub fn lower_bound(&self, number: u32) -> Vec<u8> {
        self.bounds.parts(number as usize).concat()
    }

    fn entry(&self, number: u32) -> Result<Entry, FilterProblem> {
        let (field, expected) = ("number of a partition", "one below the number of partitions");
        let refused = BlockError::Field { field, expected, got: number.into() };
        Ok(*self.entries.get(number as usize).ok_or(refused)?)
    }

    /// Returns the length of each partition's block, in order; 0 for one without a filter.
    pub(crate) fn block_bytes(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries.iter().map(|entry| entry.bytes)
    }

    /// Returns how the filter is cut.
    #[must_use]
    pub fn cut(&self) -> PartitionCut {
        self.trailer.cut
    }

    /// Returns the number of partitions, at least 1.
    #[must_use]
    pub fn partitions(&self) -> u32 {
        self.trailer.partitions
    }

    /// Returns the number of keys in all partitions, as each counts them.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.trailer.keys
    }

    /// Returns the identity of the hash of the keys.
    pub fn hash_identity(&self) -> HashIdentity {
        self.trailer.identity.hash
    }

    /// Returns the file that the container is bound to, if any.
    #[must_use]
    pub fn file(&self) -> Option<FileId> {
        self.trailer.identity.file
    }

    /// Returns the bytes of all partitions with the zeros between them, which is the offset of the top index.
    #[must_use]
    pub fn partition_bytes(&self) -> u64 {
        self.entries.last().map_or(0, |last| last.range().end)
    }

    /// Returns the bytes of the whole container.
    #[must_use]
    pub fn container_bytes(&self) -> u64 {
        self.partition_bytes() + self.trailer.tail_bytes()
    }

    /// Returns the bytes that the index takes in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let arrays = size_of_val(&*self.entries) + size_of_val(&*self.known);
        size_of::<Self>() + arrays + self.bounds.memory_bytes() + self.trailer.held.len()
    }
}

impl fmt::Debug for PartitionIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionIndex").field("trailer", &self.trailer).finish_non_exhaustive()
    }
}

impl Entry {
    /// Returns where the block is, from the first byte of the container.
    fn range(self) -> Range<u64> {
        let offset = u64::from(self.line) * LINE_BYTES as u64;
        offset..offset + u64::from(self.bytes)
    }
}

/// A key that the file is known to contain, and whether its partition does.
///
/// A partition that holds no known key cannot show that it was built with another hash than the reader's. So no
/// partition is used before all that must hold a known key have been read: a custom hash that changed under its tag
/// would make every other partition negative for nearly all of its keys. If one cannot be read, the filter stays
/// unused, because no other partition may show what it would show, for instance of another extractor. Even a partition
/// that holds its known keys is not used earlier: if the filter is cut by hash range, they may be parts of keys, which
/// say nothing about whole keys.
#[derive(Debug)]
struct Known {
    partition: u32,
    hash: KeyHash,
    /// Set once the partition has been read, and then final: the contents of a partition do not change.
    is_held: OnceLock<bool>,
}
