//! `sstfilter map join`: joins slices into the map that one process would have written.

use core::fmt;
use std::borrow::Cow;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use sstfilter_map::{MapJoin, SliceIndex};

use super::{OutArgs, Written};
use crate::files::Look;
use crate::input::{self, RegularFile};
use crate::output::Outcome;
use crate::{interrupt, progress};

#[derive(Debug, Args)]
#[command(mut_arg("overwrite", |arg| arg.help("Replace an existing file, but only a file map")))]
pub(crate) struct JoinArgs {
    /// All slices of one map, in any order
    #[arg(value_name = "SLICE", required = true)]
    slices: Vec<PathBuf>,

    #[command(flatten)]
    target: OutArgs,
}

#[derive(Debug, Serialize)]
pub(super) struct Joined {
    #[serde(flatten)]
    written: Written,
    slices: usize,
}

/// A slice on disk. Its end is in memory, its pages are not.
struct OpenSlice<'a> {
    path: &'a Path,
    file: RegularFile<'a>,
    index: SliceIndex,
}

impl<'a> OpenSlice<'a> {
    fn open(path: &'a Path) -> anyhow::Result<Self> {
        let file = RegularFile::open(path)?;
        let context = || input::name(path).into_owned();
        let end_bytes = SliceIndex::end_bytes(&file.end(SliceIndex::MIN_END_BYTES as u64)?).with_context(context)?;
        let index = SliceIndex::load(&file.end(end_bytes)?, file.length).with_context(context)?;
        Ok(Self { path, file, index })
    }
}

/// Joins the slices. The answer is no if pages of the result are unknown.
pub(super) fn run(args: &JoinArgs) -> anyhow::Result<(Outcome, Joined)> {
    args.target.ensure_free(Look::Map, args.slices.iter().map(PathBuf::as_path))?;
    let mut slices: Vec<_> = args.slices.iter().map(|path| OpenSlice::open(path)).collect::<anyhow::Result<_>>()?;
    // A shell puts part-10 before part-2.
    slices.sort_by_key(|slice| slice.index.slice().number());
    let bar = progress::bytes("joining slices", slices.iter().map(|slice| slice.file.length).sum());
    let mut join = MapJoin::new();
    for slice in &slices {
        let read = |range: core::ops::Range<u64>| {
            bar.inc(range.end - range.start);
            let bytes = slice.file.read(range.start, range.end - range.start).map_err(io::Error::other)?;
            Ok(Cow::Owned(bytes.into()))
        };
        join.add(slice.index.clone(), read).with_context(|| input::name(slice.path).into_owned())?;
    }
    join.ensure_complete()?;
    let _writing = interrupt::writing();
    let report = args.target.write(Look::Map, |mut sink: &mut dyn Write| join.finish(&mut sink))?;
    let written = Written::of_map(&args.target.out, report)?;
    Ok((Outcome::from_sound(report.unknown_pages == 0), Joined { written, slices: slices.len() }))
}

impl fmt::Display for Joined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.written)?;
        self.written.unknown_line().into_iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}
