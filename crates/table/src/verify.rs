//! Reads a whole table and checks every claim in it.

use core::ops::Range;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use sstfilter::{BlockError, Probe};
use sstfilter_store::{FileFilters, FilterBudget, FilterProblem, FilterSource, sidecar_path};

use super::format::FILTER_ALIGNMENT;
use super::io::{TableFile, io_error};
use super::parts::{FilterBytes, TableParts, find_sidecar, part_of};
use super::{Entry, Table, TableError, TableLocation, TablePart, TableProperties};

/// The contents of a verified table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Number of entries walked, including tombstones.
    pub entries: u64,
    /// Number of tombstones among them.
    pub tombstones: u64,
    /// Number of data blocks read.
    pub data_blocks: u64,
    /// Bytes of the whole table, all of them checked.
    pub file_bytes: u64,
    /// Verdict on the table's own point filter.
    pub filter: FilterVerdict,
    /// Number of partitions, all checked, of the table's and the sidecar's filter.
    pub filter_partitions: u64,
    /// Verdict on the range filter.
    pub range_filter: FilterVerdict,
    /// Verdict on the sidecar's filter.
    pub sidecar: FilterVerdict,
}

/// The result of probing a filter for every key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterVerdict {
    /// There is no filter.
    #[default]
    None,
    /// The filter contains every key that it was probed for.
    ContainsAll {
        /// Number of keys probed, each with all of its parts. Keys outside the domains of all extractors are not
        /// probed.
        keys: u64,
    },
    /// The filter's checksums match, but it could not be probed.
    NotProbed {
        /// The reason, in words.
        reason: String,
    },
    /// The filter is damaged or has a false negative; the list of damage says which.
    Damaged,
}

impl FilterVerdict {
    /// Returns the verdict on a filter that is not used. A kind, hash or extractor that the reader does not know is not
    /// damage.
    fn of_unused(problem: TableError, damage: &mut Vec<TableError>) -> Self {
        let is_readers = |source: &FilterProblem| {
            let is_part_unknown = matches!(source, FilterProblem::Block(BlockError::PartNotHeld));
            is_part_unknown || source.is_foreign() || source.is_unknown()
        };
        match problem {
            TableError::Filter { source, .. } if is_readers(&source) => Self::NotProbed { reason: source.to_string() },
            problem => {
                damage.push(problem);
                Self::Damaged
            }
        }
    }
}

impl Table {
    /// Reads the whole table again, and checks its descriptions against its contents.
    ///
    /// Checks every checksum, the zeros in the padding and between partitions, the order of all keys, and the index and
    /// the properties against the data. Probes the point filter, the range filter and a sidecar's filters for every
    /// key. Reads are counted like all others.
    ///
    /// # Errors
    ///
    /// The first damage that [`verify_all`](Self::verify_all) finds. A sound filter that cannot be probed (another hash
    /// or extractor, an unknown kind) is not an error, but is reported.
    pub fn verify(&self) -> Result<VerifyReport, TableError> {
        let (report, damage) = self.verify_all();
        damage.into_iter().next().map_or(Ok(report), Err)
    }

    /// Like [`verify`](Self::verify), but continues past damage. Returns the report and all damage.
    ///
    /// The report counts sound entries and data blocks, which [`salvage`](Self::salvage) returns. For each filter, only
    /// the first false negative is listed.
    ///
    /// ```
    /// use sstfilter_table::{Table, TableBuilder, TableOptions};
    ///
    /// let options = TableOptions::default().with_block_bytes(64)?;
    /// let mut builder = TableBuilder::new(Vec::new(), &options)?;
    /// (0..1_000_u32).try_for_each(|key| builder.add(&key.to_be_bytes(), b"value"))?;
    /// let mut bytes = builder.finish()?.0;
    /// [2_000, 5_000, 8_000].into_iter().for_each(|at: usize| bytes[at] ^= 1);
    ///
    /// let table = Table::open_source(bytes::Bytes::from(bytes), &TableOptions::default())?;
    /// let (report, damage) = table.verify_all();
    /// assert!(report.entries > 970 && damage.len() == 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn verify_all(&self) -> (VerifyReport, Vec<TableError>) {
        let mut damage = Vec::new();
        // Read again, because the file may have changed since the table was opened.
        damage.extend(self.check_parts_of(&self.file).err());
        let parts = &self.parts;
        // Read again, although it may be in memory: the file is verified, not the copy.
        let index = self.read_index().map_err(|problem| damage.push(problem)).ok();
        damage.extend(self.check_padding(parts).err());
        let mut filters = vec![Verified::new(self, parts.filter_bytes(&self.file), &mut damage)];
        let mut sidecar = FilterVerdict::None;
        match self.sidecar_now() {
            Some(Ok(bytes)) => filters.push(Verified::new(self, bytes, &mut damage)),
            Some(Err(problem)) => sidecar = FilterVerdict::of_unused(problem, &mut damage),
            None => {}
        }
        let mut counted = parts.properties.clone();
        // The other properties are checked against the index, or are informative.
        (counted.entries, counted.tombstones, counted.raw_key_bytes, counted.raw_value_bytes) = (0, 0, 0, 0);
        let (mut walk, mut is_whole) = (self.iter_by(index.as_ref()), index.is_some());
        while let Some(next) = walk.step().transpose() {
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
        filters.iter_mut().for_each(|filters| filters.end(&mut damage));
        // Counts of a damaged table cannot match, and their mismatch would be no finding of its own.
        if is_whole && counted != parts.properties {
            let at = self.file.location(TablePart::Properties, parts.handles.properties.offset);
            let expected = format!("the counts of the data, {}", counts(&counted));
            damage.push(TableError::corrupt(at, expected, counts(&parts.properties)));
        }
        let partitions = filters.iter().filter_map(|verified| verified.filters.partitions());
        let verdict = |file, part| filters.get(file).and_then(|verified: &Verified| verified.verdict_of(part));
        let report = VerifyReport {
            entries: counted.entries,
            tombstones: counted.tombstones,
            data_blocks: walk.blocks_read,
            file_bytes: self.file.length,
            filter: verdict(0, TablePart::Filter).unwrap_or_default(),
            filter_partitions: partitions.map(|index| u64::from(index.partitions())).sum(),
            range_filter: verdict(0, TablePart::RangeFilter).unwrap_or_default(),
            sidecar: verdict(1, TablePart::Filter).unwrap_or(sidecar),
        };
        (report, damage)
    }

    /// Returns an error unless the table in `file` is this one.
    pub(super) fn check_parts_of(&self, file: &TableFile) -> Result<(), TableError> {
        if TableParts::read(file)? == self.parts {
            return Ok(());
        }
        let (at, got) = (file.location(TablePart::Footer, 0), "another one: the file has been replaced");
        Err(TableError::corrupt(at, "the table that was opened", got))
    }

    /// Returns the current sidecar, if there was one when the table was opened.
    fn sidecar_now(&self) -> Option<Result<FilterBytes, TableError>> {
        let path = self.file.path.as_deref().filter(|_| self.uses_sidecar() || self.sidecar_problem().is_some())?;
        let vanished = || io_error("opening", Some(&sidecar_path(path)))(io::ErrorKind::NotFound.into());
        let found = find_sidecar(path, &*self.files, &self.parts);
        // A missing sidecar is damage only if its filters are in use.
        found.or_else(|| self.uses_sidecar().then(|| Err(vanished())))
    }

    /// Checks that the bytes between data, filters and properties are zeros, and no more than alignment needs.
    fn check_padding(&self, parts: &TableParts) -> Result<(), TableError> {
        for (part, range) in self.layout().into_iter().filter(|(part, _)| *part == TablePart::Padding) {
            let (at, bytes) = (self.file.location(part, range.start), range.end - range.start);
            let mut zeros = [0; FILTER_ALIGNMENT - 1];
            let zeros = usize::try_from(bytes).ok().and_then(|bytes| zeros.get_mut(..bytes));
            let zeros = zeros.ok_or_else(|| TableError::corrupt(at.clone(), "less than 64 bytes", bytes))?;
            self.file.read_into(zeros, range.start)?;
            if let Some(byte) = zeros.iter().find(|&&byte| byte != 0) {
                return Err(TableError::corrupt(at, "zeros", format!("{byte:#04x}")));
            }
        }
        let Some(last) = parts.properties.filters.sections().last() else { return Ok(()) };
        let (end, expected) = (parts.filters_at().saturating_add(last.range().end), parts.handles.properties.offset);
        if end == expected {
            return Ok(());
        }
        let at = self.file.location(TablePart::Filter, parts.filters_at());
        Err(TableError::corrupt(at, format!("filters up to offset {expected}"), end))
    }
}

/// Reads filter bytes, and records failures.
struct CheckedBytes {
    bytes: FilterBytes,
    failures: Mutex<VecDeque<TableError>>,
}

impl FilterSource for CheckedBytes {
    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        self.bytes.read_range(range).map_err(|problem| {
            let text = problem.to_string();
            self.failures.lock().push_back(problem);
            io::Error::other(text)
        })
    }
}

/// The filters of a table or of its sidecar, with every byte checked.
struct Verified {
    /// Opened again, so that nothing read earlier counts.
    filters: FileFilters,
    source: Arc<CheckedBytes>,
    /// The location of each filter, and the verdict on it.
    verdicts: Vec<(TableLocation, FilterVerdict)>,
}

impl Verified {
    fn new(table: &Table, bytes: FilterBytes, damage: &mut Vec<TableError>) -> Self {
        let source = Arc::new(CheckedBytes { bytes, failures: Mutex::default() });
        let metadata = &source.bytes.metadata;
        let found = table.store.verify(metadata, &*source);
        // A separate store, so that what the probes reveal about the hasher does not affect the table's store.
        let store = table.store.clone().with_filters(table.store.filters().clone());
        let filters = store.with_budget(FilterBudget::unlimited()).open(metadata.clone(), source.clone());
        // Reads the filters for the known keys, and reveals whether they contain them.
        if let Some((smallest, _)) = metadata.key_bounds() {
            let _ = (filters.probe(smallest), filters.probe_range(smallest..=smallest));
        }
        let mut verified = Self { filters, source: source.clone(), verdicts: Vec::new() };
        for section in metadata.sections() {
            let part = part_of(section.part);
            let (at, before) = (source.bytes.location(part, section.offset), damage.len());
            let mut unused = verified.unused(part, table.properties().entries);
            for (offset, problem) in found.iter().filter(|(offset, _)| section.range().contains(offset)) {
                let part = if section.index_range().contains(offset) { TablePart::FilterIndex } else { part };
                match problem.clone() {
                    // A failed read is reported with its original error.
                    FilterProblem::Unreadable { .. } => damage.extend(source.failures.lock().pop_front()),
                    problem if problem.is_unknown() => unused = Some(problem),
                    problem => {
                        let at = source.bytes.location(part, *offset);
                        damage.push(TableError::Filter { at, source: problem });
                    }
                }
            }
            let verdict = match unused {
                // The failed second read is reported at the end.
                Some(problem) if is_unreadable(&problem) => FilterVerdict::Damaged,
                _ if damage.len() > before => FilterVerdict::Damaged,
                Some(source) => FilterVerdict::of_unused(TableError::Filter { at: at.clone(), source }, damage),
                None => FilterVerdict::ContainsAll { keys: 0 },
            };
            verified.verdicts.push((at, verdict));
        }
        if found.iter().any(|(_, problem)| is_unreadable(problem)) {
            // Failed second reads were already reported.
            source.failures.lock().clear();
        }
        verified
    }

    /// Returns why a filter with matching checksums is not used, or was not built from the table's keys.
    fn unused(&self, part: TablePart, entries: u64) -> Option<FilterProblem> {
        if part == TablePart::Filter {
            return self.filters.point_problem();
        }
        let miscounted = self.filters.range_filter().and_then(|filter| {
            let keys = filter.info().keys;
            let (field, expected) = ("keys", "as many as the table has");
            (keys != entries).then_some(BlockError::Field { field, expected, got: keys })
        });
        self.filters.range_problem().or(miscounted.map(FilterProblem::from))
    }

    /// Probes the filters for a key of the table.
    fn probe(&mut self, key: &[u8], damage: &mut Vec<TableError>) {
        for (at, verdict) in &mut self.verdicts {
            let FilterVerdict::ContainsAll { keys } = verdict else { continue };
            let is_of_ranges = at.part == TablePart::RangeFilter;
            match if is_of_ranges { self.filters.probe_range(key..=key) } else { self.filters.probe(key) } {
                Probe::MaybePresent => *keys += 1,
                Probe::Absent => {
                    *verdict = FilterVerdict::Damaged;
                    damage.push(TableError::FalseNegative { at: at.clone(), key: key.to_vec() });
                }
                _ => {}
            }
        }
    }

    /// Called after the last key. A partition that could not be read again was not probed for all of its keys.
    fn end(&mut self, damage: &mut Vec<TableError>) {
        if let Some(failure) = self.source.failures.lock().pop_front() {
            damage.push(failure);
            let is_sound = self.filters.range_problem().is_none_or(|problem| !is_unreadable(&problem));
            for (at, verdict) in &mut self.verdicts {
                if at.part != TablePart::RangeFilter || !is_sound {
                    *verdict = FilterVerdict::Damaged;
                }
            }
        }
    }

    fn verdict_of(&self, part: TablePart) -> Option<FilterVerdict> {
        self.verdicts.iter().find_map(|(at, verdict)| (at.part == part).then(|| verdict.clone()))
    }
}

const fn is_unreadable(problem: &FilterProblem) -> bool {
    matches!(problem, FilterProblem::Unreadable { .. })
}

fn counts(properties: &TableProperties) -> String {
    let TableProperties { entries, tombstones, raw_key_bytes, raw_value_bytes, .. } = properties;
    format!("{entries} entries, {tombstones} tombstones, {raw_key_bytes} key bytes, {raw_value_bytes} value bytes")
}

#[cfg(test)]
mod tests {
    use sstfilter::FalsePositiveRate;
    use sstfilter_range::RangePolicy;
    use sstfilter_store::FilterMetadata;

    use super::*;
    use crate::properties::{sections_of, with_sections};
    use crate::{TableBuilder, TableOptions};
    use sstfilter::RandomAccess;

    /// A table whose properties are changed by `lie`, under a valid checksum.
    fn table_with(lie: impl FnOnce(&mut TableProperties)) -> Table {
        let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default()).unwrap();
        builder.add(b"b", b"1").unwrap();
        builder.delete(b"c").unwrap();
        builder.add(b"d", b"2").unwrap();
        let bytes = builder.finish_with(lie).unwrap().0;
        Table::open_source(Bytes::from(bytes), &TableOptions::default()).unwrap()
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

    /// A table of the keys b to f whose range filter was built from `keys`, under valid checksums.
    fn table_with_range_filter_of(keys: &[&[u8]]) -> Table {
        let policy = RangePolicy::ordered(FalsePositiveRate::new(1e-6).unwrap()).unwrap();
        let options = TableOptions::default().without_filter().with_range_filter(policy);
        let mut builder = TableBuilder::new(Vec::new(), &options).unwrap();
        [b"b", b"c", b"d", b"f"].iter().for_each(|key| builder.add(*key, b"").unwrap());
        let mut other = options.store.builder(builder.filters.file_id());
        keys.iter().for_each(|key| other.add_key(key));
        let own = std::mem::replace(&mut builder.filters, other).finish().seal().1;
        // Only the filter in the description is another.
        let describe = |properties: &mut TableProperties| {
            properties.filters = with_sections(&own, &sections_of(&properties.filters)).into();
        };
        let bytes = builder.finish_with(describe).unwrap().0;
        Table::open_source(Bytes::from(bytes), &TableOptions::default()).unwrap()
    }

    /// A table in memory, some bytes of which cannot be read.
    #[derive(Debug)]
    struct Failing {
        bytes: Bytes,
        lost: Arc<Mutex<Range<u64>>>,
    }

    impl RandomAccess for Failing {
        fn len(&self) -> io::Result<u64> {
            RandomAccess::len(&self.bytes)
        }

        fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
            let lost = self.lost.lock().clone();
            if offset < lost.end && offset + buf.len() as u64 > lost.start {
                return Err(io::Error::other("a bad sector"));
            }
            self.bytes.read_exact_at(buf, offset)
        }
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_reported_once_and_alone() {
        let policy = RangePolicy::ordered(FalsePositiveRate::ONE_PERCENT).unwrap();
        let options = TableOptions::default().with_range_filter(policy).with_filter_budget(FilterBudget::unlimited());
        let mut builder = TableBuilder::new(Vec::new(), &options).unwrap();
        (0..3_000).for_each(|key| builder.add(format!("{key:05}").as_bytes(), b"").unwrap());
        let (bytes, lost) = (Bytes::from(builder.finish().unwrap().0), Arc::new(Mutex::new(0..0)));
        let table = Table::open_source(Failing { bytes, lost: lost.clone() }, &options).unwrap();
        for part in [TablePart::Filter, TablePart::RangeFilter] {
            *lost.lock() = table.region(part).unwrap();
            let (report, damage) = table.verify_all();
            assert!(matches!(damage[..], [TableError::Io { .. }]), "{damage:?}");
            let all = FilterVerdict::ContainsAll { keys: 3_000 };
            let verdicts = [(TablePart::Filter, report.filter), (TablePart::RangeFilter, report.range_filter)];
            for (of, verdict) in verdicts {
                assert_eq!(
                    verdict,
                    if of == part { FilterVerdict::Damaged } else { all.clone() },
                    "{of} without {part}"
                );
            }
        }
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
        for (smallest, largest) in [(b'a', b'd'), (b'c', b'd'), (b'b', b'e')] {
            let table = table_with(|properties| {
                // A description ends with keys of one byte, each after its length.
                let mut bytes = properties.filters.encode_covered();
                let keys = bytes.len() - 2 * (2 + usize::from(bytes[28]));
                (bytes[keys + 1], bytes[keys + 3]) = (smallest, largest);
                properties.filters = FilterMetadata::decode_covered(&bytes).unwrap().into();
            });
            assert!(matches!(table.get(b"d"), Err(TableError::Corrupt { .. })));
            assert!(matches!(table.verify(), Err(TableError::Corrupt { .. })));
        }
    }
}
