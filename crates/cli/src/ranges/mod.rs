//! Range filters on the command line: their blocks, prefixes and policies.

mod fields;

use std::path::Path;

use anyhow::Context;
use sstfilter::BlockError;

pub(crate) use crate::file::blocks::{RangeBlock, RangePrefix};
pub(crate) use fields::{RangeFields, map_name};

use crate::input;
use crate::output::Outcome;

/// Returns what a filter's problem means for its file: nothing is wrong if the filter was built with other options.
pub(crate) fn outcome_of(problem: &BlockError) -> Outcome {
    let is_of_other_reader = matches!(problem, BlockError::HashMismatch { .. } | BlockError::ExtractorMismatch { .. });
    Outcome::from_sound(is_of_other_reader)
}

/// Reads a block; all messages name its file.
pub(crate) fn read_named(path: &Path) -> anyhow::Result<RangeBlock> {
    RangeBlock::new(crate::file::open::whole(path)?).with_context(|| input::name(path).into_owned())
}
