//! `FilterStore`: an engine makes its settings here, builds filters and opens files.

use core::ops::Bound;
use std::sync::Arc;

use sstfilter::{FileId, FilterPolicy, Filters, KeyExtractor, KeyRange};

use super::budget::FilterBudget;
use super::build::FileFilterBuilder;
use super::config::{Config, PointFilters};
use super::error::FilterProblem;
use super::file::FileFilters;
use super::identity::TableIdentity;
use super::metadata::{FilterMetadata, KeyBounds};
use super::partition::PartitionOptions;
use super::reader::Reader;
use super::source::FilterSource;

/// The filters of a store: its [`Filters`] with partitions, range filters and a memory budget. Clones share the memory.
///
/// Create one when the store is opened. To give a file other settings, such as its own policy, set them on a clone.
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
/// let file = Arc::new(store.open(metadata, bytes));
///
/// // The files at one time, and the files that a lookup must read.
/// let view = FilterView::new(&store).edited(ViewEdit::new().add(1, file))?;
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
    /// Creates a store with these filters. By default there are no range filters, and filters stay in memory from the
    /// time their file is opened.
    #[must_use]
    pub fn new(filters: Filters) -> Self {
        let config = Config {
            reader: Reader { filters, range_extractor: None },
            points: PointFilters::default(),
            partitions: None,
            ranges: None,
            budget: None,
            // Without automatic plans: nothing has to be divided where everything fits.
            unlimited: FilterBudget::unlimited().without_automatic_plans(),
            trust: Arc::default(),
        };
        Self { config: Arc::new(config) }
    }

    fn with(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(Arc::make_mut(&mut self.config));
        self
    }

    /// Changes how probes are computed, which resets the trust in the hash and the extractors.
    fn with_reader(self, change: impl FnOnce(&mut Reader)) -> Self {
        self.with(|config| {
            change(&mut config.reader);
            config.trust = Arc::default();
        })
    }

    /// Replaces the filters for files that are opened or written from now on.
    #[must_use]
    pub fn with_filters(self, filters: Filters) -> Self {
        self.with_reader(|reader| reader.filters = filters)
    }

    /// Replaces the filter policy for files that are written from now on.
    #[must_use]
    pub fn with_policy(self, policy: impl FilterPolicy + 'static) -> Self {
        self.with(|config| {
            config.reader.filters = config.reader.filters.clone().with_policy(policy);
            // A policy that is set after `without_point_filters` takes effect.
            if config.points == PointFilters::None {
                config.points = PointFilters::default();
            }
        })
    }

    /// Writes files without point filters.
    #[must_use]
    pub fn without_point_filters(self) -> Self {
        self.with_point_filters(PointFilters::None)
    }

    /// Sets which files get point filters next to range filters.
    #[must_use]
    pub fn with_point_filters(self, files: PointFilters) -> Self {
        self.with(|config| config.points = files)
    }

    /// Writes point filters in partitions; a lookup reads one of them.
    #[must_use]
    pub fn with_partitions(self, options: PartitionOptions) -> Self {
        self.with(|config| config.partitions = Some(options))
    }

    /// Writes range filters as well. If the keys of a file are integers, at most eight of them to a key from the
    /// smallest to the largest, its range filter is an exact bitmap. The file then gets no point filter, because the
    /// bitmap answers for its keys, too ([`PointFilters`]); unless the store has a custom hash or does not hold whole
    /// keys, because different bytes can then be one key. A store that only looks keys up gains as much.
    #[cfg(feature = "ranges")]
    #[must_use]
    pub fn with_range_filters(self, policy: sstfilter_range::RangePolicy) -> Self {
        let store = match policy.extractor() {
            Some(extractor) => self.with_range_extractor(extractor.clone()),
            None => self,
        };
        store.with(|config| config.ranges = Some(policy))
    }

    /// Sets the extractor whose prefixes the ranges of range filters lie within, for a store that only reads such
    /// filters. A store that writes them takes it from its policy.
    #[must_use]
    pub fn with_range_extractor(self, extractor: Arc<dyn KeyExtractor>) -> Self {
        self.with_reader(|reader| reader.range_extractor = Some(extractor))
    }

    /// Limits the bytes that filters take together; they are loaded when they are first probed. Files that are written
    /// from now on get filters that can [shrink](FileFilterBuilder::shrinkable). Damage to a filter
    /// shows when it is read ([`FileFilters::problem`]), and not at all while the budget has no room for it:
    /// [`verify`](Self::verify) reads every filter.
    #[must_use]
    pub fn with_budget(self, budget: FilterBudget) -> Self {
        self.with(|config| config.budget = Some(budget))
    }

    /// Returns the hash, the parts of keys that filters hold, and the policy for new files.
    pub fn filters(&self) -> &Filters {
        &self.config.reader.filters
    }

    /// Returns the extractor of the prefixes that ranges lie within.
    #[must_use]
    pub fn range_extractor(&self) -> Option<&Arc<dyn KeyExtractor>> {
        self.config.reader.range_extractor.as_ref()
    }

    /// Returns the memory budget, if there is one.
    #[must_use]
    pub fn budget(&self) -> Option<&FilterBudget> {
        self.config.budget.as_ref()
    }

    /// Returns why the store uses none of its filters, or `None` if it uses them: the hasher or an extractor does not
    /// match its tag or name.
    #[must_use]
    pub fn problem(&self) -> Option<&FilterProblem> {
        self.config.trust.get()
    }

    /// Returns a builder for the filters of a file that is to be written. They are bound to `file`: an id that no other
    /// contents ever have, such as the one from [`FileId::random`].
    pub fn builder(&self, file: FileId) -> FileFilterBuilder {
        FileFilterBuilder::new(self.config.clone(), file, None)
    }

    /// Returns a builder for the [sidecar](super::sidecar_path) of an existing table, whose filters are bound to the id
    /// in its identity. So maps that cover the table still do, and a lookup with another id finds no filter.
    ///
    /// Add all of the table's keys, deleted keys too, and all of its range tombstones: the sidecar replaces the table's
    /// own description. Nothing notices a forgotten tombstone, and the keys that it deletes come back.
    pub fn sidecar_builder(&self, table: &TableIdentity) -> FileFilterBuilder {
        FileFilterBuilder::new(self.config.clone(), table.file, Some(*table))
    }

    /// Opens a file's filters; `source` reads their bytes. This never fails: a filter that is damaged, or belongs to
    /// another file, answers "may be present", and [`FileFilters::problem`] says why.
    ///
    /// Without a [budget](Self::with_budget), this call reads a filter in one block. It always reads the top index of a
    /// partitioned filter. Everything else is read when it is probed, and stays in memory unless there is a budget.
    ///
    /// The description must be the file's own: its key bounds apply whatever the filters say, and another file's bounds
    /// hide keys. Store the [file id](FilterMetadata::file_id) in the file itself as well, and compare it before this
    /// call.
    ///
    /// # Panics
    ///
    /// If the hash or an extractor panics for the file's smallest or largest key.
    #[must_use]
    pub fn open(&self, metadata: impl Into<Arc<FilterMetadata>>, source: impl FilterSource + 'static) -> FileFilters {
        FileFilters::open(&self.config, metadata.into(), Some(Arc::new(source)))
    }

    /// Opens a file's filters for an engine that does its own reads. Lookups say [what they still
    /// need](super::Candidates::reads); until they have it, the file is a candidate.
    #[must_use]
    pub fn open_without_source(&self, metadata: impl Into<Arc<FilterMetadata>>) -> FileFilters {
        FileFilters::open(&self.config, metadata.into(), None)
    }

    /// Opens a file without using any filter. All of its keys, and all keys that its range tombstones delete, must be
    /// in the range `keys`. An excluded start counts as included, an excluded end does not.
    ///
    /// The range `..` says nothing about them. At a level other than 0, a view then cannot tell whether the file
    /// overlaps its neighbours, and returns it before them: its range tombstones must not reach into them. They do not
    /// if the file was added with its description before.
    #[must_use]
    pub fn open_without_description<'a>(&self, keys: impl Into<KeyRange<'a>>) -> FileFilters {
        let keys = keys.into();
        let mut metadata = FilterMetadata::without_filters(self.filters().hasher().identity(), keys.into());
        if let (Bound::Excluded(_), KeyBounds::Keys(_)) = (keys.upper, &metadata.bounds) {
            // As of range tombstones, whose end is excluded, too.
            metadata.range_tombstones = Some(Box::new(core::mem::replace(&mut metadata.bounds, KeyBounds::Empty)));
        }
        FileFilters::open(&self.config, metadata.into(), None)
    }
}
