//! Files of random keys, and maps of them.

use core::ops::Range;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;

use sstfilter::{FileId, Filters, KeyHash};
use sstfilter_map::{
    FileMap, LocalId, Lookups, MapAnswer, MapBuilder, MapIndex, MapMerge, MapOptions, MapPart, MapRead, MapReport,
};

pub(crate) fn mix(seed: u64) -> u64 {
    KeyHash::mix(seed).get()
}

pub(crate) fn hash(key: u64) -> KeyHash {
    KeyHash::from_well_mixed(mix(key ^ 0x5555 << 40))
}

pub(crate) fn file(number: u64) -> FileId {
    FileId::from_fingerprint(mix(number ^ 0xf11e << 44))
}

/// The id of the maps of a test: equal, so that their bytes can be.
pub(crate) fn map_id() -> FileId {
    file(u64::MAX >> 20)
}

/// Options with small pages.
pub(crate) fn options(prefix_bits: u8) -> MapOptions {
    MapOptions::with_prefix_bits(prefix_bits).unwrap().with_page_bytes(1 << 10).unwrap()
}

/// The keys of each file, by its number.
pub(crate) type Model = BTreeMap<u64, Vec<u64>>;

/// `files` files of `keys` keys each. One key in `shared` is from a small set, so that other files have it, too.
pub(crate) fn model(seed: u64, files: u64, keys: u64, shared: u64) -> Model {
    let key = |file: u64, number: u64| {
        let random = mix(mix(seed ^ file << 32) ^ number);
        if shared > 0 && random.is_multiple_of(shared) { random >> 32 & 31 } else { random | 1 << 60 }
    };
    (0..files).map(|file| (file, (0..keys).map(|number| key(file, number)).collect())).collect()
}

/// The files of a model whose numbers are in a part.
pub(crate) fn part_of(model: &Model, is_in: impl Fn(u64) -> bool) -> Model {
    model.iter().filter(|(number, _)| is_in(**number)).map(|(number, keys)| (*number, keys.clone())).collect()
}

pub(crate) fn build(model: &Model, options: MapOptions) -> (Vec<u8>, MapReport) {
    finish(builder(model, options))
}

pub(crate) fn finish(builder: MapBuilder) -> (Vec<u8>, MapReport) {
    finish_as(map_id(), builder)
}

pub(crate) fn finish_as(map: FileId, builder: MapBuilder) -> (Vec<u8>, MapReport) {
    let mut bytes = Vec::new();
    let report = builder.finish(map, &mut bytes).unwrap();
    assert_eq!(report.bytes, bytes.len() as u64);
    (bytes, report)
}

/// A map of files of `keys` keys, of which the first `hot` are in all of them.
pub(crate) fn map_of(files: Range<u64>, keys: u64, hot: u64, options: MapOptions) -> (Vec<u8>, MapReport) {
    let mut builder = MapBuilder::new(&Filters::default(), options);
    for number in files {
        let own = (hot..keys).map(|key| mix(number << 32 | key) | 1 << 63);
        builder.add_file(file(number), (0..hot).chain(own).map(hash).collect());
    }
    finish(builder)
}

pub(crate) fn builder(model: &Model, options: MapOptions) -> MapBuilder {
    let mut builder = MapBuilder::new(&Filters::default(), options);
    for (&number, keys) in model {
        builder.add_file(file(number), keys.iter().map(|&key| hash(key)).collect());
    }
    builder
}

pub(crate) fn load(bytes: &[u8]) -> FileMap<&[u8]> {
    let map = FileMap::load(bytes, &Filters::default(), map_id()).unwrap();
    assert_eq!(map.index().map_bytes(), bytes.len() as u64);
    map
}

/// Reads of a map in memory.
pub(crate) fn reads<'a>(bytes: &'a [u8]) -> impl Fn(Range<u64>) -> io::Result<Cow<'a, [u8]>> + Copy + Sync {
    |range| Ok(Cow::Borrowed(bytes.get(range.start as usize..range.end as usize).unwrap()))
}

/// The index of a map in memory, whichever its id and hash.
pub(crate) fn index_of(bytes: &[u8]) -> MapIndex {
    MapIndex::load_any(bytes, bytes.len() as u64).unwrap()
}

/// Adds a map in memory to a merge, with the files for which `keep` is true.
pub(crate) fn add<'a>(merge: &mut MapMerge<'a>, bytes: &'a [u8], keep: impl FnMut(FileId) -> bool) {
    merge.add_some(index_of(bytes), reads(bytes), keep).unwrap();
}

/// A merge of whole maps.
pub(crate) fn merging<'a>(parts: &[&'a [u8]], options: MapOptions) -> MapMerge<'a> {
    let mut merge = MapMerge::new(options);
    parts.iter().for_each(|part| add(&mut merge, part, |_| true));
    merge
}

pub(crate) fn merge(parts: &[&[u8]], options: MapOptions) -> (Vec<u8>, MapReport) {
    let mut bytes = Vec::new();
    let report = merging(parts, options).finish(map_id(), &mut bytes).unwrap();
    (bytes, report)
}

/// Checks that each file may have each of its keys. Returns the number of answers.
pub(crate) fn check_all(map: &FileMap<impl AsRef<[u8]>>, model: &Model) -> u64 {
    let mut answers = 0;
    for (&number, keys) in model {
        let id = map.index().local_id(file(number)).unwrap();
        for &key in keys {
            assert!(map.candidates(hash(key)).may_contain(id), "file {number} lost key {key:#x}");
            answers += 1;
        }
    }
    answers
}

/// The candidates of a hash; all files if they are unknown.
pub(crate) fn candidates(map: &FileMap<impl AsRef<[u8]>>, hash: KeyHash) -> Vec<usize> {
    ids(map.candidates(hash)).unwrap_or_else(|| (0..map.index().files().len()).collect())
}

/// The bytes that a read returns.
pub(crate) fn bytes_of<'a>(read: &MapRead, bytes: &'a [u8]) -> &'a [u8] {
    &bytes[read.range().start as usize..read.range().end as usize]
}

/// The answer of a part for a hash: the candidates, `None` for all files, or the read that the answer needs.
pub(crate) fn probe(
    index: &MapIndex,
    part: Option<&MapPart<impl AsRef<[u8]>>>,
    hash: KeyHash,
) -> Result<Option<Vec<usize>>, MapRead> {
    let mut lookups = Lookups::new(index, &[hash]);
    let (page, mut answer) = (lookups.reads()[0], None);
    lookups.answer(&page, part, |_, found| answer = Some(ids(found)));
    answer.ok_or_else(|| lookups.reads()[0])
}

/// The candidates, `None` for all.
pub(crate) fn ids(found: MapAnswer<'_>) -> Option<Vec<usize>> {
    match found {
        MapAnswer::Only(ids) => Some(ids.map(LocalId::index).collect()),
        MapAnswer::All => None,
    }
}

/// What a lookup in a map that is not in memory finds: the candidates, `None` for all files, and how often it read.
pub(crate) fn candidates_by_reads(index: &MapIndex, bytes: &[u8], hash: KeyHash) -> (Option<Vec<usize>>, u32) {
    let (mut lookups, mut answer, mut reads) = (Lookups::new(index, &[hash]), None, 0);
    while let Some(read) = lookups.reads().first() {
        reads += 1;
        assert!(reads <= 3, "a lookup reads a page, an outgrown page, a list, and no more");
        let part = index.open(read, bytes_of(read, bytes)).ok();
        lookups.answer(read, part.as_ref(), |_, found| answer = Some(ids(found)));
    }
    (answer.unwrap(), reads)
}
