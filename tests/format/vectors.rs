//! A format that lives in one implementation drifts: a constant changes, every round trip still holds,
//! and the files of last year read as absent keys. These are the test vectors of FORMAT.md, which
//! `fixtures/check_format.py` recomputes without this library.

use bytes::Bytes;
use sstfilter::kind::{self, BinaryFuseKind, KindEntry, Updates};
use sstfilter::{
    BitsPerKey, BlockError, BuildContext, CountingBloom, CuckooFilter, Domain, DynamicFilter, FallbackReason,
    FalsePositiveRate, FileId, FilterBlock, FilterPolicy, FixedPolicy, HashId, HashIdentity, KeyHash, KeyHasher,
    KindId, RegisterBlockedBloom, Sizing, StandardBloom,
};

use crate::common;
use crate::common::documented::{FORMAT, bytes_of_dump, dump_below, hex};

const FRUIT: [&[u8]; 3] = [b"apple", b"banana", b"cherry"];

const BLOOM_BLOCK: &str = "00000800000000001000004060000000040000000020800000040000000000000000000001001000010000000000\
    020000001010100000000080000000000008060000006574\
    6c696674737308000000b3c358180300000000010110100153\
    4653b02f7a";

const STANDARD_BLOCK: &str =
    "24c1135202810522400000000007000065746c696674737301000000c79ea176030000000003031020015346614163f3";

const COUNTING_BLOCK: &str = "00021000010000111500020020000202200000000100001001010000100010004000000000070000\
    65746c696674737304000000a103beee040000000004041020015346a45a8d0f";
const CUCKOO_BLOCK: &str = "fe000000013e00000800000065746c696674737301000000fc1b427f0300000000060610100153461eb0072a";

/// The words of a line that are not 0, by their numbers.
type Words = &'static [(usize, u32)];

fn block_of_hashes(policy: &dyn FilterPolicy, hashes: impl IntoIterator<Item = KeyHash>) -> Bytes {
    let mut builder = policy.builder(&BuildContext::new(&KeyHasher::default())).unwrap();
    hashes.into_iter().for_each(|hash| builder.add_hash(hash));
    builder.finish().block.unwrap()
}

fn block_of(policy: &dyn FilterPolicy, keys: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Bytes {
    let hasher = KeyHasher::default();
    block_of_hashes(policy, keys.into_iter().map(|key| hasher.hash(key.as_ref())))
}

fn numbered(keys: u32) -> impl Iterator<Item = String> {
    (0..keys).map(|key| format!("key-{key:06}"))
}

fn one_percent_ribbon() -> FixedPolicy {
    FixedPolicy::ribbon(FalsePositiveRate::ONE_PERCENT).unwrap().with_min_keys(0)
}

#[test]
fn parts_of_keys_hash_to_the_documented_values() {
    let hasher = KeyHasher::default();
    assert_eq!(hasher.hash(b"appl").in_domain(Domain::new("fixed-prefix:4")).get(), 0xe87b_35a6_b57b_3617);
    assert_eq!(hasher.hash(b"apple").in_domain(Domain::new("class")).get(), 0x5b58_bdbc_c639_2837);
    let tags = ["fixed-prefix:4", "prefix-to-byte:0x6e"].map(|name| Domain::new(name).tag());
    assert_eq!(tags, [0x606f_8e54_a3a6_935d, 0x532a_84e1_dc64_45c9]);
}

#[test]
fn keys_hash_to_the_documented_values() {
    let pattern: Vec<u8> = (0..1025_u32).map(|index| (7 * index + 1).to_le_bytes()[0]).collect();
    let vectors: [(&[u8], u64); 8] = [
        (b"", 0x0c57_7511_c132_6dfd),
        (b"apple", 0x4129_6ac2_d2d5_72b9),
        (b"banana", 0x4245_38a8_07e3_f600),
        (b"cherry", 0xe421_09f8_f689_0d7a),
        (b"key-000000", 0xb085_c6be_7b88_bf36),
        (&pattern[..129], 0x4f4d_43c1_3a3f_0ff0),
        (&pattern[..241], 0x5a6e_ffb1_48bd_46df),
        (&pattern, 0xbed0_83a1_25dd_02ea),
    ];
    for (key, expected) in vectors {
        assert_eq!(KeyHasher::default().hash(key).get(), expected, "{key:?}");
    }
    assert_eq!(KeyHasher::with_seed(0).hash(b"").get(), 0x2d06_8005_38d3_94c2);
}

#[test]
fn secret_seeds_have_the_documented_fingerprints() {
    for (seed, expected) in [(0xdead_beef_cafe_f00d, 0x1c82_05bc), (42, 0xca1a_2710)] {
        let identity = KeyHasher::with_secret_seed(seed).identity();
        assert_eq!((identity.id, identity.seed), (HashId::Xxh3Secret, expected));
    }
}

#[test]
fn one_key_sets_the_documented_bits_of_its_line() {
    let lines: [(u64, f64, Words); 4] = [
        (
            0x0123_4567_89ab_cdef,
            10.0,
            &[(0, 0x1000_0000), (2, 0x40), (3, 0x1_0000), (4, 0x2000_0000), (9, 0x40_0000), (15, 0x1000_0000)],
        ),
        (
            0xfedc_ba98_7654_3210,
            10.0,
            &[(1, 0x1_0000), (2, 0x2000_0000), (8, 0x0800_0000), (11, 4), (12, 0x400), (13, 0x4000)],
        ),
        (
            0x0123_4567_89ab_cdef,
            16.0,
            &[
                (0, 0x1000_0000),
                (1, 0x40),
                (2, 0x40),
                (4, 0x2000_0000),
                (5, 2),
                (7, 0x100),
                (9, 0x40_0000),
                (14, 0x800),
                (15, 0x1000_0000),
            ],
        ),
        (0, 10.0, &[(0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (5, 1)]),
    ];
    for (hash, bits, expected) in lines {
        let policy = FixedPolicy::bloom(BitsPerKey::new(bits).unwrap()).unwrap();
        let block = block_of_hashes(&policy, [KeyHash::from_well_mixed(hash)]);
        let mut line = [0; 64];
        for &(word, bits) in expected {
            line[word * 4..word * 4 + 4].copy_from_slice(&bits.to_le_bytes());
        }
        assert_eq!(hex(&block[..64]), hex(&line), "{hash:016x}");
    }
}

/// The whole blocks of the appendix. A line of a dump has an offset, digits, and after some blanks what they mean, once
/// or twice.
fn whole_blocks() -> Vec<Vec<u8>> {
    let appendix = FORMAT.split_once("## Appendix").unwrap().1.split_once("### A whole mini SST").unwrap().0;
    let dumps = appendix.split("```").filter(|dump| dump.starts_with("text\n000  "));
    dumps.map(bytes_of_dump).collect()
}

/// Whether a kind gives three keys this block, at one of the sizes that the text uses.
fn is_built_by(entry: &KindEntry, block: &[u8]) -> bool {
    let sizes = [BitsPerKey::TEN.into(), FalsePositiveRate::ONE_PERCENT.into(), Sizing::FingerprintBits(8)];
    let mut policies = sizes.into_iter().filter_map(|sizing| entry.configure(sizing).ok());
    policies.any(|policy| block_of(&policy.with_min_keys(0), FRUIT) == block)
}

#[test]
fn every_kind_has_a_whole_block_in_the_text_that_is_built_again() {
    // Those of range filters are in `range_vectors`, and one of parts has a test of its own.
    let is_of_whole_keys = |block: &Vec<u8>| match FilterBlock::open_unverified(block) {
        Ok(filter) => filter.info().extractors.is_empty(),
        Err(error) => error != BlockError::RangeFilter,
    };
    let blocks: Vec<_> = whole_blocks().into_iter().filter(is_of_whole_keys).collect();
    let kind_of = |block: &Vec<u8>| FilterBlock::load(block, &KeyHasher::default()).unwrap().info().kind;
    for entry in kind::all() {
        let documented: Vec<_> = blocks.iter().filter(|block| kind_of(block) == entry.id).collect();
        // A block of xor+ differs from one of xor in what is left out; digests of larger ones show that.
        assert!(!documented.is_empty() || entry.id == KindId::XOR_PLUS, "{}", entry.name);
        for block in documented {
            let filter = FilterBlock::load(block, &KeyHasher::default()).unwrap();
            assert!(FRUIT.iter().all(|key| filter.may_contain(KeyHasher::default().hash(key))), "{}", entry.name);
        }
    }
    for block in &blocks {
        let mut entries = kind::all().iter().filter(|entry| entry.id == kind_of(block));
        // What grows depends on how it was filled: those blocks have tests of their own.
        let is_built = entries.any(|entry| entry.updates != Updates::None || is_built_by(entry, block));
        assert!(is_built, "{}", hex(block));
    }
}

#[test]
fn three_keys_make_the_documented_bloom_block() {
    let block = block_of(&FixedPolicy::default(), FRUIT);
    assert_eq!(hex(&block), BLOOM_BLOCK);
    let info = FilterBlock::open_unverified(&block).unwrap().info();
    assert_eq!((info.kind, info.requested), (KindId::BLOCKED_BLOOM, KindId::BLOCKED_BLOOM));
    assert_eq!((info.reason, info.keys, info.payload_checksum), (FallbackReason::None, 3, 0x1858_c3b3));
}

#[test]
fn a_block_that_is_bound_to_a_file_is_the_documented_one() {
    let ids = [
        FileId::new(&7_u64.to_le_bytes()).unwrap(),
        FileId::new(&0_u64.to_le_bytes()).unwrap(),
        FileId::new(&[0]).unwrap(),
        FileId::new(&(0..16).collect::<Vec<_>>()).unwrap(),
    ];
    let expected = [0x4cd1_84ff_6d39_1a10, 0x9944_c8f4_1c35_17c3, 0xd6a8_627b_7cc6_b85d, 0xe465_4ce3_b8f5_994c];
    assert_eq!(ids.map(FileId::fingerprint), expected);
    let mut documented = block_of(&FixedPolicy::default(), FRUIT)[..0x44].to_vec();
    documented.extend(dump_below("The same, bound to the file number 7."));
    let bound = FilterBlock::open_unverified(block_of(&FixedPolicy::default(), FRUIT))
        .unwrap()
        .bound_to(FileId::new(&7_u64.to_le_bytes()).unwrap());
    assert_eq!(hex(&bound), hex(&documented));
}

#[test]
fn larger_blocks_have_the_documented_digests() {
    let bloom = block_of(&FixedPolicy::default(), numbered(1_000));
    let info = FilterBlock::open_unverified(&bloom).unwrap().info();
    assert_eq!((info.block_bytes, info.payload_checksum), (1_316, 0x7ef8_29e2));
    for (keys, bytes, checksum, salt) in [
        (100, 152, 0x4c4d_5250, 0),
        (128, 152, 0x8e39_2ebb, 2),
        (6_000, 5_180, 0xd468_b95d, 0),
        (300_000, 252_960, 0x4880_2d5b, 0),
    ] {
        let block = block_of(&one_percent_ribbon(), numbered(keys));
        let info = FilterBlock::open_unverified(&block).unwrap().info();
        assert_eq!((info.kind, info.keys), (KindId::RIBBON, keys.into()));
        assert_eq!((info.block_bytes, info.payload_checksum, info.salt), (bytes, checksum, salt), "{keys} keys");
    }
}

#[test]
fn shrunk_blocks_have_the_documented_digests() {
    let bloom = block_of(&FixedPolicy::default(), numbered(1_000));
    let ribbon = block_of(&one_percent_ribbon(), numbered(6_000));
    for (block, max_bytes, bytes, checksum) in [
        (&bloom, 700, 676, 0xa376_f1ca),
        (&bloom, 400, 356, 0x4d11_1f2f),
        (&bloom, 300, 292, 0x2e04_b104),
        (&ribbon, 5_000, 4_996, 0x578d_896c),
        (&ribbon, 3_500, 3_500, 0x216b_3fee),
        (&ribbon, 2_000, 1_996, 0x4e7a_8d61),
        (&ribbon, 840, 836, 0xeb76_8c7c),
    ] {
        let shrunk = FilterBlock::open_unverified(&block[..])
            .unwrap()
            .shrink_to(max_bytes)
            .map(FilterBlock::into_inner)
            .unwrap();
        let info = FilterBlock::open_unverified(shrunk).unwrap().info();
        assert_eq!((info.block_bytes, info.payload_checksum), (bytes, checksum), "{max_bytes} bytes");
    }
}

fn cuckoo_of(keys: impl IntoIterator<Item = impl AsRef<[u8]>>, tag_bits: u8) -> Bytes {
    let hasher = KeyHasher::default();
    let hashes: Vec<KeyHash> = keys.into_iter().map(|key| hasher.hash(key.as_ref())).collect();
    let mut filter = CuckooFilter::with_tag_bits(HashIdentity::default(), hashes.len() as u64, tag_bits).unwrap();
    filter.insert_all(&hashes).unwrap();
    filter.to_block().unwrap()
}

#[test]
fn three_keys_make_the_documented_cuckoo_block_and_more_the_documented_digests() {
    assert_eq!(hex(&cuckoo_of(FRUIT, 8)), CUCKOO_BLOCK);
    for (keys, tag_bits, bytes, checksum, buckets) in [
        (1_000, 8, 1_108, 0xf671_f17d, "268"),
        (1_000, 13, 1_780, 0x39db_a768, "268"),
        (3_000, 21, 8_332, 0xb031_f299, "790"),
    ] {
        let block = cuckoo_of(numbered(keys), tag_bits);
        let info = FilterBlock::open_unverified(&block).unwrap().info();
        assert_eq!((info.kind, info.keys, info.block_bytes), (KindId::CUCKOO, keys.into(), bytes));
        assert_eq!(
            (info.payload_checksum, common::shape_field(&info, "buckets").unwrap()),
            (checksum, buckets),
            "{keys} keys"
        );
    }
}

fn fuse(arity: u8, bits: u8) -> FixedPolicy {
    FixedPolicy::from(BinaryFuseKind::new(arity, Sizing::FingerprintBits(bits)).unwrap())
}

#[test]
fn larger_fuse_blocks_have_the_documented_digests() {
    for (keys, arity, bits, bytes, checksum) in [
        (1_000, 3, 8, 1_456, 0xa17b_fad2_u32),
        (300, 4, 32, 1_832, 0xe3b2_5c34),
        (10_000, 4, 7, 10_576, 0xa466_ead3),
        (1_000, 3, 17, 3_040, 0xfa65_13a3),
        (300, 4, 31, 1_784, 0xe800_8599),
    ] {
        let info = FilterBlock::open_unverified(block_of(&fuse(arity, bits), numbered(keys))).unwrap().info();
        assert_eq!((info.block_bytes, info.payload_checksum, info.salt), (bytes, checksum, 0), "{keys} keys");
    }
}

#[test]
fn standard_and_counting_bloom_blocks_are_the_documented_ones() {
    let standard = block_of(&FixedPolicy::standard_bloom(BitsPerKey::TEN).unwrap(), FRUIT);
    assert_eq!(hex(&standard), STANDARD_BLOCK);
    let hasher = KeyHasher::default();
    let [apple, banana, cherry] = FRUIT.map(|key| hasher.hash(key));
    let mut counting = CountingBloom::with_shape(HashIdentity::default(), 64, 7).unwrap();
    counting.insert_all(&[apple, banana, cherry, apple, banana]);
    counting.remove(apple).unwrap();
    assert_eq!(hex(&counting.to_block().unwrap()), COUNTING_BLOCK);

    let large = block_of(&FixedPolicy::standard_bloom(BitsPerKey::TEN).unwrap(), numbered(1_000));
    let info = FilterBlock::open_unverified(&large).unwrap().info();
    assert_eq!((info.block_bytes, info.payload_checksum), (1_296, 0x2df4_a0d7));
    let mut large = CountingBloom::for_size(HashIdentity::default(), 1_000, BitsPerKey::TEN).unwrap();
    let hashes: Vec<KeyHash> = numbered(1_000).map(|key| hasher.hash(key.as_bytes())).collect();
    large.insert_all(&hashes);
    hashes.iter().step_by(3).for_each(|&hash| large.remove(hash).unwrap());
    let info = FilterBlock::open_unverified(large.to_block().unwrap()).unwrap().info();
    assert_eq!((info.block_bytes, info.payload_checksum, info.keys), (5_064, 0xb4fb_ab9c, 666));
}

#[test]
fn positions_of_standard_bloom_are_the_documented_ones() {
    for (hash, bits, positions) in [
        (0x0123_4567_89ab_cdef, 1_000, [4, 53, 912, 326, 898, 374, 643]),
        (0xfedc_ba98_7654_3210, 1_000, [995, 328, 607, 571, 222, 153, 7]),
        (1, 64, [0, 39, 30, 6, 56, 30, 22]),
    ] {
        let mut filter = StandardBloom::with_shape(HashIdentity::default(), bits, 7).unwrap();
        filter.insert(KeyHash::from_well_mixed(hash));
        let block = filter.to_block().unwrap();
        let set: Vec<usize> = (0..block.len() * 8 - 320).filter(|bit| block[bit / 8] >> (bit % 8) & 1 == 1).collect();
        let mut positions = positions.to_vec();
        positions.sort_unstable();
        positions.dedup();
        assert_eq!(set, positions, "{hash:016x}");
    }
}

/// The block of a filter of `bytes` bytes, with keys added.
fn register_blocked_block(probes: u8, bytes: u64, keys: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Bytes {
    let hasher = KeyHasher::default();
    let filter = RegisterBlockedBloom::with_shape(hasher.identity(), bytes, probes).unwrap();
    keys.into_iter().for_each(|key| {
        filter.insert(hasher.hash(key.as_ref()));
    });
    filter.to_block().unwrap()
}

#[test]
fn three_keys_make_the_documented_register_blocked_block() {
    let block = register_blocked_block(2, 64, FRUIT);
    let text = FORMAT.split_once("### A whole register-blocked Bloom block").unwrap().1.split("```").nth(1).unwrap();
    // Offset, digits in groups, then words of explanation behind three blanks or more.
    let of_line = |line: &'static str| line.split_once("  ").map(|(_, rest)| rest.split("   ").next().unwrap());
    let expected: String = text.lines().skip(1).filter_map(of_line).collect::<String>().replace(' ', "");
    assert_eq!(hex(&block), expected);
}

#[test]
fn larger_register_blocked_blocks_have_the_documented_digests() {
    let cases = [
        (2, 2_048, 1_000, 994, 0x5e60_a5f5),
        (3, 1_024, 1_000, 982, 0xb781_3937),
        (4, 65_536, 60_000, 60_059, 0xdb37_60d7),
    ];
    for (probes, bytes, keys, recorded, checksum) in cases {
        let info = FilterBlock::open_unverified(register_blocked_block(probes, bytes, numbered(keys))).unwrap().info();
        assert_eq!((info.keys, info.payload_checksum), (recorded, checksum), "{probes}");
    }
}
