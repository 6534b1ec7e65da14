//! Which of many ranges hold a number.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon;
mod portable;

/// Ranges that are compared at once.
pub(crate) const LANES: usize = 8;

/// Eight ranges: lane by lane, the smallest and the largest number that are in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranges {
    pub(crate) smallest: [u64; LANES],
    pub(crate) largest: [u64; LANES],
}

impl Ranges {
    /// Ranges that hold nothing.
    pub(crate) const EMPTY: Self = Self { smallest: [u64::MAX; LANES], largest: [0; LANES] };
}

/// Where a number stands to ranges, a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Within {
    /// It is in the range.
    pub(crate) inside: u64,
    /// It is in the range, and is neither its smallest nor its largest number.
    pub(crate) strictly_inside: u64,
}

/// Where `number` stands to each of up to 64 ranges: bit `8 x i + j` for lane `j` of the eight ranges `i`.
#[inline]
pub(crate) fn within(number: u64, ranges: &[Ranges]) -> Within {
    dispatch!(within(number, ranges))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHash;
    use crate::simd;

    const EDGES: [u64; 8] = [0, 1, 2, i64::MAX as u64, 1 << 63, (1 << 63) + 1, u64::MAX - 1, u64::MAX];

    fn number(seed: u64) -> u64 {
        let random = KeyHash::from_remixed(seed).get();
        if random.is_multiple_of(3) { random } else { EDGES[(random >> 8) as usize % EDGES.len()] }
    }

    #[test]
    fn all_instruction_sets_place_a_number_in_and_at_the_ends_of_ranges() {
        simd::for_each_set(|set| {
            for count in 0..=8 {
                let numbers = |seed: usize| core::array::from_fn(|lane| number((seed * LANES + lane) as u64));
                let ranges: Vec<Ranges> = (0..count)
                    .map(|chunk| Ranges { smallest: numbers(chunk), largest: numbers(chunk + 100) })
                    .collect();
                for asked in EDGES.into_iter().chain((0..100).map(number)) {
                    let mut expected = Within::default();
                    for bit in 0..count * LANES {
                        let (chunk, lane) = (bit / LANES, bit % LANES);
                        let (smallest, largest) = (ranges[chunk].smallest[lane], ranges[chunk].largest[lane]);
                        expected.inside |= u64::from((smallest..=largest).contains(&asked)) << bit;
                        expected.strictly_inside |= u64::from(smallest < asked && asked < largest) << bit;
                    }
                    assert_eq!(within(asked, &ranges), expected, "{set}, {count} times eight, {asked:#x}");
                }
            }
        });
    }

    #[test]
    fn empty_ranges_hold_nothing() {
        for asked in EDGES {
            assert_eq!(within(asked, &[Ranges::EMPTY; 8]), Within::default());
        }
    }
}
