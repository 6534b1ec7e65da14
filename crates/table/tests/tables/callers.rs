//! Policies, builders and extractors as a caller may write them, made of functions.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use sstfilter::{BlockBuilder, BuildContext, BuiltFilter, FilterPolicy, FixedPolicy, KeyExtractor, KeyHash};

/// A policy that makes its builders by a function.
pub(crate) struct Policy<F>(F);

impl<F: Fn(&BuildContext) -> Option<Builder> + Send + Sync + 'static> Policy<F> {
    pub(crate) fn of(builder: F) -> Arc<dyn FilterPolicy> {
        Arc::new(Self(builder))
    }
}

impl<F> fmt::Debug for Policy<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Policy")
    }
}

impl<F: Fn(&BuildContext) -> Option<Builder> + Send + Sync> FilterPolicy for Policy<F> {
    fn name(&self) -> &'static str {
        "caller"
    }

    fn builder(&self, context: &BuildContext) -> Option<Box<dyn BlockBuilder>> {
        Some(Box::new((self.0)(context)?))
    }
}

type Add = dyn FnMut(&mut dyn BlockBuilder, &[u8]) + Send;
type Finish = dyn FnOnce(Box<dyn BlockBuilder>) -> BuiltFilter + Send;

/// The default policy's builder, with functions in place of some of its calls.
pub(crate) struct Builder {
    inner: Box<dyn BlockBuilder>,
    add: Box<Add>,
    finish: Box<Finish>,
    estimate: Option<u64>,
}

impl Builder {
    pub(crate) fn new(context: &BuildContext) -> Self {
        let inner = FixedPolicy::default().builder(context);
        Self {
            inner,
            add: Box::new(|inner, key| inner.add_key(key)),
            finish: Box::new(BlockBuilder::finish),
            estimate: None,
        }
    }

    pub(crate) fn adding(self, add: impl FnMut(&mut dyn BlockBuilder, &[u8]) + Send + 'static) -> Self {
        Self { add: Box::new(add), ..self }
    }

    pub(crate) fn finishing(self, finish: impl FnOnce(Box<dyn BlockBuilder>) -> BuiltFilter + Send + 'static) -> Self {
        Self { finish: Box::new(finish), ..self }
    }

    pub(crate) fn estimating(self, bytes: u64) -> Self {
        Self { estimate: Some(bytes), ..self }
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl BlockBuilder for Builder {
    fn add_key(&mut self, key: &[u8]) {
        (self.add)(&mut *self.inner, key);
    }

    fn add_hash(&mut self, hash: KeyHash) {
        self.inner.add_hash(hash);
    }

    fn estimated_bytes(&self) -> u64 {
        self.estimate.unwrap_or_else(|| self.inner.estimated_bytes())
    }

    fn finish(self: Box<Self>) -> BuiltFilter {
        (self.finish)(self.inner)
    }
}

type Extract = dyn for<'key> Fn(&'key [u8]) -> Option<&'key [u8]> + Send + Sync;

/// An extractor that is a function.
pub(crate) struct Extractor {
    name: String,
    extract: Box<Extract>,
    /// Whether a prefix has the part that it would have as a key. Otherwise, no prefix has a part.
    is_of_prefixes: bool,
}

impl Extractor {
    pub(crate) fn new(
        name: impl Into<String>,
        extract: impl for<'key> Fn(&'key [u8]) -> Option<&'key [u8]> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { name: name.into(), extract: Box::new(extract), is_of_prefixes: false })
    }

    /// An extractor that promises what its function may not keep: that a longer key has the part of a shorter one.
    pub(crate) fn of_prefixes(
        name: impl Into<String>,
        extract: impl for<'key> Fn(&'key [u8]) -> Option<&'key [u8]> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { name: name.into(), extract: Box::new(extract), is_of_prefixes: true })
    }
}

impl fmt::Debug for Extractor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl KeyExtractor for Extractor {
    fn name(&self) -> &str {
        &self.name
    }

    fn extract<'key>(&self, key: &'key [u8]) -> Option<Cow<'key, [u8]>> {
        (self.extract)(key).map(Cow::Borrowed)
    }

    fn extract_prefix<'key>(&self, prefix: &'key [u8]) -> Option<Cow<'key, [u8]>> {
        if self.is_of_prefixes { self.extract(prefix) } else { None }
    }
}
