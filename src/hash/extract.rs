//! Which part of a key is hashed.

use alloc::borrow::Cow;
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Maps a key to the bytes that stand for it in the filters: a prefix, or anything else.
///
/// The filters of a store that looks up by prefix hold prefixes. The name is stored in each table and
/// compared when the table is opened, so it must say everything that affects the result: two
/// extractors with one name must be the same function. A table written with another extractor stays
/// readable; parts by it are not probed for.
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
/// `FilterView::candidates_by_prefix` gives the files that may have a key with a prefix, and
/// `FileFilters::may_contain_prefix` says it of one. They compare the prefix with the file's range, and then probe
/// the filter if it can tell: a filter of whole keys alone cannot, for a prefix is none of them. A filter of extracted
/// parts can, where [`extract_prefix`](Self::extract_prefix) gives the one part that all keys with the prefix have.
///
/// # Keys and prefixes in one filter
///
/// A filter can hold whole keys, and parts by several extractors: [`KeyParts`](crate::KeyParts) says which, and hashes
/// them. A part is hashed in the [`Domain`](crate::Domain) of its extractor's name.
pub trait KeyExtractor: Send + Sync + fmt::Debug {
    /// The name that is stored in tables, 1 to 255 bytes.
    fn name(&self) -> &str;

    /// The bytes to hash, or `None` when `key` is outside the extractor's domain: it then has no such part in any
    /// filter, and a filter of such parts alone is not probed for it.
    fn extract<'key>(&self, key: &'key [u8]) -> Option<Cow<'key, [u8]>>;

    /// The part that every key with this prefix has, or `None` when there is no such part; by default, `None`:
    /// filters are then not probed for prefixes.
    ///
    /// `Some(part)` promises that [`extract`](Self::extract) gives this same part for `prefix` itself and for each
    /// key that begins with it, whatever follows. It is not enough that the prefix is in the domain: of an extractor
    /// of the first *up to* four bytes, `b"ab"` is one part, and `b"abc"` another. A part that a key with the
    /// prefix does not have makes scans lose that key. When in doubt, give `None`, which costs speed alone. The rule is
    /// the one of RocksDB's `SliceTransform::SameResultWhenAppended`.
    ///
    /// [`check_prefix_stability`] tests an extractor with keys of yours. Builders look at some prefixes of their keys,
    /// and leave out an extractor that they find to break the promise
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

/// Checks that `extractor` keeps the promise of [`KeyExtractor::extract_prefix`] for each prefix of `key`: the part
/// that it gives for the prefix is the part of all longer prefixes and of the key itself.
///
/// It is for tests: give it keys of each form that the store has. The time it takes grows with the square of the key's
/// length.
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
/// assert_eq!((&problem.prefix[..], &problem.key[..]), (&b"t042"[..], &b"t042:"[..]));
/// ```
///
/// # Errors
///
/// The shortest prefix whose part a longer one does not have.
pub fn check_prefix_stability(extractor: &dyn KeyExtractor, key: &[u8]) -> Result<(), PrefixMismatch> {
    let cuts = |from: usize| (from..=key.len()).filter_map(|length| key.get(..length));
    for prefix in cuts(0) {
        let Some(expected) = extractor.extract_prefix(prefix) else { continue };
        if let Some(key) = cuts(prefix.len()).find(|&key| extractor.extract(key).as_ref() != Some(&expected)) {
            return Err(PrefixMismatch {
                extractor: extractor.name().to_owned(),
                prefix: prefix.to_vec(),
                key: key.to_vec(),
                expected: expected.into_owned(),
                got: extractor.extract(key).map(Cow::into_owned),
            });
        }
    }
    Ok(())
}

/// A prefix that does not have the part of a key that begins with it, although its extractor has promised that.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrefixMismatch {
    /// Name of the extractor.
    pub extractor: String,
    /// The prefix.
    pub prefix: Vec<u8>,
    /// A key that begins with it.
    pub key: Vec<u8>,
    /// The part that all keys with the prefix should have.
    pub expected: Vec<u8>,
    /// The key's part; `None` if it is outside the extractor's domain.
    pub got: Option<Vec<u8>>,
}

impl fmt::Display for PrefixMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |bytes: &[u8]| format!("\"{}\"", bytes.escape_ascii());
        write!(
            f,
            "key extractor '{}': expected {} to have the part of its prefix {}, {}, got {}; give no part for such a \
             prefix",
            self.extractor,
            shown(&self.key),
            shown(&self.prefix),
            shown(&self.expected),
            self.got.as_deref().map_or_else(|| "none".to_owned(), shown)
        )
    }
}

impl core::error::Error for PrefixMismatch {}

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

    /// The first `length` bytes of a prefix that has them: no key changes them by going on.
    fn extract_prefix<'key>(&self, prefix: &'key [u8]) -> Option<Cow<'key, [u8]>> {
        self.extract(prefix)
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

    /// The part of a prefix that has the delimiter: in longer keys, the first delimiter is the same one.
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

    /// The first up to two bytes, with a promise that it cannot keep.
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
        let problem = check_prefix_stability(&UpToTwo, b"abc").unwrap_err();
        assert_eq!((problem.prefix.as_slice(), problem.key.as_slice()), (&b""[..], &b"a"[..]));
        assert_eq!((problem.expected.as_slice(), problem.got.as_deref()), (&b""[..], Some(&b"a"[..])));
        let text = problem.to_string();
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
