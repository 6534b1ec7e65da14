//! The files under a budget, in slots: adding and removing one takes the same time whatever their number.

use std::sync::{Arc, Mutex};

use super::file::File;
use crate::panics::{lock, try_lock};

/// Locked for a moment at a time. No code of sources runs under the lock, because it could drop or add files.
#[derive(Debug, Default)]
pub(super) struct Registry {
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    files: Vec<Option<Arc<File>>>,
    free: Vec<u32>,
}

impl Slots {
    fn number(&self) -> u32 {
        u32::try_from(self.files.len()).unwrap_or(u32::MAX)
    }
}

impl Registry {
    /// Adds a file, and gives its slot. Free slots are used again, the last one first.
    pub(super) fn add(&self, file: Arc<File>) -> u32 {
        let mut slots = lock(&self.slots);
        if let Some(slot) = slots.free.pop() {
            if let Some(free) = slots.files.get_mut(slot as usize) {
                *free = Some(file);
            }
            return slot;
        }
        slots.files.push(Some(file));
        // Four billion files do not fit into memory.
        slots.number() - 1
    }

    /// Removes the file; the caller drops it, outside of the lock.
    pub(super) fn remove(&self, slot: u32) -> Option<Arc<File>> {
        let mut slots = lock(&self.slots);
        let file = slots.files.get_mut(slot as usize)?.take()?;
        slots.free.push(slot);
        Some(file)
    }

    pub(super) fn get(&self, slot: u32) -> Option<Arc<File>> {
        lock(&self.slots).files.get(slot as usize)?.clone()
    }

    /// The same, and the number of slots, without waiting: `None` if another thread has the lock.
    pub(super) fn try_get(&self, slot: u32) -> Option<(Option<Arc<File>>, u32)> {
        let slots = try_lock(&self.slots)?;
        Some((slots.files.get(slot as usize).and_then(Clone::clone), slots.number()))
    }

    /// Slots in use or free.
    pub(super) fn slots(&self) -> u32 {
        lock(&self.slots).number()
    }

    /// The files with their slots. Files that come and go meanwhile may be among them or not.
    pub(super) fn files(&self) -> impl Iterator<Item = (u32, Arc<File>)> + '_ {
        (0..self.slots()).filter_map(|slot| Some((slot, self.get(slot)?)))
    }
}
