//! The measurements, each of all kinds.

pub(super) mod by_keys;
pub(super) mod overfill;
pub(super) mod own_keys;
pub(super) mod rates;

use serde::Serialize;

/// A figure that is missing, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Omission {
    /// The kind.
    pub(super) filter: &'static str,
    /// The setting at which it has no figure.
    pub(super) at: String,
    /// Why.
    pub(super) reason: String,
}

impl Omission {
    fn new(filter: &'static str, at: String, error: &anyhow::Error) -> Self {
        Self { filter, at, reason: format!("{error:#}") }
    }
}
