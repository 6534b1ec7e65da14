//! Real keys that the program includes: package names of Debian.

use std::io::Read;

use anyhow::{Context, ensure};
use flate2::read::GzDecoder;
use sstfilter::{KeyHash, KeyHasher};

use crate::file::context::KeysFormat;
use crate::file::key_list::KeyLines;

const PRESENT: &[u8] = include_bytes!("../../../keys/debian-bookworm-packages.tsv.gz");
const ABSENT: &[u8] = include_bytes!("../../../keys/debian-sid-only-packages.txt.gz");

/// Names that are in the tables, and names that are not.
pub(crate) struct BundledKeys {
    /// Debian 12: name, version and section; sorted by name.
    pub(crate) present: KeyLines,
    /// Names of a later release that Debian 12 does not have.
    pub(crate) absent: KeyLines,
}

impl BundledKeys {
    /// Returns the hashes of the present names and of the absent ones.
    pub(super) fn hashes(&self) -> [Vec<KeyHash>; 2] {
        let hasher = KeyHasher::default();
        [&self.present, &self.absent].map(|names| names.iter().map(|(name, _)| hasher.hash(name)).collect())
    }
}

/// Unpacks the bundled keys.
pub(crate) fn bundled() -> anyhow::Result<BundledKeys> {
    Ok(BundledKeys { present: unpack(PRESENT)?, absent: unpack(ABSENT)? })
}

fn unpack(packed: &[u8]) -> anyhow::Result<KeyLines> {
    let mut text = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut text).context("the bundled keys are damaged: build the program again")?;
    let mut lines = KeyLines::parse(text, KeysFormat::Lines)?;
    lines.sort_and_dedup();
    let dropped = lines.duplicate_keys;
    // All figures assume distinct names.
    ensure!(dropped == 0, "the bundled keys contain {dropped} names twice: build the program again");
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_both_present_and_absent() {
        let keys = bundled().unwrap();
        assert_eq!((keys.present.len(), keys.absent.len()), (63_666, 22_721));
        let present: std::collections::HashSet<_> = keys.present.iter().map(|(name, _)| name).collect();
        assert!(keys.absent.iter().all(|(name, _)| !present.contains(name)));
        assert_eq!(keys.present.entry(0), (&b"0ad"[..], &b"0.0.26-3 games"[..]));
    }
}
