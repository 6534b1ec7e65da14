//! What part of a key is hashed.

use core::fmt;
use std::borrow::Cow;

/// Maps a key to the bytes that stand for it in the filters: a prefix, or anything else.
///
/// The filters of a store that looks up by prefix hold prefixes. The name is stored in each table and
/// compared when the table is opened, so it must say everything that affects the result: two
/// extractors with one name must be the same function. A table written with another extractor stays
/// readable; its filter is not used.
///
/// ```
/// use sstfilter::{FixedPrefix, KeyExtractor};
///
/// let tenant = FixedPrefix::new(4);
/// assert_eq!(tenant.extract(b"t042:user:7").as_deref(), Some(&b"t042"[..]));
/// assert_eq!(tenant.extract(b"t"), None);
/// assert_eq!(tenant.name(), "fixed-prefix:4");
/// ```
pub trait KeyExtractor: Send + Sync + fmt::Debug {
    /// The name that is stored in tables, 1 to 255 bytes.
    fn name(&self) -> &str;

    /// The bytes to hash, or `None` when `key` is outside the extractor's domain: such a key is not
    /// added to any filter, and a read of it does not ask one.
    fn extract<'key>(&self, key: &'key [u8]) -> Option<Cow<'key, [u8]>>;
}

/// The first `length` bytes of a key; shorter keys are outside the domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedPrefix {
    length: usize,
    name: String,
}

impl FixedPrefix {
    /// Prefixes of `length` bytes.
    #[must_use]
    pub fn new(length: usize) -> Self {
        Self { length, name: format!("fixed-prefix:{length}") }
    }
}

impl KeyExtractor for FixedPrefix {
    fn name(&self) -> &str {
        &self.name
    }

    fn extract<'key>(&self, key: &'key [u8]) -> Option<Cow<'key, [u8]>> {
        key.get(..self.length).map(Cow::Borrowed)
    }
}

/// A key's bytes up to and including the first `delimiter`; keys without one are outside the domain.
///
/// ```
/// use sstfilter::{DelimitedPrefix, KeyExtractor};
///
/// let table = DelimitedPrefix::new(b'/');
/// assert_eq!(table.extract(b"users/7/name").as_deref(), Some(&b"users/"[..]));
/// assert_eq!(table.name(), "prefix-to-byte:0x2f");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelimitedPrefix {
    delimiter: u8,
    name: String,
}

impl DelimitedPrefix {
    /// Prefixes that end with `delimiter`.
    #[must_use]
    pub fn new(delimiter: u8) -> Self {
        Self { delimiter, name: format!("prefix-to-byte:{delimiter:#04x}") }
    }
}

impl KeyExtractor for DelimitedPrefix {
    fn name(&self) -> &str {
        &self.name
    }

    fn extract<'key>(&self, key: &'key [u8]) -> Option<Cow<'key, [u8]>> {
        let end = key.iter().position(|&byte| byte == self.delimiter)?;
        key.get(..=end).map(Cow::Borrowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_prefix_takes_exactly_its_length() {
        let extractor = FixedPrefix::new(3);
        assert_eq!(extractor.extract(b"abcdef").as_deref(), Some(&b"abc"[..]));
        assert_eq!(extractor.extract(b"abc").as_deref(), Some(&b"abc"[..]));
        assert_eq!(extractor.extract(b"ab"), None);
        assert_eq!(FixedPrefix::new(0).extract(b"").as_deref(), Some(&b""[..]));
    }

    #[test]
    fn a_delimited_prefix_ends_with_its_delimiter() {
        let extractor = DelimitedPrefix::new(b':');
        assert_eq!(extractor.extract(b"a:b:c").as_deref(), Some(&b"a:"[..]));
        assert_eq!(extractor.extract(b":").as_deref(), Some(&b":"[..]));
        assert_eq!(extractor.extract(b"abc"), None);
    }
}
