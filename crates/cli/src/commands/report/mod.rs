//! `sstfilter report`: how the filters of a store are.

mod rates;
pub(crate) mod run;

pub(crate) use rates::Survey;
