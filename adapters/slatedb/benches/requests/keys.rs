//! Keys: real package names, alone and with generated record numbers; and how lookups choose among them.

use std::fs::File;
use std::io::Read;

use flate2::read::GzDecoder;
use slatedb::bytes::Bytes;

use crate::AnyError;

/// Names of Debian 12, and names of a later release that Debian 12 does not have.
const PRESENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/cli/keys/debian-bookworm-packages.tsv.gz");
const ABSENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/cli/keys/debian-sid-only-packages.txt.gz");

/// `SplitMix64` (Steele, Lea and Flood, 2014): the same numbers everywhere.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`. The bias is below `end` / 2^64.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let product = u128::from(self.next()) * end as u128;
        usize::try_from(product >> 64).unwrap_or(usize::MAX)
    }

    fn number(&mut self) -> u32 {
        u32::try_from(self.next() >> 32).unwrap_or(0)
    }

    /// A number from 0 to below 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        (1..items.len()).rev().for_each(|last| items.swap(last, self.below(last + 1)));
    }
}

/// How often lookups choose each name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skew {
    /// All names equally.
    Uniform,
    /// The name of rank r with a weight of 1/r (Zipf's law).
    Zipf,
}

impl Skew {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
        }
    }

    /// Indices below `names`.
    fn draws(self, names: usize, count: usize, random: &mut Random) -> Vec<usize> {
        if self == Self::Uniform {
            return (0..count).map(|_| random.below(names)).collect();
        }
        let mut sum = 0.0;
        let sums: Vec<f64> = (1..=names)
            .map(|rank| {
                sum += 1.0 / rank as f64;
                sum
            })
            .collect();
        let points = (0..count).map(|_| random.fraction() * sum);
        points.map(|point| sums.partition_point(|upto| *upto <= point).min(names - 1)).collect()
    }
}

/// The form of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A name.
    Name,
    /// A name, a slash, and the number of one of its records, in eight hexadecimal digits.
    Record { per_name: u32 },
}

/// Keys that are dealt to SSTs.
pub(crate) trait SstKeys {
    fn ssts(&self) -> usize;

    fn of_sst(&self, sst: usize) -> impl Iterator<Item = Bytes>;
}

/// The keys of a store, dealt to SSTs that each span nearly all of them, and absent keys within all of these spans.
pub(crate) struct KeySet {
    pub(crate) form: Form,
    pub(crate) ssts: usize,
    /// In random order: the SSTs get consecutive parts.
    present: Vec<String>,
    absent: Vec<String>,
}

impl KeySet {
    /// `names` names, or as many as there are.
    pub(crate) fn new(form: Form, ssts: usize, names: usize) -> Result<Self, AnyError> {
        let mut random = Random::new(12);
        let (mut present, mut absent) = (names_in(PRESENT)?, names_in(ABSENT)?);
        random.shuffle(&mut present);
        random.shuffle(&mut absent);
        present.truncate(names);
        let mut keys = Self { form, ssts, present, absent };
        let (mut low, mut high) = (String::new(), "\u{7f}".to_owned());
        for sst in 0..ssts {
            let part: Vec<_> = keys.part(sst).iter().map(|name| keys.prefix(name)).collect();
            low = low.max(part.iter().min().cloned().unwrap_or_default() + "~");
            high = high.min(part.iter().max().cloned().unwrap_or_default());
        }
        let absent = core::mem::take(&mut keys.absent);
        keys.absent = absent.into_iter().filter(|name| (&low..&high).contains(&&keys.prefix(name))).collect();
        Ok(keys)
    }

    /// Returns the number of keys in the store.
    pub(crate) fn len(&self) -> usize {
        self.present.len() * self.per_name() as usize
    }

    /// Keys of the store, for lookups.
    pub(crate) fn present(&self, skew: Skew, count: usize, seed: u64) -> Vec<Bytes> {
        let mut random = Random::new(seed);
        let draws = skew.draws(self.present.len(), count, &mut random);
        let key = |index: usize| self.key(&self.present[index], random.number() % self.per_name());
        draws.into_iter().map(key).collect()
    }

    /// Returns keys that the store does not contain, in the range of each of its SSTs.
    pub(crate) fn absent(&self, skew: Skew, count: usize, seed: u64) -> Vec<Bytes> {
        let mut random = Random::new(seed);
        let draws = skew.draws(self.absent.len(), count, &mut random);
        draws.into_iter().map(|index| self.key(&self.absent[index], random.number())).collect()
    }

    /// Returns prefixes of records: of present names, and of absent names.
    pub(crate) fn prefixes(&self, count: usize) -> [Vec<Bytes>; 2] {
        let first = |names: &[String]| names.iter().take(count).map(|name| self.prefix(name).into()).collect();
        // Spread over all keys, because the first names are all in the first SST.
        let spread: Vec<_> = self.present.iter().step_by((self.present.len() / count).max(1)).cloned().collect();
        [first(&spread), first(&self.absent)]
    }

    fn part(&self, sst: usize) -> &[String] {
        let end = |sst: usize| self.present.len() * sst / self.ssts;
        &self.present[end(sst)..end(sst + 1)]
    }

    fn per_name(&self) -> u32 {
        match self.form {
            Form::Name => 1,
            Form::Record { per_name } => per_name,
        }
    }

    /// Returns the common prefix of a name's keys.
    fn prefix(&self, name: &str) -> String {
        match self.form {
            Form::Name => name.to_owned(),
            Form::Record { .. } => format!("{name}/"),
        }
    }

    fn key(&self, name: &str, record: u32) -> Bytes {
        match self.form {
            Form::Name => name.to_owned().into(),
            // Multiplication by an odd number is a permutation: numbers of one name differ.
            Form::Record { .. } => format!("{name}/{:08x}", record.wrapping_mul(0x9e37_79b1)).into(),
        }
    }
}

impl SstKeys for KeySet {
    fn ssts(&self) -> usize {
        self.ssts
    }

    fn of_sst(&self, sst: usize) -> impl Iterator<Item = Bytes> {
        self.part(sst).iter().flat_map(move |name| (0..self.per_name()).map(move |record| self.key(name, record)))
    }
}

/// The first field of each line.
fn names_in(path: &str) -> Result<Vec<String>, AnyError> {
    let mut text = String::new();
    let file = File::open(path).map_err(|error| format!("{path}: {error}"))?;
    GzDecoder::new(file).read_to_string(&mut text)?;
    Ok(text.lines().map(|line| line.split('\t').next().unwrap_or(line).to_owned()).collect())
}
