//! Lists of the keys of each file, for `sstfilter map build --key-lists`.

use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::object_store::{ObjectMeta, ObjectStoreExt};
use datafusion::physical_plan::execute_stream;
use futures::StreamExt;
use sstfilter::FileId;

use crate::keys::{encoding, file_id, for_each_key};
use crate::table::MappedTable;

/// Writes a list of the values of `column` for each file of the table, as `sstfilter map build --keys-format hex`
/// reads them, and returns how many lists were written. A list that is there already is not written again: its name
/// stands for one version of one file. A file that is no longer the listed version has no list.
///
/// Several calls may write into one folder at once.
///
/// # Errors
///
/// The column has a type that maps do not know, a file cannot be read, or a list cannot be written.
pub async fn write_key_lists(
    state: &dyn Session,
    table: &MappedTable,
    column: &str,
    directory: &Path,
) -> Result<usize> {
    let position = table.schema.index_of(column)?;
    let data_type = table.schema.field(position).data_type();
    encoding(column, data_type)?;
    let mut written = 0;
    for file in &table.files {
        let list = directory.join(format!("{:#018x}.keys", file_id(file, column, data_type)?.fingerprint()));
        if list.try_exists()? {
            continue;
        }
        // Under the list's own name, a list that misses keys would hide them.
        let (unfinished, out) = create_unfinished(directory)?;
        let mut is_written = write_values(state, table, position, file, out).await;
        if let Ok(true) = is_written {
            is_written = fs::rename(&unfinished, &list).map(|()| true).map_err(Into::into);
        }
        if !matches!(is_written, Ok(true)) {
            // Ignored: the command line skips files of this name.
            let _ = fs::remove_file(&unfinished);
        }
        written += usize::from(is_written?);
    }
    Ok(written)
}

/// Creates a file for one list of this call alone, with a name that the command line skips.
fn create_unfinished(directory: &Path) -> Result<(PathBuf, File)> {
    loop {
        let drawn = FileId::random().fingerprint() & 0xff_ffff;
        let path = directory.join(format!(".sstfilter-{drawn:06x}.tmp"));
        match File::create_new(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            created => return Ok((path, created?)),
        }
    }
}

/// Writes the values of one file. Returns whether it still is the version that was listed.
async fn write_values(
    state: &dyn Session,
    table: &MappedTable,
    column: usize,
    file: &ObjectMeta,
    out: File,
) -> Result<bool> {
    let mut out = BufWriter::new(out);
    // The table's own view of the file, with its casts and missing columns.
    let one = table.without_maps(vec![file.clone()]);
    let plan = one.scan(state, Some(&vec![column]), &[], None).await?;
    let mut batches = execute_stream(plan, state.task_ctx())?;
    while let Some(batch) = batches.next().await {
        let mut text = String::new();
        for_each_key(batch?.column(0), table.schema.field(column).data_type(), |key| push_hex_line(&mut text, key))?;
        out.write_all(text.as_bytes())?;
    }
    out.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
    let store = state.runtime_env().object_store(&table.url)?;
    Ok(is_same_version(file, &store.head(&file.location).await?))
}

/// Whether a listed object is the one whose head was read later. Stores write one entity tag with and without quotes,
/// and leave out the tag, or fractions of a second, in one of the two.
fn is_same_version(listed: &ObjectMeta, head: &ObjectMeta) -> bool {
    let [one, other] = [listed, head].map(|meta| meta.e_tag.as_deref().map(|tag| tag.trim_matches('"')));
    let apart = head.last_modified.signed_duration_since(listed.last_modified);
    let has_same_tag = one.zip(other).is_none_or(|(one, other)| one == other);
    listed.size == head.size && has_same_tag && apart.num_seconds() == 0
}

fn push_hex_line(text: &mut String, key: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    // An empty line is no key; a line that begins with a tab is the empty one.
    if key.is_empty() {
        text.push('\t');
    }
    for byte in key {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_that_one_answer_leaves_out_makes_no_other_version() {
        let meta = |tag: Option<&str>, size| ObjectMeta {
            location: "data/a.parquet".into(),
            last_modified: std::time::SystemTime::UNIX_EPOCH.into(),
            size,
            e_tag: tag.map(str::to_owned),
            version: None,
        };
        let listed = meta(None, 7);
        assert!(is_same_version(&listed, &meta(Some("\"a\""), 7)) && is_same_version(&listed, &listed));
        assert!(is_same_version(&meta(Some("a"), 7), &meta(Some("\"a\""), 7)));
        assert!(!is_same_version(&meta(Some("b"), 7), &meta(Some("\"a\""), 7)));
        assert!(!is_same_version(&listed, &meta(None, 8)));
    }
}
