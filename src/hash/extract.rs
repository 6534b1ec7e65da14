//! Key extractors: functions that select a part of a key.

use alloc::borrow::{Cow, ToOwned};
use alloc::string::String;
use core::fmt;

/// Extracts a part of a key, such as a prefix, for filters to hold.
///
/// A store that scans by prefix puts prefixes into its filters. Each table stores the extractor's name, and readers
/// compare it when they open the table. Put everything that affects the result into the name: two extractors with one
/// name must be the same function. A table written with another extractor stays readable, but its parts are not probed
/// for.
///
/// ```
/// use sstfilter::{FixedPrefix, KeyExtractor};
///
/// let tenant = FixedPrefix::new(4);
/// assert_eq!(tenant.extract(b"t042:user:7").as_deref(), Some(&b"t042"[..]));
/// assert_eq!(tenant.extract(b"t"), None);
/// assert_eq!(tenant.name(), "fixed-prefix:4");
/// ```
///
/// # Prefix scans
///
/// `FilterView::candidates_by_prefix` returns the files that may contain a key with a prefix, and
/// `FileFilters::may_contain_prefix` answers for one file. They compare the prefix with the file's key range, and then
/// probe the filter if it holds extracted parts and [`extract_prefix`](Self::extract_prefix) returns the part that all
/// keys with the prefix share. A filter of only whole keys cannot answer for a prefix.
///
/// # Keys and prefixes in one filter
///
/// A filter can hold whole keys and parts by several extractors: [`KeyParts`](crate::KeyParts) selects and hashes them.
/// Each part is hashed in the [`Domain`](crate::Domain) of its extractor's name.
pub trait KeyExtractor: Send + Sync + fmt::Debug {
    /// The name that is stored in tables, 1 to 255 bytes.
    fn name(&self) -> &str;

    /// Returns the bytes to hash, or `None` if `key` is outside the extractor's domain. No filter then contains such a
    /// part of the key, and a filter of only such parts is not probed for it.
    fn extract<'key>(&self, key: &'key [u8]) -> Option<Cow<'key, [u8]>>;

    /// Returns the part that every key with this prefix has, or `None` if there is no such part. The default is `None`:
    /// filters are then not probed for prefixes.
    ///
    /// `Some(part)` promises that [`extract`](Self::extract) returns the same part for `prefix` itself and for every
    /// key that begins with it. It is not enough that the prefix is in the domain: an extractor of *up to* four bytes
    /// returns different parts for `b"ab"` and `b"abc"`. If a key with the prefix lacks this part, scans lose that key.
    /// When in doubt, return `None`, which only costs speed. RocksDB's `SliceTransform::SameResultWhenAppended` has the
    /// same rule.
    ///
    /// [`check_prefix_stability`] tests an extractor with your keys. Builders check some prefixes of their keys, and
    /// leave out an extractor that breaks the promise
    /// ([`BuildReport::unstable_extractors`](crate::BuildReport::unstable_extractors)).
    ///
    /// ```
    /// use sstfilter::{FixedPrefix, KeyExtractor};
    ///
    /// let tenant = FixedPrefix::new(4);
    /// assert_eq!(tenant.extract_prefix(b"t042:us").as_deref(), Some(&b"t042"[..]));
    /// assert_eq!(tenant.extract_prefix(b"t04"), None, "t041 and t042 have different parts");
    /// ```
    fn extract_prefix<'key>(&self, prefix: &'key [u8]) -> Option<Cow<'key, [u8]>> {
        let _ = prefix;
        None
    }
}

/// Checks that `extractor` keeps the promise of [`KeyExtractor::extract_prefix`] for each prefix of `key`: the prefix's
/// part is also the part of all longer prefixes and of the key itself.
///
/// Use it in tests, with keys of each form in the store. Its time grows with the square of the key's length.
///
/// ```
/// use std::borrow::Cow;
///
/// use sstfilter::{FixedPrefix, KeyExtractor, check_prefix_stability};
///
/// assert!(check_prefix_stability(&FixedPrefix::new(4), b"t042:user:7").is_ok());
///
/// #[derive(Debug)]
/// struct LastFour;
///
/// impl KeyExtractor for LastFour {
///     fn name(&self) -> &str {
///         "last-four"
///     }
///
///     fn extract<'key>(&self, key: &'key [u8]) -> Option<Cow<'key, [u8]>> {
///         key.last_chunk::<4>().map(|part| Cow::Borrowed(&part[..]))
///     }
///
///     fn extract_prefix<'key>(&self, prefix: &'key [u8]) -> Option<Cow<'key, [u8]>> {
///         self.extract(prefix) // Wrong: the last four bytes change when more follow.
///     }
/// }
///
/// let problem = check_prefix_stability(&LastFour, b"t042:user:7").unwrap_err();
/// assert!(problem.contains(r#"expected "t042:" to have the part of its prefix "t042""#), "{problem}");
/// ```
///
/// # Errors
///
/// A message that names the shortest prefix whose part differs from that of a longer one.
pub fn check_prefix_stability(extractor: &dyn KeyExtractor, key: &[u8]) -> Result<(), String> {
    let cuts = |from: usize| (from..=key.len()).filter_map(|length| key.get(..length));
    for prefix in cuts(0) {
        let Some(expected) = extractor.extract_prefix(prefix) else { continue };
        // From the prefix itself on, which the promise includes.
        if let Some(key) = cuts(prefix.len()).find(|&key| extractor.extract(key).as_ref() != Some(&expected)) {
            let shown = |part: &[u8]| format!("\"{}\"", part.escape_ascii());
            return Err(format!(
                "key extractor '{}': expected {} to have the part of its prefix {}, {}, got {}; return no part for such \
                 a prefix",
                extractor.name(),
                shown(key),
                shown(prefix),
                shown(&expected),
                extractor.extract(key).map_or_else(|| "none".to_owned(), |part| shown(&part))
            ));
        }
    }
    Ok(())
}

/// Extracts the first `length` bytes of a key; shorter keys are outside the domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedPrefix {
    length: usize,
    name: String,
}

impl FixedPrefix {
    /// Creates an extractor of prefixes of `length` bytes.
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

    /// The first `length` bytes of a prefix that is long enough: they do not change when more bytes follow.
    fn extract_prefix<'key>(&self, prefix: &'key [u8]) -> Option<Cow<'key, [u8]>> {
        self.extract(prefix)
    }
}

/// Extracts a key's bytes up to and including the first `delimiter`; keys without one are outside the domain.
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
    /// Creates an extractor of prefixes that end with `delimiter`.
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

    /// The part of a prefix that contains the delimiter: in longer keys, the first delimiter is still the same one.
    fn extract_prefix<'key>(&self, prefix: &'key [u8]) -> Option<Cow<'key, [u8]>> {
        self.extract(prefix)
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

    #[test]
    fn a_prefix_has_a_part_only_if_all_keys_that_begin_with_it_have_that_one() {
        let alphabet = [0, b':', b'a', 0xff];
        let strings = |length: u32| {
            (0..4_usize.pow(length)).map(move |number| {
                let digit = |place| alphabet[number / 4_usize.pow(place) % 4];
                (0..length).map(digit).collect::<Vec<u8>>()
            })
        };
        let extractors: [&dyn KeyExtractor; 4] =
            [&FixedPrefix::new(0), &FixedPrefix::new(2), &DelimitedPrefix::new(b':'), &DelimitedPrefix::new(0xff)];
        for extractor in extractors {
            for prefix in (0..4).flat_map(strings) {
                let keys = (0..3).flat_map(strings).map(|rest| [prefix.as_slice(), &rest].concat());
                let parts: Vec<_> = keys.map(|key| extractor.extract(&key).map(Cow::into_owned)).collect();
                let common = parts[0].clone().filter(|first| parts.iter().flatten().all(|part| part == first));
                let common = common.filter(|_| parts.iter().all(Option::is_some));
                assert_eq!(check_prefix_stability(extractor, &prefix), Ok(()));
                assert_eq!(extractor.extract_prefix(&prefix).as_deref(), common.as_deref(), "{extractor:?} {prefix:?}");
            }
        }
    }

    /// Extracts up to two bytes, with a promise that it cannot keep.
    #[derive(Debug)]
    struct UpToTwo;

    impl KeyExtractor for UpToTwo {
        fn name(&self) -> &'static str {
            "up-to-two"
        }

        fn extract<'key>(&self, key: &'key [u8]) -> Option<Cow<'key, [u8]>> {
            key.get(..key.len().min(2)).map(Cow::Borrowed)
        }

        fn extract_prefix<'key>(&self, prefix: &'key [u8]) -> Option<Cow<'key, [u8]>> {
            self.extract(prefix)
        }
    }

    #[test]
    fn a_part_that_changes_when_bytes_follow_is_found_and_shown() {
        assert_eq!(check_prefix_stability(&UpToTwo, b""), Ok(()));
        let text = check_prefix_stability(&UpToTwo, b"abc").unwrap_err();
        assert!(text.contains("'up-to-two'") && text.contains("\"a\""), "{text}");
    }

    #[test]
    fn an_extractor_that_says_nothing_of_prefixes_has_no_part_for_them() {
        #[derive(Debug)]
        struct Whole;
        impl KeyExtractor for Whole {
            fn name(&self) -> &'static str {
                "whole"
            }
            fn extract<'key>(&self, key: &'key [u8]) -> Option<Cow<'key, [u8]>> {
                Some(Cow::Borrowed(key))
            }
        }
        assert_eq!(Whole.extract_prefix(b"a"), None);
    }
}
