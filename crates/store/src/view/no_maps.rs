//! In place of maps of files, without the feature `maps`: a type without values.

use core::convert::Infallible;
use std::collections::BTreeMap;
use std::sync::Arc;

use sstfilter::KeyHash;

use super::level::{Edited, Level, LevelChange};
use super::{Covered, Own};
use crate::config::Config;
use crate::pages::{PageRead, Pages};

pub(crate) struct Mapped<F> {
    pub(crate) uncovered: Arc<[Arc<Level<F>>]>,
    none: Infallible,
}

impl<F> Mapped<F> {
    pub(crate) fn files_of(&self, _: KeyHash) -> Option<Vec<&Covered<F>>> {
        match self.none {}
    }

    pub(crate) fn files_of_each(&self, _: &[KeyHash]) -> Option<Vec<(usize, &Covered<F>)>> {
        match self.none {}
    }

    pub(crate) fn pages_of(&self, _: KeyHash) -> Option<Pages> {
        match self.none {}
    }

    pub(crate) fn needed_pages(&self, _: Option<&Pages>) -> Vec<PageRead> {
        match self.none {}
    }

    pub(crate) fn files_by_page(&self, _: Option<&Pages>) -> (Vec<&Covered<F>>, Own) {
        match self.none {}
    }

    pub(crate) fn edited(&self, _: BTreeMap<u32, LevelChange<F>>, _: Edited<'_, F>, _: &Config) -> Option<Self> {
        match self.none {}
    }
}
