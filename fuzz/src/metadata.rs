//! Forges descriptions of filters, and makes them match the filters that they describe. This module follows docs/format/files.md
//! and shares no code with the library.

use arbitrary::{Result, Unstructured};

/// Bytes of a header.
const HEADER: usize = 44;

/// Bytes that describe one filter.
const SECTION: usize = 28;

/// Repairs the magic number and all checksums of a description of `filters`, including its own checksum at the end.
pub fn seal(metadata: &mut [u8], filters: &[u8]) {
    let Some((covered, sum)) = metadata.split_last_chunk_mut::<4>() else { return };
    seal_covered(covered, filters);
    *sum = crc32c::crc32c(covered).to_le_bytes();
}

/// Repairs a description without its own checksum, as in a table's properties.
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

/// Forges a description of `filter` for a table's properties. It is mostly true: the filter begins the filter bytes of
/// a file of these keys.
pub fn forge(
    input: &mut Unstructured<'_>,
    file: [u8; 8],
    filter: &[u8],
    keys: Option<(&[u8], &[u8])>,
) -> Result<Vec<u8>> {
    let has_filter = !filter.is_empty();
    // Keys of entries are shorter than 128 bytes.
    let known = keys.map(|(smallest, largest)| [smallest, largest].map(|key| &key[..key.len().min(127)]));
    let known: Vec<&[u8]> = known.into_iter().flatten().collect();
    let extractors = u8::from(input.ratio(1, 8)?);
    let flags = u8::from(!input.ratio(1, 8)?) | u8::from(keys.is_some()) << 1;
    let mut out = b"SFMD\x01".to_vec();
    out.extend([flags, HEADER as u8, 0]);
    out.extend(file);
    out.extend(sstfilter::DEFAULT_HASH_SEED.to_le_bytes());
    out.extend([1, u8::from(has_filter), extractors, 0, 0, 0, 0, 0]);
    out.extend(input.arbitrary::<u64>()?.to_le_bytes());
    let hasher = sstfilter::KeyHasher::default();
    let hashes: Vec<u8> = known.iter().flat_map(|key| hasher.hash(key).get().to_le_bytes()).collect();
    out.extend(crc32c::crc32c(&hashes).to_le_bytes());
    if has_filter {
        let part = if input.ratio(1, 8)? { input.int_in_range(0..=4)? } else { 1 };
        let index = if part == 2 { input.int_in_range(0..=filter.len() as u32)? } else { 0 };
        out.extend([part, filter.get(filter.len().wrapping_sub(11)).copied().unwrap_or_default(), 0, 0]);
        out.extend(index.to_le_bytes());
        out.extend(0_u64.to_le_bytes());
        out.extend((filter.len() as u64).to_le_bytes());
        out.extend([0; 4]);
    }
    if extractors == 1 {
        out.extend(b"\x0efixed-prefix:4");
        let part = |key: &&[u8]| key.get(..4).map_or(vec![0], |part| [&5_u64.to_le_bytes(), part].concat());
        out.extend(crc32c::crc32c(&known.iter().flat_map(part).collect::<Vec<_>>()).to_le_bytes());
    }
    for key in known {
        out.push(key.len() as u8);
        out.extend(key);
    }
    if input.ratio(1, 12)? {
        let at = input.choose_index(out.len())?;
        out[at] = input.arbitrary()?;
    }
    seal_covered(&mut out, filter);
    Ok(out)
}
