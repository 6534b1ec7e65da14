//! Merges maps without keys, and drops files from them.

use core::ops::Range;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use sstfilter::{FileId, HashIdentity, KeyHash};

use crate::encode::Packing;
use crate::error::MapError;
use crate::index::{Covered, CoveredFile, MapIndex};
use crate::list::ListIds;
use crate::map::FileMap;
use crate::options::MapOptions;
use crate::page::{Page, State};
use crate::pages::{Failure, PageReader, Reciprocal, list_of_field};
use crate::shape::{Place, Prefixes};
use crate::write::{EntrySource, MapReport, Missing, Plan};
use crate::writes::{WriteId, Writes, position_of, unite};

/// Merges maps into one: `(add | add_some)* finish`. No key is read. All are maps of files, or all are maps of writes.
///
/// The result has the bytes of a map that is built from the keys of the same files, with the same options and id, in
/// whatever order maps are merged. A file that several maps cover is in the result once. Writes that overlap become one
/// interval.
///
/// A merge reads each page once or a few times, one page at a time, and writes from the front to the end. It holds some
/// megabytes for each thread, and the tail of the result: its lists and outgrown pages. A damaged page never loses a
/// key: the pages of the result with its prefixes become *unknown*, and lookups that meet them find all covered files.
/// Build the map from keys then.
pub struct MapMerge<'a> {
    options: MapOptions,
    hash: Option<HashIdentity>,
    inputs: Vec<Input<'a>>,
    /// The files that are kept, by fingerprint.
    files: BTreeMap<u64, CoveredFile>,
    /// The writes that are kept.
    writes: Vec<Writes>,
    floor: WriteId,
}

/// Bytes of a range of a map.
type Read<'a> = Box<dyn Fn(Range<u64>) -> io::Result<Cow<'a, [u8]>> + Sync + 'a>;

/// A map that is read from front to end.
struct Input<'a> {
    index: MapIndex,
    read: Read<'a>,
    prefixes: Prefixes,
    /// For each local id, the id in the result, once all inputs are known; `None` if the file is dropped.
    ids: Vec<Option<u32>>,
    /// The parts of the tail that were read (the page, and whether it is the outgrown page), and how many bytes of the
    /// tail no part has.
    tail: Mutex<(HashSet<(u64, bool)>, u64)>,
}

impl<'a> MapMerge<'a> {
    /// Creates a merge of no maps. The maps must keep as many bits of a hash as `options`.
    #[must_use]
    pub fn new(options: MapOptions) -> Self {
        let (files, writes, floor) = (BTreeMap::new(), Vec::new(), WriteId::MIN);
        Self { options, hash: None, inputs: Vec::new(), files, writes, floor }
    }

    /// Makes one interval of neighbouring writes below `floor`: their entries of one key become one entry. Choose the
    /// first write of all files above the last level: only files of the last level then have entries of these writes.
    #[must_use]
    pub fn with_floor(self, floor: WriteId) -> Self {
        Self { floor, ..self }
    }

    /// Adds a map with all of its files. `read` returns the bytes of a range of the map, counted from its first.
    ///
    /// # Errors
    ///
    /// The map keeps another number of bits, was built with another hash, is the first of writes among maps of files or
    /// the other way round, or [contradicts](MapError::Contradiction) an earlier one about a file that both would keep.
    /// The merge is then as it was before.
    pub fn add(
        &mut self,
        index: MapIndex,
        read: impl Fn(Range<u64>) -> io::Result<Cow<'a, [u8]>> + Sync + 'a,
    ) -> Result<(), MapError> {
        self.add_some(index, read, |_| true)
    }

    /// Adds a map with those of its files for which `keep` returns true. The result then does not cover the others. The
    /// map is not read if no file is kept. Writes are all kept.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub fn add_some(
        &mut self,
        index: MapIndex,
        read: impl Fn(Range<u64>) -> io::Result<Cow<'a, [u8]>> + Sync + 'a,
        mut keep: impl FnMut(FileId) -> bool,
    ) -> Result<(), MapError> {
        let (expected, got) = (self.options.prefix_bits, index.prefix_bits());
        if expected != got {
            let got = format!("one that keeps {got}: build it again with {expected} bits");
            let expected = format!("one that keeps {expected} bits of a hash, as the merge does");
            return Err(MapError::mismatch("file map", expected, got));
        }
        let expected = *self.hash.get_or_insert(index.hash_identity());
        if expected != index.hash_identity() {
            return Err(sstfilter::BlockError::HashMismatch { expected, got: index.hash_identity() }.into());
        }
        let is_mixed = match &index.covered {
            Covered::Files(_) => !self.writes.is_empty(),
            Covered::Writes(_) => !self.files.is_empty(),
        };
        if is_mixed {
            return Err(MapError::MixedCoverage);
        }
        let ids: Vec<Option<u32>> = match &index.covered {
            Covered::Files(files) => files.iter().map(|covered| keep(covered.file).then_some(0)).collect(),
            Covered::Writes(writes) => vec![Some(0); writes.len()],
        };
        let kept_files = || index.files().iter().zip(&ids).filter(|(_, id)| id.is_some()).map(|(covered, _)| covered);
        let known = |covered: &&CoveredFile| self.files.contains_key(&covered.file.fingerprint());
        let contradiction = |covered: &CoveredFile| {
            let mut earlier = self.inputs.iter().filter(|input| input.keeps(covered.file));
            earlier.find_map(|earlier| index.contradiction(&earlier.index, covered.file))
        };
        if let Some(contradiction) = kept_files().filter(known).find_map(contradiction) {
            return Err(contradiction);
        }
        self.files.extend(kept_files().map(|covered| (covered.file.fingerprint(), *covered)));
        self.writes.extend(index.writes());
        if ids.iter().all(Option::is_none) {
            // Damage to it must not make pages of the result unknown.
            return Ok(());
        }
        self.inputs.push(Input::new(index, Box::new(read), ids));
        Ok(())
    }

    /// Adds a map in memory with those of its files for which `keep` returns true.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub fn add_loaded<D: AsRef<[u8]> + Sync>(
        &mut self,
        map: &'a FileMap<D>,
        keep: impl FnMut(FileId) -> bool,
    ) -> Result<(), MapError> {
        self.add_some(map.index().clone(), |range| map.read(range), keep)
    }

    /// Writes the result to `sink`. `map` is its id.
    ///
    /// # Errors
    ///
    /// Those of `sink` and of reading, and [`MapError`] if no file is left.
    pub fn finish(mut self, map: FileId, sink: &mut impl Write) -> io::Result<MapReport> {
        let hash = self.hash.unwrap_or_default();
        if self.writes.is_empty() {
            self.number_files();
            let entries = self.files.values().map(|covered| covered.entries).sum();
            let covered = Covered::Files(self.files.into_values().collect());
            let plan = Plan::new(&self.options, hash, map, covered, entries)?;
            return plan.write(&Inputs(self.inputs), sink);
        }
        let kept = self.writes.len();
        let writes = unite(core::mem::take(&mut self.writes), self.floor);
        self.number_writes(&writes);
        let has_repetitions = writes.len() < kept;
        let entries = self.inputs.iter().map(|input| input.index.entries()).sum();
        let (inputs, covered) = (Inputs(self.inputs), Covered::Writes(writes.into()));
        let mut plan = Plan::new(&self.options, hash, map, covered.clone(), entries)?;
        if has_repetitions {
            // The shape of a map depends on the number of its entries.
            let entries = plan.count(&inputs)?;
            plan = Plan::new(&self.options, hash, map, covered, entries)?;
        }
        plan.write(&inputs, sink)
    }

    fn number_files(&mut self) {
        let numbers: BTreeMap<u64, u32> = self.files.keys().copied().zip(0..).collect();
        for input in &mut self.inputs {
            for (covered, id) in input.index.files().iter().zip(&mut input.ids) {
                *id = id.and_then(|_| numbers.get(&covered.file.fingerprint()).copied());
            }
        }
    }

    fn number_writes(&mut self, united: &[Writes]) {
        for input in &mut self.inputs {
            let id = |writes: &Writes| u32::try_from(position_of(*writes, united)?).ok();
            input.ids = input.index.writes().iter().map(id).collect();
        }
    }
}

struct Inputs<'a>(Vec<Input<'a>>);

impl EntrySource for Inputs<'_> {
    fn runs(&self) -> usize {
        self.0.len()
    }

    fn append(
        &self,
        prefixes: Range<u64>,
        packing: &Packing,
        entries: &mut Vec<KeyHash>,
        ends: &mut Vec<usize>,
    ) -> io::Result<Missing> {
        let mut missing = Missing::default();
        for input in &self.0 {
            input.append(&prefixes, packing, entries, &mut missing)?;
            ends.push(entries.len());
        }
        Ok(missing)
    }
}

impl<'a> Input<'a> {
    fn new(index: MapIndex, read: Read<'a>, ids: Vec<Option<u32>>) -> Self {
        let (prefixes, tail) = (index.shape.prefixes(), Mutex::new((HashSet::new(), index.tail_bytes)));
        Self { index, read, prefixes, ids, tail }
    }

    fn keeps(&self, file: FileId) -> bool {
        self.index.local_id(file).is_some_and(|id| matches!(self.ids.get(id.index()), Some(Some(_))))
    }

    fn append(
        &self,
        prefixes: &Range<u64>,
        packing: &Packing,
        entries: &mut Vec<KeyHash>,
        missing: &mut Missing,
    ) -> io::Result<()> {
        let shape = &self.index.shape;
        let Some(last) = prefixes.end.checked_sub(1).filter(|last| *last >= prefixes.start) else { return Ok(()) };
        let max_entries = self.index.entries().saturating_add(entries.len() as u64);
        let [first, last] = [prefixes.start, last].map(|prefix| shape.place_of_prefix(prefix).page);
        for page in first..=last {
            let own = shape.first_prefix(page).max(prefixes.start)..shape.first_prefix(page + 1).min(prefixes.end);
            let before = entries.len();
            match self.append_page(page, (&own, packing), entries, missing) {
                // The lists of a forged page may have more ids than the map has entries.
                Ok(()) if entries.len() as u64 <= max_entries => {}
                Err(Failure::Read(error)) => return Err(error),
                Ok(()) | Err(Failure::Damaged(_)) => {
                    entries.truncate(before);
                    missing.unknown.push(own);
                }
            }
        }
        Ok(())
    }

    /// Appends the entries of a page. Fails if its entries are unknown, if it or a list is damaged, or if it is forged
    /// and would have more entries than its bytes.
    fn append_page(
        &self,
        number: u64,
        (prefixes, packing): (&Range<u64>, &Packing),
        entries: &mut Vec<KeyHash>,
        missing: &mut Missing,
    ) -> Result<(), Failure> {
        let shape = &self.index.shape;
        let mut pages = PageReader { index: &self.index, read: &self.read };
        let (open, _) = pages.open(number, |(_, bytes)| self.may_read_tail((number, true), bytes).then_some(()))?;
        let page = Page { bytes: &open.bytes, shape };
        let unusable = || MapError::Damaged { page: number, what: "its entries cannot be used" };
        let list_bytes = page.list_places().map(|list| u64::from(list.bytes)).sum();
        let may_read_lists = open.trailer.lists == 0 || self.may_read_tail((number, false), list_bytes);
        if open.trailer.state != State::Whole || !may_read_lists {
            return Err(unusable().into());
        }
        let [first, last] = [prefixes.start, prefixes.end - 1].map(|prefix| shape.place_of_prefix(prefix).line);
        let (divide, mut lists, mut next) = (Reciprocal::new(shape.radix()), page.list_places().peekable(), 0);
        for line in first..=last {
            if page.has_overflowed(line) {
                let own = shape.prefixes_of_line(number, line);
                let own = own.start.max(prefixes.start)..own.end.min(prefixes.end);
                missing.overflowed.extend(Some(own).filter(|own| !own.is_empty()));
                continue;
            }
            // Not the walk of a verification, which makes merges slower by a twentieth.
            let is_sound = page.for_each_entry(line, |quotient, field| {
                if field < next || field >= u64::from(open.trailer.fields) {
                    return Ok(false);
                }
                next = field + 1;
                let (low, id) = divide.by(page.field(field));
                let place = Place { page: number, line, quotient, low };
                let Some(prefix) = self.prefixes.of(place).filter(|prefix| prefixes.contains(prefix)) else {
                    return Ok::<_, Failure>(true);
                };
                if id < u64::from(shape.files) {
                    if let Some(&Some(id)) = self.ids.get(id as usize) {
                        entries.push(packing.pack(prefix, id));
                    }
                    return Ok(true);
                }
                let Some(list) = list_of_field(&mut lists, field) else { return Ok(false) };
                let ids = pages.list(number, list)?;
                let kept = ListIds::new(&ids).filter_map(|id| *self.ids.get(id as usize)?);
                entries.extend(kept.map(|id| packing.pack(prefix, id)));
                Ok(true)
            })?;
            if !is_sound {
                return Err(unusable().into());
            }
        }
        Ok(())
    }

    /// Returns whether a page may read `bytes` bytes of the tail, as lists or as the page that it has outgrown to. All
    /// pages together name each byte once. Threads read pages in any order, so that this order is not compared.
    fn may_read_tail(&self, part: (u64, bool), bytes: u64) -> bool {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let (parts, rest) = &mut *tail;
        // A page is read again if its prefixes are in several chunks.
        if parts.contains(&part) {
            return true;
        }
        let left = rest.checked_sub(bytes);
        if let Some(left) = left {
            *rest = left;
            parts.insert(part);
        }
        left.is_some()
    }
}
