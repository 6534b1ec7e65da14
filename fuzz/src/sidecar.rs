//! Exercises sidecars: any bytes, and these bytes under valid checksums, opened for their table and for others.

use bytes::Bytes;
use sstfilter::FileId;
use sstfilter_store::{FilterMetadata, FilterStore, TableIdentity};

use crate::metadata;

/// Opens the bytes as a sidecar, unchanged, and under checksums that hold.
pub fn exercise(bytes: &[u8]) {
    open(bytes);
    open(&sealed(bytes));
}

/// The bytes with the magic numbers, a length of the filters that fits, one hash and file, and checksums that hold.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let Some(at) = bytes.len().checked_sub(60) else { return out };
    let (body, end) = out.split_at_mut(at);
    let metadata_bytes = u32::from_le_bytes([end[36], end[37], end[38], end[39]]);
    if let Some(filters) = body.len().checked_sub(metadata_bytes as usize) {
        end[..8].copy_from_slice(&(filters as u64).to_le_bytes());
        let (filters, metadata) = body.split_at_mut(filters);
        metadata::seal_covered(metadata, filters);
        if let Some(header) = metadata.first_chunk::<44>() {
            end[20..36].copy_from_slice(&header[8..24]);
            end[49..52].fill(0);
            end[52] = header[24] << 4;
        }
        end[40..44].copy_from_slice(&crc32c::crc32c(metadata).to_le_bytes());
    }
    end[53..56].copy_from_slice(b"\x11SC");
    let sum = crc32c::crc32c(&end[..56]);
    end[56..].copy_from_slice(&sum.to_le_bytes());
    out
}

/// Opens untrusted bytes and exercises them in every way.
fn open(bytes: &[u8]) {
    let length = bytes.len() as u64;
    let opened = FilterMetadata::of_any_sidecar(bytes, length);
    let Ok(tail_bytes) = FilterMetadata::sidecar_tail_bytes(bytes) else {
        assert!(opened.is_err(), "a tail of no length");
        return;
    };
    let Ok((metadata, table)) = opened else { return };
    let filters = bytes.len() - usize::try_from(tail_bytes).expect("it is in memory");
    let (filters, tail) = bytes.split_at(filters);
    let of_tail = FilterMetadata::of_any_sidecar(tail, length);
    assert_eq!(of_tail, Ok((metadata.clone(), table)), "the tail alone says the same");
    assert_eq!(FilterMetadata::decode(&metadata.encode()).as_ref(), Ok(&metadata), "written and read");
    assert_opens_for_its_table_alone(&metadata, table, tail, length);
    let file = FilterStore::default().open(metadata, Bytes::copy_from_slice(filters));
    for key in bytes.chunks(7).take(50) {
        let _ = (file.probe(key), file.may_contain_prefix(key), file.may_contain_range(key..=key));
    }
}

fn assert_opens_for_its_table_alone(metadata: &FilterMetadata, table: TableIdentity, tail: &[u8], length: u64) {
    assert_eq!(FilterMetadata::of_sidecar(tail, length, &table).as_ref(), Ok(metadata));
    let others = [
        TableIdentity::new(FileId::from_fingerprint(table.file.fingerprint() ^ 1), table.bytes, table.checksum),
        TableIdentity::new(table.file, table.bytes ^ 1, table.checksum),
        TableIdentity::new(table.file, table.bytes, table.checksum ^ 1),
    ];
    let is_refused = |other| FilterMetadata::of_sidecar(tail, length, other).is_err();
    assert!(others.iter().all(is_refused), "a sidecar of another table is used");
    assert!(FilterMetadata::of_sidecar(tail, length ^ 1, &table).is_err(), "a sidecar of another length is used");
}
