//! One object for a store: how its keys are hashed, and how its filters are built and read.

mod builder;
mod reader;
mod set;

use alloc::sync::Arc;
use alloc::vec::Vec;

pub use builder::FilterBuilder;
pub use reader::{FilterReader, LookupOutcome};
pub use set::FilterSet;

use crate::block::{FilterBlock, KindRegistry, LoadContext};
use crate::error::BlockError;
use crate::hash::{KeyHash, KeyHasher, KeyParts, PreparedPrefix};
use crate::ids::FileId;
use crate::policy::{AutoPolicy, BuildContext, FilterPolicy};

/// How the filters of a store are built and read: the hash, the parts of keys, the policy, and kinds of your own.
///
/// Make one when the store is opened, and keep it for as long as the store is open. What builds a filter and what
/// probes it then agree. Clones are cheap, and share what they have in common.
///
/// ```
/// use sstfilter::{FileId, Filters};
///
/// let filters = Filters::default(); // once per store
///
/// // Once per file that is written. Its id is drawn at random, and kept in the file's metadata.
/// let file = FileId::random();
/// let mut builder = filters.builder(file);
/// builder.add_key(b"apple");
/// let block = builder.finish().block; // None: always search this file
///
/// // Once per file that is opened. Loading never fails: if anything is wrong, every key may be present.
/// let filter = filters.load(block.unwrap(), file);
///
/// // Once per lookup and file.
/// assert!(!filter.probe(b"apple").is_absent());
/// ```
///
/// An engine that looks for a key in many files hashes it once:
///
/// ```
/// # use sstfilter::{FileId, Filters};
/// # let filters = Filters::default();
/// # let open = |id| filters.load(filters.builder(id).finish().block.unwrap(), id);
/// # let files = [open(FileId::random()), open(FileId::random())];
/// let hash = filters.hash(b"pear");
/// let to_search = files.iter().filter(|filter| !filter.probe_hash(hash).is_absent());
/// assert_eq!(to_search.count(), 0);
/// ```
///
/// A [`FilterSet`] probes all of them at once. The package `sstfilter-store` adds partitions, memory budgets, range
/// filters, and files that come and go.
#[derive(Clone, Debug)]
pub struct Filters {
    shared: Arc<Shared>,
}

#[derive(Clone, Debug)]
struct Shared {
    hasher: KeyHasher,
    parts: KeyParts,
    kinds: KindRegistry,
    policy: Arc<dyn FilterPolicy>,
}

impl Default for Filters {
    /// The default [`AutoPolicy`].
    fn default() -> Self {
        Self::new(AutoPolicy::default())
    }
}

impl Filters {
    /// Filters that `policy` chooses. By default, keys are hashed with a fixed seed and filters hold whole keys.
    #[must_use]
    pub fn new(policy: impl FilterPolicy + 'static) -> Self {
        let (hasher, parts, kinds) = (KeyHasher::default(), KeyParts::whole_keys(), KindRegistry::default());
        Self { shared: Arc::new(Shared { hasher, parts, kinds, policy: Arc::new(policy) }) }
    }

    fn with(mut self, change: impl FnOnce(&mut Shared)) -> Self {
        change(Arc::make_mut(&mut self.shared));
        self
    }

    /// Hashes keys with `hasher`. Filters that were built with another hash are not used.
    #[must_use]
    pub fn with_hasher(self, hasher: &KeyHasher) -> Self {
        self.with(|shared| shared.hasher = hasher.clone())
    }

    /// Puts these parts of keys into filters, and probes for them. An extractor can be added to a store at any time:
    /// filters from before do not hold its parts, say so, and answer "may be present" for prefixes.
    #[must_use]
    pub fn with_key_parts(self, parts: KeyParts) -> Self {
        self.with(|shared| shared.parts = parts)
    }

    /// Reads filters of these kinds of your own, too.
    #[must_use]
    pub fn with_kinds(self, kinds: KindRegistry) -> Self {
        self.with(|shared| shared.kinds = kinds)
    }

    /// Builds the filters that `policy` chooses. Filters that exist are read whatever policy chose them.
    #[must_use]
    pub fn with_policy(self, policy: impl FilterPolicy + 'static) -> Self {
        self.with(|shared| shared.policy = Arc::new(policy))
    }

    /// The hasher.
    #[must_use]
    pub fn hasher(&self) -> &KeyHasher {
        &self.shared.hasher
    }

    /// The parts of keys.
    #[must_use]
    pub fn key_parts(&self) -> &KeyParts {
        &self.shared.parts
    }

    /// The kinds of your own.
    #[must_use]
    pub fn kinds(&self) -> &KindRegistry {
        &self.shared.kinds
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &Arc<dyn FilterPolicy> {
        &self.shared.policy
    }

    /// The hash of a key, which serves the filters of all files.
    #[inline]
    #[must_use]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        self.shared.hasher.hash(key)
    }

    /// A prefix of keys, hashed for the filters of all files.
    #[must_use]
    pub fn prefix<'a>(&self, prefix: &'a [u8]) -> PreparedPrefix<'a> {
        self.shared.parts.prefix(&self.shared.hasher, prefix)
    }

    /// A builder for the filter of a file that is to be written. The block is bound to `file`: an id that no other
    /// contents ever have, such as [`FileId::random`] gives.
    #[must_use]
    pub fn builder(&self, file: FileId) -> FilterBuilder {
        FilterBuilder::new(self.policy().clone(), self.build_context(file))
    }

    /// Loads a file's filter from its block. Loading never fails. If the bytes are damaged, or are not the filter of
    /// `file`, every key may be present, and [`FilterReader::problem`] says why.
    ///
    /// The block is read once, to compare its checksum. `data` can be owned, shared, borrowed or mapped.
    pub fn load<D: AsRef<[u8]>>(&self, data: D, file: FileId) -> FilterReader<D> {
        self.reader(FilterBlock::load(data, self.load_context(file)))
    }

    /// The same, and the filter must contain these keys of the file: pass the first and the last, as they are in the
    /// file. This finds what no id shows: a custom hash or an extractor that was changed under its name.
    /// [`LoadContext::with_known_keys`] has the details.
    pub fn load_with_known_keys<D: AsRef<[u8]>>(
        &self,
        data: D,
        file: FileId,
        known_keys: &[impl AsRef<[u8]>],
    ) -> FilterReader<D> {
        let known_keys: Vec<&[u8]> = known_keys.iter().map(AsRef::as_ref).collect();
        self.reader(FilterBlock::load(data, self.load_context(file).with_known_keys(&known_keys)))
    }

    /// A reader of a block that was opened before, or that could not be read. An unverified block is verified now. A
    /// block of one partition holds only a part of the file's keys, and is not used.
    pub fn reader<D: AsRef<[u8]>>(&self, block: Result<FilterBlock<D>, BlockError>) -> FilterReader<D> {
        FilterReader::new(block, self)
    }

    /// What a policy is told about a file: for engines that call [`FilterPolicy::builder`] themselves.
    #[must_use]
    pub fn build_context(&self, file: FileId) -> BuildContext {
        BuildContext::new(self.hasher()).with_key_parts(self.key_parts().clone()).with_file_id(file)
    }

    /// What a file's block is checked against: for engines that call [`FilterBlock::load`] themselves.
    #[must_use]
    pub fn load_context(&self, file: FileId) -> LoadContext<'_> {
        LoadContext::new(self.hasher()).with_key_parts(self.key_parts()).with_kinds(self.kinds()).with_file_id(file)
    }
}
