//! Any file that the program can read, opened by what its bytes say it is.

use std::path::Path;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use sstfilter::sst::Table;
use sstfilter::{FilterBlock, KeyHasher};

use crate::files::{self, Look};
use crate::input;
use crate::output::Outcome;

/// A file of which at least the frame is sound.
pub(crate) enum Opened {
    /// A table of this library.
    Table(Box<Table>),
    /// A filter block without a table. Its payload has not been verified.
    FilterBlock(Box<FilterBlock<Bytes>>),
}

/// Why a file was not opened.
#[derive(Debug)]
pub(crate) struct Unopened {
    /// Damage, or a failure to read, which tells nothing about the bytes.
    pub(crate) outcome: Outcome,
    pub(crate) reason: anyhow::Error,
}

impl Opened {
    /// Opens the file at `path`.
    pub(crate) fn open(path: &Path, secret: Option<&KeyHasher>) -> Result<Self, Unopened> {
        let look = look_at(path).map_err(|reason| Unopened { outcome: Outcome::Failed, reason })?;
        Self::open_as(look, path, secret).map_err(|reason| Unopened { outcome: outcome_of(&reason), reason })
    }

    fn open_as(look: Look, path: &Path, secret: Option<&KeyHasher>) -> anyhow::Result<Self> {
        match look {
            Look::Table => Ok(Self::Table(Box::new(files::open_table(path, secret)?))),
            Look::FilterBlock => {
                let block = FilterBlock::open_unverified(input::whole(path)?);
                Ok(Self::FilterBlock(Box::new(block.with_context(|| input::name(path).into_owned())?)))
            }
            Look::Neither => bail!("{}: {}", input::name(path), files::NEITHER),
        }
    }
}

/// What the file is by its last bytes, if it has any: a pipe or a device has no end to look at.
fn look_at(path: &Path) -> anyhow::Result<Look> {
    let look = files::look_at(path)?;
    let has_end = look != Look::Neither || input::length(path).is_some() || input::is_standard(path);
    ensure!(has_end, "{}: expected a file, got a pipe or a device", path.display());
    Ok(look)
}

/// Tells a failure to read from bytes that are no table.
fn outcome_of(reason: &anyhow::Error) -> Outcome {
    let is_unread = reason.chain().any(<dyn core::error::Error>::is::<std::io::Error>);
    if is_unread { Outcome::Failed } else { Outcome::No }
}

/// Calls `visit` with each key of the table at `path`, ascending: one of this library or of another engine.
///
/// Fails on a bare filter block, which has no keys, and on the first damage.
#[allow(dead_code, reason = "for commands that take keys from tables")]
pub(crate) fn for_each_key(
    path: &Path,
    secret: Option<&KeyHasher>,
    visit: &mut dyn FnMut(&[u8]),
) -> anyhow::Result<()> {
    match Opened::open(path, secret).map_err(|unopened| unopened.reason)? {
        Opened::Table(table) => {
            for entry in table.iter() {
                visit(&entry?.key);
            }
            Ok(())
        }
        Opened::FilterBlock(_) => {
            bail!("{} is a filter block, which has no keys to list: give a table", input::name(path))
        }
    }
}
