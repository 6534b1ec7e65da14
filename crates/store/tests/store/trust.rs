//! Hashers and extractors that do not match their tags and names: their filters would lose nearly every key.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sstfilter::{BlockError, FalsePositiveRate, Filters, KeyExtractor, KeyHash, KeyHasher, KeyParts, Probe};
use sstfilter_range::{RangePolicy, RangeUnits};
use sstfilter_store::{FilterBudget, FilterMetadata, FilterProblem, FilterSource, FilterStore};

use crate::container::CUTS;
use crate::engine::{
    Disk, File, Key, all_candidates, assert_keeps_all, build, file, is_candidate, layouts, numbered, open, partitioned,
    tagged, view_of,
};

/// A hash with a tag, in one of its releases.
fn custom(release: u64) -> KeyHasher {
    let inner = KeyHasher::default();
    KeyHasher::custom(5, move |key| KeyHash::mix(inner.hash(key).get().wrapping_add(release)))
}

/// Extracts the bytes after the last colon, in one of its releases.
#[derive(Debug)]
struct Tail {
    release: u8,
}

impl KeyExtractor for Tail {
    fn name(&self) -> &'static str {
        "tail"
    }

    fn extract<'key>(&self, key: &'key [u8]) -> Option<Cow<'key, [u8]>> {
        let colon = key.iter().rposition(|&byte| byte == b':')?;
        Some([&[self.release][..], &key[colon..]].concat().into())
    }
}

/// Opens with `reader` what `writer` writes.
fn opened(writer: &FilterStore, reader: &FilterStore, keys: impl IntoIterator<Item = Key>) -> Arc<File> {
    let keys: BTreeSet<Key> = keys.into_iter().collect();
    let (bytes, metadata) = build(writer, &keys);
    let metadata = FilterMetadata::decode(&metadata.encode()).unwrap();
    Arc::new(open(reader, keys, (bytes, metadata)))
}

// promise: no-false-negatives
// misuse: changed-hash
#[test]
fn a_hash_that_changed_under_its_tag_ends_the_use_of_all_filters() {
    let kinds = layouts(&FilterStore::new(Filters::default().with_hasher(custom(2)))).len();
    for (number, level) in (0..kinds).flat_map(|number| [(number, 0), (number, 1)]) {
        let what = format!("store {number}, level {level}");
        let of =
            |release| layouts(&FilterStore::new(Filters::default().with_hasher(custom(release)))).swap_remove(number);
        let (writer, reader) = (of(1), of(2));
        let sound = file(&reader, numbered(0..3_000));
        let view = view_of(&reader, &[(level, &sound)]);
        let absent = [&7_u32.to_be_bytes()[..], b"+"].concat();
        let before = all_candidates(&view, &absent).len();
        // Built before the hash changed.
        let stale = opened(&writer, &reader, numbered(10_000..13_000));
        let after = view_of(&reader, &[(level, &sound), (level, &stale)]);
        assert_keeps_all(&after, &stale, &what);
        assert!(
            matches!(reader.problem(), Some(FilterProblem::ReaderChanged { .. })),
            "{what}: {:?}",
            reader.problem()
        );
        // Also filters of files that were opened before, and of clones.
        for view in [&view, &after] {
            assert_eq!(all_candidates(view, &absent).len(), 1, "{what}, and {before} before");
            assert_eq!(view.candidates_of_each(&[&absent]).next_files().len(), 1, "{what}");
        }
        assert_eq!((before, sound.filters.probe(&absent)), (0, Probe::Unusable), "{what}");
        assert!(sound.filters.problem().is_some() && reader.clone().problem().is_some());
        assert!(of(2).problem().is_none(), "a store that is opened again has found out nothing");
    }
}

// promise: documented-use
// misuse: changed-extractor
#[test]
fn an_extractor_that_changed_under_its_name_ends_the_use_of_all_filters() {
    let of = |release: u8, has_whole_keys: bool| {
        let parts =
            if has_whole_keys { KeyParts::whole_keys() } else { KeyParts::extracted(Arc::new(Tail { release })) };
        FilterStore::new(Filters::default().with_key_parts(parts.with_extractor(Arc::new(Tail { release }))))
    };
    // Neither the smallest nor the largest key has a part: the witness key has.
    let hidden: Vec<Key> = [vec![b"a".to_vec()], tagged("t", 0..50), vec![b"z".to_vec()]].concat();
    for keys in [tagged("t", 0..50), hidden] {
        for has_whole_keys in [true, false] {
            let (writer, reader) = (of(1, has_whole_keys), of(2, has_whole_keys));
            let sound = file(&reader, tagged("u", 0..50));
            let stale = opened(&writer, &reader, keys.clone());
            assert!(matches!(reader.problem(), Some(FilterProblem::ReaderChanged { .. })), "{:?}", reader.problem());
            let view = view_of(&reader, &[(0, &sound), (0, &stale)]);
            assert_keeps_all(&view, &stale, "stale");
            assert_keeps_all(&view, &sound, "sound");
            assert!(is_candidate(&view, b"u:00001+", &sound));
        }
    }
}

#[test]
fn an_extractor_that_no_known_key_confirms_is_not_probed_by() {
    let (of, keys) = (
        |release| {
            let parts = KeyParts::whole_keys().with_extractor(Arc::new(Tail { release }));
            FilterStore::new(Filters::default().with_key_parts(parts))
        },
        numbered(0..50),
    );
    let (writer, reader) = (of(1), of(2));
    let stale = opened(&writer, &reader, keys);
    let view = view_of(&reader, &[(0, &stale)]);
    assert!(reader.problem().is_none(), "there is no part to be wrong");
    assert_keeps_all(&view, &stale, "no parts");
    assert!(all_candidates(&view, &[&7_u32.to_be_bytes()[..], b"+"].concat()).is_empty(), "whole keys are probed for");
    // With only parts, there is nothing to probe for.
    let of =
        |release| FilterStore::new(Filters::default().with_key_parts(KeyParts::extracted(Arc::new(Tail { release }))));
    let stale = opened(&of(1), &of(2), numbered(0..50));
    let view = view_of(&of(2), &[(0, &stale)]);
    assert_keeps_all(&view, &stale, "no parts at all");
    assert_eq!(stale.filters.problem(), Some(FilterProblem::Block(BlockError::PartNotHeld)));
}

// misuse: changed-range-extractor
#[test]
fn a_range_filters_extractor_that_changed_under_its_name_ends_the_use_of_all_filters() {
    /// Extracts the first bytes, as many as its release says.
    #[derive(Debug)]
    struct First(usize);
    impl KeyExtractor for First {
        fn name(&self) -> &'static str {
            "first"
        }
        fn extract<'key>(&self, key: &'key [u8]) -> Option<Cow<'key, [u8]>> {
            key.get(..self.0).map(Cow::Borrowed)
        }
        fn extract_prefix<'key>(&self, prefix: &'key [u8]) -> Option<Cow<'key, [u8]>> {
            self.extract(prefix)
        }
    }
    let of = |bytes: usize| {
        let units = RangeUnits::integer(2).unwrap().with_prefix(Arc::new(First(bytes)));
        let rate = FalsePositiveRate::new(0.001).unwrap();
        FilterStore::default().with_range_filters(RangePolicy::hashed(units, 4, rate).unwrap())
    };
    for is_lazy in [false, true] {
        let (writer, mut reader) = (of(2), of(3));
        if is_lazy {
            reader = reader.with_budget(FilterBudget::unlimited());
        }
        let stale = opened(&writer, &reader, tagged("tenant", 0..300));
        let view = view_of(&reader, &[(0, &stale)]);
        for key in &stale.keys {
            assert_eq!(view.candidates_in_range(&key[..]..=&key[..]).count(), 1, "{key:?}");
            assert!(stale.filters.may_contain_range(&key[..]..=&key[..]));
        }
        assert!(stale.filters.range_problem().is_some(), "lazy: {is_lazy}");
        assert!(reader.problem().is_some());
    }
}

#[test]
fn a_change_is_found_before_any_partition_is_read_asynchronously() {
    for cut in CUTS {
        let of = |release| partitioned(&FilterStore::new(Filters::default().with_hasher(custom(release))), cut);
        for (writer, is_sound) in [(of(2), true), (of(1), false)] {
            let reader = of(2);
            let keys: BTreeSet<Key> = numbered(0..5_000).into_iter().collect();
            let (bytes, metadata) = build(&writer, &keys);
            let file = Arc::new(File::new(keys, Disk::new(bytes), reader.open_without_source(metadata)));
            let view = view_of(&reader, &[(0, &file)]);
            let key = 2_500_u32.to_be_bytes();
            let absent = [&key[..], b"+"].concat();
            let mut rounds = 0;
            loop {
                let reads = view.candidates(&absent).reads().pending;
                if reads.is_empty() {
                    break;
                }
                assert!(!all_candidates(&view, &key).is_empty(), "no partition is believed early");
                rounds += 1;
                for (owner, read) in reads {
                    assert!(Arc::ptr_eq(owner, &file));
                    let wanted = file.disk.bytes().read(read.range());
                    read.complete(wanted);
                }
            }
            assert!(if is_sound { (2..=3).contains(&rounds) } else { rounds == 0 }, "{rounds}");
            assert_eq!(all_candidates(&view, &absent).len(), usize::from(!is_sound), "{cut:?}");
            assert_eq!(reader.problem().is_none(), is_sound);
            assert_keeps_all(&view, &file, "read");
        }
    }
}

/// The description has the checks of the hash as it is when the filters are finished, and a reader that finds them
/// right probes every partition.
#[test]
fn a_hash_that_changes_while_a_file_is_written_loses_no_key() {
    let calls_before = 1_500;
    for writer in layouts(&FilterStore::default()) {
        let calls = Arc::new(AtomicU64::new(0));
        let changing = KeyHasher::custom(5, move |key| {
            custom(if calls.fetch_add(1, Ordering::Relaxed) < calls_before { 1 } else { 2 }).hash(key)
        });
        let with_hasher = |hasher| writer.clone().with_filters(writer.filters().clone().with_hasher(hasher));
        let (writer, reader) = (with_hasher(changing), with_hasher(custom(2)));
        let file = opened(&writer, &reader, numbered(0..3_000));
        assert_keeps_all(&view_of(&reader, &[(0, &file)]), &file, "half of its keys have other hashes");
    }
}

/// The mistake on the page of misuse, and the check that finds it.
// misuse: other-description
#[test]
fn a_description_of_another_file_hides_the_keys_outside_of_its_bounds() {
    let store = FilterStore::default();
    let (bytes, own) = build(&store, &numbered(0..1_000).into_iter().collect());
    let (_, other) = build(&store, &numbered(500..1_500).into_iter().collect());
    let key = |number: u32| number.to_be_bytes();
    assert_ne!(own.file_id(), other.file_id(), "the file's own id tells");
    let file = store.open(other, bytes);
    assert!(matches!(file.problem(), Some(FilterProblem::Block(BlockError::FileMismatch { .. }))));
    assert_eq!((file.probe(&key(7)), file.probe(&key(700))), (Probe::Absent, Probe::Unusable));
}
