//! Files that are given by path, or by `-`: standard input.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;

/// The path that stands for standard input. A file of that name is `./-`.
const STANDARD_INPUT: &str = "-";

/// What standard input was read for. It can be read once, and a second reader would wait or find it empty.
static STANDARD_INPUT_USE: Mutex<Use> = Mutex::new(Use::None);

enum Use {
    None,
    /// A stream that somebody has.
    Stream,
    /// A table or a filter block, which is read in several places.
    Whole(Bytes),
}

/// Whether `path` stands for standard input.
pub(crate) fn is_standard(path: &Path) -> bool {
    path.as_os_str() == STANDARD_INPUT
}

/// The path as messages name it.
pub(crate) fn name(path: &Path) -> Cow<'_, str> {
    if is_standard(path) { Cow::Borrowed("standard input") } else { path.to_string_lossy() }
}

/// Opens a file, a pipe, or standard input, to be read from beginning to end. `option` is the one that the path was
/// given with.
pub(crate) fn open(path: &Path, option: &str) -> anyhow::Result<Box<dyn Read>> {
    if is_standard(path) {
        let mut usage = STANDARD_INPUT_USE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        ensure!(matches!(*usage, Use::None), "standard input can be read only once: give `-` in one place");
        *usage = Use::Stream;
        return Ok(Box::new(io::stdin().lock()));
    }
    let context = || format!("cannot read {} ({option})", path.display());
    let file = File::open(path).with_context(context)?;
    ensure!(!file.metadata().with_context(context)?.is_dir(), "{}: expected a file, got a directory", path.display());
    Ok(Box::new(file))
}

/// All bytes of a table or filter block. Those of standard input are kept: this can be called again.
pub(crate) fn whole(path: &Path) -> anyhow::Result<Bytes> {
    if !is_standard(path) {
        return fs::read(path).map(Bytes::from).with_context(|| format!("cannot read {}", path.display()));
    }
    let mut usage = STANDARD_INPUT_USE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match &*usage {
        Use::Whole(bytes) => return Ok(bytes.clone()),
        Use::Stream => bail!("standard input can be read only once: give `-` in one place"),
        Use::None => {}
    }
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes).context("cannot read standard input")?;
    let bytes = Bytes::from(bytes);
    *usage = Use::Whole(bytes.clone());
    Ok(bytes)
}

/// The length of a table or filter block.
pub(crate) fn whole_length(path: &Path) -> anyhow::Result<u64> {
    if is_standard(path) {
        return Ok(whole(path)?.len() as u64);
    }
    Ok(fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?.len())
}

/// How many bytes a file says it has; none for what cannot tell, such as a pipe.
pub(crate) fn length(path: &Path) -> Option<u64> {
    let metadata = fs::metadata(path).ok().filter(|_| !is_standard(path))?;
    metadata.is_file().then_some(metadata.len())
}
