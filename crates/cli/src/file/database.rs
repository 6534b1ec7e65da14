//! A database of RocksDB, LevelDB or Pebble: a directory whose MANIFEST says which tables are live.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, thread};

use anyhow::{Context, anyhow, ensure};
use sstfilter_interop::{Manifest, ManifestFile};

use super::names::engine_number;
use super::problem::{Problem, explained};
use crate::print::words;
use crate::system::input::{self, RegularFile};
use crate::words::units::counted;

/// Limit on the file CURRENT, which contains `MANIFEST-`, a number and a line feed.
const MAX_CURRENT_BYTES: u64 = 64;

/// The pauses before each attempt to read CURRENT and the manifest: a running engine removes the manifest that CURRENT
/// names when it writes a new one, and may be writing a record.
const PAUSES: [Duration; 3] = [Duration::ZERO, Duration::from_millis(20), Duration::from_millis(20)];

/// A database, as its manifest described it when it was read.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) directory: PathBuf,
    /// `None` if the manifest cannot be read: then all tables count, and their levels are unknown.
    pub(crate) version: Option<Manifest>,
}

/// What the manifest of its database says about a table.
#[derive(Clone, Debug)]
pub(crate) enum Standing {
    /// There is no manifest, or it cannot be read.
    Unknown,
    Live(ManifestFile),
    /// With the likely reason.
    NotLive(&'static str),
}

impl Database {
    /// Whether a directory is that of a database.
    pub(crate) fn is_in(directory: &Path) -> bool {
        directory.join("CURRENT").is_file() || pebble_manifest(directory).is_some()
    }

    /// Reads the manifest of the database in `directory`. Call this after the directory was listed: what was listed and
    /// is live was then complete.
    pub(crate) fn read(directory: &Path) -> (Self, Option<(PathBuf, Problem)>) {
        let (mut manifest, mut problem) = (directory.join("CURRENT"), None);
        for pause in PAUSES {
            thread::sleep(pause);
            match read_version(directory, &mut manifest) {
                Ok(version) => return (Self { directory: directory.to_owned(), version: Some(version) }, None),
                Err(error) => problem = Some(error),
            }
        }
        let problem = problem.map(|reason| {
            let why = explained(&reason);
            let unknown = "so all tables count, and their levels and column families are unknown";
            (manifest, Problem::new(Problem::from(reason).state, anyhow!("{why}, {unknown}")))
        });
        (Self { directory: directory.to_owned(), version: None }, problem)
    }

    /// Returns what the manifest says about the table at `path`.
    pub(crate) fn standing(&self, path: &Path) -> Standing {
        let Some(version) = &self.version else { return Standing::Unknown };
        let number = engine_number(path);
        match number.and_then(|number| version.file(number)) {
            Some(file) => Standing::Live(file.clone()),
            None => Standing::NotLive(why_not(version, number)),
        }
    }

    /// Returns the name of a live table's column family.
    pub(crate) fn family(&self, file: &ManifestFile) -> Option<&str> {
        self.version
            .as_ref()?
            .column_families()
            .find(|family| family.id == file.column_family)
            .map(|family| &*family.name)
    }

    /// Returns the comparator of a live table, or of the database.
    pub(crate) fn comparator(&self, standing: &Standing) -> Option<&str> {
        let version = self.version.as_ref()?;
        let of_family = |file: &ManifestFile| {
            let mut families = version.column_families();
            families.find(|family| family.id == file.column_family)?.comparator.as_deref()
        };
        match standing {
            Standing::Live(file) => of_family(file),
            _ => version.comparator(),
        }
    }

    /// Returns the live tables that are not among these numbers, with the paths that they have or should have.
    pub(crate) fn others(&self, numbers: &HashSet<u64>) -> Vec<(PathBuf, Standing)> {
        let path = |number, extension| self.directory.join(format!("{number:06}.{extension}"));
        let live = self.version.iter().flat_map(Manifest::files).filter(|(number, _)| !numbers.contains(number));
        let found = |(number, file): (u64, &ManifestFile)| {
            let [sst, ldb] = ["sst", "ldb"].map(|extension| path(number, extension));
            (if ldb.exists() { ldb } else { sst }, Standing::Live(file.clone()))
        };
        live.map(found).collect()
    }
}

/// Why an older table than the newest live one is not live.
pub(crate) const REPLACED: &str = "replaced by newer tables, or dropped";

/// Returns the likely reason why a table is not live. Numbers are given in ascending order.
fn why_not(version: &Manifest, number: Option<u64>) -> &'static str {
    let newest = version.files().map(|(number, _)| number).last();
    match number {
        None => "its name has no number",
        Some(number) if newest.is_some_and(|newest| number < newest) => REPLACED,
        Some(_) => "being written, never completed, or no table of this database",
    }
}

/// Parses the manifest that CURRENT, or Pebble's marker, names. `manifest` becomes its path once that is known.
fn read_version(directory: &Path, manifest: &mut PathBuf) -> anyhow::Result<Manifest> {
    let name = match pebble_manifest(directory) {
        Some(name) => name,
        None => name_in_current(&directory.join("CURRENT"))?,
    };
    *manifest = directory.join(name);
    Ok(Manifest::parse(&RegularFile::open(manifest)?.up_to_hole()?)?)
}

fn name_in_current(current: &Path) -> anyhow::Result<String> {
    // A regular file of a few bytes: a pipe would block, and a huge file would fill memory.
    let file = RegularFile::open(current)?;
    let expected = || anyhow!("expected MANIFEST-, a number and a line feed");
    ensure!(file.length <= MAX_CURRENT_BYTES, "{:#}, got {} bytes", expected(), file.length);
    let name = String::from_utf8(file.end(MAX_CURRENT_BYTES)?.into()).ok().with_context(expected)?;
    let name = name.trim_end_matches('\n');
    // CURRENT may be damaged or hostile: its contents must not lead out of the directory.
    ensure!(name.starts_with("MANIFEST-") && !name.contains(['/', '\\']), "{:#}, got {name:?}", expected());
    Ok(name.to_owned())
}

/// Returns the name in Pebble's `marker.manifest.NUMBER.NAME` with the highest number.
fn pebble_manifest(directory: &Path) -> Option<String> {
    let names = fs::read_dir(directory).ok()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let markers = names.filter_map(|name| {
        let (number, name) = name.strip_prefix("marker.manifest.")?.split_once('.')?;
        let is_manifest = name.starts_with("MANIFEST-") && !name.contains(['/', '\\']);
        Some((number.parse::<u64>().ok().filter(|_| is_manifest)?, name.to_owned()))
    });
    markers.max().map(|(_, name)| name)
}

/// Whether a file is gone.
pub(crate) fn is_not_found(error: &anyhow::Error) -> bool {
    let kinds = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    kinds.into_iter().any(|error| error.kind() == io::ErrorKind::NotFound)
}

words! {
    /// A file of a database that is no table.
    pub(crate) enum EngineFile {
        Current = "CURRENT",
        Identity = "IDENTITY",
        Lock = "LOCK",
        Log = "LOG",
        Manifest = "MANIFEST",
        Options = "OPTIONS file",
        Wal = "WAL",
        Blob = "blob file",
        Temporary = "temporary file",
        Marker = "marker",
    }
}

impl EngineFile {
    /// Recognizes the name of a file in a directory of a database.
    pub(crate) fn of_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let numbered = |extension: &str| name.strip_suffix(extension).is_some_and(is_number);
        // After a failover, Pebble goes on in `NUMBER-PART.log`.
        let is_log = |name: &str| name.split('-').all(is_number);
        Some(match name {
            "CURRENT" => Self::Current,
            "IDENTITY" => Self::Identity,
            "LOCK" => Self::Lock,
            "LOG" | "LOG.old" => Self::Log,
            _ if name.starts_with("LOG.old.") => Self::Log,
            _ if name.strip_prefix("MANIFEST-").is_some_and(is_number) => Self::Manifest,
            _ if name.strip_prefix("OPTIONS-").is_some_and(|rest| is_number(rest.trim_end_matches(".dbtmp"))) => {
                Self::Options
            }
            _ if name.strip_suffix(".log").is_some_and(is_log) => Self::Wal,
            _ if numbered(".blob") => Self::Blob,
            _ if name.strip_suffix(".dbtmp").is_some() => Self::Temporary,
            _ if name.starts_with("marker.") => Self::Marker,
            _ => return None,
        })
    }

    /// Returns these files in words, if there are any: `CURRENT, LOCK, 2 blob files`.
    pub(crate) fn line(files: &BTreeMap<Self, u64>) -> Option<String> {
        let named = files.iter().map(|(file, &number)| match file {
            Self::Current | Self::Identity | Self::Lock => file.text().to_owned(),
            _ => counted(number, file.text()),
        });
        (!files.is_empty()).then(|| named.collect::<Vec<_>>().join(", "))
    }
}

/// Returns the directory that a file is in; of standard input, none.
pub(crate) fn directory_of(path: &Path) -> Option<&Path> {
    // The parent of `-` would be the current directory, which standard input does not come from.
    let parent = path.parent().filter(|_| !input::is_standard(path))?;
    Some(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
}
