//! Filters of points at several numbers of keys.

use crate::harness::{self, Effort, Entrant, Load};
use crate::keys::KeySet;
use crate::record::{Record, crate_version};
use crate::subject::{Family, Label, Points, Queries, Subject};

/// Keys in each timed loop over a filter of up to [`CACHED_KEYS`] keys. Their hashes stay in the second-level cache, so
/// that the loop times filters and not the stream of hashes. With eight times as many, the fastest filters take up to
/// twice as long.
const QUERIES_OF_CACHED: usize = 1 << 17;

/// Keys in each timed loop over a larger filter: together they touch all of it.
const QUERIES_OF_LARGE: usize = 1 << 20;

/// The maximum number of keys in a filter of which [`QUERIES_OF_CACHED`] keys touch every line.
const CACHED_KEYS: usize = 1_000_000;

/// The number of absent keys for the observed false positive rate.
const RATE_QUERIES: usize = 1 << 22;

/// Keys that are timed together, less than a millisecond.
const STRETCH: usize = 1 << 15;

/// The maximum number of keys at which all take part. Beyond, only Bloom filters do, whose build needs no more memory
/// than the filter itself: 100 million keys fit into 3 GiB.
const KEYS_OF_ALL: usize = 10_000_000;

/// One number of keys, and the number of measurements with it.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Keys in each filter.
    pub keys: usize,
    /// How often everything is measured.
    effort: Effort,
}

/// The sizes of a short run.
pub const QUICK: [Round; 3] = [round(10_000, 5, 10), round(100_000, 5, 3), round(1_000_000, 3, 1)];

/// The sizes of a usual run.
pub const FULL: [Round; 4] =
    [round(10_000, 25, 20), round(100_000, 25, 5), round(1_000_000, 15, 1), round(10_000_000, 5, 1)];

/// The size that is measured only on request.
pub const LARGE: Round = round(100_000_000, 3, 1);

const fn round(keys: usize, turns: usize, builds: usize) -> Round {
    Round { keys, effort: Effort { turns, builds, stretch: STRETCH } }
}

fn takes_part(label: &Label, keys: usize) -> bool {
    keys <= KEYS_OF_ALL || label.family == Family::Bloom
}

/// Measures all `subjects` in one round. Passes errors to `report`, and continues with the others.
pub fn measure(subjects: &[Box<dyn Subject>], round: Round, mut report: impl FnMut(String)) -> Vec<Record> {
    let present = KeySet::present(round.keys);
    let queries = if round.keys <= CACHED_KEYS { QUERIES_OF_CACHED } else { QUERIES_OF_LARGE };
    let (absent, drawn) = (KeySet::absent(RATE_QUERIES), KeySet::drawn_from(present.all(), queries));
    let misses = absent.all().first(queries);
    let load = Load { present: present.all(), absent: absent.all(), misses, hits: Some(drawn.all()) };
    let entrants = subjects.iter().map(AsRef::as_ref).filter(|subject| takes_part(subject.label(), round.keys));
    let measured = harness::measure(
        entrants,
        present.all(),
        |_| vec![load],
        round.effort,
        |label, error| {
            report(format!("{} {}, {} keys: {error}", label.implementation, label.kind, round.keys));
        },
    );
    measured.iter().map(|entrant| record(entrant, round.keys)).collect()
}

fn record(entrant: &Entrant<'_, Points>, keys: usize) -> Record {
    let (label, figures) = (entrant.label(), &entrant.figures[0]);
    Record {
        implementation: label.implementation.to_owned(),
        version: crate_version(label.implementation).unwrap_or_default().to_owned(),
        kind: label.kind.to_owned(),
        family: label.family,
        isa: label.isa.map(str::to_owned),
        target_cpu: Some(env!("SSTFILTER_PEERS_TARGET_CPU")).filter(|cpu| !cpu.is_empty()).map(str::to_owned),
        against: label.against.to_owned(),
        n: keys as u64,
        hash: label.hash,
        bits_per_key: entrant.bytes as f64 * 8.0 / keys as f64,
        fpr: figures.positives as f64 / RATE_QUERIES as f64,
        build_ns_per_key: entrant.build / keys as f64,
        query_miss_ns: figures.miss.mean(),
        query_hit_ns: figures.hit.mean(),
        batch_miss_ns: figures.batch_ns(),
        bytes_peak: entrant.bytes_peak,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Keys;
    use crate::subject::Filter;

    struct Sorted(Vec<u64>);

    impl Filter for Sorted {
        fn bytes(&self) -> Option<u64> {
            Some(self.0.len() as u64 * 8)
        }

        fn count(&mut self, keys: Keys<'_>) -> u64 {
            keys.numbers.iter().filter(|key| self.0.binary_search(key).is_ok()).count() as u64
        }
    }

    /// A filter that stores every key, or loses the first.
    fn exact(loses_one: bool) -> Box<dyn Subject> {
        Label::of("exact", "sorted", Family::Static, "none").built_by(move |keys| {
            let mut sorted = keys.numbers[usize::from(loses_one)..].to_vec();
            sorted.sort_unstable();
            Ok(Box::new(Sorted(sorted)) as Box<dyn Filter>)
        })
    }

    fn measured(loses_one: bool) -> (Vec<Record>, Vec<String>) {
        let subjects: Vec<Box<dyn Subject>> = vec![exact(loses_one)];
        let mut reports = Vec::new();
        (measure(&subjects, round(1_000, 1, 1), |report| reports.push(report)), reports)
    }

    #[test]
    fn an_exact_set_has_no_false_positives_and_64_bits_per_key() {
        let (records, reports) = measured(false);
        assert!(reports.is_empty());
        assert!(records[0].bits_per_key > 63.9 && records[0].fpr <= 0.0 && records[0].batch_miss_ns.is_none());
        assert!(records[0].build_ns_per_key > 0.0 && records[0].query_miss_ns > 0.0);
    }

    #[test]
    fn a_filter_that_loses_a_key_gets_no_record() {
        let (records, reports) = measured(true);
        assert!(records.is_empty());
        assert_eq!(reports, ["exact sorted, 1000 keys: loses 1 of 1000 keys"]);
    }

    #[test]
    fn the_largest_round_is_of_bloom_filters() {
        let [bloom, other] = [Family::Bloom, Family::Static].map(|family| Label::of("a", "b", family, "c"));
        assert!(FULL.iter().all(|round| takes_part(&other, round.keys)) && !takes_part(&other, LARGE.keys));
        assert!(takes_part(&bloom, LARGE.keys));
    }
}
