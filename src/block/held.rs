//! The parts of keys that a filter holds, as recorded by blocks and containers of partitions.
//!
//! ```text
//! domain tag of an extractor's name    8 bytes for each extractor
//! parts word                           4 bytes: number of extractors, 1 with whole keys or else 0, 0, 0
//! ```
//!
//! A filter of only whole keys has no such field. Without the record, a reader with a newer extractor would take "no
//! such part" for "no such key".

use alloc::borrow::ToOwned;
use alloc::string::ToString;
use alloc::vec::Vec;

use crate::error::BlockError;
use crate::hash::{Domain, KeyParts};

/// Bytes of the parts word.
pub(crate) const PARTS_WORD_BYTES: usize = 4;

/// Bytes of a domain tag.
const TAG_BYTES: usize = 8;

/// The maximum length of the field.
pub(crate) const MAX_PARTS_BYTES: usize = KeyParts::MAX_EXTRACTORS * TAG_BYTES + PARTS_WORD_BYTES;

/// The parts of keys that a filter holds: a view of the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct HeldParts<'a> {
    field: &'a [u8],
}

impl<'a> HeldParts<'a> {
    /// Encodes the field of a filter that holds `parts`; up to [`KeyParts::MAX_EXTRACTORS`] of them.
    #[must_use]
    pub fn encode(parts: &KeyParts) -> Vec<u8> {
        let (mut field, mut extractors) = (Vec::new(), 0_u8);
        for domain in parts.domains().take(KeyParts::MAX_EXTRACTORS) {
            field.extend_from_slice(&domain.tag().to_le_bytes());
            extractors += 1;
        }
        if extractors > 0 {
            field.extend([extractors, u8::from(parts.has_whole_keys()), 0, 0]);
        }
        field
    }

    /// Wraps a field, which is empty for only whole keys.
    pub const fn of_field(field: &'a [u8]) -> Self {
        Self { field }
    }

    /// Wraps the field that takes the last `bytes` bytes of `before`.
    pub(crate) fn at_end_of(before: &'a [u8], bytes: u16) -> Self {
        let start = before.len().checked_sub(bytes.into());
        Self::of_field(start.and_then(|start| before.get(start..)).unwrap_or_default())
    }

    /// Whether the filter answers for parts of a domain, if it answers for the extractors with these bits.
    #[must_use]
    pub fn is_answered(self, answered: u64, domain: Domain) -> bool {
        self.position(domain).is_some_and(|bit| answered >> bit & 1 == 1)
    }

    /// Rejects a parts word that no writer writes.
    pub(crate) fn check_word(self) -> Result<(), BlockError> {
        let Some(&[extractors, whole_keys, low, high]) = self.field.last_chunk() else { return Ok(()) };
        let (is_countable, reserved) =
            ((1..=KeyParts::MAX_EXTRACTORS).contains(&extractors.into()), u16::from_le_bytes([low, high]));
        BlockError::require(is_countable, "key extractors of a filter", "1 to 63", extractors)?;
        BlockError::require(whole_keys <= 1, "whole keys beside parts", "0 or 1", whole_keys)?;
        BlockError::require(reserved == 0, "reserved bytes of the parts word", "0", reserved)
    }

    /// The field itself.
    #[must_use]
    pub const fn field(self) -> &'a [u8] {
        self.field
    }

    /// The length of the field; at most [`MAX_PARTS_BYTES`].
    pub(crate) fn field_bytes(self) -> u16 {
        u16::try_from(self.field.len()).unwrap_or(u16::MAX)
    }

    /// Whether the filter holds whole keys.
    #[must_use]
    pub fn has_whole_keys(self) -> bool {
        self.field.last_chunk::<PARTS_WORD_BYTES>().is_none_or(|word| word[1] == 1)
    }

    /// The domains of the extractors.
    pub fn domains(self) -> impl Iterator<Item = Domain> + 'a {
        let (tags, _) = self.field.as_chunks();
        tags.iter().map(|&tag| Domain::from_tag(u64::from_le_bytes(tag)))
    }

    /// Whether the filter holds the parts of a domain; `None` stands for whole keys.
    pub(crate) fn has(self, domain: Option<Domain>) -> bool {
        match domain {
            None => self.has_whole_keys(),
            Some(domain) => self.position(domain).is_some(),
        }
    }

    /// The position of an extractor in the field.
    pub(crate) fn position(self, domain: Domain) -> Option<usize> {
        self.domains().position(|held| held == domain)
    }

    /// Checks that the filter holds at least one of the reader's parts.
    ///
    /// # Errors
    ///
    /// [`BlockError::ExtractorMismatch`] if it holds none.
    pub(crate) fn check(self, reader: &KeyParts) -> Result<(), BlockError> {
        let shared = reader.only(|domain| self.has(domain));
        if shared.is_empty() { Err(self.mismatch(reader)) } else { Ok(()) }
    }

    /// Checks that the filter holds all of these parts.
    ///
    /// # Errors
    ///
    /// [`BlockError::ExtractorMismatch`], which names the missing ones.
    pub(crate) fn check_all(self, parts: &KeyParts) -> Result<(), BlockError> {
        let lacking = parts.only(|domain| !self.has(domain));
        if lacking.is_empty() { Ok(()) } else { Err(self.mismatch(&lacking)) }
    }

    fn mismatch(self, expected: &KeyParts) -> BlockError {
        BlockError::ExtractorMismatch { expected: expected.to_string(), got: self.to_string() }
    }
}

impl core::fmt::Display for HeldParts<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let whole = self.has_whole_keys().then(|| "whole keys".to_owned());
        let parts = self.domains().map(|domain| format!("parts with tag {:#018x}", domain.tag()));
        f.write_str(&whole.into_iter().chain(parts).collect::<Vec<_>>().join(", "))
    }
}

/// Reads the length of the field at the end of `before` from its last word; 0 if there is no field, `None` if the word
/// is cut.
pub(crate) fn parts_bytes(before: &[u8], has_parts: bool) -> Option<u16> {
    if !has_parts {
        return Some(0);
    }
    let [extractors, ..] = before.last_chunk::<PARTS_WORD_BYTES>()?;
    // No overflow: even 255 extractors, which `check_word` rejects, take 2,044 bytes.
    Some(8 * u16::from(*extractors) + 4)
}

#[cfg(test)]
mod tests {
    //! A store gets its first extractor, or another one, and its older filters hold other parts than its reader probes
    //! for.

    use alloc::sync::Arc;

    use super::*;
    use crate::hash::{DelimitedPrefix, FixedPrefix};

    #[test]
    fn a_field_says_what_was_put_into_it() {
        assert_eq!(HeldParts::encode(&KeyParts::whole_keys()), [0_u8; 0]);
        let [fixed, delimited] = ["fixed-prefix:4", "prefix-to-byte:0x3a"].map(Domain::new);
        let both = KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(4)));
        let alone = KeyParts::extracted(Arc::new(DelimitedPrefix::new(b':')));
        for (parts, domains, whole) in [(&both, [fixed], true), (&alone, [delimited], false)] {
            let field = HeldParts::encode(parts);
            let held = HeldParts::of_field(&field);
            assert!(held.domains().eq(domains) && held.has_whole_keys() == whole && held.has(None) == whole);
            assert_eq!(parts_bytes(&field, true), Some(held.field_bytes()));
            assert!(held.check_word().is_ok() && HeldParts::at_end_of(&field, held.field_bytes()) == held);
        }
        assert!(HeldParts::of_field(&[]).has(None) && !HeldParts::of_field(&[]).has(Some(fixed)));
        let many = (0..200).fold(both, |parts, length| parts.with_extractor(Arc::new(FixedPrefix::new(length))));
        assert_eq!(HeldParts::encode(&many).len(), MAX_PARTS_BYTES);
    }

    #[test]
    fn a_reader_of_other_parts_is_refused_and_both_are_named() {
        let [whole, four] = [KeyParts::whole_keys(), KeyParts::extracted(Arc::new(FixedPrefix::new(4)))];
        let [of_whole, of_four] = [&whole, &four].map(HeldParts::encode);
        assert!(HeldParts::of_field(&of_whole).check(&whole).is_ok());
        assert!(HeldParts::of_field(&of_four).check(&four).is_ok());
        assert!(
            HeldParts::of_field(&of_four).check(&four.clone().with_extractor(Arc::new(FixedPrefix::new(1)))).is_ok()
        );
        let refused = HeldParts::of_field(&of_four).check(&whole).unwrap_err().to_string();
        assert!(refused.contains("expected one of whole keys, got parts with tag 0x"), "{refused}");
        let refused = HeldParts::of_field(&of_whole).check(&four).unwrap_err().to_string();
        assert!(refused.contains("expected one of 'fixed-prefix:4', got whole keys"), "{refused}");
    }

    #[test]
    fn words_that_no_writer_writes_are_refused() {
        for word in [[0, 1, 0, 0], [64, 0, 0, 0], [1, 2, 0, 0], [1, 1, 1, 0], [1, 1, 0, 1]] {
            assert!(HeldParts::of_field(&word).check_word().is_err(), "{word:?}");
        }
        assert_eq!([parts_bytes(&[1, 1, 0], true), parts_bytes(&[1, 1, 0], false)], [None, Some(0)]);
    }
}
