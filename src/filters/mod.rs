//! The configuration of a store's filters: how keys are hashed, and how filters are built and read.

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

/// How a store builds and reads its filters: the hash, the parts of keys, the policy, and user-defined kinds.
///
/// Create one when the store opens, and keep it as long as the store is open. Writers and readers then agree on the
/// hash and the parts of keys. Clones are cheap: they share their contents.
///
/// ```
/// use sstfilter::{FileId, Filters};
///
/// let filters = Filters::default(); // once per store
///
/// // Once per file that is written. Keep the random id in the file's metadata.
/// let file = FileId::random();
/// let mut builder = filters.builder(file);
/// builder.add_key(b"apple");
/// let block = builder.finish().block; // None if the policy wants no filter for this file
///
/// // Once per file that is opened. Loading never fails: if anything is wrong, every key may be present.
/// let filter = filters.load(block, file);
///
/// // Once per lookup and file.
/// assert!(!filter.probe(b"apple").is_absent());
/// ```
///
/// To look for one key in many files, hash it once:
///
/// ```
/// # use sstfilter::{FileId, Filters};
/// # let filters = Filters::default();
/// # let open = |id| filters.load(filters.builder(id).finish().block, id);
/// # let files = [open(FileId::random()), open(FileId::random())];
/// let hash = filters.hash(b"pear");
/// let to_search = files.iter().filter(|filter| !filter.probe_hash(hash).is_absent());
/// assert_eq!(to_search.count(), 0);
/// ```
///
/// A [`FilterSet`] probes the filters of many files together. The package `sstfilter-store` adds partitions, memory
/// budgets, range filters, and files that come and go.
#[derive(Clone, Debug)]
#[must_use]
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
    /// Filters that the default [`AutoPolicy`] chooses.
    fn default() -> Self {
        Self::new(AutoPolicy::default())
    }
}

impl Filters {
    /// Filters that `policy` chooses. By default, keys are hashed with a fixed seed, and filters hold whole keys.
    pub fn new(policy: impl FilterPolicy + 'static) -> Self {
        let (hasher, parts, kinds) = (KeyHasher::default(), KeyParts::whole_keys(), KindRegistry::default());
        Self { shared: Arc::new(Shared { hasher, parts, kinds, policy: Arc::new(policy) }) }
    }

    fn with(mut self, change: impl FnOnce(&mut Shared)) -> Self {
        // Clones from before keep their settings.
        change(Arc::make_mut(&mut self.shared));
        self
    }

    /// Hashes keys with `hasher`. Filters built with another hash are not used.
    pub fn with_hasher(self, hasher: KeyHasher) -> Self {
        self.with(|shared| shared.hasher = hasher)
    }

    /// Puts these parts of keys into filters, and probes for them. You can add an extractor to a store at any time:
    /// older filters record that they lack its parts, and answer "may be present" for prefixes.
    pub fn with_key_parts(self, parts: KeyParts) -> Self {
        self.with(|shared| shared.parts = parts)
    }

    /// Also reads filters of these user-defined kinds.
    pub fn with_kinds(self, kinds: KindRegistry) -> Self {
        self.with(|shared| shared.kinds = kinds)
    }

    /// Builds the filters that `policy` chooses. Reading does not depend on the policy.
    pub fn with_policy(self, policy: impl FilterPolicy + 'static) -> Self {
        self.with(|shared| shared.policy = Arc::new(policy))
    }

    /// The hasher.
    pub fn hasher(&self) -> &KeyHasher {
        &self.shared.hasher
    }

    /// The parts of keys.
    pub fn key_parts(&self) -> &KeyParts {
        &self.shared.parts
    }

    /// The user-defined kinds.
    #[must_use]
    pub fn kinds(&self) -> &KindRegistry {
        &self.shared.kinds
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &Arc<dyn FilterPolicy> {
        &self.shared.policy
    }

    /// Hashes a key, for the filters of all files.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        self.shared.hasher.hash(key)
    }

    /// Hashes a prefix of keys, for the filters of all files.
    pub fn prefix<'a>(&self, prefix: &'a [u8]) -> PreparedPrefix<'a> {
        self.shared.parts.prefix(&self.shared.hasher, prefix)
    }

    /// Returns a builder for the filter of a new file. The block is bound to `file`, an id that no other contents may
    /// ever have: use [`FileId::random`].
    pub fn builder(&self, file: FileId) -> FilterBuilder {
        FilterBuilder::new(self.policy().clone(), self.build_context(file))
    }

    /// Loads a file's filter from its block. Loading never fails: if there is no block, or its bytes are damaged or
    /// belong to another file, the reader answers that every key may be present, and [`FilterReader::problem`] says
    /// why: [`BlockError::Missing`] if there is no block.
    ///
    /// Loading reads the block once to verify its checksums. Its bytes can be owned, shared, borrowed or mapped.
    pub fn load<D: AsRef<[u8]>>(&self, block: Option<D>, file: FileId) -> FilterReader<D> {
        self.load_with(block, self.load_context(file))
    }

    /// Loads a file's filter, and checks that it contains these keys of the file. Pass the first and the last key, with
    /// the bytes that were added. No id detects a custom hash or an extractor that changed under an old name; known
    /// keys do. [`LoadContext::with_known_keys`] has the details.
    pub fn load_with_known_keys<D: AsRef<[u8]>>(
        &self,
        block: Option<D>,
        file: FileId,
        known_keys: &[impl AsRef<[u8]>],
    ) -> FilterReader<D> {
        let known_keys: Vec<&[u8]> = known_keys.iter().map(AsRef::as_ref).collect();
        self.load_with(block, self.load_context(file).with_known_keys(&known_keys))
    }

    fn load_with<D: AsRef<[u8]>>(&self, block: Option<D>, context: LoadContext<'_>) -> FilterReader<D> {
        self.reader(block.ok_or(BlockError::Missing).and_then(|block| FilterBlock::load(block, context)))
    }

    /// Returns a reader for a block that was opened before or could not be read. An unverified block is verified now.
    /// The block of a single partition holds only some of the file's keys, so the reader does not use it.
    pub fn reader<D: AsRef<[u8]>>(&self, block: Result<FilterBlock<D>, BlockError>) -> FilterReader<D> {
        FilterReader::new(block, self)
    }

    /// Returns the context that policies receive, for engines that call [`FilterPolicy::builder`] themselves.
    pub fn build_context(&self, file: FileId) -> BuildContext {
        BuildContext::new(self.hasher()).with_key_parts(self.key_parts().clone()).with_file_id(file)
    }

    /// Returns the context that a file's block is checked against, for engines that call [`FilterBlock::load`]
    /// themselves.
    pub fn load_context(&self, file: FileId) -> LoadContext<'_> {
        LoadContext::new(self.hasher()).with_key_parts(self.key_parts()).with_kinds(self.kinds()).with_file_id(file)
    }
}
