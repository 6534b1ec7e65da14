//! Lists of the keys of each file, for `sstfilter map build --key-lists`.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::physical_plan::execute_stream;
use futures::StreamExt;

use crate::keys::{encoding, file_id, for_each_key};
use crate::table::MappedTable;

/// Writes a list of the values of `column` for each file of the table, as `sstfilter map build --keys-format hex`
/// reads them, and returns how many lists were written. A list that is there already is not written again: its name
/// stands for one version of one file.
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
        // Its name is nobody's fingerprint. A list that misses keys would hide them.
        let unfinished = directory.join("unfinished.tmp");
        let mut out = BufWriter::new(File::create(&unfinished)?);
        // The table's own view of the file, with its casts and missing columns.
        let one = table.without_maps(vec![file.clone()]);
        let plan = one.scan(state, Some(&vec![position]), &[], None).await?;
        let mut batches = execute_stream(plan, state.task_ctx())?;
        while let Some(batch) = batches.next().await {
            let mut text = String::new();
            for_each_key(batch?.column(0), data_type, |key| push_hex_line(&mut text, key))?;
            out.write_all(text.as_bytes())?;
        }
        out.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&unfinished, &list)?;
        written += 1;
    }
    Ok(written)
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
