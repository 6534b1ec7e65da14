//! `sstfilter report`: how the filters of a store are.

mod rates;
mod run;

pub(crate) use rates::Survey;
pub(crate) use run::{ReportArgs, StoreReport, run};
