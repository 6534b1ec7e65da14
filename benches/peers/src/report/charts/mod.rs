//! Charts as SVG: what a filter costs, at a glance.

mod by_keys;
mod canvas;
mod labels;
mod rates;
mod style;

use crate::record::Record;

/// A drawn chart.
#[derive(Debug)]
pub struct Image {
    /// Its file's name.
    pub file: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// The drawing.
    pub svg: String,
}

/// All charts that `records` are enough for.
pub fn all(records: &[Record]) -> Vec<Image> {
    let mut images: Vec<_> = rates::chart(records).into_iter().collect();
    images.push(by_keys::chart(records, &by_keys::BUILD));
    images.push(by_keys::chart(records, &by_keys::MISS));
    images
}
