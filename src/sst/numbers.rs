//! Searching keys by what they begin with, as numbers.

/// Up to here numbers are counted rather than halved: their loads do not wait for each other.
const COUNTED: usize = 64;

/// How many of the ascending `numbers` are below `bound`.
#[inline]
pub(crate) fn count_below(numbers: &[u64], bound: u64) -> usize {
    let (mut below, mut rest) = (0, numbers);
    while rest.len() > COUNTED {
        let (left, right) = rest.split_at(rest.len() / 2);
        if left.last().is_some_and(|&last| last < bound) {
            below += left.len();
            rest = right;
        } else {
            rest = left;
        }
    }
    below + rest.iter().filter(|&&number| number < bound).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_counted_like_a_search_counts_them() {
        let numbers: Vec<u64> = (0..1_000).map(|number| number / 3 * 2).collect();
        for length in [0, 1, 63, 64, 65, 128, 129, 999, 1_000] {
            for bound in 0..700 {
                let expected = numbers[..length].partition_point(|&number| number < bound);
                assert_eq!(count_below(&numbers[..length], bound), expected, "{bound} in {length}");
            }
        }
    }
}
