//! Random numbers that are the same on every machine.

/// `SplitMix64` (Steele, Lea and Flood, 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts a different sequence for each seed.
    pub fn new(seed: u64) -> Self {
        // Consecutive seeds start far apart in the generator's single cycle.
        Self(seed << 48)
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`. The bias is below `end` / 2^64.
    pub fn below_u64(&mut self, end: u64) -> u64 {
        let product = u128::from(self.next()) * u128::from(end);
        u64::try_from(product >> 64).unwrap_or(u64::MAX)
    }

    /// An index below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.below_u64(end as u64)).unwrap_or(usize::MAX)
    }

    /// A normally distributed number with mean 2^63 and standard deviation 2^64 / 100 (Box and Muller, 1958).
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a hundred deviations from 0 and 2^64")]
    pub fn normal(&mut self) -> u64 {
        let [radius, angle] = [(); 2].map(|()| ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64);
        let deviations = (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos();
        let two_to_63 = (1_u64 << 63) as f64;
        (two_to_63 + deviations * two_to_63 / 50.0) as u64
    }

    /// A letter from a to z.
    pub fn letter(&mut self) -> u8 {
        b'a' + self.below_u64(26).to_le_bytes()[0]
    }

    /// Brings `items` into random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        (1..items.len()).rev().for_each(|last| items.swap(last, self.below(last + 1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_numbers_have_their_mean_and_deviation() {
        let mut random = Random::new(1);
        let two_to_64 = 2.0_f64.powi(64);
        let numbers: Vec<_> = (0..100_000).map(|_| random.normal() as f64 / two_to_64 - 0.5).collect();
        let mean = numbers.iter().sum::<f64>() / 1e5;
        let deviation = (numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / 1e5).sqrt();
        assert!(mean.abs() < 2e-4 && (deviation - 0.01).abs() < 2e-4, "{mean} {deviation}");
    }
}
