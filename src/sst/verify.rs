//! Reading all of a table and checking every claim in it.

use bytes::Bytes;

use super::format::FILTER_ALIGNMENT;
use super::io::TableFile;
use super::table::TableParts;
use super::{Entry, Table, TableError, TablePart, TableProperties};
use crate::block::FilterBlock;
use crate::error::BlockError;
use crate::hash::HashId;

/// What a verified table holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Entries walked, tombstones included.
    pub entries: u64,
    /// Tombstones among them.
    pub tombstones: u64,
    /// Data blocks read.
    pub data_blocks: u64,
    /// Bytes of the whole table, all of them checked.
    pub file_bytes: u64,
    /// What the filter was found to be.
    pub filter: FilterVerdict,
}

/// What came of probing the filter for every key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterVerdict {
    /// The table has no filter.
    None,
    /// It contains every key that it was probed for.
    ContainsAll {
        /// Keys probed for: all but those outside the extractor's domain.
        keys: u64,
    },
    /// Its checksums hold, but it could not be probed.
    NotProbed {
        /// Why not, in words.
        reason: String,
    },
}

impl Table {
    /// Reads all of the table once more and checks all that it says against all that it holds.
    ///
    /// It compares every checksum, the zeros of the padding, the order of all keys, the index and the properties with
    /// the data, and the filter with every key. Reads are counted like all others.
    ///
    /// # Errors
    ///
    /// The first damage found, that of the filter included. A filter that is sound but cannot be probed (another hash
    /// or extractor, an unknown kind) is no error: the report says so.
    pub fn verify(&self) -> Result<VerifyReport, TableError> {
        let parts = TableParts::read(&self.file)?;
        if parts != self.parts {
            let at = self.file.location(TablePart::Footer, 0);
            let got = "another one: the file has been replaced";
            return Err(TableError::corrupt(at, "the table that was opened", got));
        }
        self.read_index()?;
        let filter = self.filter_to_probe()?;
        let (counted, keys) = self.walk(filter.as_ref().ok())?;
        if counted != parts.properties {
            let at = self.file.location(TablePart::Properties, parts.handles.properties.offset);
            let expected = format!("the counts of the data, {}", counts(&counted));
            return Err(TableError::corrupt(at, expected, counts(&parts.properties)));
        }
        Ok(VerifyReport {
            entries: counted.entries,
            tombstones: counted.tombstones,
            data_blocks: counted.data_blocks,
            file_bytes: self.file.length,
            filter: filter.map_or_else(|verdict| verdict, |_| FilterVerdict::ContainsAll { keys }),
        })
    }

    /// The properties with the counts of the data, and the number of keys that `filter` was probed for.
    fn walk(&self, filter: Option<&FilterBlock<Bytes>>) -> Result<(TableProperties, u64), TableError> {
        let mut counted = TableProperties {
            entries: 0,
            tombstones: 0,
            raw_key_bytes: 0,
            raw_value_bytes: 0,
            ..self.properties().clone()
        };
        let mut keys = 0;
        for entry in self {
            let Entry { key, value } = entry?;
            counted.count(&key, value.as_deref());
            let Some(block) = filter else { continue };
            let Some(hash) = self.reader.hash_of(&key) else { continue };
            if !block.may_contain(hash) {
                let offset = self.parts.handles.filter.map_or(0, |filter| filter.offset);
                let at = self.file.location(TablePart::Filter, offset);
                return Err(TableError::FalseNegative { at, key: key.into() });
            }
            keys += 1;
        }
        Ok((counted, keys))
    }

    /// The filter, read again, or the verdict on one that cannot be probed.
    fn filter_to_probe(&self) -> Result<Result<FilterBlock<Bytes>, FilterVerdict>, TableError> {
        let Some(handle) = self.parts.handles.filter else { return Ok(Err(FilterVerdict::None)) };
        let contents = self.parts.read_filter(&self.file, handle)?;
        check_padding(&self.file, self.properties().data_bytes, handle.offset)?;
        let source = match self.open_filter(contents) {
            Ok(block) => return Ok(Ok(block)),
            Err(source) => source,
        };
        let is_unknown = matches!(
            source,
            BlockError::UnknownKind { .. } | BlockError::UnknownHash { .. } | BlockError::Version { .. }
        );
        let reason = source.to_string();
        let error = TableError::Filter { at: self.file.location(TablePart::Filter, handle.offset), source };
        if is_unknown || error.is_foreign_filter() {
            return Ok(Err(FilterVerdict::NotProbed { reason }));
        }
        Err(error)
    }

    /// The filter in `contents`, if it is sound and was built from what this table's keys are hashed to.
    fn open_filter(&self, contents: Bytes) -> Result<FilterBlock<Bytes>, BlockError> {
        let block = FilterBlock::open_unverified_with_kinds(contents, &self.reader.kinds)?;
        block.verify()?;
        let (expected, got) = (self.hash_identity(), block.hash_identity());
        if expected != got {
            return Err(BlockError::HashMismatch { expected, got });
        }
        self.reader.check_extractor(self.properties())?;
        // With a public seed, equal identities are equal hashes: a missing key is then the filter's fault.
        let known = self.reader.known_keys(self.properties());
        if got.id != HashId::Xxh3 && known.into_iter().any(|hash| !block.may_contain(hash)) {
            return Err(BlockError::KnownKeyAbsent { hash: got });
        }
        Ok(block)
    }
}

fn counts(properties: &TableProperties) -> String {
    let TableProperties { entries, tombstones, raw_key_bytes, raw_value_bytes, .. } = properties;
    format!("{entries} entries, {tombstones} tombstones, {raw_key_bytes} key bytes, {raw_value_bytes} value bytes")
}

/// The bytes between data and filter are zero.
fn check_padding(file: &TableFile, start: u64, end: u64) -> Result<(), TableError> {
    let mut padding = [0; FILTER_ALIGNMENT];
    let length = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
    let at = file.location(TablePart::Padding, start);
    // Less than an alignment: the filter's place has been checked.
    let padding = padding.get_mut(..length).unwrap_or_default();
    file.read_into(padding, start)?;
    if padding.iter().any(|&byte| byte != 0) {
        return Err(TableError::corrupt(at, "zeros", format!("{padding:?}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sst::{ReadOptions, TableBuilder, TableOptions};

    /// A table whose properties are those that `lie` makes of the true ones, under a checksum that holds.
    fn table_with(lie: impl FnOnce(&mut TableProperties)) -> Table {
        let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default()).unwrap();
        builder.add(b"b", b"1").unwrap();
        builder.delete(b"c").unwrap();
        builder.add(b"d", b"2").unwrap();
        lie(&mut builder.properties);
        let bytes = builder.finish().unwrap().0;
        Table::open_source(Bytes::from(bytes), &ReadOptions::default()).unwrap()
    }

    #[test]
    fn a_sound_table_is_reported_in_full() {
        let report = table_with(|_| ()).verify().unwrap();
        assert_eq!((report.entries, report.tombstones, report.data_blocks), (3, 1, 1));
        assert_eq!(report.filter, FilterVerdict::ContainsAll { keys: 3 });
    }

    #[test]
    fn counts_that_the_data_does_not_bear_out_are_refused() {
        let lies: [fn(&mut TableProperties); 6] = [
            |properties| properties.entries += 1,
            |properties| properties.tombstones = 0,
            |properties| properties.raw_key_bytes -= 1,
            |properties| properties.raw_value_bytes += 1,
            |properties| properties.data_blocks += 1,
            |properties| properties.data_bytes += 1,
        ];
        for (number, lie) in lies.into_iter().enumerate() {
            assert!(matches!(table_with(lie).verify(), Err(TableError::Corrupt { .. })), "lie {number}");
        }
    }

    #[test]
    fn a_range_that_is_not_the_datas_own_is_an_error_of_the_read_that_meets_it() {
        for key in [b"a", b"c"] {
            let table = table_with(|properties| properties.smallest_key = Some(Bytes::from_static(key)));
            assert!(matches!(table.get(b"d"), Err(TableError::Corrupt { .. })));
            assert!(matches!(table.verify(), Err(TableError::Corrupt { .. })));
        }
        let mut table = table_with(|_| ());
        table.parts.properties.largest_key = Some(Bytes::from_static(b"e"));
        assert!(matches!(table.get(b"d"), Err(TableError::Corrupt { .. })));
    }
}
