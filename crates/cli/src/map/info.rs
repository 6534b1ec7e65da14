//! `sstfilter map info`: the numbers of maps, and the files that they cover.

use core::fmt;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::sources::FileArgs;
use super::{MapFields, OpenMap, id_text, open_maps};
use crate::left_out::LeftOut;
use crate::opened::Reading;
use crate::output::{Column, Outcome, figures};
use crate::units::grouped;

#[derive(Debug, Args)]
#[command(mut_arg("tables", |arg| arg.help(NAMES)), mut_arg("key_lists", |arg| arg.help("The same, for lists of keys")))]
pub(crate) struct InfoArgs {
    /// Maps
    #[arg(value_name = "MAP", required = true)]
    maps: Vec<PathBuf>,

    /// List the covered files: the fingerprint of each one's id, and its entries
    #[arg(long)]
    files: bool,

    #[command(flatten)]
    names: FileArgs,
}

const NAMES: &str = "With --files: show the names of these tables, or of those of directories";

#[derive(Debug, Serialize)]
pub(super) struct Infos {
    maps: Vec<Info>,
    left_out: Vec<LeftOut>,
}

#[derive(Debug, Serialize)]
struct Info {
    #[serde(flatten)]
    map: MapFields,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<Vec<CoveredFile>>,
}

#[derive(Debug, Serialize)]
struct CoveredFile {
    /// Fingerprint of the file's id.
    file_id: String,
    entries: u64,
    /// Null if no file with this id was passed.
    path: Option<String>,
}

/// Shows the maps. The answer is no if the end of one is damaged, so that it covers nothing.
pub(super) fn run(args: &InfoArgs, reading: Reading<'_>) -> anyhow::Result<(Outcome, Infos)> {
    let (maps, mut left_out) = open_maps(&args.maps);
    let (names, unnamed) = args.names.names(reading)?;
    left_out.extend(unnamed);
    let covered = |file: &sstfilter_map::CoveredFile| CoveredFile {
        file_id: id_text(file.file),
        entries: file.entries,
        path: names.get(&file.file.fingerprint()).cloned(),
    };
    let info = |map: &OpenMap| Info {
        map: MapFields::new(map),
        files: args.files.then(|| map.index.files().iter().map(covered).collect()),
    };
    let infos = Infos { maps: maps.iter().map(info).collect(), left_out };
    Ok((LeftOut::outcome(&infos.left_out), infos))
}

impl fmt::Display for Infos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: [Column<CoveredFile>; 3] = [
            ("file id", |file| file.file_id.clone()),
            ("entries", |file| grouped(file.entries)),
            ("path", |file| file.path.clone().unwrap_or_else(|| "-".to_owned())),
        ];
        for (position, info) in self.maps.iter().enumerate() {
            if position > 0 {
                writeln!(f)?;
            }
            write!(f, "{}", info.map)?;
            if let Some(files) = &info.files {
                writeln!(f, "{}", figures(&columns, files))?;
            }
        }
        self.left_out.iter().try_for_each(|left| writeln!(f, "{}: {}", left.path, left.why))
    }
}
