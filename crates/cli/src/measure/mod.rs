//! Measures all kinds of filter on the same keys.

pub(crate) mod filters;
pub(crate) mod made_up;
