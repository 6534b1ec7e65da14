//! The ways to damage a run of bytes.

use std::ops::Range;

use crate::common::random::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    /// 2 to 16 bytes, each at its own place.
    RandomBytes,
    /// 5 to 64 bytes, one after the other.
    RandomBurst,
    /// A page of so many bytes is zeros.
    ZeroPage(usize),
    /// A page of so many bytes is what the earlier file of this name had there.
    StalePage(usize),
    /// All pages from some page on, or up to it, are the earlier file's.
    StalePages(usize),
    /// One part, or a few of them, are the earlier file's: same id, same place, checksums that hold.
    EarlierParts,
    /// One part is that of another table.
    OtherPart,
    /// Two stretches of one length change places.
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

/// What is damaged, and what else there is.
pub(crate) struct Files<'a> {
    pub(crate) sound: &'a [u8],
    /// What else had this name, if of the same length.
    pub(crate) earlier: Vec<&'a [u8]>,
    pub(crate) others: Vec<&'a [u8]>,
    /// Where blocks and checksums lie.
    pub(crate) parts: &'a [Range<usize>],
}

impl Way {
    /// Damages a copy; `None` where there is nothing for this way to do.
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
                let at = a_page(random, length, page).start;
                let range = if random.one_in(2) { at..length } else { 0..at };
                bytes[range.clone()].copy_from_slice(&any_of(&files.earlier, random)?[range]);
            }
            Self::EarlierParts => {
                let earlier = any_of(&files.earlier, random)?;
                for _ in 0..=random.below(3) {
                    let range = random.pick(files.parts).clone();
                    bytes[range.clone()].copy_from_slice(&earlier[range]);
                }
            }
            Self::OtherPart => {
                let (other, range) = (any_of(&files.others, random)?, random.pick(files.parts).clone());
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

/// Two parts of one length if there are such, or any two stretches.
fn swap_within(bytes: &mut [u8], parts: &[Range<usize>], random: &mut Random) {
    let (mut first, mut second) = (random.pick(parts).clone(), random.pick(parts).clone());
    if first.len() != second.len() || first == second || random.one_in(2) {
        let size = 1 + random.below(bytes.len() / 2);
        (first, second) = (stretch(random, bytes.len(), size), stretch(random, bytes.len(), size));
    }
    let before = bytes.to_vec();
    bytes[first.clone()].copy_from_slice(&before[second.clone()]);
    bytes[second].copy_from_slice(&before[first]);
}

/// Any `size` of `length` bytes, or fewer if there are not so many.
fn stretch(random: &mut Random, length: usize, size: usize) -> Range<usize> {
    let size = size.min(length);
    let start = random.below(length - size + 1);
    start..start + size
}

fn a_page(random: &mut Random, length: usize, page: usize) -> Range<usize> {
    let start = random.below(length.div_ceil(page)) * page;
    start..(start + page).min(length)
}
