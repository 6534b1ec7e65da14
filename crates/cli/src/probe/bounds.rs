//! Which keys a table may hold by its smallest and its largest key: a lookup goes to no other table, whatever its
//! filter says.

use std::path::Path;

use clap::Args;

use crate::opened::{Manifests, Opened};

/// Whether tables are left out by their bounds.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct BoundsArgs {
    /// Leave the smallest and the largest keys of the tables out of it: what the filters alone say of every key. By
    /// default a table is touched only by keys between them, as tables of sstfilter say themselves, and those of
    /// RocksDB, LevelDB and Pebble in the MANIFEST beside them
    #[arg(long)]
    pub(crate) filters_only: bool,
}

/// The positions of the keys that the file at `path` may hold by its bounds, ascending; `None` if nothing tells its
/// bounds.
pub(super) fn positions(opened: &Opened, path: &Path, manifests: &Manifests, keys: &[&[u8]]) -> Option<Vec<u32>> {
    let chosen = |holds: &dyn Fn(&[u8]) -> bool| {
        let within = (0..).zip(keys).filter(|(_, key)| holds(key));
        within.map(|(position, _)| position).collect()
    };
    match opened {
        Opened::Table(table) => {
            let bounds = table.properties().filters.key_bounds();
            Some(chosen(&|key| bounds.is_some_and(|(smallest, largest)| smallest <= key && key <= largest)))
        }
        Opened::Foreign(table) => {
            let file = manifests.file(path)?;
            let range = table.key_range(&file)?;
            Some(chosen(&|key| range.holds(key)))
        }
        Opened::FilterBlock(_) | Opened::RangeFilter(_) | Opened::Partitions(_) => None,
    }
}

/// The positions that are in both, which ascend.
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
