//! A new filter for a file that exists, without rewriting the file.
//!
//! # What it is
//!
//! A filter is written with its file and has its size for life. A *sidecar* is a second file beside it, `NAME.filter`
//! beside `NAME`, with another filter of the same keys: a smaller one for a store that has outgrown its memory, one for
//! a table that was written without, one of a new kind or under a new secret seed. A reader that finds a sidecar probes
//! it instead of the file's own filter.
//!
//! The danger is the sidecar of other keys, which would be negative for nearly every key of the file. So a sidecar
//! carries what identifies its file, three times over (id, length, checksum: [`TableIdentity`]), and the filter in it
//! is bound to the same id. A sidecar that was made for another file, or for an earlier file of the same name, is
//! damage: it is not used, and the file is read as if it were not there.
//!
//! # Tables of one's own
//!
//! [`sst::Table`](crate::sst::Table) writes and reads sidecars by itself. This module needs no tables: an engine lists
//! the keys of its file, says what identifies it, and gets the bytes of a sidecar. Reading takes two steps, the tail
//! and then the filter, so that any storage will do.
//!
//! ```
//! use std::sync::Arc;
//! use sstfilter::sidecar::{Sidecar, SidecarBuilder, TableIdentity};
//! use sstfilter::{AutoPolicy, BuildContext, KeyHasher};
//!
//! // The id that the engine drew for its table, the table's length and a checksum of it.
//! let id: [u8; 16] = core::array::from_fn(|_| 7); // here not drawn
//! let table = TableIdentity::new(id, 1_048_576, 0x5eed_cafe);
//! let hasher = KeyHasher::default();
//!
//! let mut builder = SidecarBuilder::new(Arc::new(AutoPolicy::default()), &BuildContext::new(&hasher), &table);
//! for key in ["apple", "banana"] {
//!     builder.add_key(key.as_bytes());
//! }
//! let built = builder.finish()?;
//! let file = built.bytes.expect("two keys fit");
//!
//! // Later, of the file: its length, its last 64 bytes, its tail, its filter.
//! let (length, end) = (file.len() as u64, file.len() - 64);
//! let tail_bytes = usize::try_from(Sidecar::tail_bytes(&file[end..])?)?;
//! let sidecar = Sidecar::open(&file[file.len() - tail_bytes..], length, &table)?;
//! let filter = sidecar.load_filter(&file[..file.len() - tail_bytes], &hasher)?;
//! assert!(filter.may_contain(hasher.hash(b"apple")));
//!
//! // The same table after it was rewritten: not one byte of the filter is believed.
//! let rewritten = TableIdentity::new(id, 1_048_580, 0x1234_5678);
//! assert!(Sidecar::open(&file, length, &rewritten).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! FORMAT.md, section 19, specifies the bytes.

mod build;
mod error;
mod format;
mod identity;

pub use build::{BuiltSidecar, SidecarBuilder};
pub use error::SidecarError;
pub use format::Sidecar;
pub use identity::TableIdentity;
