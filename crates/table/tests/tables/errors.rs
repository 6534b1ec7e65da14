//! Error messages. The failure guarded against: a message without the expected and the found value.

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::{
    BitsPerKey, BlockError, BuildContext, CountingBloom, CuckooFilter, DynamicFilter, FalsePositiveRate, FileId,
    FilterBlock, FilterError, FixedPolicy, FixedPrefix, HashIdentity, KeyHash, KeyHasher, LoadContext,
    RegisterBlockedBloom, Sizing, StandardBloom,
    simd::{self, InstructionSet},
};
use sstfilter_table::{Table, TableBuilder, TableError, TableOptions, TablePart};

fn rate(rate: f64) -> FalsePositiveRate {
    FalsePositiveRate::new(rate).unwrap()
}

/// Asserts that a message states what was expected, and contains all `parts`.
fn assert_says(error: impl Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts.iter().chain(&["expected", "got"]) {
        assert!(text.contains(part), "no {part:?} in {text:?}");
    }
    assert!(!text.ends_with('.') && text.len() < 400, "{text}");
    assert!(!format!("{error:?}").is_empty());
}

#[test]
fn refused_options_name_the_option_its_range_and_the_value() {
    for bits in [f64::NAN, 0.0, -1.0, 0.99, 101.0, f64::INFINITY] {
        assert_says(BitsPerKey::new(bits).unwrap_err(), &["bits per key", "1 to 100", &bits.to_string()]);
    }
    for refused in [f64::NAN, 0.0, 1.0, -0.1, 2.0] {
        let error = FalsePositiveRate::new(refused).unwrap_err();
        assert_says(error, &["false positive rate", "between 0 and 1", &refused.to_string()]);
    }
    assert_says(FixedPolicy::ribbon(rate(1e-12)).unwrap_err(), &["ribbon", "2.3283064365386963e-10", "0.5", "1e-12"]);
    assert_says(FixedPolicy::bloom(rate(1.4e-9)).unwrap_err(), &["bloom", "1.409", "1.4e-9"]);
    assert!(FixedPolicy::bloom(rate(1.41e-9)).is_ok(), "the message says so");
    assert_says(
        StandardBloom::for_rate(HashIdentity::default(), 1_000, rate(1e-30)).unwrap_err(),
        &["standard-bloom", "1e-30"],
    );
    assert_says(
        CuckooFilter::for_rate(HashIdentity::default(), 1_000, rate(1e-12)).unwrap_err(),
        &["cuckoo", "e-9", "1e-12"],
    );
    assert_says(
        FixedPolicy::binary_fuse(rate(1e-12)).unwrap_err(),
        &["binary-fuse", "2.3283064365386963e-10", "1e-12"],
    );
    assert_says(FixedPolicy::binary_fuse(Sizing::FingerprintBits(3)).unwrap_err(), &["3"]);
    assert_says(FixedPolicy::xor(rate(1e-9)).unwrap_err(), &["xor", "1.52587890625e-5", "1e-9"]);
    assert_says(
        CuckooFilter::with_tag_bits(HashIdentity::default(), 1_000, 33).unwrap_err(),
        &["tag bits", "4 to 32", "33"],
    );
    assert_says(
        RegisterBlockedBloom::with_shape(HashIdentity::default(), 7, 2).unwrap_err(),
        &["register-blocked", "7"],
    );
    assert_says(TableOptions::default().with_block_bytes(1).unwrap_err(), &["block bytes", "64 to 16777216", "1"]);
    assert_says(TableOptions::default().with_restart_interval(0).unwrap_err(), &["restart interval", "0"]);
    // No CPU has both.
    let missing = [InstructionSet::Neon, InstructionSet::Avx2].into_iter().find(|set| !set.is_available()).unwrap();
    let available = InstructionSet::fastest().name();
    assert_says(simd::select(missing).unwrap_err(), &["instruction set", available, missing.name()]);
}

fn block() -> Vec<u8> {
    let policy = FixedPolicy::bloom(BitsPerKey::TEN).unwrap();
    let mut builder = policy.builder(&BuildContext::new(&KeyHasher::default()));
    builder.add_key(b"key");
    builder.finish().block.unwrap().to_vec()
}

/// Returns the error of opening a block with other bytes at an offset from its end, under a valid checksum.
fn resealed(from_end: usize, bytes: &[u8]) -> BlockError {
    let mut block = block();
    let at = block.len() - from_end;
    block[at..at + bytes.len()].copy_from_slice(bytes);
    let (start, end) = (block.len() - 36, block.len() - 4);
    let sum = crc32c::crc32c(&block[start..end]);
    block[end..].copy_from_slice(&sum.to_le_bytes());
    FilterBlock::open_unverified(block).unwrap_err()
}

// promise: stays-readable
#[test]
fn refused_blocks_say_what_stands_there_instead() {
    let sound = block();
    let opened = |bytes: &[u8]| FilterBlock::open_unverified(bytes.to_vec()).unwrap_err();
    assert_says(opened(&sound[..20]), &["32", "20"]);
    assert_says(opened(&[0; 100]), &["0x4653", "0x0000"]);
    assert_says(opened(&[&[0], &sound[..]].concat()), &[&sound.len().to_string(), &(sound.len() + 1).to_string()]);
    let mut flipped = sound.clone();
    let last = flipped.len() - 1;
    flipped[last] ^= 1;
    assert_says(opened(&flipped), &["checksum"]);
    flipped.clone_from(&sound);
    flipped[0] ^= 1;
    assert_says(FilterBlock::open_unverified(flipped).unwrap().verify().unwrap_err(), &["checksum"]);
    assert_says(resealed(7, &[9]), &["version", "9"]);
    assert_says(resealed(11, &[200]), &["kind", "200"]);
    assert_says(resealed(9, &[0x90]), &["9"]);
    assert_says(resealed(9, &[0x1f]), &["15"]);
    assert_says(resealed(8, &[0x11]), &["salt", "1"]);
    assert_says(resealed(7, &[0x81]), &["flags", "8"]);
}

#[test]
fn filters_that_are_not_taken_up_say_why() {
    let hasher = KeyHasher::default();
    let wrong_kind = CountingBloom::from_block(&block(), hasher.identity()).unwrap_err();
    assert_says(&wrong_kind, &["counting", "bloom"]);
    assert!(wrong_kind.source().is_some());
    let filter = StandardBloom::for_rate(HashIdentity::default(), 100, rate(0.01)).unwrap();
    let stored = filter.to_block().unwrap();
    let error = StandardBloom::from_block(&stored, KeyHasher::with_seed(7).identity()).unwrap_err();
    assert_says(error, &["another hash", "0x0000000000000007"]);
    let mut other = StandardBloom::for_rate(HashIdentity::default(), 200, rate(0.01)).unwrap();
    assert_says(other.union(&filter).unwrap_err(), &["same size", "1984 bits, 7 for each key", "1024 bits"]);
    let foreign = StandardBloom::for_rate(KeyHasher::with_seed(7).identity(), 100, rate(0.01)).unwrap();
    assert_says(other.union(&foreign).unwrap_err(), &["same hash", "0x7373", "0x0000000000000007"]);
    let mut cuckoo = CuckooFilter::for_rate(HashIdentity::default(), 2, rate(0.01)).unwrap();
    assert_says(cuckoo.remove(KeyHash::mix(1)).unwrap_err(), &["to remove", "absent"]);
    let full = (0..1_000).find_map(|key| cuckoo.insert(KeyHash::mix(key)).err()).unwrap();
    assert!(matches!(full, FilterError::Full { .. }) && full.to_string().contains("build a larger one"), "{full}");
    let config = FilterError::from(BitsPerKey::new(0.0).unwrap_err());
    assert_says(&config, &["bits per key"]);
    assert_says(StandardBloom::with_shape(HashIdentity::default(), u64::MAX, 7).unwrap_err(), &[]);
}

#[test]
fn refused_tables_say_where_and_what() {
    let options = TableOptions::default().with_extractor(Arc::new(FixedPrefix::new(2)));
    let mut builder = TableBuilder::new(Vec::new(), &options).unwrap();
    builder.add(b"bb", b"1").unwrap();
    assert_says(builder.add(b"aa", b"2").unwrap_err(), &["ascend", "\"bb\"", "\"aa\""]);
    let bytes = builder.finish().unwrap().0;
    let opened = |bytes: &[u8]| Table::open_source(Bytes::copy_from_slice(bytes), &TableOptions::default());
    let table = opened(&bytes).unwrap();
    assert_says(table.filter_problem().unwrap(), &["extractor", "expected one of whole keys", "got 'fixed-prefix:2'"]);
    assert!(table.filter_problem().unwrap().is_foreign_filter());
    assert_says(opened(&bytes[..40]).unwrap_err(), &["cut short", "64", "40"]);
    assert_says(opened(&[0; 100]).unwrap_err(), &["not a table", "SSTFLTR"]);
    assert_says(opened(&[&[0], &bytes[..]].concat()).unwrap_err(), &["file length"]);
    let mut damaged = bytes.clone();
    let properties = table.region(TablePart::Properties).unwrap().start;
    damaged[usize::try_from(properties).unwrap()] ^= 1;
    assert_says(opened(&damaged).unwrap_err(), &["properties at offset", "checksum"]);
    let missing = Table::open("no such table", &TableOptions::default()).unwrap_err();
    assert!(missing.to_string().starts_with("opening no such table: ") && missing.source().is_some(), "{missing}");
    assert!(matches!(missing, TableError::Io { path: Some(_), .. }));
}

#[test]
fn a_filter_of_another_file_names_both() {
    let [seven, eight] = [7, 8].map(|number| FileId::from([number; 16]));
    let fingerprint = |file: FileId| format!("{:#018x}", file.fingerprint());
    let bound = FilterBlock::open_unverified(block()).unwrap().bound_to(seven).to_vec();
    let load = |block: &[u8], file: Option<FileId>| {
        let context = LoadContext::from(KeyHasher::default().identity());
        FilterBlock::load(block, file.map_or(context, |file| context.with_file_id(file))).unwrap_err()
    };
    assert_says(load(&bound, Some(eight)), &["another file", &fingerprint(eight), &fingerprint(seven)]);
    assert_says(load(&block(), Some(eight)), &["unknown file", &fingerprint(eight), "pass the file id to its builder"]);
    assert_says(load(&bound, None), &["an unbound one", &fingerprint(seven), "load it with the file id"]);
    assert_says(FileId::new(&[0; 17]).unwrap_err(), &["file id", "1 to 16 bytes", "17"]);
    let hasher = KeyHasher::default();
    let known: [&[u8]; 1] = [b"another key"];
    let context = LoadContext::new(&hasher).with_known_keys(&known);
    assert_says(FilterBlock::load(block(), context).unwrap_err(), &["another file", "known keys of its file"]);
    let without_hasher = LoadContext::from(hasher.identity()).with_known_keys(&known);
    assert_says(FilterBlock::load(block(), without_hasher).unwrap_err(), &["known keys", "the reader's hasher"]);
}
