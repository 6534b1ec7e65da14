//! The fixtures in `fixtures/v1`: how each is made, and its entry in the manifest.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sstfilter::{
    DelimitedPrefix, Domain, FileId, FilterBlock, FixedPrefix, KeyExtractor, KeyHash, KeyHasher, KeyParts, LoadContext,
};

pub(crate) use super::recipes::{Hash, Policy, Recipe};

/// The folder of the blocks and tables.
pub(crate) fn directory() -> PathBuf {
    // Searched upwards, because several packages include this file.
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("fixtures/v1"));
    folders.find(|folder| folder.is_dir()).unwrap()
}

/// Key `number` of every fixture.
pub(crate) fn key(number: u32) -> Vec<u8> {
    format!("key-{number:08}").into_bytes()
}

/// Absent key `number`, which no fixture holds.
pub(crate) fn absent_key(number: u32) -> Vec<u8> {
    format!("absent-{number:08}").into_bytes()
}

/// A filter block.
#[derive(Clone, Copy)]
pub(crate) struct BlockCase {
    pub(crate) name: &'static str,
    pub(crate) recipe: Recipe,
    pub(crate) hash: Hash,
    pub(crate) keys: u32,
    pub(crate) parts: fn() -> KeyParts,
    /// The number of the file that the block is bound to.
    pub(crate) file_number: Option<u64>,
}

pub(crate) const TEN: Policy = Policy::bloom(10.0);
pub(crate) const CUSTOM: Hash = Hash::Custom { tag: 0x0123_4567_89ab_cdef, seed: 7 };

const fn made(name: &'static str, recipe: Recipe, keys: u32) -> BlockCase {
    BlockCase { name, recipe, hash: Hash::Default, keys, parts: KeyParts::whole_keys, file_number: None }
}

const fn block(name: &'static str, policy: Policy, hash: Hash, keys: u32) -> BlockCase {
    BlockCase { hash, ..made(name, Recipe::Policy(policy), keys) }
}

const fn bound(case: BlockCase, file_number: u64) -> BlockCase {
    BlockCase { file_number: Some(file_number), ..case }
}

const fn bloom(name: &'static str, bits_per_key: f64, keys: u32) -> BlockCase {
    block(name, Policy::bloom(bits_per_key), Hash::Default, keys)
}

const fn ribbon(name: &'static str, rate: f64, min_keys: u64, keys: u32) -> BlockCase {
    block(name, Policy::ribbon(rate, min_keys), Hash::Default, keys)
}

const fn register_blocked(name: &'static str, probes: u8, bytes: u64, keys: u32) -> BlockCase {
    made(name, Recipe::RegisterBlocked { probes, bytes }, keys)
}

const fn standard_bloom(name: &'static str, bits_per_key: f64, keys: u32) -> BlockCase {
    block(name, Policy::standard_bloom(bits_per_key), Hash::Default, keys)
}

const fn counting_bloom(name: &'static str, counters: u64, probes: u8, keys: u32) -> BlockCase {
    made(name, Recipe::CountingBloom { counters, probes }, keys)
}

const fn cuckoo(name: &'static str, tag_bits: u8, keys: u32) -> BlockCase {
    made(name, Recipe::Cuckoo { tag_bits }, keys)
}

const fn fuse_3(name: &'static str, bits: u8, keys: u32) -> BlockCase {
    let policy = Policy::of_fingerprints("binary-fuse", "binary fuse, 3 cells a key", bits);
    block(name, policy, Hash::Default, keys)
}

const fn fuse_4(name: &'static str, bits: u8, keys: u32) -> BlockCase {
    let policy = Policy::of_fingerprints("binary-fuse-4", "binary fuse, 4 cells a key", bits);
    block(name, policy, Hash::Default, keys)
}

const fn xor(name: &'static str, bits: u8, keys: u32) -> BlockCase {
    block(name, Policy::of_fingerprints("xor", "xor", bits), Hash::Default, keys)
}

const fn xor_plus(name: &'static str, bits: u8, keys: u32) -> BlockCase {
    block(name, Policy::of_fingerprints("xor+", "xor+", bits), Hash::Default, keys)
}

const fn line_ribbon(name: &'static str, bits_per_key: f64, keys: u32) -> BlockCase {
    block(name, Policy::line_ribbon(bits_per_key, 0), Hash::Default, keys)
}

/// All the filter blocks.
pub(crate) const BLOCKS: &[BlockCase] = &[
    bloom("bloom-no-keys", 10.0, 0),
    bloom("bloom-one-key", 10.0, 1),
    bloom("bloom-1000-keys-10-bits", 10.0, 1_000),
    bloom("bloom-1000-keys-16-bits", 16.0, 1_000),
    bloom("bloom-1000-keys-24-bits", 24.0, 1_000),
    block("bloom-custom-hash", TEN, CUSTOM, 300),
    block("bloom-secret-seed", TEN, Hash::Secret(0x5ec2_e75e_ed5e_c2e7), 300),
    ribbon("ribbon-1024-keys-1-percent", 0.01, 1_024, 1_024),
    ribbon("ribbon-two-layers", 0.007_812_5, 1_024, 6_000),
    ribbon("ribbon-20000-keys-01-percent", 0.001, 1_024, 20_000),
    ribbon("ribbon-32-columns", 1.0 / 4_294_967_296.0, 0, 100),
    ribbon("ribbon-fallen-back-to-bloom", 0.01, 1_024, 200),
    register_blocked("register-blocked-no-keys", 2, 64, 0),
    register_blocked("register-blocked-one-key", 2, 64, 1),
    register_blocked("register-blocked-200-keys", 2, 256, 200),
    register_blocked("register-blocked-three-bits-1000-keys", 3, 1_024, 1_000),
    register_blocked("register-blocked-four-bits-1000-keys", 4, 2_048, 1_000),
    standard_bloom("standard-bloom-no-keys", 10.0, 0),
    standard_bloom("standard-bloom-one-key", 10.0, 1),
    standard_bloom("standard-bloom-1000-keys-10-bits", 10.0, 1_000),
    standard_bloom("standard-bloom-100-keys-50-bits", 50.0, 100),
    made("standard-bloom-999-bits", Recipe::StandardBloom { bits: 999, probes: 3 }, 30),
    counting_bloom("counting-bloom-no-keys", 10, 7, 0),
    counting_bloom("counting-bloom-one-key", 10, 7, 1),
    counting_bloom("counting-bloom-300-keys", 3_003, 7, 300),
    counting_bloom("counting-bloom-saturated", 100, 32, 60),
    cuckoo("cuckoo-no-keys", 8, 0),
    cuckoo("cuckoo-one-key", 8, 1),
    cuckoo("cuckoo-50-keys-5-bits", 5, 50),
    cuckoo("cuckoo-1000-keys-8-bits", 8, 1_000),
    cuckoo("cuckoo-1000-keys-13-bits", 13, 1_000),
    cuckoo("cuckoo-300-keys-21-bits", 21, 300),
    cuckoo("cuckoo-300-keys-32-bits", 32, 300),
    fuse_3("fuse-no-keys", 8, 0),
    fuse_3("fuse-one-key", 8, 1),
    fuse_3("fuse-1000-keys-3-cells-8-bits", 8, 1_000),
    fuse_4("fuse-1000-keys-4-cells-7-bits", 7, 1_000),
    fuse_4("fuse-300-keys-4-cells-32-bits", 32, 300),
    fuse_3("fuse-1000-keys-3-cells-17-bits", 17, 1_000),
    fuse_4("fuse-300-keys-4-cells-31-bits", 31, 300),
    fuse_3("fuse-300-keys-3-cells-16-bits", 16, 300),
    xor("xor-no-keys", 8, 0),
    xor("xor-one-key", 16, 1),
    xor("xor-500-keys", 8, 500),
    xor("xor-300-keys-16-bits", 16, 300),
    xor_plus("xor-plus-no-keys", 8, 0),
    xor_plus("xor-plus-one-key", 16, 1),
    xor_plus("xor-plus-1200-keys", 8, 1_200),
    xor_plus("xor-plus-300-keys-16-bits", 16, 300),
    line_ribbon("line-ribbon-no-keys", 9.4, 0),
    line_ribbon("line-ribbon-one-key", 9.4, 1),
    line_ribbon("line-ribbon-3000-keys-load-90", 9.4, 3_000),
    line_ribbon("line-ribbon-5000-keys-load-100", 8.8, 5_000),
    line_ribbon("line-ribbon-4000-keys-load-105", 8.6, 4_000),
    block("line-ribbon-fallen-back-to-bloom", Policy::line_ribbon(9.4, 3_000), Hash::Default, 200),
    bound(bloom("bloom-bound-to-file-7", 10.0, 100), 7),
    bound(fuse_3("fuse-bound-to-file-8", 8, 100), 8),
    bound(BlockCase { parts: three_parts, ..bloom("bloom-three-parts-bound-to-file-10", 10.0, 300) }, 10),
    BlockCase { parts: prefixes_alone, ..bloom("bloom-prefixes-alone", 10.0, 1_000) },
];

impl BlockCase {
    pub(crate) fn file(&self) -> String {
        format!("{}.block", self.name)
    }

    pub(crate) fn read(&self) -> Vec<u8> {
        std::fs::read(directory().join(self.file())).unwrap()
    }

    pub(crate) fn build(&self) -> Vec<u8> {
        let block = self.recipe.build(&self.hash.hasher(), (self.parts)(), (0..self.keys).map(key));
        let Some(file) = self.file_number.map(|number| FileId::new(&number.to_le_bytes()).unwrap()) else {
            return block;
        };
        FilterBlock::open_unverified(block).unwrap().bound_to(file).to_vec()
    }

    /// The context with which its reader loads the block.
    pub(crate) fn load_context(&self) -> LoadContext<'static> {
        let context = LoadContext::from(self.hash.hasher().identity()).with_any_key_parts();
        self.file_number.map_or(context, |number| context.with_file_id(FileId::new(&number.to_le_bytes()).unwrap()))
    }

    /// All hashes in the block, in the order of insertion: keys and their parts. Parts that adjacent keys share occur
    /// once.
    pub(crate) fn hashes(&self) -> Vec<KeyHash> {
        let (hasher, parts) = (self.hash.hasher(), (self.parts)());
        let mut seen = HashSet::new();
        let hashes = (0..self.keys).flat_map(|number| hashes_of(&hasher, &parts, &key(number)));
        hashes.filter(|hash| seen.insert(hash.get())).collect()
    }

    pub(crate) fn absent_hashes(&self, count: u32) -> Vec<KeyHash> {
        let hasher = self.hash.hasher();
        (0..count).map(|number| hasher.hash(&absent_key(number))).collect()
    }

    /// The number of positives among `count` absent keys. If the block holds no whole keys, it is probed for them as
    /// parts.
    pub(crate) fn false_positives(&self, filter: &FilterBlock<impl AsRef<[u8]>>, count: u32) -> u64 {
        let parts = (self.parts)();
        if parts.has_whole_keys() {
            return super::matches(filter, self.absent_hashes(count).into_iter());
        }
        let name = parts.extractors().next().unwrap().name().to_owned();
        let (hasher, parts) = (self.hash.hasher(), KeyParts::extracted(Arc::new(AnyPart(name))));
        let may_contain = |number: &u32| filter.may_contain_prefix(&parts.prefix(&hasher, &absent_key(*number)));
        (0..count).filter(may_contain).count() as u64
    }
}

/// An extractor with another one's name, for which every string is a part.
#[derive(Debug)]
struct AnyPart(String);

impl KeyExtractor for AnyPart {
    fn name(&self) -> &str {
        &self.0
    }

    fn extract<'key>(&self, key: &'key [u8]) -> Option<Cow<'key, [u8]>> {
        Some(Cow::Borrowed(key))
    }

    fn extract_prefix<'key>(&self, prefix: &'key [u8]) -> Option<Cow<'key, [u8]>> {
        self.extract(prefix)
    }
}

/// The hashes of a key in a filter of these parts, computed as docs/format/parts.md specifies.
fn hashes_of(hasher: &KeyHasher, parts: &KeyParts, key: &[u8]) -> Vec<KeyHash> {
    let of_part = |extractor: &Arc<dyn KeyExtractor>| {
        Some(hasher.hash(&extractor.extract(key)?).in_domain(Domain::new(extractor.name())))
    };
    let whole = parts.has_whole_keys().then(|| hasher.hash(key));
    whole.into_iter().chain(parts.extractors().filter_map(of_part)).collect()
}

/// The whole key, its first ten bytes (one of five in 500 entries), and `key-`.
pub(crate) fn three_parts() -> KeyParts {
    let parts = KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(10)));
    parts.with_extractor(Arc::new(DelimitedPrefix::new(b'-')))
}

/// The first eleven bytes of keys, which ten keys share.
fn prefixes_alone() -> KeyParts {
    KeyParts::extracted(Arc::new(FixedPrefix::new(11)))
}
