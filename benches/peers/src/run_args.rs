//! The arguments of every measurement.

use std::io;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::record;

/// The arguments that say what to measure, and where the records go.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Take less than two minutes: fewer keys, fewer repetitions.
    #[arg(long)]
    pub quick: bool,
    /// Only crates and filters whose name contains this, e.g. `xorf` or `Ribbon`. May be given several times.
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    /// Writes the records there.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl RunArgs {
    /// Returns whether a filter's crate or kind matches one of the requested names, if there are any.
    pub fn is_wanted(&self, implementation: &str, kind: &str) -> bool {
        let name = format!("{implementation} {kind}").to_lowercase();
        self.only.is_empty() || self.only.iter().any(|wanted| name.contains(&wanted.to_lowercase()))
    }

    /// The arguments of a run, to reproduce it: flags, if they were passed, and the names that were chosen.
    pub fn arguments(&self, flags: &[(bool, &str)]) -> Vec<String> {
        let flags =
            [(self.quick, "--quick")].into_iter().chain(flags.iter().copied()).filter(|(is_passed, _)| *is_passed);
        let flags = flags.map(|(_, flag)| flag.to_owned());
        flags.chain(self.only.iter().flat_map(|name| ["--only".to_owned(), format!("\"{name}\"")])).collect()
    }

    /// Writes the records, if a file was named.
    pub fn write<T: Serialize>(&self, records: &T) -> io::Result<()> {
        self.json.as_deref().map_or(Ok(()), |path| record::write_json(path, records))
    }
}
