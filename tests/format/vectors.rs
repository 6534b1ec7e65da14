//! A format with a single implementation drifts: a constant changes, every round trip still passes, and last year's
//! filters answer "absent" for their keys. So these tests compare with the vectors in `fixtures/vectors`, which
//! `fixtures/check_format.py` recomputes without this library. Unit tests of the kinds check vectors that the public
//! interface cannot reach.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::kind::{self, KindEntry};
use sstfilter::{
    BitsPerKey, BuildContext, CountingBloom, CuckooFilter, DelimitedPrefix, Domain, DynamicFilter, FallbackReason,
    FalsePositiveRate, FileId, FilterBlock, FilterPolicy, FixedPolicy, FixedPrefix, HashId, HashIdentity, KeyHash,
    KeyHasher, KeyParts, KindId, LoadContext, MatchBitmap, RegisterBlockedBloom, Sizing,
};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::common::golden::hex;
use crate::common::vectors::{Value, vectors};

/// The files of kinds whose filters are built at once, and their kinds. Vectors of xor+ name their kind.
const BUILT_AT_ONCE: [(&str, &str); 6] = [
    ("blocked-bloom", "bloom"),
    ("ribbon", "ribbon"),
    ("standard-bloom", "standard-bloom"),
    ("xor", "xor"),
    ("binary-fuse", "binary-fuse"),
    ("line-ribbon", "line-ribbon"),
];

fn hashes_of(keys: &[Vec<u8>]) -> Vec<KeyHash> {
    keys.iter().map(|key| KeyHasher::default().hash(key)).collect()
}

fn block_of(policy: &dyn FilterPolicy, keys: &[Vec<u8>]) -> Bytes {
    let mut builder = policy.builder(&BuildContext::new(&KeyHasher::default())).unwrap();
    hashes_of(keys).into_iter().for_each(|hash| builder.add_hash(hash));
    builder.finish().block.unwrap()
}

/// The policy of a kind at the size of a vector.
fn policy_of(kind: &str, vector: &Value) -> FixedPolicy {
    let sizing = match (vector.get("bits_per_key"), vector.get("rate")) {
        (Some(_), _) => BitsPerKey::new(vector.float("bits_per_key")).unwrap().into(),
        (_, Some(_)) => FalsePositiveRate::new(vector.float("rate")).unwrap().into(),
        _ => Sizing::FingerprintBits(u8::try_from(vector.number("fingerprint_bits")).unwrap()),
    };
    let kind = if vector.get("arity") == Some(&Value::Number(4.0)) { "binary-fuse-4" } else { kind };
    KindEntry::named(kind).unwrap().configure(sizing).unwrap().with_min_keys(0)
}

/// The vectors in a table of each file, with their policies.
fn built_at_once(table: &str) -> Vec<(FixedPolicy, Value)> {
    let of_file = |(file, kind): (&str, &str)| {
        let policy = |vector: &Value| policy_of(vector.get("kind").map_or(kind, |_| vector.text("kind")), vector);
        vectors(file).rows(table).iter().map(|vector| (policy(vector), vector.clone())).collect::<Vec<_>>()
    };
    BUILT_AT_ONCE.into_iter().flat_map(of_file).collect()
}

/// The file to which the block of a vector is bound.
fn file_of(vector: &Value) -> Option<FileId> {
    vector.get("file_id").filter(|id| !id.is_null()).map(|_| FileId::new(&vector.bytes("file_id")).unwrap())
}

fn parameter_words(block: &[u8]) -> Vec<u64> {
    let trailer = block.len() - 32;
    let count = usize::from(block[trailer + 24] >> 4);
    let words = block[trailer - 4 * count..trailer].as_chunks().0;
    words.iter().map(|word| u32::from_le_bytes(*word).into()).collect()
}

/// Compares a block with the digest in a vector.
fn check_digest(vector: &Value, block: &[u8]) {
    let info = FilterBlock::open_unverified(block).unwrap().info();
    assert_eq!((info.requested, info.reason), (info.kind, FallbackReason::None), "{vector}");
    assert_eq!(u64::from(info.payload_checksum), vector.hex("payload_crc"), "{vector}");
    if vector.get("bytes").is_some() {
        assert_eq!(
            (info.block_bytes, u64::from(info.salt)),
            (vector.number("bytes"), vector.number("salt")),
            "{vector}"
        );
    }
    if let Some(keys) = vector["keys"].as_number() {
        assert_eq!(info.keys, keys, "{vector}");
    }
    let words = parameter_words(block);
    let payload_bytes = info.block_bytes - 32 - 4 * words.len() as u64;
    for (name, got) in [("lines", payload_bytes / 64), ("m", words[0]), ("buckets", 2 * (payload_bytes / words[0]))] {
        if vector.get(name).is_some() {
            assert_eq!(got, vector.number(name), "{name} of {vector}");
        }
    }
    match info.kind {
        KindId::BLOCKED_BLOOM => assert_eq!(words, [vector.number("probes")], "{vector}"),
        KindId::RIBBON => assert_eq!(words[1..], vector.numbers("layers"), "{vector}"),
        KindId::STANDARD_BLOOM | KindId::COUNTING_BLOOM => {
            assert_eq!(words[1], vector.number("probes") << 8, "{vector}");
        }
        KindId::XOR | KindId::XOR_PLUS | KindId::LINE_RIBBON => {
            assert_eq!(words, vector.numbers("parameter_words"), "{vector}");
        }
        KindId::BINARY_FUSE => {
            let [bits, arity, segment] =
                ["fingerprint_bits", "arity", "segment_length"].map(|name| vector.number(name));
            let first = bits | arity << 8 | u64::from(segment.trailing_zeros()) << 16;
            assert_eq!(words, [first, vector.number("segments")], "{vector}");
        }
        _ => {}
    }
}

#[test]
fn checksums_and_hashes_are_those_of_the_vectors() {
    let own = vectors("hashing");
    for row in own.rows("crc32c") {
        assert_eq!(u64::from(crc32c::crc32c(row.text("text").as_bytes())), row.hex("crc32c"), "{row}");
    }
    for row in own.rows("xxh3_64") {
        assert_eq!(xxh3_64_with_seed(&row.bytes("bytes"), row.hex("seed")), row.hex("hash"), "{row}");
        assert_eq!(KeyHasher::with_seed(row.hex("seed")).hash(&row.bytes("bytes")).get(), row.hex("hash"), "{row}");
    }
    for row in own.rows("key_hashes") {
        let key = match row.get("pattern_bytes") {
            Some(_) => (0..row.number("pattern_bytes")).map(|index| (7 * index + 1).to_le_bytes()[0]).collect(),
            None => row.text("key").as_bytes().to_vec(),
        };
        assert_eq!(KeyHasher::default().hash(&key).get(), row.hex("hash"), "{row}");
    }
    for row in own.rows("secret_seeds") {
        let identity = KeyHasher::with_secret_seed(row.hex("seed")).identity();
        assert_eq!((identity.id, identity.seed), (HashId::Xxh3Secret, row.hex("fingerprint")), "{row}");
    }
    for row in own.rows("file_ids") {
        assert_eq!(FileId::new(&row.bytes("id")).unwrap().fingerprint(), row.hex("fingerprint"), "{row}");
    }
}

#[test]
fn parts_of_keys_hash_to_the_values_of_the_vectors() {
    let (own, hasher) = (vectors("parts"), KeyHasher::default());
    for row in own.rows("domain_tags") {
        assert_eq!(Domain::new(row.text("name")).tag(), row.hex("tag"), "{row}");
    }
    for row in own.rows("part_hashes") {
        let hash = hasher.hash(row.text("part").as_bytes()).in_domain(Domain::new(row.text("name")));
        assert_eq!(hash.get(), row.hex("hash"), "{row}");
    }
}

#[test]
fn a_block_of_parts_is_that_of_the_vectors() {
    let own = &vectors("parts")["block"];
    assert_eq!(own.texts("extractors"), ["fixed-prefix:4", "prefix-to-byte:0x6e"]);
    let parts = KeyParts::whole_keys()
        .with_extractor(Arc::new(FixedPrefix::new(4)))
        .with_extractor(Arc::new(DelimitedPrefix::new(b'n')));
    let (hasher, policy) = (KeyHasher::default(), policy_of("bloom", own));
    let mut of_keys = policy.builder(&BuildContext::new(&hasher).with_key_parts(parts.clone()));
    let mut of_hashes = policy.builder(&BuildContext::new(&hasher));
    for row in own.rows("keys") {
        of_keys.add_key(row.text("key").as_bytes());
        of_hashes.add_hash(KeyHash::from_well_mixed(row.hex("whole_key")));
        for part in row.rows("parts").iter().filter(|part| !part.is_null()) {
            let Value::Text(hash) = part else { panic!("no hash: {row}") };
            of_hashes.add_hash(KeyHash::from_well_mixed(u64::from_str_radix(hash, 16).unwrap()));
        }
    }
    let block = of_keys.finish().block.unwrap();
    assert_eq!(hex(&block), hex(&own.whole()));
    // The payload has no other hashes than those in the vector.
    assert_eq!(hex(&block[..64]), hex(&of_hashes.finish().block.unwrap()[..64]));
    let filter = FilterBlock::load(&block, LoadContext::new(&hasher).with_key_parts(&parts)).unwrap();
    let holds = |prefix| filter.may_contain_prefix(&parts.prefix(&hasher, prefix));
    assert_eq!([&b"banana"[..], b"ban", b"bandit", b"appl", b"ab"].map(holds), [true, true, false, true, true]);
}

#[test]
fn every_kind_has_a_block_in_the_vectors() {
    let growing = ["counting-bloom", "register-blocked-bloom", "cuckoo"];
    let files = BUILT_AT_ONCE.iter().map(|&(file, _)| file).chain(growing);
    let mut kinds = BTreeSet::new();
    for vector in files.flat_map(|file| vectors(file).rows("blocks").to_vec()) {
        let (hasher, block) = (KeyHasher::default(), vector.whole());
        let context = LoadContext::new(&hasher);
        let context = match file_of(&vector) {
            None => context,
            Some(file) => context.with_file_id(file),
        };
        let filter = FilterBlock::load(&block, context).unwrap();
        let keys = vector.keys(if vector.get("inserted").is_some() { "inserted" } else { "keys" });
        assert!(hashes_of(&keys).into_iter().all(|hash| filter.may_contain(hash)), "{vector}");
        kinds.insert(filter.info().kind.code());
    }
    assert!(kind::all().iter().all(|entry| kinds.contains(&entry.id.code())), "{kinds:?}");
}

#[test]
fn keys_make_the_blocks_of_the_vectors() {
    for (policy, vector) in built_at_once("blocks") {
        let mut block = block_of(&policy, &vector.keys("keys"));
        if let Some(file) = file_of(&vector) {
            block = FilterBlock::open_unverified(block).unwrap().bound_to(file);
        }
        assert_eq!(hex(&block), hex(&vector.whole()), "{}", policy.name());
        if vector.get("layers").is_some() {
            assert_eq!(parameter_words(&block)[1..], vector.numbers("layers"));
        }
    }
}

#[test]
fn more_keys_make_blocks_with_the_digests_of_the_vectors() {
    for (policy, vector) in built_at_once("digests") {
        check_digest(&vector, &block_of(&policy, &vector.keys("keys")));
    }
}

#[test]
fn shrunk_blocks_have_the_digests_of_the_vectors() {
    for (file, kind) in [("blocked-bloom", "bloom"), ("ribbon", "ribbon")] {
        for vector in vectors(file).rows("shrunk") {
            let block = block_of(&policy_of(kind, vector), &vector.keys("keys"));
            let whole = FilterBlock::open_unverified(block).unwrap();
            let shrunk = whole.shrink_to(vector.number("max_bytes")).unwrap().into_inner();
            let info = FilterBlock::open_unverified(&shrunk).unwrap().info();
            assert_eq!((info.block_bytes, info.keys), (vector.number("bytes"), vector.number("keys")), "{vector}");
            assert_eq!(u64::from(info.payload_checksum), vector.hex("payload_crc"), "{vector}");
            match vector.get("lines") {
                Some(_) => assert_eq!(info.block_bytes - 36, 64 * vector.number("lines"), "{vector}"),
                None => assert_eq!(parameter_words(&shrunk)[0], vector.hex("parameter_word_0"), "{vector}"),
            }
        }
    }
}

#[test]
fn counted_keys_make_the_blocks_of_the_vectors() {
    let own = vectors("counting-bloom");
    for vector in own.rows("blocks") {
        let probes = u8::try_from(vector.number("probes")).unwrap();
        let mut filter = CountingBloom::with_shape(HashIdentity::default(), vector.number("m"), probes).unwrap();
        filter.insert_all(&hashes_of(&vector.keys("inserted")));
        hashes_of(&vector.keys("removed")).into_iter().for_each(|hash| filter.remove(hash).unwrap());
        assert_eq!(hex(&filter.to_block().unwrap()), hex(&vector.whole()));
    }
    for vector in own.rows("digests") {
        let (hashes, size) =
            (hashes_of(&vector.keys("inserted")), BitsPerKey::new(vector.float("bits_per_key")).unwrap());
        let mut filter = CountingBloom::for_size(HashIdentity::default(), hashes.len() as u64, size).unwrap();
        filter.insert_all(&hashes);
        let removed = hashes.iter().step_by(usize::try_from(vector.number("removed_every")).unwrap());
        removed.for_each(|&hash| filter.remove(hash).unwrap());
        check_digest(vector, &filter.to_block().unwrap());
    }
}

#[test]
fn inserted_keys_make_the_register_blocked_blocks_of_the_vectors() {
    let block_of = |vector: &Value, bits_per_key: u64| {
        let (hash, bytes) = (KeyHasher::default().identity(), vector.number("payload_bytes"));
        let filter = RegisterBlockedBloom::with_shape(hash, bytes, u8::try_from(bits_per_key).unwrap()).unwrap();
        filter.insert_all(&hashes_of(&vector.keys("inserted")));
        filter.to_block().unwrap()
    };
    let own = vectors("register-blocked-bloom");
    for vector in own.rows("blocks") {
        let block = block_of(vector, vector.number("bits_per_key"));
        assert_eq!(hex(&block), hex(&vector.whole()));
        assert_eq!(FilterBlock::open_unverified(block).unwrap().info().keys, vector.number("keys"));
    }
    for vector in own.rows("digests") {
        let block = block_of(vector, vector.hex("parameter_word_0") & 0xff);
        assert_eq!(parameter_words(&block), [vector.hex("parameter_word_0")]);
        check_digest(vector, &block);
    }
}

#[test]
fn inserted_keys_make_the_cuckoo_blocks_of_the_vectors() {
    let block_of = |vector: &Value| {
        let (hashes, tag_bits) = (hashes_of(&vector.keys("keys")), u8::try_from(vector.number("tag_bits")).unwrap());
        let mut filter = CuckooFilter::with_tag_bits(HashIdentity::default(), hashes.len() as u64, tag_bits).unwrap();
        filter.insert_all(&hashes).unwrap();
        filter.to_block().unwrap()
    };
    let own = vectors("cuckoo");
    for vector in own.rows("blocks") {
        let block = block_of(vector);
        assert_eq!(hex(&block), hex(&vector.whole()));
        let slots: BTreeSet<String> = block[..8].iter().filter(|&&slot| slot != 0).map(|slot| hex(&[*slot])).collect();
        assert!(slots.iter().eq(&BTreeSet::from_iter(vector.texts("tags"))), "{vector}");
    }
    for vector in own.rows("digests") {
        check_digest(vector, &block_of(vector));
    }
}

/// Our writers fill later layers only with many keys. Any sizes of layers are allowed, so small blocks have them, which
/// `check_format.py` builds.
#[test]
fn queries_go_through_two_bumping_layers_as_in_the_vectors() {
    for (file, layers_from) in [("ribbon", 1), ("line-ribbon", 0)] {
        for vector in vectors(file).rows("layered") {
            let filter = FilterBlock::load(vector.whole(), &KeyHasher::default()).unwrap();
            assert_eq!(parameter_words(filter.as_bytes())[layers_from..], vector.numbers("layers"));
            assert_eq!(u64::from(filter.info().salt), 5);
            let keys: Vec<Vec<u8>> = vector.keys("keys");
            assert!(hashes_of(&keys).into_iter().all(|hash| filter.may_contain(hash)));
            let queries = vector.rows("queries");
            let hashes: Vec<KeyHash> =
                queries.iter().map(|row| KeyHasher::default().hash(row.text("key").as_bytes())).collect();
            let mut matches = MatchBitmap::default();
            filter.may_contain_batch(&hashes, &mut matches);
            for (number, (row, &hash)) in queries.iter().zip(&hashes).enumerate() {
                assert_eq!(hash.get(), row.rows("path")[0].hex("hash"), "{row}");
                assert_eq!(filter.may_contain(hash), row.bool("may_contain"), "{row}");
                assert_eq!(matches.may_contain(number), row.bool("may_contain"), "{row}");
            }
            for layers in 1..=3 {
                assert!(queries.iter().any(|row| row.rows("path").len() == layers && !row.bool("may_contain")));
            }
        }
    }
}
