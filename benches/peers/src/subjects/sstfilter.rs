//! Ours: blocked Bloom, standard Bloom, Ribbon, binary fuse and xor, as an engine would hold them.

use std::cell::OnceCell;

use bytes::Bytes;
use sstfilter::simd::{self, InstructionSet};
use sstfilter::{
    BitsPerKey, BloomPolicy, BuildContext, FalsePositiveRate, FilterBlock, FilterPolicy, FuseArity, FusePolicy,
    FuseSizing, HitBitmap, KeyHasher, RibbonPolicy, RibbonSizing, StandardBloomPolicy, XorLayout, XorPolicy, XorSizing,
    XorWidth,
};

use super::IsaChoice;
use crate::keys::Keys;
use crate::subject::{BATCH_KEYS, BuildError, BuildResult, Family, Filter, HashUse, Label, Subject, count_where};

/// The crate's name in the records.
pub const NAME: &str = "sstfilter";

/// One policy, made once as a store makes it, with one set of kernels.
struct Ours {
    kind: &'static str,
    size: Size,
    policy: OnceCell<Box<dyn FilterPolicy>>,
    isa: Option<InstructionSet>,
}

#[derive(Clone, Copy)]
enum Size {
    Bloom(f64),
    StandardBloom(f64),
    Ribbon(f64),
    Fuse(FuseArity, u8),
    Xor(XorLayout, XorWidth),
}

const KINDS: [(&str, Size); 14] = [
    ("blocked Bloom, 10 bits", Size::Bloom(10.0)),
    ("blocked Bloom, 16 bits", Size::Bloom(16.0)),
    ("blocked Bloom, 20 bits", Size::Bloom(20.0)),
    ("standard Bloom, 10 bits", Size::StandardBloom(10.0)),
    ("Ribbon, 1 %", Size::Ribbon(0.01)),
    ("Ribbon, 2^-7", Size::Ribbon(1.0 / 128.0)),
    ("Ribbon, 2^-8", Size::Ribbon(1.0 / 256.0)),
    ("Ribbon, 2^-16", Size::Ribbon(1.0 / 65_536.0)),
    ("BinaryFuse 3-wise, 8", Size::Fuse(FuseArity::Three, 8)),
    ("BinaryFuse 4-wise, 8", Size::Fuse(FuseArity::Four, 8)),
    ("BinaryFuse 3-wise, 16", Size::Fuse(FuseArity::Three, 16)),
    ("Xor, 8", Size::Xor(XorLayout::Plain, XorWidth::Eight)),
    ("Xor+, 8", Size::Xor(XorLayout::Plus, XorWidth::Eight)),
    ("Xor+, 16", Size::Xor(XorLayout::Plus, XorWidth::Sixteen)),
];

/// All our kinds, for one or for each instruction set.
pub fn subjects(isa: IsaChoice) -> Vec<Box<dyn Subject>> {
    let sets: Vec<_> = match isa {
        IsaChoice::Best => vec![None],
        IsaChoice::All => InstructionSet::available().map(Some).collect(),
    };
    let of_kind = |(kind, size)| {
        sets.iter().map(move |&isa| Box::new(Ours { kind, size, policy: OnceCell::new(), isa }) as Box<dyn Subject>)
    };
    KINDS.into_iter().flat_map(of_kind).collect()
}

impl Ours {
    fn policy(&self) -> Result<&dyn FilterPolicy, BuildError> {
        if self.policy.get().is_none() {
            let policy: Box<dyn FilterPolicy> = match self.size {
                Size::Bloom(bits) => Box::new(BloomPolicy::new(BitsPerKey::new(bits)?)),
                Size::StandardBloom(bits) => Box::new(StandardBloomPolicy::new(BitsPerKey::new(bits)?)),
                Size::Ribbon(rate) => Box::new(RibbonPolicy::new(RibbonSizing::Rate(FalsePositiveRate::new(rate)?))?),
                Size::Fuse(arity, bits) => {
                    Box::new(FusePolicy::new(FuseSizing::FingerprintBits(bits))?.with_arity(arity))
                }
                Size::Xor(layout, width) => Box::new(XorPolicy::new(layout, XorSizing::Width(width))?),
            };
            self.policy.get_or_init(|| policy);
        }
        Ok(self.policy.get().ok_or("no policy")?.as_ref())
    }
}

impl Subject for Ours {
    fn label(&self) -> Label {
        let family = match self.size {
            Size::Bloom(_) | Size::StandardBloom(_) => Family::Bloom,
            Size::Ribbon(_) | Size::Fuse(..) | Size::Xor(..) => Family::Static,
        };
        let isa = self.isa.map(InstructionSet::name);
        Label { implementation: NAME, kind: self.kind, family, hash: HashUse::Given, isa, against: self.kind }
    }

    fn build(&self, keys: Keys<'_>) -> BuildResult {
        let isa = self.isa.unwrap_or_else(InstructionSet::fastest);
        simd::select(isa)?;
        let context = BuildContext::new(&KeyHasher::default()).with_expected_keys(keys.len() as u64);
        let mut builder = self.policy()?.builder(&context).ok_or("the policy declined")?;
        builder.add_hashes(keys.hashes);
        let block = FilterBlock::load(builder.finish().block.ok_or("no filter fits")?, &KeyHasher::default())?;
        Ok(Box::new(Built { block, isa, hits: HitBitmap::default() }))
    }
}

struct Built {
    block: FilterBlock<Bytes>,
    isa: InstructionSet,
    hits: HitBitmap,
}

impl Built {
    /// Another subject may have chosen another set since.
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
            self.block.may_contain_batch(batch, &mut self.hits);
            sum + self.hits.count()
        }))
    }
}
