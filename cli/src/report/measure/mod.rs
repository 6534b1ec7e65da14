//! The measurements, each of all contenders.

pub(super) mod by_keys;
pub(super) mod overfill;
pub(super) mod rates;

use serde::Serialize;

/// A figure that there is not, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Omission {
    /// The contender.
    pub(super) filter: &'static str,
    /// The setting at which it has no figure.
    pub(super) at: String,
    /// Why.
    pub(super) reason: String,
}
