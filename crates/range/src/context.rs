//! The context against which a range filter is checked when it is loaded.

use std::sync::Arc;

use sstfilter::{HashIdentity, KeyExtractor, KeyHasher, LoadContext};

/// The context against which a range filter is checked when it is loaded: a [`LoadContext`], and the extractor of the
/// prefixes that contain the ranges. Without an extractor, pass the [`LoadContext`] or the `&KeyHasher` itself.
#[derive(Clone, Copy, Debug)]
pub struct RangeContext<'a> {
    pub(crate) load: LoadContext<'a>,
    pub(crate) extractor: Option<&'a Arc<dyn KeyExtractor>>,
}

impl<'a> RangeContext<'a> {
    /// Combines the context with the extractor of the policy that wrote the files
    /// ([`RangePolicy::extractor`](crate::RangePolicy::extractor)). A hashed filter is not used with any other
    /// extractor; other filters ignore it.
    pub fn new(load: impl Into<LoadContext<'a>>, extractor: Option<&'a Arc<dyn KeyExtractor>>) -> Self {
        Self { load: load.into(), extractor }
    }
}

impl<'a> From<LoadContext<'a>> for RangeContext<'a> {
    fn from(load: LoadContext<'a>) -> Self {
        Self::new(load, None)
    }
}

impl<'a> From<&'a KeyHasher> for RangeContext<'a> {
    fn from(hasher: &'a KeyHasher) -> Self {
        Self::new(hasher, None)
    }
}

impl From<HashIdentity> for RangeContext<'_> {
    fn from(hash: HashIdentity) -> Self {
        Self::new(hash, None)
    }
}
