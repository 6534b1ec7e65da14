//! The data blocks of a table that were read with [`ReadOptions::with_kept_blocks`](super::ReadOptions::with_kept_blocks).

use std::sync::OnceLock;

use super::entry_block::KeptBlock;

/// A place for each data block, empty until the block is first read.
#[derive(Debug, Default)]
pub(crate) struct KeptBlocks {
    /// As many as the index has blocks; made when the first is kept.
    slots: OnceLock<Box<[OnceLock<KeptBlock>]>>,
}

impl KeptBlocks {
    #[inline]
    pub(crate) fn get(&self, position: usize) -> Option<&KeptBlock> {
        self.slots.get()?.get(position)?.get()
    }

    /// Keeps a block of a table of `blocks`. Of two threads that come with the same one, the first wins.
    pub(crate) fn keep(&self, position: usize, block: KeptBlock, blocks: usize) {
        let slots = self.slots.get_or_init(|| (0..blocks).map(|_| OnceLock::new()).collect());
        if let Some(slot) = slots.get(position) {
            slot.get_or_init(|| block);
        }
    }
}
