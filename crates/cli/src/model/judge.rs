//! Judges a file by its filters and its place: the state, the reasons, and what to do about them.

use core::cmp::Reverse;
use std::path::Path;

use sstfilter::KindId;
use sstfilter_interop::{FilterInfo, FilterKind};
use sstfilter_store::sidecar_path;

use super::file::{FileReport, FilterReport, Reason, Role};
use super::filters::EXACT_RANGE;
use crate::file::database::Standing;
use crate::file::look::{Format, look_at};
use crate::file::open::{Context, open_table};
use crate::file::problem::{ORPHAN, STALE, State, state_of_filter};
use crate::file::replace::{Mark, ensure_replaceable};
use crate::file::walk::{Found, is_orphan};
use crate::system::input;
use crate::words::escape::shell_word;
use crate::words::group::without_path;
use crate::words::units::grouped;

/// The reason of a table without a filter.
pub(crate) const NO_FILTER: &str = "no filter";

impl FileReport {
    /// Adds a reason. The worst state is that of the file.
    pub(crate) fn blame(&mut self, state: State, part: Option<&str>, why: impl Into<String>) {
        let reason = Reason { state, part: part.map(str::to_owned), why: why.into(), ..Reason::default() };
        let is_known = |known: &Reason| known.part == reason.part && known.why == reason.why;
        if !self.reasons.iter().any(is_known) {
            self.state = self.state.max(state);
            self.reasons.push(reason);
        }
    }

    /// Returns the filter of keys that readers use, or would use if it was sound.
    pub(crate) fn key_filter(&self) -> Option<&FilterReport> {
        self.filters.iter().find(|filter| filter.kind != KindId::RANGE.name())
    }
}

impl FilterReport {
    pub(crate) fn is_of_ranges(&self) -> bool {
        [KindId::RANGE.name(), EXACT_RANGE].contains(&self.kind.as_str())
    }

    /// Whether the filter is known to hold no whole keys.
    pub(crate) fn holds_parts_alone(&self) -> bool {
        self.holds.as_ref().is_some_and(|holds| holds.starts_with("parts") || holds.starts_with("prefixes"))
    }

    fn part(&self) -> Option<&'static str> {
        match self.role {
            Role::Sidecar => Some("sidecar"),
            Role::Table if self.is_of_ranges() => Some("range filter"),
            Role::Table => Some("filter"),
            Role::File => None,
        }
    }
}

/// Adds the reasons that follow from the filters of an opened file.
pub(crate) fn judge_filters(report: &mut FileReport) {
    let filters = report.filters.clone();
    let of_sidecar = || filters.iter().filter(|filter| filter.role == Role::Sidecar);
    // Those of a sidecar come first only if readers use them.
    let is_first = filters.first().is_some_and(|filter| filter.role == Role::Sidecar);
    let is_replaced = is_first && of_sidecar().all(|filter| filter.state < State::Stale);
    let is_replaced = |filter: &FilterReport| is_replaced && filter.role == Role::Table && filter.state < State::Unread;
    let has_own = filters.iter().any(|filter| filter.role == Role::Table && filter.state < State::Stale);
    for filter in filters.iter().filter(|filter| !is_replaced(filter)) {
        let instead = if filter.part() == Some("sidecar") && filter.state > State::Stale && has_own && !is_first {
            "; the table's own filter is used"
        } else {
            ""
        };
        if let Some(why) = filter.reason.as_ref().or(filter.fallback.as_ref()) {
            // Lookups of keys do not need the option that a range filter needs.
            let is_unneeded = filter.is_of_ranges() && filter.state == State::Unusable;
            report.blame(if is_unneeded { State::Ok } else { filter.state }, filter.part(), format!("{why}{instead}"));
        }
    }
    if is_first && report.format == Format::Table {
        let is_damaged = |filter: &FilterReport| is_replaced(filter) && filter.state == State::Damaged;
        let own = if filters.iter().any(is_damaged) { "the table's own filter is damaged; " } else { "" };
        let lacks_ranges = filters.iter().any(|filter| filter.role == Role::Table && filter.is_of_ranges())
            && !of_sidecar().any(FilterReport::is_of_ranges);
        let ranges = if lacks_ranges { "; the sidecar has no range filter" } else { "" };
        report.blame(State::Ok, None, format!("{own}the sidecar's filter is used{ranges}"));
    }
    if report.format.is_table() && report.key_filter().is_none() {
        match report.contents.entries {
            Some(0) => report.blame(State::Ok, None, "no filter, which a table without entries does not need"),
            _ => report.blame(State::Missing, None, NO_FILTER),
        }
    }
}

/// Adds the reasons that follow from the place of a file and from the files next to it, and advice to all reasons. The
/// worst comes first.
pub(crate) fn judge(report: &mut FileReport, found: &Found, context: &Context) {
    let path = &found.path;
    if let Standing::NotLive(why) = found.standing {
        report.blame(State::NotLive, None, format!("the live version of its database does not name it: {why}"));
    }
    if is_orphan(path) {
        report.blame(State::Orphan, None, ORPHAN);
    } else if report.format == Format::Sidecar && is_stale(path, context) {
        report.blame(State::Stale, None, STALE);
    }
    let has_sidecar = || !input::is_standard(path) && matches!(look_at(&sidecar_path(path)), Ok(Format::Sidecar));
    if report.format.engine().is_some() && has_sidecar() {
        let why = "the sidecar next to the table is ignored: only tables of sstfilter have sidecars";
        report.blame(State::Ok, None, why);
    }
    // The path stands before what is said about the file.
    let name = input::name(path);
    let texts = report.reasons.iter_mut().map(|reason| &mut reason.why);
    let texts = texts.chain(report.filters.iter_mut().filter_map(|filter| filter.reason.as_mut()));
    for text in texts.chain(report.parts.iter_mut().filter_map(|part| part.checksum.as_mut())) {
        *text = without_path(text, &name);
    }
    report.reasons.sort_by_key(|reason| Reverse(reason.state));
    advise(report, context);
}

/// Adds advice to the reasons that have none.
pub(crate) fn advise(report: &mut FileReport, context: &Context) {
    let (path, format) = (report.path.0.clone(), report.format);
    for reason in report.reasons.iter_mut().filter(|reason| reason.advice.is_none()) {
        let (advice, commands) = advice(&path, format, reason);
        reason.advice = (!advice.is_empty()).then(|| advice.to_owned());
        reason.commands = commands.iter().map(|command| command_line(command, context, &[shell_word(&path)])).collect();
    }
}

/// Whether readers of the table next to the sidecar at `path` ignore it, because it was made for another table.
pub(crate) fn is_stale(path: &Path, context: &Context) -> bool {
    let table = crate::file::names::table_of_sidecar(path).filter(|table| table.is_file());
    let table = table.and_then(|table| open_table(&table, context).ok());
    table.is_some_and(|table| table.sidecar_problem().is_some_and(|problem| state_of_filter(problem) == State::Stale))
}

/// RocksDB's Ribbon policy writes Bloom filters for fewer keys, because Ribbon would be larger.
const RIBBON_MIN_KEYS: u64 = 253;

/// Judges Bloom filters of a table whose policy is Ribbon. Tables record the policy, but not for which levels it
/// intends Bloom: by default, for flushed tables.
pub(crate) fn of_bloom(policy: Option<&str>, info: &FilterInfo, level: Option<u32>) -> Option<(State, String)> {
    let is_bloom = |kind: &FilterKind| matches!(kind, FilterKind::FastLocalBloom | FilterKind::LegacyBloom);
    let blooms: usize = info.kinds.iter().filter(|(kind, _)| is_bloom(kind)).map(|(_, blocks)| blocks).sum();
    if !policy?.contains("ribbon") || blooms == 0 {
        return None;
    }
    Some(if blooms < info.blocks {
        (State::Ok, format!("Bloom in {blooms} of {} partitions, because Ribbon would be larger", info.blocks))
    } else if info.keys.is_some_and(|keys| keys < RIBBON_MIN_KEYS) {
        (State::Ok, "Bloom, because the table has too few keys for Ribbon".to_owned())
    } else if level.is_none_or(|level| level == 0) {
        (State::Ok, "Bloom, which RocksDB's Ribbon policy intends for flushed tables".to_owned())
    } else {
        let unless = "unless the table was moved here from level 0 as it was";
        (State::Fallback, format!("Bloom although the policy is Ribbon, {unless}"))
    })
}

/// Maximum number of files in a command for several.
const MAX_FILES: usize = 10;

/// Returns the line of a command for the first of these files, with a shell comment if there are more.
pub(crate) fn command_line(command: &str, context: &Context, words: &[String]) -> String {
    let max_files = if command == SALVAGE { 1 } else { MAX_FILES };
    let more = match words.len() {
        count if count > max_files => format!("  # the first {max_files} of {}", grouped(count as u64)),
        _ => String::new(),
    };
    let words = words.get(..max_files).unwrap_or(words).join(" ");
    format!("sstfilter {command}{} {words}{more}", context.options)
}

/// Takes one table at a time.
const SALVAGE: &str = "get --salvage";

/// Returns advice about a file, and the commands that help.
pub(crate) fn advice(path: &Path, format: Format, reason: &Reason) -> (&'static str, &'static [&'static str]) {
    let is_sidecar_kept = || ensure_replaceable(&sidecar_path(path), Some(Mark::SIDECAR)).is_err();
    let is_table = format == Format::Table;
    let is_of_filter = reason.part.as_ref().is_some_and(|part| part.contains("filter") || part == "sidecar");
    match reason.state {
        State::Unread => ("Check the permissions of the file, and its disk.", &["verify"]),
        State::Damaged if is_table && reason.part.is_none() => {
            ("Restore the table from a backup: nothing can be salvaged from it.", &["verify"])
        }
        State::Damaged if is_table && !is_of_filter => (
            "Restore the table from a backup, or build a new one of the entries that can still be read.",
            &["verify", SALVAGE],
        ),
        State::Damaged if is_table && is_sidecar_kept() => {
            ("Delete the sidecar, which was cut short, by hand. Then build a new filter.", &["verify"])
        }
        State::Damaged if is_table => {
            ("If only a filter is damaged, build a new one next to the table.", &["verify", "rebuild"])
        }
        State::Damaged if format.engine().is_some() => (
            "If only the filter is damaged, compact the table in its engine; otherwise restore the file from a backup.",
            &["verify"],
        ),
        State::Damaged if format == Format::Other => {
            ("Pass a table, a filter without a table, a sidecar or a file map.", &[])
        }
        State::Damaged => ("Build the file again, or restore it from a backup.", &["verify"]),
        State::NotChecked => ("", &["verify"]),
        State::Unusable if format.engine().is_some() => (
            "If the reason names an option or a comparator, pass it (--comparator). Otherwise, set one of the engine's own \
             filter policies, and compact the table.",
            &["inspect"],
        ),
        State::Unusable => {
            ("Pass what the filter needs, such as --secret-seed-file, or build a new one.", &["inspect"])
        }
        State::Missing if is_table => ("Build a filter next to the table.", &["rebuild"]),
        State::Missing => ("Set a filter policy in the engine, and compact the table.", &["inspect"]),
        State::Stale if is_table => ("Replace the sidecar, or delete it.", &["rebuild"]),
        State::Stale | State::Orphan => ("Delete the sidecar.", &[]),
        State::Fallback => {
            ("Leave it if the table has few keys; otherwise check the options of its engine.", &["inspect"])
        }
        State::Ok | State::NotLive => ("", &[]),
    }
}
