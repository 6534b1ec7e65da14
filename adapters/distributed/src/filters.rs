//! The filter policies of a process, and the names of the filters in a stored SST.

use sstfilter_slatedb::{SlateFilters, TakesFilters};

use crate::protocol::Filters;

/// Configures a builder with the policies of a process. `without` removes all policies from it.
pub fn configured<B: TakesFilters>(filters: Filters, builder: B, without: impl FnOnce(B) -> B) -> B {
    match filters {
        Filters::Ours => SlateFilters::default().configure(builder),
        // The default of an unconfigured builder.
        Filters::BuiltIn => builder,
        Filters::None => without(builder),
    }
}

/// Returns the names in a filter block, or `None` if the block is damaged.
///
/// The block is `u16 count`, then for each filter `u16 length, name, u64 length, data`, all big-endian, then a checksum
/// (`EncodedSsTableFooterBuilder::build` of SlateDB 0.18). Nothing here is compressed or encrypted.
#[must_use]
pub fn names_in_block(block: &[u8]) -> Option<Vec<String>> {
    let (count, mut rest) = block.split_first_chunk()?;
    let mut names = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let (length, tail) = rest.split_first_chunk()?;
        let (name, tail) = tail.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        let (length, tail) = tail.split_first_chunk()?;
        let (_, tail) = tail.split_at_checked(usize::try_from(u64::from_be_bytes(*length)).ok()?)?;
        names.push(String::from_utf8(name.to_vec()).ok()?);
        rest = tail;
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block() -> Vec<u8> {
        let mut block = vec![0, 2];
        for name in ["_bf", "sstfilter.v1"] {
            block.extend_from_slice(&[0, u8::try_from(name.len()).unwrap_or(0)]);
            block.extend_from_slice(name.as_bytes());
            block.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 3, 7, 7, 7]);
        }
        block
    }

    #[test]
    fn a_filter_block_names_its_filters() {
        let names = names_in_block(&block());
        assert_eq!(names, Some(vec!["_bf".to_owned(), "sstfilter.v1".to_owned()]));
        assert_eq!(names_in_block(&[0, 0]), Some(Vec::new()));
    }

    #[test]
    fn a_filter_block_that_was_cut_names_nothing() {
        let block = block();
        for length in 0..block.len() {
            assert_eq!(names_in_block(&block[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn a_length_beyond_the_block_is_refused() {
        assert_eq!(names_in_block(&[0, 1, 255, 255, b'_']), None);
        let mut block = vec![0, 1, 0, 1, b'_'];
        block.extend_from_slice(&[255; 8]);
        assert_eq!(names_in_block(&block), None);
    }
}
