//! The kinds as the advice sees them: what each can do, how large it would be, how long it takes.

use super::speed::{self, LOCK_NS, Measured, Speed};
use super::{FilterNeed, FilterTarget, Updates, Writers};
use crate::block::block_bytes;
use crate::block::trailer::MAX_PAYLOAD_BYTES;
use crate::filter::binary_fuse::{self, FuseArity};
use crate::filter::blocked_bloom::{BloomShape, smallest_size_for};
use crate::filter::counting_bloom::CountingBloomShape;
use crate::filter::cuckoo::CuckooShape;
use crate::filter::ribbon::{self, Columns};
use crate::filter::standard_bloom::{Spread, StandardBloomShape, size_for_rate};
use crate::filter::two_bit_bloom::{TwoBitOptions, WordLayout};
use crate::filter::xor::{self, XorWidth};
use crate::filter::{FilterKind, FilterShape, xor_plus};
use crate::policy::RATE_KEYS;
use crate::units::{BitsPerKey, FalsePositiveRate};

/// The rate above which a filter is not worth asking.
const USELESS_FPR: f64 = 0.9;

/// Widths of tags: shorter ones may fill up before their plan.
const CUCKOO_TAG_BITS: core::ops::RangeInclusive<u8> = 6..=32;

/// A kind, or a variant of one that is ranked by itself.
pub(super) struct Entry {
    pub(super) kind: FilterKind,
    /// Its name, if that is not the kind's.
    variant: Option<&'static str>,
    /// The most that can be done to it once it is in use.
    updates: Updates,
    /// Who may do it at once.
    writers: Writers,
    /// What speaks for it.
    pub(super) strength: &'static str,
    measured: Measured,
    /// Its best setting for a need, or why there is none.
    setting: fn(&FilterNeed) -> Result<Sized, String>,
}

/// A kind at the size that fits a need.
pub(super) struct Sized {
    pub(super) setting: String,
    pub(super) block_bytes: u64,
    pub(super) expected_fpr: f64,
}

impl Sized {
    fn new(shape: &impl FilterShape, keys: u64) -> Self {
        let setting: Vec<String> = shape.describe().iter().map(|(name, value)| format!("{name} {value}")).collect();
        let (block_bytes, expected_fpr) = (block_bytes(shape), shape.expected_fpr(keys));
        Self { setting: setting.join(", "), block_bytes, expected_fpr }
    }
}

impl Entry {
    pub(super) fn size(&self, need: &FilterNeed) -> Result<Sized, String> {
        match (need.updates > self.updates, need.updates) {
            (true, Updates::InsertAndRemove) => return Err("cannot remove keys".to_owned()),
            (true, _) => return Err("takes no keys once it is built".to_owned()),
            (false, _) => {}
        }
        let sized = (self.setting)(need)?;
        let is_useless = sized.expected_fpr > USELESS_FPR;
        if is_useless {
            Err("would let nearly every absent key through in so little memory".to_owned())
        } else {
            Ok(sized)
        }
    }

    pub(super) fn name(&self) -> &'static str {
        self.variant.unwrap_or(self.kind.name())
    }

    /// Whether it can be used only through a lock.
    pub(super) fn is_locked(&self, need: &FilterNeed) -> bool {
        need.updates > Updates::None && need.writers == Writers::Many && self.writers == Writers::One
    }

    pub(super) fn speed(&self, need: &FilterNeed) -> Speed {
        let Speed { build_ns, probe_ns } = speed::at(&self.measured, need.keys);
        let lock_ns = if self.is_locked(need) { LOCK_NS } else { 0.0 };
        Speed { build_ns: build_ns + lock_ns, probe_ns: probe_ns + lock_ns }
    }
}

/// All kinds, in the order of their numbers. Times: `benches/RESULTS.md`, one core of
/// a Zen 3 with AVX2, filters of 1 % or 2^-8; counting Bloom's by `sstfilter report`,
/// up to a million keys.
pub(super) const ALL: &[Entry] = &[
    Entry {
        kind: FilterKind::BLOCKED_BLOOM,
        variant: None,
        updates: Updates::None,
        writers: Writers::One,
        strength: "is built in one pass and asked at one cache line per key, and at this use that outweighs its size",
        measured: [(1.7, 1.1), (1.6, 1.2), (3.1, 1.8), (5.7, 5.0)],
        setting: blocked_bloom,
    },
    Entry {
        kind: FilterKind::RIBBON,
        variant: None,
        updates: Updates::None,
        writers: Writers::One,
        strength: "is the smallest there is, within half a percent of the information bound for large files, and is \
                   asked often enough to pay for its build",
        measured: [(34.8, 5.7), (40.1, 6.3), (43.4, 6.8), (52.2, 12.6)],
        setting: ribbon_filter,
    },
    Entry {
        kind: FilterKind::STANDARD_BLOOM,
        variant: None,
        updates: Updates::Insert,
        writers: Writers::One,
        strength: "takes keys while it is asked, never is full, and is the smallest of the filters that do so",
        measured: [(6.7, 5.0), (7.1, 5.4), (11.8, 8.6), (27.8, 19.5)],
        setting: standard_bloom,
    },
    Entry {
        kind: FilterKind::COUNTING_BLOOM,
        variant: None,
        updates: Updates::InsertAndRemove,
        writers: Writers::One,
        strength: "takes keys and gives them up while it is asked, and never is full",
        measured: [(18.2, 7.5), (26.9, 11.2), (38.9, 12.6), (38.9, 12.6)],
        setting: counting_bloom,
    },
    Entry {
        kind: FilterKind::TWO_BIT_BLOOM,
        variant: None,
        updates: Updates::Insert,
        writers: Writers::Many,
        strength: "takes keys from any number of threads without a lock, and touches one word per key",
        measured: [(2.7, 1.1), (3.8, 1.1), (4.1, 2.0), (5.9, 5.9)],
        setting: two_bit_bloom,
    },
    Entry {
        kind: FilterKind::CUCKOO,
        variant: None,
        updates: Updates::InsertAndRemove,
        writers: Writers::One,
        strength: "takes keys and gives them up while it is asked, in a quarter of a counting Bloom filter's memory",
        measured: [(19.4, 6.0), (21.0, 6.5), (30.1, 9.4), (44.1, 18.1)],
        setting: cuckoo,
    },
    Entry {
        kind: FilterKind::XOR,
        variant: None,
        updates: Updates::None,
        writers: Writers::One,
        strength: "is asked at three cells without a branch",
        measured: [(31.1, 3.3), (41.6, 3.6), (73.2, 6.3), (202.0, 10.6)],
        setting: |need| xor_of(need, |width| xor::shape_for(need.keys, width)),
    },
    Entry {
        kind: FilterKind::XOR_PLUS,
        variant: None,
        updates: Updates::None,
        writers: Writers::One,
        strength: "is a smaller xor filter",
        measured: [(52.0, 10.5), (65.8, 11.3), (99.9, 15.6), (265.0, 29.6)],
        setting: |need| xor_of(need, |width| xor_plus::expected_shape(need.keys, width)),
    },
    Entry {
        kind: FilterKind::BINARY_FUSE,
        variant: Some("binary-fuse 3"),
        updates: Updates::None,
        writers: Writers::One,
        strength: "is asked faster than Ribbon and is smaller than Bloom",
        measured: [(23.4, 2.9), (24.9, 3.3), (37.6, 6.6), (63.7, 9.7)],
        setting: |need| fuse_of(need, FuseArity::Three),
    },
    Entry {
        kind: FilterKind::BINARY_FUSE,
        variant: Some("binary-fuse 4"),
        updates: Updates::None,
        writers: Writers::One,
        strength: "is asked faster than Ribbon and is not much larger",
        measured: [(29.3, 4.1), (30.2, 4.3), (39.1, 8.1), (66.9, 12.1)],
        setting: |need| fuse_of(need, FuseArity::Four),
    },
];

fn blocked_bloom(need: &FilterNeed) -> Result<Sized, String> {
    let sized =
        by_bits(need, |rate| Ok(smallest_size_for(RATE_KEYS, rate)), |size| BloomShape::for_keys(need.keys, size));
    met(need, sized?)
}

fn standard_bloom(need: &FilterNeed) -> Result<Sized, String> {
    by_bits(need, size_for_rate_of_many, |size| Some(StandardBloomShape::for_keys(need.keys, size)))
}

fn counting_bloom(need: &FilterNeed) -> Result<Sized, String> {
    let shape = |size| CountingBloomShape::new(Spread::for_keys(need.keys, size));
    by_bits(need, size_for_rate_of_many, |size| Some(shape(size)))
}

fn size_for_rate_of_many(rate: FalsePositiveRate) -> Result<BitsPerKey, String> {
    size_for_rate(RATE_KEYS, rate).map_err(|error| error.to_string())
}

fn ribbon_filter(need: &FilterNeed) -> Result<Sized, String> {
    let shape = |columns| ribbon::expected_shape(need.keys, columns);
    match need.target {
        FilterTarget::Rate(rate) => {
            let columns = Columns::for_rate(rate).map_err(|error| error.to_string())?;
            let shape = shape(columns).filter(|shape| shape.payload_bytes() <= MAX_PAYLOAD_BYTES);
            Ok(Sized::new(&shape.ok_or_else(too_many_keys)?, need.keys))
        }
        FilterTarget::Bytes(_) => by_bits(
            need,
            |_| Ok(BitsPerKey::MAX),
            |size| {
                shape(ribbon::columns_for_size(need.keys, size, |shape| block_bytes(shape) - shape.payload_bytes())?)
            },
        ),
    }
}

/// Sizes are powers of two; of the layouts, the one that makes the filter smallest, or else sharpest.
fn two_bit_bloom(need: &FilterNeed) -> Result<Sized, String> {
    let layouts = [WordLayout::TwoBits, WordLayout::ThreeBits, WordLayout::FourBits];
    let options = layouts.map(|layout| TwoBitOptions::default().with_layout(layout));
    let fitting = options.into_iter().filter_map(|options| match need.target {
        FilterTarget::Rate(rate) => options.with_room_for(need.keys, rate).ok(),
        FilterTarget::Bytes(bytes) => {
            let tail = block_bytes(&options.shape()) - options.bytes();
            options.with_bytes(1 << bytes.checked_sub(tail)?.checked_ilog2()?.min(30)).ok()
        }
    });
    let sized = fitting.map(|options| Sized::new(&options.shape(), need.keys));
    let order = |one: &Sized, other: &Sized| {
        let by_bytes = one.block_bytes.cmp(&other.block_bytes);
        by_bytes.then(one.expected_fpr.total_cmp(&other.expected_fpr))
    };
    sized.min_by(order).ok_or_else(|| "has no size between 64 bytes and 1 GiB that would do".to_owned())
}

fn cuckoo(need: &FilterNeed) -> Result<Sized, String> {
    let shape = match need.target {
        FilterTarget::Rate(rate) => CuckooShape::for_rate(need.keys, rate).map_err(|error| error.to_string())?,
        FilterTarget::Bytes(bytes) => {
            largest_fitting(&CUCKOO_TAG_BITS, bytes, |bits| CuckooShape::with_tag_bits(need.keys, bits).ok())?
        }
    };
    Ok(Sized::new(&shape, need.keys))
}

fn xor_of<S: FilterShape>(need: &FilterNeed, shape: impl Fn(XorWidth) -> Option<S>) -> Result<Sized, String> {
    by_fingerprint(need, &[8, 16], |bits| shape(if bits == 8 { XorWidth::Eight } else { XorWidth::Sixteen }))
}

fn fuse_of(need: &FilterNeed, arity: FuseArity) -> Result<Sized, String> {
    let widths: Vec<u8> = (1..=32).filter(|&bits| binary_fuse::is_fingerprint_bits(bits)).collect();
    by_fingerprint(need, &widths, |bits| binary_fuse::shape_for(need.keys, arity, bits))
}

/// The filter of a kind that is sized by the bits of its fingerprints, of which there are some widths, ascending: the
/// least that gives the rate, or the most that fits.
fn by_fingerprint<S: FilterShape>(
    need: &FilterNeed,
    widths: &[u8],
    shape: impl Fn(u8) -> Option<S>,
) -> Result<Sized, String> {
    let shape = |bits| shape(bits).filter(|shape| shape.payload_bytes() <= MAX_PAYLOAD_BYTES);
    let shape = match need.target {
        FilterTarget::Rate(rate) => {
            let is_enough = |bits: &&u8| rate.get() * (1_u64 << **bits) as f64 >= 1.0;
            let bits = widths.iter().find(is_enough).ok_or("has no fingerprints as long as this rate needs")?;
            shape(*bits).ok_or_else(too_many_keys)?
        }
        FilterTarget::Bytes(bytes) => largest_fitting(&widths.iter().copied(), bytes, shape)?,
    };
    Ok(Sized::new(&shape, need.keys))
}

/// The shape of the greatest width whose block has at most so many bytes.
fn largest_fitting<S: FilterShape>(
    widths: &(impl DoubleEndedIterator<Item = u8> + Clone),
    bytes: u64,
    shape: impl Fn(u8) -> Option<S>,
) -> Result<S, String> {
    let least = || widths.clone().next().and_then(&shape).map(|shape| block_bytes(&shape));
    let fitting = widths.clone().rev().filter_map(&shape).find(|shape| block_bytes(shape) <= bytes);
    fitting.ok_or_else(|| too_large(least(), bytes))
}

/// The filter of a kind that is sized in bits per key: at the size that gives the rate, or the largest that fits.
fn by_bits<S: FilterShape>(
    need: &FilterNeed,
    size_for: impl Fn(FalsePositiveRate) -> Result<BitsPerKey, String>,
    shape: impl Fn(BitsPerKey) -> Option<S>,
) -> Result<Sized, String> {
    let shape = |size| shape(size).filter(|shape| shape.payload_bytes() <= MAX_PAYLOAD_BYTES);
    let size = match need.target {
        FilterTarget::Rate(rate) => size_for(rate)?,
        FilterTarget::Bytes(bytes) => largest_within(bytes, |size| Some(block_bytes(&shape(size)?)))?,
    };
    Ok(Sized::new(&shape(size).ok_or_else(too_many_keys)?, need.keys))
}

/// The largest size whose block has at most so many bytes.
fn largest_within(bytes: u64, bytes_at: impl Fn(BitsPerKey) -> Option<u64>) -> Result<BitsPerKey, String> {
    let size = |millibits| BitsPerKey::from_millibits(millibits).unwrap_or(BitsPerKey::MIN);
    let fits = |millibits| bytes_at(size(millibits)).is_some_and(|needed| needed <= bytes);
    let (mut low, mut high) = (BitsPerKey::MIN.millibits(), BitsPerKey::MAX.millibits());
    if !fits(low) {
        return Err(too_large(bytes_at(BitsPerKey::MIN), bytes));
    }
    while low < high {
        let middle = (low + high).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    Ok(size(low))
}

/// Refuses a filter that misses the rate wanted by more than rounding.
fn met(need: &FilterNeed, sized: Sized) -> Result<Sized, String> {
    match need.target {
        FilterTarget::Rate(rate) if sized.expected_fpr > rate.get() * 1.1 + 1e-12 => {
            Err(format!("cannot go below a rate of {:.2e} for so many keys", sized.expected_fpr))
        }
        _ => Ok(sized),
    }
}

fn too_large(least: Option<u64>, bytes: u64) -> String {
    least.map_or_else(too_many_keys, |least| format!("needs at least {least} bytes for so many keys, not {bytes}"))
}

fn too_many_keys() -> String {
    "cannot hold so many keys: a block has at most 32 GiB".to_owned()
}
