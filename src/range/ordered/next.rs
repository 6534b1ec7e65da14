//! A lower bound of a file's next key.

use core::ops::Bound;

use super::segments::Segments;
use crate::range::key_range::KeyRange;
use crate::range::lines::{Code, Lines, Select};

/// What a filter knows of the first key at or after a bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextKey {
    /// The file has no such key.
    None,
    /// The first such key, if there is one, is at or above these bytes, which are at or above the bound.
    AtLeast(Vec<u8>),
}

impl Segments<'_> {
    /// A lower bound of the first key from `lower` on.
    pub(in crate::range) fn first_at_least<S: Select>(
        &self,
        lines: &Lines<'_>,
        lower: &[u8],
        key_bytes: Option<usize>,
    ) -> NextKey {
        let range = KeyRange { lower: Bound::Included(lower), upper: Bound::Unbounded };
        let cut = key_bytes.map_or(range, |bytes| range.of_keys_with_length(bytes));
        let from = self.lower(cut.lower);
        let low_bits = |line| self.low_bits(line);
        let next = from.and_then(|from| lines.first_from::<S>(from.code, low_bits));
        let Some(code) = next else { return NextKey::None };
        let least = self.least_key(code);
        NextKey::AtLeast(if least.as_slice() < lower { lower.to_vec() } else { least })
    }

    /// The smallest byte string whose code this can be: the bytes that its segment shares, and the first bytes of its
    /// cell. Zeros at the end are left out, because they may be padding.
    fn least_key(&self, code: Code) -> Vec<u8> {
        let Some(segment) = self.segment(code.line) else { return Vec::new() };
        let mut key = self.common().to_vec();
        segment.append_shared(&mut key);
        let cell = u128::from(code.quotient) << segment.low_bits | u128::from(code.low);
        let cell = (segment.window() >> segment.shift).saturating_add(cell);
        let window = cell.checked_shl(segment.shift).unwrap_or(0);
        let bytes = window.swap_bytes().to_le_bytes();
        let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        key.extend_from_slice(bytes.get(..end).unwrap_or_default());
        key
    }
}
