//! Ribbon.

mod band;
mod build;
mod columns;
mod equation;
mod plan;
mod shape;
mod solve;

pub(crate) use build::{BuiltRibbon, RibbonFailure, build};
pub(crate) use columns::Columns;
pub(crate) use plan::{columns_for_size, estimated_build_bytes, expected_shape};
pub(crate) use shape::RibbonShape;
