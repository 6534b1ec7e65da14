//! The conclusion of a comparison, in one sentence.

use sstfilter::KindId;

use super::Footing;
use super::rows::Row;
use crate::units::{bytes, counted, grouped};

/// A filter that is larger than blocked Bloom by more than this factor does not have the same size.
const SAME_BYTES: f64 = 1.01;

/// Returns a sentence that compares the best kind on this footing with blocked Bloom. If a filter lost a key, the
/// sentence says only that.
pub(super) fn sentence(rows: &[Row], footing: Footing) -> String {
    if let Some(alarm) = rows.iter().find_map(alarm) {
        return alarm;
    }
    let bloom = rows.iter().find(|row| row.filter == KindId::BLOCKED_BLOOM.name());
    if let Footing::BitsPerKey(_) = footing {
        at_one_size(rows, bloom, footing)
    } else {
        at_one_rate(rows, bloom, footing)
    }
}

/// Returns a sentence on the keys that the filter lost, if there are any.
pub(super) fn alarm(row: &Row) -> Option<String> {
    let (name, lost, keys) = (row.name(), grouped(row.lost_keys), counted(row.keys, "key"));
    (row.lost_keys > 0).then(|| {
        format!(
            "KEYS WERE LOST: {name} is negative for {lost} of its {keys}, which must never happen. Please report it."
        )
    })
}

/// Names the smallest filter.
fn at_one_rate(rows: &[Row], bloom: Option<&Row>, footing: Footing) -> String {
    // The first of equally small ones: `auto` comes last, so that the sentence names the kind that it chose.
    let smallest = rows.iter().min_by_key(|row| row.bytes);
    let Some(best) = smallest else { return NONE.to_owned() };
    let (name, size) = (best.name(), bytes(best.bytes));
    match bloom {
        Some(bloom) if bloom.bytes <= best.bytes => {
            format!("At {footing}, blocked Bloom is smallest: {size}.")
        }
        Some(bloom) => format!(
            "At {footing}, {name} is smallest: {size} instead of the {} of blocked Bloom, {:.0} % less, for {:.1} times \
             its build time.",
            bytes(bloom.bytes),
            (1.0 - best.bytes as f64 / bloom.bytes as f64) * 100.0,
            best.times.build_ns_per_key / bloom.times.build_ns_per_key,
        ),
        None => format!("At {footing}, {name} is smallest: {size}; blocked Bloom cannot reach that."),
    }
}

/// Names the filter with the fewest expected block reads in about the bytes of blocked Bloom. Measured reads are too
/// rough: all kinds without an observed false positive would be best.
fn at_one_size(rows: &[Row], bloom: Option<&Row>, footing: Footing) -> String {
    // Without blocked Bloom, there is no size to keep within.
    let max_bytes = bloom.map_or(f64::INFINITY, |bloom| bloom.bytes as f64 * SAME_BYTES);
    let blocks = |row: &Row| row.expected_blocks_per_absent_key;
    let fitting = rows.iter().filter(|row| row.bytes as f64 <= max_bytes);
    let Some(best) = fitting.min_by(|a, b| blocks(a).total_cmp(&blocks(b))) else { return NONE.to_owned() };
    let (name, read) = (best.name(), significant(blocks(best)));
    match bloom {
        Some(bloom) if blocks(bloom) <= blocks(best) => {
            format!("At {footing}, blocked Bloom reads the fewest data blocks: {read} expected per absent key.")
        }
        Some(bloom) => format!(
            "At {footing}, {name} reads the fewest data blocks: {read} expected per absent key instead of the {} of blocked \
             Bloom, {:.0} % fewer, for {:.1} times its build time.",
            significant(blocks(bloom)),
            (1.0 - blocks(best) / blocks(bloom)) * 100.0,
            best.times.build_ns_per_key / bloom.times.build_ns_per_key,
        ),
        None => format!(
            "At {footing}, {name} reads the fewest data blocks: {read} expected per absent key; blocked Bloom cannot \
             be that small."
        ),
    }
}

const NONE: &str = "No kind can build filters of these keys.";

/// Formats a figure with two significant digits or more.
fn significant(figure: f64) -> String {
    if figure >= 0.001 || figure == 0.0 { format!("{figure:.4}") } else { format!("{figure:.1e}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::Times;

    fn row(filter: &'static str, bytes: u64, blocks: f64) -> Row {
        Row {
            filter,
            kind: filter,
            keys: 7,
            bytes,
            expected_blocks_per_absent_key: blocks,
            times: Times { build_ns_per_key: bytes as f64, query_one_ns: 1.0, query_batch_ns: 1.0 },
            ..Row::default()
        }
    }

    #[test]
    fn the_best_at_one_rate_is_the_smallest_and_at_one_size_the_one_that_reads_least() {
        let rows =
            [row("bloom", 2_048, 0.01), row("ribbon", 1_024, 0.02), row("xor", 2_060, 0.001), row("fuse", 2_100, 0.0)];
        let by_rate = sentence(&rows, Footing::Fpr(0.01));
        assert!(
            by_rate.contains("ribbon is smallest: 1.0 KiB instead of the 2.0 KiB of blocked Bloom, 50 % less"),
            "{by_rate}"
        );
        assert!(by_rate.contains("for 0.5 times its build time"), "{by_rate}");
        let by_size = sentence(&rows, Footing::BitsPerKey(10.0));
        assert!(
            by_size.starts_with("At 10 bits per key, xor reads the fewest data blocks: 0.0010 expected"),
            "{by_size}"
        );
        assert!(by_size.contains("instead of the 0.0100 of blocked Bloom, 90 % fewer"), "{by_size}");
    }

    #[test]
    fn bloom_that_is_best_is_not_said_to_lose_to_itself() {
        let rows = [row("bloom", 10, 0.1), row("auto", 10, 0.1)];
        assert!(sentence(&rows, Footing::Fpr(0.01)).ends_with("blocked Bloom is smallest: 10 B."));
        let by_size = sentence(&rows, Footing::BitsPerKey(10.0));
        assert!(
            by_size.ends_with("blocked Bloom reads the fewest data blocks: 0.1000 expected per absent key."),
            "{by_size}"
        );
    }

    #[test]
    fn a_comparison_without_bloom_names_what_is_there() {
        let text = sentence(&[row("ribbon", 10, 1e-9)], Footing::Fpr(1e-9));
        assert!(text.contains("ribbon is smallest: 10 B; blocked Bloom cannot reach that."), "{text}");
        let text = sentence(&[row("ribbon", 10, 1e-9)], Footing::BitsPerKey(1.0));
        assert!(text.contains("1.0e-9 expected per absent key; blocked Bloom cannot be that small"), "{text}");
    }

    #[test]
    fn a_lost_key_is_the_only_thing_said() {
        let mut rows = [row("bloom", 10, 0.1), row("ribbon", 5, 0.1)];
        rows[1].lost_keys = 1;
        let text = sentence(&rows, Footing::Fpr(0.01));
        assert!(text.starts_with("KEYS WERE LOST: ribbon is negative for 1 of its 7 keys"), "{text}");
    }
}
