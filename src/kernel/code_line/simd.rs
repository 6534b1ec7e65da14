//! Selects the n-th set bit among 256, and runs queries compiled with the CPU's instructions for it.
//!
//! A query counts the bits of up to twelve words and finds the n-th set bit of up to four. x86-64 has instructions for
//! both, but not on every CPU. Every 64-bit ARM CPU counts with vector instructions, which the compiler uses by itself,
//! and has no instruction for selecting, so ARM uses plain Rust. Vectors would not help further: a query reads one or
//! two lines.

use core::hint::select_unpredictable;

/// Finds set bits, by an instruction where the CPU has one.
pub trait Select {
    /// Returns the position of the set bit of `word` that has `rank` set bits below it; 63 if there is none, which only
    /// forged bytes cause. `rank` is below 64.
    fn select_in_word(word: u64, rank: u32) -> u32;
}

/// A query of lines.
pub trait Query {
    /// The result.
    type Answer;

    /// Answers the query. Must be `#[inline(always)]`, as all that it calls: a function that is called instead would be
    /// compiled without the instructions.
    fn run<S: Select>(self) -> Self::Answer;
}

/// Runs a query with the instructions that were selected for this process. Call it from a function that is never
/// inlined, so that callers run exactly the code that is tested on each platform.
#[inline(always)]
pub fn answer<Q: Query>(query: Q) -> Q::Answer {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    {
        use crate::simd::InstructionSet;

        #[target_feature(enable = "bmi1,bmi2,lzcnt,popcnt")]
        fn compiled<Q: Query>(query: Q) -> Q::Answer {
            query.run::<bmi2::Bmi2>()
        }
        // Inlined, it would need registers, which every query would save.
        #[inline(never)]
        fn portable<Q: Query>(query: Q) -> Q::Answer {
            query.run::<Portable>()
        }
        if matches!(crate::simd::selected(), InstructionSet::Avx2 | InstructionSet::Avx512) {
            // SAFETY: both sets include these instructions, and are selected only if the CPU has them.
            return unsafe { compiled(query) };
        }
        portable(query)
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
    query.run::<Portable>()
}

/// In plain Rust.
#[derive(Debug)]
pub struct Portable;

impl Select for Portable {
    #[inline(always)]
    fn select_in_word(word: u64, rank: u32) -> u32 {
        select_in_word(word, rank)
    }
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod bmi2 {
    use core::arch::x86_64::_pdep_u64;

    /// Selects with BMI2, which deposits a bit at the position of the n-th set bit.
    #[derive(Debug)]
    pub(super) struct Bmi2;

    impl super::Select for Bmi2 {
        #[inline(always)]
        fn select_in_word(word: u64, rank: u32) -> u32 {
            // SAFETY: this type is used only behind `answer`, which passes it if the CPU has BMI2.
            let bit = unsafe { _pdep_u64(1_u64.wrapping_shl(rank), word) };
            bit.trailing_zeros().min(63)
        }
    }
}

/// Returns the position of the set bit of four words that has `rank` set bits below it; 255 if there is none.
///
/// Branchless, because the word with the bit is unpredictable.
#[inline(always)]
pub(super) fn select<S: Select>(words: &[u64; 4], rank: u32) -> u32 {
    let [first, second, third, fourth] = *words;
    let one = first.count_ones();
    let two = one + second.count_ones();
    let three = two + third.count_ones();
    let (mut word, mut start, mut before) = (first, 0, 0);
    for (reached, next, next_start) in [(one, second, 64), (two, third, 128), (three, fourth, 192)] {
        let is_reached = rank >= reached;
        word = select_unpredictable(is_reached, next, word);
        start = select_unpredictable(is_reached, next_start, start);
        before = select_unpredictable(is_reached, reached, before);
    }
    // A forged line has more runs than bits here. Every instruction set must find the same.
    start + S::select_in_word(word, (rank - before).min(63))
}

/// Returns the position of the set bit of `word` that has `rank` set bits below it; 63 if there is none.
///
/// The byte is found from prefix sums of byte counts: the usual steps of a population count, then a multiplication
/// (Vigna 2008, "Broadword implementation of rank/select queries"). Within the byte, set bits are cleared one by one.
fn select_in_word(word: u64, rank: u32) -> u32 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x80 * ONES;
    let pairs = word - (word >> 1 & 0x5555_5555_5555_5555);
    let nibbles = (pairs & 0x3333_3333_3333_3333) + (pairs >> 2 & 0x3333_3333_3333_3333);
    let bytes = (nibbles + (nibbles >> 4)) & 0x0f0f_0f0f_0f0f_0f0f;
    let sums = bytes.wrapping_mul(ONES);
    // A byte's high bit is set when its prefix sum is at most the rank: 128 + rank - sum, and both are at most 64.
    let reached = (((u64::from(rank) * ONES) | HIGHS) - sums) & HIGHS;
    let byte = reached.count_ones().min(7) * 8;
    let before = if byte == 0 { 0 } else { ((sums >> (byte - 8)) & 0xff) as u32 };
    let mut bits = word >> byte & 0xff;
    for _ in before..rank.min(before + 7) {
        bits &= bits.wrapping_sub(1);
    }
    byte + bits.trailing_zeros().min(63 - byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::mix64;

    #[test]
    fn each_set_bit_is_found_by_its_rank() {
        for case in 0..2_000_u64 {
            // Sparse, even and dense words, and whole ones.
            let word = |place: u64| match case % 5 {
                0 => mix64(case ^ place << 32) & mix64((case + 1) ^ place << 40) & mix64((case + 2) ^ place << 40),
                1 => mix64(case ^ place << 32),
                2 => !(mix64(case ^ place << 32) & mix64((case + 1) ^ place << 40)),
                3 => u64::MAX,
                _ => 1 << (mix64(case + place) % 64),
            };
            let words = [0, 1, 2, 3].map(word);
            let set = (0..256).filter(|&bit: &usize| words[bit / 64] >> (bit % 64) & 1 == 1);
            let mut ranks = 0;
            for (rank, bit) in set.enumerate() {
                assert_eq!(select::<Portable>(&words, rank as u32), bit as u32, "{words:x?} rank {rank}");
                ranks += 1;
            }
            for beyond in ranks..256 {
                assert_eq!(select::<Portable>(&words, beyond), 255, "{words:x?} rank {beyond}");
            }
        }
    }

    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    #[test]
    fn both_ways_of_selecting_agree() {
        if !crate::simd::InstructionSet::Avx2.is_available() {
            return;
        }
        for case in 0..20_000_u64 {
            let words = [0, 1, 2, 3].map(|word| mix64(case << 2 | word) & mix64((case % 7) << 32 | word));
            // A forged line has more runs than run ends.
            for rank in 0..256 {
                let (fast, plain) = (select::<bmi2::Bmi2>(&words, rank), select::<Portable>(&words, rank));
                assert_eq!(fast, plain, "{words:x?}, rank {rank}");
            }
        }
    }
}
