//! What is wrong with a file: its state, the reason, and advice in options of the command line.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::Path;

use sstfilter_interop::Error;
use sstfilter_store::FilterProblem;
use sstfilter_table::{TableError, TablePart};

use crate::print::{Outcome, words};
use crate::system::input;
use crate::words::escape::escaped_line;
use crate::words::group::without_path;

words! {
    /// The state of a file or of its filter, from best to worst.
    pub(crate) enum State {
        /// nothing is wrong: filters can be used, and are of the requested kind, or Bloom for too few keys
        Ok = "ok",
        /// the filter is of another kind than requested for another reason; `verify` does not ask
        Fallback = "fallback",
        /// the database does not use the file: no figure counts it
        NotLive = "not live",
        /// the file is a sidecar without its table: delete it
        Orphan = "orphan",
        /// the sidecar is of another table, or of an earlier one of this name; readers ignore it
        Stale = "stale",
        /// there is no filter, although the table has entries
        Missing = "missing",
        /// the filter is sound, but this program cannot use it
        Unusable = "unusable",
        /// part of the file could not be checked
        NotChecked = "not checked",
        /// the file, its filter or its sidecar is damaged, and no sound sidecar replaces the filter
        Damaged = "damaged",
        /// the file could not be read
        Unread = "unread",
    }
}

impl State {
    /// Returns what the state of a file means for a command that reports it.
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Self::Stale | Self::Damaged => Outcome::No,
            Self::Unread => Outcome::Failed,
            _ => Outcome::Yes,
        }
    }
}

/// Why a file or a part of it cannot be used.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) state: State,
    pub(crate) reason: anyhow::Error,
}

impl Problem {
    pub(crate) fn new(state: State, reason: anyhow::Error) -> Self {
        Self { state, reason }
    }

    /// Returns the reason with advice, and the name of the file that it is about.
    pub(crate) fn about<'p>(&self, path: &'p Path) -> (String, Cow<'p, str>) {
        let name = input::name(path);
        (without_path(&explained(&self.reason), &name), name)
    }
}

/// Tells damage from what could not be read, and from what is only not understood.
impl From<anyhow::Error> for Problem {
    fn from(reason: anyhow::Error) -> Self {
        // First, because these errors themselves tell them apart.
        let of_engine = reason.downcast_ref().map(state_of_error);
        let of_filter = reason.downcast_ref().map(state_of_filter);
        let is_unread = reason.chain().any(<dyn core::error::Error>::is::<io::Error>);
        let state = of_engine.or(of_filter).unwrap_or(if is_unread { State::Unread } else { State::Damaged });
        Self { state, reason }
    }
}

impl From<Problem> for anyhow::Error {
    fn from(problem: Problem) -> Self {
        problem.reason
    }
}

/// Returns what an error of another engine's table means for its file.
pub(crate) fn state_of_error(error: &Error) -> State {
    match error {
        Error::Io { .. } => State::Unread,
        Error::NoFilter => State::Missing,
        Error::Unsupported { .. } => State::Unusable,
        _ => State::Damaged,
    }
}

/// Returns what the problem of a filter means for its table.
pub(crate) fn state_of_filter(problem: &TableError) -> State {
    match problem {
        TableError::Io { .. } | TableError::Filter { source: FilterProblem::Unreadable { .. }, .. } => State::Unread,
        TableError::Filter { source: FilterProblem::OtherTable { .. }, .. } => State::Stale,
        _ if problem.is_foreign_filter() => State::Unusable,
        _ => State::Damaged,
    }
}

/// Explains an orphan, and says what to do.
pub(crate) const ORPHAN: &str = "the table is gone, so no reader uses the sidecar: delete it";

/// Explains a stale sidecar.
pub(crate) const STALE: &str = "the sidecar is of another table, or of an earlier table of this name, and is ignored";

/// How to get the keys of a table of RocksDB whose compression this program does not support.
pub(crate) const BY_SST_DUMP: &str = "\
sst_dump --file=TABLE --command=scan --output_hex | sed -n \"s/^'\\([0-9A-Fa-f]*\\)' seq.*/\\1/p\" | \
sstfilter compare --input - --keys-format hex";

const STATE_COMPARATOR: &str = "if you know the name of its database's comparator, pass it with --comparator";

/// Advice for messages of the library that contain all of these words: it names functions, and users need options.
///
/// By words, because errors of other engines' tables have no variants for what is not supported. A test below takes
/// each message from the library.
const ADVICE: [(&[&str], &str); 8] = [
    (&["open with the hasher of that seed"], "pass the seed with --secret-seed-file"),
    (&["open it with that extractor"], "pass its prefix with --range-prefix"),
    (&["replace or delete it"], "`sstfilter rebuild TABLE` replaces it"),
    // Only range filters: no option names the parts of keys that a point filter holds.
    (&[TablePart::RangeFilter.name(), "with other key extractors"], "pass its prefix with --range-prefix"),
    (
        &["a filter without a checksum is not supported"],
        "damage to it would go unnoticed and hide keys; --unchecked-filters uses it anyway",
    ),
    (&["without the comparator of its database is not supported"], STATE_COMPARATOR),
    (&["whether its filter holds whole keys is not supported"], STATE_COMPARATOR),
    (
        &["of a LevelDB database (expected "],
        "pass --comparator leveldb.BytewiseComparator if it orders keys by their bytes",
    ),
];

/// Returns a message of the library, with advice in options of the command line.
pub(crate) fn in_options(message: &impl fmt::Display) -> String {
    // Escaped first: a name in the message could contain a line break.
    let message = escaped_line(&message.to_string());
    match ADVICE.iter().find(|(words, _)| words.iter().all(|words| message.contains(words))) {
        Some((_, advice)) => format!("{message}: {advice}"),
        None => message,
    }
}

/// Returns an error and its causes, each once: the library's messages already quote those of the system.
#[must_use]
pub fn explained(error: &anyhow::Error) -> String {
    let mut causes: Vec<String> = error.chain().map(|cause| in_options(&cause)).collect();
    // `text` is the earlier message: a cause that it already quotes is dropped.
    causes.dedup_by(|cause, text| text.ends_with(cause.as_str()));
    causes.join(": ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sstfilter::{BlockError, FalsePositiveRate, FixedPrefix, KeyHasher, LoadContext, SecretSeed};
    use sstfilter_range::{RangeContext, RangeFilter, RangePolicy, RangeUnits};
    use sstfilter_store::TableIdentity;
    use sstfilter_table::{TableBuilder, TableOptions};

    use super::*;

    #[test]
    fn a_cause_that_a_message_names_is_not_said_again() {
        let error = io::Error::from(io::ErrorKind::NotFound);
        let text = error.to_string();
        let error = anyhow::Error::new(error).context(format!("opening 7: {text}")).context("cannot begin");
        assert_eq!(explained(&error), format!("cannot begin: opening 7: {text}"));
        assert_eq!(explained(&anyhow::anyhow!("a").context("b")), "b: a");
    }

    /// Messages of the library for which the command line has an option.
    fn messages_of_the_library() -> anyhow::Result<Vec<String>> {
        let (hasher, secret) = (KeyHasher::default(), KeyHasher::with_secret_seed(SecretSeed::from_bytes([7; 8])));
        let (expected, got) = (hasher.identity(), secret.identity());
        let block = std::fs::read("../../fixtures/v1/range-hashed-delimited.block")?;
        let context = RangeContext::new(LoadContext::new(&hasher), None);
        let prefixed = RangeUnits::integer(4)?.with_prefix(Arc::new(FixedPrefix::new(1)));
        let policy = RangePolicy::hashed(prefixed, 8, FalsePositiveRate::ONE_PERCENT)?;
        let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default().with_range_filter(policy))?;
        builder.add(b"prefix", b"")?;
        let table =
            sstfilter_table::Table::open_source(bytes::Bytes::from(builder.finish()?.0), &TableOptions::default())?;
        let other = TableIdentity::new([7; 16].into(), 7, 7);
        let mut messages = vec![
            BlockError::HashMismatch { expected, got }.to_string(),
            RangeFilter::load(block, context).map(drop).unwrap_err().to_string(),
            table.range_filter_problem().unwrap().to_string(),
            FilterProblem::OtherTable { expected: other, got: other }.to_string(),
        ];
        for (fixture, comparator) in [
            ("rocksdb/11.8-checksum-none-fv5.sst", None),
            ("leveldb/6000-keys.ldb", None),
            ("leveldb/6000-keys.ldb", Some("idb_cmp1")),
            ("pebble/v8-bloom.sst", None),
        ] {
            let table =
                sstfilter_interop::ForeignTable::open(std::fs::File::open(format!("../interop/fixtures/{fixture}"))?)?;
            let table = comparator.into_iter().fold(table, sstfilter_interop::ForeignTable::with_comparator);
            messages.push(table.try_probe(b"").unwrap_err().to_string());
        }
        Ok(messages)
    }

    /// The failure guarded against: a message of the library is reworded, and its advice silently disappears.
    #[test]
    fn each_piece_of_advice_is_for_a_message_that_the_library_has() {
        let messages = messages_of_the_library().unwrap();
        assert_eq!(messages.len(), ADVICE.len());
        for (words, advice) in ADVICE {
            let about: Vec<_> =
                messages.iter().filter(|message| words.iter().all(|words| message.contains(words))).collect();
            assert!(matches!(about[..], [message] if in_options(message).ends_with(advice)), "{words:?}: {about:?}");
        }
    }
}
