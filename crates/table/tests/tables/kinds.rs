//! Tables with filters of a user-defined kind. The failure guarded against: the kind is registered, but tables are
//! still read without their filters.

use std::sync::Arc;

use sstfilter::kind::{EncodedShape, UserKind};
use sstfilter::{BlockError, FallbackReason, FixedPolicy, KeyHash, KindId, KindRegistry};
use sstfilter_table::{FilterVerdict, Lookup, TableOptions};

use crate::{key as key_of, of_keys, open, sidecar};

/// A filter kind that stores the hashes, 8 bytes each.
#[derive(Debug)]
struct Hashes;

impl UserKind for Hashes {
    fn id(&self) -> KindId {
        KindId::from_code(210)
    }

    fn name(&self) -> &'static str {
        "hashes"
    }

    fn plan(&self, keys: u64) -> Result<EncodedShape, FallbackReason> {
        Ok(EncodedShape::new(&[], keys * 8))
    }

    fn build(&self, plan: &EncodedShape, hashes: &[KeyHash]) -> Result<(EncodedShape, Vec<u8>), FallbackReason> {
        Ok((*plan, hashes.iter().flat_map(|hash| hash.get().to_le_bytes()).collect()))
    }

    fn payload_bytes(&self, shape: &EncodedShape) -> Result<u64, BlockError> {
        Ok(shape.keys * 8)
    }

    fn expected_fpr(&self, _: &EncodedShape) -> f64 {
        0.0
    }

    fn may_contain(&self, _: &EncodedShape, payload: &[u8], hash: KeyHash) -> bool {
        payload.as_chunks().0.iter().any(|&bytes| u64::from_le_bytes(bytes) == hash.get())
    }
}

#[test]
fn a_filter_of_a_users_kind_is_probed_if_the_reader_knows_the_kind() {
    let options = TableOptions::default().with_policy(Arc::new(FixedPolicy::user_defined(Hashes).unwrap()));
    let bytes = crate::bytes_of(&of_keys((0..1_000).step_by(2).map(key_of)), &options);
    let kinds = KindRegistry::default().with_kind(Hashes).unwrap();
    let known = open(&bytes, &TableOptions::default().with_kinds(kinds));
    let unknown = open(&bytes, &TableOptions::default());
    assert!(known.filter_problem().is_none() && unknown.filter_problem().is_some());
    for key in 0..999_u32 {
        let found = known.get(&key_of(key)).unwrap();
        assert_eq!(found == Lookup::Absent, key % 2 == 1);
        assert_eq!(found, unknown.get(&key_of(key)).unwrap());
    }
    assert_eq!((known.stats().filters.filter.negatives, known.stats().filters.filter.true_positives), (499, 500));
    assert_eq!((unknown.stats().filters.filter.negatives, unknown.stats().filters.filter.unusable), (0, 999));
    assert_eq!(known.verify().unwrap().filter, FilterVerdict::ContainsAll { keys: 500 });
    assert!(matches!(unknown.verify().unwrap().filter, FilterVerdict::NotProbed { .. }));

    let set = crate::set_of(vec![known]);
    assert!((0..999_u32).all(|key| set.get(&key_of(key)).unwrap().is_some() == (key % 2 == 0)));
    assert_eq!(set.stats().filters.filter.negatives, 499);

    // A sidecar of a kind that the reader does not know is no damage.
    let sidecar = sidecar::built(&bytes, &TableOptions::default(), &options);
    let table = sidecar::open(&sidecar::files(&bytes, sidecar), TableOptions::default());
    assert!(!table.uses_sidecar() && table.sidecar_problem().is_some());
    assert!(matches!(table.verify().unwrap().sidecar, FilterVerdict::NotProbed { .. }));
}
