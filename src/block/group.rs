//! Up to 64 filters, laid out to be probed for one key together.

use alloc::vec::Vec;

use super::bitmap::{GROUP, bits_of};
use super::open::FilterBlock;
use crate::filter::blocked_bloom::line::{self, Candidate, Line, Lines, covered};
use crate::hash::KeyHash;
use crate::kernel::prefetch::prefetch_line;

/// One key, prepared to be probed in many filters. Aligned, so that its mask is one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct PreparedKey {
    hash: KeyHash,
    /// The mask for `probes` probes, cached because most files of a store have the same number.
    mask: Line,
    /// The number of probes that `mask` is for; 0 before the first filter.
    probes: u8,
}

impl PreparedKey {
    /// Prepares a hash. Computes no mask yet: the first filter that needs one does.
    #[inline]
    #[must_use]
    pub const fn new(hash: KeyHash) -> Self {
        Self { hash, mask: [0; 64], probes: 0 }
    }

    /// The hash of the key.
    #[inline]
    pub const fn hash(&self) -> KeyHash {
        self.hash
    }

    #[inline]
    fn line_mask(&mut self, probes: u8) -> &Line {
        if self.probes != probes {
            self.mask = line::mask(self.hash, probes);
            self.probes = probes;
        }
        &self.mask
    }
}

/// Up to 64 filters, one per slot. A slot without a usable filter answers "may be present".
#[derive(Clone)]
pub struct FilterGroup<D> {
    classes: Vec<Class<D>>,
    /// The filters of other kinds than blocked Bloom, with their slots.
    others: Vec<(usize, FilterBlock<D>)>,
    /// The slots of `others`, as bits.
    other_slots: u64,
    /// The slots in use, as bits.
    all: u64,
    bytes: usize,
}

/// The Bloom filters with the same number of probes. They share a mask, so one vector loop tests them all.
#[derive(Clone)]
struct Class<D> {
    probes: u8,
    slots: u64,
    /// In the order of their slots.
    blooms: Vec<Bloom<D>>,
}

/// The part of a Bloom filter that a probe reads. Rejected: a `FilterBlock`. It is several times as large, so the loop
/// over a group would load a cache line for each filter.
#[derive(Clone)]
struct Bloom<D> {
    data: D,
    lines: Lines,
}

impl<D: AsRef<[u8]>> Bloom<D> {
    #[inline]
    fn line(&self, hash: KeyHash) -> &Line {
        self.lines.line_of(self.data.as_ref(), hash)
    }
}

/// Where a set's filters probably reside. This decides whether to prefetch, because prefetching lines costs about as
/// much as testing lines that are in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CacheResidency {
    /// In the caches of one core: lines are tested in place.
    NearCache,
    /// In the last-level cache: a batch prefetches the lines for a later key while it tests one.
    LastCache,
    /// In memory: even a single key's lines are all prefetched before the first is tested.
    Memory,
}

impl CacheResidency {
    /// Estimates the residency from the total size of the Bloom filters. The limits of 1 and 4 MiB are measured;
    /// halving or doubling them made no difference beyond noise.
    #[inline]
    #[must_use]
    pub fn of_bytes(bytes: usize) -> Self {
        match bytes {
            0..0x10_0000 => Self::NearCache,
            0x10_0000..0x40_0000 => Self::LastCache,
            0x40_0000.. => Self::Memory,
        }
    }

    /// Returns how many keys ahead a batch prefetches if each key probes `lines` lines; `None` for no prefetching.
    /// About 64 lines are then in flight: enough to hide the latency of memory, and few enough to stay in L1.
    #[inline]
    #[must_use]
    pub fn keys_ahead(self, lines: usize) -> Option<usize> {
        (self > Self::NearCache).then(|| (64 / lines.max(1)).clamp(1, 16))
    }
}

impl<D> Default for FilterGroup<D> {
    fn default() -> Self {
        Self { classes: Vec::new(), others: Vec::new(), other_slots: 0, all: 0, bytes: 0 }
    }
}

impl<D: AsRef<[u8]>> FilterGroup<D> {
    /// Slots of a group: one for each bit of a word.
    pub const PLACES: usize = GROUP;

    /// Puts the filter into the last of `groups`, or into a new one if that is full.
    pub fn push_to(groups: &mut Vec<Self>, block: Option<FilterBlock<D>>) {
        if groups.last().is_none_or(|group| group.all == u64::MAX) {
            groups.push(Self::default());
        }
        if let Some(group) = groups.last_mut() {
            group.push(block);
        }
    }

    /// Bytes of the Bloom filters.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The slots in use, as bits.
    pub(crate) fn all(&self) -> u64 {
        self.all
    }

    /// Fills the next slot; the group must not be full.
    fn push(&mut self, block: Option<FilterBlock<D>>) {
        let slot = self.all.trailing_ones() as usize;
        self.all |= 1 << slot;
        match block.map(|block| (block.shape.any.as_blocked_bloom(), block)) {
            Some((Some(shape), block)) => {
                self.bytes += block.as_bytes().len();
                self.join_class(shape.probes(), slot, Bloom { data: block.into_inner(), lines: shape.lines() });
            }
            Some((None, block)) => {
                self.other_slots |= 1 << slot;
                self.others.push((slot, block));
            }
            // A slot in no class and not in `others` always matches.
            None => {}
        }
    }

    fn join_class(&mut self, probes: u8, slot: usize, bloom: Bloom<D>) {
        let slots = 1 << slot;
        // A linear search, because filters have only 1 to 16 probes.
        match self.classes.iter_mut().find(|class| class.probes == probes) {
            Some(class) => {
                class.slots |= slots;
                class.blooms.push(bloom);
            }
            None => self.classes.push(Class { probes, slots, blooms: vec![bloom] }),
        }
    }

    /// Returns the slots in `which` whose filters may contain the key.
    #[inline]
    pub fn probe(&self, key: &mut PreparedKey, which: u64) -> u64 {
        self.probe_with(key, which, |_| None)
    }

    /// Like [`probe`](Self::probe), but also prefetches the lines of a later key: those of hash `next.0` in the filters
    /// at `next.1`.
    #[inline]
    pub fn probe_ahead(&self, key: &mut PreparedKey, which: u64, next: Option<(KeyHash, u64)>) -> u64 {
        let Some((next, wanted)) = next else { return self.probe_with(key, which, |_| None) };
        // Filters outside `which` are not tested now, so the pass below does not reach their lines.
        self.prefetch(next, wanted & !which);
        self.probe_with(key, which, move |bloom| Some(bloom.line(next)))
    }

    /// Prefetches the lines of `hash` in the Bloom filters at `which`.
    pub fn prefetch(&self, hash: KeyHash, which: u64) {
        for class in &self.classes {
            class.at(which & class.slots).for_each(|bloom| prefetch_line(bloom.line(hash)));
        }
    }

    #[inline]
    fn probe_with<'a>(
        &'a self,
        key: &mut PreparedKey,
        which: u64,
        ahead: impl Fn(&'a Bloom<D>) -> Option<&'a Line> + Copy,
    ) -> u64 {
        let hash = key.hash();
        let candidate = move |bloom: &'a Bloom<D>| Candidate { line: bloom.line(hash), ahead: ahead(bloom) };
        // Slots without a usable filter stay set.
        let mut matches = which;
        for class in &self.classes {
            let probed = which & class.slots;
            // Skipping a filter costs about as much as testing it. So if at least 7 of 8 are wanted, all are tested in
            // one pass without gathering, and the unwanted answers are masked out below. The usual case, all of them,
            // is tested first, because not every CPU counts bits in one instruction.
            let tests_all = probed == class.slots || probed.count_ones() as usize * 8 >= class.blooms.len() * 7;
            let covered = if tests_all {
                let answers = covered(key.line_mask(class.probes), class.blooms.iter().rev().map(candidate));
                spread(answers, class.slots)
            } else if probed != 0 {
                let answers = covered(key.line_mask(class.probes), class.at(probed).map(candidate));
                spread(answers, probed)
            } else {
                0
            };
            matches &= !probed | covered;
        }
        if which & self.other_slots != 0 {
            matches &= self.probe_others(hash, which);
        }
        matches
    }

    /// Returns all ones, except for slots in `which` whose filter has another kind and answers "absent". Cold and out
    /// of line, because sets of only blocked Bloom filters are the common case.
    #[cold]
    fn probe_others(&self, hash: KeyHash, which: u64) -> u64 {
        let probed = self.others.iter().filter(|(slot, _)| which >> slot & 1 == 1);
        probed.fold(u64::MAX, |matches, (slot, block)| matches & !(u64::from(!block.may_contain_added(hash)) << slot))
    }
}

impl<D> Class<D> {
    /// Returns the filters at `wanted`, which must be slots of the class, from the last to the first.
    #[inline]
    fn at(&self, mut wanted: u64) -> impl Iterator<Item = &Bloom<D>> {
        core::iter::from_fn(move || {
            let slot = wanted.checked_ilog2()?;
            wanted ^= 1 << slot;
            // `blooms` has no gaps, so the index is the number of lower slots of the class.
            let before = self.slots & ((1 << slot) - 1);
            self.blooms.get(before.count_ones() as usize)
        })
    }
}

/// Moves the bits of `answers`, in their order, to the positions of the bits set in `slots`.
#[inline]
fn spread(mut answers: u64, slots: u64) -> u64 {
    // Nothing moves in the usual case: all files have filters of one kind and size.
    if slots & slots.wrapping_add(1) == 0 {
        return answers;
    }
    let mut spread = 0;
    for slot in bits_of(slots) {
        spread |= (answers & 1) << slot;
        answers >>= 1;
    }
    spread
}
