//! Inserts and removes tags. An insertion into full buckets first finds the path of evictions, then moves the tags.

use alloc::vec::Vec;

use super::bucket::Word;
use super::shape::{Buckets, Candidates};

/// The full buckets that a search expands before it fails: enough to fill 97 % of the slots, as tests assert; planned
/// filters stay at 95 %.
const MAX_NODES: usize = 1024;

/// The nodes that a search begins with: the two buckets of the inserted key.
const ROOTS: u32 = 2;

/// Spreads buckets over the table of visited buckets (Fibonacci hashing): 2^64 over the golden ratio.
const VISITED_MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Nodes that a search lists, including repeated buckets, before it restarts without repeats. Nearly all inserts into a
/// filter that is 95 % full need fewer. Rejected: checking for repeats from the start, which made inserts a quarter
/// slower.
const NEAR_NODES: usize = 64;

/// Entries of the table of visited buckets: twice the nodes, so that most buckets are at their first entry.
const ENTRIES: usize = 2 * MAX_NODES;

/// A full bucket that the search visits, and the step that led to it.
#[derive(Clone, Copy, Debug)]
struct Node {
    bucket: u64,
    /// The node whose tag could move here; unused in the [`ROOTS`].
    parent: u32,
    /// The slot of that tag in the parent's bucket.
    slot: u32,
}

/// Scratch memory of a search, reused by the next.
#[derive(Debug, Default)]
pub(super) struct Search {
    nodes: Vec<Node>,
    visited: Visited,
}

/// The buckets that a search has visited: a hash table of its nodes, with open addressing.
#[derive(Debug, Default)]
struct Visited {
    /// A node's index plus one, or 0 for no node. Allocated by the first search that needs it.
    nodes: Vec<u16>,
}

impl Visited {
    fn clear(&mut self) {
        self.nodes.clear();
        self.nodes.resize(ENTRIES, 0);
    }

    /// Appends a node, unless its bucket is already listed or the list is full ([`MAX_NODES`]).
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "at most MAX_NODES nodes, and an entry has 11 bits")]
    fn append(&mut self, nodes: &mut Vec<Node>, node: Node) {
        if nodes.len() >= MAX_NODES {
            return;
        }
        let mut entry = (node.bucket.wrapping_mul(VISITED_MULTIPLIER) >> (64 - ENTRIES.ilog2())) as usize;
        while let Some(listed) = usize::from(self.nodes[entry]).checked_sub(1) {
            if nodes[listed].bucket == node.bucket {
                return;
            }
            entry = (entry + 1) % ENTRIES;
        }
        nodes.push(node);
        self.nodes[entry] = nodes.len() as u16;
    }
}

impl<W: Word> Buckets<&mut [u8], W> {
    /// Replaces `old` by `new` in the lane that begins at bit `lane`.
    #[inline]
    fn swap(&mut self, bucket: u64, lane: u32, old: u32, new: u32) {
        let (byte, shift) = self.locate(bucket);
        let word = W::read(self.payload, byte);
        (word ^ W::from(old ^ new) << (shift + lane)).write(self.payload, byte);
    }

    /// Returns the mark of the lowest slot that holds `tag`; the word's width if there is none.
    #[inline]
    fn mark(&self, bucket: u64, tag: u32) -> u32 {
        self.lanes.which_hold(self.get(bucket), tag).lowest()
    }

    /// Puts the tag into a free slot, evicting others if necessary. Returns `false` and changes nothing if no path
    /// leads to a free slot.
    #[inline]
    pub(super) fn insert(&mut self, key: &Candidates, search: &mut Search) -> bool {
        // Slots fill from the lowest on, so the bucket with the lower free slot is the emptier one. Filling it delays
        // the first eviction, and comparing two marks is cheaper than counting tags.
        let (first, second) = (self.mark(key.first, 0), self.mark(key.second, 0));
        let mark = first.min(second);
        // The word's width means that neither bucket has a free slot.
        if mark as usize >= size_of::<W>() * 8 {
            return self.insert_by_evictions(key, search);
        }
        let bucket = if first <= second { key.first } else { key.second };
        self.swap(bucket, self.lanes.lane_of(mark), 0, key.tag);
        true
    }

    #[cold]
    #[inline(never)]
    fn insert_by_evictions(&mut self, key: &Candidates, search: &mut Search) -> bool {
        match self.find_path(key, search) {
            Some((last, bucket, mark)) => {
                self.apply_path(key.tag, search, last, (bucket, self.lanes.lane_of(mark)));
                true
            }
            None => false,
        }
    }

    /// Finds the nearest free slot. Returns the tag that can move there, the slot's bucket and its mark.
    ///
    /// Breadth first, because the shortest path moves the fewest tags. Nothing is moved until a path is known, so that
    /// a full filter stays unchanged. (The usual random walk ends with one displaced tag that has no bucket.) A second
    /// visit to a bucket finds only what the first one found, so omitting it changes no path. Without that, copies of
    /// one key, whose tags are all in two buckets, would fill the list with those two.
    fn find_path(&self, key: &Candidates, search: &mut Search) -> Option<(Node, u64, u32)> {
        let Search { nodes, visited } = search;
        let near = self.search(key, nodes, |nodes, node| {
            nodes.push(node);
            nodes.len() < NEAR_NODES
        });
        near.or_else(|| self.find_far(key, nodes, visited))
    }

    #[cold]
    #[inline(never)]
    fn find_far(&self, key: &Candidates, nodes: &mut Vec<Node>, visited: &mut Visited) -> Option<(Node, u64, u32)> {
        visited.clear();
        self.search(key, nodes, |nodes, node| {
            visited.append(nodes, node);
            true
        })
    }

    /// Expands bucket after bucket until one has a free slot; `list` appends full buckets and returns whether to go on.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "each caller's own loop")]
    #[expect(clippy::cast_possible_truncation, reason = "at most MAX_NODES nodes")]
    fn search(
        &self,
        key: &Candidates,
        nodes: &mut Vec<Node>,
        mut list: impl FnMut(&mut Vec<Node>, Node) -> bool,
    ) -> Option<(Node, u64, u32)> {
        nodes.clear();
        for bucket in [key.first, key.second] {
            list(nodes, Node { bucket, parent: 0, slot: 0 });
        }
        let mut at = 0;
        while let Some(&Node { bucket, .. }) = nodes.get(at) {
            let tags = self.get(bucket);
            let others = [0, 1, 2, 3].map(|slot| self.shape.other(bucket, self.lanes.tag(tags, slot)));
            let marks = others.map(|other| self.mark(other, 0));
            for (slot, (&bucket, &mark)) in (0..).zip(others.iter().zip(&marks)) {
                let node = Node { bucket, parent: at as u32, slot };
                if (mark as usize) < size_of::<W>() * 8 {
                    return Some((node, bucket, mark));
                }
                if !list(nodes, node) {
                    return None;
                }
            }
            at += 1;
        }
        None
    }

    /// Moves the tags on the path, the last one first, so that each finds its slot free; then inserts `tag` into the
    /// first slot.
    fn apply_path(&mut self, tag: u32, search: &Search, last: Node, free: (u64, u32)) {
        let (mut node, (mut bucket, mut lane)) = (last, free);
        loop {
            let parent = search.nodes[node.parent as usize];
            let moved = self.lanes.tag(self.get(parent.bucket), node.slot);
            // This slot is free now: it was the end of the path, or its tag has just moved.
            self.swap(bucket, lane, 0, moved);
            (bucket, lane) = (parent.bucket, node.slot * u32::from(self.shape.tag_bits));
            self.swap(bucket, lane, moved, 0);
            if node.parent < ROOTS {
                break;
            }
            node = parent;
        }
        self.swap(bucket, lane, 0, tag);
    }

    /// Removes one copy of the tag from one of its buckets. Returns `false` and changes nothing if there is none.
    #[inline]
    pub(super) fn remove(&mut self, key: &Candidates) -> bool {
        // In a fixed order, so that the same operations give the same bytes everywhere.
        for bucket in [key.first, key.second] {
            let mark = self.mark(bucket, key.tag);
            if (mark as usize) < size_of::<W>() * 8 {
                self.swap(bucket, self.lanes.lane_of(mark), key.tag, 0);
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::CuckooShape;
    use super::*;
    use crate::effort;
    use crate::filter::FilterShape;
    use crate::hash::KeyHash;

    /// Buckets that the last search listed, after `filled` keys and then copies of another one until it was refused.
    fn buckets_listed_for_the_ninth_copy(filled: u64, tag_bits: u8) -> usize {
        let shape = CuckooShape::with_tag_bits(100_000, tag_bits).unwrap();
        let mut payload = vec![0; usize::try_from(shape.payload_bytes()).unwrap()];
        let mut table = Buckets::<_, u128>::new(shape, payload.as_mut_slice()).unwrap();
        let mut search = Search::default();
        for key in 0..filled {
            assert!(table.insert(&shape.candidates(KeyHash::mix(key)), &mut search));
        }
        let key = shape.candidates(KeyHash::mix(u64::MAX));
        (0..8).for_each(|_| assert!(table.insert(&key, &mut search)));
        assert!(!table.insert(&key, &mut search));
        search.nodes.len()
    }

    /// Its two buckets hold only its own tags, so the search reaches no third bucket.
    #[test]
    fn a_ninth_copy_is_refused_after_a_look_into_two_buckets() {
        for tag_bits in [4, 8, 17, 32] {
            assert_eq!([0, 50_000, 90_000].map(|filled| buckets_listed_for_the_ninth_copy(filled, tag_bits)), [2; 3]);
        }
    }

    /// The table of visited buckets would make each insert a quarter slower.
    #[test]
    fn searches_do_without_a_table_of_visited_buckets_until_the_filter_is_nearly_full() {
        let shape = CuckooShape::with_tag_bits(100_000, 12).unwrap();
        let mut payload = vec![0; usize::try_from(shape.payload_bytes()).unwrap()];
        let mut table = Buckets::<_, u128>::new(shape, payload.as_mut_slice()).unwrap();
        let mut search = Search::default();
        let mut insert_up_to_percent = |from: u64, to: u64, search: &mut Search| {
            let keys = shape.slots() * from / 100..shape.slots() * to / 100;
            keys.for_each(|key| assert!(table.insert(&shape.candidates(KeyHash::mix(key)), search)));
        };
        insert_up_to_percent(0, 80, &mut search);
        assert!(!search.nodes.is_empty() && search.visited.nodes.is_empty(), "evictions, and none far away");
        insert_up_to_percent(80, 96, &mut search);
        assert_eq!(search.visited.nodes.len(), ENTRIES);
    }

    #[test]
    fn a_list_holds_each_bucket_once_and_1024_at_most() {
        let (mut nodes, mut visited) = (Vec::new(), Visited::default());
        for buckets in [0..5_u64, 3..600, 0..3_000] {
            nodes.clear();
            visited.clear();
            let repeated = buckets.clone().chain(buckets.clone()).map(|bucket| bucket << 20 | 7);
            repeated.for_each(|bucket| visited.append(&mut nodes, Node { bucket, parent: 0, slot: 0 }));
            assert!(nodes.iter().map(|node| node.bucket >> 20).eq(buckets.take(MAX_NODES)));
        }
    }

    /// Returns the path that is found if every bucket is listed each time it is reached.
    fn find_with_repeats<W: Word>(table: &Buckets<&mut [u8], W>, key: &Candidates) -> Option<Vec<(u64, u32)>> {
        let mut nodes = vec![(key.first, 0, 0), (key.second, 0, 0)];
        for at in 0..MAX_NODES {
            let bucket = nodes.get(at)?.0;
            let tags = table.get(bucket);
            for slot in 0..4 {
                let other = table.shape.other(bucket, table.lanes.tag(tags, slot));
                nodes.push((other, at, slot));
                if (table.mark(other, 0) as usize) < size_of::<W>() * 8 {
                    return Some(path(nodes.len() - 1, |at| nodes[at]));
                }
            }
        }
        None
    }

    /// Buckets and slots of a path, from its end to its root.
    fn path(mut at: usize, node: impl Fn(usize) -> (u64, usize, u32)) -> Vec<(u64, u32)> {
        let mut path = Vec::new();
        while at >= ROOTS as usize {
            let (bucket, parent, slot) = node(at);
            path.push((bucket, slot));
            at = parent;
        }
        path.push((node(at).0, 0));
        path
    }

    fn found_path<W: Word>(
        table: &Buckets<&mut [u8], W>,
        key: &Candidates,
        search: &mut Search,
    ) -> Option<Vec<(u64, u32)>> {
        let (last, ..) = table.find_path(key, search)?;
        Some(path(search.nodes.len(), |at| {
            let node = search.nodes.get(at).unwrap_or(&last);
            (node.bucket, node.parent as usize, node.slot)
        }))
    }

    /// Many equal tags and few buckets, so that most searches reach a bucket more than once.
    #[test]
    fn leaving_out_visited_buckets_changes_no_path() {
        let mut compared = 0;
        for (keys, tag_bits) in [(40, 4), (300, 4), (300, 8), (5_000, 12)] {
            for round in (0..200_000 / keys).step_by(effort::strides(3, 8)) {
                let shape = CuckooShape::with_tag_bits(keys, tag_bits).unwrap();
                let mut payload = vec![0; usize::try_from(shape.payload_bytes()).unwrap()];
                let mut table = Buckets::<_, u128>::new(shape, payload.as_mut_slice()).unwrap();
                let mut search = Search::default();
                for number in 0..shape.slots() {
                    let key = shape.candidates(KeyHash::mix(round << 32 | number));
                    let is_full = |bucket| table.mark(bucket, 0) as usize >= u128::BITS as usize;
                    let is_searched = is_full(key.first) && is_full(key.second);
                    if let Some(expected) = is_searched.then(|| find_with_repeats(&table, &key)).flatten() {
                        assert_eq!(found_path(&table, &key, &mut search), Some(expected));
                        compared += 1;
                    }
                    table.insert(&key, &mut search);
                }
            }
        }
        assert!(compared > 10_000 / effort::strides(3, 8), "{compared} searches");
    }
}
