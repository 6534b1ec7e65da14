//! One key's mask over one line of each of many payloads.
//!
//! Every function takes `line`, which finds the line of payload `i` (0 to 63), so that a kernel knows
//! nothing of how payloads are kept; a payload without such a line counts as one that covers the mask.
//! The loop is inside the kernel, and has no branch on what the lines hold.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon;
mod portable;

use super::line::{Line, LineMask};

/// The payloads, among those whose bit is set in `which`, that cover `mask`.
///
/// `ahead` names the line of the same payload that will be wanted next, for another key: it is fetched
/// while this one is tested.
#[inline]
pub(crate) fn covered<'a>(
    mask: &LineMask,
    which: u64,
    line: impl Fn(usize) -> Option<&'a Line>,
    ahead: impl Fn(usize) -> Option<&'a Line>,
) -> u64 {
    dispatch!(covered(mask, which, line, ahead))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHash;
    use crate::kernel::line;
    use crate::simd;

    /// 70 lines with keys of their own, some of them full or empty.
    fn lines(probes: u8) -> Vec<Line> {
        (0..70_u64)
            .map(|number| {
                let mut line = [if number % 9 == 0 { u8::MAX } else { 0 }; 64];
                let keys = (0..number % 40).map(|key| KeyHash::from_remixed(number << 32 | key));
                keys.for_each(|hash| line::insert(&mut line, hash, probes));
                line
            })
            .collect()
    }

    #[test]
    fn all_instruction_sets_say_which_of_many_lines_cover_a_mask() {
        simd::for_each_set(|set| {
            for probes in 1..=line::MAX_PROBES {
                let lines = lines(probes);
                for (first, which) in [(0, u64::MAX), (6, u64::MAX), (0, 0), (3, 0x8000_0000_0000_0001), (1, 0xf0f0)] {
                    for number in 0..70_u64 {
                        let hash = KeyHash::from_remixed(number << 32);
                        let line_at = |index: usize| lines.get(first + index);
                        let got = covered(&line::mask(hash, probes), which, line_at, line_at);
                        let expected = (0..64)
                            .filter(|&bit| which >> bit & 1 == 1 && line::contains(&lines[first + bit], hash, probes))
                            .fold(0, |bits, bit| bits | 1 << bit);
                        assert_eq!(got, expected, "{set}, {probes} probes, key {number}");
                    }
                }
            }
        });
    }

    #[test]
    fn a_line_that_is_not_there_covers_everything() {
        simd::for_each_set(|_| {
            assert_eq!(covered(&[u64::MAX; 8], 0b1011, |index| (index == 0).then_some(&[0; 64]), |_| None), 0b1010);
        });
    }
}
