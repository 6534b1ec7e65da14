//! `qfilter`: a quotient filter, a power of two of slots.

use qfilter::Filter as QuotientFilter;

use super::CUCKOO_ELEVEN;
use crate::subject::{Family, Label, Queries, Subject, built};

pub(super) fn subject() -> Box<dyn Subject> {
    Label::of("qfilter", "quotient, 1 %", Family::Dynamic, CUCKOO_ELEVEN).built_by(|keys| {
        let mut filter = QuotientFilter::new(keys.len() as u64, 0.01)?;
        for &hash in keys.numbers {
            filter.insert_fingerprint(false, hash)?;
        }
        let bytes = filter.memory_usage();
        built(filter, bytes, QuotientFilter::contains_fingerprint)
    })
}
