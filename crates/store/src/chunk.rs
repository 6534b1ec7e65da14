//! Up to 64 files of a level, tested together: which have a key within their bounds and, if they may overlap, which
//! filters may contain it. Each answer is the bits of one word.

use std::sync::Arc;

use bytes::Bytes;
use sstfilter::KeyHash;
use sstfilter::internal::key_head::{SharedPrefix, lower_bound};
use sstfilter::internal::{FilterGroup, PreparedKey, bits_of, prefetch};

use super::config::Config;
use super::counts::ChunkCounts;
use super::file::FileFilters;
use super::metadata::KeyBounds;
use super::ranges::{self, ExactFilters};
use super::reader::SharedParts;
use super::state::FileState;
use super::writes::{KeyWrites, Writes};

/// A prefix, and the head of a key after it; `None` for a key that does not begin with it.
pub(super) type PrefixedHead<'a> = Option<(&'a Arc<SharedPrefix>, Option<u64>)>;

const PLACES: usize = FilterGroup::<Bytes>::PLACES;

/// Returns the maximum number of files in a chunk. Overlapping files are the bits of one word, and probed together. In
/// the order of keys, a lookup needs one file, and an edit copies the whole chunk: half as many files halve the time of
/// an edit.
///
/// A chunk with fewer than half as many files is merged with a neighbour; when the files of more than one chunk are cut
/// evenly, each new chunk has at least that many.
pub(super) const fn max_files(is_overlapping: bool) -> usize {
    if is_overlapping { PLACES } else { PLACES / 2 }
}

/// Some of a level's files, in its order, shared by views.
pub(super) struct Chunk<F> {
    pub(super) files: Box<[Arc<F>]>,
    /// The ages of the files; empty in the order of keys.
    ages: Box<[Age]>,
    pub(super) core: ChunkCore,
}

/// The part of a chunk that does not depend on the engine's file type.
pub(super) struct ChunkCore {
    pub(super) files: Box<[Arc<FileState>]>,
    pub(super) bounds: HeadsOfBounds,
    /// Files with range tombstones or unknown bounds, which are tested one by one.
    pub(super) without_heads: u64,
    /// The writes for which maps may exclude the files; empty if there are none.
    writes: Box<[Option<Writes>]>,
    /// `None` if a key is within the bounds of at most one file.
    pub(super) group: Option<Group>,
}

/// The filters of files that may overlap.
pub(super) struct Group {
    pub(super) filters: FilterGroup<Bytes>,
    /// The range filters that answer for keys.
    pub(super) exact: Option<Box<ExactFilters>>,
    /// The part that point lookups probe the filters for, if it is a single part and common to all filters of the
    /// group.
    pub(super) one_part: Option<SharedParts>,
    /// The parts that filters are probed for, with the files of such filters.
    parts: Vec<(SharedParts, u64)>,
    /// Files whose filters are not in the group: a budget decides how much of them is in memory, or another store
    /// opened them. They are probed when a lookup reaches them.
    pub(super) ungrouped: u64,
    pub(super) counts: Arc<ChunkCounts>,
}

impl Group {
    /// Groups the filters of `files` for which the store of `config` computes the probes.
    fn new(files: &[Arc<FileState>], config: &Config) -> Self {
        let mut groups = Vec::new();
        let (mut parts, mut ungrouped, mut grouped, mut unusable) = (Vec::<(SharedParts, u64)>::new(), 0, 0, 0);
        let mut exact = None;
        for (place, file) in files.iter().enumerate() {
            // A file with range tombstones must also be read for keys that its filter excludes.
            let is_own = file.is_of(config) && !file.has_range_tombstones;
            let block = file.resident().filter(|_| is_own);
            // Files without a filter take a slot, too, so that slots are those of the chunk.
            FilterGroup::push_to(&mut groups, block.cloned());
            let bit = 1 << place;
            match block {
                Some(_) => {
                    grouped |= bit;
                    match parts.iter_mut().find(|(parts, _)| *parts == file.shared) {
                        Some((_, files)) => *files |= bit,
                        None => parts.push((file.shared, bit)),
                    }
                }
                None if file
                    .resident_exact()
                    .is_some_and(|filter| is_own && ranges::push(&mut exact, place, filter)) =>
                {
                    grouped |= bit;
                }
                None => match &file.points {
                    Ok(_) => ungrouped |= bit,
                    Err(Some(_)) => unusable |= bit,
                    Err(None) => {}
                },
            }
        }
        let mut points = parts.iter().map(|(parts, _)| parts.of_points());
        let first = points.next();
        let one_part = first.filter(|first| first.is_one() && points.all(|other| other == *first));
        let of_parts = parts.iter().filter(|(parts, _)| !parts.has_whole_keys()).fold(0, |all, (_, files)| all | files);
        let counts = ChunkCounts::new(files.len(), grouped, unusable, of_parts);
        // A chunk has at most as many files as a group has slots, so there is at most one.
        let filters = groups.pop().unwrap_or_else(FilterGroup::default);
        Self { filters, exact, one_part, parts, ungrouped, counts: Arc::new(counts) }
    }

    /// Returns those of the files in `which` whose filters may contain the key, by all hashes that follow from the
    /// parts of each.
    #[cold]
    pub(super) fn by_parts<H: Iterator<Item = KeyHash>>(&self, which: u64, hashes: impl Fn(SharedParts) -> H) -> u64 {
        let contains = |left: u64, hash| match left {
            0 => 0,
            left => self.filters.probe(&mut PreparedKey::new(hash), left),
        };
        let absent = self.parts.iter().fold(0, |absent, &(parts, files)| {
            let probed = which & files;
            let left = if probed == 0 { 0 } else { hashes(parts).fold(probed, contains) };
            absent | probed & !left
        });
        which & !absent
    }
}

impl<F> Chunk<F> {
    /// Cuts any number of files into chunks whose sizes differ by at most one. `config` is that of the view, for files
    /// that may overlap.
    pub(super) fn cut<'a>(
        members: &'a [Member<F>],
        prefix: &'a Arc<SharedPrefix>,
        config: Option<&'a Config>,
    ) -> impl Iterator<Item = Arc<Self>>
    where
        F: AsRef<FileFilters>,
    {
        let chunks = members.len().div_ceil(max_files(config.is_some()));
        let bound = move |chunk: usize| chunk * members.len() / chunks;
        let own = (0..chunks).filter_map(move |chunk| members.get(bound(chunk)..bound(chunk + 1)));
        own.map(move |members| {
            let (files, states): (Vec<_>, Vec<_>) =
                members.iter().map(|member| (member.file.clone(), member.state.clone())).unzip();
            let ages = members.iter().map(|member| member.age).filter(|_| config.is_some()).collect();
            let writes: Vec<_> = files.iter().map(|file| (**file).as_ref().writes_in_maps()).collect();
            let writes = if writes.iter().any(Option::is_some) { writes.into() } else { Box::default() };
            let core = ChunkCore::new(states.into(), writes, prefix, config);
            Arc::new(Self { files: files.into(), ages, core })
        })
    }

    /// Returns the file at a slot, with its state.
    #[inline]
    pub(super) fn file(&self, place: usize) -> Option<(&Arc<F>, &Arc<FileState>)> {
        self.files.get(place).zip(self.core.files.get(place))
    }

    /// Returns the age of the file at a slot.
    #[inline]
    pub(super) fn age(&self, place: usize) -> Age {
        self.ages.get(place).copied().unwrap_or_default()
    }

    /// Returns the files with their states and ages.
    pub(super) fn members(&self) -> impl Iterator<Item = Member<F>> {
        let files = self.files.iter().cloned().zip(self.core.files.iter().cloned()).enumerate();
        files.map(|(place, (file, state))| Member { file, state, age: self.age(place) })
    }
}

/// When a file joined its level: the greater, the newer. Files in the order of their keys have none.
pub(super) type Age = u64;

/// A file of the engine with its state and its age, which is that of a file it replaced.
pub(super) struct Member<F> {
    pub(super) file: Arc<F>,
    pub(super) state: Arc<FileState>,
    pub(super) age: Age,
}

impl<F> Clone for Member<F> {
    fn clone(&self) -> Self {
        Self { file: self.file.clone(), state: self.state.clone(), age: self.age }
    }
}

impl ChunkCore {
    fn new(
        files: Box<[Arc<FileState>]>,
        writes: Box<[Option<Writes>]>,
        prefix: &Arc<SharedPrefix>,
        config: Option<&Config>,
    ) -> Self {
        let has_no_heads = |file: &FileState| file.has_range_tombstones || file.metadata.bounds == KeyBounds::Unknown;
        let all = files.iter().enumerate().filter(|(_, file)| has_no_heads(file));
        let without_heads = all.fold(0, |without_heads, (place, _)| without_heads | 1 << place);
        let span = |(place, file): (usize, &Arc<FileState>)| {
            let [smallest, largest] = file.metadata.bounds.keys().filter(|_| without_heads >> place & 1 == 0)?;
            let heads = prefix.head(smallest).zip(prefix.head(largest));
            // All keys of the level begin with the prefix.
            Some(heads.unwrap_or((0, u64::MAX)))
        };
        let heads: Vec<_> = files.iter().enumerate().map(span).collect();
        let bounds = HeadsOfBounds::new(prefix.clone(), &heads);
        let group = config.map(|config| Group::new(&files, config));
        if let Some(group) = &group {
            files.iter().enumerate().for_each(|(place, file)| file.enter(&group.counts, place));
        }
        Self { files, bounds, without_heads, writes, group }
    }

    /// Prefetches the list of files, which is read after the heads of their bounds.
    #[inline]
    pub(super) fn prefetch_files(&self) {
        self.files.iter().step_by(8).for_each(|file| prefetch(file));
    }

    /// Returns the smallest key of the first file, which in a sorted level is the smallest of all.
    pub(super) fn smallest_key(&self) -> Option<&[u8]> {
        self.files.first()?.smallest_key()
    }

    /// Returns the writes for which maps may exclude the file at a slot.
    pub(super) fn writes(&self, place: usize) -> Option<Writes> {
        self.writes.get(place).copied().flatten()
    }

    /// Returns those of the files in `which` that may have a key with these writes.
    pub(super) fn written(&self, which: u64, key: &KeyWrites<'_>) -> u64 {
        if self.writes.is_empty() {
            return which;
        }
        let written = bits_of(which).filter(|&place| self.writes(place).is_none_or(|writes| key.may_be_in(writes)));
        written.fold(0, |places, place| places | 1 << place)
    }

    /// Returns those of the files in `which` that have the key within their bounds, by the full bounds instead of their
    /// heads.
    #[cold]
    pub(super) fn covering(&self, which: u64, key: &[u8]) -> u64 {
        let covering = bits_of(which).filter(|&place| self.files.get(place).is_some_and(|file| file.covers(key)));
        covering.fold(0, |places, place| places | 1 << place)
    }
}

impl Drop for ChunkCore {
    /// Moves the counts to the files: no lookup counts here any more, because a view that has the chunk would keep it.
    fn drop(&mut self) {
        let Some(Group { counts, .. }) = &self.group else { return };
        for (file, counted) in self.files.iter().zip(counts.all()) {
            file.leave(counts, &counted);
        }
    }
}

/// The smallest and largest keys of up to 64 files, by their heads.
///
/// Between two neighbouring heads the set of files does not change, so one search finds them all. Rejected: comparing a
/// head with the bounds of each file, which takes 64 comparisons; and one list for all chunks, which grows with the
/// square of the files.
#[derive(Debug)]
pub(super) struct HeadsOfBounds {
    /// The prefix of the bounds of the level's files, except those that joined later.
    prefix: Arc<SharedPrefix>,
    /// Distinct and ascending.
    heads: Vec<u64>,
    /// For each of `heads`. Empty if `heads` are the two of the first file, the two of the second, and so on, as is
    /// usual for files in the order of their keys: a lookup then waits for one cache line less.
    files: Vec<Around>,
    /// The largest head of a smallest key, and the smallest head of a largest key: all files hold the heads between
    /// them. Most keys of files that were flushed one after the other lie there, and need no search.
    common: (u64, u64),
    /// The files that have bounds.
    all: u64,
}

/// Sets of files, by how their bounds relate to the head of a bound.
#[derive(Clone, Copy, Debug)]
struct Around {
    /// Files that hold the heads between the bound before and this one.
    below: u64,
    /// Files that may hold a key with this head: their smallest or largest key may have it too.
    at: u64,
}

impl HeadsOfBounds {
    /// Builds the list from the heads of the smallest and the largest key of each file.
    fn new(prefix: Arc<SharedPrefix>, files: &[Option<(u64, u64)>]) -> Self {
        let mut heads: Vec<u64> = files.iter().flatten().flat_map(|&(smallest, largest)| [smallest, largest]).collect();
        let is_one_by_one = heads.len() == files.len() * 2 && heads.is_sorted_by(|one, next| one < next);
        heads.sort_unstable();
        heads.dedup();
        let around = if is_one_by_one { Vec::new() } else { Self::around(&heads, files) };
        let ends = files.iter().flatten();
        let common = ends.fold((0, u64::MAX), |(low, high), ends| (low.max(ends.0), high.min(ends.1)));
        let all = (0..).zip(files).fold(0, |all, (place, ends)| all | u64::from(ends.is_some()) << place);
        Self { prefix, files: around, heads, common, all }
    }

    fn around(heads: &[u64], files: &[Option<(u64, u64)>]) -> Vec<Around> {
        let mut around = vec![Around { below: 0, at: 0 }; heads.len()];
        let ends = files.iter().enumerate().filter_map(|(place, ends)| Some((1 << place, (*ends)?)));
        for (file, (smallest, largest)) in ends {
            let holding = lower_bound(heads, smallest)..=lower_bound(heads, largest);
            for (position, around) in around.get_mut(holding).unwrap_or_default().iter_mut().enumerate() {
                around.at |= file;
                if position > 0 {
                    around.below |= file;
                }
            }
        }
        around
    }

    /// Returns the files that have the key within their bounds. `head` is the one after the prefix of the previous
    /// chunk. If a file's smallest or largest key has the same head as the key, `decide` returns those of the files
    /// that have it.
    #[inline]
    pub(super) fn holding<'a>(
        &'a self,
        key: &[u8],
        head: &mut PrefixedHead<'a>,
        decide: impl FnOnce(u64) -> u64,
    ) -> u64 {
        let head = match *head {
            Some((prefix, known)) if Arc::ptr_eq(prefix, &self.prefix) => known,
            _ => head.insert((&self.prefix, self.prefix.head(key))).1,
        };
        let Some(head) = head else { return 0 };
        if self.common.0 < head && head < self.common.1 {
            return self.all;
        }
        let position = lower_bound(&self.heads, head);
        // Above all bounds.
        let Some(&bound) = self.heads.get(position) else { return 0 };
        let files = self.files.get(position).copied().unwrap_or_else(|| {
            let file = 1 << (position / 2);
            Around { below: if position % 2 == 1 { file } else { 0 }, at: file }
        });
        if bound == head { decide(files.at) } else { files.below }
    }
}

/// Returns the common prefix of some bounds and of the previous prefix.
pub(super) fn prefix_of<'a>(
    before: Option<&'a Arc<SharedPrefix>>,
    keys: impl Iterator<Item = &'a [u8]>,
) -> Arc<SharedPrefix> {
    let prefix = SharedPrefix::of(before.into_iter().map(|prefix| prefix.bytes()).chain(keys));
    match before {
        // Reused, so that lookups can compare prefixes by address.
        Some(before) if **before == prefix => before.clone(),
        _ => Arc::new(prefix),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_tell_the_files_of_every_head_between_and_at_them() {
        let files = [Some((3, 7)), None, Some((5, 5)), Some((0, u64::MAX))];
        let new = |files: &[_]| HeadsOfBounds::new(Arc::default(), files);
        let bounds = new(&files);
        // Returns whether the full bounds decide, and for which files.
        let holding = |bounds: &HeadsOfBounds, head: u64| {
            let mut is_open = false;
            let files = bounds.holding(&head.swap_bytes().to_le_bytes(), &mut None, |files| {
                is_open = true;
                files
            });
            (is_open, files)
        };
        let cases = [
            (0, (true, 0b1000)),
            (2, (false, 0b1000)),
            (3, (true, 0b1001)),
            (4, (false, 0b1001)),
            (5, (true, 0b1101)),
            (6, (false, 0b1001)),
            (7, (true, 0b1001)),
            (8, (false, 0b1000)),
            (u64::MAX, (true, 0b1000)),
        ];
        for (head, files) in cases {
            assert_eq!(holding(&bounds, head), files, "{head}");
        }
        assert_eq!(holding(&new(&files[..3]), 8), (false, 0), "above all bounds");
        assert_eq!(holding(&new(&[None]), 8), (false, 0), "no bounds");
        let nested = new(&[Some((1, 9)), None, Some((3, 7))]);
        let one_by_one = new(&[Some((1, 3)), Some((4, 9)), Some((20, 30))]);
        assert!(one_by_one.files.is_empty() && !nested.files.is_empty());
        let expected = [
            (0, (false, 0)),
            (1, (true, 0b001)),
            (2, (false, 0b001)),
            (3, (true, 0b001)),
            (4, (true, 0b010)),
            (10, (false, 0)),
            (25, (false, 0b100)),
            (30, (true, 0b100)),
            (31, (false, 0)),
        ];
        assert_eq!(expected.map(|(head, _)| (head, holding(&one_by_one, head))), expected);
        let both_inside = [(true, 0b101), (false, 0b101), (false, 0b101), (true, 0b101)];
        assert_eq!([3, 4, 6, 7].map(|head| holding(&nested, head)), both_inside);
        assert_eq!([2, 8].map(|head| holding(&nested, head)), [(false, 0b001); 2]);
    }
}
