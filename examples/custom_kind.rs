//! A user-defined kind of filter: a sorted list of the first 32 bits of each hash, with binary search. It takes 32 bits
//! per key, and its false positive rate is keys / 2^32.
//!
//! The unchanged library builds, loads, probes, inspects and verifies its blocks:
//!
//! ```sh
//! cargo run --release --example custom_kind
//! ```

use std::error::Error;

use sstfilter::kind::{EncodedShape, UserKind};
use sstfilter::{BlockError, FallbackReason, FileId, FilterBlock, Filters, FixedPolicy, KeyHash, KindId, KindRegistry};

/// The kind, which has no settings. A block records one parameter, the number of fingerprints.
#[derive(Debug)]
struct SortedList;

/// The high bits of a hash, so that fingerprints ascend like hashes.
fn fingerprint(hash: KeyHash) -> u32 {
    let [.., fifth, sixth, seventh, eighth] = hash.get().to_le_bytes();
    u32::from_le_bytes([fifth, sixth, seventh, eighth])
}

fn fingerprints(shape: &EncodedShape) -> u32 {
    shape.params().first().copied().unwrap_or(0)
}

/// Payloads must be whole words of 8 bytes.
fn payload_bytes(fingerprints: u32) -> u64 {
    (u64::from(fingerprints) * 4).next_multiple_of(8)
}

impl UserKind for SortedList {
    /// A number from the range reserved for user-defined kinds.
    fn id(&self) -> KindId {
        KindId::from_code(200)
    }

    fn name(&self) -> &'static str {
        "sorted-list"
    }

    fn plan(&self, keys: u64) -> Result<EncodedShape, FallbackReason> {
        let fingerprints = u32::try_from(keys).map_err(|_| FallbackReason::TooManyKeys)?;
        Ok(EncodedShape::new(&[fingerprints], payload_bytes(fingerprints)))
    }

    /// The hashes are distinct and ascending.
    fn build(&self, plan: &EncodedShape, hashes: &[KeyHash]) -> Result<(EncodedShape, Vec<u8>), FallbackReason> {
        let mut bytes: Vec<u8> = hashes.iter().flat_map(|&hash| fingerprint(hash).to_le_bytes()).collect();
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        Ok((*plan, bytes))
    }

    fn payload_bytes(&self, shape: &EncodedShape) -> Result<u64, BlockError> {
        let &[fingerprints] = shape.params() else {
            let (field, expected) = ("parameter words", "1 for a sorted list");
            return Err(BlockError::Field { field, expected, got: shape.params().len() as u64 });
        };
        Ok(payload_bytes(fingerprints))
    }

    fn expected_fpr(&self, shape: &EncodedShape) -> f64 {
        shape.keys as f64 / 2.0_f64.powi(32)
    }

    fn describe(&self, shape: &EncodedShape) -> Vec<(&'static str, String)> {
        vec![("fingerprints", fingerprints(shape).to_string())]
    }

    fn may_contain(&self, shape: &EncodedShape, payload: &[u8], hash: KeyHash) -> bool {
        let all = payload.as_chunks::<4>().0.get(..fingerprints(shape) as usize);
        // A payload that lacks some of them cannot answer, so the key may be present.
        all.is_none_or(|all| all.binary_search_by_key(&fingerprint(hash), |&bytes| u32::from_le_bytes(bytes)).is_ok())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = FileId::random();
    let key = |number: u32| number.to_le_bytes();

    // A policy builds the filter, and the block is stored.
    let kinds = KindRegistry::default().with_kind(SortedList)?;
    let filters = Filters::new(FixedPolicy::user_defined(SortedList)?).with_kinds(kinds.clone());
    let mut builder = filters.builder(file);
    (0..100_000).for_each(|number| builder.add_key(&key(number)));
    let built = builder.finish();
    println!("{:.2} bits per key, {:.1e} false positives", built.report.bits_per_key(), built.report.expected_fpr);
    let path = std::env::temp_dir().join(format!("custom_kind-{}.filter", std::process::id()));
    std::fs::write(&path, built.block.ok_or("a list of these keys fits")?)?;

    // A reader whose registry contains the kind loads the block and probes it.
    let mut bytes = std::fs::read(&path)?;
    std::fs::remove_file(&path)?;
    let filter = filters.load(Some(&bytes), file);
    assert!((0..100_000).all(|number| !filter.probe(&key(number)).is_absent()));
    let absent = (100_000..200_000).filter(|&number| filter.probe(&key(number)).is_absent()).count();
    println!("of 100,000 absent keys {absent} are answered \"absent\"");

    // Tools verify and inspect the block.
    let block = FilterBlock::open_unverified_with_kinds(&bytes, &kinds)?;
    block.verify()?;
    let name = kinds.name(block.info().kind).unwrap_or("unknown");
    println!("kind {name}: {} keys, {:?}", block.info().keys, block.info().shape);

    // A reader without the registry, and a reader of a damaged block, answer "may be present" for every key.
    let unknown = Filters::default().load(Some(bytes.clone()), file);
    bytes[1_000] ^= 1;
    let damaged = filters.load(Some(bytes), file);
    for filter in [unknown, damaged] {
        assert!(!filter.probe(&key(150_000)).is_absent());
        println!("unusable: {}", filter.problem().ok_or("it should be unusable")?);
    }
    Ok(())
}
