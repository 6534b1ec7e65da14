//! Records as JSON objects.

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use super::record::{Cell, Record};
use crate::words::escape::hex;

/// A record as one JSON object with all of its fields. Values that are unknown are null.
pub(crate) struct Json<'a>(pub(crate) &'a dyn Record);

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = self.0.schema().fields;
        let mut object = serializer.serialize_map(Some(fields.len()))?;
        for (field, cell) in fields.iter().zip(self.0.cells()) {
            object.serialize_entry(field.name, &cell)?;
        }
        object.end()
    }
}

impl Serialize for Cell<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Cell::Unknown => serializer.serialize_unit(),
            Cell::Flag(is_true) => serializer.serialize_bool(*is_true),
            Cell::Count(number) | Cell::Bytes(number) => serializer.serialize_u64(*number),
            // Numbers that are not finite become null.
            Cell::Rate(number)
            | Cell::Measured(number, _)
            | Cell::Bits(number)
            | Cell::Figure(number)
            | Cell::Nanoseconds(number)
            | Cell::Seconds(number)
            | Cell::Dollars(number) => serializer.serialize_f64(*number),
            Cell::Text(text) => serializer.serialize_str(text),
            Cell::Key(key) => match str::from_utf8(key) {
                Ok(text) => serializer.serialize_str(text),
                Err(_) => serializer.collect_map([("hex", hex(key))]),
            },
            Cell::Open(values) => values.serialize(serializer),
            Cell::One(record) => Json(*record).serialize(serializer),
            Cell::Many(records) => {
                let mut list = serializer.serialize_seq(Some(records.len()))?;
                records.iter().try_for_each(|record| list.serialize_element(&Json(*record)))?;
                list.end()
            }
            Cell::List(cells) => serializer.collect_seq(cells),
        }
    }
}
