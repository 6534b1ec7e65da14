//! Exercises bytes that may be a filter block.

use std::sync::Arc;

use bytes::Bytes;
use sstfilter::simd::{self, InstructionSet};
use sstfilter::{
    BlockError, CountingBloom, CuckooFilter, DelimitedPrefix, Domain, DynamicFilter, FileId, FilterBlock, FilterError,
    FilterHealth, FilterSet, Filters, FixedPrefix, HashId, HashIdentity, KeyExtractor, KeyHash, KeyHasher, KeyParts,
    KindId, LoadContext, LookupOutcome, MatchBitmap, MatchMatrix, RegisterBlockedBloom, StandardBloom,
};

use crate::block_forge;

/// Opens and probes `bytes` in every way.
pub fn exercise(bytes: &[u8]) {
    let hashes = hashes_of(bytes);
    match FilterBlock::open_unverified(bytes) {
        Ok(block) => {
            let kind = ask(&block, &hashes);
            ask_for_prefixes(&block, bytes);
            let context = context_of(&block);
            restore(bytes, kind, context, &hashes);
            guard(bytes, context, &hashes, block.verify().is_ok());
            // A reader of another file refuses the block, bound or not.
            guard(bytes, context.with_file_id(FileId::from_fingerprint(0x5eed)), &hashes[..3], false);
        }
        Err(error) => {
            shown(&error);
            guard(bytes, LoadContext::new(&KeyHasher::default()), &hashes, false);
        }
    }
    // A hash that the input can have by chance, so either outcome is allowed.
    guard(bytes, LoadContext::new(&KeyHasher::with_seed(1)), &hashes[..3], true);
}

/// Returns the context of a reader for which the block was built.
fn context_of(block: &FilterBlock<&[u8]>) -> LoadContext<'static> {
    let context = LoadContext::from(block.hash_identity()).with_any_key_parts();
    block.info().file.map_or(context, |file| context.with_file_id(file))
}

/// Returns the filters of a reader with this hash, as far as the identity determines it. Probes use only hashes.
fn filters_of(identity: HashIdentity) -> Filters {
    let by_tag = || match identity.id {
        HashId::Custom => KeyHasher::custom(identity.seed, |_| KeyHash::mix(0)),
        _ => KeyHasher::default(),
    };
    Filters::default().with_hasher(KeyHasher::from_identity(identity).unwrap_or_else(by_tag))
}

/// Returns hashes that depend on the input, and the ends of their range: more than fit into one word of answers.
fn hashes_of(bytes: &[u8]) -> Vec<KeyHash> {
    let seed = u64::from(crc32c::crc32c(bytes));
    let ends = [0, 1, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1, 1 << 32, u64::from(u32::MAX)];
    let taken = bytes.as_chunks().0.iter().take(16).map(|&word| u64::from_le_bytes(word));
    let mixed = (0..42).map(|index| KeyHash::mix(seed << 32 | index).get());
    ends.into_iter().chain(taken).chain(mixed).map(KeyHash::from_well_mixed).collect()
}

/// Checks that single, batched and set probes agree, at any alignment and with any instruction set. Returns the block's
/// kind.
fn ask(block: &FilterBlock<&[u8]>, hashes: &[KeyHash]) -> KindId {
    let answers: Vec<bool> = hashes.iter().map(|&hash| block.may_contain(hash)).collect();
    // One byte further on, so that no word of the block is aligned.
    let moved = [&[0xa5][..], block.as_bytes()].concat();
    for set in InstructionSet::available() {
        simd::select(set).expect("it is available");
        // Opened with this set, which single probes then use.
        for bytes in [block.as_bytes(), &moved[1..]] {
            let block = FilterBlock::open_unverified(bytes).expect("the same bytes");
            let mut matches = MatchBitmap::default();
            block.may_contain_batch(hashes, &mut matches);
            for (index, (&hash, &answer)) in hashes.iter().zip(&answers).enumerate() {
                assert_eq!(matches.may_contain(index), answer, "batch, {set}, {hash:?}");
                assert_eq!(block.may_contain(hash), answer, "single, {set}, {hash:?}");
            }
            assert_eq!(matches.count(), answers.iter().filter(|&&answer| answer).count() as u64);
        }
        ask_in_a_set(block, hashes, &answers);
    }
    // The selection is global: the next input must not run with the last set of the loop.
    simd::select(InstructionSet::fastest()).expect("it is available");
    let info = block.info();
    assert!((0.0..=1.0).contains(&info.expected_fpr), "{info:?}");
    assert!(block.fill_ratio().is_none_or(|fill| (0.0..=1.0).contains(&fill)), "{info:?}: {:?}", block.fill_ratio());
    assert_eq!(info.block_bytes, block.as_bytes().len() as u64);
    assert!(!format!("{info:?} {} {} {}", info.bits_per_key(), info.hash, info.reason).is_empty());
    info.kind
}

/// Checks that a prefix is absent only by a part that the block declares, and by the block's own hash. A block without
/// whole keys is positive for every hash.
fn ask_for_prefixes(block: &FilterBlock<&[u8]>, bytes: &[u8]) {
    let extractors: [Arc<dyn KeyExtractor>; 2] = [Arc::new(FixedPrefix::new(2)), Arc::new(DelimitedPrefix::new(b'-'))];
    assert_eq!(extractors.each_ref().map(|extractor| extractor.name()), block_forge::EXTRACTORS);
    let parts = extractors.iter().cloned().fold(KeyParts::whole_keys(), KeyParts::with_extractor);
    let info = block.info();
    let hasher = KeyHasher::with_seed(info.hash.seed);
    let is_its_hash = hasher.identity() == info.hash;
    let filters = Filters::default().with_hasher(hasher.clone()).with_key_parts(parts.clone());
    let reader = filters.reader(FilterBlock::load(block.as_bytes(), context_of(block)));
    for prefix in bytes.chunks(5).take(50) {
        let hash_if_held = |extractor: &Arc<dyn KeyExtractor>| {
            let domain = Domain::new(extractor.name());
            let part = extractor.extract(prefix).filter(|_| is_its_hash && info.extractors.contains(&domain))?;
            Some(hasher.hash(&part).in_domain(domain))
        };
        let hashes: Vec<KeyHash> = extractors.iter().filter_map(hash_if_held).collect();
        let expected = hashes.iter().all(|&hash| block.may_contain(hash));
        let prepared = parts.prefix(&hasher, prefix);
        let answer = block.may_contain_prefix(&prepared);
        let is_exact = info.whole_keys || hashes.is_empty();
        assert!(answer == expected || !is_exact, "{prefix:?} in {info:?}");
        assert_eq!(reader.probe_prefix(prefix).is_absent(), !answer && block.verify().is_ok(), "{prefix:?}");
        let of_another_hash = KeyHasher::with_seed(!info.hash.seed);
        assert!(block.may_contain_prefix(&parts.prefix(&of_another_hash, prefix)), "{prefix:?} in {info:?}");
    }
}

/// Checks that a set with the block twice and a damaged one between answers like the block, and is positive for the
/// damaged one.
fn ask_in_a_set(block: &FilterBlock<&[u8]>, hashes: &[KeyHash], answers: &[bool]) {
    let bad = Err(BlockError::Magic { got: 0 });
    let filters = filters_of(block.hash_identity());
    let set = FilterSet::new(&filters, [Ok(block.clone()), bad, Ok(block.clone())].map(|block| filters.reader(block)));
    let is_sound = block.verify().is_ok() && filters.hasher().identity() == block.hash_identity();
    assert!(set.problem(1).is_some() && set.problem(0).is_none() == is_sound);
    let mut matrix = MatchMatrix::default();
    set.matches_batch(hashes, &mut matrix);
    let mut matches = MatchBitmap::default();
    for (index, (&hash, &answer)) in hashes.iter().zip(answers).enumerate() {
        let answer = answer || !is_sound;
        set.matches_hash(hash, &mut matches);
        assert_eq!([0, 1, 2].map(|filter| matches.may_contain(filter)), [answer, true, answer], "set, {hash:?}");
        let row = [0, 1, 2].map(|filter| matrix.may_contain(index, filter));
        assert_eq!(row, [answer, true, answer], "matrix, {hash:?}");
    }
}

/// Checks that a filter reader is negative only with a sound block.
fn guard(bytes: &[u8], context: LoadContext<'_>, hashes: &[KeyHash], may_be_sound: bool) {
    let filter = filters_of(context.identity().hash).reader(FilterBlock::load(bytes, context));
    let is_usable = filter.block().is_ok();
    assert!(may_be_sound || !is_usable);
    let mut matches = MatchBitmap::default();
    filter.probe_batch(hashes, &mut matches);
    for (index, &hash) in hashes.iter().enumerate() {
        let probe = filter.probe_hash(hash);
        assert_eq!(probe.is_absent(), !matches.may_contain(index));
        assert!(is_usable || !probe.is_absent());
        filter.record_lookup(LookupOutcome::NotFound);
    }
    if let Err(error) = filter.block() {
        shown(error);
        assert_eq!(matches.count(), hashes.len() as u64);
        // Each hash was probed twice: in the batch, and alone.
        assert_eq!(filter.stats().unusable, 2 * hashes.len() as u64);
        assert!(!format!("{filter:?}").is_empty());
    }
}

fn shown(error: &(impl core::fmt::Display + core::fmt::Debug)) {
    assert!(!format!("{error} {error:?}").is_empty());
}

/// Checks that dynamic kinds restore the block or refuse it. A restored filter contains the block's keys and every
/// inserted key.
fn restore(bytes: &[u8], kind: KindId, context: LoadContext<'_>, hashes: &[KeyHash]) {
    let block = FilterBlock::open_unverified(bytes).expect("it was opened before");
    let refused = |error: FilterError, wanted: KindId| {
        shown(&error);
        assert!(kind != wanted || block.verify().is_err() || !block.info().whole_keys, "{error}");
    };
    match StandardBloom::from_block(bytes, context) {
        Ok(mut filter) => {
            same_answers(&block, hashes, |hash| filter.contains(hash));
            hashes.iter().for_each(|&hash| _ = filter.insert(hash));
            let _ = filter.estimated_keys();
            holds(&filter, &filter.health(), filter.to_block(), hashes);
        }
        Err(error) => refused(error, KindId::STANDARD_BLOOM),
    }
    match RegisterBlockedBloom::from_block(bytes, context) {
        Ok(filter) => {
            same_answers(&block, hashes, |hash| filter.contains(hash));
            filter.insert_all(hashes);
            holds(&filter, &filter.health(), filter.to_block(), hashes);
        }
        Err(error) => refused(error, KindId::REGISTER_BLOCKED_BLOOM),
    }
    match CountingBloom::from_block(bytes, context) {
        Ok(filter) => counting(filter, &block, hashes),
        Err(error) => refused(error, KindId::COUNTING_BLOOM),
    }
    match CuckooFilter::from_block(bytes, context) {
        Ok(filter) => cuckoo(filter, &block, hashes),
        Err(error) => shown(&error),
    }
}

fn counting(mut filter: CountingBloom, block: &FilterBlock<&[u8]>, hashes: &[KeyHash]) {
    same_answers(block, hashes, |hash| filter.contains(hash));
    let held: Vec<KeyHash> = hashes.iter().copied().filter(|&hash| filter.contains(hash)).collect();
    let before = filter.keys();
    for &hash in hashes {
        if !filter.contains(hash) {
            assert!(filter.remove(hash).is_err());
        }
    }
    assert_eq!(filter.keys(), before);
    filter.insert_all(hashes);
    let _ = (filter.saturated(), filter.estimated_keys());
    holds(&filter, &filter.health(), filter.to_block(), hashes);
    let standard = filter.to_standard_bloom().expect("smaller than the block");
    hashes.iter().for_each(|&hash| assert!(standard.contains(hash)));
    hashes.iter().for_each(|&hash| filter.remove(hash).expect("it is in"));
    held.iter().for_each(|&hash| assert!(filter.contains(hash), "it was there before"));
}

fn cuckoo(mut filter: CuckooFilter, block: &FilterBlock<&[u8]>, hashes: &[KeyHash]) {
    same_answers(block, hashes, |hash| filter.contains(hash));
    let held: Vec<KeyHash> = hashes.iter().copied().filter(|&hash| filter.contains(hash)).collect();
    let before = filter.keys();
    let inserted: Vec<KeyHash> = hashes.iter().copied().filter(|&hash| filter.insert(hash).is_ok()).collect();
    held.iter().chain(&inserted).for_each(|&hash| assert!(filter.contains(hash)));
    assert_eq!(filter.keys(), before + inserted.len() as u64);
    holds(&filter, &filter.health(), filter.to_block(), &inserted);
    inserted.iter().for_each(|&hash| filter.remove(hash).expect("it is in"));
    held.iter().for_each(|&hash| assert!(filter.contains(hash), "it was there before"));
    assert_eq!(filter.keys(), before);
}

fn same_answers(block: &FilterBlock<&[u8]>, hashes: &[KeyHash], contains: impl Fn(KeyHash) -> bool) {
    hashes.iter().for_each(|&hash| assert_eq!(contains(hash), block.may_contain(hash), "{hash:?}"));
}

/// Checks that a filter contains keys, also after it was stored.
fn holds(filter: &impl DynamicFilter, health: &FilterHealth, stored: Result<Bytes, FilterError>, hashes: &[KeyHash]) {
    assert!((0.0..=1.0).contains(&health.fill_ratio), "{health:?}");
    assert!((0.0..=1.0).contains(&health.expected_fpr), "{health:?}");
    let block = FilterBlock::open_unverified(stored.expect("it was a block")).expect("it was just written");
    block.verify().expect("it was just written");
    hashes.iter().for_each(|&hash| assert!(filter.contains(hash) && block.may_contain(hash)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixtures_pass() {
        for entry in std::fs::read_dir("../fixtures/v1").unwrap() {
            exercise(&std::fs::read(entry.unwrap().path()).unwrap());
        }
    }
}
