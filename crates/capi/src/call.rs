//! What calls have in common: panics, errors, and memory that the caller passes.

use core::ffi::CStr;
use core::mem::MaybeUninit;
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use sstfilter::internal::AlignedBuffer;
use sstfilter::{BlockError, ConfigError, FileId};

/// `sstf_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) enum Status {
    Ok,
    InvalidArgument,
    NoFilter,
    NotABlock,
    Damaged,
    Unknown,
    OtherHash,
    OtherFile,
    Panic,
}

impl Status {
    pub(crate) const ALL: [(Self, &'static CStr); 9] = [
        (Self::Ok, c"ok"),
        (Self::InvalidArgument, c"invalid argument"),
        (Self::NoFilter, c"no filter"),
        (Self::NotABlock, c"not a block"),
        (Self::Damaged, c"damaged"),
        (Self::Unknown, c"unknown version, kind or hash"),
        (Self::OtherHash, c"built with another hash"),
        (Self::OtherFile, c"filter of another file"),
        (Self::Panic, c"panic"),
    ];
}

/// `sstf_error`.
#[repr(C)]
pub(crate) struct ErrorText {
    pub(crate) status: i32,
    pub(crate) message: [u8; 252],
}

/// An argument that receives a value; `None` is NULL.
pub(crate) type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) message: Cow<'static, str>,
}

impl Failure {
    pub(crate) fn argument(message: impl Into<Cow<'static, str>>) -> Self {
        Self { status: Status::InvalidArgument, message: message.into() }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::argument(error.to_string())
    }
}

impl From<BlockError> for Failure {
    fn from(error: BlockError) -> Self {
        let own = |status, message: &'static str| Self { status, message: message.into() };
        let status = match error {
            BlockError::RangeFilter => {
                return own(Status::NotABlock, "expected a filter of keys, got one of ranges: use a policy of ranges");
            }
            BlockError::Kind { .. } => {
                return own(Status::NotABlock, "expected a filter of ranges, got one of keys: use a policy of keys");
            }
            BlockError::HashMismatch { .. } => {
                return own(Status::OtherHash, "built with another hash: compare seed, seed_is_secret and hash_tag");
            }
            BlockError::ExtractorMismatch { .. } | BlockError::PartNotHeld => {
                return own(Status::OtherHash, "built with other prefixes: compare prefix_bytes and only_prefixes");
            }
            BlockError::TooShort { .. } | BlockError::Magic { .. } => Status::NotABlock,
            BlockError::Version { .. } | BlockError::UnknownKind { .. } | BlockError::UnknownHash { .. } => {
                Status::Unknown
            }
            BlockError::FileMismatch { .. } | BlockError::Partition => Status::OtherFile,
            _ => Status::Damaged,
        };
        Self { status, message: error.to_string().into() }
    }
}

/// Returns `call`'s value, or `otherwise` if it panics.
#[inline]
pub(crate) fn guarded<T>(otherwise: T, call: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(otherwise)
}

/// Runs `call`, and describes its failure in `error`.
pub(crate) fn run(error: Out<'_, ErrorText>, call: impl FnOnce() -> Result<(), Failure>) -> Status {
    let panicked = || Err(Failure { status: Status::Panic, message: "a defect of the library: it panicked".into() });
    let failure = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| panicked()).err();
    let failure = failure.unwrap_or(Failure { status: Status::Ok, message: "".into() });
    if let Some(error) = error {
        error.write(ErrorText { status: failure.status as i32, message: text(&failure.message) });
    }
    failure.status
}

/// Runs `call`, and stores the object that it returns in `out`: NULL after a failure.
pub(crate) fn create<T>(
    out: Out<'_, *mut T>,
    error: Out<'_, ErrorText>,
    call: impl FnOnce() -> Result<T, Failure>,
) -> Status {
    run(error, || {
        let Some(out) = out else { return Err(Failure::argument("the out pointer is NULL")) };
        let out = out.write(core::ptr::null_mut());
        *out = Box::into_raw(Box::new(call()?));
        Ok(())
    })
}

/// Returns a string of C with as much of `message` as fits.
pub(crate) fn text<const BYTES: usize>(message: &str) -> [u8; BYTES] {
    let mut text = [0; BYTES];
    let end = (0..BYTES.min(message.len() + 1)).rev().find(|&end| message.is_char_boundary(end)).unwrap_or(0);
    text[..end].copy_from_slice(&message.as_bytes()[..end]);
    text
}

/// Returns `count` values at `data`; `None` if there can be none there.
///
/// # Safety
///
/// `data` is NULL, or there are `count` values that stay unchanged as long as the slice is used.
#[inline]
pub(crate) unsafe fn slice<'a, T>(data: *const T, count: usize) -> Option<&'a [T]> {
    if count == 0 {
        return Some(&[]);
    }
    if data.is_null() || !data.is_aligned() || count > isize::MAX as usize / size_of::<T>() {
        return None;
    }
    // SAFETY: not NULL, aligned, and of a possible length; the caller promises the rest.
    Some(unsafe { core::slice::from_raw_parts(data, count) })
}

/// Like [`slice`], for values to be written.
///
/// # Safety
///
/// `data` is NULL, or there are `count` values that nobody else uses meanwhile.
pub(crate) unsafe fn slice_mut<'a, T>(data: *mut T, count: usize) -> Option<&'a mut [T]> {
    // SAFETY: the caller's promise covers that of `slice`.
    unsafe { slice(data, count) }?;
    // SAFETY: `slice` accepted the pointer and the length; of nothing, the pointer may be any.
    Some(if count == 0 { &mut [] } else { unsafe { core::slice::from_raw_parts_mut(data, count) } })
}

/// Reads a structure that begins with its size: fields that the caller does not know yet are 0.
///
/// # Safety
///
/// `from` is NULL, or a structure of the size that it begins with. All bits are valid values of `T`.
pub(crate) unsafe fn sized<T>(from: *const T) -> Result<T, Failure> {
    if from.is_null() {
        return Err(Failure::argument("the options are NULL"));
    }
    // SAFETY: not NULL, and the structure begins with its size.
    let size = unsafe { from.cast::<usize>().read_unaligned() };
    let (min, max) = (size_of::<usize>(), size_of::<T>());
    // A larger structure may ask for something that this library does not know.
    if !(min..=max).contains(&size) {
        let message = format!("struct_size: expected {min} to {max} bytes, got {size}: begin with SSTF_OPTIONS_INIT");
        return Err(Failure::argument(message));
    }
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: the caller promises `size` bytes at `from`, and `value` has as many; all bits are valid.
    unsafe {
        core::ptr::copy_nonoverlapping(from.cast::<u8>(), value.as_mut_ptr().cast(), size);
        Ok(value.assume_init())
    }
}

/// Stores `value` in a structure that begins with its size, as far as the caller knows it.
///
/// # Safety
///
/// `to` is NULL, or a structure of the size that it begins with.
pub(crate) unsafe fn put_sized<T>(to: *mut T, value: &T) -> Result<(), Failure> {
    // SAFETY: the caller's promise covers reading the size.
    let size = if to.is_null() { 0 } else { unsafe { to.cast::<usize>().read_unaligned() } };
    let Some(fields) = size.min(size_of::<T>()).checked_sub(size_of::<usize>()) else {
        return Err(Failure::argument("the structure is NULL, or its struct_size is not set"));
    };
    // SAFETY: both have this many bytes after the size, and do not overlap.
    unsafe {
        let (from, to) = (core::ptr::from_ref(value).cast::<usize>().add(1), to.cast::<usize>().add(1));
        core::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast(), fields);
    }
    Ok(())
}

/// `SSTF_UNBOUND`.
pub(crate) const UNBOUND: u64 = u64::MAX;

/// A file's id; `None` for `SSTF_UNBOUND`.
pub(crate) fn file_id(id: u64) -> Result<Option<FileId>, Failure> {
    if id == 0 {
        return Err(Failure::argument("file_id: expected one of sstf_file_id_random, or SSTF_UNBOUND, got 0"));
    }
    Ok((id != UNBOUND).then(|| FileId::from_fingerprint(id)))
}

/// The bytes of a block: the caller's, or a copy.
#[derive(Clone)]
pub(crate) struct BlockBytes {
    /// Those of `_copy`, if there is one.
    bytes: &'static [u8],
    _copy: Option<Bytes>,
}

impl BlockBytes {
    /// # Safety
    ///
    /// With `SSTF_BORROW` (0), the bytes stay unchanged as long as this lives.
    pub(crate) unsafe fn new(bytes: &[u8], flags: u32) -> Result<Self, Failure> {
        let copy = match flags {
            0 => None,
            1 => Some(aligned(bytes)?),
            _ => return Err(Failure::argument(format!("flags: expected SSTF_BORROW or SSTF_COPY, got {flags}"))),
        };
        let bytes: *const [u8] = copy.as_deref().unwrap_or(bytes);
        // SAFETY: the copy lives as long as `self` and does not move; otherwise, the caller promises it.
        Ok(Self { bytes: unsafe { &*bytes }, _copy: copy })
    }
}

/// Copies bytes to the start of a cache line.
fn aligned(bytes: &[u8]) -> Result<Bytes, Failure> {
    let none = || Failure { status: Status::NoFilter, message: format!("no memory for {} bytes", bytes.len()).into() };
    let mut copy = AlignedBuffer::empty(bytes.len() as u64).ok_or_else(none)?;
    copy.append(bytes);
    Ok(copy.freeze())
}

impl AsRef<[u8]> for BlockBytes {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.bytes
    }
}
