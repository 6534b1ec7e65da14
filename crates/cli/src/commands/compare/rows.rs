//! The figures of all kinds, and what they say in a sentence.

use sstfilter::{BitsPerKey, FalsePositiveRate, KindId, Sizing};

use crate::commands::options::AUTO;
use crate::measure::filters::{MeasuredKind, default_rate};
use crate::measure::made_up::Curves;
use crate::print::record;
use crate::print::types::{Figure, Open, Seconds};
use crate::words::units::{brief_percent, bytes, counted, grouped, whole};

record! {
    /// All kinds of filter on the same keys, which is also the contents of the page and of `compare.json`.
    pub(crate) struct Comparison {
        pub(super) program: &'static str [json],
        pub(super) command: String [json],
        pub(super) keys: u64,
        pub(super) dealt_files: u64,
        pub(super) absent_keys: u64,
        pub(super) absent_from: String,
        pub(super) footing: String,
        pub(super) block_reads_without_filters: Figure,
        pub(super) compared: Vec<MeasuredKind>,
        pub(super) omissions: Vec<String>,
        pub(super) not_read: Vec<String>,
        pub(super) notes: Vec<String>,
        pub(super) conclusion: String [notable],
        pub(super) written_files: Vec<String> [notable],
        pub(super) curves: Option<Curves> [json],
        pub(super) version: &'static str [json],
        pub(super) date: String [json],
        pub(super) machine: Open [json],
        pub(super) run_seconds: Seconds [json],
    }
}

/// Returns the size or rate that all filters have in common, also in words: by default, the rate of blocked Bloom at 10
/// bits per key.
pub(super) fn footing(rate: Option<FalsePositiveRate>, size: Option<BitsPerKey>) -> anyhow::Result<(Sizing, String)> {
    let in_words = |rate: FalsePositiveRate| format!("a false positive rate of {}", brief_percent(rate.get()));
    Ok(match (rate, size) {
        (Some(rate), _) => (Sizing::Rate(rate), in_words(rate)),
        (None, Some(size)) => (Sizing::BitsPerKey(size), size.to_string()),
        (None, None) => {
            let rate = default_rate()?;
            (Sizing::Rate(rate), in_words(rate) + ", that of blocked Bloom at 10 bits per key")
        }
    })
}

/// A filter that is larger than blocked Bloom by more than this factor does not have the same size.
const SAME_BYTES: f64 = 1.01;

/// Returns a sentence that compares the best kind on this footing with blocked Bloom. If a filter lost a key, the
/// sentence says only that.
pub(super) fn conclusion(rows: &[MeasuredKind], sizing: Sizing, footing: &str) -> String {
    if let Some(alarm) = rows.iter().find_map(alarm) {
        return alarm;
    }
    let has_one_size = matches!(sizing, Sizing::BitsPerKey(_));
    let (is_best, unit, less, bloom_cannot) = if has_one_size {
        ("reads the fewest data blocks", " expected per absent key", "fewer", "be that small")
    } else {
        ("is smallest", "", "less", "reach that")
    };
    // Measured reads are too rough: all kinds without an observed false positive would be best.
    let of = |row: &MeasuredKind| if has_one_size { row.expected_block_reads.0 } else { row.filter_bytes.0 as f64 };
    let in_words = |figure: f64| match figure {
        _ if !has_one_size => bytes(whole(figure)),
        0.0 | 0.001.. => format!("{figure:.4}"),
        _ => format!("{figure:.1e}"),
    };
    let bloom = rows.iter().find(|row| row.requested == KindId::BLOCKED_BLOOM.name());
    let max_bytes = bloom.filter(|_| has_one_size).map_or(f64::INFINITY, |row| row.filter_bytes.0 as f64 * SAME_BYTES);
    let fitting = rows.iter().filter(|row| row.filter_bytes.0 as f64 <= max_bytes);
    // The first of equally good ones: `auto` comes last, so that the sentence names the kind that it chose.
    let Some(best) = fitting.min_by(|one, other| of(one).total_cmp(&of(other))) else {
        return "No kind can build filters of these keys.".to_owned();
    };
    let (name, against) = match bloom {
        Some(bloom) if of(bloom) <= of(best) => ("blocked Bloom".to_owned(), String::new()),
        Some(bloom) => {
            let share = (1.0 - of(best) / of(bloom)) * 100.0;
            let (of_bloom, time) = (in_words(of(bloom)), best.build_ns.0 / bloom.build_ns.0);
            let against = format!(
                " instead of the {of_bloom} of blocked Bloom, {share:.0} % {less}, for {time:.1} times its build time"
            );
            (self::name(best), against)
        }
        None => (self::name(best), format!("; blocked Bloom cannot {bloom_cannot}")),
    };
    format!("At {footing}, {name} {is_best}: {}{unit}{against}.", in_words(of(best)))
}

/// Returns a sentence on the keys that the filter lost, if there are any.
pub(super) fn alarm(row: &MeasuredKind) -> Option<String> {
    let (name, lost, keys) = (name(row), grouped(row.lost_keys), counted(row.keys, "key"));
    (row.lost_keys > 0).then(|| {
        format!(
            "KEYS WERE LOST: {name} is negative for {lost} of its {keys}, which must never happen. Please report it."
        )
    })
}

/// Returns the requested kind, with the one that was built for the automatic policy.
pub(super) fn name(row: &MeasuredKind) -> String {
    if row.requested == AUTO { format!("{AUTO} ({})", row.kind) } else { row.requested.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::types::{Bytes, Nanoseconds};

    fn row(kind: &'static str, bytes: u64, blocks: f64) -> MeasuredKind {
        MeasuredKind {
            requested: kind,
            kind,
            keys: 7,
            filter_bytes: Bytes(bytes),
            expected_block_reads: Figure(blocks),
            build_ns: Nanoseconds(bytes as f64),
            ..MeasuredKind::default()
        }
    }

    #[test]
    fn the_best_at_one_rate_is_the_smallest_and_at_one_size_the_one_that_reads_least() {
        let rate = &footing(Some(FalsePositiveRate::ONE_PERCENT), None).unwrap();
        let size = &footing(None, Some(BitsPerKey::TEN)).unwrap();
        let all =
            [row("bloom", 2_048, 0.01), row("ribbon", 1_024, 0.02), row("xor", 2_060, 0.001), row("fuse", 2_100, 0.0)];
        let best = [row("bloom", 10, 0.1), row("auto", 10, 0.1)];
        let alone = [row("ribbon", 10, 1e-9)];
        let mut lost = [row("bloom", 10, 0.1), row("ribbon", 5, 0.1)];
        lost[1].lost_keys = 1;
        for (rows, (sizing, footing), words) in [
            (&all[..], rate, "ribbon is smallest: 1.0 KiB instead of the 2.0 KiB of blocked Bloom, 50 % less, for 0.5"),
            (&all, size, "xor reads the fewest data blocks: 0.0010 expected per absent key instead"),
            (&all, size, " instead of the 0.0100 of blocked Bloom, 90 % fewer, for "),
            (&best, rate, "1 %, blocked Bloom is smallest: 10 B."),
            (&best, size, "key, blocked Bloom reads the fewest data blocks: 0.1000 expected per absent key."),
            (&alone, rate, "ribbon is smallest: 10 B; blocked Bloom cannot reach that."),
            (&alone, size, "1.0e-9 expected per absent key; blocked Bloom cannot be that small."),
            (&lost, rate, "KEYS WERE LOST: ribbon is negative for 1 of its 7 keys"),
            (&[], rate, "No kind can build filters"),
        ] {
            let sentence = conclusion(rows, *sizing, footing);
            assert!(sentence.contains(words), "{words} in {sentence}");
            assert!(!sentence.contains("LOST") || !sentence.contains("At "), "{sentence}");
        }
    }
}
