//! `sstf_filter`: the filter of one open file.

use core::ffi::c_int;
use core::ops::Bound;

use sstfilter::{FileId, FilterBlock, KeyHash, KeyHasher, KeyRange};
use sstfilter_range::RangeFilter;

use crate::call::{BlockBytes, ErrorText, Failure, Out, Status, create, file_id, guarded, slice, slice_mut};
use crate::policy::{NO_HASH, Policy, has_missing};

/// `sstf_filter`.
#[expect(clippy::large_enum_variant, reason = "there is one per file, and another box would cost each probe a load")]
pub(crate) enum Filter {
    Keys(KeyFilter),
    Ranges(RangeFilter<BlockBytes>),
}

/// A filter of keys.
pub(crate) struct KeyFilter {
    block: FilterBlock<BlockBytes>,
    /// Hashes whole keys; `None` if the caller does, or if the filter has none.
    hasher: Option<KeyHasher>,
    policy: Policy,
}

impl KeyFilter {
    fn load(policy: &Policy, block: BlockBytes, file: Option<FileId>) -> Result<Self, Failure> {
        let block = FilterBlock::load(block, policy.load_context(file))?;
        let hasher = Some(policy.filters.hasher()).filter(|_| block.info().whole_keys && !policy.has_own_hash);
        Ok(Self { hasher: hasher.cloned(), block, policy: policy.clone() })
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "it is most of what a call costs")]
    fn may_contain(&self, key: &[u8]) -> bool {
        match &self.hasher {
            Some(hasher) => self.block.may_contain(hasher.hash(key)),
            None => self.may_contain_prefix(key),
        }
    }

    #[inline(never)]
    fn may_contain_prefix(&self, prefix: &[u8]) -> bool {
        self.block.may_contain_prefix(&self.policy.filters.prefix(prefix))
    }

    /// Answers for a single key, and for a range within one prefix.
    fn may_contain_range(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        if upper.and_then(|upper| upper.strip_prefix(lower)) == Some(&[0]) {
            return self.may_contain(lower);
        }
        let Some(prefix) = lower.get(..self.policy.prefix_bytes).filter(|prefix| !prefix.is_empty()) else {
            return true;
        };
        let is_within = match (upper, KeyRange::prefix_upper_bound(prefix)) {
            (Some(upper), Bound::Excluded(end)) => upper <= end.as_slice(),
            (_, end) => end == Bound::Unbounded,
        };
        !is_within || self.may_contain_prefix(prefix)
    }
}

/// Out of line, so that probes of keys need less of the stack.
#[inline(never)]
fn has_key(filter: &RangeFilter<BlockBytes>, key: &[u8]) -> bool {
    filter.may_contain_range(key..=key)
}

impl Filter {
    #[inline]
    fn may_contain(&self, key: &[u8]) -> bool {
        match self {
            Self::Keys(filter) => filter.may_contain(key),
            Self::Ranges(filter) => has_key(filter, key),
        }
    }

    fn may_contain_prefix(&self, prefix: &[u8]) -> bool {
        match self {
            Self::Keys(filter) => filter.may_contain_prefix(prefix),
            Self::Ranges(filter) => {
                let upper = KeyRange::prefix_upper_bound(prefix);
                filter.may_contain_range((Bound::Included(prefix), upper.as_ref().map(Vec::as_slice)))
            }
        }
    }

    fn may_contain_range(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        match self {
            Self::Keys(filter) => filter.may_contain_range(lower, upper),
            Self::Ranges(filter) => {
                let upper = upper.map_or(Bound::Unbounded, Bound::Excluded);
                filter.may_contain_range((Bound::Included(lower), upper))
            }
        }
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sstf_filter_open(
    policy: Option<&Policy>,
    block: *const u8,
    bytes: usize,
    file: u64,
    flags: u32,
    filter: Out<'_, *mut Filter>,
    error: Out<'_, ErrorText>,
) -> Status {
    create(filter, error, || {
        let policy = policy.ok_or_else(|| Failure::argument("the policy is NULL"))?;
        // SAFETY: the caller passes this many bytes.
        let block = unsafe { slice(block, bytes) }.ok_or_else(|| Failure::argument("the block is NULL"))?;
        // SAFETY: the caller keeps borrowed bytes until the filter is closed.
        let (block, file) = (unsafe { BlockBytes::new(block, flags) }?, file_id(file)?);
        Ok(match &policy.ranges {
            Some(_) => Filter::Ranges(RangeFilter::load(block, policy.range_context(file))?),
            None => Filter::Keys(KeyFilter::load(policy, block, file)?),
        })
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn sstf_filter_close(filter: Option<Box<Filter>>) {
    guarded((), || drop(filter));
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sstf_filter_may_contain(
    filter: Option<&Filter>,
    key: *const u8,
    length: usize,
) -> c_int {
    // SAFETY: the caller passes a key of this length.
    let Some((filter, key)) = filter.zip(unsafe { slice(key, length) }) else { return 1 };
    guarded(1, || c_int::from(filter.may_contain(key)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn sstf_filter_may_contain_hash(filter: Option<&Filter>, hash: u64) -> c_int {
    let Some(Filter::Keys(filter)) = filter.filter(|_| hash != NO_HASH) else { return 1 };
    guarded(1, || c_int::from(filter.block.may_contain(KeyHash::from_well_mixed(hash))))
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sstf_filter_may_contain_hashes(
    filter: Option<&Filter>,
    hashes: *const u64,
    count: usize,
    bits: *mut u64,
) -> usize {
    // SAFETY: the caller passes words for this many bits.
    let Some(bits) = (unsafe { slice_mut(bits, count.div_ceil(64)) }) else { return count };
    // SAFETY: the caller passes this many hashes, and a `KeyHash` has the layout of a number.
    let hashes: Option<&[KeyHash]> = unsafe { slice(hashes.cast(), count) };
    match filter.zip(hashes) {
        Some((Filter::Keys(filter), hashes)) if !has_missing(hashes) => {
            answer(bits, count, |bits| filter.block.may_contain_words(hashes, bits))
        }
        _ => set_all(bits, count),
    }
}

/// Has `probe` set the words of `count` answers, or sets all if it panics. Returns how many are set.
pub(crate) fn answer(bits: &mut [u64], count: usize, probe: impl FnOnce(&mut [u64])) -> usize {
    if !guarded(false, || {
        probe(bits);
        true
    }) {
        set_all(bits, count);
    }
    bits.iter().map(|word| word.count_ones() as usize).sum()
}

/// Sets `count` bits, and clears those after them in the last word.
pub(crate) fn set_all(bits: &mut [u64], count: usize) -> usize {
    bits.fill(u64::MAX);
    if let Some(last) = bits.last_mut() {
        *last >>= (64 - count % 64) % 64;
    }
    count
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sstf_filter_may_contain_prefix(
    filter: Option<&Filter>,
    prefix: *const u8,
    length: usize,
) -> c_int {
    // SAFETY: the caller passes a prefix of this length.
    let Some((filter, prefix)) = filter.zip(unsafe { slice(prefix, length) }) else { return 1 };
    guarded(1, || c_int::from(filter.may_contain_prefix(prefix)))
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sstf_filter_may_contain_range(
    filter: Option<&Filter>,
    lower: *const u8,
    lower_length: usize,
    upper: *const u8,
    upper_length: usize,
) -> c_int {
    // SAFETY: the caller passes keys of these lengths.
    let Some((filter, lower)) = filter.zip(unsafe { slice(lower, lower_length) }) else { return 1 };
    // An empty upper end cannot be meant, because no key is below it. SAFETY: as above.
    let upper = if upper_length == 0 || upper.is_null() { None } else { unsafe { slice(upper, upper_length) } };
    guarded(1, || c_int::from(filter.may_contain_range(lower, upper)))
}
