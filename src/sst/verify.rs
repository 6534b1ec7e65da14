//! Reading all of a table and checking every claim in it.

use core::ops::Range;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::io::{TableFile, io_error};
use super::parts::TableParts;
use super::salvage::Salvage;
use super::source::{FilterBytes, find_sidecar};
use super::{Entry, Table, TableError, TableLocation, TablePart, TableProperties};
use crate::codec::LINE_BYTES;
use crate::error::BlockError;
use crate::filter::require;
use crate::panics::lock;
use crate::store::{FileFilters, FileProbe, FilterBudget, FilterPart, FilterProblem, FilterSource, sidecar_path};

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
    /// Partitions of both filters. All of them were checked.
    pub filter_partitions: u64,
    /// What the range filter was found to be.
    pub range_filter: FilterVerdict,
    /// What the filter of the sidecar beside the table was found to be.
    pub sidecar: FilterVerdict,
}

/// What came of probing a filter for every key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterVerdict {
    /// There is none.
    #[default]
    None,
    /// It contains every key that it was probed for.
    ContainsAll {
        /// Keys probed for, each for all of its parts: all but those outside the domains of all extractors.
        keys: u64,
    },
    /// Its checksums hold, but it could not be probed.
    NotProbed {
        /// Why not, in words.
        reason: String,
    },
    /// It is damaged, or lacks a key: the damage says which.
    Damaged,
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
        let own = FilterBytes::new(&self.file, parts.filters_at(), parts.properties.filters.clone());
        damage.extend(self.check_padding(&parts).err());
        let mut filters = vec![Verified::new(self, own, &mut damage)];
        match self.sidecar_now() {
            Some(Ok(bytes)) => filters.push(Verified::new(self, bytes, &mut damage)),
            Some(Err(problem)) => {
                let is_not_probed = matches!(&problem, TableError::Sidecar { source, .. } if source.is_unknown() || source.is_foreign());
                filters.push(Verified::refused(is_not_probed.then(|| problem.to_string())));
                if !is_not_probed {
                    damage.push(problem);
                }
            }
            None => {}
        }
        let mut counted = TableProperties {
            entries: 0,
            tombstones: 0,
            raw_key_bytes: 0,
            raw_value_bytes: 0,
            ..parts.properties.clone()
        };
        let (mut walk, mut is_whole) = (Salvage::new(self, index.as_ref()), index.is_some());
        for next in walk.by_ref() {
            match next {
                Ok(Entry { key, value }) => {
                    counted.count(&key, value.as_deref());
                    filters.iter_mut().for_each(|filters| filters.probe(&key, &mut damage));
                }
                Err(missing) => {
                    is_whole = false;
                    damage.push(missing.cause());
                }
            }
        }
        let opened = filters.iter().filter_map(|verified| verified.filters.as_ref()?.0.partitions());
        let filter_partitions = opened.map(|index| u64::from(index.partitions())).sum();
        filters.iter_mut().for_each(|verified| verified.end(&mut damage));
        if is_whole && counted != parts.properties {
            let at = self.file.location(TablePart::Properties, parts.handles.properties.offset);
            let expected = format!("the counts of the data, {}", counts(&counted));
            damage.push(TableError::corrupt(at, expected, counts(&parts.properties)));
        }
        let mut verdicts = filters.into_iter().map(|verified| verified.verdicts);
        let [filter, range_filter] = verdicts.next().unwrap_or_default();
        let [sidecar, _] = verdicts.next().unwrap_or_default();
        let report = VerifyReport {
            entries: counted.entries,
            tombstones: counted.tombstones,
            data_blocks: walk.blocks_read(),
            file_bytes: self.file.length,
            filter,
            filter_partitions,
            range_filter,
            sidecar,
        };
        (report, damage)
    }

    /// The parts of the table in `file`, which is expected to be this one.
    pub(super) fn check_parts_of(&self, file: &TableFile) -> Result<TableParts, TableError> {
        let parts = TableParts::read(file)?;
        if parts != self.parts {
            let at = file.location(TablePart::Footer, 0);
            let got = "another one: the file has been replaced";
            return Err(TableError::corrupt(at, "the table that was opened", got));
        }
        Ok(parts)
    }

    /// The sidecar that is beside the table now, if there was one when the table was opened.
    fn sidecar_now(&self) -> Option<Result<FilterBytes, TableError>> {
        if !self.uses_sidecar() && self.sidecar_problem().is_none() {
            return None;
        }
        let path = self.file.path()?;
        find_sidecar(path, &*self.files, &self.parts).or_else(|| {
            let vanished = || io_error("opening", Some(&sidecar_path(path)))(io::ErrorKind::NotFound.into());
            self.uses_sidecar().then(|| Err(vanished()))
        })
    }

    /// The bytes between data, filters and properties are zeros, and no more than they must be.
    fn check_padding(&self, parts: &TableParts) -> Result<(), TableError> {
        for (part, range) in self.layout().into_iter().filter(|(part, _)| *part == TablePart::Padding) {
            let (at, bytes) = (self.file.location(part, range.start), range.end - range.start);
            let mut zeros = [0; LINE_BYTES - 1];
            let zeros = usize::try_from(bytes).ok().and_then(|bytes| zeros.get_mut(..bytes));
            let zeros = zeros.ok_or_else(|| TableError::corrupt(at.clone(), "less than 64 bytes", bytes))?;
            self.file.read_into(zeros, range.start)?;
            if zeros.iter().any(|&byte| byte != 0) {
                return Err(TableError::corrupt(at, "zeros", format!("{zeros:?}")));
            }
        }
        let last = parts.properties.filters.sections().last();
        let expected = last.map(|last| parts.filters_at().saturating_add(last.offset + last.bytes));
        let got = parts.handles.properties.offset;
        match expected {
            Some(expected) if expected != got => {
                let at = self.file.location(TablePart::Filter, parts.filters_at());
                Err(TableError::corrupt(at, format!("filters up to offset {got}"), expected))
            }
            _ => Ok(()),
        }
    }
}

/// Reads filter bytes, and keeps why that failed.
struct CheckedBytes {
    bytes: FilterBytes,
    failures: Mutex<VecDeque<TableError>>,
}

impl FilterSource for CheckedBytes {
    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        self.bytes.read_range(range).map_err(|problem| {
            let text = problem.to_string();
            lock(&self.failures).push_back(problem);
            io::Error::other(text)
        })
    }
}

/// The filters of a table, or of its sidecar, every byte of which was checked.
struct Verified {
    /// Opened anew, so that nothing that was read before counts.
    filters: Option<(FileFilters, Arc<CheckedBytes>)>,
    /// Where the point filter and the range filter are.
    at: [Option<TableLocation>; 2],
    /// Of the point filter and of the range filter.
    verdicts: [FilterVerdict; 2],
}

impl Verified {
    /// A sidecar that is not opened: for this reason if it is not damaged.
    fn refused(reason: Option<String>) -> Self {
        let verdict = reason.map_or(FilterVerdict::Damaged, |reason| FilterVerdict::NotProbed { reason });
        Self { filters: None, at: [None, None], verdicts: [verdict, FilterVerdict::None] }
    }

    fn new(table: &Table, bytes: FilterBytes, damage: &mut Vec<TableError>) -> Self {
        let mut verified = Self { filters: None, at: [None, None], verdicts: Default::default() };
        let source = Arc::new(CheckedBytes { bytes, failures: Mutex::default() });
        let bytes = &source.bytes;
        let found = table.store.verify(&bytes.metadata, &*source);
        let filters = open_to_probe(table, &source);
        for section in bytes.metadata.sections() {
            let is_range = section.part == FilterPart::Ranges;
            let (at, before, mut unknown) = (bytes.location(section), damage.len(), None);
            for (offset, problem) in found.iter().filter(|(offset, _)| section.range().contains(offset)) {
                let is_index = section.index_bytes > 0 && section.index_range().contains(offset);
                let part = if is_index { TablePart::FilterIndex } else { at.part };
                match problem {
                    problem if problem.is_unknown() => unknown = Some(problem.clone()),
                    // A read that has failed is reported as it came.
                    FilterProblem::Unreadable { .. } => damage.extend(lock(&source.failures).pop_front()),
                    problem => {
                        let at = bytes.file.location(part, bytes.start.saturating_add(*offset));
                        damage.push(TableError::Filter { at, source: problem.clone() });
                    }
                }
            }
            let keys = filters.range_filter().filter(|_| is_range).map(|filter| filter.info().keys);
            let entries = table.parts.properties.entries;
            let counted =
                keys.map_or(Ok(()), |keys| require(keys == entries, "keys", "as many as the table has", keys));
            let of_reader = if is_range { filters.range_problem() } else { filters.point_problem() };
            let is_readers = |problem: &FilterProblem| {
                let is_part_unknown = matches!(problem, FilterProblem::Block(BlockError::PartNotHeld));
                is_part_unknown || problem.is_foreign() || problem.is_unknown()
            };
            let verdict = match unknown.or(of_reader).or(counted.err().map(FilterProblem::from)) {
                _ if damage.len() > before => FilterVerdict::Damaged,
                None => FilterVerdict::ContainsAll { keys: 0 },
                Some(problem) if is_readers(&problem) => FilterVerdict::NotProbed { reason: problem.to_string() },
                Some(FilterProblem::Unreadable { .. }) => FilterVerdict::Damaged,
                Some(problem) => {
                    damage.push(TableError::Filter { at: at.clone(), source: problem });
                    FilterVerdict::Damaged
                }
            };
            let place = usize::from(is_range);
            if let (Some(slot), Some(place)) = (verified.verdicts.get_mut(place), verified.at.get_mut(place)) {
                (*slot, *place) = (verdict, Some(at));
            }
        }
        verified.filters = Some((filters, source));
        verified
    }

    /// After the last key: a partition that could not be read again was not probed.
    fn end(&mut self, damage: &mut Vec<TableError>) {
        let failure = self.filters.take().and_then(|(_, source)| lock(&source.failures).pop_front());
        if let Some(failure) = failure {
            damage.push(failure);
            for verdict in self.verdicts.iter_mut().filter(|verdict| **verdict != FilterVerdict::None) {
                *verdict = FilterVerdict::Damaged;
            }
        }
    }

    /// Probes the filters for a key that the table has.
    fn probe(&mut self, key: &[u8], damage: &mut Vec<TableError>) {
        let Some((filters, _)) = &self.filters else { return };
        let probes = [
            |filters: &FileFilters, key: &[u8]| filters.probe(key),
            |filters: &FileFilters, key: &[u8]| filters.probe_range(key..=key),
        ];
        for ((probe, verdict), at) in probes.into_iter().zip(&mut self.verdicts).zip(&self.at) {
            let FilterVerdict::ContainsAll { keys } = verdict else { continue };
            match probe(filters, key) {
                FileProbe::MaybePresent => *keys += 1,
                FileProbe::Absent => {
                    *verdict = FilterVerdict::Damaged;
                    damage.extend(at.clone().map(|at| TableError::FalseNegative { at, key: key.to_vec() }));
                }
                _ => {}
            }
        }
    }
}

/// The filters to be probed for every key. What that finds out about the hasher holds for it alone.
fn open_to_probe(table: &Table, source: &Arc<CheckedBytes>) -> FileFilters {
    let metadata = source.bytes.metadata.clone();
    let store = table.store.clone().with_key_parts(table.store.key_parts().clone());
    let filters = store.with_budget(FilterBudget::unlimited()).open(metadata.clone(), source.clone());
    // Reads what must hold the known keys, and finds out whether it does.
    if let Some((smallest, _)) = metadata.key_bounds() {
        let _ = filters.probe(smallest);
        let _ = filters.probe_range(smallest..=smallest);
    }
    filters
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
    use crate::sst::properties::metadata_between;
    use crate::sst::{ReadOptions, TableBuilder, TableOptions};
    use crate::store::FilterMetadata;
    use crate::units::FalsePositiveRate;

    /// A table whose properties are those that `lie` makes of the true ones, under a checksum that holds.
    fn table_with(lie: impl FnOnce(&mut TableProperties)) -> Table {
        let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default()).unwrap();
        builder.add(b"b", b"1").unwrap();
        builder.delete(b"c").unwrap();
        builder.add(b"d", b"2").unwrap();
        let bytes = builder.finish_with(lie).unwrap().0;
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
        let options = TableOptions::default().without_filter().with_range_filter(policy);
        let mut builder = TableBuilder::new(Vec::new(), &options).unwrap();
        [b"b", b"c", b"d", b"f"].iter().for_each(|key| builder.add(*key, b"").unwrap());
        let context = BuildContext::new(&KeyHasher::default()).with_file_id(builder.filters.file_id());
        let mut other = options.store.builder(&context);
        keys.iter().for_each(|key| other.add_key(key));
        let own = std::mem::replace(&mut builder.filters, other).finish().seal().1;
        // The description is the table's own, but for the filter in it.
        let describe = |properties: &mut TableProperties| {
            let sections = properties.filters.sections.clone();
            properties.filters = FilterMetadata { sections, ..own }.into();
        };
        let bytes = builder.finish_with(describe).unwrap().0;
        Table::open_source(Bytes::from(bytes), &ReadOptions::default()).unwrap()
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
        assert!(finding.contains("as many as the table has"), "{finding}");

        let other = table_with_range_filter_of(&[b"a", b"c", b"d", b"f"]);
        assert!(other.range_filter_problem().is_some() && other.range(b"b"..=b"b").count() == 1);
        assert!(matches!(other.verify(), Err(TableError::Filter { .. })));
    }

    #[test]
    fn a_range_that_is_not_the_datas_own_is_an_error_of_the_read_that_meets_it() {
        for (smallest, largest) in [(b"a", b"d"), (b"c", b"d"), (b"b", b"e")] {
            let table = table_with(|properties| {
                Arc::make_mut(&mut properties.filters).bounds = metadata_between(smallest, largest).bounds;
            });
            assert!(matches!(table.get(b"d"), Err(TableError::Corrupt { .. })));
            assert!(matches!(table.verify(), Err(TableError::Corrupt { .. })));
        }
    }
}
