//! The maps in `fixtures/v1`, rebuilt byte for byte and read back. `maps.json` has their keys, and candidates of some.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use sstfilter::{FileId, Filters, KeyHash, KeyHasher};
use sstfilter_map::{FileMap, MapBuilder, MapMerge, MapOptions, WriteId, Writes};

use crate::stored::{check_file, digest, is_regenerating};
use crate::support::{add, candidates_by_reads, finish_as, ids};

/// A map, and how it is built. File `i` has the fingerprint of the id `[i]`, keys `i * 1_000` to
/// `i * 1_000 + keys - 1`, and the first `shared` keys of file 0.
struct MapCase {
    name: &'static str,
    files: u8,
    keys: u64,
    shared: u64,
    prefix_bits: u8,
    max_page_bits: u8,
    spread: u32,
    seed: Option<u64>,
    /// The files are flushes: file `i` covers the writes 10 i to 10 i + 9 of epoch 1, and those of the first so many
    /// files are one interval.
    coalesced: Option<u8>,
    /// The map is merged from one of all even files, whose first page is damaged, and one of the others.
    is_first_page_lost: bool,
}

const PLAIN: MapCase = MapCase {
    name: "",
    files: 20,
    keys: 60,
    shared: 0,
    prefix_bits: 20,
    max_page_bits: 10,
    spread: 1,
    seed: None,
    coalesced: None,
    is_first_page_lost: false,
};

const CASES: [MapCase; 12] = [
    MapCase { name: "no-keys", files: 3, keys: 0, prefix_bits: 8, ..PLAIN },
    MapCase { name: "one-key", files: 1, keys: 1, prefix_bits: 48, max_page_bits: 16, ..PLAIN },
    MapCase { name: "eight-bits", files: 5, keys: 300, prefix_bits: 8, ..PLAIN },
    MapCase { name: "20-files", ..PLAIN },
    MapCase { name: "20-files-one-page", max_page_bits: 16, ..PLAIN },
    MapCase { name: "20-files-seed-7", seed: Some(7), ..PLAIN },
    MapCase { name: "20-files-unknown-page", is_first_page_lost: true, ..PLAIN },
    MapCase { name: "40-files-lists", files: 40, keys: 25, shared: 12, ..PLAIN },
    MapCase { name: "20-files-outgrown-pages", shared: 100, prefix_bits: 26, ..PLAIN },
    MapCase { name: "20-files-overfull-lines", shared: 100, prefix_bits: 26, spread: 20, ..PLAIN },
    MapCase { name: "20-flushes", shared: 10, coalesced: Some(0), ..PLAIN },
    MapCase { name: "20-flushes-coalesced", shared: 10, coalesced: Some(12), ..PLAIN },
];

const RECIPE: &str = r#"  "keys": "key number i is the ASCII bytes of 'key-' and i in 6 decimal digits; file number i has the fingerprint of the id of one byte, i, and keys i * 1000 to i * 1000 + keys - 1, and the first `shared` keys of file 0",
  "coalesced": "null, or the files are flushes: file number i has the writes from (1 << 40) + 10 i to (1 << 40) + 10 i + 9, and those of the first `coalesced` files are one interval",
  "first_page_lost": "the map was merged from one of all files with even numbers, whose first page was damaged, and one of the others",
  "candidates": "numbers of the files, or positions of the intervals, that may have each of the first 24 keys, and of the keys 'absent-' and 0 to 7 in 6 decimal digits; null for all",
"#;

fn folder() -> PathBuf {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("fixtures/v1"));
    folders.find(|folder| folder.is_dir()).unwrap()
}

fn id_of_file(number: u8) -> FileId {
    FileId::new(&[number]).unwrap()
}

fn writes_of_file(number: u8) -> Writes {
    let [first, last] = [0, 9].map(|add| WriteId::new(1, u64::from(number) * 10 + add).unwrap());
    Writes::new(first, last).unwrap()
}

fn map_id() -> FileId {
    FileId::from_fingerprint(7)
}

impl MapCase {
    fn path(&self) -> PathBuf {
        folder().join(self.file())
    }

    fn file(&self) -> String {
        format!("map-{}.map", self.name)
    }

    fn filters(&self) -> Filters {
        Filters::default().with_hasher(self.seed.map_or_else(KeyHasher::default, KeyHasher::with_seed))
    }

    fn hash(&self, key: &str, number: u64) -> KeyHash {
        self.filters().hash(format!("{key}-{number:06}").as_bytes())
    }

    fn keys(&self, file: u8) -> impl Iterator<Item = u64> {
        let first = u64::from(file) * 1_000;
        (first..first + self.keys).chain(0..self.shared)
    }

    fn options(&self) -> MapOptions {
        let options = MapOptions::with_prefix_bits(self.prefix_bits).unwrap().with_files_per_key(self.spread);
        options.with_page_bytes(1 << self.max_page_bits).unwrap()
    }

    fn builder_of(&self, is_in: impl Fn(u8) -> bool) -> MapBuilder {
        let mut builder = MapBuilder::new(&self.filters(), self.options());
        for file in (0..self.files).filter(|&file| is_in(file)) {
            let hashes = self.keys(file).map(|key| self.hash("key", key)).collect();
            match self.coalesced {
                None => builder.add_file(id_of_file(file), hashes),
                Some(_) => builder.add_writes(writes_of_file(file), hashes),
            }
        }
        builder
    }

    fn build_some(&self, is_in: impl Fn(u8) -> bool) -> Vec<u8> {
        finish_as(map_id(), self.builder_of(is_in)).0
    }

    fn build(&self) -> Vec<u8> {
        let coalesced = self.coalesced.filter(|coalesced| *coalesced > 0);
        if !self.is_first_page_lost && coalesced.is_none() {
            return self.build_some(|_| true);
        }
        let [mut even, odd] = [0, 1].map(|rest| self.build_some(|file| file % 2 == rest));
        even[0] ^= u8::from(self.is_first_page_lost);
        let floor = coalesced.map_or(WriteId::MIN, |coalesced| writes_of_file(coalesced).first());
        let mut merge = MapMerge::new(self.options()).with_floor(floor);
        add(&mut merge, &even, |_| true);
        add(&mut merge, &odd, |_| true);
        let mut bytes = Vec::new();
        assert_eq!(merge.finish(map_id(), &mut bytes).unwrap().unknown_pages > 0, self.is_first_page_lost);
        bytes
    }

    /// The candidates of a key, by the numbers of their files. All kinds of lookups must agree.
    fn candidates(&self, map: &FileMap<&[u8]>, hash: KeyHash) -> Option<Vec<u8>> {
        let numbers: BTreeMap<u64, u8> = (0..self.files).map(|file| (id_of_file(file).fingerprint(), file)).collect();
        let found = ids(map.candidates(hash));
        assert_eq!(candidates_by_reads(map.index(), map.as_bytes(), hash).0, found, "{}", self.name);
        let mut in_batch = Some(Vec::new());
        map.candidates_each(&[hash], |_, candidates| in_batch = ids(candidates));
        assert_eq!(in_batch, found, "{}", self.name);
        found.map(|ids| {
            let number = |id: &usize| match map.index().files() {
                [] => *id as u8,
                files => numbers[&files[*id].file.fingerprint()],
            };
            let mut own: Vec<u8> = ids.iter().map(number).collect();
            own.sort_unstable();
            own
        })
    }

    /// The case in `maps.json`.
    fn entry(&self, bytes: &[u8]) -> String {
        let map = FileMap::load(bytes, &self.filters(), map_id()).unwrap();
        let keys = (0..24).map(|key| self.hash("key", key)).chain((0..8).map(|key| self.hash("absent", key)));
        let found: Vec<String> = keys
            .map(|hash| self.candidates(&map, hash).map_or("null".to_owned(), |files| format!("{files:?}")))
            .collect();
        let Self { files, keys, shared, prefix_bits, max_page_bits, spread, is_first_page_lost, .. } = self;
        let coalesced = self.coalesced.map_or("null".to_owned(), |files| files.to_string());
        format!(
            "    {{\"file\": \"{}\", \"files\": {files}, \"keys\": {keys}, \"shared\": {shared}, \
             \"prefix_bits\": {prefix_bits}, \"max_page_bits\": {max_page_bits}, \"spread\": {spread},\n     \
             \"xxh3_seed\": \"{:#018x}\", \"map\": \"{:#018x}\", \"coalesced\": {coalesced}, \"first_page_lost\": {is_first_page_lost}, {},\n     \
             \"candidates\": [{}]}}",
            self.file(),
            self.filters().hasher().identity().seed,
            map_id().fingerprint(),
            digest(bytes),
            found.join(", ")
        )
    }
}

// promise: same-bytes
#[test]
fn every_map_is_built_as_it_was_byte_for_byte() {
    let entries: Vec<String> = CASES
        .iter()
        .map(|case| {
            let built = case.build();
            check_file(&case.path(), &built);
            case.entry(&built)
        })
        .collect();
    let text = format!("{{\n  \"format_version\": 1,\n{RECIPE}  \"maps\": [\n{}\n  ]\n}}\n", entries.join(",\n"));
    check_file(&folder().join("maps.json"), text.as_bytes());
}

// promise: stays-readable
#[test]
fn every_key_of_a_stored_map_is_found() {
    if is_regenerating() {
        return;
    }
    for case in CASES {
        let bytes = fs::read(case.path()).unwrap();
        let map = FileMap::load(bytes.as_slice(), &case.filters(), map_id()).unwrap();
        assert_eq!(map.problems().next(), None, "{}", case.name);
        for file in 0..case.files {
            for key in case.keys(file) {
                let found = case.candidates(&map, case.hash("key", key));
                let id = case.coalesced.map_or(file, |coalesced| (file + 1).saturating_sub(coalesced.max(1)));
                assert!(found.is_none_or(|files| files.contains(&id)), "{}: file {file} lost {key}", case.name);
            }
        }
    }
}

#[test]
fn the_stored_maps_show_lists_outgrown_unknown_and_overfull_pages() {
    // The state of a page, its run ends and its lists, from its trailer.
    let mut shown = [false; 4];
    for case in CASES {
        let bytes = case.build();
        let map = FileMap::load(bytes.as_slice(), &case.filters(), map_id()).unwrap();
        for page in 0..map.index().pages() {
            let trailer = &bytes[map.index().page_range(page).end as usize - 32..];
            shown[0] |= trailer[17] == 1;
            shown[1] |= trailer[17] == 2;
            shown[2] |= trailer[4] > 0;
            shown[3] |= trailer[8] > 0;
        }
    }
    assert_eq!(shown, [true; 4]);
}
