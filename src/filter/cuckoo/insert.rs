//! Finding room for a tag: first the way, then the moves.

use super::bucket::{Lanes, SLOTS, Word};
use super::probe::{Buckets, locate};
use super::shape::{CuckooShape, Place};
use crate::kernel::prefetch::fetch;

/// Full buckets that a search looks into before it gives up: enough for 97 % of the places (see the tests).
const MAX_NODES: usize = 1024;

/// Nodes that a search begins with: the buckets of the key that is to go in.
const ROOTS: u32 = 2;

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
    #[expect(clippy::cast_possible_truncation, reason = "at most MAX_NODES nodes")]
    fn find(&self, place: &Place, search: &mut Search) -> Option<(Node, u64, u32)> {
        let nodes = &mut search.nodes;
        nodes.clear();
        nodes.push(Node { bucket: place.first, parent: 0, slot: 0 });
        nodes.push(Node { bucket: place.second, parent: 0, slot: 0 });
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
                if nodes.len() < MAX_NODES {
                    nodes.push(node);
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
