//! Reading all of a table and checking every claim in it.

use bytes::Bytes;

use super::io::TableFile;
use super::table_parts::TableParts;
use super::verify_filter::VerifiedFilter;
use super::{Entry, FilterVerdict, Table, TableError, TablePart, TableProperties};
use crate::range::RangeFilter;

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
    /// What the table's own filter was found to be.
    pub filter: FilterVerdict,
    /// Partitions of both filters, as far as these have partitions and could be probed. All of them were checked.
    pub filter_partitions: u64,
    /// What the range filter was found to be.
    pub range_filter: FilterVerdict,
    /// What the sidecar was found to be that was there when the table was opened.
    pub sidecar: FilterVerdict,
}

impl Table {
    /// Reads all of the table once more and checks all that it says against all that it holds.
    ///
    /// It compares every checksum, the zeros of the padding and between partitions, the order of all keys, the index and the properties with
    /// the data, and the filter with every key, as well as the range filter and that of a sidecar. Reads are counted like all others.
    ///
    /// # Errors
    ///
    /// The first damage found, that of the filter and the sidecar included. A filter that is sound but cannot be probed
    /// (another hash or extractor, an unknown kind) is no error: the report says so.
    pub fn verify(&self) -> Result<VerifyReport, TableError> {
        let parts = self.check_parts_of(&self.file)?;
        self.read_index()?;
        let mut filters = Vec::new();
        let filter = self.verified_filter(&parts)?.map(|filter| filters.push(filter));
        let sidecar = self.verified_sidecar()?.map(|sidecar| filters.push(sidecar));
        let filter_partitions = filters.iter().map(|verified| verified.filter.partitions()).sum();
        let range_filter = self.verified_range_filter(&parts)?;
        let (counted, keys) = self.walk(&filters, range_filter.as_ref().ok())?;
        let mut keys = keys.into_iter();
        let mut verdict = |found: Result<(), FilterVerdict>| match found {
            Ok(()) => FilterVerdict::ContainsAll { keys: keys.next().unwrap_or(0) },
            Err(verdict) => verdict,
        };
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
            filter: verdict(filter),
            filter_partitions,
            range_filter: match range_filter {
                Ok(_) => FilterVerdict::ContainsAll { keys: counted.entries },
                Err(verdict) => verdict,
            },
            sidecar: verdict(sidecar),
        })
    }

    /// The parts of the table in `file`, which is expected to be this one.
    pub(crate) fn check_parts_of(&self, file: &TableFile) -> Result<TableParts, TableError> {
        let parts = TableParts::read(file)?;
        if parts != self.parts {
            let at = file.location(TablePart::Footer, 0);
            let got = "another one: the file has been replaced";
            return Err(TableError::corrupt(at, "the table that was opened", got));
        }
        Ok(parts)
    }

    /// The properties with the counts of the data, and the number of keys that each of `filters` was probed for.
    fn walk(
        &self,
        filters: &[VerifiedFilter],
        range_filter: Option<&RangeFilter<Bytes>>,
    ) -> Result<(TableProperties, Vec<u64>), TableError> {
        let mut counted = TableProperties {
            entries: 0,
            tombstones: 0,
            raw_key_bytes: 0,
            raw_value_bytes: 0,
            ..self.properties().clone()
        };
        let mut keys = vec![0; filters.len()];
        for entry in self {
            let Entry { key, value } = entry?;
            counted.count(&key, value.as_deref());
            if range_filter.is_some_and(|filter| !filter.may_hold(&key..=&key)) {
                let offset = self.properties().range_handle().map_or(0, |handle| handle.offset);
                let at = self.file.location(TablePart::RangeFilter, offset);
                return Err(TableError::FalseNegative { at, key: key.to_vec() });
            }
            for (filter, keys) in filters.iter().zip(&mut keys) {
                let mut hashes = self.reader.key_hashes(filter.shared, &key).peekable();
                *keys += u64::from(hashes.peek().is_some());
                if !hashes.all(|hash| filter.may_contain(&key, hash)) {
                    return Err(TableError::FalseNegative { at: filter.at.clone(), key: key.to_vec() });
                }
            }
        }
        Ok((counted, keys))
    }
}

fn counts(properties: &TableProperties) -> String {
    let TableProperties { entries, tombstones, raw_key_bytes, raw_value_bytes, .. } = properties;
    format!("{entries} entries, {tombstones} tombstones, {raw_key_bytes} key bytes, {raw_value_bytes} value bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHasher;
    use crate::policy::BuildContext;
    use crate::range::RangePolicy;
    use crate::sst::{ReadOptions, TableBuilder, TableOptions};
    use crate::units::FalsePositiveRate;

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

    /// A table of the keys b to f whose range filter, under a checksum that holds, is that of `keys`.
    fn table_with_range_filter_of(keys: &[&[u8]]) -> Table {
        let policy = RangePolicy::ordered(FalsePositiveRate::new(1e-6).unwrap()).unwrap();
        let mut other = policy.builder(&BuildContext::new(&KeyHasher::default()));
        keys.iter().for_each(|key| other.add_key(key));
        let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default().with_range_filter(policy)).unwrap();
        [b"b", b"c", b"d", b"f"].iter().for_each(|key| builder.add(*key, b"").unwrap());
        builder.range_filter = Some(Box::new(other));
        Table::open_source(Bytes::from(builder.finish().unwrap().0), &ReadOptions::default()).unwrap()
    }

    #[test]
    fn a_range_filter_that_lacks_a_key_or_has_one_more_is_a_finding() {
        let sound = table_with_range_filter_of(&[b"b", b"c", b"d", b"f"]);
        assert_eq!(sound.verify().unwrap().range_filter, FilterVerdict::ContainsAll { keys: 4 });

        let lacking = table_with_range_filter_of(&[b"b", b"c", b"e", b"f"]);
        let finding = lacking.verify().unwrap_err();
        assert!(matches!(&finding, TableError::FalseNegative { key, .. } if key == b"d"), "{finding}");
        assert!(finding.to_string().contains("range-filter at offset"), "{finding}");

        let more = table_with_range_filter_of(&[b"b", b"c", b"d", b"e", b"f"]);
        let finding = more.verify().unwrap_err().to_string();
        assert!(finding.contains("expected the 4 keys of the table, got 5"), "{finding}");

        // Not the smallest key: found when the table is opened.
        let other = table_with_range_filter_of(&[b"a", b"c", b"d", b"f"]);
        assert!(other.range_filter_problem().is_some() && other.range(b"b"..=b"b").count() == 1);
        assert!(matches!(other.verify(), Err(TableError::FalseNegative { .. })));
    }

    #[test]
    fn a_range_that_is_not_the_datas_own_is_an_error_of_the_read_that_meets_it() {
        for key in [b"a", b"c"] {
            let table = table_with(|properties| properties.smallest_key = Some(Box::from(&key[..])));
            assert!(matches!(table.get(b"d"), Err(TableError::Corrupt { .. })));
            assert!(matches!(table.verify(), Err(TableError::Corrupt { .. })));
        }
        let mut table = table_with(|_| ());
        table.parts.properties.largest_key = Some(Box::from(&b"e"[..]));
        assert!(matches!(table.get(b"d"), Err(TableError::Corrupt { .. })));
    }
}
