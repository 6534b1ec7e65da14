//! When the engine's code panics, nothing is counted, nothing stays locked, and no key is lost later.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use sstfilter::{
    BlockBuilder, BuildContext, FallbackReason, FalsePositiveRate, FileId, FilterPolicy, Filters, FixedPolicy,
    KeyExtractor, KeyHasher, KeyParts,
};
use sstfilter_range::RangePolicy;
use sstfilter_store::{FileFilters, FilterBudget, FilterStore, FilterView, ViewEdit};

use crate::engine::{
    AddNewest, Disk, File, Key, Mode, all_candidates, assert_keeps_all, build, file, layouts, numbered, open, tagged,
    view_of, view_of_all,
};

/// Whether the engine's code panics now, and how often it was called.
#[derive(Debug, Default)]
struct Switch {
    is_on: AtomicBool,
    calls: AtomicU64,
    /// Calls up to the one that panics; 0 if none panics.
    left: AtomicU64,
}

impl Switch {
    fn pass(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let is_last = self.left.load(Ordering::Relaxed) > 0 && self.left.fetch_sub(1, Ordering::Relaxed) == 1;
        if is_last || self.is_on.load(Ordering::Relaxed) {
            resume_unwind(Box::new("the engine panics"));
        }
    }

    /// Passes this many calls; only the next call panics.
    fn panic_after(&self, calls: u64) {
        self.left.store(calls + 1, Ordering::Relaxed);
    }

    /// Ends the panics.
    fn end(&self) {
        self.left.store(0, Ordering::Relaxed);
    }

    /// Checks `call` while the engine's code panics.
    fn panics<T>(&self, call: impl FnOnce() -> T) {
        self.is_on.store(true, Ordering::Relaxed);
        let result = catch_unwind(AssertUnwindSafe(call));
        self.is_on.store(false, Ordering::Relaxed);
        assert!(result.is_err(), "the engine's code was not called");
    }
}

fn hasher(switch: &Arc<Switch>) -> KeyHasher {
    let (inner, switch) = (KeyHasher::default(), switch.clone());
    KeyHasher::custom(3, move |key| {
        switch.pass();
        inner.hash(key)
    })
}

#[derive(Debug)]
struct Prefix(Arc<Switch>);

impl KeyExtractor for Prefix {
    fn name(&self) -> &'static str {
        "prefix"
    }

    fn extract<'key>(&self, key: &'key [u8]) -> Option<Cow<'key, [u8]>> {
        self.0.pass();
        key.get(..2).map(Cow::Borrowed)
    }

    fn extract_prefix<'key>(&self, prefix: &'key [u8]) -> Option<Cow<'key, [u8]>> {
        self.extract(prefix)
    }
}

#[test]
fn a_hasher_or_extractor_that_panics_in_a_lookup_or_scan_counts_nothing_and_loses_nothing() {
    let switch = Arc::new(Switch::default());
    let hashing = Filters::default().with_hasher(hasher(&switch));
    let extracting = Filters::default().with_key_parts(KeyParts::extracted(Arc::new(Prefix(switch.clone()))));
    for (filters, has_parts) in [(hashing, false), (extracting, true)] {
        for store in layouts(&FilterStore::new(filters.clone())) {
            let file = file(&store, tagged("t", 0..3_000));
            for level in [0, 1] {
                let view = view_of(&store, &[(level, &file)]);
                let before = view.level_stats(level);
                switch.panics(|| view.candidates(b"t:00008").next_file().is_some());
                switch.panics(|| view.candidates_of_each(&[b"t:00008", b"t:00009"]).next_files().len());
                switch.panics(|| file.filters.probe(b"t:00008"));
                if has_parts {
                    switch.panics(|| view.candidates_by_prefix(b"t:0000").count());
                }
                assert_eq!(view.level_stats(level), before);
                assert_keeps_all(&view, &file, "after panics");
                assert_eq!(view.candidates_by_prefix(b"t:0000").count(), 1);
            }
            if let Some(budget) = store.budget() {
                drop(file);
                assert_eq!((budget.stats().used_bytes, budget.stats().partitions), (0, 0));
            }
        }
    }
}

#[test]
fn a_hasher_or_extractor_that_panics_while_a_file_is_opened_leaves_nothing_behind() {
    let (hashing, extracting) = (Arc::new(Switch::default()), Arc::new(Switch::default()));
    let parts = KeyParts::whole_keys().with_extractor(Arc::new(Prefix(extracting.clone())));
    for store in layouts(&FilterStore::new(Filters::default().with_hasher(hasher(&hashing)).with_key_parts(parts))) {
        let keys: BTreeSet<Key> = tagged("t", 0..2_000).into_iter().collect();
        let (bytes, metadata) = build(&store, &keys);
        let disk = Disk::new(bytes);
        extracting.panics(|| store.open(metadata.clone(), disk.clone()));
        let is_read_at_open = store.budget().is_none() || metadata.sections()[0].index_bytes > 0;
        if is_read_at_open {
            hashing.panics(|| store.open(metadata.clone(), disk.clone()));
            disk.set(Mode::Panics);
            let opened = catch_unwind(AssertUnwindSafe(|| store.open(metadata.clone(), disk.clone())));
            assert!(opened.is_err());
            disk.set(Mode::Sound);
        }
        if let Some(budget) = store.budget() {
            assert_eq!((budget.stats().used_bytes, budget.stats().partitions), (0, 0), "no file is open");
        }
        let filters = store.open(metadata, disk.clone());
        let file = Arc::new(File::new(keys, disk, filters));
        assert_keeps_all(&view_of(&store, &[(0, &file)]), &file, "later");
    }
}

#[test]
fn a_source_that_panics_is_passed_on_and_its_filter_is_tried_again_later() {
    for store in layouts(&FilterStore::default()) {
        let Some(budget) = store.budget().cloned() else { continue };
        let file = file(&store, numbered(0..3_000));
        let other = crate::engine::file(&store, numbered((0..3_000).step_by(3)));
        let view = view_of(&store, &[(0, &file), (0, &other)]);
        file.disk.set(Mode::Panics);
        let key = 1_500_u32.to_be_bytes();
        let lookup = || all_candidates(&view, &key).len();
        assert!(catch_unwind(AssertUnwindSafe(lookup)).is_err());
        assert_eq!(budget.stats().used_bytes, other.filters.residency().bytes, "the memory came back");
        assert!(file.filters.problem().is_some(), "it says why");
        file.disk.set(Mode::Sound);
        for _ in 0..200 {
            assert_keeps_all(&view_of(&store, &[(1, &file)]), &file, "later");
            if file.filters.problem().is_none() {
                break;
            }
        }
        let absent = [&key[..], b"+"].concat();
        assert!(all_candidates(&view, &absent).is_empty(), "it was loaded at last");
    }
}

/// It would pass over the files that it was about to judge, as if they had not the key.
#[test]
fn a_lookup_that_was_interrupted_goes_no_further() {
    fn goes_no_further<T>(disk: &Disk, mut step: impl FnMut() -> Option<T>) {
        disk.set(Mode::Panics);
        let panics = |step: &mut dyn FnMut() -> Option<T>| catch_unwind(AssertUnwindSafe(|| while step().is_some() {}));
        assert!(panics(&mut step).is_err(), "the engine's code was not called");
        disk.set(Mode::Sound);
        let again = panics(&mut step).expect_err("it went on");
        assert!(again.downcast::<&str>().is_ok_and(|message| message.contains("begin another")));
    }
    let rate = FalsePositiveRate::new(0.01).unwrap();
    let store = FilterStore::default().with_range_filters(RangePolicy::ordered(rate).unwrap());
    let store = store.with_budget(FilterBudget::unlimited());
    let key = 50_u32.to_be_bytes();
    // Of its own for each lookup: a filter is not read again at once.
    let new = || {
        let files: Vec<_> = (0..5).map(|_| file(&store, numbered(0..100))).collect();
        (view_of_all(&store, &files), files)
    };
    let (view, files) = new();
    let mut lookup = view.candidates(&key);
    goes_no_further(&files[2].disk, || lookup.next_file());
    let (view, files) = new();
    let keys = [&key[..]; 2];
    let mut batch = view.candidates_of_each(&keys);
    goes_no_further(&files[2].disk, || batch.next_files().first().map(|_| ()));
    let (view, files) = new();
    let [middle, end] = [&b"+"[..], b"++"].map(|end| [&key[..], end].concat());
    let mut scan = view.candidates_in_range(&middle[..]..=&end[..]);
    goes_no_further(&files[2].disk, || scan.next());
}

/// A file of the engine that panics in `as_ref`.
struct Moody {
    filters: FileFilters,
    switch: Arc<Switch>,
}

impl AsRef<FileFilters> for Moody {
    fn as_ref(&self) -> &FileFilters {
        self.switch.pass();
        &self.filters
    }
}

#[test]
fn a_file_that_panics_in_an_edit_leaves_the_view_as_it_was() {
    let (store, switch) = (FilterStore::default(), Arc::new(Switch::default()));
    let moody = |keys: Vec<Key>| {
        let (bytes, metadata) = build(&store, &keys.into_iter().collect());
        Arc::new(Moody { filters: store.open(metadata, bytes), switch: switch.clone() })
    };
    let files: Vec<_> = (0..100).map(|number| moody(numbered(number * 10..number * 10 + 10))).collect();
    let view = files.iter().fold(ViewEdit::new(), |edit, file| edit.add(1, file.clone()));
    let view = FilterView::new(&store).edited(view).unwrap();
    let stats = view.level_stats(1);
    // Panics at each call of an edit in turn.
    let edit = || {
        ViewEdit::new().remove(1, &files[7]).add_newest(0, files[7].clone()).replace(
            1,
            &files[9],
            moody(numbered(92..95)),
        )
    };
    let before = switch.calls.load(Ordering::Relaxed);
    view.edited(edit()).unwrap();
    assert!(switch.calls.load(Ordering::Relaxed) > before);
    switch.panics(|| view.edited(edit()));
    assert_eq!(view.level_stats(1), stats);
    assert!(view.files(1).count() == 100 && view.files(0).next().is_none());
    let after = view.edited(edit()).unwrap();
    assert_eq!((after.files(1).count(), after.files(0).count()), (99, 1));
    // Lookups do not call `as_ref`.
    switch.is_on.store(true, Ordering::Relaxed);
    assert!(after.candidates(&75_u32.to_be_bytes()).next_file().is_some());
    switch.is_on.store(false, Ordering::Relaxed);
}

#[test]
fn a_builder_whose_engine_panicked_builds_no_filter_and_keeps_the_bounds() {
    let switch = Arc::new(Switch::default());
    let parts = KeyParts::whole_keys().with_extractor(Arc::new(Prefix(switch.clone())));
    for store in layouts(&FilterStore::new(Filters::default().with_key_parts(parts))) {
        let mut builder = store.builder(FileId::random());
        builder.add_key(b"a:1");
        switch.panics(|| builder.add_key(b"b:1"));
        builder.add_key(b"c:1");
        let built = builder.finish();
        assert_eq!(built.point_report.as_ref().map(|report| report.reason), Some(FallbackReason::Panicked));
        let (bytes, metadata) = built.seal();
        assert!(bytes.is_empty() && metadata.sections().is_empty());
        assert_eq!(metadata.key_bounds(), Some((&b"a:1"[..], &b"c:1"[..])));
        let keys = [b"a:1", b"b:1", b"c:1"].map(|key| key.to_vec()).into();
        let file = Arc::new(open(&store, keys, (bytes, metadata)));
        assert_keeps_all(&view_of(&store, &[(0, &file)]), &file, "later");
    }
}

#[test]
fn a_builder_whose_engine_panics_while_it_finishes_builds_no_filter() {
    let switch = Arc::new(Switch::default());
    let parts = KeyParts::whole_keys().with_extractor(Arc::new(Prefix(switch.clone())));
    // Panics in the first call of the engine's code, then in the second, and so on.
    for store in layouts(&FilterStore::new(Filters::default().with_hasher(hasher(&switch)).with_key_parts(parts))) {
        let mut reasons = Vec::new();
        for before in 0..32 {
            let mut builder = store.builder(FileId::random());
            tagged("t", 0..2_000).iter().for_each(|key| builder.add_key(key));
            switch.panic_after(before);
            let built = builder.finish();
            switch.end();
            let reason = built.point_report.as_ref().unwrap().reason;
            let (bytes, metadata) = built.seal();
            assert_eq!(metadata.sections().is_empty(), reason == FallbackReason::Panicked, "{before}");
            let file = Arc::new(open(&store, tagged("t", 0..2_000).into_iter().collect(), (bytes, metadata)));
            assert_keeps_all(&view_of(&store, &[(0, &file)]), &file, "later");
            reasons.push(reason);
        }
        assert_eq!(reasons[0], FallbackReason::Panicked);
        assert_ne!(reasons[31], FallbackReason::Panicked, "there are fewer calls");
    }
}

/// Panics when it is called for the first time.
#[derive(Debug, Default)]
struct PanicsOnce(AtomicBool);

impl FilterPolicy for PanicsOnce {
    fn name(&self) -> &'static str {
        "panics-once"
    }

    fn builder(&self, context: &BuildContext) -> Option<Box<dyn BlockBuilder>> {
        assert!(self.0.swap(true, Ordering::Relaxed), "as planned");
        Some(FixedPolicy::default().builder(context))
    }
}

/// The policy is called with the first key or range tombstone, which then neither the filters nor the bounds contain.
#[test]
fn a_policy_that_panics_with_the_first_key_hides_nothing() {
    for is_tombstone in [false, true] {
        let store = FilterStore::new(Filters::new(PanicsOnce::default()));
        let mut builder = store.builder(FileId::random());
        let first = AssertUnwindSafe(|| {
            if is_tombstone { builder.add_range_tombstone(b"a", b"c") } else { builder.add_key(b"a") }
        });
        assert!(catch_unwind(first).is_err());
        tagged("t", 0..9).iter().for_each(|key| builder.add_key(key));
        let (bytes, metadata) = builder.finish().seal();
        let file = Arc::new(store.open(metadata, bytes));
        let view = FilterView::new(&store).edited(ViewEdit::new().add_newest(0, file)).unwrap();
        assert!(view.candidates(b"a").next_file().is_some() && view.candidates(b"b").next_file().is_some());
    }
}
