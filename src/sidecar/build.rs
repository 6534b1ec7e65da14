//! Building a sidecar from the keys of a table.

use core::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::error::SidecarError;
use super::format::Sidecar;
use super::identity::TableIdentity;
use crate::block::trailer::Trailer;
use crate::error::BlockError;
use crate::hash::HashIdentity;
use crate::partition::{PartitionOptions, PartitionedBuilder};
use crate::policy::{BuildContext, BuildReason, BuildReport, FilterBuilder, FilterPolicy};

/// Builds the sidecar of one table: `add_key* finish`. Keys come in any order, but in ascending order for a filter that
/// is cut by key range.
///
/// Every key of the table is added, the deleted ones too: a lookup that does not find a tombstone goes on to older
/// tables, where the key may still be. The [module](super) has an example.
///
/// If a hash function or an extractor of the engine's panics in [`add_key`](Self::add_key), the filter may lack that
/// key: then there is no sidecar ([`BuildReason::Interrupted`](crate::BuildReason::Interrupted)).
#[derive(Debug)]
pub struct SidecarBuilder {
    table: TableIdentity,
    policy: Arc<dyn FilterPolicy>,
    context: BuildContext,
    partitions: Option<PartitionOptions>,
    /// Begun with the first key.
    filter: Option<Filter>,
    /// Set while code of the engine's may run: it stays set if that panics.
    is_interrupted: bool,
}

enum Filter {
    Declined,
    Whole(Box<dyn FilterBuilder>),
    Partitioned(Box<PartitionedBuilder>),
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Declined => "declined",
            Self::Whole(_) => "whole",
            Self::Partitioned(_) => "partitioned",
        })
    }
}

/// A sidecar, or the reason why there is none.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BuiltSidecar {
    /// The bytes of the whole file; `None` where no filter was built, where the one built does not hold the parts of
    /// keys of the context, or where the policy declined.
    pub bytes: Option<Bytes>,
    /// How the filter was built; `None` where the policy declined.
    pub filter: Option<BuildReport>,
}

impl BuiltSidecar {
    /// That of a policy that wants no filter.
    pub(crate) const DECLINED: Self = Self { bytes: None, filter: None };
}

impl SidecarBuilder {
    /// A sidecar for `table`, with a filter that `policy` chooses, of the context's
    /// [parts of keys](BuildContext::with_key_parts). The context's file id has no effect: the filter is bound to the
    /// table.
    #[must_use]
    pub fn new(policy: Arc<dyn FilterPolicy>, context: &BuildContext, table: &TableIdentity) -> Self {
        let context = context.clone().with_file_id(table.file_id());
        Self { table: *table, policy, context, partitions: None, filter: None, is_interrupted: false }
    }

    /// Cuts the filter into partitions. To be called before keys are added; later it has no effect. To read it, check
    /// the first [`Sidecar::filter_bytes`] bytes of the file with [`Sidecar::check_filter`], and load them as a
    /// [`PartitionedFilter`](crate::partition::PartitionedFilter) for the table's [`file_id`](TableIdentity::file_id);
    /// or keep a [`PartitionIndex`](crate::partition::PartitionIndex) of them.
    #[must_use]
    pub fn with_partitions(self, options: PartitionOptions) -> Self {
        Self { partitions: Some(options), ..self }
    }

    /// Adds a key: its parts, hashed with the context's hasher.
    ///
    /// # Panics
    ///
    /// If the caller's code does. The sidecar is then not built.
    pub fn add_key(&mut self, key: &[u8]) {
        self.begin();
        let was_interrupted = core::mem::replace(&mut self.is_interrupted, true);
        match &mut self.filter {
            Some(Filter::Whole(filter)) => filter.add_key(key),
            Some(Filter::Partitioned(filter)) => filter.add_key(key),
            Some(Filter::Declined) | None => {}
        }
        self.is_interrupted = was_interrupted;
    }

    /// Adds all keys that `keys` gives. An error ends the builder: a filter without the keys after it would lose them.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use sstfilter::sidecar::{SidecarBuilder, TableIdentity};
    /// use sstfilter::{AutoPolicy, BuildContext, KeyHasher};
    ///
    /// let context = BuildContext::new(&KeyHasher::default());
    /// let table = TableIdentity::new([1; 16], 100, 2);
    /// let keys = [Ok("apple"), Err("a damaged block"), Ok("cherry")];
    /// let read = SidecarBuilder::new(Arc::new(AutoPolicy::default()), &context, &table).with_keys(keys);
    /// assert_eq!(read.unwrap_err(), "a damaged block");
    /// ```
    ///
    /// # Errors
    ///
    /// The first error of `keys`.
    pub fn with_keys<K: AsRef<[u8]>, E>(mut self, keys: impl IntoIterator<Item = Result<K, E>>) -> Result<Self, E> {
        for key in keys {
            self.add_key(key?.as_ref());
        }
        Ok(self)
    }

    /// Builds the filter and seals it.
    ///
    /// # Errors
    ///
    /// [`SidecarError::Filter`] for a filter that no reader would use: its policy has built it for another hash or file
    /// than those of its context. [`SidecarError::Field`] for names of extractors that are empty or too long.
    pub fn finish(mut self) -> Result<BuiltSidecar, SidecarError> {
        self.begin();
        let (hash, parts) = (self.context.hasher.identity(), self.context.key_parts.clone());
        let names = parts.extractors().map(|extractor| extractor.name().len());
        if let Some(got) = names.map(|length| length as u64).find(|length| !(1..=255).contains(length)) {
            let (field, expected) = ("bytes of an extractor's name", "1 to 255");
            return Err(SidecarError::Field { field, expected, got });
        }
        let (block, mut report) = match self.filter.take() {
            None | Some(Filter::Declined) => return Ok(BuiltSidecar::DECLINED),
            Some(Filter::Whole(filter)) => {
                let built = filter.finish().with_parts(&parts);
                built.block.iter().try_for_each(|block| check(block, hash, &self.table))?;
                (built.block, built.report)
            }
            Some(Filter::Partitioned(filter)) => {
                let built = filter.finish();
                let report = built.report();
                (built.seal(), report)
            }
        };
        if self.is_interrupted {
            report = BuildReport { reason: BuildReason::Interrupted, ..BuildReport::new(report.requested) };
            return Ok(BuiltSidecar { bytes: None, filter: Some(report) });
        }
        let held = parts.without(&report.unstable_extractors);
        // The name of whole keys is empty.
        let whole_keys = held.has_whole_keys().then_some("");
        let names: Vec<&str> = whole_keys.into_iter().chain(held.extractors().map(|part| part.name())).collect();
        let bytes = block.map(|block| Sidecar::seal(&block, &self.table, &names)).transpose()?;
        Ok(BuiltSidecar { bytes, filter: Some(report) })
    }

    /// Whether the policy wants no filter: then no key needs to be read.
    pub(crate) fn has_declined(&mut self) -> bool {
        self.begin();
        matches!(self.filter, Some(Filter::Declined))
    }

    fn begin(&mut self) {
        if self.filter.is_some() {
            return;
        }
        // The policy may panic, and its caller go on: the key that is being added would be in no filter.
        let was_interrupted = core::mem::replace(&mut self.is_interrupted, true);
        self.filter = Some(match self.partitions {
            Some(options) => {
                let builder = PartitionedBuilder::new(Arc::clone(&self.policy), &self.context, options);
                Filter::Partitioned(Box::new(builder))
            }
            None => self.policy.builder(&self.context).map_or(Filter::Declined, Filter::Whole),
        });
        self.is_interrupted = was_interrupted;
    }
}

/// Whether a reader of the table would use `block`.
fn check(block: &[u8], hash: HashIdentity, table: &TableIdentity) -> Result<(), BlockError> {
    let (got, file) = (Trailer::decode(block)?.identity, Some(table.file_id()));
    if got.file != file {
        return Err(BlockError::FileMismatch { expected: file, got: got.file });
    }
    if got.hash != hash {
        return Err(BlockError::HashMismatch { expected: hash, got: got.hash });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::hash::{FixedPrefix, KeyHash, KeyHasher, KeyParts};
    use crate::partition::PartitionIndex;
    use crate::policy::{AutoPolicy, KindPolicy};

    const TABLE: TableIdentity = TableIdentity { id: [7; 16], bytes: 4_096, checksum: 0xfeed };

    fn builder(policy: impl FilterPolicy + 'static) -> SidecarBuilder {
        builder_of(policy, KeyParts::whole_keys())
    }

    fn builder_of(policy: impl FilterPolicy + 'static, parts: KeyParts) -> SidecarBuilder {
        let context = BuildContext::new(&KeyHasher::with_seed(9)).with_key_parts(parts);
        SidecarBuilder::new(Arc::new(policy), &context, &TABLE)
    }

    fn build(mut builder: SidecarBuilder) -> Result<BuiltSidecar, SidecarError> {
        (0..3_000_u32).for_each(|key| builder.add_key(&key.to_le_bytes()));
        builder.finish()
    }

    fn opened(file: &Bytes) -> (Sidecar, Bytes) {
        let sidecar = Sidecar::open(file, file.len() as u64, &TABLE).unwrap();
        let filter = file.slice(..sidecar.filter_bytes() as usize);
        (sidecar, filter)
    }

    #[test]
    fn every_key_is_in_the_filter_of_a_sidecar_and_the_report_tells_of_it() {
        let built = build(builder(AutoPolicy::default())).unwrap();
        let (sidecar, filter) = opened(&built.bytes.unwrap());
        let hasher = KeyHasher::with_seed(9);
        let filter = sidecar.load_filter(filter, &hasher).unwrap();
        assert!((0..3_000_u32).all(|key| filter.may_contain(hasher.hash(&key.to_le_bytes()))));
        assert_eq!(built.filter.unwrap().block_bytes, sidecar.filter_bytes());
        assert!(sidecar.key_parts().eq([""]));
    }

    #[test]
    fn every_part_of_every_key_is_in_the_filter_and_has_its_name_in_the_sidecar() {
        let parts = KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(2)));
        let built = build(builder_of(KindPolicy::default(), parts.clone())).unwrap();
        let (sidecar, filter) = opened(&built.bytes.unwrap());
        assert!(sidecar.key_parts().eq(["", "fixed-prefix:2"]));
        let hasher = KeyHasher::with_seed(9);
        let filter = sidecar.load_filter(filter, &hasher).unwrap();
        for key in 0..3_000_u32 {
            let key = key.to_le_bytes();
            assert_eq!(parts.hashes(&hasher, &key).filter(|&(_, hash)| filter.may_contain(hash)).count(), 2);
        }
    }

    #[test]
    fn a_partitioned_filter_is_bound_to_the_table_too() {
        let policy = KindPolicy::default();
        let options = PartitionOptions::new(crate::partition::PartitionCut::HashRange, 1_024).unwrap();
        let built = build(builder(policy).with_partitions(options)).unwrap();
        let (sidecar, filter) = opened(&built.bytes.unwrap());
        sidecar.check_filter(&filter).unwrap();
        let tail_bytes = PartitionIndex::tail_bytes(&filter).unwrap() as usize;
        let hasher = KeyHasher::with_seed(9);
        let context = crate::block::LoadContext::new(&hasher);
        let tail = &filter[filter.len() - tail_bytes..];
        let index = PartitionIndex::load(tail, context.with_file_id(TABLE.file_id())).unwrap();
        assert!(index.partitions() > 2 && index.keys() == 3_000);
        assert!(PartitionIndex::load(tail, context).is_err());
    }

    #[test]
    fn a_key_whose_hash_panics_makes_no_sidecar() {
        for partitions in [None, Some(PartitionOptions::default())] {
            let hasher = KeyHasher::custom(1, |key| if key == b"bad" { panic!("a bad key") } else { KeyHash::mix(1) });
            let policy = Arc::new(KindPolicy::default());
            let mut builder = SidecarBuilder::new(policy, &BuildContext::new(&hasher), &TABLE);
            builder.partitions = partitions;
            builder.add_key(b"a");
            assert!(catch_unwind(AssertUnwindSafe(|| builder.add_key(b"bad"))).is_err());
            builder.add_key(b"c");
            let built = builder.finish().unwrap();
            assert!(built.bytes.is_none());
            assert_eq!(built.filter.unwrap().reason, BuildReason::Interrupted);
        }
    }

    /// Panics when it is first called.
    #[derive(Debug, Default)]
    struct PanicsOnce(std::sync::atomic::AtomicBool);

    impl FilterPolicy for PanicsOnce {
        fn name(&self) -> &'static str {
            "panics-once"
        }

        fn builder(&self, context: &BuildContext) -> Option<Box<dyn FilterBuilder>> {
            assert!(self.0.swap(true, std::sync::atomic::Ordering::Relaxed), "the first call");
            Some(KindPolicy::default().builder(context))
        }
    }

    #[test]
    fn a_policy_that_panics_costs_the_filter_and_no_key() {
        let mut builder = builder(PanicsOnce::default());
        assert!(catch_unwind(AssertUnwindSafe(|| builder.add_key(b"a"))).is_err());
        builder.add_key(b"b");
        let built = builder.finish().unwrap();
        assert!(built.bytes.is_none());
        assert_eq!(built.filter.unwrap().reason, BuildReason::Interrupted);
    }

    /// The first bytes of a key, up to two: `a` and `ab` have different parts.
    #[derive(Debug)]
    struct UpToTwo;

    impl crate::KeyExtractor for UpToTwo {
        fn name(&self) -> &'static str {
            "up-to-two"
        }

        fn extract<'key>(&self, key: &'key [u8]) -> Option<std::borrow::Cow<'key, [u8]>> {
            Some(key[..key.len().min(2)].into())
        }

        fn extract_prefix<'key>(&self, prefix: &'key [u8]) -> Option<std::borrow::Cow<'key, [u8]>> {
            self.extract(prefix)
        }
    }

    #[test]
    fn an_extractor_that_breaks_its_promise_has_no_name_in_the_sidecar() {
        let parts = KeyParts::whole_keys().with_extractor(Arc::new(UpToTwo));
        let built = build(builder_of(KindPolicy::default(), parts)).unwrap();
        assert!(opened(&built.bytes.unwrap()).0.key_parts().eq([""]));
        let alone = build(builder_of(KindPolicy::default(), KeyParts::extracted(Arc::new(UpToTwo)))).unwrap();
        let report = alone.filter.unwrap();
        assert_eq!((alone.bytes, report.reason), (None, BuildReason::UnstableExtractor));
        assert_eq!(report.unstable_extractors, ["up-to-two"]);
    }

    /// The empty name stands for whole keys: a reader of these would find every key absent.
    #[test]
    fn an_extractor_whose_name_is_empty_or_too_long_makes_no_sidecar() {
        #[derive(Debug)]
        struct Named(String);
        impl crate::KeyExtractor for Named {
            fn name(&self) -> &str {
                &self.0
            }
            fn extract<'key>(&self, key: &'key [u8]) -> Option<std::borrow::Cow<'key, [u8]>> {
                key.get(..2).map(Into::into)
            }
        }
        for length in [0, 256] {
            for partitions in [None, Some(PartitionOptions::default())] {
                let parts = KeyParts::extracted(Arc::new(Named("x".repeat(length))));
                let builder = SidecarBuilder { partitions, ..builder_of(KindPolicy::default(), parts) };
                let got = length as u64;
                assert!(matches!(build(builder), Err(SidecarError::Field { got: other, .. }) if other == got));
            }
        }
    }

    /// Hashes whole keys, whatever its context says.
    #[derive(Debug)]
    struct HashesWholeKeys(KeyHasher);

    #[derive(Debug)]
    struct WholeKeys(KeyHasher, Box<dyn FilterBuilder>);

    impl FilterPolicy for HashesWholeKeys {
        fn name(&self) -> &'static str {
            "hashes-whole-keys"
        }

        fn builder(&self, context: &BuildContext) -> Option<Box<dyn FilterBuilder>> {
            Some(Box::new(WholeKeys(self.0.clone(), KindPolicy::default().builder(context))))
        }
    }

    impl FilterBuilder for WholeKeys {
        fn add_key(&mut self, key: &[u8]) {
            self.1.add_hash(self.0.hash(key));
        }

        fn add_hash(&mut self, hash: KeyHash) {
            self.1.add_hash(hash);
        }

        fn estimated_bytes(&self) -> u64 {
            self.1.estimated_bytes()
        }

        fn finish(self: Box<Self>) -> crate::BuiltFilter {
            self.1.finish()
        }
    }

    #[test]
    fn a_builder_of_an_engine_that_adds_whole_keys_alone_makes_no_filter_of_parts() {
        let policy = || HashesWholeKeys(KeyHasher::with_seed(9));
        for parts in [KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(2))), KeyParts::whole_keys()] {
            let is_whole = parts.are_whole_keys();
            let built = build(builder_of(policy(), parts)).unwrap();
            assert_eq!(built.bytes.is_some(), is_whole);
        }
    }

    /// Builds each filter from a context of its own, or none.
    #[derive(Debug)]
    struct Stubborn(Option<BuildContext>);

    impl FilterPolicy for Stubborn {
        fn name(&self) -> &'static str {
            "stubborn"
        }

        fn builder(&self, _: &BuildContext) -> Option<Box<dyn FilterBuilder>> {
            self.0.as_ref().map(|context| KindPolicy::default().builder(context))
        }
    }

    #[test]
    fn a_policy_that_declines_makes_no_sidecar() {
        let built = build(builder(Stubborn(None))).unwrap();
        assert!(built.bytes.is_none() && built.filter.is_none());
    }

    #[test]
    fn a_policy_that_forgets_what_the_filter_belongs_to_is_found_out_before_anything_is_written() {
        let unbound = BuildContext::new(&KeyHasher::with_seed(9));
        let refused = build(builder(Stubborn(Some(unbound)))).unwrap_err();
        assert!(matches!(refused, SidecarError::Filter(BlockError::FileMismatch { got: None, .. })), "{refused}");
        let of_other_hash = BuildContext::new(&KeyHasher::default()).with_file_id(TABLE.file_id());
        let refused = build(builder(Stubborn(Some(of_other_hash)))).unwrap_err();
        assert!(matches!(refused, SidecarError::Filter(BlockError::HashMismatch { .. })), "{refused}");
    }
}
