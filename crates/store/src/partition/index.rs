//! The top index of a partitioned filter, as it stays in memory.

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
use super::error::PartitionError;
use super::trailer::ContainerTrailer;
use crate::codec::{Cursor, LINE_BYTES};

/// Where the partitions of one file's filter are, and which keys are in them.
///
/// It does no input or output: it says which bytes to read, and opens them. So it serves any reader, synchronous or
/// not, with any cache. Opening a file:
///
/// 1. [`tail_bytes`](Self::tail_bytes) of the container's last [`MAX_END_BYTES`](Self::MAX_END_BYTES) bytes says how
///    many bytes at its end hold the index.
/// 2. [`load`](Self::load) checks these and keeps what a lookup needs: about 16 bytes per partition, and the bounds of
///    keys.
/// 3. With [known keys](LoadContext::with_known_keys), [`check_known_keys`](Self::check_known_keys) reads the
///    partitions that must hold them. No partition opens before that.
///
/// A lookup:
///
/// 1. [`locate`](Self::locate) gives the number of a key's partition, and the hash to probe it with.
/// 2. [`block_range`](Self::block_range) says where the partition's block is.
/// 3. [`open`](Self::open) checks its bytes. **Probe it with the hash that `locate` gave**, which differs from the key's
///    own where the filter is cut by hash range.
///
/// Whatever fails means "may be present". A cache of open partitions needs a key that does not come back, such as the
/// file's fingerprint; a file number does, after a crash. Bytes of partitions are safe under any key, because `open`
/// checks them.
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
/// # Ok::<(), sstfilter_store::PartitionError>(())
/// ```
pub struct PartitionIndex {
    trailer: ContainerTrailer,
    entries: Vec<Entry>,
    /// The engine's bytes of all partitions, or empty where none has any.
    aux: Vec<Piece>,
    /// Empty where the filter is cut by hash range.
    bounds: Bounds,
    kinds: KindRegistry,
    /// A bit for each extractor of the filter whose parts the reader names.
    answered: u64,
    /// By their partitions.
    known: Box<[Known]>,
}

/// A partition. Twelve bytes, because files have thousands of them.
#[derive(Clone, Copy)]
struct Entry {
    /// The offset, in lines of 64 bytes.
    line: u32,
    /// Of 0 bytes where the partition has no filter.
    block: Piece,
}

/// Bytes of a partition: its block, or those of the engine's behind it.
#[derive(Clone, Copy, Default)]
struct Piece {
    bytes: u32,
    /// 0 of none.
    checksum: u32,
}

impl PartitionIndex {
    /// The most bytes that stand behind the top index of a container: [`tail_bytes`](Self::tail_bytes) needs no more.
    pub const MAX_END_BYTES: usize = super::trailer::MAX_END_BYTES;

    /// How many bytes at the end of a container hold its top index and trailer, from the container's last
    /// [`MAX_END_BYTES`](Self::MAX_END_BYTES), or all of a shorter one. Compare it with the container's length before
    /// allocating memory for it.
    ///
    /// # Errors
    ///
    /// [`PartitionError`] when the bytes are not the end of a partitioned filter, damaged, or of a later version.
    pub fn tail_bytes(end: &[u8]) -> Result<u64, PartitionError> {
        ContainerTrailer::decode(end).map(|trailer| trailer.tail_bytes())
    }

    /// The index in the last [`tail_bytes`](Self::tail_bytes) of a container, exactly these. `context` describes the
    /// reader: a [`LoadContext`], or a `&KeyHasher` where the container is not bound to a file. Known keys are kept,
    /// and looked for in the partitions that must hold them, before any partition is opened.
    ///
    /// Takes no more memory than ten times the bytes given, whatever they claim, beside the known keys.
    ///
    /// # Errors
    ///
    /// [`PartitionError`] when the bytes are damaged or contradict each other, and when hash or file are others than
    /// the reader's. To a read, all of them mean "may be present" for every key of the file.
    pub fn load<'a>(tail: &[u8], context: impl Into<LoadContext<'a>>) -> Result<Self, PartitionError> {
        let context = context.into();
        let trailer = ContainerTrailer::decode(tail)?;
        let (expected_bytes, got) = (trailer.tail_bytes(), tail.len() as u64);
        if expected_bytes != got {
            return Err(BlockError::Length { expected: expected_bytes, got }.into());
        }
        let index = tail.get(..tail.len() - trailer.end_bytes()).unwrap_or_default();
        let sum = checksum(index);
        if sum != trailer.index_checksum {
            return Err(PartitionError::IndexChecksum { expected: trailer.index_checksum, got: sum });
        }
        HeldParts::of_field(&trailer.held).check_for(&context, trailer.identity)?;
        let kinds = context.kinds().cloned().unwrap_or_default();
        let (entries, aux, bounds, known) = (Vec::new(), Vec::new(), Bounds::default(), Box::default());
        let mut decoded = Self { trailer, entries, aux, bounds, kinds, answered: 0, known };
        decoded.decode(index)?;
        let held = decoded.held_parts();
        let mut known = held.known_hashes(&context)?;
        // A partition without a filter loses no key, and confirms none. If nothing else has the whole keys, they stay:
        // the filter is then not used.
        let place = |key, hash| decoded.locate_hash(key, hash);
        let has_filter = |key, hash| decoded.entry(place(key, hash).0).is_ok_and(|(entry, _)| entry.block.bytes > 0);
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
        // Before memory is allocated for them: the shortest entry has two bytes.
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

    /// Reads the entry of the next partition, and that of a group in front of its first.
    fn decode_entry(&mut self, cursor: &mut Cursor<'_>, number: usize) -> Option<()> {
        let line = u32::try_from(self.partition_bytes().div_ceil(LINE_BYTES as u64)).ok()?;
        let has_bounds = self.cut() == PartitionCut::KeyRange;
        if has_bounds && number.is_multiple_of(PREFIX_GROUP) {
            self.bounds.push_item(cursor.item()?)?;
        }
        let (block, aux) = (Piece::read(cursor)?, Piece::read(cursor)?);
        if has_bounds {
            self.bounds.push_item(if number == 0 { &[] } else { cursor.item()? })?;
            if number > 0 && !self.bounds.is_above_previous(number) {
                return None;
            }
        }
        if aux.bytes > 0 {
            self.aux.resize(self.trailer.partitions as usize, Piece::default());
            *self.aux.get_mut(number)? = aux;
        }
        self.entries.push(Entry { line, block });
        Some(())
    }

    /// The partitions that must hold known keys and were not read yet. None if one lacks such a key: no partition opens
    /// then, whatever the others hold.
    pub fn unchecked_partitions(&self) -> impl Iterator<Item = u32> + '_ {
        let lacks_one = self.known.iter().any(|known| known.is_held.get() == Some(&false));
        let known = if lacks_one { &[] } else { &*self.known };
        let partitions = known.chunk_by(|one, other| one.partition == other.partition);
        partitions.filter_map(|own| own.iter().find(|known| known.is_held.get().is_none())).map(|known| known.partition)
    }

    /// Whether every partition can be used, or none.
    fn check_known(&self) -> Result<(), PartitionError> {
        let mut unchecked = None;
        // In one pass, which looks at each once: another thread may be finding out that one is absent.
        for known in &self.known {
            match known.is_held.get() {
                Some(true) => {}
                Some(false) => return Err(BlockError::KnownKeyAbsent { hash: self.hash_identity() }.into()),
                None => unchecked = unchecked.or(Some(known.partition)),
            }
        }
        unchecked.map_or(Ok(()), |partition| Err(PartitionError::KnownKeysUnchecked { partition }))
    }

    /// Reads the partitions that must hold [known keys](LoadContext::with_known_keys), and looks whether they do. Reads
    /// nothing if that is known, or if there are no such keys.
    ///
    /// # Errors
    ///
    /// [`BlockError::KnownKeyAbsent`]: the filter was built with another hash of the same identity, or is another
    /// file's. What `read` gives for the first partition that cannot be read: it may be tried again. In both cases no
    /// partition opens.
    pub fn check_known_keys<D: AsRef<[u8]>>(
        &self,
        mut read: impl FnMut(u32) -> Result<D, PartitionError>,
    ) -> Result<(), PartitionError> {
        for number in self.unchecked_partitions().collect::<Vec<_>>() {
            match read(number).and_then(|block| self.open(number, block).map(drop)) {
                // Others are still to be read.
                Ok(()) | Err(PartitionError::KnownKeysUnchecked { .. }) => {}
                Err(problem) => return Err(problem),
            }
        }
        self.check_known()
    }

    /// The number of the partition that holds the key if any does, and the hash to probe it with: not the key's own
    /// where the filter is cut by hash range. `hash` is the whole key's, by the hasher of the container. In a filter
    /// that holds extracted parts alone, every key may be present: the number is that of no partition.
    #[must_use]
    #[inline]
    pub fn locate(&self, key: &[u8], hash: KeyHash) -> (u32, KeyHash) {
        // No partition has this number, so that none is opened, whatever the caller keeps of the place.
        if self.has_whole_keys() { self.locate_hash(key, hash) } else { (u32::MAX, hash) }
    }

    /// The place of one of the hashes that were added for the key.
    #[inline]
    pub(crate) fn locate_hash(&self, key: &[u8], hash: KeyHash) -> (u32, KeyHash) {
        match self.trailer.cut {
            PartitionCut::KeyRange => (self.number_of(key), hash),
            PartitionCut::HashRange => hash.in_partition(self.trailer.partitions),
        }
    }

    /// The [places](Self::locate) of keys with the prefix, in order. The file has such a key only if the block of one of
    /// these partitions may contain the hash beside its number.
    ///
    /// # Errors
    ///
    /// [`BlockError::PartNotHeld`] where the filter answers for no part that follows from the prefix: the file may have
    /// such keys.
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

    /// Whether whole keys are in the filter, as in every one but those of extracted parts alone.
    #[must_use]
    #[inline]
    pub fn has_whole_keys(&self) -> bool {
        self.held_parts().has_whole_keys()
    }

    /// The domains of the extractors whose parts are in the filter: [`Domain::new`] of their names.
    pub fn extractors(&self) -> impl Iterator<Item = Domain> + '_ {
        self.held_parts().domains()
    }

    fn held_parts(&self) -> HeldParts<'_> {
        HeldParts::of_field(&self.trailer.held)
    }

    /// The partitions that can hold a key with the prefix, where each such key was added with this hash.
    pub(crate) fn places_with_part<'a>(
        &'a self,
        prefix: &'a [u8],
        hash: KeyHash,
    ) -> impl Iterator<Item = (u32, KeyHash)> + 'a {
        let (first, hash) = self.locate_hash(prefix, hash);
        // The partition of the prefix itself, and all whose lower bounds begin with it: a bound above those is above
        // all keys with the prefix. Where the filter is cut by hash range, no partition has a bound.
        let others = (first + 1..self.partitions()).take_while(move |&number| {
            self.cut() == PartitionCut::KeyRange && self.bounds.begins_with(number as usize, prefix)
        });
        core::iter::once(first).chain(others).map(move |number| (number, hash))
    }

    /// The last partition whose lower bound is not above the key.
    fn number_of(&self, key: &[u8]) -> u32 {
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

    /// Opens the block of a partition, which fills `block` exactly. Reads all of it once: the length, the checksum in
    /// the index and those in the block must hold, and its hash must be that of the container.
    ///
    /// Probe it with the hash of the key's [`locate`](Self::locate), and for keys whose place is this partition: it is
    /// negative for all others.
    ///
    /// # Errors
    ///
    /// [`PartitionError`] when the partition has no filter, or the bytes are not the ones that were written for it;
    /// when a known key is absent, here or in a partition that was read before; [`PartitionError::KnownKeysUnchecked`]
    /// while partitions that must hold known keys have not been read. To a read, all of them mean "may be present" for
    /// the keys of this partition.
    pub fn open<D: AsRef<[u8]>>(&self, number: u32, block: D) -> Result<FilterBlock<D>, PartitionError> {
        let (entry, _) = self.entry(number)?;
        if entry.block.bytes == 0 {
            return Err(PartitionError::WithoutFilter);
        }
        entry.block.check_length(number, block.as_ref())?;
        let (loaded, got) = match FilterBlock::load_partition(block, self.hash_identity(), Some(&self.kinds)) {
            Ok(block) => {
                let got = block.checksum_without_last();
                (Ok(block), got)
            }
            // Its trailer is sound.
            Err((_, error @ BlockError::NotAPartition)) => return Err(error.into()),
            Err((bytes, error)) => {
                let covered = bytes.as_ref().split_last_chunk::<4>().map_or(&[][..], |(covered, _)| covered);
                (Err(error), checksum(covered))
            }
        };
        // Damage has one name, wherever in the block it is: a version that is not known may be a flipped bit.
        let expected = entry.block.checksum;
        if got != expected {
            return Err(PartitionError::Checksum { number, expected, got });
        }
        let block = loaded?;
        for known in self.known.iter().filter(|known| known.partition == number) {
            known.is_held.get_or_init(|| block.may_contain(known.hash));
        }
        self.check_known()?;
        Ok(block)
    }

    /// Where the block of a partition is, from the first byte of the container: empty where it has no filter, so that
    /// every key of the partition may be present.
    ///
    /// # Errors
    ///
    /// [`BlockError::Field`], in a [`PartitionError`], when there is no such partition.
    pub fn block_range(&self, number: u32) -> Result<Range<u64>, PartitionError> {
        let (entry, _) = self.entry(number)?;
        Ok(entry.offset()..entry.block_end())
    }

    /// Where the engine's bytes of a partition are, from the first byte of the container: empty where there are none.
    ///
    /// # Errors
    ///
    /// [`BlockError::Field`], in a [`PartitionError`], when there is no such partition.
    pub fn user_data_range(&self, number: u32) -> Result<Range<u64>, PartitionError> {
        let (entry, aux) = self.entry(number)?;
        Ok(entry.block_end()..entry.block_end() + u64::from(aux.bytes))
    }

    /// Compares the engine's bytes of a partition with their length and checksum.
    ///
    /// # Errors
    ///
    /// [`PartitionError`] when they differ, or when there is no such partition.
    pub fn check_user_data(&self, number: u32, bytes: &[u8]) -> Result<(), PartitionError> {
        let (_, aux) = self.entry(number)?;
        aux.check_length(number, bytes)?;
        let (expected, got) = (aux.checksum, checksum(bytes));
        if expected == got { Ok(()) } else { Err(PartitionError::Checksum { number, expected, got }) }
    }

    /// The least key that a partition can hold: empty for the first partition, and where the filter is cut by hash
    /// range.
    #[must_use]
    pub fn lower_bound(&self, number: u32) -> Vec<u8> {
        self.bounds.parts(number as usize).concat()
    }

    /// A partition, and the engine's bytes behind its block.
    fn entry(&self, number: u32) -> Result<(Entry, Piece), PartitionError> {
        let (field, expected) = ("number of a partition", "one below the number of partitions");
        let refused = BlockError::Field { field, expected, got: number.into() };
        let entry = *self.entries.get(number as usize).ok_or(refused)?;
        Ok((entry, self.aux.get(number as usize).copied().unwrap_or_default()))
    }

    /// The length of each partition's block, in order; 0 for one without a filter.
    pub(crate) fn block_bytes(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries.iter().map(|entry| entry.block.bytes)
    }

    /// How the filter is cut.
    #[must_use]
    pub fn cut(&self) -> PartitionCut {
        self.trailer.cut
    }

    /// The number of partitions, at least 1.
    #[must_use]
    pub fn partitions(&self) -> u32 {
        self.trailer.partitions
    }

    /// The keys of all partitions, as each counts them.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.trailer.keys
    }

    /// The hash of the keys.
    #[must_use]
    pub fn hash_identity(&self) -> HashIdentity {
        self.trailer.identity.hash
    }

    /// The file that the container is bound to, if any.
    #[must_use]
    pub fn file(&self) -> Option<FileId> {
        self.trailer.identity.file
    }

    /// The bytes of all partitions with the zeros between them: the top index begins there.
    #[must_use]
    pub fn partition_bytes(&self) -> u64 {
        let last = u32::try_from(self.entries.len()).unwrap_or(0).wrapping_sub(1);
        self.user_data_range(last).map_or(0, |range| range.end)
    }

    /// The bytes of the whole container.
    #[must_use]
    pub fn container_bytes(&self) -> u64 {
        self.partition_bytes() + self.trailer.tail_bytes()
    }

    /// The bytes that the index takes in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let arrays = size_of_val(&*self.entries) + size_of_val(&*self.aux) + size_of_val(&*self.known);
        size_of::<Self>() + arrays + self.bounds.memory_bytes() + self.trailer.held.len()
    }
}

impl fmt::Debug for PartitionIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionIndex").field("trailer", &self.trailer).finish_non_exhaustive()
    }
}

impl Entry {
    fn offset(self) -> u64 {
        u64::from(self.line) * LINE_BYTES as u64
    }

    fn block_end(self) -> u64 {
        self.offset() + u64::from(self.block.bytes)
    }
}

impl Piece {
    /// A length, and the checksum that follows unless it is 0.
    fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        let bytes = u32::try_from(cursor.varint()?).ok()?;
        let checksum = if bytes > 0 { cursor.fields::<4>()?.u32::<0>() } else { 0 };
        Some(Self { bytes, checksum })
    }

    fn check_length(self, number: u32, bytes: &[u8]) -> Result<(), PartitionError> {
        let (expected, got) = (self.bytes, bytes.len() as u64);
        if u64::from(expected) == got { Ok(()) } else { Err(PartitionError::Length { number, expected, got }) }
    }
}

/// A key that the file is known to hold, and whether its partition does.
///
/// A partition that holds no known key cannot show that it was built with another hash than the reader's. So none is
/// used before all that must hold one were read: a custom hash that changed under its tag would make every other
/// partition negative for nearly all of its keys. One that cannot be read leaves the filter unused: what it would show,
/// of another extractor for instance, no other may. Not even a partition that holds its known keys is used before:
/// where the filter is cut by hash range, they may be parts of keys, which tell nothing of whole ones.
#[derive(Debug)]
struct Known {
    partition: u32,
    hash: KeyHash,
    /// Known once the partition was read, and then for good: what it holds does not change.
    is_held: OnceLock<bool>,
}
