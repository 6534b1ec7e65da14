//! Exercises tables of other engines: any bytes, and tables that the engines wrote, changed and sealed again, so that
//! inputs reach the code behind the checksums.

use bytes::Bytes;
use sstfilter::Probe;
use sstfilter_interop::{BlockState, Error, ForeignTable, KeyBatch, Manifest, Part};

use crate::random::Random;

/// A compressed block may have a thousand times its bytes; no more keys than this are listed of one input.
const MAX_KEYS: usize = 4_096;
/// Rounds of sealing. Wrong checksums are found one after the other: footer, metaindex, properties, then all others at
/// once.
const MAX_SEALS: usize = 6;
/// A block of a manifest has 32 KiB, of which a record's header takes seven bytes.
const MAX_RECORD_BYTES: usize = (32 << 10) - 7;
/// The footer of RocksDB, in which the checksum lies behind five bytes.
const ROCKSDB_FOOTER_BYTES: usize = 53;

/// Opens a table and exercises it in every way. Also parses the bytes as a manifest, and as one of its records.
pub fn exercise(bytes: &[u8]) {
    for manifest in [bytes, &manifest_of(bytes)] {
        if let Ok(manifest) = Manifest::parse(manifest) {
            let families: Vec<_> = manifest.column_families().map(|family| family.id).collect();
            assert!(manifest.files().all(|(_, file)| families.contains(&file.column_family)), "{manifest:?}");
        }
    }
    let Ok(table) = ForeignTable::open(Bytes::copy_from_slice(bytes)) else { return };
    // For tables that name no comparator, such as LevelDB's, whose order cannot be forged.
    let table = table.with_comparator("leveldb.BytewiseComparator").with_unchecked_filter();
    let _ = (table.engine(), table.format_version(), table.checksum_type(), table.has_range_tombstones());
    for (name, value) in table.properties().readable() {
        let _ = format!("{name} = {value}");
    }
    let listed: Vec<_> = table.user_keys().take(MAX_KEYS).collect();
    let is_whole = listed.len() < MAX_KEYS && listed.iter().all(Result::is_ok);
    let keys: Vec<Vec<u8>> = listed.into_iter().flatten().collect();
    if let Ok(info) = table.filter_info() {
        assert!(info.bytes <= bytes.len() as u64);
        assert!(info.expected_fpr.is_none_or(|rate| (0.0..=1.000_001).contains(&rate)), "{info:?}");
    }
    let absent = probe(&table, &keys);
    let report = table.verify();
    assert!(report.blocks.len() <= bytes.len(), "no block is shorter than its trailer");
    // Without filter there is nothing to check keys against.
    let has_filter = table.try_probe(b"") != Err(Error::NoFilter);
    if is_whole && has_filter && report.keys_unchecked.is_none() {
        assert_eq!(report.keys_checked, keys.len() as u64);
        // An absent prefix also loses its key, so `verify` may count more.
        assert!(report.keys_lost >= absent, "{} of {absent}", report.keys_lost);
    }
}

/// Returns a manifest whose only record is `edit`, with its checksum.
fn manifest_of(edit: &[u8]) -> Vec<u8> {
    let edit = &edit[..edit.len().min(MAX_RECORD_BYTES)];
    // The type of a record that is in one piece.
    let typed = [&[1], edit].concat();
    let checksum = crc32c::crc32c(&typed).rotate_right(15).wrapping_add(0xa282_ead8);
    let length = u16::try_from(edit.len()).unwrap_or(u16::MAX);
    [&checksum.to_le_bytes()[..], &length.to_le_bytes(), &typed].concat()
}

/// Checks that single probes and batches agree. Returns the number of absent keys.
fn probe(table: &ForeignTable<Bytes>, keys: &[Vec<u8>]) -> u64 {
    let strangers: [&[u8]; 5] = [b"", b"key", b"\0\0\0\0\0\0\0\0", b"\xff\xff", b"00012345"];
    let batch = KeyBatch::new(keys.iter().map(Vec::as_slice).chain(strangers));
    let answers = table.probe_batch(&batch);
    let mut absent = 0;
    for (number, (key, answer)) in batch.keys().iter().zip(&answers.answers).enumerate() {
        let single = table.probe(key);
        assert_eq!(*answer, single, "{}", key.escape_ascii());
        absent += u64::from(number < keys.len() && single == Probe::Absent);
        let _ = table.probe_prefix(key);
    }
    absent
}

/// Mutates as libFuzzer does, or changes bytes of one block, and mostly seals the table again.
pub fn mutate(
    data: &mut [u8],
    size: usize,
    max_size: usize,
    seed: u32,
    fallback: impl Fn(&mut [u8], usize, usize) -> usize,
) -> usize {
    let mut random = Random::new(seed);
    let size = if random.once_in(4) {
        fallback(data, size, max_size)
    } else {
        change_some_bytes(&mut data[..size], &mut random);
        size
    };
    if !random.once_in(8) {
        seal(&mut data[..size]);
    }
    size
}

/// Changes bytes, mostly in the last kilobyte, which contains everything except data blocks.
fn change_some_bytes(bytes: &mut [u8], random: &mut Random) {
    let length = bytes.len();
    for _ in 0..=random.below(3) {
        let reach = if random.once_in(4) { length } else { length.min(1_024) };
        if reach == 0 {
            return;
        }
        let place = length - 1 - random.below(reach);
        match random.below(3) {
            0 => bytes[place] ^= 1 << random.below(8),
            1 => bytes[place] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
            _ => bytes[place] = random.below(256) as u8,
        }
    }
}

/// Repairs each checksum with the value that the reader expects.
pub fn seal(bytes: &mut [u8]) {
    for _ in 0..MAX_SEALS {
        let wrong = match ForeignTable::open(Bytes::copy_from_slice(bytes)) {
            Err(Error::Checksum { part: Part::Footer, found, .. }) => {
                let start = bytes.len() - ROCKSDB_FOOTER_BYTES + 5;
                vec![(start, found)]
            }
            Err(Error::Checksum { offset, found, .. }) => match metaindex_bytes(bytes) {
                Some(length) => vec![(offset as usize + length + 1, found)],
                None => return,
            },
            Err(_) => return,
            Ok(table) => table.verify().blocks.iter().filter_map(checksum_of).collect(),
        };
        if wrong.is_empty() {
            return;
        }
        for (place, checksum) in wrong {
            if let Some(stored) = bytes.get_mut(place..place + 4) {
                stored.copy_from_slice(&checksum.to_le_bytes());
            }
        }
    }
}

/// Returns the position of a block's checksum and its correct value, if it is wrong.
fn checksum_of(block: &sstfilter_interop::BlockReport) -> Option<(usize, u32)> {
    match block.state {
        BlockState::Damaged(Error::Checksum { found, offset, .. }) if offset == block.offset => {
            Some(((block.offset + block.bytes) as usize - 4, found))
        }
        _ => None,
    }
}

/// The length of the metaindex, as the footer says it.
fn metaindex_bytes(bytes: &[u8]) -> Option<usize> {
    let footer = bytes.last_chunk::<ROCKSDB_FOOTER_BYTES>()?;
    let handles =
        if footer.ends_with(&0xdb47_7524_8b80_fb57_u64.to_le_bytes()) { &footer[5..45] } else { &footer[1..41] };
    if handles.starts_with(&[0x3e, 0, 0x7a, 0]) {
        return Some(u32::from_le_bytes(*handles[12..].first_chunk()?) as usize);
    }
    let mut numbers = handles.split_inclusive(|byte| *byte < 0x80);
    let size = numbers.nth(1)?;
    Some(size.iter().rev().fold(0, |number: usize, byte| number.wrapping_shl(7) | usize::from(byte & 0x7f)))
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Error, ForeignTable, Manifest, checksum_of, exercise, manifest_of, seal};

    #[test]
    fn a_table_that_is_changed_and_sealed_again_has_only_right_checksums() {
        for file in ["rocksdb/11.8-bloom-7-keys.sst", "rocksdb/7.8-bloom-7-keys.sst", "leveldb/7-keys.ldb"] {
            let path = format!("{}/../crates/interop/fixtures/{file}", env!("CARGO_MANIFEST_DIR"));
            let mut bytes = std::fs::read(path).expect("a fixture");
            let original = bytes.clone();
            seal(&mut bytes);
            assert_eq!(bytes, original, "{file}");
            bytes[20] ^= 0x10;
            seal(&mut bytes);
            assert_ne!(bytes[21..], original[21..], "{file}");
            let table = ForeignTable::open(Bytes::from(bytes.clone())).expect("a table");
            assert_eq!(table.verify().blocks.iter().filter_map(checksum_of).count(), 0, "{file}");
            exercise(&bytes);
        }
    }

    #[test]
    fn a_record_reaches_the_fields_of_a_manifest() {
        // The comparator, the next file number, and a field that is not known.
        let named = Manifest::parse(&manifest_of(b"\x01\x03cmp\x03\x09")).expect("a manifest");
        assert_eq!(named.comparator(), Some("cmp"));
        assert!(matches!(Manifest::parse(&manifest_of(b"\x92\x03")), Err(Error::Unsupported { .. })));
    }
}
