//! Records: structures that describe themselves.
//!
//! ```text
//! record! {
//!     /// A filter of a file.
//!     pub(crate) struct FilterReport {
//!         /// whose filter it is
//!         pub(crate) role: Role [row],
//!         pub(crate) filter_bytes: Bytes [row],
//!         /// the parameters of the kind, by its own names
//!         pub(crate) shape: Open [json],
//!     }
//! }
//! ```
//!
//! The comment of a field is its meaning on the page of JSON fields. Without a comment, the meaning is in `names.rs`,
//! or the name says it. The word in brackets says where the field is shown.

use core::fmt;
use std::borrow::Cow;

use serde_json::{Map, Value};

/// Where a field is shown. JSON has all fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Show {
    /// In JSON, and in the details of HTML pages: `[json]`.
    Json,
    /// Also in the text of a single record. The default.
    Page,
    /// Also in tables of several records: `[row]`. A record inside contributes the columns of its own row, and a list
    /// of records those of its first one.
    Row,
    /// Like `[row]`, and each of up to three records inside has a page of its own: `[pages]`.
    Pages,
    /// Everywhere, even with `--quiet`, but for records inside of a row: `[notable]`.
    Notable,
}

/// The description of a field.
#[derive(Debug, PartialEq)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// The comment beside it, or nothing.
    pub(crate) about: &'static str,
    pub(crate) show: Show,
    pub(crate) kind: Kind,
}

/// The description of a record.
#[derive(Debug, PartialEq)]
pub(crate) struct Schema {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) fields: &'static [Field],
}

/// A word that a field may have, and what it means.
#[derive(Debug, PartialEq)]
pub(crate) struct Word {
    pub(crate) text: &'static str,
    pub(crate) about: &'static str,
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Flag,
    Count,
    Bytes,
    Rate,
    Bits,
    Figure,
    Nanoseconds,
    Seconds,
    Dollars,
    /// One of these words.
    Word(&'static [Word]),
    Text,
    Path,
    Key,
    /// Values whose names are not the program's.
    Open,
    One(&'static Schema),
    Many(&'static Schema),
    /// Sentences, each on its own line.
    Lines,
    /// Other values, one behind the other.
    List,
}

/// The value of a field.
#[derive(Clone, Debug)]
pub(crate) enum Cell<'a> {
    Unknown,
    Flag(bool),
    Count(u64),
    Bytes(u64),
    Rate(f64),
    /// A rate, and how far it may be from the real one. Only text and HTML join the two fields.
    Measured(f64, f64),
    Bits(f64),
    Figure(f64),
    Nanoseconds(f64),
    Seconds(f64),
    Dollars(f64),
    Text(Cow<'a, str>),
    Key(&'a [u8]),
    Open(&'a Map<String, Value>),
    One(&'a dyn Record),
    Many(Vec<&'a dyn Record>),
    List(Vec<Cell<'a>>),
}

/// A structure that describes itself.
pub(crate) trait Record: fmt::Debug {
    fn schema(&self) -> &'static Schema;

    /// Returns the values of all fields of the schema, in its order.
    fn cells(&self) -> Vec<Cell<'_>>;
}

/// A type that a field may have.
pub(crate) trait Printed {
    const KIND: Kind;

    fn cell(&self) -> Cell<'_>;
}

/// Declares structures and makes them records.
macro_rules! record {
    (@show) => { $crate::print::Show::Page };
    (@show json) => { $crate::print::Show::Json };
    (@show row) => { $crate::print::Show::Row };
    (@show pages) => { $crate::print::Show::Pages };
    (@show notable) => { $crate::print::Show::Notable };
    ($(
        $(#[doc = $about:literal])*
        $visible:vis struct $name:ident {
            $( $(#[doc = $doc:literal])* $seen:vis $field:ident : $type:ty $([$show:ident])? ),* $(,)?
        }
    )*) => { $(
        $(#[doc = $about])*
        #[derive(Clone, Debug, Default)]
        #[allow(clippy::struct_field_names, reason = "the names are those of JSON, which shows no name of the record")]
        $visible struct $name { $( $(#[doc = $doc])* $seen $field: $type, )* }

        impl $name {
            pub(crate) const SCHEMA: $crate::print::Schema = $crate::print::Schema {
                name: stringify!($name),
                about: concat!($($about),*),
                fields: &[ $( $crate::print::Field {
                    name: stringify!($field),
                    about: concat!($($doc),*),
                    show: $crate::print::record!(@show $($show)?),
                    kind: <$type as $crate::print::Printed>::KIND,
                } ),* ],
            };
        }

        impl $crate::print::Record for $name {
            fn schema(&self) -> &'static $crate::print::Schema {
                &Self::SCHEMA
            }

            fn cells(&self) -> Vec<$crate::print::Cell<'_>> {
                vec![ $( $crate::print::Printed::cell(&self.$field) ),* ]
            }
        }

        impl $crate::print::Printed for $name {
            const KIND: $crate::print::Kind = $crate::print::Kind::One(&Self::SCHEMA);

            fn cell(&self) -> $crate::print::Cell<'_> {
                $crate::print::Cell::One(self)
            }
        }
    )* };
}

/// Declares enumerations of words. The first word is the default; a comment is the word's meaning.
macro_rules! words {
    ($(
        $(#[doc = $about:literal])*
        $visible:vis enum $name:ident { $( $(#[doc = $doc:literal])* $word:ident = $text:literal ),* $(,)? }
    )*) => { $(
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $visible enum $name { $( $(#[doc = $doc])* $word, )* }

        impl $name {
            pub(crate) const ALL: [Self; [$($text),*].len()] = [ $( Self::$word ),* ];

            pub(crate) const fn text(self) -> &'static str {
                match self { $( Self::$word => $text, )* }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                let [first, ..] = Self::ALL;
                first
            }
        }

        impl $crate::print::Printed for $name {
            const KIND: $crate::print::Kind = $crate::print::Kind::Word(&[ $(
                $crate::print::Word { text: $text, about: concat!($($doc),*) }
            ),* ]);

            fn cell(&self) -> $crate::print::Cell<'_> {
                $crate::print::Cell::Text(std::borrow::Cow::Borrowed(self.text()))
            }
        }
    )* };
}

pub(crate) use {record, words};
