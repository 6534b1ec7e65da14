//! Our kinds for files, as an engine uses them.

use bytes::Bytes;
use sstfilter::kind::{self, KindEntry};
use sstfilter::simd::{self, InstructionSet};
use sstfilter::{
    BitsPerKey, BuildContext, FalsePositiveRate, FilterBlock, FixedPolicy, KeyHash, KeyHasher, MatchBitmap, Sizing,
};

use super::IsaChoice;
use crate::keys::Keys;
use crate::subject::{BuildError, Family, Filter, Label, Subject, count_batches, count_where};

/// The crate's name in the records.
pub const NAME: &str = "sstfilter";

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

/// Kinds that are also measured in use: name in the records, name in the table of kinds, size.
pub const IN_USE: [(&str, &str, Sizing); 3] = [
    ("blocked Bloom, 10 bits", "bloom", Sizing::BitsPerKey(BitsPerKey::TEN)),
    ("Ribbon, 2^-7", "ribbon", Sizing::FingerprintBits(7)),
    ("BinaryFuse 3-wise, 8", "binary-fuse", Sizing::FingerprintBits(8)),
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
    let sets = isa.sets();
    let of_kind = |(kind, name, size)| sets.iter().map(move |&isa| subject(kind, name, size, isa));
    // A kind without a record of another name is measured under its own.
    let others = kind::all().iter().filter(|entry| record_name(entry.name) == entry.name);
    let others = others.map(|entry| (entry.name, entry.name, Size::Rate(0.01)));
    KINDS.into_iter().chain(others).flat_map(of_kind).collect()
}

/// One policy, made once, as a store does, with one set of kernels.
fn subject(kind: &'static str, name: &str, size: Size, isa: Option<InstructionSet>) -> Box<dyn Subject> {
    let policy = size.policy(name).expect("a kind at a size that it has");
    let family = if name.ends_with("bloom") { Family::Bloom } else { Family::Static };
    let label = Label { isa: isa.map(InstructionSet::name), ..Label::of(NAME, kind, family, kind) };
    label.built_by(move |keys| {
        let isa = isa.unwrap_or_else(InstructionSet::fastest);
        simd::select(isa)?;
        let block = block_of(&policy, keys.hashes)?;
        Ok(Box::new(Built { block, isa, matches: MatchBitmap::default() }))
    })
}

impl Size {
    fn policy(self, kind: &str) -> Result<FixedPolicy, BuildError> {
        let sizing = match self {
            Self::Bits(bits) => BitsPerKey::new(bits)?.into(),
            Self::Rate(rate) => FalsePositiveRate::new(rate)?.into(),
            Self::Fingerprints(bits) => Sizing::FingerprintBits(bits),
        };
        Ok(KindEntry::named(kind).ok_or("no such kind")?.configure(sizing)?)
    }
}

/// Returns the policy's block of these hashes.
fn block_of(policy: &FixedPolicy, hashes: &[KeyHash]) -> Result<FilterBlock<Bytes>, BuildError> {
    let default = KeyHasher::default();
    let mut builder = policy.builder(&BuildContext::new(&default).with_expected_keys(hashes.len() as u64));
    builder.add_hashes(hashes);
    Ok(FilterBlock::load(builder.finish().block.ok_or("no filter fits")?, &default)?)
}

/// Returns a block of these hashes, of a kind at a size.
pub fn block(kind: &str, size: Sizing, hashes: &[KeyHash]) -> Result<FilterBlock<Bytes>, BuildError> {
    block_of(&KindEntry::named(kind).ok_or("no such kind")?.configure(size)?, hashes)
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
    fn bytes(&self) -> Option<u64> {
        Some(self.block.as_bytes().len() as u64)
    }

    fn count(&mut self, keys: Keys<'_>) -> u64 {
        self.select();
        count_where(keys.hashes, |&hash| self.block.may_contain(hash))
    }

    fn count_batch(&mut self, keys: Keys<'_>) -> Option<u64> {
        self.select();
        let block = &self.block;
        Some(count_batches(keys.hashes, &mut self.matches, |batch, matches| block.may_contain_batch(batch, matches)))
    }
}
