//! The parts of a filter, and the container that stores them.

use alloc::vec::Vec;

use bytes::Bytes;

use crate::block::{DynamicFilter, FilterBlock, HeldParts, LoadContext, MatchBitmap};
use crate::codec::{CHECKSUM_BYTES, Fields, checksum};
use crate::error::BlockError;
use crate::filter::error::FilterError;
use crate::filter::register_blocked_bloom::RegisterBlockedBloom;
use crate::filter::standard_bloom::StandardBloom;
use crate::hash::{HashIdentity, KeyHash, KeyParts};
use crate::ids::FileId;
use crate::units::FalsePositiveRate;

/// Bytes of the trailer, with the checksum.
const TRAILER_BYTES: usize = 36;

const MAGIC: [u8; 2] = *b"ST";
const VERSION: u8 = 1;

/// More parts than a scalable filter ever has, and generations that are still fast to probe.
pub(super) const MAX_PARTS: u16 = 64;

/// A kind of filter that the growing parts are made of: [`StandardBloom`] of any size and rate, or
/// [`RegisterBlockedBloom`], which is faster, has sizes that are powers of two, and no low rates.
pub trait Part: DynamicFilter + Sized {
    /// Creates the smallest filter whose expected rate with `keys` keys is at most `rate`.
    #[doc(hidden)]
    fn planned(hash: HashIdentity, keys: u64, rate: FalsePositiveRate) -> Result<Self, FilterError>;

    /// Inserts a key, and returns whether it was new.
    #[doc(hidden)]
    fn add(&mut self, hash: KeyHash) -> bool;
}

impl Part for StandardBloom {
    fn planned(hash: HashIdentity, keys: u64, rate: FalsePositiveRate) -> Result<Self, FilterError> {
        Self::for_rate(hash, keys, rate)
    }

    fn add(&mut self, hash: KeyHash) -> bool {
        self.insert(hash)
    }
}

impl Part for RegisterBlockedBloom {
    fn planned(hash: HashIdentity, keys: u64, rate: FalsePositiveRate) -> Result<Self, FilterError> {
        Self::for_rate(hash, keys, rate)
    }

    fn add(&mut self, hash: KeyHash) -> bool {
        self.insert_exclusive(hash)
    }
}

/// How full a filter of several parts is.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct LayersHealth {
    /// Keys in all parts.
    pub keys: u64,
    /// Filters that a probe may read.
    pub parts: usize,
    /// Bytes of all parts, as blocks.
    pub bytes: u64,
    /// The share of bits that are set in the fullest growing part.
    pub fill_ratio: f64,
    /// The expected false positive rate of all parts together, at their present fill.
    pub expected_fpr: f64,
}

/// Which type a container stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Late = 1,
    Scalable = 2,
    Rotating = 3,
}

/// What a container stores besides its blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    /// The rate of all growing parts together.
    pub(super) rate: FalsePositiveRate,
    /// Keys for which the first growing part, or each generation, is planned.
    pub(super) keys: u64,
    /// Keys that were new to the newest part.
    pub(super) inserted: u64,
}

/// Filters of one hash.
#[derive(Debug)]
pub(super) struct Layers<P> {
    pub(super) hash: HashIdentity,
    /// The file that all parts are bound to.
    pub(super) file: Option<FileId>,
    /// A static filter under the growing ones.
    pub(super) base: Option<FilterBlock<Bytes>>,
    /// From the oldest to the newest; never empty.
    pub(super) parts: Vec<P>,
    pub(super) numbers: Numbers,
}

/// Loads a static filter, if it holds whole keys like those that come late.
pub(super) fn load_base(block: Bytes, context: LoadContext<'_>) -> Result<FilterBlock<Bytes>, BlockError> {
    let base = FilterBlock::load(block, context)?;
    base.held_parts().check(&KeyParts::whole_keys())?;
    Ok(base)
}

impl<P: Part> Layers<P> {
    /// Adds a filter for `keys` keys, which becomes the newest.
    pub(super) fn push(&mut self, keys: u64, rate: f64) -> Result<(), FilterError> {
        self.parts.push(P::planned(self.hash, keys, FalsePositiveRate::new(rate)?)?);
        self.numbers.inserted = 0;
        Ok(())
    }

    /// Inserts a key into the newest part, and returns whether it was new to it.
    pub(super) fn add(&mut self, hash: KeyHash) -> bool {
        let is_new = self.parts.last_mut().is_some_and(|newest| newest.add(hash));
        // A forged container may say that it is full.
        self.numbers.inserted = self.numbers.inserted.saturating_add(is_new.into());
        is_new
    }

    pub(super) fn contains(&self, hash: KeyHash) -> bool {
        // The newest first: it has the most keys, or the most recent.
        self.parts.iter().rev().any(|part| part.contains(hash))
            || self.base.as_ref().is_some_and(|base| base.may_contain(hash))
    }

    /// Returns whether a part below the newest may contain the key.
    pub(super) fn is_older(&self, hash: KeyHash) -> bool {
        self.parts.iter().rev().skip(1).any(|part| part.contains(hash))
    }

    pub(super) fn contains_batch(&self, hashes: &[KeyHash], matches: &mut MatchBitmap) {
        matches.reset(hashes.len());
        let mut own = MatchBitmap::default();
        for part in &self.parts {
            part.contains_batch(hashes, &mut own);
            matches.add(&own);
        }
        if let Some(base) = &self.base {
            base.may_contain_batch(hashes, &mut own);
            matches.add(&own);
        }
    }

    pub(super) fn health(&self) -> LayersHealth {
        let base = self.base.as_ref();
        let (mut keys, mut bytes) = base.map_or((0, 0), |base| (base.info().keys, base.as_bytes().len() as u64));
        let mut fill_ratio = 0_f64;
        let mut absent = 1.0 - base.map_or(0.0, FilterBlock::expected_fpr);
        for part in &self.parts {
            let health = part.health();
            (keys, bytes) = (keys.saturating_add(health.keys), bytes + part.block_bytes());
            (absent, fill_ratio) = (absent * (1.0 - health.expected_fpr), fill_ratio.max(health.fill_ratio));
        }
        let parts = self.parts.len() + usize::from(base.is_some());
        LayersHealth { keys, parts, bytes, fill_ratio, expected_fpr: 1.0 - absent }
    }

    pub(super) fn to_bytes(&self, role: Role) -> Result<Bytes, FilterError> {
        let base = self.base.as_ref().map_or(&[][..], FilterBlock::as_bytes);
        // A bound block has eight bytes more; then the sizes and the trailer.
        let blocks = self.parts.len() as u64 + 1;
        let most = self.parts.iter().map(P::block_bytes).sum::<u64>() + base.len() as u64 + 16 * blocks + 36;
        let no_memory = || FilterError::NoMemory { bytes: most };
        let (mut bytes, mut sizes) = (Vec::new(), Vec::new());
        bytes.try_reserve_exact(usize::try_from(most).map_err(|_| no_memory())?).map_err(|_| no_memory())?;
        if self.base.is_some() {
            bytes.extend_from_slice(base);
            sizes.push(base.len());
        }
        for part in &self.parts {
            let block = part.to_block()?;
            let block = match self.file {
                Some(file) => FilterBlock::open_unverified(block)?.bound_to(file),
                None => block,
            };
            bytes.extend_from_slice(&block);
            sizes.push(block.len());
        }
        let Numbers { rate, keys, inserted } = self.numbers;
        sizes.iter().for_each(|size| bytes.extend_from_slice(&(*size as u64).to_le_bytes()));
        for number in [rate.get().to_bits(), keys, inserted] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most `MAX_PARTS` and a base")]
        let count = sizes.len() as u16;
        bytes.extend_from_slice(&count.to_le_bytes());
        let generations = if role == Role::Rotating { count } else { 0 };
        bytes.extend_from_slice(&generations.to_le_bytes());
        bytes.extend_from_slice(&[role as u8, VERSION]);
        bytes.extend_from_slice(&MAGIC);
        let checksum = checksum(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        Ok(bytes.into())
    }

    pub(super) fn from_bytes(role: Role, bytes: &Bytes, context: &LoadContext<'_>) -> Result<Self, FilterError> {
        let (sizes, numbers) = Numbers::decode(bytes, role)?;
        let identity = context.identity();
        let of_part = match identity.file {
            Some(file) => LoadContext::from(identity.hash).with_file_id(file),
            None => LoadContext::from(identity.hash),
        };
        let (mut base, mut parts, mut start) = (None, Vec::new(), 0);
        for size in sizes {
            // The sizes were added up.
            let block = bytes.slice(start..start + size);
            start += size;
            if role == Role::Late && base.is_none() {
                base = Some(load_base(block, context.with_known_keys(&[]))?);
            } else {
                parts.push(P::from_block(&block, of_part)?);
            }
        }
        if let (Role::Scalable, Some(newest)) = (role, parts.last()) {
            // The next part is planned by these numbers, so they must explain the newest one. Its size was rounded up,
            // and its rate computed on another platform perhaps.
            let (keys, rate) = numbers.scalable_part(parts.len() - 1);
            BlockError::require(
                newest.expected_fpr(keys) <= rate * 1.01,
                "planned keys of layers",
                "a number for which the newest part has its planned rate",
                keys,
            )?;
        }
        let layers = Self { hash: identity.hash, file: identity.file, base, parts, numbers };
        for known in HeldParts::of_field(&[]).known_hashes(context)? {
            if !layers.contains(known.hash) {
                return Err(BlockError::KnownKeyAbsent { hash: identity.hash }.into());
            }
        }
        Ok(layers)
    }
}

impl Numbers {
    /// Returns for how many keys and at which rate a part of a scalable filter is planned. The rates of all parts add
    /// up to the filter's, for any number of them. The first part costs 4.8 bits more per key than one filter of this
    /// rate (1.44 log2(10)), and each further part 0.2 more. Ratios below 0.9 are cheaper for the first parts, and more
    /// expensive after many: at a hundred times the first size, 0.8 and 0.9 differ by a quarter of a bit.
    pub(super) fn scalable_part(&self, number: usize) -> (u64, f64) {
        let rate = (0..number).fold(self.rate.get() * 0.1, |rate, _| rate * 0.9);
        (self.keys.saturating_mul(1 << number), rate)
    }

    /// Checks the end of a container, and returns the sizes of its blocks and its numbers.
    fn decode(bytes: &[u8], role: Role) -> Result<(Vec<usize>, Self), BlockError> {
        let short = |expected: u64| BlockError::TooShort { expected, got: bytes.len() as u64 };
        let (before, fields) = Fields::<TRAILER_BYTES>::at_end_of(bytes).ok_or_else(|| short(TRAILER_BYTES as u64))?;
        let (magic, version) = (fields.array::<30, 2>(), fields.u8::<29>());
        if magic != MAGIC {
            return Err(BlockError::Magic { got: u16::from_le_bytes(magic) });
        }
        let (expected, got) =
            (fields.u32::<32>(), checksum(bytes.get(..bytes.len() - CHECKSUM_BYTES).unwrap_or_default()));
        if expected != got {
            return Err(BlockError::TrailerChecksum { expected, got });
        }
        if version != VERSION {
            return Err(BlockError::Version { expected: VERSION, got: version });
        }
        let stored = fields.u8::<28>();
        BlockError::require(
            stored == role as u8,
            "type of layers",
            "1 late, 2 scalable, 3 rotating: the one to load",
            stored,
        )?;
        let (parts, generations) = (fields.u16::<24>(), fields.u16::<26>());
        let allowed = match role {
            Role::Late => 2..=2,
            Role::Scalable => 1..=MAX_PARTS,
            Role::Rotating => generations.max(2)..=generations.min(MAX_PARTS),
        };
        BlockError::require(
            allowed.contains(&parts),
            "parts of layers",
            "as many as their type has, at most 64",
            parts,
        )?;
        let has_generations = role == Role::Rotating || generations == 0;
        BlockError::require(has_generations, "generations of layers", "0 in a type without any", generations)?;
        let rate = f64::from_bits(fields.u64::<0>());
        let rate = FalsePositiveRate::new(rate).map_err(|_| BlockError::Field {
            field: "rate of layers",
            expected: "a number between 0 and 1",
            got: rate.to_bits(),
        })?;
        let table = before
            .len()
            .checked_sub(usize::from(parts) * 8)
            .ok_or_else(|| short(TRAILER_BYTES as u64 + 8 * u64::from(parts)))?;
        let sizes = before.get(table..).unwrap_or_default().as_chunks().0.iter().map(|&size| u64::from_le_bytes(size));
        let total = sizes.clone().try_fold(0_u64, u64::checked_add).unwrap_or(u64::MAX);
        let rest = (bytes.len() - table) as u64;
        if total != table as u64 {
            return Err(BlockError::Length { expected: total.saturating_add(rest), got: bytes.len() as u64 });
        }
        let sizes = sizes.filter_map(|size| usize::try_from(size).ok()).collect();
        let keys = fields.u64::<8>();
        BlockError::require(keys > 0, "planned keys of layers", "1 or more", keys)?;
        Ok((sizes, Self { rate, keys, inserted: fields.u64::<16>() }))
    }
}

/// What filters of several parts have in common.
#[expect(private_bounds, reason = "only this crate implements the trait, so that methods can be added to it")]
pub trait LayeredFilter: HasLayers {
    /// Whether the key may have been inserted; `false` is certain.
    fn contains(&self, hash: KeyHash) -> bool {
        self.layers().contains(hash)
    }

    /// Probes for many keys, and stores the answers in `matches` in the same order. Each part is probed for all keys.
    fn contains_batch(&self, hashes: &[KeyHash], matches: &mut MatchBitmap) {
        self.layers().contains_batch(hashes, matches);
    }

    /// Returns how full all parts are. Reads all of them.
    fn health(&self) -> LayersHealth {
        self.layers().health()
    }

    /// Stores all parts as one.
    ///
    /// # Errors
    ///
    /// [`FilterError::NoMemory`] when allocation fails.
    fn to_bytes(&self) -> Result<Bytes, FilterError> {
        self.layers().to_bytes(Self::ROLE)
    }

    /// Loads what [`to_bytes`](Self::to_bytes) stored, for more keys. `context` is that of a block: the reader's hash,
    /// and the known keys that the filter must have. Late keys are bound to the file of their static filter; the other
    /// types to none, so load them without a file. Treat every error as "may be present".
    ///
    /// Bytes that were stored before a key was inserted load as well. Pass the last key that was inserted as a known
    /// key: stale bytes do not have it.
    ///
    /// # Errors
    ///
    /// [`FilterError::Block`] if the bytes are damaged, store another type, or do not match the context.
    fn from_bytes<'a>(bytes: impl Into<Bytes>, context: impl Into<LoadContext<'a>>) -> Result<Self, FilterError>
    where
        Self: Sized,
    {
        Layers::from_bytes(Self::ROLE, &bytes.into(), &context.into()).map(Self::of)
    }
}

/// A type that consists of layers.
pub(super) trait HasLayers {
    type Part: Part;
    const ROLE: Role;

    fn of(layers: Layers<Self::Part>) -> Self;
    fn layers(&self) -> &Layers<Self::Part>;
}

/// Implements [`LayeredFilter`] for a type around layers.
macro_rules! layered {
    ($type:ident, $role:expr) => {
        impl<P: Part> crate::layers::parts::HasLayers for $type<P> {
            type Part = P;
            const ROLE: Role = $role;

            fn of(layers: Layers<P>) -> Self {
                Self { layers }
            }

            fn layers(&self) -> &Layers<P> {
                &self.layers
            }
        }

        impl<P: Part> crate::layers::parts::LayeredFilter for $type<P> {}
    };
}
pub(super) use layered;
