//! Four tags packed in one word and compared together.

use core::ops::{Add, BitAnd, BitOr, BitXor, Mul, Not, Shl, Shr};

/// Tags in a bucket. With four, two buckets reach a load of 97.7 %.
pub(super) const SLOTS: u32 = 4;

/// A word that holds a bucket: `u64` up to 16 bits per tag, `u128` up to 32.
///
/// A private trait, because the two integers share no trait for wrapping arithmetic and little-endian bytes.
pub(super) trait Word:
    Copy
    + PartialEq
    + Default
    + From<u32>
    + Add<Output = Self>
    + Mul<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Not<Output = Self>
    + Shl<u32, Output = Self>
    + Shr<u32, Output = Self>
{
    fn low(self) -> u32;
    /// Returns the difference modulo 2 to the word's width.
    fn minus(self, other: Self) -> Self;
    fn ones(self) -> u32;
    /// Returns the position of the lowest 1; the word's width if there is none.
    fn lowest(self) -> u32;
    /// Returns the word at byte `at`; 0 beyond the end.
    fn read(bytes: &[u8], at: usize) -> Self;
    fn write(self, bytes: &mut [u8], at: usize);
}

macro_rules! word {
    ($($word:ty),+) => {$(
        impl Word for $word {
            #[inline]
            #[expect(clippy::cast_possible_truncation, reason = "masked before or after")]
            fn low(self) -> u32 {
                self as u32
            }

            #[inline]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            #[inline]
            fn ones(self) -> u32 {
                self.count_ones()
            }

            #[inline]
            fn lowest(self) -> u32 {
                self.trailing_zeros()
            }

            #[inline]
            fn read(bytes: &[u8], at: usize) -> Self {
                let chunk = bytes.get(at..).and_then(<[u8]>::first_chunk);
                chunk.map_or(0, |chunk| Self::from_le_bytes(*chunk))
            }

            #[inline]
            fn write(self, bytes: &mut [u8], at: usize) {
                if let Some(chunk) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
                    *chunk = self.to_le_bytes();
                }
            }
        }
    )+};
}

word!(u64, u128);

/// The four lanes of a bucket of tags of one width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lanes<W> {
    tag_bits: u32,
    /// The lowest bit of each lane.
    lowest: W,
    /// The highest bit of each lane.
    highest: W,
    /// All bits of all lanes.
    all: W,
}

impl<W: Word> Lanes<W> {
    /// Returns lanes of `tag_bits` bits; four must fit the word.
    #[inline]
    pub(super) fn new(tag_bits: u32) -> Self {
        let pair = W::from(1) | W::from(1) << tag_bits;
        let lowest = pair | pair << (2 * tag_bits);
        let highest = lowest << (tag_bits - 1);
        Self { tag_bits, lowest, highest, all: highest | highest.minus(lowest) }
    }

    /// Keeps only the four lanes of a word.
    #[inline]
    pub(super) fn cut(&self, word: W) -> W {
        word & self.all
    }

    /// Returns whether one of the lanes holds `tag`.
    #[inline]
    pub(super) fn hold(&self, bucket: W, tag: u32) -> bool {
        // The usual test for a zero lane: subtracting 1 from each lane borrows in a lane of zero. A borrow can mark
        // wrong lanes to its left, but it starts only in a lane of zero. So there is a mark exactly if there is such a
        // lane.
        let differing = bucket ^ (self.lowest * tag.into());
        differing.minus(self.lowest) & !differing & self.highest != W::default()
    }

    /// Returns a mark, the highest bit, for each lane that holds `tag`.
    #[inline]
    pub(super) fn which_hold(&self, bucket: W, tag: u32) -> W {
        let differing = bucket ^ (self.lowest * tag.into());
        let below = self.highest.minus(self.lowest);
        // No lane's sum carries beyond its highest bit.
        !(((differing & below) + below) | differing) & self.highest
    }

    /// Returns the first bit of the lane that contains a mark of [`which_hold`](Self::which_hold).
    #[inline]
    pub(super) fn lane_of(&self, mark: u32) -> u32 {
        mark + 1 - self.tag_bits
    }

    /// Returns the tag in slot `slot`.
    #[inline]
    pub(super) fn tag(&self, bucket: W, slot: u32) -> u32 {
        (bucket >> (slot * self.tag_bits) & (self.all >> ((SLOTS - 1) * self.tag_bits))).low()
    }

    /// Returns the number of tags in the bucket.
    #[inline]
    pub(super) fn count(&self, bucket: W) -> u32 {
        SLOTS - self.which_hold(bucket, 0).ones()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket<W: Word>(tag_bits: u32, tags: [u32; 4]) -> W {
        (0..SLOTS).fold(W::default(), |word, slot| word | W::from(tags[slot as usize]) << (slot * tag_bits))
    }

    fn assert_lanes<W: Word>(tag_bits: u32) {
        let lanes = Lanes::<W>::new(tag_bits);
        let most = u32::MAX >> (32 - tag_bits);
        let values = [0, 1, 2, most / 2, most / 2 + 1, most - 1, most];
        for index in 0..values.len().pow(4) {
            let tags = [0, 1, 2, 3].map(|slot| values[index / values.len().pow(slot) % values.len()]);
            let word = bucket::<W>(tag_bits, tags);
            assert!(lanes.cut(word) == word && lanes.cut(!W::default() & word) == word);
            for tag in values {
                let marks = (0..SLOTS)
                    .filter(|&slot| tags[slot as usize] == tag)
                    .fold(W::default(), |marks, slot| marks | W::from(1) << (slot * tag_bits + tag_bits - 1));
                assert!(lanes.which_hold(word, tag) == marks, "{tag_bits} bits, {tags:?}, {tag}");
                assert_eq!(lanes.hold(word, tag), tags.contains(&tag), "{tag_bits} bits, {tags:?}, {tag}");
            }
            assert!((0..SLOTS).all(|slot| lanes.tag(word, slot) == tags[slot as usize]));
            assert_eq!(lanes.count(word), tags.iter().filter(|&&tag| tag != 0).count() as u32);
        }
    }

    #[test]
    fn lanes_of_every_width_are_compared_each_for_itself() {
        (4..=16).for_each(assert_lanes::<u64>);
        (4..=32).for_each(assert_lanes::<u128>);
    }
}
