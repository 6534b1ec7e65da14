//! What holds for all files of a store.

use std::sync::Arc;

use sstfilter::{FileId, FilterPolicy, Filters, KeyExtractor};
use sstfilter_range::{KeyRange, RangePolicy};

use super::budget::FilterBudget;
use super::build::FileFilterBuilder;
use super::config::Config;
use super::error::FilterProblem;
use super::file::FileFilters;
use super::metadata::FilterMetadata;
use super::partition::PartitionOptions;
use super::reader::Reader;
use super::source::FilterSource;

/// How the filters of a store are built and read: its [`Filters`], and with them partitions, range filters and a memory
/// budget. Clones share the memory.
///
/// Make one when the store is opened. What differs for a file, such as its policy, is set on a clone.
///
/// ```
/// use std::sync::Arc;
/// use sstfilter::{FileId, Filters};
/// use sstfilter_store::{FilterBudget, FilterStore, FilterView, ViewEdit};
///
/// let store = FilterStore::new(Filters::default()).with_budget(FilterBudget::new(64 << 20));
///
/// // Once per file that is written: keys in order.
/// let mut builder = store.builder(FileId::random());
/// (0..10_000_u32).for_each(|key| builder.add_key(&(key * 2).to_be_bytes()));
/// let (bytes, metadata) = builder.finish().seal();
///
/// // Once per file that is opened. Here the filter bytes are in memory; an engine reads them from its file.
/// let file = Arc::new(store.open(metadata, Arc::new(bytes)));
///
/// // The files at one time, and the files that a lookup must read.
/// let view = FilterView::new(&store).edited(ViewEdit::new().add(0, file))?;
/// assert!(view.candidates(&2_u32.to_be_bytes()).next_file().is_some());
/// assert!(view.candidates(&20_001_u32.to_be_bytes()).next_file().is_none(), "above the largest key");
/// # Ok::<(), sstfilter_store::ViewError>(())
/// ```
#[derive(Clone, Debug)]
pub struct FilterStore {
    pub(super) config: Arc<Config>,
}

impl Default for FilterStore {
    fn default() -> Self {
        Self::new(Filters::default())
    }
}

impl FilterStore {
    /// A store of these filters. Unless set otherwise, there are no range filters, and filters stay in memory from when
    /// their file is opened.
    #[must_use]
    pub fn new(filters: Filters) -> Self {
        let config = Config {
            reader: Reader { filters, range_extractor: None },
            builds_points: true,
            partitions: None,
            ranges: None,
            budget: None,
            unlimited: FilterBudget::unlimited().without_automatic_plans(),
            trust: Arc::default(),
        };
        Self { config: Arc::new(config) }
    }

    fn with(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(Arc::make_mut(&mut self.config));
        self
    }

    /// What makes probes has changed: what was found out about it no longer holds.
    fn with_reader(self, change: impl FnOnce(&mut Reader)) -> Self {
        self.with(|config| {
            change(&mut config.reader);
            config.trust = Arc::default();
        })
    }

    /// Other filters, for files that are opened from then on.
    #[must_use]
    pub fn with_filters(self, filters: Filters) -> Self {
        self.with_reader(|reader| reader.filters = filters)
    }

    /// Other filters for files that are written from then on.
    #[must_use]
    pub fn with_policy(self, policy: impl FilterPolicy + 'static) -> Self {
        self.with(|config| {
            config.reader.filters = config.reader.filters.clone().with_policy(policy);
            config.builds_points = true;
        })
    }

    /// Files get no filters for lookups.
    #[must_use]
    pub fn without_filters(self) -> Self {
        self.with(|config| config.builds_points = false)
    }

    /// Filters for lookups are written in partitions, of which a lookup reads one.
    #[must_use]
    pub fn with_partitions(self, options: PartitionOptions) -> Self {
        self.with(|config| config.partitions = Some(options))
    }

    /// Files get range filters, too.
    #[must_use]
    pub fn with_range_filters(self, policy: RangePolicy) -> Self {
        let store = match policy.extractor() {
            Some(extractor) => self.with_range_extractor(extractor.clone()),
            None => self,
        };
        store.with(|config| config.ranges = Some(policy))
    }

    /// The extractor of the prefixes that ranges of range filters are inside of, to read such filters. One that builds
    /// them has it from its policy.
    #[must_use]
    pub fn with_range_extractor(self, extractor: Arc<dyn KeyExtractor>) -> Self {
        self.with_reader(|reader| reader.range_extractor = Some(extractor))
    }

    /// Filters come into memory when they are first probed, and share this number of bytes. Damage to one shows when it
    /// is read ([`FileFilters::problem`]), and not at all while it has no room: [`verify`](Self::verify) reads all.
    #[must_use]
    pub fn with_budget(self, budget: FilterBudget) -> Self {
        self.with(|config| config.budget = Some(budget))
    }

    /// How keys are hashed, which parts of them filters hold, and which filters files get.
    #[must_use]
    pub fn filters(&self) -> &Filters {
        &self.config.reader.filters
    }

    /// The extractor of the prefixes of ranges.
    #[must_use]
    pub fn range_extractor(&self) -> Option<&Arc<dyn KeyExtractor>> {
        self.config.reader.range_extractor.as_ref()
    }

    /// The budget, if there is one.
    #[must_use]
    pub fn budget(&self) -> Option<&FilterBudget> {
        self.config.budget.as_ref()
    }

    /// Why no filter of the store is used, if none is: the hasher or an extractor is not what its tag or name says.
    /// Open the store again with the right one.
    #[must_use]
    pub fn problem(&self) -> Option<&FilterProblem> {
        self.config.trust.get()
    }

    /// A builder for the filters of a file that is to be written. They are bound to `file`: an id that no other contents
    /// ever have, such as [`FileId::random`] gives.
    #[must_use]
    pub fn builder(&self, file: FileId) -> FileFilterBuilder {
        FileFilterBuilder::new(self.config.clone(), file)
    }

    /// Opens a file's filters, whose bytes `source` reads. Nothing fails: a filter that is damaged, or another file's,
    /// answers "may be present", and [`FileFilters::problem`] says why.
    ///
    /// Without a [budget](Self::with_budget), filters in one block are read now. Otherwise the top index of a
    /// partitioned filter is read now, and everything else when it is probed. Without a budget, what was read stays.
    ///
    /// The description must be the file's own: its key bounds are used whatever its filters say, and those of another
    /// file hide keys. Keep the [file id](FilterMetadata::file_id) in the file itself, too, and compare it before.
    ///
    /// # Panics
    ///
    /// If the engine's hash or extractor does, for the file's smallest or largest key.
    #[must_use]
    pub fn open(&self, metadata: impl Into<Arc<FilterMetadata>>, source: Arc<dyn FilterSource>) -> FileFilters {
        FileFilters::open(&self.config, metadata.into(), Some(source))
    }

    /// Opens a file's filters for an engine that reads by itself: lookups say
    /// [what they still need](super::Candidates::reads), and until they have it, the file is a candidate.
    #[must_use]
    pub fn open_to_be_read(&self, metadata: impl Into<Arc<FilterMetadata>>) -> FileFilters {
        FileFilters::open(&self.config, metadata.into(), None)
    }

    /// A file of which no filter is used. All of its keys, and all that its range tombstones delete, are in the range
    /// `keys`; the range `..` says nothing about them. An end that is excluded counts as included: at a level other
    /// than 0, give `..` for a file whose range ends where its neighbour begins.
    #[must_use]
    pub fn open_unfiltered<'a>(&self, keys: impl Into<KeyRange<'a>>) -> FileFilters {
        let metadata = FilterMetadata::without_filters(self.filters().hasher().identity(), keys.into().into());
        FileFilters::open(&self.config, metadata.into(), None)
    }
}
