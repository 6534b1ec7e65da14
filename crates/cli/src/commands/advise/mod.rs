//! `sstfilter advise`: recommends filters, by numbers.

pub(crate) mod files;
pub(crate) mod kind;
pub(crate) mod levels;
mod measured;
mod rank;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum AdviseCommand {
    /// Rank the kinds of filter for a use, with sizes, rates and reasons
    Kind(kind::KindArgs),
    /// Spread one memory budget over the levels of a store, so that lookups of absent keys read few tables
    Levels(levels::LevelsArgs),
    /// Compare filters of their own, transposed blocks and file maps for a store of many files: sizes, reads and prices
    Files(files::FilesArgs),
}
