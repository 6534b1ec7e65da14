//! Where a map is written, how it is laid out, and what is reported of it.

use core::ops::Range;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use sstfilter::FileId;
use sstfilter_map::{MapMerge, MapOptions, MapReport as Written};

use crate::commands::options::OutArgs;
use crate::file::look::Format;
use crate::file::map::OpenMap;
use crate::file::open::{Context, open};
use crate::file::problem::Problem;
use crate::file::replace::{Mark, write_with};
use crate::file::walk::Found;
use crate::model::batch::cores;
use crate::model::describe::describe;
use crate::model::file::MapReport;
use crate::model::keys::parse_fingerprint;
use crate::print::types::{Bytes, PathName};
use crate::print::{Outcome, record};
use crate::system::{interrupt, progress};
use crate::words::group;
use crate::words::units::{counted, grouped, number_in};

/// The map to write.
#[derive(Debug, Args)]
pub(super) struct Target {
    #[command(flatten)]
    pub(super) file: OutArgs,

    /// The map's own id: a fingerprint (0x and 16 hexadecimal digits) [default: random]. Readers must pass it to load
    /// the map
    #[arg(long, value_name = "ID", value_parser = parse_fingerprint)]
    id: Option<FileId>,

    /// Bytes of a page, which one lookup reads: a power of two from 1Ki to 1Mi
    #[arg(long, value_name = "BYTES", default_value = "64Ki", value_parser = parse_page_bytes)]
    page_bytes: u32,

    /// The number of files that have the same key, on average: pages are planned for it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number_in::<u32>(1..=1_000_000),
        allow_negative_numbers = true)]
    files_per_key: u32,

    /// Number of threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

fn parse_page_bytes(text: &str) -> Result<u32, String> {
    let bytes = number_in(1 << 10..=1 << 20)(text)?;
    let options = MapOptions::with_prefix_bits(8).and_then(|options| options.with_page_bytes(bytes));
    options.map(|_| bytes).map_err(|problem| problem.to_string())
}

/// The mark of all maps.
const MARK: Mark = Mark::End(Format::FileMap);

impl Target {
    pub(super) fn threads(&self) -> usize {
        self.threads.map_or_else(cores, usize::from)
    }

    pub(super) fn options(&self, options: MapOptions) -> anyhow::Result<MapOptions> {
        let options = options.with_page_bytes(self.page_bytes)?;
        Ok(options.with_files_per_key(self.files_per_key).with_threads(self.threads()))
    }

    /// Fails if the file exists and may not be replaced. Call this before the keys are read, which may take hours.
    pub(super) fn ensure_free<'a>(&self, inputs: impl IntoIterator<Item = &'a Path>) -> anyhow::Result<()> {
        self.file.ensure_free(MARK, inputs)
    }

    /// Writes the map that `finish` makes with the id. If a signal arrives, nothing is left. Call it only while
    /// [`interrupt::writing`] is held.
    pub(super) fn write(
        &self,
        finish: impl FnOnce(FileId, &mut Attentive<'_>) -> io::Result<Written>,
    ) -> anyhow::Result<Written> {
        let id = self.id.unwrap_or_else(FileId::random);
        let written = write_with(&self.file.out, self.file.replaces(MARK), |file| finish(id, &mut Attentive(file)));
        unless_interrupted(written)
    }

    /// Merges maps with the files for which `keep` returns true. Call it only while [`interrupt::writing`] is held.
    pub(super) fn merge(
        &self,
        maps: &[OpenMap],
        options: MapOptions,
        keep: impl Fn(FileId) -> bool,
    ) -> anyhow::Result<Written> {
        let bar = progress::bytes("merging maps", maps.iter().map(|map| map.file.length).sum());
        let mut merge = MapMerge::new(options);
        for map in maps {
            let read = |range: Range<u64>| {
                bar.inc(range.end - range.start);
                map.read(range)
            };
            merge.add_some(map.index.clone(), read, &keep).with_context(|| map.name().into_owned())?;
        }
        self.write(|id, sink| merge.finish(id, sink))
    }

    /// Describes the map that was written, without the files that have `problems`.
    pub(super) fn report(
        &self,
        written: &Written,
        problems: &[(PathBuf, Problem)],
    ) -> anyhow::Result<(Outcome, WrittenMap)> {
        let context = Context::default();
        let opened = open(&Found::alone(&self.file.out), &context)?;
        let file = describe(&opened, &context);
        let mut findings = left_out(problems);
        let mut notes = Vec::new();
        if written.outgrown_pages > 0 {
            let pages = counted(written.outgrown_pages, "page");
            notes.push(format!("{pages} outgrown: lookups in them read twice; a higher --files-per-key avoids it"));
        }
        if written.unknown_pages > 0 {
            let (unknown, all) = (grouped(written.unknown_pages), counted(written.pages, "page"));
            findings.push(format!(
                "{unknown} of {all} unknown, because pages of the inputs are damaged or unknown: lookups in them find \
                 all covered files. `verify` names damaged maps; build the map from keys again"
            ));
        }
        let left_out = problems.iter().map(|(path, _)| PathName(path.clone())).collect();
        // A damaged page is the only reason for an unknown one, but for pages that were unknown before.
        let outcome = problems.iter().map(|(_, problem)| problem.state.outcome()).max().unwrap_or_default();
        let outcome = outcome.max(Outcome::from_sound(written.unknown_pages == 0));
        let (path, bytes, map) = (file.path, file.bytes, file.map);
        Ok((outcome, WrittenMap { path, bytes, map, dropped_files: None, left_out, findings, notes }))
    }
}

record! {
    /// A map that was written.
    pub(crate) struct WrittenMap {
        pub(super) path: PathName,
        pub(super) bytes: Bytes,
        pub(super) map: Option<MapReport>,
        pub(super) dropped_files: Option<u64>,
        pub(super) left_out: Vec<PathName> [json],
        pub(super) findings: Vec<String> [notable],
        pub(super) notes: Vec<String>,
    }
}

/// Returns a line for all files with one problem.
pub(super) fn left_out(problems: &[(PathBuf, Problem)]) -> Vec<String> {
    let texts = problems.iter().map(|(path, problem)| {
        let (why, name) = problem.about(path);
        (format!("left out: {why}"), name)
    });
    group::lines("file", texts)
}

/// Fails if a signal has interrupted the command.
pub(super) fn ensure_wanted() -> Result<(), interrupt::Interrupted> {
    interrupt::check(|| "no map was written".to_owned())
}

/// Returns the error of a write, or that of the signal that caused it.
pub(super) fn unless_interrupted<T>(written: anyhow::Result<T>) -> anyhow::Result<T> {
    if written.is_err() {
        ensure_wanted()?;
    }
    written
}

/// A file whose writing ends with an error when a signal arrives.
pub(super) struct Attentive<'a>(pub(super) &'a mut dyn Write);

impl Write for Attentive<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        ensure_wanted().map_err(io::Error::other)?;
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
