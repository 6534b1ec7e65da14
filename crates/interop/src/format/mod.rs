//! The format of the file around a filter: handles, checksums, footers, blocks and properties.

pub(crate) mod checksum;
pub(crate) mod columnar;
pub(crate) mod cursor;
pub(crate) mod footer;
pub(crate) mod handle;
pub(crate) mod properties;
pub(crate) mod row_block;
