//! How a result becomes text, JSON, HTML, and a part of JSON.md. A command fills a [`Record`]; all that is printed
//! follows from its fields: their names, their types, and the comments beside them.

mod blocks;
pub(crate) mod html;
mod json;
#[cfg(test)]
mod names;
mod output;
#[cfg(test)]
mod page;
mod record;
mod text;
pub(crate) mod types;

pub(crate) use blocks::{Extent, MAX_PAGES};
pub(crate) use json::Json;
pub use output::Outcome;
pub(crate) use output::{CANNOT_WRITE, Output, is_printing, is_quiet, note};
pub(crate) use record::{Cell, Field, Kind, Printed, Record, Schema, Show, Word, record, words};
#[cfg(test)]
pub(crate) use {
    page::{Report, faults, page},
    text::text,
};

#[cfg(test)]
mod tests;
