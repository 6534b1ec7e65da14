//! `sstf_policy`: how keys are hashed, and which filters files get.

use core::ffi::{CStr, c_char};
use std::sync::Arc;

use sstfilter::kind::KindEntry;
use sstfilter::{
    AutoPolicy, BitsPerKey, BuildContext, BuildPurpose, FalsePositiveRate, FileId, Filters, FixedPrefix, KeyExtractor,
    KeyHash, KeyHasher, KeyParts, LoadContext, Sizing,
};
use sstfilter_range::{RangeContext, RangePolicy, RangeUnits};

use crate::call::{ErrorText, Failure, Out, Status, create, guarded, sized, slice};

/// `sstf_options`.
#[repr(C)]
pub(crate) struct Options {
    pub(crate) struct_size: usize,
    pub(crate) kind: *const c_char,
    pub(crate) false_positive_rate: f64,
    pub(crate) bits_per_key: f64,
    pub(crate) seed: u64,
    pub(crate) hash_tag: u64,
    pub(crate) longest_range: u64,
    pub(crate) seed_is_secret: u32,
    pub(crate) prefix_bytes: u32,
    pub(crate) only_prefixes: u32,
    pub(crate) integer_bytes: u32,
    pub(crate) granularity_bits: u32,
    pub(crate) reserved: u32,
}

/// `sstf_policy`.
#[derive(Clone)]
pub(crate) struct Policy {
    pub(crate) filters: Filters,
    /// The policy for filters of ranges, which files then get instead of those of keys.
    pub(crate) ranges: Option<RangePolicy>,
    /// Whether the caller hashes keys.
    pub(crate) has_own_hash: bool,
    /// The length of the prefixes in filters; 0 if there are none.
    pub(crate) prefix_bytes: usize,
}

impl Policy {
    fn new(options: &Options, kind: &str) -> Result<Self, Failure> {
        let hasher = match (options.hash_tag, options.seed) {
            // Never called: keys are refused where hashes are expected.
            (1.., 0) => KeyHasher::custom(options.hash_tag, |_| KeyHash::mix(0)),
            (1.., _) => return Err(Failure::argument("hash_tag and seed: expected one of them, got both")),
            (0, 0) if options.seed_is_secret != 0 => {
                return Err(Failure::argument("seed: expected a secret one, got 0"));
            }
            (0, 0) => KeyHasher::default(),
            (0, seed) if options.seed_is_secret != 0 => KeyHasher::with_secret_seed(seed),
            (0, seed) => KeyHasher::with_seed(seed),
        };
        let ranges = ranges(options, kind)?;
        let filters = if ranges.is_some() { Filters::default() } else { keys(options, kind)? };
        let (is_hashed, is_of_keys) = (kind == HASHED_RANGES, ranges.is_none());
        let fields = [
            ("bits_per_key", options.bits_per_key != 0.0, is_of_keys),
            ("prefix_bytes", options.prefix_bytes != 0, is_of_keys || is_hashed),
            ("only_prefixes", options.only_prefixes != 0, is_of_keys && options.prefix_bytes != 0),
            ("integer_bytes", options.integer_bytes != 0, is_hashed),
            ("granularity_bits", options.granularity_bits != 0, is_hashed),
            ("longest_range", options.longest_range != 0, is_hashed),
            ("reserved", options.reserved != 0, false),
        ];
        if let Some((field, ..)) = fields.iter().find(|(_, is_set, is_known)| *is_set && !is_known) {
            return Err(Failure::argument(format!("{field}: expected 0 with these options of kind {kind}")));
        }
        if options.hash_tag != 0 && (ranges.is_some() || options.prefix_bytes != 0) {
            return Err(Failure::argument("hash_tag: ranges and prefixes are hashed by the library"));
        }
        let filters = filters.with_hasher(hasher).with_key_parts(parts(options));
        let (has_own_hash, prefix_bytes) = (options.hash_tag != 0, options.prefix_bytes as usize);
        Ok(Self { filters, ranges, has_own_hash, prefix_bytes })
    }

    pub(crate) fn build_context(
        &self,
        file: Option<FileId>,
        purpose: BuildPurpose,
        expected_keys: u64,
    ) -> BuildContext {
        let context = BuildContext::new(self.filters.hasher()).with_key_parts(self.filters.key_parts().clone());
        let context = context.with_purpose(purpose);
        let context = if let Some(file) = file { context.with_file_id(file) } else { context };
        if expected_keys == 0 { context } else { context.with_expected_keys(expected_keys) }
    }

    pub(crate) fn load_context(&self, file: Option<FileId>) -> LoadContext<'_> {
        let context = LoadContext::new(self.filters.hasher()).with_key_parts(self.filters.key_parts());
        file.map_or(context, |file| context.with_file_id(file))
    }

    pub(crate) fn range_context(&self, file: Option<FileId>) -> RangeContext<'_> {
        RangeContext::new(self.load_context(file), self.ranges.as_ref().and_then(RangePolicy::extractor))
    }
}

/// What `sstf_policy_hash` returns if it cannot hash: it may always be present.
pub(crate) const NO_HASH: u64 = 0;

/// Whether one of the keys could not be hashed.
pub(crate) fn has_missing(hashes: &[KeyHash]) -> bool {
    hashes.iter().any(|hash| hash.get() == NO_HASH)
}

pub(crate) const HASHED_RANGES: &str = "hashed-range";
pub(crate) const ORDERED_RANGES: &str = "ordered-range";

/// The extractor of prefixes; `None` if there are none.
fn prefixes(options: &Options) -> Option<Arc<dyn KeyExtractor>> {
    let length = options.prefix_bytes as usize;
    (length > 0).then(|| Arc::new(FixedPrefix::new(length)) as Arc<dyn KeyExtractor>)
}

fn parts(options: &Options) -> KeyParts {
    match (prefixes(options), options.only_prefixes != 0) {
        (None, _) => KeyParts::whole_keys(),
        (Some(prefixes), true) => KeyParts::extracted(prefixes),
        (Some(prefixes), false) => KeyParts::whole_keys().with_extractor(prefixes),
    }
}

/// Returns the policy for filters of ranges, if `kind` is one of theirs.
fn ranges(options: &Options, kind: &str) -> Result<Option<RangePolicy>, Failure> {
    if ![ORDERED_RANGES, HASHED_RANGES].contains(&kind) {
        return Ok(None);
    }
    let rate = match options.false_positive_rate {
        0.0 => FalsePositiveRate::ONE_PERCENT,
        rate => FalsePositiveRate::new(rate)?,
    };
    if kind == ORDERED_RANGES {
        return Ok(Some(RangePolicy::ordered(rate)?));
    }
    let units = RangeUnits::integer(options.integer_bytes)?.with_granularity_bits(options.granularity_bits)?;
    let units = match prefixes(options) {
        Some(prefixes) => units.with_prefix(prefixes),
        None => units,
    };
    Ok(Some(RangePolicy::hashed(units, options.longest_range, rate)?))
}

/// Returns the policy for filters of keys.
fn keys(options: &Options, kind: &str) -> Result<Filters, Failure> {
    let sizing = match (options.false_positive_rate, options.bits_per_key) {
        (0.0, 0.0) => None,
        (rate, 0.0) => Some(FalsePositiveRate::new(rate)?.into()),
        (0.0, bits) => Some(Sizing::BitsPerKey(BitsPerKey::new(bits)?)),
        _ => return Err(Failure::argument("false_positive_rate and bits_per_key: expected one of them, got both")),
    };
    if kind == "auto" {
        return Ok(Filters::new(sizing.map_or_else(|| Ok(AutoPolicy::default()), AutoPolicy::new)?));
    }
    let unknown = || {
        let names: Vec<_> = sstfilter::kind::all().iter().map(|kind| kind.name).collect();
        Failure::argument(format!(
            "kind: expected auto, {ORDERED_RANGES}, {HASHED_RANGES} or one of {}; got {kind}",
            names.join(", ")
        ))
    };
    let entry = KindEntry::named(kind).ok_or_else(unknown)?;
    Ok(Filters::new(entry.configure(sizing.unwrap_or(FalsePositiveRate::ONE_PERCENT.into()))?))
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sstf_policy_create(
    options: *const Options,
    policy: Out<'_, *mut Policy>,
    error: Out<'_, ErrorText>,
) -> Status {
    create(policy, error, || {
        // SAFETY: options begin with their size, and any bits are valid ones.
        let options: Options = unsafe { sized(options) }?;
        // SAFETY: if the kind is not NULL, it is a string.
        let kind = if options.kind.is_null() { c"auto" } else { unsafe { CStr::from_ptr(options.kind) } };
        Policy::new(&options, &kind.to_string_lossy())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn sstf_policy_destroy(policy: Option<Box<Policy>>) {
    guarded((), || drop(policy));
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sstf_policy_hash(policy: Option<&Policy>, key: *const u8, length: usize) -> u64 {
    // SAFETY: the caller passes a key of this length.
    match policy.zip(unsafe { slice(key, length) }) {
        Some((policy, key)) if !policy.has_own_hash => guarded(NO_HASH, || policy.filters.hash(key).get()),
        _ => NO_HASH,
    }
}
