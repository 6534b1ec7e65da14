//! Ends of ranges, and their equivalents among keys of one length.

use core::ops::Bound;

use sstfilter::KeyRange;

/// Returns the smallest byte string above all that begin with `prefix`, split into all bytes but the last, and the last
/// one. It is the prefix up to its last byte that is not 0xff, with that byte raised by one. `None` if no byte string
/// is above them.
pub(super) fn successor(prefix: &[u8]) -> Option<(&[u8], u8)> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    Some((prefix.get(..last)?, prefix.get(last)? + 1))
}

/// The position of an end that does not begin with the bytes that all keys share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beyond {
    /// Below every key.
    Below,
    /// Above every key.
    Above,
}

/// Returns the bytes of an end after those that all keys share, if it begins with them.
#[inline(always)]
pub(super) fn rest_after<'b>(common: &[u8], end: &'b [u8]) -> Result<&'b [u8], Beyond> {
    // Comparing no bytes would still take a call.
    if common.is_empty() {
        return Ok(end);
    }
    match end.split_at_checked(common.len()) {
        Some((first, rest)) if first == common => Ok(rest),
        // An end that is a proper prefix of the common bytes is below every key, and compares so here.
        _ if end < common => Err(Beyond::Below),
        _ => Err(Beyond::Above),
    }
}

/// Returns the bytes of an end, and whether it is exclusive; `None` if it is unbounded.
#[inline(always)]
pub(super) fn end(bound: Bound<&[u8]>) -> Option<(&[u8], bool)> {
    match bound {
        Bound::Included(end) => Some((end, false)),
        Bound::Excluded(end) => Some((end, true)),
        Bound::Unbounded => None,
    }
}

/// Returns a range that contains the same keys of `length` bytes and has no longer ends. An exclusive lower end and
/// an inclusive upper end then have exactly `length` bytes. If keys have various lengths, the range is unchanged.
#[inline(always)]
pub(super) fn of_keys_with_length(range: KeyRange<'_>, length: Option<usize>) -> KeyRange<'_> {
    let Some(length) = length else { return range };
    let lower = match range.lower {
        // A key of this length that is above a longer end is also above the end's first `length` bytes.
        Bound::Included(lower) | Bound::Excluded(lower) if lower.len() > length => {
            Bound::Excluded(lower.get(..length).unwrap_or(lower))
        }
        // No key equals a shorter end. `Cells::lower` expects an exclusive end to have the keys' length.
        Bound::Excluded(lower) if lower.len() < length => Bound::Included(lower),
        lower => lower,
    };
    let upper = match range.upper {
        // A key of this length that is below a longer end is below the end's first `length` bytes, or equal to
        // them.
        Bound::Included(upper) | Bound::Excluded(upper) if upper.len() > length => {
            Bound::Included(upper.get(..length).unwrap_or(upper))
        }
        Bound::Included(upper) if upper.len() < length => Bound::Excluded(upper),
        upper => upper,
    };
    KeyRange { lower, upper }
}

#[cfg(test)]
#[path = "../../../tests/common/short_ranges.rs"]
mod short_ranges;

#[cfg(test)]
mod tests {
    use super::short_ranges::{all_ranges, strings};
    use super::*;

    #[test]
    fn for_keys_of_one_length_ends_are_cut_to_it_without_gain_or_loss() {
        let ends = strings(3);
        for length in 1..=3 {
            let keys: Vec<_> = strings(3).into_iter().filter(|key| key.len() == length).collect();
            for range in all_ranges(&ends) {
                let cut = of_keys_with_length(range, Some(length));
                assert!(keys.iter().all(|key| range.contains(key) == cut.contains(key)), "{range:?} {cut:?}");
                assert!(!matches!(cut.lower, Bound::Excluded(end) if end.len() != length), "{cut:?}");
                assert!(!matches!(cut.upper, Bound::Included(end) if end.len() != length), "{cut:?}");
            }
        }
    }
}
