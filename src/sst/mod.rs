//! A small SST: sorted entries in one immutable file, with a filter in front.
//!
//! # What it is
//!
//! A [`TableWriter`] takes keys in ascending order and leaves one file; a [`Table`] answers point lookups
//! and walks from it; a [`TableSet`] does so for many tables, newest first. All of it is real (checksummed,
//! crash-safe, specified byte for byte) and small: it exists to show and to measure what a filter saves, and
//! to be read in one sitting by someone who plugs the filter blocks into a writer of their own.
//!
//! # The file
//!
//! ```text
//! data blocks      entries in key order, prefix-compressed, with restart points
//! zeros            up to a multiple of 64
//! filter block     what the policy built; its lines lie on cache lines
//! properties       counts, first and last key, hash, extractor
//! index            last key of each data block -> its place
//! metaindex        names of the three blocks above -> their places
//! footer           64 bytes: metaindex, file length, table id, version, checksums, magic
//! ```
//!
//! All integers are little-endian. Every block is followed by a CRC32C over its contents, the table's id and
//! the block's offset; where the block is named, the checksum stands too. The same input and table id give the same bytes.
//!
//! # The path of a lookup
//!
//! ```text
//! key -> range in the properties -> filter -> index -> data block -> value
//!             | no                     | no
//!             absent, nothing read     absent, nothing read
//! ```
//!
//! Properties and filter are in memory from when the table is opened, the index from when it is first
//! needed. Data blocks are not cached: every one that is needed is read and checked. A table opened with
//! [`ReadOptions::with_kept_blocks`] keeps each from its first read on.
//!
//! # Damage
//!
//! A damaged table gives the right value or an error, never another value and never a silent miss. The
//! bound checksums make a block of another table, or of another place, as damaged as one with a flipped
//! bit: above all the filter of another table, which would deny keys that are there. Whoever names a block
//! (footer, metaindex, index) has its checksum too, so that older contents of the same table id and place are
//! damage as well; what no file can tell of itself is that all of it, or all from the filter on, is an older one. Opening refuses a
//! bad footer, metaindex or properties block; a bad index or data block is an error of the reads that need
//! it. A bad filter is no error: reads do without it, count that, and [`Table::filter_problem`] says why.
//! [`Table::verify`] reads everything and accepts nothing that is not as it was written.
//!
//! # What it is not
//!
//! It has no compression, block cache, sequence numbers, range tombstones, merge operators, or
//! partitioned index: those belong to an engine, and none of them changes what a filter does.

mod checksum;
mod entry_block;
mod error;
mod file;
mod file_system;
mod footer;
#[cfg(test)]
mod forge;
mod handle;
mod index;
mod iter;
mod kept;
mod layout;
mod numbers;
mod options;
mod parts;
mod properties;
mod reader;
mod source;
mod stats;
mod table_filter;
mod table_id;
mod table_set;
mod table_writer;
mod verify;
mod writer;

pub use error::{Location, TableError};
pub use file_system::{FileSystem, LocalFileSystem, PendingFile};
pub use iter::{Entry, TableIter};
pub use layout::{LayoutRegion, TableLayout};
pub use options::{ReadOptions, TableOptions};
pub use properties::TableProperties;
pub use reader::{Lookup, Table};
pub use source::RandomAccess;
pub use stats::{TableSetStats, TableStats};
pub use table_id::TableId;
pub use table_set::TableSet;
pub use table_writer::TableWriter;
pub use verify::{FilterVerdict, VerifyReport};
pub use writer::{MAX_KEY_BYTES, MAX_VALUE_BYTES, TableBuilder, TableSummary};
