//! The ids of the files of a view, each of which one file has.

use std::sync::Arc;

use sstfilter::{FileId, KeyHash};

/// The fingerprints of all files that have an id of their own, in shards that views share: an edit copies those of its
/// files, and one pointer for each shard.
#[derive(Clone, Default)]
pub(super) struct Ids {
    shards: Vec<Arc<Vec<u64>>>,
    len: usize,
}

/// The average number of ids in a shard above which their number is doubled.
const PER_SHARD: usize = 32;

impl Ids {
    fn shard(&mut self, id: u64) -> Option<&mut Vec<u64>> {
        // Mixed, because an engine may use file numbers as fingerprints.
        let place = KeyHash::mix(id).get().checked_rem(self.shards.len() as u64)?;
        self.shards.get_mut(usize::try_from(place).ok()?).map(Arc::make_mut)
    }

    pub(super) fn remove(&mut self, file: FileId) {
        let id = file.fingerprint();
        let Some(shard) = self.shard(id) else { return };
        if let Some(place) = shard.iter().position(|other| *other == id) {
            shard.swap_remove(place);
            self.len -= 1;
        }
    }

    /// Returns whether the id is new, or says nothing because the file has none of its own.
    #[must_use]
    pub(super) fn insert(&mut self, file: FileId) -> bool {
        let id = file.fingerprint();
        if id == 0 {
            return true;
        }
        if self.len >= self.shards.len() * PER_SHARD {
            let ids: Vec<u64> = self.shards.iter().flat_map(|shard| shard.iter().copied()).collect();
            self.shards = vec![Arc::default(); (self.shards.len() * 2).max(1)];
            ids.into_iter().for_each(|id| self.shard(id).into_iter().for_each(|shard| shard.push(id)));
        }
        let Some(shard) = self.shard(id).filter(|shard| !shard.contains(&id)) else { return false };
        shard.push(id);
        self.len += 1;
        true
    }
}
