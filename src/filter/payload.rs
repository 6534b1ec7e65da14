//! Payloads, under construction and finished.

use alloc::boxed::Box;

use super::cache::HASHES_AHEAD;
use crate::codec::AlignedBuffer;
use crate::hash::KeyHash;

/// A payload that accepts hashes in any order, possibly repeated.
pub(crate) trait StreamedPayload: Send {
    /// Inserts hashes, a few hundred at a time.
    fn insert_all(&mut self, hashes: &[KeyHash]);

    /// Inserts many hashes, and returns how many of them differ from the previous one; `last` precedes the first.
    fn insert_and_count(&mut self, last: Option<KeyHash>, hashes: &[KeyHash]) -> u64 {
        for_each_chunk(last, hashes, |chunk| self.insert_all(chunk))
    }

    /// Returns the maximum bytes that inserting has used in addition to the payload.
    fn scratch_bytes(&self) -> u64 {
        0
    }

    /// Returns the payload of all hashes.
    fn into_payload(self: Box<Self>) -> AlignedBuffer;
}

/// Passes `hashes` to `insert` in chunks, and returns how many of them differ from the previous one; `last` precedes
/// the first.
///
/// A chunk stays in the first-level cache between counting and inserting. Inserting the previous chunk has prefetched
/// it.
pub(crate) fn for_each_chunk(mut last: Option<KeyHash>, hashes: &[KeyHash], mut insert: impl FnMut(&[KeyHash])) -> u64 {
    let mut differing = 0;
    for chunk in hashes.chunks(HASHES_AHEAD) {
        let later = chunk.iter().zip(chunk.iter().skip(1)).filter(|(before, hash)| before != hash);
        differing += u64::from(last.as_ref() != chunk.first()) + later.count() as u64;
        last = chunk.last().copied();
        insert(chunk);
    }
    differing
}

/// A finished payload and its shape.
#[derive(Debug)]
pub(crate) struct BuiltPayload<S> {
    pub(crate) shape: S,
    pub(crate) payload: AlignedBuffer,
    /// The number of attempts; 1 for kinds that always succeed.
    pub(crate) attempts: u32,
    /// The maximum bytes held at once, without the input hashes.
    pub(crate) peak_bytes: u64,
}

impl<S> BuiltPayload<S> {
    /// Wraps a payload that was built in one attempt, without further memory.
    pub(crate) fn new(shape: S, payload: AlignedBuffer) -> Self {
        let peak_bytes = payload.as_slice().len() as u64;
        Self { shape, payload, attempts: 1, peak_bytes }
    }

    /// Finishes a stream.
    pub(crate) fn of_stream(shape: S, stream: Box<dyn StreamedPayload>) -> Self {
        let scratch_bytes = stream.scratch_bytes();
        let built = Self::new(shape, stream.into_payload());
        Self { peak_bytes: built.peak_bytes + scratch_bytes, ..built }
    }
}
