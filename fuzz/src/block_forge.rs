//! Forges filter blocks whose checksums and lengths hold, so that inputs reach the code behind the checks of the
//! trailer. This module follows FORMAT.md and shares no code with the library, except that it takes parameters that fit
//! a payload from filters that the library builds.

use sstfilter::{BuildContext, Domain, KeyHash, KeyHasher, kind};

use crate::pick;
use crate::random::Random;

/// Bytes of a trailer.
const TRAILER: usize = 32;

/// The parts of a block. [`Parts::seal`] computes the trailer bytes that depend on checksums and lengths.
#[derive(Clone, Debug)]
pub struct Parts {
    payload: Vec<u8>,
    params: Vec<u32>,
    held: Option<Held>,
    /// The file's fingerprint, in a block that is bound to a file.
    file: Option<[u8; 8]>,
    trailer: [u8; TRAILER],
}

/// The declared parts of keys, in a block that does not contain only whole keys. [`Parts::seal`] counts the tags.
#[derive(Clone, Debug)]
struct Held {
    tags: Vec<[u8; 8]>,
    /// The last three bytes of the parts word.
    word: [u8; 3],
}

impl Held {
    /// Takes the field off the end of `bytes`.
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let (rest, &[count, word @ ..]) = bytes.split_last_chunk::<4>()?;
        let (rest, tags) = rest.split_at_checked(rest.len().checked_sub(usize::from(count) * 8)?)?;
        *bytes = rest;
        Some(Self { tags: tags.as_chunks().0.to_vec(), word })
    }

    /// Returns tags of the extractors that [`crate::block`] probes for, or of none, mostly in a word that readers
    /// accept.
    fn any(random: &mut Random) -> Self {
        let tag = |random: &mut Random| {
            let known = EXTRACTORS.get(random.below(3)).map(|name| Domain::new(name).tag());
            known.unwrap_or_else(|| random.draw()).to_le_bytes()
        };
        let count = if random.once_in(8) { random.below(256) } else { 1 + random.below(3) };
        let most = if random.once_in(8) { 256 } else { 2 };
        let word = [random.below(most) as u8, 0, u8::from(random.once_in(16))];
        Self { tags: (0..count).map(|_| tag(random)).collect(), word }
    }

    fn encode(&self) -> Vec<u8> {
        let tags = &self.tags[..self.tags.len().min(255)];
        [&tags.concat()[..], &[tags.len() as u8], &self.word].concat()
    }
}

/// The extractors whose parts forged blocks declare.
pub const EXTRACTORS: [&str; 2] = ["fixed-prefix:2", "prefix-to-byte:0x2d"];

impl Parts {
    /// Takes any bytes apart as if they were a block.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let (rest, found) = bytes.split_at(bytes.len().saturating_sub(TRAILER));
        let mut trailer = [0; TRAILER];
        trailer[TRAILER - found.len()..].copy_from_slice(found);
        let flags = trailer[25] >> 4;
        let is_bound = flags & 1 == 1;
        let (mut rest, file) =
            rest.split_last_chunk().filter(|_| is_bound).map_or((rest, None), |(rest, &file)| (rest, Some(file)));
        let held = if flags & 4 == 0 { None } else { Held::take(&mut rest) };
        let words = usize::from(trailer[24] >> 4).min(rest.len() / 4);
        let (payload, params) = rest.split_at(rest.len() - words * 4);
        let params = params.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect();
        Self { payload: payload.to_vec(), params, held, file, trailer }
    }

    /// The kind that the trailer names.
    fn kind(&self) -> u8 {
        self.trailer[21]
    }

    /// Returns the bytes of the block, with valid checksums and lengths.
    #[must_use]
    pub fn seal(mut self) -> Vec<u8> {
        self.payload.truncate(self.payload.len() / 8 * 8);
        let words = u32::try_from(self.payload.len() / 8).unwrap_or(u32::MAX);
        self.trailer[8..12].copy_from_slice(&words.to_le_bytes());
        self.trailer[12..16].copy_from_slice(&crc32c::crc32c(&self.payload).to_le_bytes());
        self.trailer[24] = self.trailer[24] & 15 | (self.params.len().min(15) as u8) << 4;
        // Derived from the parts: a flag without its field would shift all fields before it.
        let flags = u8::from(self.file.is_some()) | u8::from(self.held.is_some()) << 2;
        self.trailer[25..28].copy_from_slice(&[1 | flags << 4, b'S', b'F']);
        let mut block = self.payload;
        let from = block.len();
        self.params.iter().take(15).for_each(|word| block.extend(word.to_le_bytes()));
        block.extend(self.held.iter().flat_map(Held::encode));
        block.extend(self.file.iter().flatten());
        block.extend(&self.trailer[..28]);
        let sum = crc32c::crc32c(&block[from..]);
        block.extend(sum.to_le_bytes());
        block
    }

    /// Sets reason, hash and salt to values that readers know.
    fn make_plausible(&mut self, random: &mut Random) {
        let hash = [1, 1, 2, 15][random.below(4)];
        self.trailer[23] = random.below(7) as u8 | hash << 4;
        if !matches!(self.kind(), 2 | 7..=9) {
            self.trailer[24] &= 0xf0;
        }
        if random.once_in(8) {
            self.file = self.file.xor(Some(u64::from(random.number()).to_le_bytes()));
        }
        if random.once_in(4) {
            self.held = if self.held.is_some() && random.once_in(2) { None } else { Some(Held::any(random)) };
        }
        if random.once_in(2) {
            self.trailer[16..21].copy_from_slice(&u64::from(random.number()).to_le_bytes()[..5]);
        }
    }

    /// Changes a word of the payload; beyond its end, one inside.
    pub fn set_payload_word(&mut self, number: usize, value: u32) {
        let words = self.payload.as_chunks_mut().0;
        if !words.is_empty() {
            let number = number % words.len();
            words[number] = value.to_le_bytes();
        }
    }

    /// Changes a parameter, if it exists.
    pub fn set_param(&mut self, number: usize, value: u32) {
        self.params.iter_mut().skip(number).take(1).for_each(|param| *param = value);
    }

    /// Resizes a range filter's payload (section 13) to the length that its parameters require, up to `most` bytes.
    pub fn fit_range_payload(&mut self, most: usize) {
        let &[first, _, lines, codes, fourth, fifth, sixth] = &self.params[..] else { return };
        let [lines, codes, fourth, fifth, sixth] = [lines, codes, fourth, fifth, sixth].map(u64::from);
        let bytes = if first.to_le_bytes()[0] == 3 {
            lines * 80 + sixth * 8 + 8 + fifth.next_multiple_of(8)
        } else {
            let low_words = (codes * u64::from(first.to_le_bytes()[1])).div_ceil(64);
            lines * 64 + low_words * 8 + 8 + (fourth * 4).next_multiple_of(8)
        };
        if bytes <= most as u64 {
            self.payload.resize(bytes as usize, 0xa5);
        }
    }

    /// Becomes a filter that the library builds, of any kind and size, if its payload fits into `most` bytes. Every
    /// second one keeps the old payload, at the new length.
    fn reshape(&mut self, random: &mut Random, most: usize) {
        let entry = &kind::all()[random.below(kind::all().len())];
        let policy = pick::some_policy(entry, 1 + random.below(32) as u8).with_min_keys(0);
        let mut builder = policy.builder(&BuildContext::new(&KeyHasher::default()));
        (0..random.below(512) as u64).for_each(|key| builder.add_hash(KeyHash::mix(key)));
        let Some(built) = builder.finish().block.map(|block| Self::of(&block)) else { return };
        if built.payload.len() <= most {
            let old = std::mem::replace(self, built);
            if random.once_in(2) {
                let length = self.payload.len();
                self.payload = old.payload;
                self.payload.resize(length, 0);
            }
        }
    }
}

/// libFuzzer's own mutator. Takes data, the number of bytes to change and the maximum to make of them; returns the new
/// number.
pub type Mutate = fn(&mut [u8], usize, usize) -> usize;

/// Applies `mutate` to the first `size` bytes of `data`; libFuzzer's mutator accepts no empty buffer.
pub fn change(mutate: Mutate, data: &mut [u8], size: usize, most: usize) -> usize {
    if most == 0 { 0 } else { mutate(data, size, most) }
}

/// A custom mutator: applies `mutate` to the first `size` bytes of `data`, and mostly makes a sealed block of at most
/// `most` bytes of the result. Returns the new size.
pub fn mutate(data: &mut [u8], size: usize, most: usize, seed: u32, mutate: Mutate) -> usize {
    let mut random = Random::new(seed);
    if random.once_in(8) {
        return change(mutate, data, size, most);
    }
    let mut parts = Parts::of(&data[..size]);
    match random.below(4) {
        0 => {
            let changed = change(mutate, data, size, most);
            parts = Parts::of(&data[..changed]);
        }
        1 => {
            let mut tail = parts.trailer.to_vec();
            parts.params.iter().for_each(|word| tail.extend(word.to_le_bytes()));
            let length = tail.len();
            change(mutate, &mut tail, length, length);
            let (trailer, params) = tail.split_at(TRAILER);
            parts.trailer.copy_from_slice(trailer);
            parts.params = params.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect();
        }
        2 => {
            let length = parts.payload.len();
            // The parameters and fields behind the payload must also fit.
            let room = most.saturating_sub(TRAILER + 68).max(length);
            parts.payload.resize(room, 0);
            let changed = change(mutate, &mut parts.payload, length, room);
            parts.payload.truncate(changed);
        }
        _ => parts.reshape(&mut random, most.saturating_sub(TRAILER + 68)),
    }
    if !random.once_in(4) {
        parts.make_plausible(&mut random);
    }
    let block = parts.seal();
    if block.len() > most {
        return size;
    }
    data[..block.len()].copy_from_slice(&block);
    block.len()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn fixtures_sealed_again_are_what_they_were() {
        let fixtures = std::fs::read_dir("../fixtures/v1").unwrap().map(|entry| entry.unwrap().path());
        let blocks: Vec<_> = fixtures.filter(|path| path.extension().is_some_and(|found| found == "block")).collect();
        assert!(blocks.len() > 40);
        for path in blocks {
            let block = std::fs::read(&path).unwrap();
            assert_eq!(Parts::of(&block).seal(), block, "{}", path.display());
        }
    }

    #[test]
    fn forged_parts_of_keys_are_mostly_accepted() {
        let block = std::fs::read("../fixtures/v1/bloom-one-key.block").unwrap();
        let accepted = |&seed: &u32| {
            let parts = Parts { held: Some(Held::any(&mut Random::new(seed))), ..Parts::of(&block) };
            sstfilter::FilterBlock::open_unverified(parts.seal()).is_ok()
        };
        let accepted = (0..400).filter(accepted).count();
        assert!((250..390).contains(&accepted), "{accepted} of 400");
    }

    #[test]
    fn shapes_of_every_kind_are_accepted() {
        let mut accepted = BTreeMap::new();
        for seed in 0..4_000 {
            let mut parts = Parts::of(&vec![0xa5; 40 + seed as usize % 100 * 7]);
            parts.reshape(&mut Random::new(seed), 1 << 12);
            let kind = parts.kind();
            let is_accepted = sstfilter::FilterBlock::open_unverified(parts.seal()).is_ok();
            *accepted.entry(kind).or_insert(0) += u32::from(is_accepted);
        }
        assert!(kind::all().iter().all(|entry| accepted[&entry.id.code()] > 100), "{accepted:?}");
    }
}
