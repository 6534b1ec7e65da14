//! File maps in DataFusion: a point query over many Parquet files reads only those that may have the key.
//!
//! DataFusion prunes Parquet files by minimum and maximum, after it has read their footers. Random ids are between the
//! minimum and maximum of every file, so a query for one id reads something of each file. A
//! [file map](sstfilter_map) says for the hash of an id which files may have it. [`MappedTable`] is a table that reads
//! one page of the map, 64 KiB, before it plans the scan, and plans only these files.
//!
//! - [`MappedTable`] takes the values that a column must have from a query's filter: `id = '...'`, `id IN (...)`, and
//!   what DataFusion's [`LiteralGuarantee`](datafusion::physical_expr::utils::LiteralGuarantee) derives from `AND` and
//!   `OR` of them.
//! - [`StoredMap`] reads a map from an object store.
//! - [`write_key_lists`] writes the keys of each file, and `sstfilter map build` makes a map of them.
//!
//! The README has an example, and what it costs.
//!
//! # What is promised
//!
//! A query has the rows that it has without maps. A file is skipped only if a map covers this column of the very object
//! that was listed ([`file_id`]), the filter cannot be true without one of the values, each value has exactly the
//! column's type, all pages that the values need are sound, and the file is in none of their answers. Everything else,
//! such as a file that is new, a cast, or a request that fails, makes the query read more files, and is counted in
//! [`Counts`].
//!
//! | value | its key |
//! |---|---|
//! | `Utf8`, `LargeUtf8`, `Utf8View` | the bytes of the text; DataFusion compares text by its bytes |
//! | `Binary`, `LargeBinary`, `BinaryView`, `FixedSizeBinary` | the bytes |
//! | `Int64` | eight bytes, big-endian |
//! | NULL | none: no comparison with it is true |
//! | anything else | maps cannot be used |

mod key_lists;
mod keys;
mod map;
mod table;

pub use key_lists::write_key_lists;
pub use keys::file_id;
pub use map::StoredMap;
pub use table::{Counts, MappedTable};

/// Compiles the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExamples;
