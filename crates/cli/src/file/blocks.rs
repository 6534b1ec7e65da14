//! Filters without their table: partitioned filters, range filters, layers, and sidecars.

use core::ops::Range;
use std::collections::BTreeSet;
use std::path::Path;

use bytes::Bytes;
use sstfilter::layers::{Growth, Late, LayeredFilter, LayersHealth, Part, Rotating, Scalable};
use sstfilter::{
    BlockError, FileId, FilterBlock, FilterError, HashIdentity, KeyHash, KeyHasher, LoadContext, RegisterBlockedBloom,
    StandardBloom,
};
use sstfilter_range::{RangeContext, RangeFilter, RangeInfo};
use sstfilter_store::{FilterMetadata, FilterPart, FilterProblem, PartitionIndex, TableIdentity, sidecar_path};
use sstfilter_table::{Table, TablePart};

use super::context::Context;
pub(crate) use super::context::{RangePrefix, parse_prefix};
use super::problem::State;
use crate::system::input::RegularFile;
use crate::words::units::grouped;

/// All partitions of a filter; each is a block or the reason why it cannot be probed.
pub(crate) struct Partitions<'a> {
    index: &'a PartitionIndex,
    blocks: Vec<Result<FilterBlock<Bytes>, FilterProblem>>,
}

impl<'a> Partitions<'a> {
    /// Reads all partitions of the filter that the table at `path` uses. Returns `None` if that filter has none.
    pub(crate) fn of_table(table: &'a Table, path: &Path) -> Option<Self> {
        let index = table.filters().partitions()?;
        // In a sidecar, the point filter comes first.
        let (path, start) = if table.uses_sidecar() {
            (sidecar_path(path), 0)
        } else {
            (path.to_owned(), table.region(TablePart::Filter)?.start)
        };
        let file = RegularFile::open(&path).map_err(|problem| unreadable(&problem));
        Some(Self::new(index, |range| {
            let read = file.as_ref().map_err(Clone::clone)?.read(start + range.start, range.end - range.start);
            read.map_err(|problem| unreadable(&problem))
        }))
    }

    /// Opens the partitions that `read` returns.
    fn new(index: &'a PartitionIndex, read: impl Fn(Range<u64>) -> Result<Bytes, FilterProblem>) -> Self {
        let block = |number| index.block_range(number).and_then(&read);
        // The result is not needed: opening each partition below returns its problem.
        let _ = index.check_known_keys(block);
        let open = |number| block(number).and_then(|block| index.open(number, block));
        Self { index, blocks: (0..index.partitions()).map(open).collect() }
    }

    pub(crate) fn hash_identity(&self) -> HashIdentity {
        self.index.hash_identity()
    }

    /// Whether the filter may contain a key with its hash; `None` if the key's partition has no usable filter, or the
    /// filter holds no whole keys.
    pub(crate) fn answer(&self, key: &[u8], hash: KeyHash) -> Option<bool> {
        if !self.index.has_whole_keys() {
            return None;
        }
        let (number, hash) = self.index.locate(key, hash);
        let block = self.blocks.get(number as usize)?.as_ref().ok()?;
        Some(block.may_contain(hash))
    }

    /// Returns the partitions that should have a filter but have no usable one.
    pub(crate) fn problems(&self) -> impl Iterator<Item = (u32, &FilterProblem)> {
        (0..).zip(&self.blocks).filter_map(|(number, block)| match block {
            Ok(_) | Err(FilterProblem::WithoutFilter) => None,
            Err(problem) => Some((number, problem)),
        })
    }

    /// Returns the first problem in words, and how many more there are.
    pub(crate) fn problem(&self) -> Option<String> {
        let (number, problem) = self.problems().next()?;
        let first = match problem {
            FilterProblem::PartitionChecksum { .. } => problem.to_string(),
            _ => format!("partition {number} of a filter: {problem}"),
        };
        Some(match self.problems().count() as u64 - 1 {
            0 => first,
            more => format!("{first}, and {} more partitions", grouped(more)),
        })
    }

    /// Returns the worst state of all partitions.
    pub(crate) fn state(&self) -> State {
        let of = |problem: &FilterProblem| match problem {
            FilterProblem::Block(BlockError::Unreadable { .. }) => State::Unread,
            // A partition that was read but cannot be used is damaged.
            _ => State::Damaged,
        };
        self.problems().map(|(_, problem)| of(problem)).max().unwrap_or_default()
    }

    /// Returns the number of partitions, and the keys and bytes of each one that can be used.
    pub(crate) fn blocks(&self) -> &[Result<FilterBlock<Bytes>, FilterProblem>] {
        &self.blocks
    }

    pub(crate) fn index(&self) -> &'a PartitionIndex {
        self.index
    }

    /// Returns the names of the partitions' kinds.
    pub(crate) fn kinds(&self) -> String {
        let kinds = self.blocks.iter().flatten().map(|block| block.info().kind.name());
        kinds.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
    }

    /// Returns the mean rate of all partitions, under the assumption that probed keys fall into partitions as stored
    /// keys do. Keys of partitions without a usable filter are always positive.
    pub(crate) fn expected_fpr(&self) -> f64 {
        let (mut filtered, mut positives) = (0, 0.0);
        for info in self.blocks.iter().flatten().map(FilterBlock::info) {
            filtered += info.keys;
            positives += info.expected_fpr * info.keys as f64;
        }
        let keys = self.index.keys();
        // `max`, because a malformed index may record fewer keys than its partitions do.
        (positives + keys.saturating_sub(filtered) as f64) / keys.max(filtered).max(1) as f64
    }
}

fn unreadable(problem: &anyhow::Error) -> FilterProblem {
    BlockError::Unreadable { reason: format!("{problem:#}") }.into()
}

/// All bytes of a partitioned filter, and its top index.
pub(crate) struct Container {
    pub(crate) index: PartitionIndex,
    pub(crate) bytes: Bytes,
}

impl Container {
    /// Opens the bytes of a file, for any hash and file that the filter was built with. Returns `None` if they are not
    /// a partitioned filter.
    pub(crate) fn open(bytes: Bytes) -> Result<Option<Self>, FilterProblem> {
        let got = bytes.len() as u64;
        let tail_bytes = match PartitionIndex::tail_bytes(&bytes) {
            Err(FilterProblem::Field { .. } | FilterProblem::Block(BlockError::TooShort { .. })) => {
                return Ok(None);
            }
            tail_bytes => tail_bytes?,
        };
        let start = got.checked_sub(tail_bytes).and_then(|start| usize::try_from(start).ok());
        let tail = &bytes[start.ok_or(BlockError::TooShort { expected: tail_bytes, got })?..];
        let index = load_index(tail)?;
        if index.container_bytes() != got {
            return Err(BlockError::Length { expected: index.container_bytes(), got }.into());
        }
        Ok(Some(Self { index, bytes }))
    }

    pub(crate) fn partitions(&self) -> Partitions<'_> {
        Partitions::new(&self.index, |range| Ok(self.slice(range)))
    }

    /// Returns the bytes of a range, or no bytes if the range is not inside the container.
    fn slice(&self, range: Range<u64>) -> Bytes {
        let range = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        let range = range.filter(|&(start, end)| start <= end && end <= self.bytes.len());
        range.map_or_else(Bytes::new, |(start, end)| self.bytes.slice(start..end))
    }

    /// Checks every byte, and that the filter is bound to `file`.
    pub(crate) fn verify(&self, file: Option<FileId>) -> Result<(), FilterProblem> {
        let (expected, got) = (file, self.index.file());
        if expected != got {
            return Err(BlockError::FileMismatch { expected, got }.into());
        }
        // Bytes between partitions must be zero, so that verification covers every byte.
        let mut end = 0;
        for number in 0..self.index.partitions() {
            let block = self.index.block_range(number)?;
            if let Some(at) = self.slice(end..block.start).iter().position(|&byte| byte != 0) {
                let (field, expected) = ("byte between partitions", "0 at this offset");
                return Err(BlockError::Field { field, expected, got: end + at as u64 }.into());
            }
            end = block.end;
            if !block.is_empty() {
                self.index.open(number, self.slice(block))?;
            }
        }
        Ok(())
    }
}

/// Loads the top index at the end of a container, for any hash, file and parts of keys that the filter was built with.
pub(crate) fn load_index(tail: &[u8]) -> Result<PartitionIndex, FilterProblem> {
    let (mut hash, mut file) = (HashIdentity::default(), None);
    // The reader names the hash or file that it found instead of the expected one: try again with that.
    loop {
        match PartitionIndex::load(tail, context(hash, file)) {
            // Only if the two differ: otherwise, the same error would come back forever.
            Err(FilterProblem::Block(BlockError::HashMismatch { expected, got })) if expected != got => hash = got,
            Err(FilterProblem::Block(BlockError::FileMismatch { expected, got })) if expected != got => file = got,
            index => return index,
        }
    }
}

fn context(hash: HashIdentity, file: Option<FileId>) -> LoadContext<'static> {
    let context = LoadContext::from(hash).with_any_key_parts();
    file.map_or(context, |file| context.with_file_id(file))
}

/// A sidecar of any table, with verified checksums. For a partitioned filter, only the top index is verified, because
/// damage to one partition does not affect the others.
pub(crate) struct Sidecar {
    pub(crate) metadata: FilterMetadata,
    pub(crate) table: TableIdentity,
    bytes: Bytes,
}

impl Sidecar {
    pub(crate) fn new(bytes: Bytes) -> anyhow::Result<Self> {
        let (metadata, table) = FilterMetadata::of_any_sidecar(&bytes, bytes.len() as u64)?;
        let sidecar = Self { metadata, table, bytes };
        for section in sidecar.metadata.sections() {
            let filter = sidecar.filter(section.part).unwrap_or_default();
            // The section's checksum excludes its last four bytes, which are a checksum themselves.
            let index_bytes = if section.index_bytes == 0 { filter.len() } else { section.index_bytes as usize };
            // Of a partitioned filter, only the top index at its end.
            let summed = filter.len() - index_bytes..filter.len().saturating_sub(4);
            let (expected, got) = (section.checksum, crc32c::crc32c(filter.get(summed).unwrap_or_default()));
            if expected != got {
                return Err(FilterProblem::Checksum { what: "filter", expected, got }.into());
            }
        }
        Ok(sidecar)
    }

    /// Returns the bytes of a filter, if the sidecar has one.
    pub(crate) fn filter(&self, part: FilterPart) -> Option<Bytes> {
        let section = self.metadata.sections().iter().find(|section| section.part == part)?;
        Some(self.slice(section.range()))
    }

    /// Returns the bytes of a section, which lies inside the sidecar.
    pub(crate) fn slice(&self, range: Range<u64>) -> Bytes {
        let range = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        range.map_or_else(Bytes::new, |(start, end)| self.bytes.slice(start..end))
    }

    /// Returns the partitioned filter, if there is one.
    pub(crate) fn container(&self) -> Result<Option<Container>, FilterProblem> {
        self.filter(FilterPart::PartitionedPoints).map_or(Ok(None), Container::open)
    }
}

/// Filters of one hash that answer as one.
pub(crate) struct Layers {
    /// How they grow: `late keys`, `scalable` or `rotating`.
    pub(crate) growth: &'static str,
    pub(crate) hash: HashIdentity,
    /// The file that late keys are bound to.
    pub(crate) file: Option<FileId>,
    filter: Box<dyn Growing>,
}

/// Layers of any kind and growth.
trait Growing {
    fn may_contain(&self, hash: KeyHash) -> bool;
    fn health(&self) -> LayersHealth;
}

impl<P: Part, G: Growth> Growing for LayeredFilter<P, G> {
    fn may_contain(&self, hash: KeyHash) -> bool {
        self.contains(hash)
    }

    fn health(&self) -> LayersHealth {
        self.health()
    }
}

type LoadLayers = fn(&Bytes, LoadContext<'_>) -> Result<Box<dyn Growing>, FilterError>;

fn load_layers<P: Part + 'static, G: Growth + 'static>(
    bytes: &Bytes,
    context: LoadContext<'_>,
) -> Result<Box<dyn Growing>, FilterError> {
    Ok(Box::new(LayeredFilter::<P, G>::from_bytes(bytes.clone(), context)?))
}

impl Layers {
    const LOADS: [(&str, LoadLayers); 6] = [
        ("late keys", load_layers::<StandardBloom, Late>),
        ("scalable", load_layers::<StandardBloom, Scalable>),
        ("rotating", load_layers::<StandardBloom, Rotating>),
        ("late keys", load_layers::<RegisterBlockedBloom, Late>),
        ("scalable", load_layers::<RegisterBlockedBloom, Scalable>),
        ("rotating", load_layers::<RegisterBlockedBloom, Rotating>),
    ];

    /// Loads layers of any growth, kind, hash and file, and verifies all of their bytes.
    pub(crate) fn load(bytes: &Bytes) -> Result<Self, BlockError> {
        let mut errors = Vec::new();
        for (growth, load) in Self::LOADS {
            match Self::load_as(bytes, growth, load) {
                Err(error) => errors.push(error),
                loaded => return loaded,
            }
        }
        // Those of the right growth say more.
        errors.sort_by_key(|error| matches!(error, BlockError::Field { field: "type of layers", .. }));
        Err(errors.swap_remove(0))
    }

    fn load_as(bytes: &Bytes, growth: &'static str, load: LoadLayers) -> Result<Self, BlockError> {
        let (mut hash, mut file) = (HashIdentity::default(), None);
        // As in `load_index`.
        loop {
            match load(bytes, context(hash, file)) {
                Ok(filter) => return Ok(Self { growth, hash, file, filter }),
                Err(FilterError::Block(BlockError::HashMismatch { expected, got })) if expected != got => hash = got,
                Err(FilterError::Block(BlockError::FileMismatch { expected, got })) if expected != got => file = got,
                Err(FilterError::Block(problem)) => return Err(problem),
                Err(problem) => return Err(BlockError::Unreadable { reason: problem.to_string() }),
            }
        }
    }

    pub(crate) fn may_contain(&self, hash: KeyHash) -> bool {
        self.filter.may_contain(hash)
    }

    pub(crate) fn health(&self) -> LayersHealth {
        self.filter.health()
    }
}

/// A block of a range filter without a table. Its payload has not been verified.
#[derive(Clone, Debug)]
pub(crate) struct RangeBlock {
    data: Bytes,
    pub(crate) info: RangeInfo,
}

impl RangeBlock {
    pub(crate) fn new(data: Bytes) -> Result<Self, BlockError> {
        Ok(Self { info: RangeInfo::of_block(&data)?, data })
    }

    /// Compares the payload with its checksum, which needs neither hasher nor extractor.
    pub(crate) fn verify(&self) -> Result<(), BlockError> {
        let payload = usize::try_from(self.info.payload_bytes).ok().and_then(|bytes| self.data.get(..bytes));
        let (expected, got) = (self.info.payload_checksum, crc32c::crc32c(payload.unwrap_or_default()));
        if expected == got { Ok(()) } else { Err(BlockError::PayloadChecksum { expected, got }) }
    }

    /// Loads the filter for probing, with its own hash unless that is secret, and with the prefix of the command line.
    pub(crate) fn load(&self, context: &Context) -> Result<RangeFilter<Bytes>, BlockError> {
        let secret = context.secret.as_ref();
        // If the hash is unknown, loading reports that.
        let hasher = hasher_of(self.info.hash, secret).unwrap_or_else(|_| secret.cloned().unwrap_or_default());
        let extractor = context.range_prefix.map(RangePrefix::extractor);
        let load = LoadContext::new(&hasher);
        // The block's own file: there is no table to compare it with.
        let load = match self.info.file {
            Some(file) => load.with_file_id(file),
            None => load,
        };
        // Damage is checked first: a mismatch of hash or prefix would hide it.
        self.verify()?;
        RangeFilter::open_unverified(self.data.clone(), RangeContext::new(load, extractor.as_ref()))
    }
}

/// Returns the hasher that a filter or a map was built with.
pub(crate) fn hasher_of(got: HashIdentity, secret: Option<&KeyHasher>) -> Result<KeyHasher, BlockError> {
    let known = secret.filter(|hasher| hasher.identity() == got).cloned().or_else(|| KeyHasher::from_identity(got));
    known.ok_or(BlockError::HashMismatch {
        expected: secret.map_or_else(HashIdentity::default, KeyHasher::identity),
        got,
    })
}
