//! Reading all of a table and checking every claim in it.

use bytes::Bytes;

use super::io::TableFile;
use super::table_parts::TableParts;
use super::verify_filter::VerifiedFilter;
use super::{Entry, FilterVerdict, Salvage, Table, TableError, TablePart, TableProperties};
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
    /// It compares every checksum, the zeros of the padding and between partitions, the order of all keys, the index
    /// and the properties with the data, and the filter with every key, as well as the range filter and that of a
    /// sidecar. Reads are counted like all others.
    ///
    /// # Errors
    ///
    /// The first damage that [`verify_all`](Self::verify_all) finds. A filter that is sound but cannot be probed
    /// (another hash or extractor, an unknown kind) is no error: the report says so.
    pub fn verify(&self) -> Result<VerifyReport, TableError> {
        let (report, damage) = self.verify_all();
        damage.into_iter().next().map_or(Ok(report), Err)
    }

    /// As [`verify`](Self::verify), but goes on past damage: what was verified, and all damage.
    ///
    /// Entries and data blocks are those that are sound: [`salvage`](Self::salvage) gives them. Of the keys that a
    /// filter lacks, the first is named.
    ///
    /// ```
    /// use sstfilter::sst::{ReadOptions, Table, TableBuilder, TableOptions};
    ///
    /// let options = TableOptions::default().with_block_bytes(64)?;
    /// let mut builder = TableBuilder::new(Vec::new(), &options)?;
    /// (0..1_000_u32).try_for_each(|key| builder.add(&key.to_be_bytes(), b"value"))?;
    /// let mut bytes = builder.finish()?.0;
    /// [2_000, 5_000, 8_000].into_iter().for_each(|at: usize| bytes[at] ^= 1);
    ///
    /// let table = Table::open_source(bytes::Bytes::from(bytes), &ReadOptions::default())?;
    /// let (report, damage) = table.verify_all();
    /// assert!(report.entries > 970 && damage.len() == 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn verify_all(&self) -> (VerifyReport, Vec<TableError>) {
        let mut damage = Vec::new();
        let parts = self.check_parts_of(&self.file).unwrap_or_else(|problem| {
            damage.push(problem);
            self.parts.clone()
        });
        let index = self.read_index().map_err(|problem| damage.push(problem)).ok();
        let before_filter = damage.len();
        let filter = self.verified_filter(&parts, &mut damage);
        let is_filter_sound = damage.len() == before_filter;
        let sidecar = or_damaged(self.verified_sidecar(), &mut damage);
        let filter_partitions = filter.iter().chain(&sidecar).map(|verified| verified.filter.partitions()).sum();
        let range_filter = or_damaged(self.verified_range_filter(&parts), &mut damage);
        let counted = TableProperties {
            entries: 0,
            tombstones: 0,
            raw_key_bytes: 0,
            raw_value_bytes: 0,
            ..parts.properties.clone()
        };
        let filters = [filter, sidecar].map(|filter| filter.map(Compared::new));
        let range_filter = range_filter.map(Compared::new);
        let mut walk = Walk { table: self, filters, range_filter, counted, damage, is_whole: index.is_some() };
        let data_blocks = walk.run(Salvage::new(self, index.as_ref()));
        let Walk { filters: [filter, sidecar], range_filter, counted, mut damage, is_whole, .. } = walk;
        if is_whole && counted != parts.properties {
            let at = self.file.location(TablePart::Properties, parts.handles.properties.offset);
            let expected = format!("the counts of the data, {}", counts(&counted));
            damage.push(TableError::corrupt(at, expected, counts(&parts.properties)));
        }
        let report = VerifyReport {
            entries: counted.entries,
            tombstones: counted.tombstones,
            data_blocks,
            file_bytes: self.file.length,
            filter: if is_filter_sound { verdict(filter) } else { FilterVerdict::Damaged },
            filter_partitions,
            range_filter: verdict(range_filter),
            sidecar: verdict(sidecar),
        };
        (report, damage)
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
}

/// A filter that is compared with all keys.
struct Compared<F> {
    filter: F,
    /// Keys that it was probed for.
    keys: u64,
    lacks_key: bool,
}

impl<F> Compared<F> {
    const fn new(filter: F) -> Self {
        Self { filter, keys: 0, lacks_key: false }
    }

    /// Counts a key; the first that the filter lacks is damage.
    fn count(&mut self, contains: bool, damage: &mut Vec<TableError>, finding: impl FnOnce(&F) -> TableError) {
        self.keys += 1;
        if !contains && !self.lacks_key {
            self.lacks_key = true;
            damage.push(finding(&self.filter));
        }
    }
}

fn verdict<F>(found: Result<Compared<F>, FilterVerdict>) -> FilterVerdict {
    match found {
        Ok(Compared { lacks_key: true, .. }) => FilterVerdict::Damaged,
        Ok(Compared { keys, .. }) => FilterVerdict::ContainsAll { keys },
        Err(verdict) => verdict,
    }
}

/// What was found, or else that it is damaged.
fn or_damaged<T>(
    found: Result<Result<T, FilterVerdict>, TableError>,
    damage: &mut Vec<TableError>,
) -> Result<T, FilterVerdict> {
    found.unwrap_or_else(|problem| {
        damage.push(problem);
        Err(FilterVerdict::Damaged)
    })
}

/// A walk over all entries that are left, which are counted and compared with the filters.
struct Walk<'a> {
    table: &'a Table,
    /// The table's own, and the sidecar's.
    filters: [Result<Compared<VerifiedFilter>, FilterVerdict>; 2],
    range_filter: Result<Compared<RangeFilter<Bytes>>, FilterVerdict>,
    counted: TableProperties,
    damage: Vec<TableError>,
    /// No entry is missing so far.
    is_whole: bool,
}

impl Walk<'_> {
    /// The number of data blocks that were read.
    fn run(&mut self, mut entries: Salvage<'_>) -> u64 {
        for next in entries.by_ref() {
            match next {
                Ok(Entry { key, value }) => {
                    self.counted.count(&key, value.as_deref());
                    self.compare(&key);
                }
                Err(missing) => {
                    self.is_whole = false;
                    self.damage.push(missing.problem);
                }
            }
        }
        entries.blocks_read()
    }

    fn compare(&mut self, key: &[u8]) {
        let Self { table, filters, range_filter, damage, .. } = self;
        let finding = |at| TableError::FalseNegative { at, key: key.to_vec() };
        if let Ok(compared) = range_filter {
            let contains = compared.filter.may_hold(key..=key);
            compared.count(contains, damage, |_| {
                let offset = table.properties().range_handle().map_or(0, |handle| handle.offset);
                finding(table.file.location(TablePart::RangeFilter, offset))
            });
        }
        for compared in filters.iter_mut().flatten() {
            let filter = &compared.filter;
            let mut hashes = table.reader.key_hashes(filter.shared, key).peekable();
            if hashes.peek().is_some() {
                let contains = hashes.all(|hash| filter.may_contain(key, hash));
                compared.count(contains, damage, |filter| finding(filter.at.clone()));
            }
        }
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
