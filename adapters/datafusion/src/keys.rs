//! Which values are keys, and their bytes.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::object_store::ObjectMeta;
use sstfilter::{FileId, KeyHasher};

/// Returns the id that a listed object has in maps of a column of this type. It stands for the values of the column in
/// one version of the object: its path, size, entity tag, and the time when it was written. A map of another column, or
/// of values that were read as another type, covers no file of the table.
///
/// # Errors
///
/// Maps cannot have the values of such a column.
pub fn file_id(file: &ObjectMeta, column: &str, data_type: &DataType) -> Result<FileId> {
    let encoding = encoding(column, data_type)?;
    // Equal content may have the same tag again, after other content had its place in between.
    let version = format!("{}\0{}", file.e_tag.as_deref().unwrap_or_default(), file.last_modified.to_rfc3339());
    // Paths and tags have no NUL, and the column comes last.
    let text = format!("{}\0{}\0{version}\0{encoding}\0{column}", file.location, file.size);
    Ok(FileId::from_fingerprint(KeyHasher::default().hash(text.as_bytes()).get()))
}

/// Returns how keys are made of the values of a column of this type.
///
/// # Errors
///
/// Maps cannot have such values.
pub(crate) fn encoding(column: &str, data_type: &DataType) -> Result<&'static str> {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Ok("text"),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => Ok("bytes"),
        DataType::Int64 => Ok("int64"),
        // Floats have two zeros, decimals and times have scales, and NaNs differ in bits that comparisons ignore.
        _ => {
            plan_err!(
                "column {column}: expected text, bytes or Int64, which file maps can have as keys, got {data_type}"
            )
        }
    }
}

/// Returns the key of a value in a column of type `column`; `None` if it has none. The values of a file and the
/// literals of a query go through this function, so that equal values have equal keys.
pub(crate) fn key_of(value: &ScalarValue, column: &DataType) -> Option<Vec<u8>> {
    // Equality across types has rules of its own, such as casts.
    if value.data_type() != *column {
        return None;
    }
    match value {
        ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => {
            text.as_ref().map(|text| text.as_bytes().to_vec())
        }
        ScalarValue::Binary(bytes)
        | ScalarValue::LargeBinary(bytes)
        | ScalarValue::BinaryView(bytes)
        | ScalarValue::FixedSizeBinary(_, bytes) => bytes.clone(),
        ScalarValue::Int64(number) => number.map(|number| number.to_be_bytes().to_vec()),
        _ => None,
    }
}

/// Calls `visit` with the key of each value that is not NULL.
///
/// # Errors
///
/// The column is of another type.
pub(crate) fn for_each_key(values: &ArrayRef, column: &DataType, mut visit: impl FnMut(&[u8])) -> Result<()> {
    for row in 0..values.len() {
        let value = ScalarValue::try_from_array(values, row)?;
        match key_of(&value, column) {
            Some(key) => visit(&key),
            None if value.is_null() => {}
            None => return plan_err!("expected values of type {column}, got {}", value.data_type()),
        }
    }
    Ok(())
}
