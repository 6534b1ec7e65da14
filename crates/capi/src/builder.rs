//! `sstf_builder`: builds the filter of one file.

use bytes::Bytes;
use sstfilter::{BlockBuilder, BuildPurpose, BuiltFilter, KeyHash};
use sstfilter_range::RangeBuilder;

use crate::call::{ErrorText, Failure, Out, Status, create, file_id, guarded, run, slice};
use crate::policy::{Policy, has_missing};

/// `sstf_builder`.
pub(crate) struct Builder {
    state: State,
    /// Whether the caller hashes keys.
    has_own_hash: bool,
    /// Whether a key could not be added. A filter would lose it, so there is none.
    lacks_key: bool,
}

enum State {
    Keys(Box<dyn BlockBuilder>),
    Ranges(RangeBuilder),
    /// The block, or the reason why there is none. Callers use the block until the builder is destroyed.
    Finished(Result<Bytes, String>),
}

impl Builder {
    fn new(policy: &Policy, file: u64, purpose: u32, expected_keys: u64) -> Result<Self, Failure> {
        let purpose = match purpose {
            0 => BuildPurpose::Flush,
            1 => BuildPurpose::Compaction,
            2 => BuildPurpose::Ingest,
            _ => return Err(Failure::argument(format!("purpose: expected 0 to 2, got {purpose}"))),
        };
        let context = policy.build_context(file_id(file)?, purpose, expected_keys);
        let refused = || State::Finished(Err("the policy".into()));
        let state = match &policy.ranges {
            Some(ranges) => State::Ranges(ranges.builder(&context)),
            None => policy.filters.policy().builder(&context).map_or_else(refused, State::Keys),
        };
        Ok(Self { state, has_own_hash: policy.has_own_hash, lacks_key: false })
    }

    /// Adds keys; `add` returns `None` if it cannot.
    fn add(&mut self, add: impl FnOnce(&mut State) -> Option<()>) {
        self.lacks_key |= guarded(None, || add(&mut self.state)).is_none();
    }

    fn finish(&mut self) -> Result<Bytes, Failure> {
        let no_filter = |reason: String| Failure {
            status: Status::NoFilter,
            message: format!("no filter because of {reason}: always search the file").into(),
        };
        if self.lacks_key {
            return Err(no_filter("a key that could not be added".into()));
        }
        let built = match core::mem::replace(&mut self.state, State::Finished(Err("a panic".into()))) {
            State::Keys(builder) => block_of(builder.finish()),
            State::Ranges(builder) => block_of(builder.finish()),
            State::Finished(built) => built,
        };
        self.state = State::Finished(built.clone());
        built.map_err(no_filter)
    }
}

fn block_of(built: BuiltFilter) -> Result<Bytes, String> {
    built.block.ok_or_else(|| built.report.reason.to_string())
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn sstf_builder_create(
    policy: Option<&Policy>,
    file: u64,
    purpose: u32,
    expected_keys: u64,
    builder: Out<'_, *mut Builder>,
    error: Out<'_, ErrorText>,
) -> Status {
    create(builder, error, || {
        let policy = policy.ok_or_else(|| Failure::argument("the policy is NULL"))?;
        Builder::new(policy, file, purpose, expected_keys)
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sstf_builder_add_key(builder: Option<&mut Builder>, key: *const u8, length: usize) {
    let Some(builder) = builder else { return };
    // SAFETY: the caller passes a key of this length.
    let key = unsafe { slice(key, length) }.filter(|_| !builder.has_own_hash);
    builder.add(|state| {
        match state {
            State::Keys(builder) => builder.add_key(key?),
            State::Ranges(builder) => builder.add_key(key?),
            State::Finished(_) => return None,
        }
        Some(())
    });
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sstf_builder_add_hashes(
    builder: Option<&mut Builder>,
    hashes: *const u64,
    count: usize,
) {
    let Some(builder) = builder else { return };
    // SAFETY: the caller passes this many hashes, and a `KeyHash` has the layout of a number.
    let hashes: Option<&[KeyHash]> = unsafe { slice(hashes.cast(), count) };
    builder.add(|state| {
        let State::Keys(builder) = state else { return None };
        builder.add_hashes(hashes.filter(|hashes| !has_missing(hashes))?);
        Some(())
    });
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn sstf_builder_estimated_bytes(builder: Option<&Builder>) -> u64 {
    let Some(builder) = builder.filter(|builder| !builder.lacks_key) else { return 0 };
    guarded(0, || match &builder.state {
        State::Keys(builder) => builder.estimated_bytes(),
        State::Ranges(builder) => builder.estimated_bytes(),
        State::Finished(built) => built.as_ref().map_or(0, Bytes::len) as u64,
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn sstf_builder_finish(
    builder: Option<&mut Builder>,
    block: Out<'_, *const u8>,
    bytes: Out<'_, usize>,
    error: Out<'_, ErrorText>,
) -> Status {
    run(error, || {
        let (Some(block), Some(bytes)) = (block, bytes) else {
            return Err(Failure::argument("an out pointer is NULL"));
        };
        let (block, bytes) = (block.write(core::ptr::null()), bytes.write(0));
        let built = builder.ok_or_else(|| Failure::argument("the builder is NULL"))?.finish()?;
        (*block, *bytes) = (built.as_ptr(), built.len());
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn sstf_builder_destroy(builder: Option<Box<Builder>>) {
    guarded((), || drop(builder));
}
