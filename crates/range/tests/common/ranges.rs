//! The range filters of `fixtures/v1`: their keys, how each is built, and the ends of the ranges to probe.

use core::ops::Bound;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use byteorder::{BigEndian, ByteOrder};
use sstfilter::{
    BlockError, BuildContext, DelimitedPrefix, FalsePositiveRate, FileId, FixedPrefix, KeyExtractor, KeyHash, KeyRange,
    LoadContext,
};
use sstfilter_range::{RangeContext, RangeFilter, RangePolicy, RangeUnits};

use crate::common::cases::{self, Hash};

/// A byte string.
pub(crate) type Key = Vec<u8>;

/// How a range filter is built from its keys.
#[derive(Clone, Copy)]
pub(crate) enum RangeRecipe {
    Ordered { rate: f64 },
    Hashed { rate: f64, longest: u64, integer_bytes: u32, low_bits: u32, extractor: Option<Extractor> },
}

/// An extractor of prefixes.
#[derive(Clone, Copy)]
pub(crate) enum Extractor {
    Fixed(usize),
    Delimited(u8),
}

impl Extractor {
    pub(crate) fn make(self) -> Arc<dyn KeyExtractor> {
        match self {
            Self::Fixed(bytes) => Arc::new(FixedPrefix::new(bytes)),
            Self::Delimited(byte) => Arc::new(DelimitedPrefix::new(byte)),
        }
    }
}

impl RangeRecipe {
    pub(crate) fn policy(self) -> RangePolicy {
        match self {
            Self::Ordered { rate } => RangePolicy::ordered(FalsePositiveRate::new(rate).unwrap()).unwrap(),
            Self::Hashed { rate, longest, integer_bytes, low_bits, extractor } => {
                let units = RangeUnits::integer(integer_bytes).unwrap().with_granularity_bits(low_bits).unwrap();
                let units = extractor.map_or(units.clone(), |extractor| units.with_prefix(extractor.make()));
                RangePolicy::hashed(units, longest, FalsePositiveRate::new(rate).unwrap()).unwrap()
            }
        }
    }

    pub(crate) fn extractor(self) -> Option<Arc<dyn KeyExtractor>> {
        match self {
            Self::Ordered { .. } => None,
            Self::Hashed { extractor, .. } => extractor.map(Extractor::make),
        }
    }

    /// Formats the fields as members of a JSON object.
    pub(crate) fn describe(self) -> String {
        match self {
            Self::Ordered { rate } => format!(r#""map": "ordered", "rate": {rate}"#),
            Self::Hashed { rate, longest, integer_bytes, low_bits, .. } => {
                let name = self.extractor().map_or("null".to_owned(), |made| format!("\"{}\"", made.name()));
                format!(
                    r#""map": "hashed", "rate": {rate}, "longest": {longest}, "integer_bytes": {integer_bytes}, "low_bits": {low_bits}, "extractor": {name}"#
                )
            }
        }
    }
}

/// A range filter.
#[derive(Clone, Copy)]
pub(crate) struct RangeCase {
    pub(crate) name: &'static str,
    pub(crate) recipe: RangeRecipe,
    pub(crate) hash: Hash,
    /// The keys, in any order.
    keys: fn() -> Vec<Key>,
    pub(crate) file_number: Option<u64>,
}

const fn ordered(name: &'static str, rate: f64, keys: fn() -> Vec<Key>) -> RangeCase {
    RangeCase { name, recipe: RangeRecipe::Ordered { rate }, hash: Hash::Default, keys, file_number: None }
}

/// Returns a filter over integers of `integer_bytes` bytes.
const fn hashed(
    name: &'static str,
    (rate, longest): (f64, u64),
    (integer_bytes, low_bits): (u32, u32),
    keys: fn() -> Vec<Key>,
) -> RangeCase {
    let recipe = RangeRecipe::Hashed { rate, longest, integer_bytes, low_bits, extractor: None };
    RangeCase { name, recipe, hash: Hash::Default, keys, file_number: None }
}

const fn within(extractor: Extractor, case: RangeCase) -> RangeCase {
    let recipe = match case.recipe {
        RangeRecipe::Hashed { rate, longest, integer_bytes, low_bits, .. } => {
            RangeRecipe::Hashed { rate, longest, integer_bytes, low_bits, extractor: Some(extractor) }
        }
        ordered @ RangeRecipe::Ordered { .. } => ordered,
    };
    RangeCase { recipe, ..case }
}

/// Returns all the range filters.
pub(crate) const RANGES: &[RangeCase] = &[
    // The smallest filters: no key, only the empty key, three keys.
    ordered("range-ordered-no-keys", 0.01, Vec::new),
    ordered("range-ordered-empty-key", 0.01, || vec![Vec::new()]),
    ordered("range-ordered-fruit", 0.01, fruit),
    ordered("range-ordered-u64", 0.01, || spread_integers(600)),
    // High rates, so that cells are coarse and keys share codes.
    ordered("range-ordered-strings", 0.4, || strings(&[0, b'a', 0xff], 5, 200)),
    ordered("range-ordered-zeros", 0.9, || strings(&[0, 1], 8, 220)),
    // Integers dense enough for a cell each in most segments, and a rate that takes many low bits.
    ordered("range-ordered-clusters", 0.01, clusters),
    ordered("range-ordered-one-key-in-a-segment", 0.01, || (0..225).map(|number| bytes(number << 40)).collect()),
    ordered("range-ordered-low-rate", 1e-9, || spread_integers(230)),
    ordered("range-ordered-hosts", 0.01, hosts),
    ordered("range-ordered-long-common-prefix", 0.02, long_prefixes),
    ordered("range-ordered-longer-than-a-window", 0.1, longer_than_a_window),
    ordered("range-ordered-zeros-beyond-a-window", 0.01, zeros_beyond_a_window),
    RangeCase { file_number: Some(7), ..ordered("range-ordered-bound-to-file-7", 0.01, || spread_integers(40)) },
    // Dense integers: a bit for each, split codes, integers after a prefix, the largest one, and all of one byte.
    ordered("range-exact-bitmap", 0.01, || dense_integers(1_500, 3)),
    // Ordered codes would be smaller, but not by the writer's estimate.
    ordered("range-exact-sparse-bitmap", 0.01, || dense_integers(502, 6)),
    ordered("range-exact-split", 0.01, || dense_integers(700, 40)),
    ordered("range-exact-prefixed", 0.01, || {
        dense_integers(300, 11).iter().map(|integer| [b"prefix", &integer[..]].concat()).collect()
    }),
    ordered("range-exact-largest-integer", 0.01, || vec![vec![0xff; 8]]),
    ordered("range-exact-all-of-one-byte", 0.01, || (0..=u8::MAX).map(|byte| vec![byte]).collect()),
    hashed("range-hashed-no-keys", (0.01, 32), (8, 0), Vec::new),
    // Text in units of 2^40: only its first three bytes count.
    hashed("range-hashed-fruit", (0.01, 4), (8, 40), fruit),
    hashed("range-hashed-u64", (0.01, 32), (8, 0), || spread_integers(500)),
    // Consecutive integers put more than 224 codes into a line.
    hashed("range-hashed-overfull-line", (0.01, 64), (8, 0), || dense_integers(600, 0)),
    // A rate of 0.9 needs no low bits.
    hashed("range-hashed-no-low-bits", (0.9, 1), (1, 0), || {
        strings(&[0, 7, 8, 0x0f, 0x10, 0x11, 0x80, 0xf0, 0xff], 2, 256)
    }),
    hashed("range-hashed-strings", (0.3, 40), (5, 9), || strings(&[0, b'a', 0xff], 5, 200)),
    hashed("range-hashed-long-ranges", (0.001, 1 << 20), (8, 10), || spread_integers(100)),
    hashed("range-hashed-zeros-beyond-a-window", (0.01, 32), (8, 0), zeros_beyond_a_window),
    hashed("range-hashed-wrapped", (0.5, 1 << 19), (8, 0), wrapped),
    within(Extractor::Fixed(2), hashed("range-hashed-successor-of-a-prefix", (0.02, 16), (2, 0), successor)),
    within(Extractor::Fixed(2), hashed("range-hashed-fixed-prefix", (0.02, 16), (2, 0), prefixed)),
    within(Extractor::Delimited(b':'), hashed("range-hashed-delimited", (0.02, 100), (4, 8), delimited)),
    // No key contains this delimiter.
    within(Extractor::Delimited(b'#'), hashed("range-hashed-all-outside", (0.02, 16), (8, 0), fruit)),
    RangeCase {
        hash: Hash::Secret(0x5ec2_e75e_ed5e_c2e7),
        file_number: Some(9),
        ..hashed("range-hashed-secret-seed-bound-to-file-9", (0.01, 8), (8, 0), || spread_integers(40))
    },
];

fn fruit() -> Vec<Key> {
    [&b"apple"[..], b"banana", b"cherry"].map(<[u8]>::to_vec).into()
}

fn mixed(number: u64) -> u64 {
    KeyHash::mix(number).get()
}

/// Returns integers of eight bytes, half of them in a few clusters.
fn spread_integers(count: u64) -> Vec<Key> {
    let integer = |number: u64| match number % 4 {
        0 | 1 => mixed(number),
        2 => mixed(number / 40) >> 1 << 1 | mixed(number) & 0x3f,
        _ => (number / 16) << 56 | mixed(number) >> 30,
    };
    (0..count).map(integer).map(bytes).collect()
}

/// Returns integers of eight bytes: dense ones, with large gaps in between.
fn clusters() -> Vec<Key> {
    (0..900).map(|number| bytes(number / 300 * (1 << 40) + number * (number / 300 + 1))).collect()
}

/// Returns integers of eight bytes with gaps of about `gap`.
fn dense_integers(count: u64, gap: u64) -> Vec<Key> {
    (0..count).map(|number| 0x0102_0304_0000_fff0 + number * (gap + 1) + mixed(number) % (gap + 1)).map(bytes).collect()
}

fn bytes(number: u64) -> Key {
    let mut bytes = [0; 8];
    BigEndian::write_u64(&mut bytes, number);
    bytes.to_vec()
}

/// Returns about `share` / 256 of the strings of up to `most` letters.
fn strings(letters: &[u8], most: u32, share: u64) -> Vec<Key> {
    let of_length = |length: u32| {
        let string = move |number: usize| -> Key {
            (0..length).map(|place| letters[number / letters.len().pow(place) % letters.len()]).collect()
        };
        (0..letters.len().pow(length)).map(string)
    };
    let all = (0..=most).flat_map(of_length).zip(0..);
    all.filter(|&(_, number)| mixed(number) & 255 < share).map(|(string, _)| string).collect()
}

/// Returns a few hosts with many pages: segments are cut where the host changes.
fn hosts() -> Vec<Key> {
    let page = |number: u64| format!("https://host-{}.example/page-{:03}", number / 130, number % 130 * 7);
    (0..400).map(|number| page(number).into_bytes()).collect()
}

/// Returns strings with a common prefix of 40 bytes, whose separators have tails.
fn long_prefixes() -> Vec<Key> {
    let common = [b'p'; 40];
    let rest = |number: u64| format!("{:09}/{}", mixed(number / 60) >> 40, mixed(number) >> 50);
    (0..240).map(|number| [&common[..], rest(number).as_bytes()].concat()).collect()
}

/// Returns strings that differ after the sixteenth byte, and in trailing zeros.
fn longer_than_a_window() -> Vec<Key> {
    let rest = |number: u64| -> Key {
        let zeros = vec![0; (number % 5) as usize];
        [&b"sixteen bytes..."[..(number % 17) as usize], &zeros, &bytes(mixed(number))[..2], &zeros].concat()
    };
    (0..400).map(|number| [&b"x"[..(number % 2) as usize], &rest(number)].concat()).collect()
}

/// Returns strings whose windows end in zeros, with more zeros after them: a string above one of these has the same
/// window, although the window's low bits are 0.
fn zeros_beyond_a_window() -> Vec<Key> {
    [17, 19, 1].into_iter().zip(1..).map(|(length, first)| [&[first][..], &vec![0; length - 1]].concat()).collect()
}

/// Returns integers whose codes wrap around: their chunks of 2^24 units, numbers 5 and 71, start near the end of the
/// space.
fn wrapped() -> Vec<Key> {
    [0x05ff_ffff, 0x47c0_0000].map(bytes).into()
}

/// Returns a key close to the last one that can have its prefix, and the smallest string above those with the prefix.
fn successor() -> Vec<Key> {
    vec![b"ab\xff\xf0".to_vec(), b"ac".to_vec()]
}

/// Returns prefixes of two bytes with few keys each; keys of one byte are outside the domain.
fn prefixed() -> Vec<Key> {
    let rests = strings(&[0, 1, 2, 0xff], 3, 90);
    let prefixes = [[0, 0], [0, 0xff], [b'a', b'b'], [0xff, 0xff]];
    let inside = prefixes.iter().flat_map(|prefix| rests.iter().map(move |rest| [&prefix[..], rest].concat()));
    inside.chain([vec![], vec![0], vec![b'a'], vec![0xff]]).collect()
}

/// Returns tenants with times in milliseconds; some keys have no delimiter.
fn delimited() -> Vec<Key> {
    let key = |number: u64| {
        let time = bytes(1_000_000_000 + (number % 9) * 900 + mixed(number) % 200);
        [format!("tenant-{}:", number / 9).as_bytes(), &time[4..], b"+"].concat()
    };
    (0..180).map(key).chain([b"tenant".to_vec(), b"zone".to_vec(), Vec::new()]).collect()
}

impl RangeCase {
    pub(crate) fn file(&self) -> String {
        format!("{}.block", self.name)
    }

    pub(crate) fn path(&self) -> PathBuf {
        cases::directory().join(self.file())
    }

    pub(crate) fn read(&self) -> Vec<u8> {
        std::fs::read(self.path()).unwrap()
    }

    pub(crate) fn keys(&self) -> BTreeSet<Key> {
        (self.keys)().into_iter().collect()
    }

    pub(crate) fn build(&self) -> Vec<u8> {
        let context = BuildContext::new(&self.hash.hasher());
        let context = self.file_id().map_or(context.clone(), |file| context.with_file_id(file));
        let mut builder = self.recipe.policy().builder(&context);
        self.keys().iter().for_each(|key| builder.add_key(key));
        builder.finish().block.unwrap().to_vec()
    }

    pub(crate) fn file_id(&self) -> Option<FileId> {
        self.file_number.map(|number| FileId::new(&number.to_le_bytes()).unwrap())
    }

    /// Calls `load` with the filter's context.
    pub(crate) fn for_reader<T>(&self, load: impl FnOnce(RangeContext<'_>) -> T) -> T {
        let (hasher, extractor) = (self.hash.hasher(), self.recipe.extractor());
        let context = LoadContext::new(&hasher);
        let context = self.file_id().map_or(context, |file| context.with_file_id(file));
        load(RangeContext::new(context, extractor.as_ref()))
    }

    pub(crate) fn load<D: AsRef<[u8]>>(&self, data: D) -> Result<RangeFilter<D>, BlockError> {
        self.for_reader(|context| RangeFilter::load(data, context))
    }

    /// Returns ends of ranges: some keys, their neighbours, and strings far from all keys.
    pub(crate) fn ends(&self) -> Vec<Key> {
        let keys: Vec<Key> = self.keys().into_iter().collect();
        let some = keys.iter().step_by(keys.len() / 3 + 1).chain(keys.last());
        let beside = some.flat_map(|key| {
            let raised = |by: u8| -> Key {
                let mut raised = key.clone();
                if let Some(last) = raised.last_mut() {
                    *last = last.wrapping_add(by);
                }
                raised
            };
            let shorter = key[..key.len() - key.len() / 4 - usize::from(!key.is_empty())].to_vec();
            let mut above = shorter.clone();
            if let Some(last) = above.last_mut() {
                *last = last.wrapping_add(1);
            }
            [key.clone(), [key, &[0][..]].concat(), raised(1), raised(9), shorter, above]
        });
        let far = [vec![], vec![0], vec![0xff], vec![0xff; 20], b"banana".to_vec(), b"ac".to_vec()];
        beside.chain(far).collect::<BTreeSet<Key>>().into_iter().collect()
    }
}

/// Returns all bounds with these ends: unbounded, and then for each end the inclusive and the exclusive bound.
pub(crate) fn bounds(ends: &[Key]) -> Vec<Bound<&[u8]>> {
    let both = ends.iter().flat_map(|end| [Bound::Included(&end[..]), Bound::Excluded(&end[..])]);
    [Bound::Unbounded].into_iter().chain(both).collect()
}

/// Returns the answers for all ranges with these ends: for each lower bound, a 1 or 0 for each upper bound.
pub(crate) fn answers<D: AsRef<[u8]>>(filter: &RangeFilter<D>, ends: &[Key]) -> Vec<String> {
    let bounds = bounds(ends);
    let of_lower = |&lower: &Bound<&[u8]>| {
        bounds
            .iter()
            .map(|&upper| if filter.may_contain_range(KeyRange { lower, upper }) { '1' } else { '0' })
            .collect()
    };
    bounds.iter().map(of_lower).collect()
}
