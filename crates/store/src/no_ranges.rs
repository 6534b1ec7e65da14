//! In place of range filters, without the feature `ranges`: types without values, so that the compiler leaves out what
//! would use them. A range filter in a file is a filter of an unknown kind.

use core::convert::Infallible;
use core::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::{BlockError, BuildContext, BuiltFilter, KeyExtractor, KeyRange, LoadContext};

/// The kind of range filters.
const RANGES: u8 = 10;

#[derive(Clone, Debug)]
pub(crate) struct RangePolicy(Infallible);

#[derive(Debug)]
pub(crate) struct RangeBuilder(Infallible);

#[derive(Clone, Debug)]
pub(crate) struct RangeFilter<D>(Infallible, PhantomData<D>);

impl RangePolicy {
    pub(crate) fn extractor(&self) -> Option<&Arc<dyn KeyExtractor>> {
        match self.0 {}
    }

    pub(crate) fn builder(&self, _: &BuildContext) -> RangeBuilder {
        match self.0 {}
    }
}

impl RangeBuilder {
    pub(crate) fn add_key(&mut self, _: &[u8]) {
        match self.0 {}
    }

    pub(crate) fn add_range_tombstone(&mut self) {
        match self.0 {}
    }

    pub(crate) fn estimated_bytes(&self) -> u64 {
        match self.0 {}
    }

    pub(crate) fn finish(self) -> BuiltFilter {
        match self.0 {}
    }
}

impl<D> RangeFilter<D> {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self.0 {}
    }

    pub(crate) fn checksum_without_last(&self) -> u32 {
        match self.0 {}
    }

    pub(crate) fn may_contain_range(&self, _: KeyRange<'_>) -> bool {
        match self.0 {}
    }

    pub(crate) fn seek_hint(&self, _: &[u8]) -> Option<Vec<u8>> {
        match self.0 {}
    }
}

pub(crate) fn load(
    _: Bytes,
    _: LoadContext<'_>,
    _: Option<&Arc<dyn KeyExtractor>>,
) -> Result<RangeFilter<Bytes>, BlockError> {
    Err(BlockError::UnknownKind { got: RANGES })
}

pub(crate) fn expected_fpr(filter: &RangeFilter<Bytes>) -> f64 {
    match filter.0 {}
}

pub(crate) fn verify(_: &Bytes) -> Result<(), BlockError> {
    Err(BlockError::UnknownKind { got: RANGES })
}
