//! Functions without an object: versions, ids, and bytes of blocks.

use core::ffi::{c_char, c_int};

use sstfilter::{FileId, FilterBlock, KindId, Probe};
use sstfilter_range::{RangeInfo, RangeMap};

use crate::call::{ErrorText, Failure, Out, Status, UNBOUND, guarded, put_sized, run, slice, text};
use crate::policy::{HASHED_RANGES, ORDERED_RANGES, Policy};

/// `SSTF_ABI_VERSION`.
pub(crate) const ABI_VERSION: u32 = 1;

/// `sstf_info`.
#[repr(C)]
pub(crate) struct Info {
    pub(crate) struct_size: usize,
    pub(crate) keys: u64,
    pub(crate) block_bytes: u64,
    pub(crate) expected_fpr: f64,
    pub(crate) file_id: u64,
    pub(crate) kind: [u8; 24],
    pub(crate) requested: [u8; 24],
}

impl Info {
    fn of(block: &[u8]) -> Result<Self, Failure> {
        let (names, keys, block_bytes, expected_fpr, file) = if let Ok(info) = RangeInfo::of_block(block) {
            let is_hashed = matches!(info.map, RangeMap::Hashed { .. });
            let name = if is_hashed { HASHED_RANGES } else { ORDERED_RANGES };
            ([name; 2], info.keys, info.block_bytes, info.expected_fpr(1), info.file)
        } else {
            let info = FilterBlock::open_unverified(block)?.info();
            ([info.kind, info.requested].map(KindId::name), info.keys, info.block_bytes, info.expected_fpr, info.file)
        };
        let ([kind, requested], file_id) = (names.map(text), file.map_or(UNBOUND, FileId::fingerprint));
        Ok(Self { struct_size: size_of::<Self>(), keys, block_bytes, expected_fpr, file_id, kind, requested })
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn sstf_abi_version() -> u32 {
    ABI_VERSION
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn sstf_status_name(status: i32) -> *const c_char {
    let named = Status::ALL.iter().find(|(known, _)| *known as i32 == status);
    named.map_or(c"unknown status", |(_, name)| name).as_ptr()
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn sstf_file_id_random() -> u64 {
    // Without randomness, files get no filters: 0 is refused.
    guarded(0, || FileId::random().fingerprint())
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sstf_block_info(
    block: *const u8,
    bytes: usize,
    info: *mut Info,
    error: Out<'_, ErrorText>,
) -> Status {
    run(error, || {
        // SAFETY: the caller passes this many bytes.
        let block = unsafe { slice(block, bytes) }.ok_or_else(|| Failure::argument("the block is NULL"))?;
        // SAFETY: the caller's structure begins with its size.
        unsafe { put_sized(info, &Info::of(block)?) }
    })
}

/// `SSTF_TRUSTED`.
const TRUSTED: u32 = 2;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sstf_block_may_contain(
    policy: Option<&Policy>,
    block: *const u8,
    bytes: usize,
    key: *const u8,
    length: usize,
    flags: u32,
) -> c_int {
    // SAFETY: the caller passes this many bytes, and a key of this length.
    let Some((block, key)) = (unsafe { slice(block, bytes).zip(slice(key, length)) }) else { return 1 };
    let Some(policy) = policy.filter(|policy| !policy.has_own_hash && policy.ranges.is_none()) else { return 1 };
    guarded(1, || {
        let (hash, identity) = (policy.filters.hash(key), policy.filters.hasher().identity());
        let answer = match flags {
            TRUSTED => FilterBlock::probe_unverified(block, identity, hash).unwrap_or(true),
            _ => FilterBlock::probe(block, identity, hash) != Probe::Absent,
        };
        c_int::from(answer)
    })
}
