//! The ways to damage a run of bytes.

use std::ops::Range;

use crate::common::random::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    /// 2 to 16 bytes at random offsets.
    RandomBytes,
    /// 5 to 64 adjacent bytes.
    RandomBurst,
    /// A page of this size is zeros.
    ZeroPage(usize),
    /// A page of this size is an earlier file's of this name.
    StalePage(usize),
    /// All pages from some page on, or up to it, are an earlier file's.
    StalePages(usize),
    /// One or a few parts are an earlier file's, with the same id and offset and valid checksums.
    EarlierParts,
    /// One part is another table's.
    OtherPart,
    /// Two ranges of one length are swapped.
    SwappedWithin,
    CutShort,
    Prolonged,
    /// The first bytes are another table's.
    HeadOfOther,
    /// The last bytes are another table's.
    TailOfOther,
}

/// All ways, with pages of these sizes.
pub(crate) fn ways(small_page: usize, large_page: usize) -> [Way; 15] {
    [
        Way::RandomBytes,
        Way::RandomBurst,
        Way::ZeroPage(small_page),
        Way::ZeroPage(large_page),
        Way::StalePage(small_page),
        Way::StalePage(large_page),
        Way::StalePages(small_page),
        Way::StalePages(large_page),
        Way::EarlierParts,
        Way::OtherPart,
        Way::SwappedWithin,
        Way::CutShort,
        Way::Prolonged,
        Way::HeadOfOther,
        Way::TailOfOther,
    ]
}

/// The file to damage, and others.
pub(crate) struct Files<'a> {
    pub(crate) sound: &'a [u8],
    /// Earlier files of this name, if of the same length.
    pub(crate) earlier: Vec<&'a [u8]>,
    pub(crate) others: Vec<&'a [u8]>,
    /// The ranges of blocks and checksums.
    pub(crate) parts: &'a [Range<usize>],
}

impl Way {
    /// Damages a copy; `None` if this way does not apply.
    pub(crate) fn apply(self, files: &Files<'_>, random: &mut Random) -> Option<Vec<u8>> {
        let mut bytes = files.sound.to_vec();
        let length = bytes.len();
        let any_of = |from: &[&'_ [u8]], random: &mut Random| (!from.is_empty()).then(|| random.pick(from).to_vec());
        match self {
            Self::RandomBytes => {
                (0..2 + random.below(15)).for_each(|_| bytes[random.below(length)] = random.next().to_le_bytes()[0]);
            }
            Self::RandomBurst => {
                let size = 5 + random.below(60);
                let range = stretch(random, length, size);
                bytes[range].fill_with(|| random.next().to_le_bytes()[0]);
            }
            Self::ZeroPage(page) => bytes[a_page(random, length, page)].fill(0),
            Self::StalePage(page) => {
                let range = a_page(random, length, page);
                bytes[range.clone()].copy_from_slice(&any_of(&files.earlier, random)?[range]);
            }
            Self::StalePages(page) => {
                // As after a crash between the writes of two pages, in either order.
                let at = a_page(random, length, page).start;
                let range = if random.one_in(2) { at..length } else { 0..at };
                bytes[range.clone()].copy_from_slice(&any_of(&files.earlier, random)?[range]);
            }
            Self::EarlierParts => {
                let earlier = any_of(&files.earlier, random)?;
                // Several parts may agree with each other, and still be stale.
                for _ in 0..=random.below(3) {
                    let range = random.pick(files.parts).clone();
                    bytes[range.clone()].copy_from_slice(&earlier[range]);
                }
            }
            Self::OtherPart => {
                let (other, range) = (any_of(&files.others, random)?, random.pick(files.parts).clone());
                // Other tables may be shorter.
                bytes[range.clone()].copy_from_slice(other.get(range)?);
            }
            Self::SwappedWithin => swap_within(&mut bytes, files.parts, random),
            Self::CutShort => bytes.truncate(random.below(length)),
            Self::Prolonged => {
                let more = any_of(&files.others, random)?;
                let size = 1 + random.below(more.len());
                bytes.extend_from_slice(&more[stretch(random, more.len(), size)]);
            }
            Self::HeadOfOther => {
                let other = any_of(&files.others, random)?;
                let cut = random.below(length.min(other.len()));
                bytes[..cut].copy_from_slice(&other[..cut]);
            }
            Self::TailOfOther => {
                let other = any_of(&files.others, random)?;
                let kept = random.below(length.min(other.len()));
                bytes.truncate(kept);
                bytes.extend_from_slice(&other[kept..]);
            }
        }
        Some(bytes)
    }
}

/// Swaps two parts of one length if there are any, otherwise two random ranges.
fn swap_within(bytes: &mut [u8], parts: &[Range<usize>], random: &mut Random) {
    let (mut first, mut second) = (random.pick(parts).clone(), random.pick(parts).clone());
    if first.len() != second.len() || first == second || random.one_in(2) {
        let size = 1 + random.below(bytes.len() / 2);
        (first, second) = (stretch(random, bytes.len(), size), stretch(random, bytes.len(), size));
    }
    // A copy, because the two ranges may overlap.
    let before = bytes.to_vec();
    bytes[first.clone()].copy_from_slice(&before[second.clone()]);
    bytes[second].copy_from_slice(&before[first]);
}

/// Returns a random range of `size` of `length` bytes, or all if there are fewer.
fn stretch(random: &mut Random, length: usize, size: usize) -> Range<usize> {
    let size = size.min(length);
    let start = random.below(length - size + 1);
    start..start + size
}

fn a_page(random: &mut Random, length: usize, page: usize) -> Range<usize> {
    let start = random.below(length.div_ceil(page)) * page;
    start..(start + page).min(length)
}
