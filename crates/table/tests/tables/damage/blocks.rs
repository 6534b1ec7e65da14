//! Damages single filter blocks of every kind. Each is bound to its file, so a whole block of another file in its place
//! is damage too.

use sstfilter::{FileId, FilterBlock, Filters, KeyHash, KeyHasher, KeyParts, LoadContext, Probe};

use super::ways::{Files, ways};
use super::{Outcome, Totals};
use crate::common::cases::{self, Policy, Recipe};
use crate::common::random::Random;

/// Recipes for small blocks, and for one larger than a page.
fn recipes() -> Vec<(Recipe, u32)> {
    let of_fingerprints = |kind, bits| Recipe::Policy(Policy::of_fingerprints(kind, kind, bits));
    let bloom = |bits_per_key| Recipe::Policy(Policy::bloom(bits_per_key));
    let ribbon = Recipe::Policy(Policy::ribbon(0.01, 0));
    vec![
        (bloom(10.0), 1),
        (bloom(10.0), 90),
        (bloom(24.0), 3_000),
        (ribbon, 200),
        (ribbon, 9_000),
        (Recipe::Policy(Policy::standard_bloom(12.0)), 90),
        (Recipe::StandardBloom { bits: 999, probes: 3 }, 30),
        (Recipe::CountingBloom { counters: 900, probes: 7 }, 90),
        (Recipe::RegisterBlocked { probes: 2, bytes: 256 }, 90),
        (Recipe::RegisterBlocked { probes: 4, bytes: 128 }, 90),
        (Recipe::Cuckoo { tag_bits: 8 }, 90),
        (Recipe::Cuckoo { tag_bits: 13 }, 200),
        (of_fingerprints("xor", 8), 90),
        (of_fingerprints("xor+", 8), 90),
        (of_fingerprints("binary-fuse", 8), 90),
        (of_fingerprints("line-ribbon", 8), 200),
        (of_fingerprints("binary-fuse-4", 7), 200),
    ]
}

/// A block of one recipe, bound to file 0, with its keys, and blocks of other keys and files.
struct Subject {
    block: Vec<u8>,
    hashes: Vec<KeyHash>,
    others: Vec<Vec<u8>>,
}

impl Subject {
    fn new(recipe: Recipe, keys: u32) -> Self {
        let hasher = KeyHasher::default();
        let block = |file: u32| {
            let block = recipe.build(&hasher, KeyParts::whole_keys(), (file * keys..(file + 1) * keys).map(cases::key));
            FilterBlock::open_unverified(block)
                .unwrap()
                .bound_to(FileId::new(&u64::from(file).to_le_bytes()).unwrap())
                .to_vec()
        };
        let hashes = (0..keys).map(|number| hasher.hash(&cases::key(number))).collect();
        Self { block: block(0), hashes, others: (1..4).map(block).collect() }
    }

    /// Opens the damaged block as readers do.
    fn outcome(&self, bytes: Vec<u8>, what: &str) -> Outcome {
        if bytes == self.block {
            return Outcome::Identical;
        }
        let is_open = FilterBlock::open_unverified(&bytes[..]).is_ok();
        let context =
            LoadContext::from(KeyHasher::default().identity()).with_file_id(FileId::new(&0_u64.to_le_bytes()).unwrap());
        let guarded = Filters::default().reader(FilterBlock::load(bytes, context));
        // All keys of a small block, and some of a large one.
        let asked = self.hashes.iter().step_by(self.hashes.len().div_ceil(100));
        asked.for_each(|&hash| assert!(!guarded.probe_hash(hash).is_absent(), "{what}"));
        match guarded.probe_hash(self.hashes[0]) {
            Probe::Unusable if is_open => Outcome::FilterUnusable,
            Probe::Unusable => Outcome::Refused,
            Probe::Absent | Probe::MaybePresent | Probe::NotLoaded => Outcome::Accepted,
        }
    }
}

/// Damages each of the blocks in `cases` ways.
pub(crate) fn try_all(cases: u64) -> Totals {
    let mut totals = Totals::default();
    let ways = ways(32, 512);
    for (number, (recipe, keys)) in (0..).zip(recipes()) {
        let subject = Subject::new(recipe, keys);
        let length = subject.block.len();
        let others: Vec<&[u8]> = subject.others.iter().map(Vec::as_slice).collect();
        let files = Files {
            sound: &subject.block,
            earlier: others.iter().copied().filter(|other| other.len() == length).collect(),
            others,
            // Most of the payload, the bytes after it (including the file's fingerprint), and the trailer.
            parts: &[0..length - 52, length - 52..length - 32, length - 32..length],
        };
        for case in 0..cases {
            let mut random = Random::new(1 << 48 | number << 32 | case);
            let way = *random.pick(&ways);
            let Some(bytes) = way.apply(&files, &mut random) else { continue };
            let what = format!("{way:?}, {}, {keys} keys, case {case}", recipe.describe());
            totals.count(way, subject.outcome(bytes, &what));
        }
    }
    totals
}
