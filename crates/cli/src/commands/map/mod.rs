//! `sstfilter map`: file maps, each of which says which of many files may have a key.

pub(crate) mod build;
pub(crate) mod merge;
pub(crate) mod target;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum MapCommand {
    /// Build a map of tables, or of lists of keys
    Build(build::BuildMapArgs),
    /// Merge maps into one without reading keys, and drop files that are gone
    Merge(merge::MergeArgs),
}
