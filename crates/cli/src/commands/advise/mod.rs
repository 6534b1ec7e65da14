//! `sstfilter advise`: recommends filters, by numbers.

pub(crate) mod files;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum AdviseCommand {
    /// Compare filters of their own, transposed blocks and file maps for a store of many files: sizes, reads and prices
    Files(files::FilesArgs),
}
