//! The random numbers of custom mutators, drawn from libFuzzer's seed.

/// A generator of 64-bit numbers (`SplitMix64`).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers that follow from `seed`.
    #[must_use]
    pub fn new(seed: u32) -> Self {
        Self(u64::from(seed))
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `bound`; 0 when the bound is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { usize::try_from(self.draw() % bound as u64).unwrap_or(0) }
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// 32 bits: small, near a power of two, or any.
    pub fn number(&mut self) -> u32 {
        let any = (self.draw() >> 32) as u32;
        match self.below(4) {
            0 => any % 16,
            1 => any % 1_024,
            2 => (1_u32 << (any % 32)).wrapping_add(self.below(3) as u32).wrapping_sub(1),
            _ => any,
        }
    }
}
