//! One line for each of several files: its filter, the filter's kind, and its state.

use core::fmt;

use serde::Serialize;

use super::{Fields, FileReport, FilterFields, TableFields};
use crate::build::report::Choice;
use crate::output::{Column, Outcome, figures};
use crate::partitions::PartitionFields;
use crate::probe::distinct_names;
use crate::units::{grouped, percent};
use crate::{files, groups};

/// A file's filter in one line. The remark explains its state.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Overview {
    /// `table`, `RocksDB table`, `filter block` and so on; `none` if the format is unknown.
    pub(crate) format: String,
    pub(crate) level: Option<u32>,
    /// Entries of the table; null if it does not record them, and for a filter without a table.
    pub(crate) entries: Option<u64>,
    /// Kinds of filters, `none` or `unusable`.
    pub(crate) filter: String,
    pub(crate) filter_bytes: u64,
    pub(crate) keys: Option<u64>,
    pub(crate) bits_per_key: Option<f64>,
    pub(crate) expected_fpr: Option<f64>,
    pub(crate) state: State,
    /// Problem or peculiarity of the filter; null if there is none.
    pub(crate) remark: Option<String>,
    /// Whether the filter is known to hold no whole keys.
    #[serde(skip)]
    pub(crate) holds_parts_alone: bool,
    /// Whether the remark is only about the filter's kind.
    #[serde(skip)]
    pub(super) is_about_kind: bool,
    #[serde(skip)]
    pub(crate) beyond_filters: Damage,
}

/// What is known to be damaged besides filters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Damage {
    #[default]
    None,
    /// A new filter does not help.
    Data,
    /// The file cannot be opened, so nothing can be salvaged.
    Whole,
}

/// The state of a file's filter, from best to worst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    #[default]
    Ok,
    /// It is of another kind than requested.
    Fallback,
    /// The file is a sidecar without its table.
    Orphan,
    /// The sidecar was made for another table.
    Stale,
    /// There is no filter.
    Missing,
    /// It is sound, but this reader cannot use it.
    Unusable,
    Damaged,
    /// The file could not be read.
    Unread,
}

impl State {
    pub(crate) const ALL: [Self; 8] = [
        Self::Ok,
        Self::Fallback,
        Self::Orphan,
        Self::Stale,
        Self::Missing,
        Self::Unusable,
        Self::Damaged,
        Self::Unread,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Fallback => "fallback",
            Self::Orphan => "orphan",
            Self::Stale => "stale",
            Self::Missing => "missing",
            Self::Unusable => "unusable",
            Self::Damaged => "damaged",
            Self::Unread => "unread",
        }
    }

    /// Returns the state of a filter whose file is damaged or could not be read.
    pub(crate) const fn of(outcome: Outcome) -> Option<Self> {
        match outcome {
            Outcome::Yes => None,
            Outcome::No => Some(Self::Damaged),
            Outcome::NotChecked | Outcome::Failed => Some(Self::Unread),
        }
    }

    /// Returns what the state means for the exit code.
    pub(crate) const fn outcome(self) -> Outcome {
        match self {
            Self::Ok | Self::Fallback | Self::Orphan | Self::Missing | Self::Unusable => Outcome::Yes,
            Self::Stale | Self::Damaged => Outcome::No,
            Self::Unread => Outcome::Failed,
        }
    }

    /// Whether someone should look at the file.
    pub(crate) fn is_bad(self) -> bool {
        self > Self::Fallback
    }

    /// Whether the file shows no damage.
    pub(crate) fn is_sound(self) -> bool {
        self < Self::Damaged
    }

    /// Counts `states` by value: `9 ok, 1 missing`.
    pub(crate) fn counts(states: impl IntoIterator<Item = Self>) -> String {
        let states: Vec<_> = states.into_iter().collect();
        let count = |state: Self| (states.iter().filter(|&&other| other == state).count() as u64, state.name());
        let counts = Self::ALL.into_iter().map(count).filter(|&(count, _)| count > 0);
        counts.map(|(count, name)| format!("{} {name}", grouped(count))).collect::<Vec<_>>().join(", ")
    }
}

/// The remark on a file without a filter.
pub(crate) const NO_FILTER: &str = "no filter";

impl Overview {
    /// Returns the overview of a file with this damage.
    pub(super) fn new(fields: &Fields, damage: Outcome) -> Self {
        let found = match fields {
            Fields::Table(table) => Self::of_table(table),
            Fields::FilterBlock(filter) => Self { format: "filter block".into(), ..Self::of_block(filter) },
            Fields::RangeFilter(_) => Self { format: "range filter".into(), filter: "range".into(), ..Self::default() },
            Fields::PartitionedFilter(partitions) => {
                Self { format: "filter block".into(), ..Self::of_partitions(partitions) }
            }
            Fields::Sidecar(sidecar) => {
                let filter = Self::of_either(sidecar.filter.as_ref(), sidecar.partitions.as_ref());
                Self { format: "sidecar".into(), ..filter.unwrap_or_default() }
            }
            Fields::ForeignTable(table) => table.overview(),
            Fields::Problem(problem) => {
                let beyond_filters = if damage == Outcome::No { Damage::Whole } else { Damage::None };
                Self { beyond_filters, ..Self::without_filter("none", Some(problem.clone())) }
            }
        };
        // The filter may be sound while another part of the file is not.
        let problems = if damage == Outcome::Yes { Vec::new() } else { fields.problems() };
        let remark = if problems.is_empty() { found.remark } else { Some(problems.join("; ")) };
        let found = Self { state: State::of(damage).unwrap_or(found.state), remark, ..found };
        let is_stale =
            matches!(fields, Fields::Table(table) if table.sidecar.as_ref().is_some_and(|beside| beside.is_stale));
        found.with_remark(State::Stale, is_stale.then(|| files::STALE.to_owned()))
    }

    /// Returns the overview of a file whose filter is missing or has a problem.
    pub(super) fn without_filter(format: &str, problem: Option<String>) -> Self {
        let (filter, state) = if problem.is_some() { ("unusable", State::Unusable) } else { ("none", State::Missing) };
        let remark = Some(problem.unwrap_or_else(|| NO_FILTER.into()));
        Self { format: format.into(), filter: filter.into(), state, remark, ..Self::default() }
    }

    /// Adds a remark, if there is one, and the state that it explains. The worse of two states is kept.
    pub(crate) fn with_remark(self, state: State, remark: Option<String>) -> Self {
        let Some(remark) = remark else { return self };
        let earlier = self.remark.as_deref().filter(|_| !self.is_about_kind || !state.is_bad());
        let remark = earlier.map(|earlier| format!("{earlier}; {remark}")).unwrap_or(remark);
        Self { state: self.state.max(state), remark: Some(remark), is_about_kind: false, ..self }
    }

    /// Adds a remark on the filter's kind, which needs none if something is wrong with the filter.
    pub(super) fn with_kind(self, state: State, remark: Option<String>) -> Self {
        if self.state.is_bad() || remark.is_none() {
            return self;
        }
        Self { is_about_kind: self.remark.is_none(), ..self.with_remark(state, remark) }
    }

    /// Returns a table's overview, with its sidecar's filter if that is used.
    fn of_table(table: &TableFields) -> Self {
        let own = Self::of_either(table.filter.as_ref(), table.partitions.as_ref());
        let sidecar = table.sidecar.as_ref();
        let used = sidecar.filter(|sidecar| sidecar.problem.is_none()).and_then(|sidecar| sidecar.fields.as_ref());
        let of_sidecar = used.and_then(|fields| Self::of_either(fields.filter.as_ref(), fields.partitions.as_ref()));
        let of_sidecar = of_sidecar.map(|found| found.with_remark(State::Ok, Some(table.replacement())));
        // A sidecar of another reader is sound.
        let foreign = sidecar.filter(|sidecar| !sidecar.is_stale).and_then(|sidecar| sidecar.problem.clone());
        // A usable sidecar replaces the table's own filter, as in lookups.
        let found = of_sidecar.or(own).unwrap_or_else(|| Self::without_filter("", table.filter_problem.clone()));
        Self {
            format: "table".into(),
            level: table.properties.number("level").and_then(|level| level.try_into().ok()),
            entries: table.properties.number("entries"),
            ..found.with_remark(State::Unusable, foreign)
        }
        .of_entries()
    }

    /// Accepts a table without entries that has no filter.
    pub(super) fn of_entries(self) -> Self {
        if (self.state, self.entries) != (State::Missing, Some(0)) {
            return self;
        }
        Self { state: State::Ok, remark: Some("no filter, which a table without entries does not need".into()), ..self }
    }

    fn of_either(filter: Option<&FilterFields>, partitions: Option<&PartitionFields>) -> Option<Self> {
        partitions.map(Self::of_partitions).or_else(|| filter.map(Self::of_block))
    }

    fn of_block(filter: &FilterFields) -> Self {
        let info = &filter.info;
        let choice = Choice::of_block(info);
        let why = if choice.is_by_number_of_keys() {
            format!("{}, because the file has {}", choice.kind, choice.why())
        } else {
            choice.why()
        };
        let why = (!choice.is_as_requested()).then_some(why);
        let damage = (filter.checksum_state != "ok").then(|| filter.checksum_state.clone());
        let found = Self {
            filter: info.kind.to_string(),
            filter_bytes: info.block_bytes,
            keys: Some(info.keys),
            bits_per_key: (info.keys > 0).then(|| info.bits_per_key()),
            expected_fpr: Some(info.expected_fpr),
            ..Self::default()
        };
        found.with_remark(State::Damaged, damage).with_kind(state_of(&choice), why)
    }

    fn of_partitions(partitions: &PartitionFields) -> Self {
        let others = partitions.others();
        let other = others.first();
        let found = Self {
            filter: format!("partitioned, {}", partitions.kind_names()),
            filter_bytes: partitions.bytes,
            keys: Some(partitions.keys),
            bits_per_key: Some(partitions.bytes as f64 * 8.0 / partitions.keys.max(1) as f64),
            expected_fpr: Some(partitions.expected_fpr),
            ..Self::default()
        };
        found
            .with_remark(State::Unusable, partitions.problem().map(str::to_owned))
            .with_kind(other.map_or(State::Ok, state_of), other.map(|kind| format!("some partitions are {kind}")))
    }
}

/// Returns the state of a filter of this kind, which is not the requested one.
fn state_of(choice: &Choice) -> State {
    if choice.is_by_number_of_keys() { State::Ok } else { State::Fallback }
}

/// A file and a name that distinguishes it from the others.
type Named<'a> = (String, &'a FileReport);

/// Writes the lines of several files, and then the remarks. `counts` describes all files.
pub(super) fn write(f: &mut fmt::Formatter<'_>, files: &[FileReport], counts: &str) -> fmt::Result {
    let names = distinct_names(files.iter().map(|file| file.path.as_str()));
    let rows: Vec<Named<'_>> = names.into_iter().zip(files).collect();
    let mut columns: Vec<Column<Named<'_>>> = vec![
        ("file", |(name, _)| name.clone()),
        ("format", |(_, file)| file.overview.format.clone()),
        ("level", |(_, file)| shown(file.overview.level, |level| level.to_string())),
        ("entries", |(_, file)| shown(file.overview.entries, grouped)),
        ("filter", |(_, file)| file.overview.filter.clone()),
        ("bits per key", |(_, file)| shown(file.overview.bits_per_key, |bits| format!("{bits:.2}"))),
        ("expected rate", |(_, file)| shown(file.overview.expected_fpr, percent)),
    ];
    if files.iter().any(|file| file.observed.is_some()) {
        columns
            .push(("observed rate", |(_, file)| shown(file.observed.as_ref().and_then(|found| found.rate), percent)));
    }
    columns.push(("state", |(_, file)| file.overview.state.name().to_owned()));
    if !rows.is_empty() {
        writeln!(f, "{}", figures(&columns, &rows))?;
    }
    // The line of a missing filter says enough.
    let remarked = files.iter().filter(|file| file.overview.remark.as_deref().is_some_and(|text| text != NO_FILTER));
    for (state, files) in groups::by(remarked, FileReport::state) {
        writeln!(f, "{}", groups::line(&state, "file", files.iter().map(|file| file.path.as_str())))?;
    }
    writeln!(f, "{counts}; `sstfilter inspect FILE` shows every field of a file, --full of all files")
}

fn shown<T>(figure: Option<T>, text: impl Fn(T) -> String) -> String {
    figure.map_or_else(|| "-".to_owned(), text)
}
