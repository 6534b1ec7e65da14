//! Excludes tables by their smallest and largest key: a lookup never reads a table whose key range excludes the key,
//! whatever its filter answers.

use std::path::Path;

use clap::Args;

use crate::opened::{Manifests, Opened};

/// Whether tables are excluded by their bounds.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct BoundsArgs {
    /// Ignore the smallest and largest key of each table and probe its filter for every key. By default, a key outside
    /// that range does not touch the table. sstfilter's tables record the range themselves; for RocksDB, LevelDB and
    /// Pebble, it comes from the MANIFEST next to the tables
    #[arg(long)]
    pub(crate) filters_only: bool,
}

/// Returns the positions of the keys inside the bounds of the file at `path`, ascending; `None` if its bounds are
/// unknown.
pub(super) fn positions(opened: &Opened, path: &Path, manifests: &Manifests, keys: &[&[u8]]) -> Option<Vec<u32>> {
    let chosen = |holds: &dyn Fn(&[u8]) -> bool| {
        let within = (0..).zip(keys).filter(|(_, key)| holds(key));
        within.map(|(position, _)| position).collect()
    };
    match opened {
        Opened::Table(table) => {
            let bounds = table.properties().filters.key_bounds();
            // Only a table without entries has no bounds, and it contains no key.
            Some(chosen(&|key| bounds.is_some_and(|(smallest, largest)| smallest <= key && key <= largest)))
        }
        Opened::Foreign(table) => {
            // Without a manifest, nothing records the bounds of another engine's table.
            let file = manifests.file(path)?;
            let range = table.bounds(&file)?;
            Some(chosen(&|key| range.holds(key)))
        }
        // Filters without a table do not record bounds.
        Opened::FilterBlock(_) | Opened::RangeFilter(_) | Opened::Partitions(_) => None,
    }
}

/// Returns the positions in both lists, which are ascending.
pub(super) fn intersection(some: &[u32], others: &[u32]) -> Vec<u32> {
    let mut others = others.iter().copied().peekable();
    let is_in_others = |position: &u32| {
        while others.next_if(|other| other < position).is_some() {}
        others.peek() == Some(position)
    };
    some.iter().copied().filter(is_in_others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_both_is_kept() {
        assert_eq!(intersection(&[1, 3, 4, 9], &[0, 3, 9, 10]), [3, 9]);
        assert_eq!(intersection(&[], &[1]), intersection(&[1], &[]));
    }
}
