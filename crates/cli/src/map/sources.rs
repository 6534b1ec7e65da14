//! The files that maps cover, with their ids.

use std::collections::HashMap;
use std::path::PathBuf;

use clap::Args;

use crate::file::key_list::KeysFormat;
use crate::file::problem::explained;
use crate::file::walk::Walk;
use crate::input;
use crate::left_out::LeftOut;
use crate::model::keys::Source;
use crate::opened::Reading;

/// The files of a store, for commands that read maps.
#[derive(Debug, Args)]
pub(super) struct FileArgs {
    /// Tables, or directories of them, as for `map build`
    #[arg(long, value_name = "PATH", num_args = 1..)]
    tables: Vec<PathBuf>,

    /// Lists of keys, or directories of them, as for `map build`
    #[arg(long, value_name = "PATH", num_args = 1..)]
    key_lists: Vec<PathBuf>,
}

impl FileArgs {
    /// Returns the names of the files by their fingerprints. A file without a readable id has none: it is left out.
    pub(super) fn names(&self, reading: Reading<'_>) -> anyhow::Result<(HashMap<u64, String>, Vec<LeftOut>)> {
        let (mut names, mut left_out) = (HashMap::new(), Vec::new());
        let walk = Walk::of(&self.tables)?;
        let lists = Source::lists(&self.key_lists, KeysFormat::default())?;
        for source in [Source::tables(&walk.files).0, lists].concat() {
            let path = &source.found.path;
            match source.open(&reading.context()) {
                Ok(open) => drop(names.insert(open.id.fingerprint(), input::name(path).into_owned())),
                Err(problem) => {
                    let (why, outcome) = (explained(&problem.reason), problem.state.outcome());
                    left_out.push(LeftOut::new(path, &why, outcome));
                }
            }
        }
        Ok((names, left_out))
    }
}
