//! The description of a file: one structure for tables of all engines, filters without a table, sidecars, maps, and
//! files that are none of these. A field is unknown if the format does not record it.

use crate::file::look::Format;
use crate::file::open::Origin;
use crate::file::problem::State;
use crate::print::types::{Bits, Bytes, Figure, Key, Open, PathName, Rate};
use crate::print::{record, words};

words! {
    /// Where a filter is stored.
    pub(crate) enum Role {
        Table = "table",
        /// in the file next to its table
        Sidecar = "sidecar",
        File = "file",
    }
}

record! {
    /// One of the `files` of `inspect`.
    pub(crate) struct FileReport {
        pub(crate) path: PathName [row],
        pub(crate) format: Format [row],
        pub(crate) bytes: Bytes [row],
        pub(crate) state: State [notable],
        pub(crate) reasons: Vec<Reason> [notable],
        pub(crate) place: Place [row],
        pub(crate) contents: Contents [row],
        pub(crate) filters: Vec<FilterReport> [pages],
        pub(crate) observed: Option<Observed> [row],
        pub(crate) map: Option<MapReport>,
        pub(crate) engine: Option<EngineReport>,
        pub(crate) parts: Vec<PartReport>,
        pub(crate) properties: Open [json],
    }

    /// The place of a file in its database.
    pub(crate) struct Place {
        pub(crate) database: Option<PathName>,
        pub(crate) column_family: Option<String>,
        pub(crate) level: Option<u32> [row],
        pub(crate) is_live: Option<bool>,
    }

    /// Why a file has its state, or a peculiarity of it.
    pub(crate) struct Reason {
        pub(crate) state: State [row],
        pub(crate) part: Option<String> [row],
        pub(crate) why: String [row],
        pub(crate) advice: Option<String>,
        pub(crate) commands: Vec<String>,
    }

    /// Entries of a table and their order.
    pub(crate) struct Contents {
        pub(crate) entries: Option<u64> [row],
        pub(crate) tombstones: Option<u64>,
        pub(crate) range_tombstones: Option<u64>,
        /// whether lookups must read the table whatever its filter answers
        pub(crate) has_range_tombstones: Option<bool>,
        pub(crate) smallest_key: Option<Key>,
        pub(crate) largest_key: Option<Key>,
        pub(crate) bounds_from: Option<Origin>,
        pub(crate) comparator: Option<String>,
        pub(crate) comparator_from: Option<Origin>,
        pub(crate) raw_key_bytes: Option<Bytes>,
        pub(crate) raw_value_bytes: Option<Bytes>,
        pub(crate) file_id: Option<String>,
    }

    /// A filter, of keys or of ranges.
    pub(crate) struct FilterReport {
        /// where the filter is stored
        pub(crate) role: Role,
        pub(crate) kind: String [row],
        pub(crate) requested: Option<String>,
        pub(crate) fallback: Option<String>,
        pub(crate) policy: Option<String>,
        pub(crate) state: State,
        pub(crate) reason: Option<String>,
        pub(crate) keys: Option<u64>,
        pub(crate) filter_bytes: Bytes [row],
        pub(crate) bits_per_key: Option<Bits> [row],
        pub(crate) expected_fpr: Option<Rate> [row],
        pub(crate) range_rates: Vec<RangeRate>,
        pub(crate) holds: Option<String>,
        /// what a block of the filter covers: the table, a partition, or some data blocks
        pub(crate) unit: Option<String>,
        pub(crate) partitions: Option<u64>,
        pub(crate) min_partition_bytes: Option<Bytes>,
        pub(crate) mean_partition_bytes: Option<Bytes>,
        pub(crate) max_partition_bytes: Option<Bytes>,
        pub(crate) top_index_bytes: Option<Bytes>,
        pub(crate) hash: Option<String>,
        pub(crate) salt: Option<String>,
        pub(crate) bound_to: Option<String>,
        pub(crate) format_version: Option<u32>,
        pub(crate) payload_bytes: Option<Bytes>,
        pub(crate) checksum: Option<String>,
        pub(crate) fill_ratio: Option<Rate>,
        /// parameters of the kind, by its own names
        pub(crate) shape: Open,
    }

    /// The rate of a range filter on empty ranges of one length.
    pub(crate) struct RangeRate {
        /// length of the ranges in units of their integers
        pub(crate) units: u64 [row],
        pub(crate) expected_fpr: Rate [row],
    }

    /// The answers of the filter for absent keys.
    pub(crate) struct Observed {
        pub(crate) probes: u64,
        /// absent keys of which the filter holds no part
        pub(crate) not_probed: u64,
        pub(crate) positives: u64,
        pub(crate) observed_fpr: Option<Rate> [row],
        pub(crate) observed_fpr_margin: Option<Rate> [row],
    }

    /// A map of files.
    pub(crate) struct MapReport {
        pub(crate) map_id: String,
        pub(crate) covered_files: u64,
        pub(crate) covered_writes: Option<u64>,
        pub(crate) map_entries: u64,
        pub(crate) bits_per_entry: Option<Bits>,
        pub(crate) hash: Option<String>,
        pub(crate) prefix_bits: u32,
        pub(crate) pages: u64,
        pub(crate) page_bytes: Bytes,
        pub(crate) expected_false_candidates: Figure,
        pub(crate) covers: Vec<CoveredFile>,
    }

    /// A file that a map covers.
    pub(crate) struct CoveredFile {
        pub(crate) file_id: Option<String> [row],
        pub(crate) map_entries: u64 [row],
        pub(crate) path: Option<PathName> [row],
    }

    /// What a table records about itself.
    pub(crate) struct EngineReport {
        pub(crate) engine_name: String,
        pub(crate) format_version: Option<u32>,
        pub(crate) checksum_type: String,
        pub(crate) compression: Option<String>,
        pub(crate) data_blocks: Option<u64>,
        pub(crate) data_bytes: Option<Bytes>,
        pub(crate) index_bytes: Option<Bytes>,
    }

    /// A part of a file.
    pub(crate) struct PartReport {
        pub(crate) part: String [row],
        pub(crate) offset: Option<u64> [row],
        pub(crate) part_bytes: Option<Bytes> [row],
        pub(crate) checksum: Option<String> [row],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::{Extent, Show, text};

    /// The columns of a table of files: those of the filter that readers use, and of the place that is known.
    const BESIDE_OTHERS: &str = "\
files:
path           format     bytes  state   level  entries  kind    filter  bits per key  expected fpr
db/000007.sst  table   97.7 KiB  ok          1    6,000  bloom  5.2 KiB          7.07       0.940 %
db/notes       other        0 B  unread      -        -  -            -             -             -
";

    record! {
        /// Several files.
        struct Files {
            files: Vec<FileReport>,
        }
    }

    #[test]
    fn a_file_alone_has_a_page_and_each_of_several_a_line_and_quiet_text_the_reasons() {
        let own = FilterReport {
            kind: "ribbon".to_owned(),
            filter_bytes: Bytes(5_300),
            bits_per_key: Some(Bits(7.07)),
            expected_fpr: Some(Rate(0.0094)),
            ..FilterReport::default()
        };
        let sidecar = FilterReport { role: Role::Sidecar, kind: "bloom".to_owned(), ..own.clone() };
        let part = |(part, offset): (&str, _)| PartReport {
            part: part.to_owned(),
            offset: Some(offset),
            part_bytes: Some(Bytes(4_096)),
            checksum: Some("sound".to_owned()),
        };
        let table = FileReport {
            path: PathName("db/000007.sst".into()),
            format: Format::Table,
            bytes: Bytes(100_000),
            place: Place { level: Some(1), ..Place::default() },
            contents: Contents { entries: Some(6_000), ..Contents::default() },
            filters: vec![sidecar, own],
            parts: [("data", 0), ("index", 90_000)].map(part).to_vec(),
            ..FileReport::default()
        };
        let filter = |role, kind| {
            let figures = "filter        5.2 KiB\n  bits per key  7.07\n  expected fpr  0.940 %\n";
            format!("  role          {role}\n  kind          {kind}\n  state         ok\n  {figures}")
        };
        let (sidecar, own) = (filter("sidecar", "bloom"), filter("table", "ribbon"));
        let page = format!(
            "path    db/000007.sst\nformat  table\nbytes   97.7 KiB\nstate   ok\n\nplace:\n  level  1\n\n\
             contents:\n  entries  6,000\n\nfilters, 1 of 2:\n{sidecar}\nfilters, 2 of 2:\n{own}\n\
             parts:\npart   offset     part  checksum\n\
             data        0  4.0 KiB  sound\nindex  90,000  4.0 KiB  sound\n"
        );
        assert_eq!(text(&table, Extent::default()), page);
        let reasons = vec![Reason { state: State::Unread, why: "permission denied".to_owned(), ..Reason::default() }];
        let path = PathName("db/notes".into());
        let unread = FileReport { path, state: State::Unread, reasons, ..FileReport::default() };
        let quiet = Extent { least: Show::Notable, ..Extent::default() };
        assert_eq!(text(&unread, quiet), "state  unread\n\nreasons:\n  state  unread\n  why    permission denied\n");
        assert_eq!(text(&Files { files: vec![table, unread] }, Extent::default()), BESIDE_OTHERS);
    }
}
