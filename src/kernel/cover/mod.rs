//! One key's mask over one line of each of many payloads.
//!
//! A kernel takes an iterator that finds the lines, so that it knows nothing of how payloads are kept. The
//! loop over them is inside the kernel, allocates nothing, and has no branch on what a line holds.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon;
mod portable;

use super::line::{Line, LineMask};

/// One payload's part in a test.
#[derive(Clone, Copy)]
pub(crate) struct Candidate<'a> {
    /// The bit that says what came out, 0 to 63.
    pub(crate) place: usize,
    /// The key's line; a payload without it counts as one that covers the mask.
    pub(crate) line: Option<&'a Line>,
    /// The line that will be wanted next, for another key: it is fetched while this one is tested.
    pub(crate) ahead: Option<&'a Line>,
}

/// The places of the candidates whose lines cover `mask`.
#[inline]
pub(crate) fn covered<'a>(mask: &LineMask, candidates: impl Iterator<Item = Candidate<'a>>) -> u64 {
    dispatch!(covered(mask, candidates))
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
                        let candidates = (0..64).filter(|place| which >> place & 1 == 1).map(|place| {
                            let line = lines.get(first + place);
                            Candidate { place, line, ahead: line }
                        });
                        let got = covered(&line::mask(hash, probes), candidates);
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
            let candidates = [(0, Some(&[0; 64])), (1, None), (63, None)];
            let candidates = candidates.map(|(place, line)| Candidate { place, line, ahead: None });
            assert_eq!(covered(&[u64::MAX; 8], candidates.into_iter()), 1 << 63 | 0b10);
        });
    }
}
