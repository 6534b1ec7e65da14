//! Reads every byte of a file's filters, and compares it with what was written. Skips the zeros between two filters,
//! which nobody reads.

use core::ops::Range;

use bytes::Bytes;
use sstfilter::{BlockError, FilterBlock, LoadContext};

use super::ranges;
use super::read::{load_index, written};
use super::{FilterMetadata, FilterPart, FilterProblem, FilterSection, FilterSource, FilterStore};

impl FilterStore {
    /// Reads all filters of a file, for scrubbing, and compares every checksum in them. Returns each problem with the
    /// offset, among the filter bytes, of the filter, partition or top index that has it; nothing if all are sound.
    /// Sections of a type of a later release are not in the description, and not read.
    ///
    /// Filters of a kind or version that this release does not know are reported
    /// ([`is_unknown`](FilterProblem::is_unknown)). Filters of another hash or other extractors than the store's are
    /// not: [`FileFilters::problem`](super::FileFilters::problem) reports those.
    ///
    /// ```
    /// use sstfilter::FileId;
    /// use sstfilter_store::FilterStore;
    ///
    /// let store = FilterStore::default();
    /// let mut builder = store.builder(FileId::random());
    /// [b"apple", b"lemon"].into_iter().for_each(|key| builder.add_key(key));
    /// let (bytes, metadata) = builder.finish().seal();
    /// assert_eq!(store.verify(&metadata, &bytes), []);
    ///
    /// let mut damaged = bytes.to_vec();
    /// damaged[7] ^= 1;
    /// assert_eq!(store.verify(&metadata, &bytes::Bytes::from(damaged)).len(), 1);
    /// ```
    #[must_use]
    pub fn verify(&self, metadata: &FilterMetadata, source: &dyn FilterSource) -> Vec<(u64, FilterProblem)> {
        let verifier = Verifier { store: self, metadata, source };
        metadata.sections().iter().flat_map(|section| verifier.check(section)).collect()
    }
}

struct Verifier<'a> {
    store: &'a FilterStore,
    metadata: &'a FilterMetadata,
    source: &'a dyn FilterSource,
}

impl Verifier<'_> {
    fn check(&self, section: &FilterSection) -> Vec<(u64, FilterProblem)> {
        if section.part == FilterPart::PartitionedPoints {
            return self.check_partitions(section);
        }
        let checked = self.read(section.range()).and_then(|block| {
            let checked = match section.part {
                FilterPart::Ranges => ranges::verify(&block),
                _ => FilterBlock::load(&block, self.context()).map(drop),
            };
            written(section, &block, checked)
        });
        checked.err().map(|problem| (section.offset, problem)).into_iter().collect()
    }

    /// Reads the top index and all partitions, with the zeros between them, up to the first partition of an unknown
    /// kind or version.
    fn check_partitions(&self, section: &FilterSection) -> Vec<(u64, FilterProblem)> {
        let index_range = section.index_range();
        let index = self.read(index_range.clone()).and_then(|tail| load_index(section, &tail, self.context()));
        let index = match index {
            Ok(index) => index,
            Err(problem) => return vec![(index_range.start, problem)],
        };
        // Every byte is read once: `last` is where the previous read ended.
        let (mut found, mut last) = (Vec::new(), section.offset);
        for number in 0..index.partitions() {
            let place = index.block_range(number).unwrap_or_default();
            if place.is_empty() {
                continue;
            }
            let place = section.offset + place.start..section.offset + place.end;
            // One read with the zeros before it.
            let padding = usize::try_from(place.start - last).unwrap_or(usize::MAX);
            let checked = self.read(last..place.end).and_then(|mut bytes| {
                let zeros = check_zeros(&bytes.split_to(padding.min(bytes.len())));
                found.extend(zeros.err().map(|problem| (last, problem)));
                index.open(number, bytes).map(drop)
            });
            last = place.end;
            if let Err(problem) = checked {
                let is_unknown = problem.is_unknown();
                found.push((place.start, problem));
                if is_unknown {
                    return found;
                }
            }
        }
        // Partitions without a filter may follow the last one.
        if last < index_range.start {
            let checked = self.read(last..index_range.start).and_then(|zeros| check_zeros(&zeros));
            found.extend(checked.err().map(|problem| (last, problem)));
        }
        found
    }

    /// Returns the context of the filters' writer: whether its hash and parts are the store's is checked elsewhere.
    fn context(&self) -> LoadContext<'_> {
        let context = LoadContext::from(self.metadata.hash_identity()).with_any_key_parts();
        context.with_file_id(self.metadata.file_id()).with_kinds(self.store.filters().kinds())
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes, FilterProblem> {
        self.source.read(range).map_err(|error| FilterProblem::Unreadable { reason: error.to_string() })
    }
}

fn check_zeros(bytes: &[u8]) -> Result<(), FilterProblem> {
    let other = bytes.iter().copied().find(|&byte| byte != 0);
    Ok(BlockError::require(other.is_none(), "bytes between partitions", "zeros", other.unwrap_or_default())?)
}
