//! All figures of one report.

use serde::Serialize;

use super::articles::Row;
use super::effort::Effort;
use super::machine::Machine;
use super::measure::Omission;
use super::measure::by_keys::KeysPoint;
use super::measure::overfill::OverfillPoint;
use super::measure::rates::RatePoint;

/// A filter that took part.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FilterInfo {
    pub(super) name: &'static str,
    /// Whether it takes keys while it is in use.
    pub(super) grows: bool,
    /// Whether keys can be removed from it.
    pub(super) removes: bool,
}

/// What the page shows and `report.json` holds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    pub(super) program: &'static str,
    pub(super) version: &'static str,
    pub(super) date: String,
    pub(super) command: String,
    pub(super) machine: Machine,
    pub(super) effort: Effort,
    pub(super) filters: Vec<FilterInfo>,
    pub(super) rates: Vec<RatePoint>,
    pub(super) by_keys_fpr: f64,
    pub(super) by_keys: Vec<KeysPoint>,
    pub(super) overfill_fpr: f64,
    pub(super) overfill: Vec<OverfillPoint>,
    pub(super) articles: Vec<Row>,
    /// Figures that there are not, and why.
    pub(super) omissions: Vec<Omission>,
    /// Sentences that say what stands out.
    pub(super) findings: Vec<String>,
    pub(super) seconds: f64,
}
