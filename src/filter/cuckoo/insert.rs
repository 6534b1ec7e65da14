//! Finding room for a tag: first the way, then the moves.

use super::bucket::{Lanes, SLOTS, Word};
use super::probe::{Buckets, locate};
use super::shape::{CuckooShape, Place};
use crate::kernel::prefetch::fetch;

/// Full buckets that a search looks into before it gives up: enough for 97 % of the places (see the tests).
const MAX_NODES: usize = 1024;

/// Nodes that a search begins with: the buckets of the key that is to go in.
const ROOTS: u32 = 2;

/// Spreads buckets over the table of listed ones: 2^64 over the golden ratio.
const HOME: u64 = 0x9e37_79b9_7f4a_7c15;

/// Nodes that a search lists, repeated buckets and all, before it starts again without repeats: nearly all inserts of a
/// filter that is 95 % full end with fewer. Looking every bucket up from the start made them a quarter slower.
const NEAR_NODES: usize = 64;

/// Entries of the table of listed buckets: twice the nodes, so that most buckets are where they belong.
const ENTRIES: usize = 2 * MAX_NODES;

/// A full bucket on the way to a free place, and how the search came to it.
#[derive(Clone, Copy, Debug)]
struct Node {
    bucket: u64,
    /// The node whose tag could move here; nothing for the [`ROOTS`].
    parent: u32,
    /// The slot of that tag.
    slot: u32,
}

/// The memory of a search, kept from one to the next.
#[derive(Debug, Default)]
pub(super) struct Search {
    nodes: Vec<Node>,
    listed: Listed,
}

/// Which buckets a search has listed: a hash table of its nodes, with open addressing.
#[derive(Debug, Default)]
struct Listed {
    /// A node and one, or 0. Empty until the first search that needs it.
    nodes: Vec<u16>,
}

impl Listed {
    fn clear(&mut self) {
        self.nodes.clear();
        self.nodes.resize(ENTRIES, 0);
    }

    /// Appends a node, unless its bucket is there already or there are [`MAX_NODES`].
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "at most MAX_NODES nodes, and an entry has 11 bits")]
    fn list(&mut self, nodes: &mut Vec<Node>, node: Node) {
        if nodes.len() >= MAX_NODES {
            return;
        }
        let mut entry = (node.bucket.wrapping_mul(HOME) >> (64 - ENTRIES.ilog2())) as usize;
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

/// A payload that is being changed.
pub(super) struct Table<'a, W> {
    shape: CuckooShape,
    payload: &'a mut [u8],
    lanes: Lanes<W>,
}

impl<'a, W: Word> Table<'a, W> {
    /// `None` when the payload is not the shape's.
    #[inline]
    pub(super) fn new(shape: CuckooShape, payload: &'a mut [u8]) -> Option<Self> {
        let lanes = Buckets::<W>::new(shape, payload)?.lanes;
        Some(Self { shape, payload, lanes })
    }

    #[inline]
    fn locate(&self, bucket: u64) -> (usize, u32) {
        locate::<W>(self.payload.len(), bucket, u64::from(self.shape.tag_bits()) * u64::from(SLOTS))
    }

    #[inline]
    fn get(&self, bucket: u64) -> W {
        let (byte, shift) = self.locate(bucket);
        self.lanes.cut(W::read(self.payload, byte).unwrap_or(W::ZERO) >> shift)
    }

    /// Starts to fetch both buckets of a key.
    #[inline]
    pub(super) fn fetch(&self, place: &Place) {
        for bucket in [place.first, place.second] {
            let (byte, _) = self.locate(bucket);
            fetch(self.payload.as_ptr().wrapping_add(byte));
        }
    }

    /// Replaces `old` by `new` where lane `lane` begins.
    #[inline]
    fn swap(&mut self, bucket: u64, lane: u32, old: u32, new: u32) {
        let (byte, shift) = self.locate(bucket);
        let word = W::read(self.payload, byte).unwrap_or(W::ZERO);
        (word ^ W::of(old ^ new) << (shift + lane)).write(self.payload, byte);
    }

    /// The mark of the lowest slot that holds `tag`; the word's bits when none does.
    #[inline]
    fn mark(&self, bucket: u64, tag: u32) -> u32 {
        self.lanes.which_hold(self.get(bucket), tag).lowest()
    }

    /// Puts the tag into a free slot, moving others as need be. `false`, and nothing has changed, when there is
    /// no way to one.
    #[inline]
    pub(super) fn insert(&mut self, place: &Place, search: &mut Search) -> bool {
        // Slots fill from the lowest on: the bucket with the lower free one is the emptier one.
        let (first, second) = (self.mark(place.first, 0), self.mark(place.second, 0));
        let mark = first.min(second);
        if mark as usize >= W::BYTES * 8 {
            return self.insert_by_moves(place, search);
        }
        let bucket = if first <= second { place.first } else { place.second };
        self.swap(bucket, self.lanes.lane_of(mark), 0, place.tag);
        true
    }

    #[cold]
    #[inline(never)]
    fn insert_by_moves(&mut self, place: &Place, search: &mut Search) -> bool {
        match self.find(place, search) {
            Some((last, bucket, mark)) => {
                self.make_moves(place.tag, search, last, (bucket, self.lanes.lane_of(mark)));
                true
            }
            None => false,
        }
    }

    /// The nearest free slot, breadth first: the tag that can move there, its bucket and its mark.
    ///
    /// A bucket's second visit finds what the first one found, so leaving it out changes no way that is found. Without
    /// that, copies of one key, whose tags all lie in two buckets, would fill the list with those two.
    fn find(&self, place: &Place, search: &mut Search) -> Option<(Node, u64, u32)> {
        let Search { nodes, listed } = search;
        let near = self.walk(place, nodes, |nodes, node| {
            nodes.push(node);
            nodes.len() < NEAR_NODES
        });
        near.or_else(|| self.find_far(place, nodes, listed))
    }

    #[cold]
    #[inline(never)]
    fn find_far(&self, place: &Place, nodes: &mut Vec<Node>, listed: &mut Listed) -> Option<(Node, u64, u32)> {
        listed.clear();
        self.walk(place, nodes, |nodes, node| {
            listed.list(nodes, node);
            true
        })
    }

    /// Looks into bucket after bucket until one has a free slot; `list` lists the full ones, and says whether to go on.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "each caller's own loop")]
    #[expect(clippy::cast_possible_truncation, reason = "at most MAX_NODES nodes")]
    fn walk(
        &self,
        place: &Place,
        nodes: &mut Vec<Node>,
        mut list: impl FnMut(&mut Vec<Node>, Node) -> bool,
    ) -> Option<(Node, u64, u32)> {
        nodes.clear();
        for bucket in [place.first, place.second] {
            list(nodes, Node { bucket, parent: 0, slot: 0 });
        }
        let mut at = 0;
        while let Some(&Node { bucket, .. }) = nodes.get(at) {
            let tags = self.get(bucket);
            let others = [0, 1, 2, 3].map(|slot| self.shape.other(bucket, self.lanes.tag(tags, slot)));
            let marks = others.map(|other| self.mark(other, 0));
            for (slot, (&bucket, &mark)) in (0..).zip(others.iter().zip(&marks)) {
                let node = Node { bucket, parent: at as u32, slot };
                if (mark as usize) < W::BYTES * 8 {
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

    /// Moves the tags on the way, the last one first, and puts `tag` where the first one was.
    fn make_moves(&mut self, tag: u32, search: &Search, last: Node, free: (u64, u32)) {
        let (mut node, (mut bucket, mut lane)) = (last, free);
        loop {
            let parent = search.nodes[node.parent as usize];
            let moved = self.lanes.tag(self.get(parent.bucket), node.slot);
            self.swap(bucket, lane, 0, moved);
            (bucket, lane) = (parent.bucket, node.slot * u32::from(self.shape.tag_bits()));
            self.swap(bucket, lane, moved, 0);
            if node.parent < ROOTS {
                break;
            }
            node = parent;
        }
        self.swap(bucket, lane, 0, tag);
    }

    /// Takes one such tag out of one of its buckets. `false`, and nothing has changed, when there is none.
    #[inline]
    pub(super) fn remove(&mut self, place: &Place) -> bool {
        for bucket in [place.first, place.second] {
            let mark = self.mark(bucket, place.tag);
            if (mark as usize) < W::BYTES * 8 {
                self.swap(bucket, self.lanes.lane_of(mark), place.tag, 0);
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHash;

    /// Buckets that the last search listed, after `filled` keys and then copies of another one until it was refused.
    fn buckets_listed_for_the_ninth_copy(filled: u64, tag_bits: u8) -> usize {
        let shape = CuckooShape::with_tag_bits(100_000, tag_bits).unwrap();
        let mut payload = vec![0; usize::try_from(shape.payload_bytes()).unwrap()];
        let mut table = Table::<u128>::new(shape, &mut payload).unwrap();
        let mut search = Search::default();
        for key in 0..filled {
            assert!(table.insert(&shape.place(KeyHash::from_remixed(key)), &mut search));
        }
        let place = shape.place(KeyHash::from_remixed(u64::MAX));
        (0..8).for_each(|_| assert!(table.insert(&place, &mut search)));
        assert!(!table.insert(&place, &mut search));
        search.nodes.len()
    }

    /// All tags of its two buckets are its own, so there is no third bucket to look into.
    #[test]
    fn a_ninth_copy_is_refused_after_a_look_into_two_buckets() {
        for tag_bits in [4, 8, 17, 32] {
            assert_eq!([0, 50_000, 90_000].map(|filled| buckets_listed_for_the_ninth_copy(filled, tag_bits)), [2; 3]);
        }
    }

    #[test]
    fn a_list_holds_each_bucket_once_and_1024_at_most() {
        let (mut nodes, mut listed) = (Vec::new(), Listed::default());
        for buckets in [0..5_u64, 3..600, 0..3_000] {
            nodes.clear();
            listed.clear();
            let repeated = buckets.clone().chain(buckets.clone()).map(|bucket| bucket << 20 | 7);
            repeated.for_each(|bucket| listed.list(&mut nodes, Node { bucket, parent: 0, slot: 0 }));
            assert!(nodes.iter().map(|node| node.bucket >> 20).eq(buckets.take(MAX_NODES)));
        }
    }

    /// The way that is found when every bucket is listed as often as it is reached.
    fn find_with_repeats<W: Word>(table: &Table<'_, W>, place: &Place) -> Option<Vec<(u64, u32)>> {
        let mut nodes = vec![(place.first, 0, 0), (place.second, 0, 0)];
        for at in 0..MAX_NODES {
            let bucket = nodes.get(at)?.0;
            let tags = table.get(bucket);
            for slot in 0..4 {
                let other = table.shape.other(bucket, table.lanes.tag(tags, slot));
                nodes.push((other, at, slot));
                if (table.mark(other, 0) as usize) < W::BYTES * 8 {
                    return Some(way(nodes.len() - 1, |at| nodes[at]));
                }
            }
        }
        None
    }

    /// Buckets and slots of a way, from its end to its root.
    fn way(mut at: usize, node: impl Fn(usize) -> (u64, usize, u32)) -> Vec<(u64, u32)> {
        let mut way = Vec::new();
        while at >= ROOTS as usize {
            let (bucket, parent, slot) = node(at);
            way.push((bucket, slot));
            at = parent;
        }
        way.push((node(at).0, 0));
        way
    }

    fn found_way<W: Word>(table: &Table<'_, W>, place: &Place, search: &mut Search) -> Option<Vec<(u64, u32)>> {
        let (last, ..) = table.find(place, search)?;
        Some(way(search.nodes.len(), |at| {
            let node = search.nodes.get(at).unwrap_or(&last);
            (node.bucket, node.parent as usize, node.slot)
        }))
    }

    /// Many equal tags and few buckets, so that most searches come to a bucket more than once.
    #[test]
    fn leaving_out_what_is_listed_changes_no_way() {
        let mut compared = 0;
        for (keys, tag_bits) in [(40, 4), (300, 4), (300, 8), (5_000, 12)] {
            for round in 0..200_000 / keys {
                let shape = CuckooShape::with_tag_bits(keys, tag_bits).unwrap();
                let mut payload = vec![0; usize::try_from(shape.payload_bytes()).unwrap()];
                let mut table = Table::<u128>::new(shape, &mut payload).unwrap();
                let mut search = Search::default();
                for key in 0..shape.places() {
                    let place = shape.place(KeyHash::from_remixed(round << 32 | key));
                    let is_full = |bucket| table.mark(bucket, 0) as usize >= u128::BYTES * 8;
                    let is_searched = is_full(place.first) && is_full(place.second);
                    if let Some(expected) = is_searched.then(|| find_with_repeats(&table, &place)).flatten() {
                        assert_eq!(found_way(&table, &place, &mut search), Some(expected));
                        compared += 1;
                    }
                    table.insert(&place, &mut search);
                }
            }
        }
        assert!(compared > 10_000, "{compared} searches");
    }
}
