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
use crate::list::{ListIds, checked_list};
use crate::map::FileMap;
use crate::options::MapOptions;
use crate::page::{ListPlace, Page, PageTrailer, State};
use crate::shape::{Place, Prefixes};
use crate::slice::Slice;
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

pub(crate) type Read<'a> = Box<dyn Fn(Range<u64>) -> io::Result<Cow<'a, [u8]>> + Sync + 'a>;

struct Input<'a> {
    index: MapIndex,
    read: Read<'a>,
    prefixes: Prefixes,
    /// For each local id, whether the file is kept.
    kept: Vec<bool>,
    /// For each local id, the id in the result.
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
            return Err(MapError::PrefixBits { expected, got });
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
        let kept = match &index.covered {
            Covered::Files(files) => files.iter().map(|covered| keep(covered.file)).collect(),
            Covered::Writes(writes) => vec![true; writes.len()],
        };
        let kept_files =
            || index.files().iter().zip(&kept).filter(|(_, is_kept)| **is_kept).map(|(covered, _)| covered);
        let mut known = kept_files().filter(|covered| self.files.contains_key(&covered.file.fingerprint()));
        let earlier = |file| self.inputs.iter().filter(move |input| input.keeps(file));
        let contradiction = |file| earlier(file).find_map(|earlier| index.contradiction(&earlier.index, file));
        if let Some(contradiction) = known.find_map(|covered| contradiction(covered.file)) {
            return Err(contradiction);
        }
        self.files.extend(kept_files().map(|covered| (covered.file.fingerprint(), *covered)));
        self.writes.extend(index.writes());
        if !kept.contains(&true) {
            // Damage to it must not make pages of the result unknown.
            return Ok(());
        }
        let (prefixes, tail) = (index.shape.prefixes(), Mutex::new((HashSet::new(), index.tail_bytes)));
        self.inputs.push(Input { index, read: Box::new(read), prefixes, kept, ids: Vec::new(), tail });
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
        let read = |range: Range<u64>| {
            let bytes = map.as_bytes().get(range.start as usize..range.end as usize);
            bytes.map(Cow::Borrowed).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
        };
        self.add_some(map.index().clone(), read, keep)
    }

    /// Writes the result to `sink`. `map` is its id.
    ///
    /// # Errors
    ///
    /// Those of `sink` and of reading, and [`MapError`] if no file is left.
    pub fn finish(self, map: FileId, sink: &mut impl Write) -> io::Result<MapReport> {
        self.write(map, None, sink)
    }

    /// Writes one slice of the result to `sink`. It reads only the pages whose hashes the slice has. Merge the same
    /// maps, with the same options and id, for each slice, and [join](crate::MapJoin) all slices.
    ///
    /// # Errors
    ///
    /// As [`finish`](Self::finish).
    pub fn finish_slice(self, map: FileId, slice: Slice, sink: &mut impl Write) -> io::Result<MapReport> {
        self.write(map, Some(slice), sink)
    }

    fn write(mut self, map: FileId, slice: Option<Slice>, sink: &mut impl Write) -> io::Result<MapReport> {
        let hash = self.hash.unwrap_or_default();
        if self.writes.is_empty() {
            self.number_files();
            let entries = self.files.values().map(|covered| covered.entries).sum();
            let covered = Covered::Files(self.files.into_values().collect());
            let plan = Plan::new(&self.options, hash, map, covered, entries)?;
            return plan.write(&Inputs(self.inputs), slice, sink);
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
        plan.write(&inputs, slice, sink)
    }

    fn number_files(&mut self) {
        let ids: BTreeMap<u64, u32> = self.files.keys().copied().zip(0..).collect();
        for input in &mut self.inputs {
            let of_file = |(covered, is_kept): (&CoveredFile, &bool)| {
                ids.get(&covered.file.fingerprint()).copied().filter(|_| *is_kept)
            };
            input.ids = input.index.files().iter().zip(&input.kept).map(of_file).collect();
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

impl Input<'_> {
    fn keeps(&self, file: FileId) -> bool {
        self.index.local_id(file).and_then(|id| self.kept.get(id.index())) == Some(&true)
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
        for page in shape.place_of_prefix(prefixes.start).page..=shape.place_of_prefix(last).page {
            let own = shape.first_prefix(page).max(prefixes.start)..shape.first_prefix(page + 1).min(prefixes.end);
            let before = entries.len();
            let bytes = (self.read)(self.index.page_range(page))?;
            let is_sound = match self.index.check(&bytes, page) {
                Ok(trailer) if trailer.state == State::Whole => {
                    self.append_page(&bytes, &trailer, (&own, packing), entries, missing)?
                }
                Ok(PageTrailer { state: State::Outgrown, .. }) => {
                    self.append_outgrown(&bytes, page, (&own, packing), entries, missing)?
                }
                Ok(_) | Err(_) => false,
            };
            // The lists of a forged page may have more ids than the map has entries.
            if !is_sound || entries.len() as u64 > max_entries {
                entries.truncate(before);
                missing.unknown.push(own);
            }
        }
        Ok(())
    }

    fn append_outgrown(
        &self,
        stub: &[u8],
        page: u64,
        wanted: (&Range<u64>, &Packing),
        entries: &mut Vec<KeyHash>,
        missing: &mut Missing,
    ) -> io::Result<bool> {
        let elsewhere = Page { bytes: stub, shape: &self.index.shape }.elsewhere();
        let elsewhere = elsewhere.filter(|(_, bytes)| self.may_read_tail((page, true), *bytes));
        let Some(range) = elsewhere.and_then(|(offset, bytes)| self.index.tail_range(offset, bytes)) else {
            return Ok(false);
        };
        let bytes = (self.read)(range)?;
        match self.index.check(&bytes, page) {
            Ok(trailer) if trailer.state == State::Whole => {
                self.append_page(&bytes, &trailer, wanted, entries, missing)
            }
            Ok(_) | Err(_) => Ok(false),
        }
    }

    /// Appends the entries of a page whose checksum was compared. Returns false if one of its lists is damaged, or if
    /// the page is forged and would have more entries than its bytes.
    fn append_page(
        &self,
        bytes: &[u8],
        trailer: &PageTrailer,
        (prefixes, packing): (&Range<u64>, &Packing),
        entries: &mut Vec<KeyHash>,
        missing: &mut Missing,
    ) -> io::Result<bool> {
        let shape = &self.index.shape;
        let page = Page { bytes, shape };
        let list_bytes = page.list_places().map(|list| u64::from(list.bytes)).sum();
        if trailer.lists > 0 && !self.may_read_tail((trailer.page, false), list_bytes) {
            return Ok(false);
        }
        let (first, last) = (shape.place_of_prefix(prefixes.start).line, shape.place_of_prefix(prefixes.end - 1).line);
        let divide = Reciprocal::new(shape.radix());
        let mut lists = page.list_places().peekable();
        let mut next = 0;
        for line in first..=last {
            if page.has_overflowed(line) {
                let own = shape.prefixes_of_line(trailer.page, line);
                let own = own.start.max(prefixes.start)..own.end.min(prefixes.end);
                missing.overflowed.extend(Some(own).filter(|own| !own.is_empty()));
                continue;
            }
            let is_sound = page.for_each_entry(line, |quotient, number_of_field| {
                if number_of_field < next || number_of_field >= u64::from(trailer.fields) {
                    return Ok(false);
                }
                next = number_of_field + 1;
                let (low, id) = divide.by(page.field(number_of_field));
                let place = Place { page: trailer.page, line, quotient, low };
                let Some(prefix) = self.prefixes.of(place).filter(|prefix| prefixes.contains(prefix)) else {
                    return Ok::<_, io::Error>(true);
                };
                if id < u64::from(shape.files) {
                    if let Some(&Some(id)) = self.ids.get(id as usize) {
                        entries.push(packing.pack(prefix, id));
                    }
                    return Ok(true);
                }
                while lists.next_if(|list| u64::from(list.field) < number_of_field).is_some() {}
                let Some(&list) = lists.peek().filter(|list| u64::from(list.field) == number_of_field) else {
                    return Ok(false);
                };
                let Some(ids) = self.list(list)? else { return Ok(false) };
                let kept = ListIds::new(&ids).filter_map(|id| *self.ids.get(id as usize)?);
                entries.extend(kept.map(|id| packing.pack(prefix, id)));
                Ok(true)
            })?;
            if !is_sound {
                return Ok(false);
            }
        }
        Ok(true)
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

    /// Reads a list's ids; `None` if they are damaged.
    fn list(&self, place: ListPlace) -> io::Result<Option<Vec<u8>>> {
        let Some(range) = self.index.tail_range(place.offset, place.bytes.into()) else { return Ok(None) };
        let bytes = (self.read)(range)?;
        Ok(checked_list(&bytes, self.index.map, place.offset).map(<[u8]>::to_vec))
    }
}

/// Divides fields by the number of files, by a multiplication.
struct Reciprocal {
    divisor: u64,
    reciprocal: u64,
}

impl Reciprocal {
    fn new(divisor: u64) -> Self {
        Self { divisor, reciprocal: u64::MAX / divisor }
    }

    /// Returns the quotient and the remainder.
    #[inline(always)]
    fn by(&self, number: u64) -> (u64, u64) {
        // Rounded down twice, so at most two too low for numbers of 56 bits. One is added because multiples would
        // always be one too low.
        let mut quotient = ((u128::from(number + 1) * u128::from(self.reciprocal)) >> 64) as u64;
        let mut rest = number - quotient * self.divisor;
        while rest >= self.divisor {
            rest -= self.divisor;
            quotient += 1;
        }
        (quotient, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reciprocal_divides_as_the_cpu_does() {
        let mut is_corrected = false;
        for divisor in [1, 2, 3, 257, 4_097, (1 << 24) - 1, (1 << 31) - 1, 1 << 31] {
            let reciprocal = Reciprocal::new(divisor);
            for multiple in [0, 1, 2, 1_000, (1 << 56) / divisor - 1, (1 << 56) / divisor].map(|times| times * divisor)
            {
                for number in [multiple.saturating_sub(1), multiple, multiple + divisor / 2] {
                    assert_eq!(reciprocal.by(number), (number / divisor, number % divisor), "{number} / {divisor}");
                    let product = u128::from(number + 1) * u128::from(reciprocal.reciprocal);
                    is_corrected |= product >> 64 != u128::from(number / divisor);
                }
            }
        }
        assert!(is_corrected);
    }
}
