//! Every policy, and the two ways of having none.

use std::sync::Arc;

use bytes::Bytes;
use sstfilter::{
    AutoPolicy, BitsPerKey, BloomPolicy, BuildContext, BuildReport, BuiltFilter, CountingBloom, CuckooFilter,
    FilterBuilder, FilterKind, FilterPolicy, FuseArity, FusePolicy, FuseSizing, HashIdentity, KeyHash, KeyHasher,
    SelfCheck, StandardBloomPolicy, TwoBitBloom, TwoBitOptions,
};

/// Wants no filter for any file.
#[derive(Debug)]
pub(crate) struct Declining;

impl FilterPolicy for Declining {
    fn name(&self) -> &'static str {
        "declining"
    }

    fn builder(&self, _: &BuildContext) -> Option<Box<dyn FilterBuilder>> {
        None
    }
}

/// Filters of the kinds that take keys while they are in use, of a file's keys.
#[derive(Clone, Copy, Debug)]
struct InUse(FilterKind);

impl FilterPolicy for InUse {
    fn name(&self) -> &'static str {
        "in-use"
    }

    fn builder(&self, context: &BuildContext) -> Option<Box<dyn FilterBuilder>> {
        Some(Box::new(InUseBuilder { kind: self.0, hasher: context.hasher.clone(), hashes: vec![] }))
    }
}

#[derive(Debug)]
struct InUseBuilder {
    kind: FilterKind,
    hasher: KeyHasher,
    hashes: Vec<KeyHash>,
}

impl InUseBuilder {
    fn block(&self, hash: HashIdentity) -> Bytes {
        let count = self.hashes.len().max(1) as u64;
        match self.kind {
            FilterKind::COUNTING_BLOOM => {
                let mut filter = CountingBloom::with_shape(hash, count * 10, 7).unwrap();
                filter.insert_all(&self.hashes);
                filter.to_block().unwrap()
            }
            FilterKind::CUCKOO => {
                let mut filter = CuckooFilter::with_tag_bits(hash, count, 12).unwrap();
                filter.insert_all(&self.hashes).unwrap();
                filter.to_block().unwrap()
            }
            _ => {
                let filter = TwoBitBloom::new(hash, TwoBitOptions::default().with_bytes(256).unwrap()).unwrap();
                self.hashes.iter().for_each(|&hash| {
                    filter.insert(hash);
                });
                filter.to_block().unwrap()
            }
        }
    }
}

impl FilterBuilder for InUseBuilder {
    fn add_key(&mut self, key: &[u8]) {
        self.add_hash(self.hasher.hash(key));
    }

    fn add_hash(&mut self, hash: KeyHash) {
        self.hashes.push(hash);
    }

    fn estimated_bytes(&self) -> u64 {
        self.hashes.len() as u64 * 5
    }

    fn finish(mut self: Box<Self>) -> BuiltFilter {
        self.hashes.sort_unstable_by_key(|hash| hash.get());
        self.hashes.dedup();
        let mut report = BuildReport::new(self.kind);
        report.used = Some(self.kind);
        BuiltFilter::new(Some(self.block(self.hasher.identity())), report)
    }
}

/// Filters of every kind, some of them so small that they let much through; `None` is a
/// table that is written without.
pub(crate) fn every_policy() -> Vec<Option<Arc<dyn FilterPolicy>>> {
    let bits = |bits| BitsPerKey::new(bits).unwrap();
    let fuse = |bits, arity| FusePolicy::new(FuseSizing::FingerprintBits(bits)).unwrap().with_arity(arity);
    let mut policies: Vec<Arc<dyn FilterPolicy>> = vec![
        Arc::new(Declining),
        Arc::new(BloomPolicy::new(bits(3.0))),
        Arc::new(BloomPolicy::new(bits(10.0)).with_self_check(SelfCheck::On)),
        Arc::new(BloomPolicy::new(bits(20.0))),
        Arc::new(StandardBloomPolicy::new(bits(4.0))),
        Arc::new(StandardBloomPolicy::new(bits(12.0))),
        Arc::new(AutoPolicy::new(bits(10.0)).unwrap()),
        Arc::new(super::ribbon(0.01)),
        Arc::new(super::ribbon(0.3)),
        Arc::new(fuse(4, FuseArity::Three)),
        Arc::new(fuse(8, FuseArity::Four)),
        Arc::new(fuse(32, FuseArity::Three)),
    ];
    policies.extend(super::xor_policies().into_iter().map(|policy| Arc::new(policy) as Arc<dyn FilterPolicy>));
    let in_use = [FilterKind::COUNTING_BLOOM, FilterKind::CUCKOO, FilterKind::TWO_BIT_BLOOM];
    policies.extend(in_use.map(|kind| Arc::new(InUse(kind)) as Arc<dyn FilterPolicy>));
    [None].into_iter().chain(policies.into_iter().map(Some)).collect()
}
