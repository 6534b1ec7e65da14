//! What file maps are compared with, written plainly: they are no part of any package.
//!
//! - A Bloom filter for each file, as an object of its own. A lookup reads all of them.
//! - Transposed groups, as `OpenObserve` has them: filters of equal size of 1,389 files, stored bit by bit, so that one
//!   request reads the same 256 bits of all files in a group.

use std::path::Path as FilePath;

use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use sstfilter::{Filters, KeyHash, Probe};

use super::{File, hash};
use crate::Result;

/// Files of a group. With 1 % false positives, and lines of 256 bits.
pub const FILES_OF_GROUP: u64 = 1_389;

/// Bits of a filter that a lookup reads.
const LINE_BITS: u64 = 256;

/// Bits of a line that a key sets.
const BITS_OF_KEY: u64 = 7;

/// Bits per key of which about 1 % false positives remain, in lines of this size.
const BITS_PER_KEY: f64 = 10.56;

/// Requests at once.
const PARALLEL: usize = 32;

/// The folders of both.
const BLOOM: &str = "cost/bloom";
const TRANSPOSED: &str = "cost/transposed";

/// Returns where a file's filter is.
fn bloom_path(file: File) -> String {
    format!("{BLOOM}/{}/{}", file.0 / 1_000, file.name())
}

/// Writes a filter for each file directly into the server's folder. Returns their bytes.
///
/// # Errors
///
/// If they cannot be written.
pub fn write_blooms(objects: &FilePath, files: u64, keys: u64) -> Result<u64> {
    let (filters, mut bytes) = (Filters::default(), 0);
    for file in (0..files).map(File) {
        let mut builder = filters.builder(file.id());
        builder.add_hashes(&file.hashes(keys, &filters));
        let block = builder.finish().block.ok_or("a file without a filter")?;
        bytes += block.len() as u64;
        super::costs::write_object(objects, &bloom_path(file), &block)?;
    }
    Ok(bytes)
}

/// Reads the filter of each file, and returns those that may have a key.
///
/// # Errors
///
/// If one cannot be read.
pub async fn probe_blooms(store: &dyn ObjectStore, files: u64, key: u64) -> Result<Vec<File>> {
    let filters = &Filters::default();
    let probed = futures::stream::iter((0..files).map(File)).map(|file| async move {
        let bytes = store.get(&Path::from(bloom_path(file))).await?.bytes().await?;
        let probe = filters.load(Some(&bytes), file.id()).probe(&key.to_le_bytes());
        Ok::<_, crate::Error>((probe != Probe::Absent).then_some(file))
    });
    probed.buffer_unordered(PARALLEL).try_filter_map(|found| async move { Ok(found) }).try_collect().await
}

/// The numbers of all groups.
#[derive(Clone, Copy, Debug)]
pub struct Transposed {
    files: u64,
    lines: u64,
}

impl Transposed {
    /// Returns the groups of files with this many keys.
    #[must_use]
    pub fn new(files: u64, keys: u64) -> Self {
        let lines = (keys as f64 * BITS_PER_KEY / LINE_BITS as f64).ceil();
        Self { files, lines: lines as u64 }
    }

    fn groups(self) -> impl Iterator<Item = std::ops::Range<u64>> {
        (0..self.files)
            .step_by(FILES_OF_GROUP as usize)
            .map(move |first| first..(first + FILES_OF_GROUP).min(self.files))
    }

    fn path(group: &std::ops::Range<u64>) -> Path {
        Path::from(format!("{TRANSPOSED}/{:06}", group.start))
    }

    /// Returns the line of a key and its bits in it.
    fn bits(self, hash: KeyHash) -> (u64, impl Iterator<Item = u64>) {
        let line = ((u128::from(hash.get()) * u128::from(self.lines)) >> 64) as u64;
        let mixed = super::mix(hash.get());
        (line, (0..BITS_OF_KEY).map(move |bit| (mixed >> (8 * bit)) % LINE_BITS))
    }

    /// Writes all groups. Returns their bytes.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn write(self, store: &dyn ObjectStore, keys: u64) -> Result<u64> {
        let (filters, mut bytes) = (Filters::default(), 0);
        for group in self.groups() {
            let row = (group.end - group.start).div_ceil(8);
            let mut rows = vec![0_u8; (self.lines * LINE_BITS * row) as usize];
            for (number, file) in (0..).zip(group.clone()) {
                for hash in File(file).hashes(keys, &filters) {
                    let (line, bits) = self.bits(hash);
                    for bit in bits {
                        rows[((line * LINE_BITS + bit) * row + number / 8) as usize] |= 1 << (number % 8);
                    }
                }
            }
            bytes += rows.len() as u64;
            store.put(&Self::path(&group), rows.into()).await?;
        }
        Ok(bytes)
    }

    /// Reads a line of each group, and returns the files that may have a key.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn probe(self, store: &dyn ObjectStore, key: u64) -> Result<Vec<File>> {
        let hash = hash(&Filters::default(), key);
        let found = try_join_all(self.groups().map(|group| async move {
            let (line, bits) = self.bits(hash);
            let row = (group.end - group.start).div_ceil(8);
            let start = line * LINE_BITS * row;
            let rows = store.get_range(&Self::path(&group), start..start + LINE_BITS * row).await?;
            let bits: Vec<u64> = bits.collect();
            let has_all = |number: u64| {
                let byte = |bit: &u64| rows[(bit * row + number / 8) as usize];
                bits.iter().all(|bit| byte(bit) >> (number % 8) & 1 == 1)
            };
            let files = (0..).zip(group).filter(|(number, _)| has_all(*number));
            Ok::<_, crate::Error>(files.map(|(_, file)| File(file)).collect::<Vec<_>>())
        }));
        Ok(found.await?.concat())
    }
}
