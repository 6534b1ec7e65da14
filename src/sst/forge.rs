//! For tests: wrong contents under valid checksums.

use bytes::Bytes;

use super::format::{BLOCK_TRAILER_BYTES, BlockHandle, FOOTER_BYTES, bound_checksum};
use super::{ReadOptions, Table};
use crate::codec::checksum;

/// The table in `bytes` with other contents, of the same length, in the block that `handle` names, and with every
/// checksum that depends on them.
pub(crate) fn forged(bytes: &[u8], handle: BlockHandle, contents: &[u8]) -> Vec<u8> {
    let table = Table::open_source(Bytes::copy_from_slice(bytes), &ReadOptions::default()).unwrap();
    let (handles, metaindex) = (table.parts.handles, table.parts.footer.metaindex);
    let is_data = handle.offset < table.parts.properties.data_bytes;
    let parents: &[BlockHandle] = if is_data { &[handles.index, metaindex] } else { &[metaindex] };
    let mut out = bytes.to_vec();
    let at = place(handle);
    assert_eq!(contents.len() as u64, handle.contents_bytes);
    out[at..at + contents.len()].copy_from_slice(contents);
    let mut child = handle;
    for &parent in parents {
        let (old, new) = (child.encode(), seal(&mut out, child, &table));
        let found = out[place(parent)..].windows(old.len()).position(|window| window == old).unwrap();
        out[place(parent) + found..][..old.len()].copy_from_slice(&new.encode());
        child = parent;
    }
    let sum = seal(&mut out, metaindex, &table).checksum;
    let footer = out.len() - FOOTER_BYTES;
    out[footer + 44..footer + 48].copy_from_slice(&sum.to_le_bytes());
    let sum = checksum(&out[footer..footer + 52]);
    out[footer + 52..footer + 56].copy_from_slice(&sum.to_le_bytes());
    out
}

/// Writes the checksum behind a block, and returns its new handle.
fn seal(out: &mut [u8], handle: BlockHandle, table: &Table) -> BlockHandle {
    let end = place(handle) + usize::try_from(handle.contents_bytes).unwrap();
    let sum = bound_checksum(&out[place(handle)..end], table.table_id(), handle.offset);
    out[end..end + BLOCK_TRAILER_BYTES].copy_from_slice(&sum.to_le_bytes());
    BlockHandle { checksum: sum, ..handle }
}

fn place(handle: BlockHandle) -> usize {
    usize::try_from(handle.offset).unwrap()
}
