//! Memory that one build leaves to the next.

use std::sync::Mutex;

use crate::filter::ribbon::Section;

/// The most sections that are kept: one for each build that may run at a time.
const MOST_KEPT: usize = 8;

/// A section that grew beyond this met a crowd of hashes; it is not kept.
const LARGEST_KEPT: u64 = 4 << 20;

/// Sections between builds: about 3 MB each, which the system would otherwise have to clear for every file.
#[derive(Debug, Default)]
pub(super) struct ScratchPool {
    idle: Mutex<Vec<Section>>,
}

impl ScratchPool {
    pub(super) fn take(&self) -> Section {
        self.idle.lock().ok().and_then(|mut idle| idle.pop()).unwrap_or_default()
    }

    pub(super) fn give_back(&self, section: Section) {
        if let Ok(mut idle) = self.idle.lock()
            && idle.len() < MOST_KEPT
            && section.bytes() <= LARGEST_KEPT
        {
            idle.push(section);
        }
    }
}
