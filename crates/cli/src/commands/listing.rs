//! Keys and ranges that files are probed for, and the answers for each of them.

use std::collections::HashSet;
use std::path::Path;

use clap::ValueEnum;

use crate::file::context::KeysFormat;
use crate::file::key_list::KeyLines;
use crate::model::batch::Ends;
use crate::model::probe::{Because, FileProbe};
use crate::print::types::{Key, PathName};
use crate::print::{record, words};

/// What is listed, one key or range after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listing {
    /// Each with its files
    All,
    /// Those that some file may contain
    Maybe,
    /// Those that no file contains
    Absent,
}

/// What files are probed for.
pub(crate) enum Sought {
    Keys(KeyLines),
    Ranges(Vec<Ends>),
}

impl Sought {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Keys(keys) => keys.len(),
            Self::Ranges(ranges) => ranges.len(),
        }
    }

    /// Returns a key, or both ends of a range.
    fn at(&self, position: usize) -> (&[u8], Option<&[u8]>) {
        match self {
            Self::Keys(keys) => (keys.entry(position).0, None),
            Self::Ranges(ranges) => (&ranges[position].lower, Some(&ranges[position].upper)),
        }
    }

    /// Returns a key, or both ends of a range, in the format of the input, without a terminator.
    pub(crate) fn encoded(&self, position: usize, format: KeysFormat) -> Vec<u8> {
        let (key, upper) = self.at(position);
        let mut line = format.encoded(key).into_owned();
        if let Some(upper) = upper {
            line.push(if format == KeysFormat::Nul { 0 } else { b'\t' });
            line.extend_from_slice(&format.encoded(upper));
        }
        line
    }

    /// Returns the answer for a key or range, without files.
    pub(crate) fn answer(&self, position: usize) -> Answer {
        let (key, upper) = self.at(position);
        let (key, upper) = (Some(Key(key.to_vec())), upper.map(|upper| Key(upper.to_vec())));
        match upper {
            Some(_) => Answer { lower: key, upper, ..Answer::default() },
            None => Answer { sought_key: key, ..Answer::default() },
        }
    }
}

record! {
    /// A key or range, and what files say about it.
    pub(crate) struct Answer {
        pub(crate) sought_key: Option<Key>,
        pub(crate) lower: Option<Key>,
        pub(crate) upper: Option<Key>,
        /// number of files that a lookup must read; null if other files may have the key
        pub(crate) candidates: Option<u64>,
        pub(crate) files: Vec<FileAnswer>,
    }

    /// What a file says about a key or range.
    pub(crate) struct FileAnswer {
        pub(crate) path: Option<PathName> [row],
        pub(crate) file_id: Option<String> [row],
        pub(crate) column_family: Option<String> [row],
        pub(crate) level: Option<u32> [row],
        pub(crate) answer: Verdict [row],
        /// why a lookup must read the file, or need not
        pub(crate) because: Because [row],
    }
}

words! {
    /// Whether a lookup must read a file.
    pub(crate) enum Verdict {
        Read = "read",
        Skip = "skip",
    }
}

/// Keys whose files are put together: searches for each key in each file would take longer.
const LISTED_AT_ONCE: usize = 1 << 12;

/// Calls `visit` for each key or range that is listed, with its position and the files to read for it. If there
/// are other files that may have a key, none is absent.
pub(crate) fn for_each_listed(
    files: &[&FileProbe],
    listing: Listing,
    (sought, has_others): (&Sought, bool),
    mut visit: impl FnMut(usize, &[(usize, Because)]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let bound = |position| u32::try_from(position).unwrap_or(u32::MAX);
    for start in (0..sought.len()).step_by(LISTED_AT_ONCE) {
        let end = sought.len().min(start + LISTED_AT_ONCE);
        let mut candidates = vec![Vec::new(); end - start];
        for (number, file) in files.iter().enumerate() {
            for (because, positions) in &file.candidates {
                for position in positions.range(bound(start)..bound(end)) {
                    candidates[position as usize - start].push((number, *because));
                }
            }
        }
        for (position, candidates) in (start..end).zip(candidates) {
            let is_listed = match listing {
                Listing::All => true,
                Listing::Maybe => has_others || !candidates.is_empty(),
                Listing::Absent => !has_others && candidates.is_empty(),
            };
            if is_listed {
                visit(position, &candidates)?;
            }
        }
    }
    Ok(())
}

/// Returns names that distinguish files: file names, or paths if two files have the same name.
pub(crate) fn distinct_names(paths: Vec<String>) -> Vec<String> {
    let name = |path: &String| Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let names: Vec<String> = paths.iter().map(name).collect();
    let is_distinct = names.iter().collect::<HashSet<_>>().len() == names.len();
    // Paths for all files, so that one list does not mix both forms.
    if is_distinct { names } else { paths }
}
