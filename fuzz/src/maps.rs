//! Exercises file maps: any bytes, and these bytes under checksums that hold.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use sstfilter::{FileId, Filters, KeyHash};
use sstfilter_map::{FileMap, LocalId, Lookups, MapAnswer, MapIndex, MapMerge, MapOptions, WriteSet};

/// Bytes after the covered files: numbers, the map's fingerprint, the trailer.
const END_BYTES: usize = 60;

/// Loads the bytes as a map, unchanged, and under checksums that hold.
pub fn exercise(bytes: &[u8]) {
    load(bytes);
    load(&sealed(bytes));
}

/// The bytes with the magic number, and checksums of the pages and of the end that hold.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let Some(end) = bytes.len().checked_sub(END_BYTES) else { return out };
    let (before, end) = out.split_at_mut(end);
    end[53] = 0x11;
    end[54..56].copy_from_slice(b"SM");
    let files = u32::from_le_bytes([end[36], end[37], end[38], end[39]]) as usize;
    let page_bytes = 1_usize << (end[51] % 16 + 6);
    if let Some(covered) = files.checked_mul(16).and_then(|bytes| before.len().checked_sub(bytes)) {
        end[40..44].copy_from_slice(&crc32c::crc32c(&before[covered..]).to_le_bytes());
        for (number, page) in before[..covered].chunks_exact_mut(page_bytes).enumerate() {
            let at = page_bytes - 32;
            page[at + 12..at + 17].copy_from_slice(&(number as u64).to_le_bytes()[..5]);
            page[at + 20..at + 28].copy_from_slice(&end[20..28]);
            let sum = crc32c::crc32c(&page[..page_bytes - 4]);
            page[page_bytes - 4..].copy_from_slice(&sum.to_le_bytes());
        }
    }
    let sum = crc32c::crc32c(&end[..END_BYTES - 4]);
    end[END_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
    out
}

/// Loads untrusted bytes, and exercises them in every way.
fn load(bytes: &[u8]) {
    let _ = MapIndex::end_bytes(bytes);
    let Ok(map) = FileMap::load_any(bytes) else { return };
    let files = map.index().files().len().max(map.index().writes().len());
    let hashes: Vec<_> = bytes.chunks(5).take(200).map(|chunk| Filters::default().hash(chunk)).collect();
    let single: Vec<_> = hashes.iter().map(|&hash| ids(map.candidates(hash), files)).collect();
    let mut batch = vec![Vec::new(); hashes.len()];
    map.candidates_each(&hashes, |position, found| batch[position] = ids(found, files));
    assert_eq!(single, batch, "a batch answers like single lookups");
    for (&hash, single) in hashes.iter().zip(&single) {
        assert_eq!(&read(map.index(), bytes, hash), single, "parts of a map answer like the whole");
    }
    let _ = map.problems().count();
    let set = WriteSet::new(&[Arc::new(FileMap::load_any(bytes).expect("loaded before"))]);
    for (hash, single) in hashes.iter().zip(&single) {
        for (id, writes) in map.index().writes().iter().enumerate() {
            assert!(!single.contains(&id) || set.of(*hash).may_be_in(*writes), "a set finds what its maps find");
        }
    }
    if let Ok(options) = MapOptions::with_prefix_bits(map.index().prefix_bits()) {
        let mut merge = MapMerge::new(options);
        if merge.add(map.index().clone(), reader(bytes)).is_ok() {
            let _ = merge.finish(FileId::from_fingerprint(1), &mut Vec::new());
        }
    }
}

fn reader<'a>(bytes: &'a [u8]) -> impl Fn(Range<u64>) -> std::io::Result<Cow<'a, [u8]>> + Sync + 'a {
    move |range| Ok(Cow::Borrowed(&bytes[range.start as usize..range.end as usize]))
}

fn ids(found: MapAnswer<'_>, files: usize) -> Vec<usize> {
    match found {
        MapAnswer::Only(ids) => ids.map(LocalId::index).inspect(|&id| assert!(id < files)).collect(),
        MapAnswer::All => (0..files).collect(),
    }
}

/// Looks a hash up by reading parts of the map.
fn read(index: &MapIndex, bytes: &[u8], hash: KeyHash) -> Vec<usize> {
    let files = index.files().len().max(index.writes().len());
    let (mut lookups, mut answer) = (Lookups::new(index, &[hash]), None);
    for _ in 0..3 {
        for read in lookups.reads() {
            let part = index.open(&read, &bytes[read.range().start as usize..read.range().end as usize]).ok();
            lookups.answer(&read, part.as_ref(), |_, found| answer = Some(ids(found, files)));
        }
    }
    answer.expect("a lookup needs at most three reads")
}
