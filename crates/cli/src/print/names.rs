//! Names of fields that several records have, with one meaning for all of them.

use super::record::{Field, Kind};

/// In the order of the alphabet.
const COMMON: &[(&str, &str)] = &[
    ("absent_keys", "number of keys that the filters were measured on, which no table has"),
    ("advice", "what to choose, or what to do next, and why"),
    ("batch_probe_ns", "time of a probe for an absent key in a batch, without hashing"),
    ("bits_per_key", "bits of whole filter blocks per key"),
    ("block_reads", "data blocks read for each lookup of an absent key, or for each scan"),
    ("build_ns", "time to build a filter, for each key, without hashing"),
    ("bytes", "bytes of the file"),
    ("checksum", "`sound`, `none`, `not read`, or the problem"),
    ("choice", "which filters these are"),
    ("column_family", "name of the column family"),
    ("commands", "commands to run first"),
    ("database", "directory of the database"),
    ("entries", "entries of a table, also those that delete a key"),
    ("expected_fpr", "the false positive rate that follows from the shape of the filter"),
    ("file_id", "fingerprint of the id of a file"),
    ("files", "the files that count, with what the command says about each"),
    ("filter_bytes", "bytes of whole filter blocks"),
    ("findings", "what is wrong or stands out"),
    ("format_version", "version of the format of a filter block, or of the table of another engine"),
    ("hash", "hash of the keys, with its seed unless that is secret"),
    ("keys", "keys of a filter, or of all filters"),
    ("kind", "kind of a filter"),
    ("level", "level of tables, which they or the MANIFEST record"),
    ("lost_keys", "keys that lookups do not find"),
    ("map_entries", "pairs of a key and a file that has it; keys of a file whose hashes keep equal bits are one"),
    ("mean_fpr", "mean of the expected rates, or of observed ones where none is expected, weighted by keys"),
    ("memory_limit_bytes", "bytes of memory that a reader has for filters"),
    ("not_read", "files or parts of them that no figure counts, and why"),
    ("notes", "remarks on the figures"),
    ("observed_fpr", "positives over probes"),
    ("observed_fpr_margin", "how far `observed_fpr` may be off in 95 of 100 cases, if probes are independent"),
    ("options", "options for `build`, `rebuild` and `filter`"),
    ("part", "part of a file"),
    ("path", "path of a file as passed"),
    ("positives", "probes that the filter answered with \"may contain\""),
    ("probes", "absent keys that the filter was probed for"),
    ("state", "state of a file or of its filter; of several, the worst"),
    ("tables", "number of tables"),
    ("unknown_pages", "pages of a map without entries: all covered files may have their keys"),
    ("useless_reads", "tables that a lookup of an absent key reads although they do not have it"),
    ("why", "the problem or peculiarity"),
];

/// Returns the meaning of a field: its own comment, that of its name, or that of the record inside.
pub(super) fn meaning(field: &Field) -> &'static str {
    let common = || COMMON.iter().find(|(name, _)| *name == field.name).map(|(_, meaning)| *meaning);
    let of_record = match field.kind {
        Kind::One(schema) | Kind::Many(schema) => schema.about,
        _ => "",
    };
    if field.about.is_empty() { common().unwrap_or(of_record).trim() } else { field.about.trim() }
}

/// Returns the names with a common meaning that no field needs.
#[cfg(test)]
pub(super) fn unneeded(fields: &[&'static Field]) -> Vec<&'static str> {
    let is_needed = |name: &str| fields.iter().any(|field| field.name == name && field.about.is_empty());
    COMMON.iter().map(|(name, _)| *name).filter(|name| !is_needed(name)).collect()
}
