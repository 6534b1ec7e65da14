//! A whole container in memory, or mapped.

use core::fmt;
use std::sync::OnceLock;

use super::{PartitionCut, PartitionIndex, PartitionPlace};
use crate::block::{BlockProbe, FilterReader, KeyedFilter, LoadContext, PART_NOT_HELD, Probe};
use crate::error::BlockError;
use crate::hash::{HashIdentity, KeyHash, PreparedPrefix};

/// A partitioned filter over any bytes that hold all of it: owned, borrowed, shared or mapped.
///
/// A partition is verified once: by [`load`](Self::load), or after [`open`](Self::open) when it is first probed, so
/// that a mapped container is read only where it is used. One that is damaged answers "may be present" for its own keys
/// only, unless it must hold a [known key](crate::LoadContext::with_known_keys): then no other opens either.
/// [`problems`](Self::problems) names it.
///
/// Beside the container's bytes it takes, whatever they claim, at most eleven times their number, and of a container
/// that was written with partitions of some KiB, a few percent.
///
/// ```
/// use std::sync::Arc;
/// use sstfilter::partition::{PartitionOptions, PartitionedBuilder, PartitionedFilter};
/// use sstfilter::{BuildContext, FileId, KeyHasher, KindPolicy, LoadContext};
///
/// let (hasher, file) = (KeyHasher::default(), FileId::random());
/// let context = BuildContext::new(&hasher).with_file_id(file);
/// let mut builder = PartitionedBuilder::new(Arc::new(KindPolicy::default()), &context, PartitionOptions::default());
/// (0..50_000_u32).for_each(|key| builder.add_key(&key.to_be_bytes()));
/// let mut bytes = builder.finish().seal().expect("a filter").to_vec();
/// bytes[0] ^= 1; // Damage in the first of four partitions.
///
/// let filter = PartitionedFilter::load(bytes, LoadContext::new(&hasher).with_file_id(file))?;
/// let may_contain = |key: u32| filter.may_contain(&key.to_be_bytes(), hasher.hash(&key.to_be_bytes()));
/// assert!((0..50_000).all(may_contain));
/// assert!((60_000..70_000).filter(|&key| may_contain(key)).count() < 200);
/// assert_eq!(filter.problems().map(|(number, _)| number).collect::<Vec<_>>(), [0]);
/// # Ok::<(), sstfilter::BlockError>(())
/// ```
pub struct PartitionedFilter<D> {
    data: D,
    index: PartitionIndex,
    /// What came of looking for the known keys. Once: to read a damaged partition again for each other one would take
    /// time that is quadratic in their number.
    known_keys: OnceLock<Result<(), BlockError>>,
    /// The states of [`STATE_GROUP`] partitions each, from when one of them is first probed that has a block: a top
    /// index has two bytes for a partition without one.
    opened: Box<[OnceLock<Box<[State; STATE_GROUP]>>]>,
}

/// A partition once it was verified. Boxed: most partitions of a mapped container may never be probed.
type State = OnceLock<Box<Result<BlockProbe, BlockError>>>;

/// Partitions whose states are allocated together. Few, so that a block of a single byte among partitions without
/// blocks has few states beside its own.
const STATE_GROUP: usize = 16;

/// What there is to say of each partition without a filter.
static WITHOUT_FILTER: BlockError = BlockError::PartitionWithoutFilter;

impl<D: AsRef<[u8]>> PartitionedFilter<D> {
    /// Opens the container that fills `data` exactly, and verifies its top index. Each partition is verified when it is
    /// first probed, and those that must hold known keys before any other.
    ///
    /// # Errors
    ///
    /// Those of [`PartitionIndex::load`]; [`BlockError::Length`] when there are more or fewer bytes than the top index
    /// says. To a read, all of them mean "may be present".
    pub fn open<'a>(data: D, context: impl Into<LoadContext<'a>>) -> Result<Self, BlockError> {
        let bytes = data.as_ref();
        let got = bytes.len() as u64;
        let tail_bytes = PartitionIndex::tail_bytes(bytes)?;
        let from = usize::try_from(tail_bytes).ok().and_then(|tail_bytes| bytes.len().checked_sub(tail_bytes));
        let tail = from.and_then(|from| bytes.get(from..));
        let tail = tail.ok_or(BlockError::TooShort { expected: tail_bytes, got })?;
        let index = PartitionIndex::load(tail, context)?;
        if index.container_bytes() != got {
            return Err(BlockError::Length { expected: index.container_bytes(), got });
        }
        let opened = (0..index.partitions() as usize).step_by(STATE_GROUP).map(|_| OnceLock::new()).collect();
        Ok(Self { data, index, known_keys: OnceLock::new(), opened })
    }

    /// Like [`open`](Self::open), and verifies all partitions: reads the whole container once. Damaged partitions are
    /// no error: they are among the [`problems`](Self::problems).
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open), and [`BlockError::KnownKeyAbsent`].
    pub fn load<'a>(data: D, context: impl Into<LoadContext<'a>>) -> Result<Self, BlockError> {
        let filter = Self::open(data, context)?;
        if let Err(refused @ BlockError::KnownKeyAbsent { .. }) = filter.check_known_keys() {
            return Err(refused);
        }
        for number in 0..filter.index.partitions() {
            let _ = filter.partition(number);
        }
        Ok(filter)
    }

    fn check_known_keys(&self) -> Result<(), BlockError> {
        self.known_keys.get_or_init(|| self.index.check_known_keys(|number| Ok(self.block_bytes(number)))).clone()
    }

    /// Probes the partition of the key. `hash` is the whole key's, by the hasher of the container.
    #[inline]
    pub fn probe(&self, key: &[u8], hash: KeyHash) -> Probe<'_> {
        if !self.index.has_whole_keys() {
            return Probe::Unusable(&PART_NOT_HELD);
        }
        self.probe_at(self.index.place_of_hash(key, hash))
    }

    /// Whether the key may be in the file; `false` is certain.
    #[must_use]
    #[inline]
    pub fn may_contain(&self, key: &[u8], hash: KeyHash) -> bool {
        !self.probe(key, hash).is_absent()
    }

    /// Probes for any key with a prefix; `None` if no extractor has one part for all keys that begin with it.
    fn probe_for_prefix(&self, prefix: &PreparedPrefix<'_>) -> Option<Probe<'_>> {
        prefix.hashes().next()?;
        let mut answer = Probe::Unusable(&PART_NOT_HELD);
        for (_, hash) in self.index.held_hashes(prefix) {
            let places = self.index.places_with_part(prefix.bytes(), hash);
            // One that is not absent decides; the partitions behind it need no probe.
            match places.map(|place| self.probe_at(place)).find(|answer| !answer.is_absent()) {
                Some(other) => answer = other,
                None => return Some(Probe::Absent),
            }
        }
        Some(answer)
    }

    /// Probes for any key with a prefix. Where the filter answers for no part that follows from the prefix, the file
    /// may have one.
    #[must_use]
    pub fn probe_prefix(&self, prefix: &PreparedPrefix<'_>) -> Probe<'_> {
        self.probe_for_prefix(prefix).unwrap_or(Probe::MaybePresent)
    }

    /// Whether the file may have a key with the prefix; `false` is certain.
    #[must_use]
    pub fn may_contain_prefix(&self, prefix: &PreparedPrefix<'_>) -> bool {
        !self.probe_prefix(prefix).is_absent()
    }

    /// Whether a key may be in the file, by its hash alone. Where partitions are cut by key range, every key may be.
    #[must_use]
    pub fn may_contain_hash(&self, hash: KeyHash) -> bool {
        self.index.cut() == PartitionCut::KeyRange || self.may_contain(&[], hash)
    }

    fn probe_at(&self, place: PartitionPlace) -> Probe<'_> {
        self.probe_in(place.number, place.hash)
    }

    /// Probes a partition with the hash inside it.
    fn probe_in(&self, number: u32, hash: KeyHash) -> Probe<'_> {
        match self.partition(number) {
            Ok(probe) if !probe.may_contain(self.block_bytes(number), hash) => Probe::Absent,
            Ok(_) => Probe::MaybePresent,
            Err(reason) => Probe::Unusable(reason),
        }
    }

    /// The partition, verified now unless it was before. Beyond the last there is none.
    #[inline]
    fn partition(&self, number: u32) -> Result<&BlockProbe, &BlockError> {
        match self.verified(number) {
            Some(opened) => opened.as_ref(),
            None => self.open_partition(number),
        }
    }

    /// What came of verifying the partition, if it was.
    #[inline]
    fn verified(&self, number: u32) -> Option<&Result<BlockProbe, BlockError>> {
        let states = self.opened.get(number as usize / STATE_GROUP)?.get()?;
        states.get(number as usize % STATE_GROUP)?.get().map(Box::as_ref)
    }

    #[cold]
    fn open_partition(&self, number: u32) -> Result<&BlockProbe, &BlockError> {
        let group =
            self.opened.get(number as usize / STATE_GROUP).filter(|_| !self.index.block_range(number).is_empty());
        let states = group.map(|group| group.get_or_init(|| Box::new([const { OnceLock::new() }; STATE_GROUP])));
        let state = states.and_then(|states| states.get(number as usize % STATE_GROUP)).ok_or(&WITHOUT_FILTER)?;
        let opened = state.get_or_init(|| {
            let block = self.check_known_keys().and_then(|()| self.index.open(number, self.block_bytes(number)));
            Box::new(block.map(crate::block::FilterBlock::into_probe))
        });
        (**opened).as_ref()
    }

    /// The bytes of a partition's block; empty if `as_ref` later returns fewer bytes than at first.
    #[inline]
    fn block_bytes(&self, number: u32) -> &[u8] {
        let range = self.index.block_range(number);
        let range = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        range.and_then(|(start, end)| self.data.as_ref().get(start..end)).unwrap_or_default()
    }

    /// The partitions that cannot be used, each with the reason: those that were verified and are damaged, and those
    /// that were written without a filter.
    pub fn problems(&self) -> impl Iterator<Item = (u32, &BlockError)> {
        (0..self.index.partitions()).filter_map(|number| {
            let is_without = self.index.block_range(number).is_empty();
            let problem = if is_without { Some(&WITHOUT_FILTER) } else { self.verified(number)?.as_ref().err() };
            Some((number, problem?))
        })
    }

    /// Checks every byte: all partitions, the engine's bytes beside them, and the zeros between.
    ///
    /// # Errors
    ///
    /// The first damage. A partition that was written without a filter is none.
    pub fn verify(&self) -> Result<(), BlockError> {
        let bytes = self.data.as_ref();
        let mut end = 0;
        for number in 0..self.index.partitions() {
            let range = self.index.block_range(number);
            let aux = self.index.aux_place(number)?;
            let slice = |from: u64, to: u64| {
                let range = usize::try_from(from).ok()?..usize::try_from(to).ok()?;
                bytes.get(range)
            };
            let zeros = slice(end, range.start).unwrap_or_default();
            if let Some(at) = zeros.iter().position(|&byte| byte != 0) {
                let (field, expected) = ("byte between partitions", "0 at this offset");
                return Err(BlockError::Field { field, expected, got: end + at as u64 });
            }
            if !range.is_empty() {
                self.index.verified(number, self.block_bytes(number))?;
            }
            self.index.check_aux(number, slice(aux.start, aux.end).unwrap_or_default())?;
            end = aux.end;
        }
        Ok(())
    }

    /// The top index.
    #[must_use]
    pub fn index(&self) -> &PartitionIndex {
        &self.index
    }

    /// The hash of the keys.
    #[must_use]
    pub fn hash_identity(&self) -> HashIdentity {
        self.index.hash_identity()
    }

    /// The whole container's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.data.as_ref()
    }

    /// The bytes that were opened.
    #[must_use]
    pub fn into_inner(self) -> D {
        self.data
    }
}

impl<D> fmt::Debug for PartitionedFilter<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionedFilter").field("index", &self.index).finish_non_exhaustive()
    }
}

impl<D: AsRef<[u8]> + Send + Sync> KeyedFilter for PartitionedFilter<D> {
    fn probe(&self, key: Option<&[u8]>, hash: KeyHash) -> Probe<'_> {
        match key {
            None if self.index.cut() == PartitionCut::KeyRange => Probe::MaybePresent,
            key => self.probe(key.unwrap_or_default(), hash),
        }
    }

    fn probe_prefix(&self, prefix: &PreparedPrefix<'_>) -> Option<Probe<'_>> {
        self.probe_for_prefix(prefix)
    }

    fn hash_identity(&self) -> HashIdentity {
        self.index.hash_identity()
    }
}

impl<D: AsRef<[u8]> + Send + Sync + 'static> From<Result<PartitionedFilter<D>, BlockError>> for FilterReader<D> {
    /// A container, or the reason why there is none. Probe it with [`FilterReader::probe_key`].
    fn from(filter: Result<PartitionedFilter<D>, BlockError>) -> Self {
        match filter {
            Ok(filter) => Self::of_keyed(Box::new(filter)),
            Err(reason) => Self::unusable(reason),
        }
    }
}
