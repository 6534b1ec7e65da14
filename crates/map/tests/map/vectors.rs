//! The vectors of `fixtures/vectors/maps.json`, which an independent program recomputes.

use sstfilter::{FileId, Filters, KeyHash, KeyHasher};
use sstfilter_map::{FileMap, MapAnswer, MapBuilder, MapOptions, WriteId, Writes};

use crate::json::{Value, vectors};
use crate::support::finish_as;

fn keys(vector: &Value, file: &Value) -> Vec<Vec<u8>> {
    let own = file.number("first")..file.number("first") + file.number("count");
    own.chain(0..vector.number("shared")).map(|number| format!("key-{number:06}").into_bytes()).collect()
}

#[test]
fn maps_have_the_bytes_of_the_vectors() {
    let (own, filters) = (vectors("maps"), Filters::default());
    for vector in own.rows("maps") {
        let options = MapOptions::with_prefix_bits(vector.number("prefix_bits") as u8)
            .unwrap()
            .with_page_bytes(1 << vector.number("max_page_bits"))
            .unwrap()
            .with_files_per_key(vector.number("spread") as u32);
        let mut builder = MapBuilder::new(&filters, options);
        for file in vector.rows("files") {
            let hashes = keys(vector, file).iter().map(|key| KeyHasher::default().hash(key)).collect();
            if file.get("fingerprint").is_some() {
                builder.add_file(FileId::from_fingerprint(file.hex("fingerprint")), hashes);
            } else {
                let [first, last] = ["first_write", "last_write"].map(|name| WriteId::from_stored(file.hex(name)));
                builder.add_writes(Writes::new(first, last).unwrap(), hashes);
            }
        }
        let map = FileId::from_fingerprint(vector.hex("map"));
        let (bytes, _) = finish_as(map, builder);
        assert_eq!(bytes.len() as u64, vector.number("bytes"), "{vector}");
        assert_eq!(u64::from(crc32c::crc32c(&bytes)), vector.hex("crc32c"), "{vector}");
        let loaded = FileMap::load(&bytes[..], &filters, map).unwrap();
        let found = |number: u32| match loaded.candidates(filters.hash(format!("absent-{number:06}").as_bytes())) {
            MapAnswer::Only(ids) => ids.count() as u64,
            MapAnswer::All => panic!("no page is unknown"),
        };
        assert_eq!((0..1_000).map(found).sum::<u64>(), vector.number("false_candidates"));
    }
}

#[test]
fn a_map_with_an_overflowed_line_has_the_bytes_of_the_vector() {
    let (own, filters) = (vectors("maps"), Filters::default());
    for vector in own.rows("overflowed") {
        let [files, keys, side_by_side] = ["files", "keys", "side_by_side"].map(|name| vector.number(name));
        let options = MapOptions::with_prefix_bits(vector.number("prefix_bits") as u8).unwrap();
        let options = options.with_page_bytes(1 << vector.number("max_page_bits")).unwrap();
        let hashes = |file: u64| -> Vec<_> {
            let chosen = |prefix| KeyHash::from_well_mixed(prefix << (64 - vector.number("prefix_bits")));
            let honest = |number| filters.hash(format!("key-{number:06}").as_bytes());
            let first = file * keys;
            (first..first + side_by_side).map(chosen).chain((first..first + keys).map(honest)).collect()
        };
        let mut builder = MapBuilder::new(&filters, options);
        (1..=files).for_each(|file| builder.add_file(FileId::from_fingerprint(file), hashes(file)));
        let (bytes, report) = finish_as(FileId::from_fingerprint(vector.hex("map")), builder);
        assert!(report.overflowed_lines > 0);
        let loaded = FileMap::load_any(&bytes[..]).unwrap();
        let is_unknown = |hash: &KeyHash| matches!(loaded.candidates(*hash), MapAnswer::All);
        let absent = (0..1_000).map(|number| filters.hash(format!("absent-{number:06}").as_bytes()));
        let unknown =
            [hashes(1).iter().step_by(100).filter(|hash| is_unknown(hash)).count(), absent.filter(is_unknown).count()];
        let found = [bytes.len() as u64, crc32c::crc32c(&bytes).into(), unknown[0] as u64, unknown[1] as u64];
        let expected = ["bytes", "unknown_of_file_1", "unknown_absent"].map(|name| vector.number(name));
        assert_eq!(found, [expected[0], vector.hex("crc32c"), expected[1], expected[2]], "{:08x}", found[1]);
    }
}
