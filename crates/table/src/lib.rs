//! A small SST: sorted entries in one immutable file, with a filter in front.
//!
//! # What it is
//!
//! A [`TableWriter`] takes keys in ascending order and writes one file. A [`Table`] reads it with point lookups and
//! iterators. A [`TableSet`] does so for many tables, newest first, while tables come and go. The code is real
//! (checksummed, crash-safe, specified byte for byte) and small. It shows and measures what a filter saves, and can be
//! read in one sitting by someone who adds filter blocks to their own writer.
//!
//! # The file
//!
//! ```text
//! data blocks      entries in key order, prefix-compressed, with restart points
//! zeros            up to a multiple of 64
//! filter block     built by the policy, aligned to cache lines; or partitions, and the block of their top index
//! range filter     for scans, if the options have a policy for it; also aligned
//! properties       counts, and the description of the filters: offsets, first and last key, hash, extractors
//! index            last key of each data block -> its handle
//! metaindex        names of the two blocks above -> their handles
//! footer           64 bytes: metaindex, file length, table id, version, checksums, magic
//! ```
//!
//! All integers are little-endian. Every block except a filter's is followed by a CRC32C over its contents, the table's
//! id and the block's offset. Filter blocks are bound to the table by their own file id and checksums. Every reference
//! to a block repeats its checksum. The same input and table id give the same bytes.
//!
//! # The path of a lookup
//!
//! ```text
//! key -> key bounds              -> filter -> index -> data block -> value
//!             | no                     | no
//!             absent, nothing read     absent, nothing read
//! ```
//!
//! Properties and filter are in memory once the table is open; the index, once it is first used. For filters that
//! outgrow memory, there are [partitions](TableOptions::with_partitioned_filter), of which a lookup reads only one, and
//! a [budget](TableOptions::with_filter_budget), which decides which filters are in memory. Each data block that a
//! lookup needs is read and checked, unless a cache contains it ([`TableOptions::with_block_cache`]).
//!
//! # The path of a scan
//!
//! [`TableSnapshot::range`] merges the tables whose smallest and largest key do not exclude the range. A point filter
//! does not help a scan, but a table can also have a [range filter](TableOptions::with_range_filter). If neither the
//! smallest nor the largest key of the table is in the range, the scan probes the range filter, and "absent" skips the
//! table. An [ordered](sstfilter_range::RangePolicy::ordered) one also returns a lower bound of the table's next key.
//! The table waits at this bound, or at its smallest key, and is read only once the scan gets there: a scan that stops
//! early leaves the other tables unread. Without a budget, range filters are read when their tables are opened, and
//! stay in memory.
//!
//! # Damage
//!
//! A damaged table returns the right value or an error, never another value and never a silent miss. Because checksums
//! cover the table's id and the offset, a block of another table, or from another offset, counts as damaged, just as
//! one with a flipped bit. This matters most for the filter of another table, which would answer "absent" for existing
//! keys. References to a block (in the footer, metaindex and index) carry its checksum too, so older contents with the
//! same table id and offset are also damage. A reader cannot detect that the whole file, or everything from the filter
//! on, is an older version.
//!
//! Opening fails on a bad footer, metaindex or properties block. A bad index or data block is an error of the reads
//! that need it. A bad filter is not an error: reads do without it and count that, and [`Table::filter_problem`] or
//! [`Table::range_filter_problem`] says why. [`Table::verify`] reads everything and accepts only tables that a writer
//! could have written. [`Table::verify_all`] lists all damage, and [`Table::salvage`] returns the entries that are
//! left.
//!
//! # Sidecars
//!
//! A file `NAME.filter` next to the table `NAME` holds another filter, which replaces the table's own: see
//! [`Table::write_sidecar`]. A sidecar that is damaged, or was made for another table, is not used, and
//! [`Table::sidecar_problem`] says why.
//!
//! # What it is not
//!
//! It has no compression, sequence numbers, range tombstones, merge operators, or partitioned index. They belong to an
//! engine, and none of them changes what a filter does.

#![deny(clippy::indexing_slicing)]
#![cfg_attr(
    test,
    allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "tests work on small numbers")
)]

mod block;
mod builder;
mod cache;
mod data_scan;
mod error;
mod format;
mod headed;
mod index;
mod io;
mod options;
mod parts;
mod properties;
mod scan;
mod set;
mod sidecar;
mod stats;
mod table;
mod verify;
mod walk;
mod writer;

pub use block::{Lookup, MAX_KEY_BYTES, MAX_VALUE_BYTES};
pub use builder::{TableBuilder, TableSummary};
pub use error::{TableError, TableLocation, TablePart};
pub use io::{FileSystem, LocalFileSystem, WritableFile};
pub use options::TableOptions;
pub use properties::TableProperties;
pub use set::{TableSet, TableSnapshot};
pub use stats::TableStats;
pub use table::Table;
pub use verify::{FilterVerdict, VerifyReport};
pub use walk::{Entry, TableIter};
pub use writer::TableWriter;

/// Compiles and runs the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExamples;
