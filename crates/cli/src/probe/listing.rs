//! Keys one by one: which may be somewhere, which are nowhere, and which tables each would touch.

use std::collections::HashSet;
use std::path::Path;

use serde::Serialize;

use super::batch::{BatchAnswers, Detail};
use crate::lines::KeysFormat;
use crate::output::{Output, Text};

/// Which keys are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listing {
    All,
    /// Those that some table may hold.
    Maybe,
    /// Those that no table holds.
    Absent,
}

/// What all tables answer for a key.
#[derive(Debug, Serialize)]
pub(crate) struct KeyAnswer {
    key: Text,
    /// How many tables may hold it.
    tables: u32,
    /// Which ones, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    which: Option<Vec<String>>,
}

impl Listing {
    fn takes(self, tables: u32) -> bool {
        match self {
            Self::All => true,
            Self::Maybe => tables > 0,
            Self::Absent => tables == 0,
        }
    }

    /// The positions of the keys that are listed, and how many tables each touches.
    fn chosen(self, found: &BatchAnswers) -> impl Iterator<Item = (u32, u32)> {
        (0..).zip(found.touched.iter().copied()).filter(move |&(_, tables)| self.takes(tables))
    }

    /// Prints the keys in the format that they came in, each with its tables if `detail` has them.
    pub(crate) fn print(
        self,
        keys: &[&[u8]],
        found: &BatchAnswers,
        (format, detail): (KeysFormat, Detail),
        output: &mut Output<'_>,
    ) -> anyhow::Result<()> {
        let names = names(found);
        for (position, tables) in self.chosen(found) {
            let tables = match detail {
                Detail::Counts => String::new(),
                Detail::Files => format!("\t{tables}\t{}", which(position, &names, found).join(",")),
            };
            let key = format.encoded(keys[position as usize]);
            output.record(&[&key, tables.as_bytes()], format.terminator())?;
        }
        Ok(())
    }

    /// The same for JSON.
    pub(crate) fn answers(self, keys: &[&[u8]], found: &BatchAnswers, detail: Detail) -> Vec<KeyAnswer> {
        let names = names(found);
        let answer = |(position, tables): (u32, u32)| KeyAnswer {
            key: Text(keys[position as usize].to_vec()),
            tables,
            which: (detail == Detail::Files).then(|| which(position, &names, found)),
        };
        self.chosen(found).map(answer).collect()
    }
}

/// The files that may hold the key at `position`.
fn which(position: u32, names: &[String], found: &BatchAnswers) -> Vec<String> {
    let positive = found.positives.iter().zip(names).filter(|(answers, _)| answers.holds(position));
    positive.map(|(_, name)| name.clone()).collect()
}

/// Names that tell the files apart: those of the files alone, or their paths if two files have the same name.
fn names(found: &BatchAnswers) -> Vec<String> {
    let names: Vec<_> = found.files.iter().map(|file| file_name(&file.path)).collect();
    if names.iter().collect::<HashSet<_>>().len() == names.len() {
        names
    } else {
        found.files.iter().map(|file| file.path.clone()).collect()
    }
}

/// The last part of a path.
pub(crate) fn file_name(path: &str) -> String {
    Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned()
}
