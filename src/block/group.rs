//! Up to 64 filters, laid out to be asked for one key together.

use super::open::{FilterBlock, PreparedKey};
use super::shape::Shape;
use crate::filter::blocked_bloom::BloomShape;
use crate::hash::KeyHash;
use crate::kernel::cover::{Candidate, covered};
use crate::kernel::line::Line;
use crate::kernel::prefetch::prefetch;

/// Filters of a group: a bit of one word for each.
pub(crate) const GROUP: usize = 64;

/// Up to [`GROUP`] filters. A place without a filter that can be asked answers "may be present".
#[derive(Clone)]
pub(crate) struct FilterGroup<D> {
    /// By place; `None` where there is no Bloom filter.
    blooms: Vec<Option<Bloom<D>>>,
    classes: Vec<Class>,
    /// The filters of other kinds, with their places.
    others: Vec<(usize, FilterBlock<D>)>,
    /// The places of `others`.
    other_places: u64,
    places: usize,
    bytes: usize,
}

/// What a probe needs of a Bloom filter, side by side with that of the next one.
#[derive(Clone)]
struct Bloom<D> {
    data: D,
    shape: BloomShape,
}

/// The places of Bloom filters that share a mask.
#[derive(Clone, Copy, Debug)]
struct Class {
    probes: u8,
    places: u64,
}

impl<D: AsRef<[u8]>> Bloom<D> {
    #[inline]
    fn line(&self, hash: KeyHash) -> Option<&Line> {
        self.shape.line(self.data.as_ref(), hash)
    }
}

/// How far the lines of filters are, and so what pays: a pass that fetches them costs about as much as one
/// that tests them where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Distance {
    /// In the nearer caches: lines are tested as they come.
    Near,
    /// In the last cache: a batch fetches the lines for a later key while it tests one.
    Middle,
    /// In memory: even a single key's lines are all fetched before the first is tested.
    Far,
}

impl Distance {
    /// From the bytes of all Bloom filters. The limits are measured, and do not depend on much.
    pub(crate) fn of<D: AsRef<[u8]>>(groups: &[FilterGroup<D>]) -> Self {
        match groups.iter().map(|group| group.bytes).sum::<usize>() {
            0..0x10_0000 => Self::Near,
            0x10_0000..0x40_0000 => Self::Middle,
            0x40_0000.. => Self::Far,
        }
    }

    /// How many keys ahead a batch fetches when each wants `lines` lines: as many as have about 64 lines on
    /// their way, enough to hide the latency of memory and few enough for the nearest cache.
    pub(crate) fn keys_ahead(self, lines: usize) -> Option<usize> {
        (self > Self::Near).then(|| (64 / lines.max(1)).clamp(1, 16))
    }
}

impl<D: AsRef<[u8]>> FilterGroup<D> {
    fn new() -> Self {
        Self { blooms: Vec::new(), classes: Vec::new(), others: Vec::new(), other_places: 0, places: 0, bytes: 0 }
    }

    /// Takes the next place of the last of `groups`, or the first one of a new group.
    pub(crate) fn push_to(groups: &mut Vec<Self>, block: Option<FilterBlock<D>>) {
        match groups.last_mut() {
            Some(group) if group.places < GROUP => group.push(block),
            _ => {
                let mut group = Self::new();
                group.push(block);
                groups.push(group);
            }
        }
    }

    /// Bits of all the places.
    pub(crate) fn all(&self) -> u64 {
        first_bits(self.places)
    }

    /// Takes the next place, which must be free.
    fn push(&mut self, block: Option<FilterBlock<D>>) {
        let place = self.places;
        let bloom = match block.map(|block| (*block.shape(), block)) {
            Some((Shape::BlockedBloom(shape), block)) => {
                self.join_class(shape.probes(), place);
                self.bytes += block.as_bytes().len();
                Some(Bloom { data: block.into_inner(), shape })
            }
            Some((_, block)) => {
                self.other_places |= 1 << place;
                self.others.push((place, block));
                None
            }
            None => None,
        };
        self.blooms.push(bloom);
        self.places += 1;
    }

    fn join_class(&mut self, probes: u8, place: usize) {
        let place = 1 << place;
        match self.classes.iter_mut().find(|class| class.probes == probes) {
            Some(class) => class.places |= place,
            None => self.classes.push(Class { probes, places: place }),
        }
    }

    /// Those places of `which` whose filters do not deny the key.
    #[inline]
    pub(crate) fn probe(&self, key: &mut PreparedKey, which: u64) -> u64 {
        self.probe_with(key, which, |_| None)
    }

    /// Like [`probe`](Self::probe), while the lines are fetched that the key `next.0` will want from the
    /// filters at `next.1`.
    #[inline]
    pub(crate) fn probe_ahead(&self, key: &mut PreparedKey, which: u64, next: Option<(KeyHash, u64)>) -> u64 {
        let Some((next, wanted)) = next else { return self.probe_with(key, which, |_| None) };
        self.fetch(next, wanted & !which);
        self.probe_with(key, which, |bloom| bloom.line(next))
    }

    /// Starts to fetch the lines that `hash` will want from the Bloom filters of `which`.
    pub(crate) fn fetch(&self, hash: KeyHash, which: u64) {
        let wanted = bits_of(which).filter_map(|place| self.blooms.get(place)?.as_ref());
        wanted.filter_map(|bloom| bloom.line(hash)).for_each(prefetch);
    }

    #[inline]
    fn probe_with<'a>(
        &'a self,
        key: &mut PreparedKey,
        which: u64,
        ahead: impl Fn(&'a Bloom<D>) -> Option<&'a Line>,
    ) -> u64 {
        let hash = key.hash();
        let candidate = |(place, bloom): (usize, &'a Option<Bloom<D>>)| {
            let (line, ahead) = bloom.as_ref().map_or((None, None), |bloom| (bloom.line(hash), ahead(bloom)));
            Candidate { place, line, ahead }
        };
        let mut hits = which;
        for class in &self.classes {
            let asked = which & class.places;
            // A place that is skipped costs about as much as one that is tested for nothing.
            let covered = if asked.count_ones() as usize * 8 >= self.blooms.len() * 7 {
                covered(key.line_mask(class.probes), self.blooms.iter().enumerate().map(candidate))
            } else if asked != 0 {
                let asked = bits_of(asked).filter_map(|place| Some((place, self.blooms.get(place)?)));
                covered(key.line_mask(class.probes), asked.map(candidate))
            } else {
                0
            };
            hits &= !asked | covered;
        }
        if which & self.other_places != 0 {
            hits &= self.probe_others(hash, which);
        }
        hits
    }

    /// All places but those of `which` that hold another kind of filter, and it denies the key.
    #[cold]
    fn probe_others(&self, hash: KeyHash, which: u64) -> u64 {
        let asked = self.others.iter().filter(|(place, _)| which >> place & 1 == 1);
        asked.fold(u64::MAX, |hits, (place, block)| hits & !(u64::from(!block.may_contain(hash)) << place))
    }
}

/// The first `count` bits of a word.
pub(crate) const fn first_bits(count: usize) -> u64 {
    match count {
        0 => 0,
        1..GROUP => (1 << count) - 1,
        _ => u64::MAX,
    }
}

/// The positions of the ones of `word`, ascending.
#[inline]
pub(crate) fn bits_of(mut word: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let bit = (word != 0).then_some(word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(bit)
    })
}
