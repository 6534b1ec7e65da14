//! Our kinds for files, as an engine uses them.

use bytes::Bytes;
use sstfilter::kind::{self, KindEntry};
use sstfilter::simd::{self, InstructionSet};
use sstfilter::{
    BitsPerKey, BuildContext, FalsePositiveRate, FilterBlock, FixedPolicy, KeyHash, KeyHasher, MatchBitmap, Sizing,
};

use super::{CUCKOO_ELEVEN, IsaChoice};
use crate::keys::Keys;
use crate::subject::{BuildError, Family, Filter, Label, Subject, count_batches, count_where};

/// The crate's name in the records.
pub const NAME: &str = "sstfilter";

/// Name in the records, name in the table of kinds, size. The first of a kind represents it in the advice: of the
/// measured sizes, the one nearest to 1 %.
fn kinds() -> [(&'static str, &'static str, Sizing); 17] {
    let bits = |bits| BitsPerKey::new(bits).expect("in range").into();
    let (one_percent, fingerprints) = (FalsePositiveRate::ONE_PERCENT.into(), Sizing::FingerprintBits);
    [
        ("blocked Bloom, 10 bits", "bloom", bits(10.0)),
        ("blocked Bloom, 16 bits", "bloom", bits(16.0)),
        ("blocked Bloom, 20 bits", "bloom", bits(20.0)),
        ("standard Bloom, 10 bits", "standard-bloom", bits(10.0)),
        ("counting Bloom, 1 %", "counting-bloom", one_percent),
        ("Ribbon, 2^-7", "ribbon", fingerprints(7)),
        ("Ribbon, 1 %", "ribbon", one_percent),
        ("Ribbon, 2^-8", "ribbon", fingerprints(8)),
        ("Ribbon, 2^-16", "ribbon", fingerprints(16)),
        ("line ribbon, load 90", "line-ribbon", fingerprints(8)),
        ("line ribbon, load 105", "line-ribbon", bits(8.6)),
        ("BinaryFuse 3-wise, 8", "binary-fuse", fingerprints(8)),
        ("BinaryFuse 4-wise, 8", "binary-fuse-4", fingerprints(8)),
        ("BinaryFuse 3-wise, 16", "binary-fuse", fingerprints(16)),
        ("Xor, 8", "xor", fingerprints(8)),
        ("Xor+, 8", "xor+", fingerprints(8)),
        ("Xor+, 16", "xor+", fingerprints(16)),
    ]
}

/// Kinds that are also measured in use: name in the records, name in the table of kinds, size.
pub const IN_USE: [(&str, &str, Sizing); 3] = [
    ("blocked Bloom, 10 bits", "bloom", Sizing::BitsPerKey(BitsPerKey::TEN)),
    ("Ribbon, 2^-7", "ribbon", Sizing::FingerprintBits(7)),
    ("BinaryFuse 3-wise, 8", "binary-fuse", Sizing::FingerprintBits(8)),
];

/// Returns the name of the record that represents a kind in the advice.
pub fn record_name(kind: &str) -> &str {
    match kind {
        "register-blocked-bloom" => "register-blocked Bloom",
        "cuckoo" => CUCKOO_ELEVEN,
        _ => kinds().iter().find(|(_, name, _)| *name == kind).map_or(kind, |(record, ..)| record),
    }
}

/// All our kinds, for one or for each instruction set.
pub fn subjects(isa: IsaChoice) -> Vec<Box<dyn Subject>> {
    let sets = isa.sets();
    let of_kind = |(kind, name, size)| sets.iter().map(move |&isa| subject(kind, name, size, isa));
    // A kind without a record of another name is measured under its own.
    let others = kind::all().iter().filter(|entry| record_name(entry.name) == entry.name);
    let others = others.map(|entry| (entry.name, entry.name, FalsePositiveRate::ONE_PERCENT.into()));
    kinds().into_iter().chain(others).flat_map(of_kind).collect()
}

/// One policy, made once, as a store does, with one set of kernels.
fn subject(kind: &'static str, name: &str, size: Sizing, isa: Option<InstructionSet>) -> Box<dyn Subject> {
    let policy = policy(name, size).expect("a kind at a size that it has");
    let family = if name.ends_with("bloom") { Family::Bloom } else { Family::Static };
    let label = Label { isa: isa.map(InstructionSet::name), ..Label::of(NAME, kind, family, kind) };
    label.built_by(move |keys| {
        let isa = isa.unwrap_or_else(InstructionSet::fastest);
        simd::select(isa)?;
        let block = block_of(&policy, keys.hashes)?;
        Ok(Box::new(Built { block, isa, matches: MatchBitmap::default() }))
    })
}

fn policy(kind: &str, size: Sizing) -> Result<FixedPolicy, BuildError> {
    Ok(KindEntry::named(kind).ok_or("no such kind")?.configure(size)?)
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
    block_of(&policy(kind, size)?, hashes)
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
