//! File maps in DataFusion: a point query over many Parquet files reads only those that may have the key.
//!
//! DataFusion prunes Parquet files by minimum and maximum, after it has read their footers. Random ids are between the
//! minimum and maximum of every file, so a query for one id reads something of each file. A
//! [file map](sstfilter_map) says for the hash of an id which files may have it. [`MappedTable`] is a table that reads
//! one page of the map, 64 KiB, before it plans the scan, and plans only these files.
//!
//! - [`MappedTable`] takes the values that a column must have from a query's filter: `id = '...'`, `id IN (...)`, and
//!   what `AND`, `OR` and `CASE` make of them. [`files_for`](MappedTable::files_for) says which files remain, for scans
//!   of others. Joins and `id IN (SELECT ...)` have their values while they run; the scan then asks the maps, before it
//!   opens files.
//! - [`refresh_map`] builds maps of a column, and brings them up to date, as jobs of the session's engine.
//! - `sstfilter-map-store` keeps the maps in a folder of an object store: its `MapWriter` and `MapReader`.
//!
//! The README has an example, and what it costs.
//!
//! # What is promised
//!
//! A query has the rows that it has without maps. A file is skipped only if a map covers this column of the very file
//! in this version ([`TableFile::id`]), the filter cannot be true without one of the values, each value has the column's
//! type, all pages that the values need are sound, and the file is in none of their answers. Everything else,
//! such as a file that is new, a cast, or a request that fails, makes the query read more files, and is counted.
//!
//! | value | its key |
//! |---|---|
//! | `Utf8`, `LargeUtf8`, `Utf8View` | the bytes of the text; DataFusion compares text by its bytes |
//! | `Binary`, `LargeBinary`, `BinaryView`, `FixedSizeBinary` | the bytes |
//! | integers, dates, timestamps | their number in eight bytes, big-endian |
//! | `Decimal128` | its unscaled number in sixteen bytes, big-endian |
//! | dictionaries | that of the value |
//! | NULL | none: no comparison with it is true |
//! | anything else | maps cannot be used |

mod file;
mod functions;
mod keys;
mod listing;
mod refresh;
mod source;
mod table;
mod wanted;
#[cfg(feature = "proto")]
mod wire;

pub use file::TableFile;
pub use functions::map_part;
pub use listing::{MAPPED_PARQUET, MappedListing, MappedListingFactory, refresh_listing};
pub use refresh::{RefreshOptions, Refreshed, refresh_map};
pub use table::{Counts, MappedTable};
#[cfg(feature = "proto")]
pub use wire::{decode_table, encode_table};

/// Compiles the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExamples;
