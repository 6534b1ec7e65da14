//! Keys and ranges that files are probed for, and the answers for each of them.

use std::collections::HashSet;
use std::path::Path;

use clap::ValueEnum;

use crate::file::key_list::{KeyLines, KeysFormat};
use crate::model::batch::Ends;
use crate::model::probe::{Because, FileProbe};
use crate::print::types::Key;
use crate::print::{Output, record};

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

    /// Returns a key, or both ends of a range, in the format of the input, without a terminator.
    fn encoded(&self, position: usize, format: KeysFormat) -> Vec<u8> {
        match self {
            Self::Keys(keys) => format.encoded(keys.entry(position).0).into_owned(),
            Self::Ranges(ranges) => {
                let Ends { lower, upper } = &ranges[position];
                let separator = if format == KeysFormat::Nul { &b"\0"[..] } else { b"\t" };
                [&format.encoded(lower), separator, &format.encoded(upper)].concat()
            }
        }
    }

    fn answer(&self, position: usize) -> Answer {
        let key = |bytes: &[u8]| Some(Key(bytes.to_vec()));
        match self {
            Self::Keys(keys) => Answer { sought_key: key(keys.entry(position).0), ..Answer::default() },
            Self::Ranges(ranges) => {
                let Ends { lower, upper } = &ranges[position];
                Answer { lower: key(lower), upper: key(upper), ..Answer::default() }
            }
        }
    }
}

record! {
    /// A key or range, and the files that a lookup must read.
    pub(crate) struct Answer {
        /// the key that is looked up
        pub(crate) sought_key: Option<Key> [row],
        /// the first key of the range
        pub(crate) lower: Option<Key> [row],
        /// the end of the range, which is not part of it
        pub(crate) upper: Option<Key> [row],
        /// number of files that a lookup must read; null if a damaged map may cover others
        pub(crate) number: Option<u64> [row],
        pub(crate) candidates: Vec<Candidate>,
    }

    /// A file that a lookup must read.
    pub(crate) struct Candidate {
        /// file name, path if two files have the same name, or id of a file that was not passed
        pub(crate) name: String [row],
        pub(crate) level: Option<u32> [row],
        /// why a lookup must read the file, or need not
        pub(crate) because: Because [row],
    }
}

/// A file of a listing, and its answers.
pub(crate) struct Listed<'a> {
    pub(crate) name: String,
    pub(crate) level: Option<u32>,
    pub(crate) probe: &'a FileProbe,
}

/// The answers of all files, to be listed.
pub(crate) struct Answers<'a> {
    pub(crate) sought: &'a Sought,
    /// Whether other files may have to be read.
    pub(crate) is_incomplete: bool,
    pub(crate) files: Vec<Listed<'a>>,
}

/// Keys whose files are put together: binary searches for each key in each file would take longer.
const LISTED_AT_ONCE: usize = 1 << 12;

impl Answers<'_> {
    /// Calls `visit` for each key or range that is listed, with its position and the files to read for it.
    fn for_each(
        &self,
        listing: Listing,
        mut visit: impl FnMut(usize, &[(usize, Because)]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let bound = |position| u32::try_from(position).unwrap_or(u32::MAX);
        for start in (0..self.sought.len()).step_by(LISTED_AT_ONCE) {
            let end = self.sought.len().min(start + LISTED_AT_ONCE);
            let mut candidates = vec![Vec::new(); end - start];
            for (number, file) in self.files.iter().enumerate() {
                for (because, positions) in &file.probe.candidates {
                    let mut add = |position| candidates[position as usize - start].push((number, *because));
                    positions.between(bound(start), bound(end)).for_each(&mut add);
                }
            }
            for (position, candidates) in (start..end).zip(candidates) {
                let is_listed = match listing {
                    Listing::All => true,
                    Listing::Maybe => self.is_incomplete || !candidates.is_empty(),
                    Listing::Absent => !self.is_incomplete && candidates.is_empty(),
                };
                if is_listed {
                    visit(position, &candidates)?;
                }
            }
        }
        Ok(())
    }

    /// Prints a line for each: `KEY<TAB>NUMBER<TAB>NAMES<TAB>REASONS`, or the key alone.
    pub(crate) fn print(&self, listing: Listing, format: KeysFormat, output: &mut Output<'_>) -> anyhow::Result<()> {
        let names = self.names();
        self.for_each(listing, |position, candidates| {
            let mut line = self.sought.encoded(position, format);
            if listing == Listing::All {
                let number = if self.is_incomplete { "?".to_owned() } else { candidates.len().to_string() };
                let (names, reasons): (Vec<_>, Vec<_>) =
                    candidates.iter().map(|(file, because)| (names[*file].as_str(), because.text())).unzip();
                line.extend(format!("\t{number}\t{}\t{}", names.join(","), reasons.join(",")).into_bytes());
            }
            output.record(&[&line], format.terminator())
        })
    }

    pub(crate) fn records(&self, listing: Listing) -> anyhow::Result<Vec<Answer>> {
        let (names, mut answers) = (self.names(), Vec::new());
        self.for_each(listing, |position, candidates| {
            let candidate = |&(file, because): &(usize, Because)| Candidate {
                name: names[file].clone(),
                level: self.files[file].level,
                because,
            };
            answers.push(Answer {
                number: (!self.is_incomplete).then_some(candidates.len() as u64),
                candidates: candidates.iter().map(candidate).collect(),
                ..self.sought.answer(position)
            });
            Ok(())
        })?;
        Ok(answers)
    }

    fn names(&self) -> Vec<String> {
        distinct_names(self.files.iter().map(|file| file.name.as_str()))
    }
}

/// Returns names that distinguish files: file names, or paths if two files have the same name.
pub(crate) fn distinct_names<'a>(paths: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let name = |path| Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let names: Vec<String> = paths.clone().map(name).collect();
    let is_distinct = names.iter().collect::<HashSet<_>>().len() == names.len();
    // Paths for all files, so that one list does not mix both forms.
    if is_distinct { names } else { paths.map(str::to_owned).collect() }
}
