//! `sstf_set`: the filters of many files.

use sstfilter::{BlockError, FilterBlock, FilterSet, KeyHash};

use crate::call::{BlockBytes, ErrorText, Failure, Out, Status, create, file_id, guarded, slice, slice_mut};
use crate::filter::{answer, set_all};
use crate::policy::{NO_HASH, Policy};

/// `sstf_set`.
pub(crate) struct Set(FilterSet<BlockBytes>);

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sstf_set_open(
    policy: Option<&Policy>,
    blocks: *const *const u8,
    bytes: *const usize,
    files: *const u64,
    count: usize,
    flags: u32,
    set: Out<'_, *mut Set>,
    unusable: Out<'_, usize>,
    error: Out<'_, ErrorText>,
) -> Status {
    create(set, error, || {
        let policy = policy.ok_or_else(|| Failure::argument("the policy is NULL"))?;
        if policy.ranges.is_some() {
            return Err(Failure::argument("a set has filters of keys, not of ranges"));
        }
        // SAFETY: there are no bytes; this refuses unknown flags before they look like faults of the blocks.
        unsafe { BlockBytes::new(&[], flags) }?;
        // SAFETY: the caller passes this many values in each array.
        let (blocks, bytes, files) = unsafe { (slice(blocks, count), slice(bytes, count), slice(files, count)) };
        let (Some(blocks), Some(bytes), Some(files)) = (blocks, bytes, files) else {
            return Err(Failure::argument("an array is NULL"));
        };
        let load = |((&block, &bytes), &file): ((&*const u8, &usize), &u64)| {
            // SAFETY: each block has as many bytes as the caller says, or is NULL.
            let block = unsafe { slice(block, bytes) }.filter(|block| !block.is_empty()).ok_or(BlockError::Missing)?;
            // SAFETY: the caller keeps borrowed bytes until the set is closed.
            let block = unsafe { BlockBytes::new(block, flags) }.map_err(unreadable)?;
            FilterBlock::load(block, policy.load_context(file_id(file).map_err(unreadable)?))
        };
        let blocks = blocks.iter().zip(bytes).zip(files).map(load);
        let readers: Vec<_> = blocks.map(|block| policy.filters.reader(block)).collect();
        if let Some(unusable) = unusable {
            unusable.write(readers.iter().filter(|reader| reader.problem().is_some()).count());
        }
        Ok(Set(FilterSet::new(&policy.filters, readers)))
    })
}

fn unreadable(failure: Failure) -> BlockError {
    BlockError::Unreadable { reason: failure.message.into_owned() }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn sstf_set_close(set: Option<Box<Set>>) {
    guarded((), || drop(set));
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sstf_set_may_contain_hash(
    set: Option<&Set>,
    hash: u64,
    bits: *mut u64,
    count: usize,
) -> usize {
    // SAFETY: the caller passes words for this many bits.
    let Some(bits) = (unsafe { slice_mut(bits, count.div_ceil(64)) }) else { return count };
    match set.filter(|set| set.0.len() == count && hash != NO_HASH) {
        Some(set) => answer(bits, count, |bits| set.0.matches_words(KeyHash::from_well_mixed(hash), bits)),
        None => set_all(bits, count),
    }
}
