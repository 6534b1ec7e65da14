//! In place of pages of maps, without the feature `maps`: types without values.

use core::convert::Infallible;

/// A read of a page of a map. Without the feature `maps`, there are none.
#[derive(Debug)]
pub struct PageRead(Infallible);

pub(crate) struct Pages(Infallible);
