//! Merges ascending runs of entries.

use core::hint::select_unpredictable;

use sstfilter::KeyHash;

/// Returns whether each run ascends.
pub(crate) fn are_ascending(entries: &[KeyHash], ends: &[usize]) -> bool {
    let starts = core::iter::once(&0).chain(ends);
    starts.zip(ends).all(|(&start, &end)| entries.get(start..end).is_some_and(<[KeyHash]>::is_sorted))
}

/// Sorts `entries`, which consist of ascending runs, by merging neighbouring runs until one is left. `ends` has the end
/// of each run. `spare` is memory for a copy.
pub(crate) fn merge_runs(entries: &mut Vec<KeyHash>, ends: &mut Vec<usize>, spare: &mut Vec<KeyHash>) {
    while ends.len() > 1 {
        spare.resize(entries.len(), KeyHash::from_well_mixed(0));
        let (mut source, mut target, mut start) = (&entries[..], &mut spare[..], 0);
        for pair in ends.chunks(2) {
            let (Some(middle), Some(end)) = (pair.first(), pair.last()) else { continue };
            let (runs, out);
            (runs, source) = source.split_at(end - start);
            (out, target) = target.split_at_mut(end - start);
            let (one, other) = runs.split_at(middle - start);
            merge(one, other, out);
            start = *end;
        }
        core::mem::swap(entries, spare);
        *ends = ends.chunks(2).filter_map(|pair| pair.last().copied()).collect();
    }
}

/// Merges two ascending runs. It works from both ends at once: a step waits for the loads of the step before, and two
/// chains of steps take no longer than one.
fn merge(one: &[KeyHash], other: &[KeyHash], out: &mut [KeyHash]) {
    let (least, greatest) = (KeyHash::from_well_mixed(0), KeyHash::from_well_mixed(u64::MAX));
    let (mut first, mut other_first, mut end, mut other_end) = (0, 0, one.len(), other.len());
    let mut next = || {
        let (a, b) = (one.get(first).copied().unwrap_or(greatest), other.get(other_first).copied().unwrap_or(greatest));
        let is_other = b < a;
        first += usize::from(!is_other);
        other_first += usize::from(is_other);
        select_unpredictable(is_other, b, a)
    };
    let (low, high) = out.split_at_mut(out.len() / 2);
    let mut high = high.iter_mut();
    for low in low {
        *low = next();
        if let Some(high) = high.next_back() {
            let a = one.get(end.wrapping_sub(1)).copied().unwrap_or(least);
            let b = other.get(other_end.wrapping_sub(1)).copied().unwrap_or(least);
            let is_other = b > a;
            end = end.wrapping_sub(usize::from(!is_other));
            other_end = other_end.wrapping_sub(usize::from(is_other));
            *high = select_unpredictable(is_other, b, a);
        }
    }
    // The middle of an odd number.
    if let Some(middle) = high.next() {
        *middle = next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_all_lengths_are_merged() {
        let lengths = [[0, 0, 0], [1, 0, 0], [0, 1, 5], [3, 3, 3], [100, 7, 1], [2, 90, 33]];
        for lengths in lengths {
            for count in 0..=9 {
                let (mut entries, mut ends) = (Vec::new(), Vec::new());
                for run in 0..count {
                    let start = entries.len();
                    // Some are equal, and the least and the greatest number are among them.
                    let number = |at: u64| if at % 4 < 2 { (at % 4).wrapping_neg() } else { run * at * 7_919 % 64 };
                    entries.extend((0..lengths[run as usize % 3]).map(|at| KeyHash::from_well_mixed(number(at))));
                    entries[start..].sort_unstable();
                    ends.push(entries.len());
                }
                let mut expected = entries.clone();
                expected.sort_unstable();
                merge_runs(&mut entries, &mut ends, &mut vec![KeyHash::from_well_mixed(7); 3]);
                assert_eq!(entries, expected, "{count} runs of {lengths:?}");
            }
        }
    }
}
