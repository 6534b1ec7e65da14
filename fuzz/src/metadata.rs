//! Makes descriptions of filters match the filters that they describe. This module follows docs/format/files.md
//! and shares no code with the library.

/// Bytes of a header.
const HEADER: usize = 44;

/// Bytes that describe one filter.
const SECTION: usize = 28;

/// Repairs the magic number and the checksums of a description of `filters`, without its own checksum.
pub fn seal_covered(metadata: &mut [u8], filters: &[u8]) {
    let Some((header, sections)) = metadata.split_at_mut_checked(HEADER) else { return };
    header[..4].copy_from_slice(b"SFMD");
    sections.chunks_exact_mut(SECTION).take(header[25].into()).for_each(|section| seal_section(section, filters));
}

/// Repairs one section. A filter's checksum excludes its last four bytes; a partitioned filter's covers only the top
/// index.
fn seal_section(section: &mut [u8], filters: &[u8]) {
    let number = |at: usize| section[at..].first_chunk().map(|&bytes| u64::from_le_bytes(bytes) as usize);
    let index = u32::from_le_bytes([section[4], section[5], section[6], section[7]]) as usize;
    let (Some(offset), Some(bytes)) = (number(8), number(16)) else { return };
    let filter = offset.checked_add(bytes).and_then(|end| filters.get(offset..end)).unwrap_or_default();
    let start = if index == 0 { 0 } else { filter.len().saturating_sub(index) };
    let summed = filter.get(start..filter.len().saturating_sub(4)).unwrap_or_default();
    section[24..28].copy_from_slice(&crc32c::crc32c(summed).to_le_bytes());
}
