//! Names of fields that several records have, with one meaning for all of them.

use super::record::Field;

/// In the order of the alphabet.
const COMMON: &[(&str, &str)] = &[
    ("absent_keys", "number of keys that the filters were measured on, which no table has"),
    ("batch_probe_ns", "time of a probe for an absent key in a batch, without hashing"),
    ("bits_per_key", "bits of whole filter blocks per key"),
    ("block_reads", "data blocks read for each lookup of an absent key, or for each scan"),
    ("build_ns", "time to build a filter, for each key, without hashing"),
    ("checksum", "`sound`, `none`, `not read`, or the problem"),
    ("entries", "entries of a table, also those that delete a key"),
    ("expected_fpr", "the false positive rate that follows from the shape of the filter"),
    ("hash", "hash of the keys, with its seed unless that is secret"),
    ("map_entries", "pairs of a key and a file that has it; keys of a file whose hashes keep equal bits are one"),
    ("mean_fpr", "mean of the expected rates, or of observed ones where none is expected, weighted by keys"),
    ("not_read", "files or parts of them that no figure counts, and why"),
    ("observed_fpr", "positives over probes"),
    ("observed_fpr_margin", "how far `observed_fpr` may be off in 95 of 100 cases, if probes are independent"),
    ("positives", "probes that the filter answered with \"may contain\""),
    ("state", "state of a file or of its filter; of several, the worst"),
    ("unknown_pages", "pages of a map without entries: all covered files may have their keys"),
    ("useless_reads", "tables that a lookup of an absent key reads although they do not have it"),
];

/// Returns the meaning of a field: its own comment or that of its name; nothing if the name says it.
pub(super) fn meaning(field: &Field) -> &'static str {
    let common = || COMMON.iter().find(|(name, _)| *name == field.name).map_or("", |(_, meaning)| meaning);
    if field.about.is_empty() { common() } else { field.about.trim() }
}

/// Returns the names with a common meaning that no field needs.
pub(super) fn unneeded(fields: &[&'static Field]) -> Vec<&'static str> {
    let is_needed = |name: &str| fields.iter().any(|field| field.name == name && field.about.is_empty());
    COMMON.iter().map(|(name, _)| *name).filter(|name| !is_needed(name)).collect()
}
