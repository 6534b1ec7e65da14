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
            return Err(TableError::corrupt(
                at,
                "the table that was opened",
                "another one: the file has been replaced",
            ));
        }
        self.read_index()?;
        let mut filter = FilterCheck::begin(self, &parts)?;
        let mut counted = TableProperties {
            entries: 0,
            tombstones: 0,
            raw_key_bytes: 0,
            raw_value_bytes: 0,
            ..parts.properties.clone()
        };
        for entry in self {
            let entry = entry?;
            count(&mut counted, &entry);
            filter.probe(self, &entry.key)?;
        }
        if counted != parts.properties {
            let at = self.file.location(TablePart::Properties, parts.handles.properties.offset);
            let expected = format!("the counts of the data, {}", counts(&counted));
            return Err(TableError::corrupt(at, expected, counts(&parts.properties)));
        }
        Ok(VerifyReport {
            entries: counted.entries,
            tombstones: counted.tombstones,
            data_blocks: counted.data_blocks,
            file_bytes: self.file.length(),
            filter: filter.verdict(),
        })
    }
}

fn count(counted: &mut TableProperties, entry: &Entry) {
    counted.entries += 1;
    counted.tombstones += u64::from(entry.value.is_none());
    counted.raw_key_bytes += entry.key.len() as u64;
    counted.raw_value_bytes += entry.value.as_ref().map_or(0, Bytes::len) as u64;
}

fn counts(properties: &TableProperties) -> String {
    let TableProperties { entries, tombstones, raw_key_bytes, raw_value_bytes, .. } = properties;
    format!("{entries} entries, {tombstones} tombstones, {raw_key_bytes} key bytes, {raw_value_bytes} value bytes")
}

/// The filter, read again, or why it is not probed.
enum FilterCheck {
    Probed { block: Box<FilterBlock<Bytes>>, keys: u64 },
    Decided(FilterVerdict),
}

impl FilterCheck {
    fn begin(table: &Table, parts: &TableParts) -> Result<Self, TableError> {
        let Some(handle) = parts.handles.filter else { return Ok(Self::Decided(FilterVerdict::None)) };
        let at = table.file.location(TablePart::Filter, handle.offset);
        parts.handles.check_filter_place(handle, parts.properties.data_bytes, &at)?;
        check_padding(&table.file, parts.properties.data_bytes, handle.offset)?;
        let contents = table.file.read_block(TablePart::Filter, handle, table.table_id())?;
        let block = match FilterBlock::open_unverified_with_kinds(contents, &table.reader().kinds) {
            Ok(block) => block,
            Err(
                error @ (BlockError::UnknownKind { .. } | BlockError::UnknownHash { .. } | BlockError::Version { .. }),
            ) => {
                return Ok(Self::not_probed(&error));
            }
            Err(source) => return Err(TableError::Filter { at, source }),
        };
        block.verify().map_err(|source| TableError::Filter { at, source })?;
        Ok(Self::match_reader(table, block))
    }

    /// Probes the filter only with what it was built from.
    fn match_reader(table: &Table, block: FilterBlock<Bytes>) -> Self {
        let (expected, got_hash) = (table.hash_identity(), block.hash_identity());
        if expected != got_hash {
            return Self::not_probed(&BlockError::HashMismatch { expected, got: got_hash });
        }
        if let Err(mismatch) = table.reader().check_extractor(table.properties()) {
            return Self::not_probed(&mismatch);
        }
        // With a public seed, equal identities are equal hashes: a missing key is then the filter's fault.
        let known = table.reader().known_keys(table.properties());
        if got_hash.id != HashId::Xxh3 && known.into_iter().any(|hash| !block.may_contain(hash)) {
            return Self::not_probed(&BlockError::KnownKeyAbsent { hash: got_hash });
        }
        Self::Probed { block: Box::new(block), keys: 0 }
    }

    fn probe(&mut self, table: &Table, key: &[u8]) -> Result<(), TableError> {
        let Self::Probed { block, keys } = self else { return Ok(()) };
        let Some(hash) = table.reader().hash_of(key) else { return Ok(()) };
        *keys += 1;
        if block.may_contain(hash) {
            return Ok(());
        }
        let offset = table.parts.handles.filter.map_or(0, |filter| filter.offset);
        Err(TableError::FalseNegative { at: table.file.location(TablePart::Filter, offset), key: key.to_vec() })
    }

    fn not_probed(reason: &BlockError) -> Self {
        Self::Decided(FilterVerdict::NotProbed { reason: reason.to_string() })
    }

    fn verdict(self) -> FilterVerdict {
        match self {
            Self::Probed { keys, .. } => FilterVerdict::ContainsAll { keys },
            Self::Decided(verdict) => verdict,
        }
    }
}

/// The bytes between data and filter are zero.
fn check_padding(file: &TableFile, start: u64, end: u64) -> Result<(), TableError> {
    let mut padding = [0; FILTER_ALIGNMENT];
    let length = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
    let at = file.location(TablePart::Padding, start);
    let Some(padding) = padding.get_mut(..length) else {
        return Err(TableError::corrupt(at, "less than 64 bytes", length));
    };
    file.read_into(padding, start)?;
    if padding.iter().any(|&byte| byte != 0) {
        return Err(TableError::corrupt(at, "zeros", format!("{padding:?}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sst::forge::forged;
    use crate::sst::{ReadOptions, TableBuilder, TableOptions};

    /// A table whose properties are those that `lie` makes of the true ones, under a checksum that holds.
    fn table_with(lie: impl FnOnce(&mut TableProperties)) -> Table {
        let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default()).unwrap();
        builder.add(b"b", b"1").unwrap();
        builder.delete(b"c").unwrap();
        builder.add(b"d", b"2").unwrap();
        let bytes = builder.finish().unwrap().0;
        let open = |bytes: &[u8]| Table::open_source(Bytes::copy_from_slice(bytes), &ReadOptions::default()).unwrap();
        let honest = open(&bytes);
        let mut properties = honest.properties().clone();
        lie(&mut properties);
        open(&forged(&bytes, honest.parts.handles.properties, properties.encode().seal()))
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
            |properties| properties.data_bytes -= 1,
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
        let table = table_with(|properties| properties.largest_key = Some(Bytes::from_static(b"e")));
        assert!(matches!(table.get(b"d"), Err(TableError::Corrupt { .. })));
    }
}
