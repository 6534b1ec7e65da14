//! Reads the end of a map: what a lookup or a merge must know before it reads pages.

use bytes::Bytes;
use object_store::ObjectStoreExt;
use sstfilter::Filters;
use sstfilter_map::MapIndex;

use crate::error::Result;
use crate::manifest::{Folder, MapEntry};

/// Bytes of a covered file in a map, and bytes after all of them.
const COVERED_BYTES: u64 = 16;
const END_BYTES: u64 = 60;

impl Folder {
    /// Loads the end of a map with one request. `count` is called with the bytes of each.
    pub(crate) async fn end(&self, map: &MapEntry, filters: &Filters, mut count: impl FnMut(u64)) -> Result<MapIndex> {
        let object = self.object(&map.object);
        // The manifest says how much is needed. If it is wrong, the map itself says it.
        let mut length = u64::from(map.files) * COVERED_BYTES + END_BYTES;
        loop {
            let range = map.bytes.saturating_sub(length)..map.bytes;
            let end: Bytes = self.store.get_range(&object, range).await?;
            count(end.len() as u64);
            let needed = MapIndex::end_bytes(&end)?.min(map.bytes);
            if needed <= length {
                return Ok(MapIndex::load(&end, map.bytes, filters, map.map_id())?);
            }
            length = needed;
        }
    }
}
