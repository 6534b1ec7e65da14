//! The parts of keys that a filter holds, as its block or its container records them.

use core::fmt;

use serde::Serialize;
use sstfilter::{BlockInfo, Domain};
use sstfilter_store::PartitionIndex;

/// Why a filter is not probed. The library's message names its functions.
pub(crate) const NO_WHOLE_KEYS: &str =
    "its filter holds only parts of keys, and this program does not have their extractor";

/// A filter records only tags of its extractors' names. A name is known if the file around the filter, the user, or the
/// library (for its own extractors) supplies it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct HeldParts {
    whole_keys: bool,
    extractors: Vec<HeldExtractor>,
}

#[derive(Clone, Debug, Serialize)]
struct HeldExtractor {
    tag: String,
    name: Option<String>,
}

impl HeldParts {
    pub(crate) fn of_block(info: &BlockInfo) -> Self {
        Self::new(info.whole_keys, info.extractors.iter().copied())
    }

    pub(crate) fn of_container(index: &PartitionIndex) -> Self {
        Self::new(index.has_whole_keys(), index.extractors())
    }

    fn new(whole_keys: bool, extractors: impl Iterator<Item = Domain>) -> Self {
        let extractors: Vec<_> = extractors.map(|domain| HeldExtractor { tag: tag(domain), name: None }).collect();
        let mut held = Self { whole_keys, extractors };
        held.name(own_names());
        held
    }

    /// Names the extractors whose tags match these names.
    pub(crate) fn name(&mut self, names: impl IntoIterator<Item = impl Into<String>>) {
        // Saves the 512 tags of `own_names`: most filters hold only whole keys.
        if self.extractors.is_empty() {
            return;
        }
        for name in names.into_iter().map(Into::into) {
            let tag = tag(Domain::new(&name));
            for extractor in self.extractors.iter_mut().filter(|extractor| extractor.tag == tag) {
                extractor.name = Some(name.clone());
            }
        }
    }
}

fn tag(domain: Domain) -> String {
    format!("{:#018x}", domain.tag())
}

/// Returns the names of the library's own extractors, for prefixes up to 255 bytes and every delimiter.
fn own_names() -> impl Iterator<Item = String> {
    let fixed = (0..=u8::MAX).map(|length| format!("fixed-prefix:{length}"));
    fixed.chain((0..=u8::MAX).map(|byte| format!("prefix-to-byte:{byte:#04x}")))
}

impl fmt::Display for HeldParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.whole_keys.then(|| "whole keys".to_owned());
        let parts = self.extractors.iter().map(|HeldExtractor { tag, name }| match name {
            Some(name) => format!("parts by {name:?} (tag {tag})"),
            None => format!("parts by an extractor of unknown name (tag {tag})"),
        });
        f.write_str(&whole.into_iter().chain(parts).collect::<Vec<_>>().join(", "))
    }
}
