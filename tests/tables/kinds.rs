//! Tables whose filters are of a user's kind. The failure guarded against: the kind is registered, and tables are read
//! without their filters all the same.

use std::sync::Arc;

use bytes::Bytes;
use sstfilter::kind::{
    Abilities, BuildFailure, BuildLimits, BuiltPayload, EncodedShape, FilterShape, Kind, NotStreamed, ParamWords,
    Payload, ShapeFields,
};
use sstfilter::sst::{FilterVerdict, Lookup, ReadOptions, Table, TableBuilder, TableOptions, TableSet};
use sstfilter::{BlockError, ConfigError, FallbackReason, FilterKind, KeyHash, KindPolicy, KindRegistry, Sizing};

/// The hashes themselves, 8 bytes each.
#[derive(Clone, Copy, Debug)]
struct Hashes;

#[derive(Clone, Copy, Debug)]
struct Count(u32);

impl FilterShape for Count {
    const KIND: FilterKind = FilterKind::from_code(210);

    fn decode(encoded: &EncodedShape) -> Result<Self, BlockError> {
        match encoded.params.as_slice() {
            &[count] => Ok(Self(count)),
            other => Err(BlockError::Field { field: "parameter words", expected: "1", got: other.len() as u64 }),
        }
    }

    fn params(&self) -> ParamWords {
        [self.0].into_iter().collect()
    }

    fn payload_bytes(&self) -> u64 {
        u64::from(self.0) * 8
    }

    fn expected_fpr(&self, _keys: u64) -> f64 {
        0.0
    }

    fn describe(&self) -> ShapeFields {
        ShapeFields::default()
    }

    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool {
        payload.as_chunks().0.iter().any(|&bytes| u64::from_le_bytes(bytes) == hash.get())
    }
}

impl Kind for Hashes {
    type Shape = Count;
    type Stream = NotStreamed;

    const NAME: &'static str = "hashes";
    const ABILITIES: Abilities = Abilities::STATIC;

    fn configure(_: Sizing) -> Result<Self, ConfigError> {
        Ok(Self)
    }

    fn plan(&self, keys: u64) -> Result<Count, FallbackReason> {
        u32::try_from(keys).map(Count).map_err(|_| FallbackReason::TooManyKeys)
    }

    fn build_bytes(&self, _keys: u64, _plan: &Count) -> u64 {
        0
    }

    fn build(&self, plan: &Count, hashes: &[KeyHash], _: BuildLimits) -> Result<BuiltPayload<Count>, BuildFailure> {
        let bytes: Vec<u8> = hashes.iter().flat_map(|hash| hash.get().to_le_bytes()).collect();
        Ok(BuiltPayload::new(*plan, Payload::copy_of(&bytes).ok_or(BuildFailure::NoMemory)?))
    }
}

/// Keys in their order.
fn bytes_of(key: u32) -> Vec<u8> {
    format!("{key:04}").into_bytes()
}

#[test]
fn a_filter_of_a_users_kind_is_probed_if_the_reader_knows_the_kind() {
    let mut builder =
        TableBuilder::new(Vec::new(), &TableOptions::default().with_policy(Arc::new(KindPolicy::new(Hashes)))).unwrap();
    for key in (0..1_000_u32).step_by(2) {
        builder.add(&bytes_of(key), b"value").unwrap();
    }
    let bytes = Bytes::from(builder.finish().unwrap().0);

    let kinds = KindRegistry::default().with_kind::<Hashes>().unwrap();
    let open = |options: &ReadOptions| Table::open_source(bytes.clone(), options).unwrap();
    let known = open(&ReadOptions::default().with_kinds(kinds));
    let unknown = open(&ReadOptions::default());
    assert!(known.filter_problem().is_none() && unknown.filter_problem().is_some());
    for key in 0..999_u32 {
        let found = known.get(&bytes_of(key)).unwrap();
        assert_eq!(found == Lookup::Absent, key % 2 == 1);
        assert_eq!(found, unknown.get(&bytes_of(key)).unwrap());
    }
    assert_eq!((known.stats().filter.negatives, known.stats().filter.true_positives), (499, 500));
    assert_eq!((unknown.stats().filter.negatives, unknown.stats().filter.unusable), (0, 999));
    assert_eq!(known.verify().unwrap().filter, FilterVerdict::ContainsAll { keys: 500 });
    assert!(matches!(unknown.verify().unwrap().filter, FilterVerdict::NotProbed { .. }));

    let set = TableSet::new(vec![known]).unwrap();
    assert!((0..999_u32).all(|key| set.get(&bytes_of(key)).unwrap().is_some() == (key % 2 == 0)));
    assert_eq!(set.stats().skipped_by_filter, 499);
}
