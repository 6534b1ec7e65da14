//! Which values are keys, and their bytes.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Int64Type, UInt64Type};
use datafusion::common::{Result, ScalarValue, plan_err};

/// How keys are made of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    /// The bytes of the value.
    Bytes,
    /// Eight bytes, big-endian.
    Integer,
    /// Sixteen bytes, big-endian.
    Decimal,
}

/// Returns how keys are made of the values of a column of this type.
///
/// # Errors
///
/// Maps cannot have such values.
fn encoding_of(column: &str, data_type: &DataType) -> Result<Encoding> {
    match logical(data_type) {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Ok(Encoding::Bytes),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            Ok(Encoding::Bytes)
        }
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => Ok(Encoding::Integer),
        DataType::Decimal128(..) => Ok(Encoding::Decimal),
        other if other.is_integer() => Ok(Encoding::Integer),
        // Floats have two zeros, and NaNs differ in bits that comparisons ignore.
        other => plan_err!(
            "column {column}: expected text, bytes, integers, dates, timestamps or decimals of 128 bits, which file maps \
             can have as keys, got {other}"
        ),
    }
}

/// Returns the name of the encoding of a column. Two types share one only if every value of a file is the same value in
/// both: a cast to a narrower type, or to coarser units, may lose values.
///
/// # Errors
///
/// Maps cannot have the values of such a column.
pub(crate) fn encoding(column: &str, data_type: &DataType) -> Result<String> {
    encoding_of(column, data_type)?;
    Ok(match logical(data_type) {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text".to_owned(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "bytes".to_owned(),
        other => other.to_string(),
    })
}

/// Returns the type of the values that a dictionary has; any other type is its own.
fn logical(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => logical(values),
        own => own,
    }
}

/// Whether equal values of two types have equal keys.
pub(crate) fn has_same_keys(one: &DataType, other: &DataType) -> bool {
    encoding("", one).is_ok_and(|one| encoding("", other).is_ok_and(|other| one == other))
}

/// Returns the key of a literal of a query for a column of type `column`. NULL has none, nor has a value of a type to
/// which the engine compares by other rules, such as casts.
pub(crate) fn key_of(literal: &ScalarValue, column: &DataType) -> Option<Vec<u8>> {
    let mut found = None;
    if has_same_keys(&literal.data_type(), column) {
        for_each_key(&literal.to_array().ok()?, |_, key| found = key.map(<[u8]>::to_vec)).ok()?;
    }
    found
}

/// Calls `visit` with each row and its key; NULL has none. The values of files and the literals of queries go through
/// this function, so that equal values have equal keys.
///
/// # Errors
///
/// Maps cannot have such values.
pub(crate) fn for_each_key(values: &ArrayRef, mut visit: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
    let encoding = encoding_of("of keys", values.data_type())?;
    let row_type = logical(values.data_type());
    let values = cast(values, row_type)?;
    match encoding {
        Encoding::Bytes => {
            let values = cast(&values, &DataType::LargeBinary)?;
            values.as_binary::<i64>().iter().enumerate().for_each(|(row, key)| visit(row, key));
        }
        // A cast would make NULL of the upper half.
        Encoding::Integer if *row_type == DataType::UInt64 => {
            let numbers = values.as_primitive::<UInt64Type>().iter().map(|number| number.map(u64::to_be_bytes));
            numbers.enumerate().for_each(|(row, key)| visit(row, key.as_ref().map(|key| &key[..])));
        }
        Encoding::Integer => {
            let values = cast(&values, &DataType::Int64)?;
            let numbers = values.as_primitive::<Int64Type>().iter().map(|number| number.map(i64::to_be_bytes));
            numbers.enumerate().for_each(|(row, key)| visit(row, key.as_ref().map(|key| &key[..])));
        }
        Encoding::Decimal => {
            let numbers = values.as_primitive::<Decimal128Type>().iter().map(|number| number.map(i128::to_be_bytes));
            numbers.enumerate().for_each(|(row, key)| visit(row, key.as_ref().map(|key| &key[..])));
        }
    }
    Ok(())
}
