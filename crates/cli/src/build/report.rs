//! The report of a build.

use core::fmt;

use serde::Serialize;
use sstfilter::{BlockInfo, BuildReport, FallbackReason};

/// The kind of filter that was built, and why it differs from the requested one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Choice {
    pub(crate) kind: &'static str,
    pub(crate) requested: &'static str,
    pub(crate) reason: &'static str,
}

impl Choice {
    /// Returns the choice of a filter, or of no filter.
    pub(crate) fn of(filter: Option<&BuildReport>) -> Self {
        Self {
            kind: filter.and_then(|report| report.used).map_or("none", |kind| kind.name()),
            requested: filter.map_or("none", |report| report.requested.name()),
            reason: filter.map_or("as requested", |report| report.reason.as_str()),
        }
    }

    /// Returns the choice that a block records.
    pub(crate) fn of_block(info: &BlockInfo) -> Self {
        Self { kind: info.kind.name(), requested: info.requested.name(), reason: info.reason.as_str() }
    }

    pub(crate) fn is_as_requested(&self) -> bool {
        self.kind == self.requested
    }

    /// Whether the number of keys decided the kind. That is how `auto` chooses, so it is no fallback that needs a look.
    /// A policy for one kind writes the same block for so few keys: nothing in the block tells the two apart.
    pub(crate) fn is_by_number_of_keys(&self) -> bool {
        self.reason == FallbackReason::TooFewKeys.as_str()
    }

    /// Returns why the kind is not the requested one.
    pub(crate) fn why(&self) -> String {
        let Self { requested, reason, .. } = self;
        if self.is_by_number_of_keys() {
            format!("{reason} for {requested}")
        } else {
            format!("not {requested}: {reason}")
        }
    }
}

impl fmt::Display for Choice {
    /// Writes `bloom`, `bloom (too few keys for ribbon)`, or `bloom (not ribbon: memory budget)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The reason only where it explains something: nearly all kinds are as requested.
        let kind = self.kind;
        if self.is_as_requested() { write!(f, "{kind}") } else { write!(f, "{kind} ({})", self.why()) }
    }
}
