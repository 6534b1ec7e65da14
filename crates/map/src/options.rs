//! What a store decides once for all of its maps.

use sstfilter::{ConfigError, FalsePositiveRate};

use crate::error::MapError;
use crate::index::{MAX_ENTRIES, MapIndex};
use crate::shape::{PAGE_BITS, PREFIX_BITS, Shape};

/// The settings of a map. Choose them once per store: maps are merged only if they keep as many bits of a hash.
///
/// ```
/// use sstfilter::FalsePositiveRate;
/// use sstfilter_map::MapOptions;
///
/// // At most a billion keys in all files together; one absent key in a hundred makes a reader search one file.
/// let options = MapOptions::for_entries(1_000_000_000, FalsePositiveRate::ONE_PERCENT)?;
/// assert_eq!(options.prefix_bits(), 37);
/// # Ok::<(), sstfilter::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapOptions {
    pub(crate) prefix_bits: u8,
    pub(crate) page_bits: u8,
    pub(crate) files_per_key: u32,
    pub(crate) threads: usize,
}

impl MapOptions {
    /// Returns options for maps of up to `max_entries` entries, counted over all files: a key in two files is two. With
    /// as many, an absent key has a false candidate at this rate, in all files together; with fewer, more rarely.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] if this takes less than 8 or more than 48 bits of a hash.
    pub fn for_entries(max_entries: u64, rate: FalsePositiveRate) -> Result<Self, ConfigError> {
        let mut prefix_bits = 0;
        while prefix_bits < 64 && (max_entries as f64) > rate.get() * (1_u128 << prefix_bits) as f64 {
            prefix_bits += 1;
        }
        Self::with_prefix_bits(prefix_bits.max(PREFIX_BITS.start))
    }

    /// Returns options for maps that keep this many bits of a hash, 8 to 48: an absent key has `entries / 2^bits` false
    /// candidates.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] for fewer bits, or more.
    pub fn with_prefix_bits(bits: u8) -> Result<Self, ConfigError> {
        if !PREFIX_BITS.contains(&bits) {
            let (option, expected) = ("bits of a hash that a map keeps", "8 to 48");
            return Err(ConfigError::OutOfRange { option, expected, got: bits.into() });
        }
        Ok(Self { prefix_bits: bits, page_bits: 16, files_per_key: 1, threads: 1 })
    }

    /// Sets the bytes of a page, a power of two from 1 KiB to 1 MiB; 64 KiB by default. A lookup in a map on disk or in
    /// an object store reads one page. Small pages take up to a tenth more bytes. A map that fits into a smaller page
    /// takes a smaller one.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] for other sizes.
    pub fn with_page_bytes(self, bytes: u32) -> Result<Self, ConfigError> {
        let page_bits = bytes.trailing_zeros() as u8;
        if !bytes.is_power_of_two() || !PAGE_BITS.contains(&page_bits) {
            let (option, expected) = ("page bytes", "a power of two from 1,024 to 1,048,576");
            return Err(ConfigError::OutOfRange { option, expected, got: bytes.into() });
        }
        Ok(Self { page_bits, ..self })
    }

    /// Sets how many files have the same key, on average; 1 by default. If this is too low, more pages outgrow their
    /// bytes, and lookups in them read twice. If it is too high, pages are emptier than they need to be.
    #[must_use]
    pub const fn with_files_per_key(self, files: u32) -> Self {
        Self { files_per_key: if files == 0 { 1 } else { files }, ..self }
    }

    /// Builds and merges on up to `threads` threads, including the calling one. The bytes do not depend on it.
    #[must_use]
    pub const fn with_threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Returns the bits of a hash that maps keep.
    #[must_use]
    pub const fn prefix_bits(&self) -> u8 {
        self.prefix_bits
    }

    /// Returns the size that a build or a merge gives a map with this number of files and entries.
    ///
    /// # Errors
    ///
    /// No map has these numbers: there are too many files or entries, or none.
    pub fn plan(&self, files: u32, entries: u64) -> Result<MapPlan, MapError> {
        let shape = self.shape(files, entries)?;
        Ok(MapPlan {
            pages: shape.pages,
            page_bytes: shape.page_bytes() as u64,
            end_bytes: MapIndex::end_bytes_of(files),
            expected_false_candidates: entries as f64 / (1_u64 << self.prefix_bits) as f64,
        })
    }

    pub(crate) fn shape(&self, files: u32, entries: u64) -> Result<Shape, MapError> {
        MapError::require(entries <= MAX_ENTRIES, "entries", "at most 2^40 - 1", entries)?;
        Shape::plan(self.prefix_bits, self.page_bits, files, entries, self.files_per_key.into())
    }
}

/// The planned size of a map. What follows is exact but for keys that 32 or more files have, whose files are stored
/// outside of pages, and for pages that outgrow their bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct MapPlan {
    /// Number of pages.
    pub pages: u64,
    /// Bytes of a page, which one lookup reads.
    pub page_bytes: u64,
    /// Bytes behind the pages, which a reader keeps in memory: the covered files, and the numbers of the map.
    pub end_bytes: u64,
    /// Files that an absent key is expected to be looked for in, of all files together.
    pub expected_false_candidates: f64,
}

impl MapPlan {
    /// Returns the bytes of the whole map.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.pages * self.page_bytes + self.end_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(max_entries: u64, rate: f64) -> Option<u8> {
        let rate = FalsePositiveRate::new(rate).ok()?;
        MapOptions::for_entries(max_entries, rate).ok().map(|options| options.prefix_bits())
    }

    #[test]
    fn a_map_keeps_as_many_bits_as_the_rate_takes() {
        assert_eq!([bits(0, 0.01), bits(1, 0.01), bits(128, 0.5), bits(129, 0.5)], [8, 8, 8, 9].map(Some));
        assert_eq!([bits(1 << 38, 1.0 / 1_024.0), bits((1 << 38) + 1, 1.0 / 1_024.0)], [Some(48), None]);
        assert_eq!(bits(u64::MAX, 1e-9), None);
    }

    #[test]
    fn options_that_no_map_has_are_refused() {
        let bits = |bits| MapOptions::with_prefix_bits(bits).map(|options| options.prefix_bits()).ok();
        assert_eq!([7, 8, 48, 49].map(bits), [None, Some(8), Some(48), None]);
        let options = MapOptions::with_prefix_bits(20).unwrap();
        let page_bits = |bytes| options.with_page_bytes(bytes).map(|options| options.page_bits).ok();
        let sizes = [0, 512, 1_024, 1_536, 1 << 20, 1 << 21];
        assert_eq!(sizes.map(page_bits), [None, None, Some(10), None, Some(20), None]);
        assert_eq!((options.page_bits, options.with_files_per_key(0).files_per_key), (16, 1));
    }
}
