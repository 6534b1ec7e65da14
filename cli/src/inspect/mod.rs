//! `sstfilter inspect`: every field of tables and bare filter blocks.

mod filter;
mod table;

use core::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use serde::Serialize;
use sstfilter::{FilterBlock, KeyHasher};

use crate::args::InspectArgs;
use crate::files::{self, Look};
use crate::output::{Outcome, Output, explained};
use crate::tables;
use filter::FilterFields;
use table::TableFields;

#[derive(Debug, Serialize)]
struct InspectReport {
    files: Vec<FileReport>,
}

#[derive(Debug, Serialize)]
struct FileReport {
    path: String,
    bytes: u64,
    sound: bool,
    #[serde(flatten)]
    fields: Fields,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Fields {
    Table(Box<TableFields>),
    FilterBlock(Box<FilterFields>),
    Problem(String),
}

/// The answer is no when a file is neither table nor filter block, or shows damage. It is a failure when some of
/// a file could not be read.
pub(crate) fn run(args: &InspectArgs, secret: Option<&KeyHasher>, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let files: Vec<_> = args.files.iter().map(|path| FileReport::new(path, secret)).collect::<anyhow::Result<_>>()?;
    let outcome = files.iter().map(FileReport::outcome).max().unwrap_or(Outcome::Yes);
    output.report(&InspectReport { files })?;
    Ok(outcome)
}

impl FileReport {
    /// Fails only when the file cannot be read at all.
    fn new(path: &Path, secret: Option<&KeyHasher>) -> anyhow::Result<Self> {
        let look = files::look_at(path)?;
        let bytes = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?.len();
        let fields = match fields(path, look, secret) {
            Err(problem) if is_unread(&problem) => return Err(problem),
            fields => fields.unwrap_or_else(|problem| Fields::Problem(explained(&problem))),
        };
        Ok(Self { path: path.display().to_string(), bytes, sound: fields.is_sound(), fields })
    }

    fn outcome(&self) -> Outcome {
        match &self.fields {
            Fields::Table(table) if table.is_filter_unread() => Outcome::Failed,
            _ => Outcome::from_sound(self.sound),
        }
    }
}

fn is_unread(problem: &anyhow::Error) -> bool {
    problem.root_cause().is::<std::io::Error>()
}

fn fields(path: &Path, look: Look, secret: Option<&KeyHasher>) -> anyhow::Result<Fields> {
    match look {
        Look::Table => Ok(Fields::Table(Box::new(TableFields::new(&tables::open(path, secret)?)))),
        Look::FilterBlock => {
            let data = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            let block = FilterBlock::open_unverified(data)?;
            Ok(Fields::FilterBlock(Box::new(FilterFields::new(&block))))
        }
        Look::Neither => bail!("{}", files::NEITHER),
    }
}

impl Fields {
    fn is_sound(&self) -> bool {
        match self {
            Self::Table(table) => table.is_sound(),
            Self::FilterBlock(filter) => filter.is_sound(),
            Self::Problem(_) => false,
        }
    }
}

impl fmt::Display for InspectReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for file in &self.files {
            let size = crate::units::grouped(file.bytes);
            match &file.fields {
                Fields::Table(table) => write!(f, "{}: table of {size} bytes\n{table}", file.path)?,
                Fields::FilterBlock(filter) => write!(f, "{}: filter block\n{filter}", file.path)?,
                Fields::Problem(problem) => writeln!(f, "{}: {problem}", file.path)?,
            }
        }
        Ok(())
    }
}
