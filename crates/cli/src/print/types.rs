//! The types that fields of records have. A unit is a type, which decides how text shows the number.

use std::borrow::Cow;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::record::{Cell, Kind, Printed};
use crate::words::escape::path_name;

/// Declares the types of numbers with a unit.
macro_rules! units {
    ($( $(#[doc = $about:literal])* $name:ident($number:ty) )*) => { $(
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
        pub(crate) struct $name(pub(crate) $number);

        impl Printed for $name {
            const KIND: Kind = Kind::$name;

            fn cell(&self) -> Cell<'_> {
                Cell::$name(self.0)
            }
        }
    )* };
}

units! {
    /// A length in bytes: `1.5 MiB`.
    Bytes(u64)
    /// A rate from 0 to 1: `0.953 %`. A field `..._margin` after it says how far it may be off.
    Rate(f64)
    /// Bits per key or entry: `9.99`.
    Bits(f64)
    /// A mean or a ratio: `1.38`.
    Figure(f64)
    /// A time in nanoseconds: `12.5 ns`.
    Nanoseconds(f64)
    /// A time in seconds: `1.25 s`.
    Seconds(f64)
    /// A price in dollars: `0.29`.
    Dollars(f64)
}

/// A path as the program shows it: it cannot drive a terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PathName(pub(crate) PathBuf);

/// Bytes of a user's key or value: a JSON string if they are UTF-8, else `{"hex": "..."}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Key(pub(crate) Vec<u8>);

/// Values by names that are not the program's: an engine's properties, a kind's parameters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Open(pub(crate) Map<String, Value>);

macro_rules! printed {
    ($( $type:ty: $kind:ident, |$value:ident| $cell:expr; )*) => { $(
        impl Printed for $type {
            const KIND: Kind = Kind::$kind;

            fn cell(&self) -> Cell<'_> {
                let $value = self;
                $cell
            }
        }
    )* };
}

printed! {
    PathName: Path, |path| Cell::Text(path_name(&path.0));
    Key: Key, |key| Cell::Key(&key.0);
    Open: Open, |values| Cell::Open(&values.0);
    bool: Flag, |flag| Cell::Flag(*flag);
    u64: Count, |count| Cell::Count(*count);
    u32: Count, |count| Cell::Count(u64::from(*count));
    String: Text, |text| Cell::Text(Cow::Borrowed(text));
    &'static str: Text, |text| Cell::Text(Cow::Borrowed(text));
}

impl<T: Printed> Printed for Option<T> {
    const KIND: Kind = T::KIND;

    fn cell(&self) -> Cell<'_> {
        self.as_ref().map_or(Cell::Unknown, T::cell)
    }
}

impl<T: Printed> Printed for Vec<T> {
    const KIND: Kind = match T::KIND {
        Kind::One(schema) => Kind::Many(schema),
        Kind::Text => Kind::Lines,
        _ => Kind::List,
    };

    fn cell(&self) -> Cell<'_> {
        let cells = self.iter().map(T::cell);
        if let Kind::Many(_) = Self::KIND {
            let record = |cell| if let Cell::One(record) = cell { Some(record) } else { None };
            return Cell::Many(cells.filter_map(record).collect());
        }
        Cell::List(cells.collect())
    }
}
