//! What holds for all files of a store.

use std::sync::Arc;

use sstfilter::{AutoPolicy, BuildContext, FilterPolicy, KeyExtractor, KeyHasher, KeyParts, KindRegistry};
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

/// How the filters of a store are built and read: the hash, the parts of keys, the policies and the memory. Clones
/// share the memory.
///
/// Make one when the store is opened. What differs for a file, such as its policy, is set on a clone.
///
/// ```
/// use std::sync::Arc;
/// use sstfilter_store::{FilterBudget, FilterStore, FilterView, ViewEdit};
///
/// let store = FilterStore::default().with_budget(FilterBudget::new(64 << 20));
///
/// // Once per file that is written: keys in order.
/// let mut builder = store.builder(&store.build_context());
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
        Self::new(&KeyHasher::default())
    }
}

impl FilterStore {
    /// A store whose keys are hashed by `hasher`. Unless set otherwise, filters hold whole keys and are built by the
    /// default [`AutoPolicy`], there are no range filters, and filters stay in memory from when their file is opened.
    #[must_use]
    pub fn new(hasher: &KeyHasher) -> Self {
        let config = Config {
            reader: Arc::new(Reader { hasher: hasher.clone(), ..Reader::default() }),
            policy: Some(Arc::new(AutoPolicy::default())),
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
            change(Arc::make_mut(&mut config.reader));
            config.trust = Arc::default();
        })
    }

    /// Another hasher.
    #[must_use]
    pub fn with_hasher(self, hasher: &KeyHasher) -> Self {
        self.with_reader(|reader| reader.hasher = hasher.clone())
    }

    /// The parts of keys that filters hold, and that lookups and scans probe for. An extractor can be added to a store
    /// at any time, and counts for files that are opened from then on: older ones, whose filters do not hold its parts,
    /// are not skipped by them.
    #[must_use]
    pub fn with_key_parts(self, parts: KeyParts) -> Self {
        self.with_reader(|reader| reader.parts = parts)
    }

    /// Kinds of filters of the engine's own.
    #[must_use]
    pub fn with_kinds(self, kinds: KindRegistry) -> Self {
        self.with_reader(|reader| reader.kinds = kinds)
    }

    /// Which filters files get.
    #[must_use]
    pub fn with_policy(self, policy: Arc<dyn FilterPolicy>) -> Self {
        self.with(|config| config.policy = Some(policy))
    }

    /// Files get no filters for lookups.
    #[must_use]
    pub fn without_filters(self) -> Self {
        self.with(|config| config.policy = None)
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

    /// The kinds of the engine's own.
    #[must_use]
    pub fn kinds(&self) -> &KindRegistry {
        &self.config.reader.kinds
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

    /// The hasher of the store's keys.
    #[must_use]
    pub fn hasher(&self) -> &KeyHasher {
        &self.config.reader.hasher
    }

    /// The parts of keys that are probed for.
    #[must_use]
    pub fn key_parts(&self) -> &KeyParts {
        &self.config.reader.parts
    }

    /// Why no filter of the store is used, if none is: the hasher or an extractor is not what its tag or name says.
    /// Open the store again with the right one.
    #[must_use]
    pub fn problem(&self) -> Option<&FilterProblem> {
        self.config.trust.get()
    }

    /// What is known of a file that is to be written, with the store's hasher and parts of keys.
    #[must_use]
    pub fn build_context(&self) -> BuildContext {
        let Reader { hasher, parts, .. } = &*self.config.reader;
        BuildContext::new(hasher).with_key_parts(parts.clone())
    }

    /// A builder for the filters of one file. The hasher and the parts of keys are the store's, whatever `context` has.
    /// Without a file id in the context, the builder draws one.
    #[must_use]
    pub fn builder(&self, context: &BuildContext) -> FileFilterBuilder {
        FileFilterBuilder::new(&self.config, context)
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
        let metadata = FilterMetadata::without_filters(self.hasher().identity(), keys.into().into());
        FileFilters::open(&self.config, metadata.into(), None)
    }
}
