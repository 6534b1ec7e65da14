//! `sstfilter inspect`: what is in a file.

use core::cmp::Reverse;
use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;

use crate::file::look::{Format, look_at};
use crate::file::open::{Context, open_to_probe};
use crate::file::problem::State;
use crate::file::walk::{Found, Walk, is_directory};
use crate::model::absent::AbsentKeys;
use crate::model::batch::KeyBatch;
use crate::model::describe::{describe, describe_problem};
use crate::model::file::{FileReport, Reason};
use crate::model::keys::{Source, file_id, id_text};
use crate::model::probe::probe_filter;
use crate::print::types::PathName;
use crate::print::{MAX_PAGES, Outcome, record};
use crate::system::input;
use crate::words::escape::shell_word;
use crate::words::group;

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// Tables (also of RocksDB, LevelDB and Pebble), filters without a table, sidecars, and file maps. For directories,
    /// see `report`
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// File of keys that none of the files has: adds the false positive rate of each filter on these keys
    #[arg(long, value_name = "KEYS")]
    absent: Option<PathBuf>,

    /// Lists of keys, or directories of them, that file maps may cover: their paths are shown among the covered files
    #[arg(long, value_name = "PATH", num_args = 1..)]
    key_lists: Vec<PathBuf>,
}

record! {
    /// Files, and what is in them.
    pub(crate) struct InspectReport {
        files: Vec<FileReport> [pages],
        notes: Vec<String>,
    }
}

/// What the states do not cover.
const NOT_READ: &str = "data blocks were not checked: `sstfilter verify` checks them";

/// Describes all files. The answer is no if one of them shows damage.
pub(crate) fn run(args: &InspectArgs, context: &Context) -> anyhow::Result<(Outcome, InspectReport)> {
    if let Some(directory) = args.files.iter().find(|path| is_directory(path).is_ok_and(|is_directory| is_directory)) {
        let (name, word) = (input::name(directory), shell_word(directory));
        bail!("{name}: expected a file, got a directory: `sstfilter report {word}` describes all of its files");
    }
    let absent = args.absent.as_deref().map(|path| AbsentKeys::given(path, context)).transpose()?;
    let batch = absent.as_ref().map(|absent| KeyBatch::new(absent.keys.iter().map(Vec::as_slice).collect()));
    let walk = Walk::of(&args.files)?;
    let orphans = walk.orphans.iter().map(|path| Found::alone(path));
    let all: Vec<_> = walk.files.iter().cloned().chain(orphans).collect();
    let has_map = all.iter().any(|found| matches!(look_at(&found.path), Ok(Format::FileMap)));
    let (mut files, mut unread) = (Vec::new(), None);
    for found in all {
        match open_to_probe(&found, context) {
            Ok(opened) => {
                let mut report = describe(&opened, context);
                if has_map && report.format.is_table() {
                    report.contents.file_id = file_id(&opened).ok().map(id_text);
                }
                // The filter itself: bounds of the table would exclude keys before it.
                let observe = |keys| AbsentKeys::observe(&probe_filter(&opened, keys, context), keys, &opened);
                report.observed = batch.as_ref().map(observe).transpose()?;
                files.push(report);
            }
            Err(problem) => {
                files.push(describe_problem(&found, &problem, context));
                unread = unread.or(Some(problem.reason));
            }
        }
    }
    if let Some(first) = unread.filter(|_| files.iter().all(|file| file.state == State::Unread)) {
        return Err(first);
    }
    name_covered(&mut files, &args.key_lists, context)?;
    let has_tables = files.iter().any(|file| file.format.is_table());
    let mut notes = if files.len() > MAX_PAGES { reasons_of(&files) } else { Vec::new() };
    notes.extend(has_tables.then(|| NOT_READ.to_owned()));
    notes.extend(walk.notes());
    let outcome = files.iter().map(|file| file.state.outcome()).max().unwrap_or_default();
    Ok((outcome, InspectReport { files, notes }))
}

/// Returns the reasons of files that have no page of their own, the worst first.
fn reasons_of(files: &[FileReport]) -> Vec<String> {
    let mut reasons: Vec<_> =
        files.iter().flat_map(|file| file.reasons.iter().map(move |reason| (reason, &file.path))).collect();
    reasons.sort_by_key(|(reason, _)| Reverse(reason.state));
    // By advice, because each damage has another checksum.
    let groups =
        group::by(&reasons, |(reason, _)| (reason.state, &reason.part, reason.advice.as_ref().unwrap_or(&reason.why)));
    let line = |(_, files): (_, Vec<&(&Reason, &PathName)>)| {
        let [(first, _), others @ ..] = &files[..] else { return None };
        let part = first.part.as_ref().map(|part| format!("{part} ")).unwrap_or_default();
        let state = if first.state == State::Ok { String::new() } else { format!("{part}{}: ", first.state.text()) };
        let text = first.advice.as_ref().filter(|_| !others.is_empty()).unwrap_or(&first.why);
        let names: Vec<_> = files.iter().map(|(_, path)| input::name(&path.0)).collect();
        Some(group::line(&format!("{state}{text}"), "file", &names))
    };
    groups.into_iter().filter_map(line).collect()
}

/// Names the files that maps cover: those that were passed, too, and lists of keys.
fn name_covered(files: &mut [FileReport], key_lists: &[PathBuf], context: &Context) -> anyhow::Result<()> {
    let mut names = HashMap::new();
    for file in files.iter().filter(|file| file.format.is_table()) {
        names.extend(file.contents.file_id.clone().map(|id| (id, file.path.clone())));
    }
    for list in Source::lists(key_lists)? {
        let id = list.open(context)?.id;
        names.insert(id_text(id), PathName(list.found.path.clone()));
    }
    for covered in files.iter_mut().filter_map(|file| file.map.as_mut()).flat_map(|map| &mut map.covers) {
        covered.path = covered.file_id.as_ref().and_then(|id| names.get(id)).cloned();
    }
    Ok(())
}
