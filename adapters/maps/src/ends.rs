//! Reads the end of a map: what a lookup or a merge must know before it reads pages.

use bytes::Bytes;
use object_store::{GetOptions, ObjectStoreExt};
use sstfilter::{BlockError, Filters};
use sstfilter_map::{MapError, MapIndex};

use crate::error::{Error, Result};
use crate::manifest::{Folder, MapEntry};

/// The requests for an end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EndReads {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    /// Ends that were read again because they were damaged.
    pub(crate) repeated: u64,
}

impl Folder {
    /// Loads the end of a map with one request; a second time if it is damaged.
    pub(crate) async fn end(&self, map: &MapEntry, filters: &Filters, reads: &mut EndReads) -> Result<MapIndex> {
        match self.end_once(map, filters, reads).await {
            // A sound end, of a map that was built with another hash.
            Err(error @ Error::Map(MapError::Block(BlockError::HashMismatch { .. }))) => Err(error),
            // Damage on the way is over the next time, damage in the store is not.
            Err(Error::Map(_)) => {
                reads.repeated += 1;
                self.end_once(map, filters, reads).await
            }
            end => end,
        }
    }

    async fn end_once(&self, map: &MapEntry, filters: &Filters, reads: &mut EndReads) -> Result<MapIndex> {
        // The manifest says how much is needed. If it is wrong, the map itself says it.
        let mut length = MapIndex::end_bytes_of(map.files);
        loop {
            let end = self.last_bytes(map, length, reads).await?;
            let needed = MapIndex::end_bytes(&end)?.min(map.bytes);
            if needed <= length {
                return Ok(MapIndex::load(&end, map.bytes, filters, map.map_id())?);
            }
            length = needed;
        }
    }

    /// Reads the last bytes of a map, unless the object has another size than the manifest says.
    async fn last_bytes(&self, map: &MapEntry, length: u64, reads: &mut EndReads) -> Result<Bytes> {
        let object = self.object(&map.object);
        let range = map.bytes.saturating_sub(length)..map.bytes;
        let options = GetOptions { range: Some(range.into()), ..GetOptions::default() };
        reads.requests += 1;
        let got = match self.store.get_opts(&object, options).await {
            Ok(got) => got,
            Err(error @ object_store::Error::NotFound { .. }) => return Err(error.into()),
            // Stores have no common error for a range that the object does not have.
            Err(error) => {
                reads.requests += 1;
                let size = self.store.head(&object).await.map_or(map.bytes, |meta| meta.size);
                ensure_size(map, size)?;
                return Err(error.into());
            }
        };
        ensure_size(map, got.meta.size)?;
        let end = got.bytes().await?;
        reads.bytes += end.len() as u64;
        Ok(end)
    }
}

fn ensure_size(map: &MapEntry, got: u64) -> Result<()> {
    if got == map.bytes {
        return Ok(());
    }
    Err(MapError::Length { what: "file map, by its manifest", expected: map.bytes, got }.into())
}
