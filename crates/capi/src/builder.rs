//! `sstf_builder`: builds the filter of one file.

use bytes::Bytes;
use sstfilter::{BlockBuilder, BuildPurpose, KeyHash};
use sstfilter_range::RangeBuilder;

use crate::call::{ErrorText, Failure, Out, Status, create, file_id, guarded, run, slice};
use crate::policy::{NO_HASH, Policy};

/// `sstf_builder`.
pub(crate) struct Builder {
    state: State,
    /// Whether the caller hashes keys.
    has_own_hash: bool,
}

enum State {
    Keys(Box<dyn BlockBuilder>),
    Ranges(RangeBuilder),
    Finished(Bytes),
    /// There is no filter, for this reason.
    None(String),
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
        let state = match &policy.ranges {
            Some(ranges) => State::Ranges(ranges.builder(&context)),
            None => policy.filters.policy().builder(&context).map_or_else(|| State::refused("the policy"), State::Keys),
        };
        Ok(Self { state, has_own_hash: policy.has_own_hash })
    }

    /// Adds keys. A filter without one of them would lose it, so whatever goes wrong leaves no filter.
    fn add(&mut self, keys: Option<impl FnOnce(&mut State) -> bool>) {
        let is_added = keys.is_some_and(|add| guarded(false, || add(&mut self.state)));
        if !is_added && !matches!(self.state, State::None(_)) {
            self.state = State::refused("a key that could not be added");
        }
    }

    fn finish(&mut self) -> Result<&Bytes, Failure> {
        self.state = match core::mem::replace(&mut self.state, State::refused("a panic")) {
            State::Keys(builder) => State::built(builder.finish()),
            State::Ranges(builder) => State::built(builder.finish()),
            state => state,
        };
        match &self.state {
            State::Finished(block) => Ok(block),
            State::None(reason) => Err(Failure { status: Status::NoFilter, message: reason.clone().into() }),
            State::Keys(_) | State::Ranges(_) => Err(Failure::argument("unfinished")),
        }
    }
}

impl State {
    fn refused(by: &str) -> Self {
        Self::None(format!("no filter because of {by}: always search the file"))
    }

    fn built(built: sstfilter::BuiltFilter) -> Self {
        built.block.map_or_else(|| Self::refused(&built.report.reason.to_string()), Self::Finished)
    }
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
    builder.add(key.map(|key| {
        move |state: &mut State| match state {
            State::Keys(builder) => {
                builder.add_key(key);
                true
            }
            State::Ranges(builder) => {
                builder.add_key(key);
                true
            }
            State::Finished(_) | State::None(_) => false,
        }
    }));
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
    builder.add(hashes.filter(|hashes| !hashes.iter().any(|hash| hash.get() == NO_HASH)).map(|hashes| {
        move |state: &mut State| {
            let State::Keys(builder) = state else { return false };
            builder.add_hashes(hashes);
            true
        }
    }));
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn sstf_builder_estimated_bytes(builder: Option<&Builder>) -> u64 {
    guarded(0, || match builder.map(|builder| &builder.state) {
        Some(State::Keys(builder)) => builder.estimated_bytes(),
        Some(State::Ranges(builder)) => builder.estimated_bytes(),
        Some(State::Finished(block)) => block.len() as u64,
        Some(State::None(_)) | None => 0,
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
