//! Our kinds for files, as an engine uses them.

use std::cell::OnceCell;

use bytes::Bytes;
use sstfilter::kind::{self, KindEntry};
use sstfilter::simd::{self, InstructionSet};
use sstfilter::{
    BitsPerKey, BuildContext, FalsePositiveRate, FilterBlock, FixedPolicy, KeyHasher, MatchBitmap, Sizing,
};

use super::IsaChoice;
use crate::keys::Keys;
use crate::subject::{BATCH_KEYS, BuildError, BuildResult, Family, Filter, HashUse, Label, Subject, count_where};

/// The crate's name in the records.
pub const NAME: &str = "sstfilter";

/// One policy, made once, as a store does, with one set of kernels.
struct Ours {
    kind: &'static str,
    name: &'static str,
    size: Size,
    policy: OnceCell<FixedPolicy>,
    isa: Option<InstructionSet>,
}

/// The size of a kind's filters: bits per key, a rate, or the bits of fingerprints.
#[derive(Clone, Copy)]
enum Size {
    Bits(f64),
    Rate(f64),
    Fingerprints(u8),
}

/// Name in the records, name in the table of kinds, size.
const KINDS: [(&str, &str, Size); 17] = [
    ("blocked Bloom, 10 bits", "bloom", Size::Bits(10.0)),
    ("blocked Bloom, 16 bits", "bloom", Size::Bits(16.0)),
    ("blocked Bloom, 20 bits", "bloom", Size::Bits(20.0)),
    ("standard Bloom, 10 bits", "standard-bloom", Size::Bits(10.0)),
    ("counting Bloom, 1 %", "counting-bloom", Size::Rate(0.01)),
    ("Ribbon, 1 %", "ribbon", Size::Rate(0.01)),
    ("Ribbon, 2^-7", "ribbon", Size::Fingerprints(7)),
    ("Ribbon, 2^-8", "ribbon", Size::Fingerprints(8)),
    ("Ribbon, 2^-16", "ribbon", Size::Fingerprints(16)),
    ("line ribbon, load 90", "line-ribbon", Size::Fingerprints(8)),
    ("line ribbon, load 105", "line-ribbon", Size::Bits(8.6)),
    ("BinaryFuse 3-wise, 8", "binary-fuse", Size::Fingerprints(8)),
    ("BinaryFuse 4-wise, 8", "binary-fuse-4", Size::Fingerprints(8)),
    ("BinaryFuse 3-wise, 16", "binary-fuse", Size::Fingerprints(16)),
    ("Xor, 8", "xor", Size::Fingerprints(8)),
    ("Xor+, 8", "xor+", Size::Fingerprints(8)),
    ("Xor+, 16", "xor+", Size::Fingerprints(16)),
];

/// Returns the name of the record that represents a kind in the advice: of the measured sizes, the one nearest to 1 %.
pub fn record_name(kind: &str) -> &str {
    match kind {
        "bloom" => "blocked Bloom, 10 bits",
        "ribbon" => "Ribbon, 2^-7",
        "standard-bloom" => "standard Bloom, 10 bits",
        "counting-bloom" => "counting Bloom, 1 %",
        "register-blocked-bloom" => "register-blocked Bloom",
        "cuckoo" => "cuckoo, 11 bits",
        "xor" => "Xor, 8",
        "xor+" => "Xor+, 8",
        "line-ribbon" => "line ribbon, load 90",
        "binary-fuse" => "BinaryFuse 3-wise, 8",
        "binary-fuse-4" => "BinaryFuse 4-wise, 8",
        _ => kind,
    }
}

/// All our kinds, for one or for each instruction set.
pub fn subjects(isa: IsaChoice) -> Vec<Box<dyn Subject>> {
    let sets: Vec<_> = match isa {
        IsaChoice::Best => vec![None],
        IsaChoice::All => InstructionSet::available().map(Some).collect(),
    };
    let of_kind = |(kind, name, size)| {
        let ours = move |&isa| Box::new(Ours { kind, name, size, policy: OnceCell::new(), isa }) as Box<dyn Subject>;
        sets.iter().map(ours)
    };
    // A kind without a record of another name is measured under its own.
    let others = kind::all().iter().filter(|entry| record_name(entry.name) == entry.name);
    let others = others.map(|entry| (entry.name, entry.name, Size::Rate(0.01)));
    KINDS.into_iter().chain(others).flat_map(of_kind).collect()
}

impl Ours {
    fn policy(&self) -> Result<&FixedPolicy, BuildError> {
        if self.policy.get().is_none() {
            let sizing = match self.size {
                Size::Bits(bits) => BitsPerKey::new(bits)?.into(),
                Size::Rate(rate) => FalsePositiveRate::new(rate)?.into(),
                Size::Fingerprints(bits) => Sizing::FingerprintBits(bits),
            };
            let policy = KindEntry::named(self.name).ok_or("no such kind")?.configure(sizing)?;
            self.policy.get_or_init(|| policy);
        }
        Ok(self.policy.get().ok_or("no policy")?)
    }
}

impl Subject for Ours {
    fn label(&self) -> Label {
        let family = if self.name.ends_with("bloom") { Family::Bloom } else { Family::Static };
        let isa = self.isa.map(InstructionSet::name);
        Label { implementation: NAME, kind: self.kind, family, hash: HashUse::Given, isa, against: self.kind }
    }

    fn build(&self, keys: Keys<'_>) -> BuildResult {
        let isa = self.isa.unwrap_or_else(InstructionSet::fastest);
        simd::select(isa)?;
        let context = BuildContext::new(&KeyHasher::default()).with_expected_keys(keys.len() as u64);
        let mut builder = self.policy()?.builder(&context);
        builder.add_hashes(keys.hashes);
        let block = FilterBlock::load(builder.finish().block.ok_or("no filter fits")?, &KeyHasher::default())?;
        Ok(Box::new(Built { block, isa, matches: MatchBitmap::default() }))
    }
}

struct Built {
    block: FilterBlock<Bytes>,
    isa: InstructionSet,
    matches: MatchBitmap,
}

impl Built {
    /// Selects the kernels again, because another subject may have chosen another set since.
    fn select(&self) {
        simd::select(self.isa).expect("it was available when the filter was built");
    }
}

impl Filter for Built {
    fn bytes(&self) -> u64 {
        self.block.as_bytes().len() as u64
    }

    fn count(&self, keys: Keys<'_>) -> u64 {
        self.select();
        count_where(keys.hashes, |&hash| self.block.may_contain(hash))
    }

    fn count_batch(&mut self, keys: Keys<'_>) -> Option<u64> {
        self.select();
        let batches = keys.hashes.chunks(BATCH_KEYS);
        Some(batches.fold(0, |sum, batch| {
            self.block.may_contain_batch(batch, &mut self.matches);
            sum + self.matches.count()
        }))
    }
}
