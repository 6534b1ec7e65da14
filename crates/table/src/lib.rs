//! A small SST: sorted entries in one immutable file, with a filter in front.
//!
//! # What it is
//!
//! A [`TableWriter`] takes keys in ascending order and writes one file; a [`Table`] reads it by point lookups and
//! walks; a [`TableSet`] does so for many tables, newest first, also while tables come and go. All of it is real
//! (checksummed, crash-safe, specified byte for byte) and small: it exists to show and measure what a filter saves, and
//! to be read in one sitting by someone who puts filter blocks into a writer of their own.
//!
//! # The file
//!
//! ```text
//! data blocks      entries in key order, prefix-compressed, with restart points
//! zeros            up to a multiple of 64
//! filter block     what the policy built, aligned to cache lines; or partitions, and the block of their top index
//! range filter     the same for scans, if the options have a policy for it; aligned, too
//! properties       counts, and the description of the filters: where they are, first and last key, hash, extractors
//! index            last key of each data block -> its place
//! metaindex        names of the two blocks above -> their places
//! footer           64 bytes: metaindex, file length, table id, version, checksums, magic
//! ```
//!
//! All integers are little-endian. Every block but those of filters, which are bound to the table by their own id and
//! checksums, is followed by a CRC32C over its contents, the table's id and the block's offset; whatever names the
//! block repeats the checksum. The same input and table id give the same bytes.
//!
//! # The path of a lookup
//!
//! ```text
//! key -> range in the properties -> filter -> index -> data block -> value
//!             | no                     | no
//!             absent, nothing read     absent, nothing read
//! ```
//!
//! Properties and filter are in memory from the time the table is opened, the index from its first use. Filters can
//! outgrow memory: [in partitions](TableOptions::with_partitioned_filter), of which a lookup reads one, and under a
//! [budget](TableOptions::with_filter_budget), which decides what of all filters is in memory. Each data block
//! that a lookup needs is read and checked, unless a [`BlockCache`] has it
//! ([`TableOptions::with_block_cache`]).
//!
//! # The path of a scan
//!
//! [`TableSnapshot::range`] merges the tables whose smallest and largest key do not rule out a key of the range. A
//! filter for lookups is no help there, but a table can have a [range filter](TableOptions::with_range_filter) as well.
//! Where neither end of the table is in the range, the scan probes that filter, and "absent" skips the table. An
//! [ordered](sstfilter_range::RangePolicy::ordered) one also gives a lower bound of the table's next key. The table
//! waits under this bound, or under its smallest key, and is read only once the scan has come there: a scan that stops
//! early leaves the others unread. Without a budget, range filters are read when their tables are opened, and stay in
//! memory.
//!
//! # Damage
//!
//! A damaged table gives the right value or an error, never another value and never a silent miss. The bound checksums
//! make a block of another table, or of another place, as damaged as one with a flipped bit. Above all this holds for
//! the filter of another table, which would answer "absent" for keys that are there. Whoever names a block (footer,
//! metaindex, index) has its checksum too, so older contents of the same table id and place are damage as well. A file
//! cannot tell that all of it, or all from the filter on, is an older version.
//!
//! Opening refuses a bad footer, metaindex or properties block; a bad index or data block is an error of the reads that
//! need it. A bad filter is no error: reads do without it, count that, and [`Table::filter_problem`] or
//! [`Table::range_filter_problem`] says why.
//! [`Table::verify`] reads everything and accepts nothing but what a writer has written; [`Table::verify_all`] lists
//! all damage, and [`Table::salvage`] gives what is left.
//!
//! # Sidecars
//!
//! A file `NAME.filter` beside the table `NAME` holds another filter for it, which is used instead of the table's own:
//! see [`Table::write_sidecar`]. One that is damaged, or was made for another table, is
//! not used, and [`Table::sidecar_problem`] says why.
//!
//! # What it is not
//!
//! It has no compression, sequence numbers, range tombstones, merge operators, or partitioned index: those belong to an
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
pub use cache::{BlockCache, BlockKey, BoundedBlockCache, CachedBlock};
pub use error::{TableError, TableLocation, TablePart};
pub use io::{FileSystem, LocalFileSystem, RandomAccess, WritableFile};
pub use options::TableOptions;
pub use properties::TableProperties;
pub use set::{TableSet, TableSnapshot};
pub use sidecar::BuiltSidecar;
pub use stats::TableStats;
pub use table::Table;
pub use verify::{FilterVerdict, VerifyReport};
pub use walk::{Entry, TableIter};
pub use writer::TableWriter;

/// Compiles and runs the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExamples;
