//! Write ids: which flushes wrote an entry of a key, for stores whose compactions rewrite files many times.
//!
//! A map of files must add an entry again whenever a compaction moves it to another file. A map of writes names the
//! flush that wrote the entry, which no compaction changes. Each file states the flushes that wrote its own entries, as
//! an interval, and is skipped if the key was written by none of them. A compaction computes what its outputs state.

use crate::error::MapError;

/// Bits of a counter.
const COUNTER_BITS: u32 = 40;

/// The number of a flush: the writer's epoch, and a counter within it.
///
/// A number must never be given to two flushes. The writer that repeats a flush after a crash would give the lost one's
/// number to other keys, and a map of the lost one would lose them. So the epoch is part of the number: take a new one,
/// and make it durable, each time the store is opened for writing, and for each clone of the store.
///
/// The counter may count flushes, from 1, or be the sequence number of an entry: a flush then writes an interval of
/// numbers. An entry keeps the epoch in which it was written, so store the sequence number at which each epoch begins.
/// When the counter is full, take a new epoch.
///
/// ```
/// use sstfilter_map::WriteId;
///
/// let lost = WriteId::new(1, 17).expect("a small number");
/// let repeated = WriteId::new(2, 17).expect("a small number");
/// assert!(lost < repeated);
/// assert_eq!(WriteId::from_stored(lost.get()), lost);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(pub(crate) u64);

impl WriteId {
    /// The least number.
    pub const MIN: Self = Self(0);

    /// The greatest number.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns a number of an epoch below 2^24 and a counter below 2^40, or `None`.
    #[must_use]
    pub const fn new(epoch: u32, counter: u64) -> Option<Self> {
        let fits = epoch >> (64 - COUNTER_BITS) == 0 && counter >> COUNTER_BITS == 0;
        if fits { Some(Self((epoch as u64) << COUNTER_BITS | counter)) } else { None }
    }

    /// Returns a number that was stored as [`get`](Self::get) returned it.
    #[must_use]
    pub const fn from_stored(stored: u64) -> Self {
        Self(stored)
    }

    /// Returns the number as it is stored.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the epoch of the writer.
    #[must_use]
    pub const fn epoch(self) -> u32 {
        (self.0 >> COUNTER_BITS) as u32
    }

    pub(crate) const fn counter(self) -> u64 {
        self.0 & ((1 << COUNTER_BITS) - 1)
    }

    /// Returns the least number above this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// An interval of write ids, with both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Writes {
    pub(crate) first: WriteId,
    pub(crate) last: WriteId,
}

impl Writes {
    /// All write ids.
    pub const ALL: Self = Self { first: WriteId::MIN, last: WriteId::MAX };

    /// Returns the interval of one number.
    #[must_use]
    pub const fn of(id: WriteId) -> Self {
        Self { first: id, last: id }
    }

    /// Returns the interval from `first` to `last`; `None` if `last` is below `first`.
    #[must_use]
    pub fn new(first: WriteId, last: WriteId) -> Option<Self> {
        (first <= last).then_some(Self { first, last })
    }

    /// Returns the least number.
    #[must_use]
    pub const fn first(self) -> WriteId {
        self.first
    }

    /// Returns the greatest number.
    #[must_use]
    pub const fn last(self) -> WriteId {
        self.last
    }

    /// Returns the least interval that includes both.
    #[must_use]
    pub fn including(self, other: Self) -> Self {
        Self { first: self.first.min(other.first), last: self.last.max(other.last) }
    }

    /// Returns what the map of a flush of these writes covers: also the numbers after `previous`, which belong to no
    /// flush. `previous` is the last number of the flush that joins the store before this one, whether it has joined by
    /// now or not. `None` is for the first flush of an empty store, and covers all smaller numbers. The views of
    /// `sstfilter-store` compute it (`FilterView::flush_covers`).
    ///
    /// Only the map covers these numbers; the file states its own.
    ///
    /// ```
    /// use sstfilter_map::{WriteId, Writes};
    ///
    /// let [last, lost, next] = [(1, 17), (1, 18), (2, 1)].map(|(epoch, number)| WriteId::new(epoch, number).unwrap());
    /// let covered = Writes::of(next).after(Some(last));
    /// assert!(covered.first() == lost && covered.last() == next);
    /// ```
    #[must_use]
    pub fn after(self, previous: Option<WriteId>) -> Self {
        let first = previous.map_or(WriteId::MIN, WriteId::next);
        Self { first: self.first.min(first), ..self }
    }

    /// Returns the part from `first` to `last`; `None` if there is none.
    #[must_use]
    pub fn within(self, first: WriteId, last: WriteId) -> Option<Self> {
        Self::new(self.first.max(first), self.last.min(last))
    }

    /// Returns whether the intervals have a number in common.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Sorts intervals, and unites those that overlap. Then unites neighbours without a gap, if both are below `floor`.
pub(crate) fn unite(mut all: Vec<Writes>, floor: WriteId) -> Vec<Writes> {
    all.sort_unstable_by_key(|writes| writes.first);
    let unite_if = |all: Vec<Writes>, is_one: &dyn Fn(Writes, Writes) -> bool| {
        let mut united = Vec::<Writes>::new();
        for writes in all {
            match united.last_mut() {
                Some(before) if is_one(*before, writes) => *before = before.including(writes),
                _ => united.push(writes),
            }
        }
        united
    };
    let apart = unite_if(all, &Writes::overlaps);
    // The gap between two intervals may be a flush that no map covers.
    unite_if(apart, &|before, writes| before.last.next() == writes.first && writes.last < floor)
}

/// Returns the position of the interval that includes `writes`, of intervals that ascend and do not overlap.
pub(crate) fn position_of(writes: Writes, all: &[Writes]) -> Option<usize> {
    let position = all.partition_point(|other| other.first <= writes.first).checked_sub(1)?;
    all.get(position).filter(|other| writes.last <= other.last).map(|_| position)
}

/// Bytes of [`FileWrites::encode`].
const ENCODED_BYTES: usize = 36;

/// Which flushes wrote the entries of a file. Store it with the file in the manifest, as [`encode`](Self::encode)
/// returns it.
///
/// Each constructor is named for where a file comes from; the outputs of a compaction have [`OutputWrites`]. All of
/// them are an interval of write ids. An entry that was ingested may carry any number, so the value also knows which
/// carried numbers may be wrong.
///
/// ```
/// use sstfilter_map::{FileWrites, WriteId};
///
/// let ingested = FileWrites::of_ingestion(WriteId::new(1, 18).expect("a small number"));
/// assert_eq!(FileWrites::decode(&ingested.encode())?, ingested);
/// # Ok::<(), sstfilter_map::MapError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileWrites {
    writes: Writes,
    /// The numbers that entries may carry without being their writes. Rejected: a flag for the whole file, because each
    /// compaction would pass it on, until no number of any file is believed.
    foreign: Option<Writes>,
}

impl FileWrites {
    /// That of a file of which nothing is known: no map excludes it.
    pub const UNKNOWN: Self = Self { writes: Writes::ALL, foreign: Some(Writes::ALL) };

    /// Returns that of the file of a flush, with the number of the flush or those of its entries. All entries of the
    /// store with lower numbers have been flushed, or are in flushes whose files join before.
    #[must_use]
    pub const fn of_flush(writes: Writes) -> Self {
        Self { writes, foreign: None }
    }

    /// Returns that of a file from elsewhere, which is ingested, imported or restored from a backup. It counts as a
    /// flush, gets a new number, and has a map of its own. Its entries may carry any numbers, such as those of the
    /// store that wrote them. Flush all entries with lower numbers before its file joins.
    #[must_use]
    pub const fn of_ingestion(number: WriteId) -> Self {
        Self { writes: Writes::of(number), foreign: Some(Writes::ALL) }
    }

    /// Returns that of a file that the store had before it had maps of writes. `last` is the last number given until
    /// then, which no later flush may get; [`WriteId::MIN`] if there were none.
    #[must_use]
    pub const fn of_earlier_file(last: WriteId) -> Self {
        Self { writes: Writes { first: WriteId::MIN, last }, foreign: None }
    }

    /// Returns the least interval that has the writes of all entries.
    #[must_use]
    pub const fn writes(self) -> Writes {
        self.writes
    }

    /// Returns the 36 bytes to be stored, of which 4 are a checksum.
    #[must_use]
    pub fn encode(self) -> [u8; ENCODED_BYTES] {
        // Without foreign numbers, an interval that descends.
        let foreign = self.foreign.map_or([WriteId::MAX, WriteId::MIN], |foreign| [foreign.first, foreign.last]);
        let fields =
            [[self.writes.first, self.writes.last], foreign].map(|ends| ends.map(|end| end.get().to_le_bytes()));
        let fields = fields.as_flattened().as_flattened();
        let mut out = [0; ENCODED_BYTES];
        let checksum = crc32c::crc32c(fields).to_le_bytes();
        out.iter_mut().zip(fields.iter().chain(&checksum)).for_each(|(out, byte)| *out = *byte);
        out
    }

    /// Returns what was stored.
    ///
    /// # Errors
    ///
    /// [`MapError::Length`] and [`MapError::Field`] if the bytes are not those that [`encode`](Self::encode) returned.
    /// [`UNKNOWN`](Self::UNKNOWN) can replace them.
    pub fn decode(bytes: &[u8]) -> Result<Self, MapError> {
        let Some((fields, checksum)) = bytes.split_last_chunk().filter(|_| bytes.len() == ENCODED_BYTES) else {
            let (what, expected, got) = ("writes of a file", ENCODED_BYTES as u64, bytes.len() as u64);
            return Err(MapError::Length { what, expected, got });
        };
        let wrong = |expected, got: u64| MapError::field("writes of a file", expected, got);
        let checksum = u32::from_le_bytes(*checksum);
        if crc32c::crc32c(fields) != checksum {
            return Err(wrong("the CRC32C of the first 32 bytes at the end", checksum.into()));
        }
        let mut ends = fields.as_chunks().0.iter().map(|end| WriteId(u64::from_le_bytes(*end)));
        let mut interval = || Writes::new(ends.next()?, ends.next()?);
        let (writes, foreign) = (interval(), interval());
        let writes = writes.ok_or_else(|| wrong("an interval that ascends", u64::MAX))?;
        Ok(Self { writes, foreign })
    }

    /// Returns that of one entry of the file, which carries `number`.
    fn of_entry(self, number: Option<WriteId>) -> Self {
        let carried = number.map_or(Writes::ALL, Writes::of);
        let is_own = self.writes.overlaps(carried) && !self.foreign.is_some_and(|foreign| foreign.overlaps(carried));
        // Compactions to the last level set numbers to zero.
        if number.is_some_and(|number| number.counter() > 0) && (is_own || self.writes == carried) {
            Self { writes: carried, foreign: None }
        } else {
            Self { foreign: Some(carried), ..self }
        }
    }

    fn including(self, other: Self) -> Self {
        let foreign = self.foreign.into_iter().chain(other.foreign).reduce(Writes::including);
        Self { writes: self.writes.including(other.writes), foreign }
    }
}

/// Computes what a file states that a compaction writes: `(add)* finish`.
///
/// A number that an entry carries counts only if the input's own flushes gave it. For any other entry, the output
/// states all that the input stated.
///
/// ```
/// use sstfilter_map::{FileWrites, OutputWrites, WriteId, Writes};
///
/// let [flush, ingestion, other] = [17, 18, 5].map(|number| WriteId::new(1, number).expect("a small number"));
/// let mut output = OutputWrites::default();
/// output.add(FileWrites::of_flush(Writes::of(flush)), Some(flush));
/// output.add(FileWrites::of_ingestion(ingestion), Some(other)); // another store's number
/// assert_eq!(Some(output.finish().writes()), Writes::new(flush, ingestion));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct OutputWrites {
    entries: Option<FileWrites>,
}

impl OutputWrites {
    /// Adds an entry that is written to the output: value, tombstone, merge operand, each version. `input` is what the
    /// file states that it is read from, and `number` what it carries there; `None` if it carries none, or one that is
    /// not known. The entry carries the same number in the output, or zero, or none. An entry that was merged from
    /// several is added for each of them.
    pub fn add(&mut self, input: FileWrites, number: Option<WriteId>) {
        let entry = input.of_entry(number);
        self.entries = Some(self.entries.map_or(entry, |before| before.including(entry)));
    }

    /// Returns what the output states.
    #[must_use]
    pub fn finish(self) -> FileWrites {
        self.entries.unwrap_or(FileWrites::UNKNOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(first: u64, last: u64) -> Writes {
        Writes::new(WriteId(first), WriteId(last)).unwrap()
    }

    #[test]
    fn a_number_keeps_its_epoch_above_its_counter() {
        let id = |epoch, counter| WriteId::new(epoch, counter).map(WriteId::get);
        assert_eq!([id(0, 0), id(1, 2)], [Some(0), Some((1 << 40) + 2)]);
        assert_eq!([id(1 << 24, 0), id(0, 1 << 40)], [None; 2]);
        assert_eq!(WriteId::new((1 << 24) - 1, (1 << 40) - 1), Some(WriteId::MAX));
        assert_eq!((WriteId::MAX.next(), WriteId::MAX.epoch()), (WriteId::MAX, (1 << 24) - 1));
    }

    #[test]
    fn intervals_are_united_if_they_overlap_or_are_neighbours_below_the_floor() {
        let unite = |all: &[(u64, u64)], floor| {
            let united = unite(all.iter().map(|&(first, last)| writes(first, last)).collect(), WriteId(floor));
            united.iter().map(|writes| (writes.first.0, writes.last.0)).collect::<Vec<_>>()
        };
        assert_eq!(unite(&[], 9), []);
        assert_eq!(unite(&[(4, 6), (1, 3)], 0), [(1, 3), (4, 6)]);
        assert_eq!(unite(&[(4, 6), (1, 3), (7, 9)], 7), [(1, 6), (7, 9)]);
        assert_eq!(unite(&[(4, 6), (1, 3), (7, 9)], 9), [(1, 6), (7, 9)]);
        assert_eq!(unite(&[(4, 6), (1, 3), (7, 9)], 10), [(1, 9)]);
        // A write that no map covers.
        assert_eq!(unite(&[(1, 3), (5, 6)], 10), [(1, 3), (5, 6)]);
        assert_eq!(unite(&[(1, 8), (2, 3), (8, 12), (13, 13)], 13), [(1, 12), (13, 13)]);
        assert_eq!(unite(&[(0, u64::MAX), (3, 3)], 0), [(0, u64::MAX)]);
    }

    #[test]
    fn an_interval_is_covered_only_as_a_whole() {
        let all = [writes(2, 4), writes(6, 6)];
        let position = |first, last| position_of(writes(first, last), &all);
        assert_eq!([position(2, 4), position(3, 3), position(6, 6)], [Some(0), Some(0), Some(1)]);
        assert_eq!([position(1, 2), position(4, 5), position(4, 6), position(5, 5), position(7, 9)], [None; 5]);
        assert_eq!(position_of(Writes::ALL, &all), None);
    }

    fn id(counter: u64) -> WriteId {
        WriteId::new(1, counter).unwrap()
    }

    fn writes_of_epoch(first: u64, last: u64) -> Writes {
        Writes::new(id(first), id(last)).unwrap()
    }

    fn output(entries: &[(FileWrites, Option<u64>)]) -> FileWrites {
        let mut output = OutputWrites::default();
        entries.iter().for_each(|(input, number)| output.add(*input, number.map(id)));
        output.finish()
    }

    // promise: file-maps
    #[test]
    fn an_output_states_carried_numbers_only_if_their_input_gave_them() {
        let own = FileWrites::of_flush(writes_of_epoch(10, 20));
        assert_eq!(output(&[(own, Some(12)), (own, Some(14))]), FileWrites::of_flush(writes_of_epoch(12, 14)));
        assert_eq!(output(&[(own, Some(12)), (own, None)]).writes(), own.writes());
        assert_eq!(output(&[(own, Some(9))]).writes(), own.writes());
        assert_eq!(output(&[(FileWrites::of_earlier_file(id(9)), Some(4))]).writes(), writes_of_epoch(4, 4));
        assert_eq!(output(&[(FileWrites::UNKNOWN, Some(4))]).writes(), Writes::ALL);
        assert_eq!(output(&[]), FileWrites::UNKNOWN);
        // As read by an engine that gives ingested entries the file's number.
        assert_eq!(output(&[(FileWrites::of_ingestion(id(5)), Some(5))]), FileWrites::of_flush(writes_of_epoch(5, 5)));
    }

    // promise: file-maps
    #[test]
    fn a_foreign_number_is_not_believed_in_any_later_compaction() {
        let (old, ingested) = (FileWrites::of_flush(writes_of_epoch(10, 20)), FileWrites::of_ingestion(id(30)));
        let first = output(&[(old, Some(12)), (ingested, Some(15)), (ingested, Some(7))]);
        assert_eq!(first.writes(), writes_of_epoch(12, 30));
        // 15 and 7 may be those of ingested entries, and so may all between.
        for number in [7, 11, 15] {
            assert_eq!(output(&[(first, Some(number))]).writes(), writes_of_epoch(12, 30));
        }
        assert_eq!(output(&[(first, Some(16)), (first, Some(17))]), FileWrites::of_flush(writes_of_epoch(16, 17)));
        // Nor is any number after a compaction that did not know them.
        let unknown = output(&[(ingested, None), (old, Some(12))]);
        assert_eq!(output(&[(unknown, Some(15))]).writes(), writes_of_epoch(12, 30));
        // In the second output, 15 is foreign still.
        let second = output(&[(first, Some(15)), (FileWrites::of_flush(writes_of_epoch(40, 40)), Some(40))]);
        assert_eq!(output(&[(second, Some(15))]).writes(), writes_of_epoch(12, 40));
        assert_eq!(output(&[(second, Some(14))]), FileWrites::of_flush(writes_of_epoch(14, 14)));
    }

    // promise: file-maps
    #[test]
    fn a_number_that_was_set_to_zero_is_not_believed() {
        let [old, own] = [FileWrites::of_earlier_file(id(20)), FileWrites::of_flush(writes_of_epoch(0, 30))];
        let zeros = [WriteId::MIN, id(0)].map(Some);
        for (input, zero) in [(old, zeros[0]), (own, zeros[1])] {
            let mut output = OutputWrites::default();
            output.add(input, zero);
            let first = output.finish();
            assert_eq!(first.writes(), input.writes());
            output.add(first, zero);
            assert_eq!(output.finish().writes(), input.writes());
            // The others are.
            let mut output = OutputWrites::default();
            output.add(first, Some(WriteId(input.writes().last.0 - 3)));
            assert_eq!(output.finish().writes().first.0, input.writes().last.0 - 3);
        }
    }

    #[test]
    fn damaged_writes_of_a_file_are_refused() {
        let all = [FileWrites::UNKNOWN, FileWrites::of_ingestion(id(7)), FileWrites::of_flush(writes_of_epoch(7, 8))];
        for stored in all {
            let bytes = stored.encode();
            assert_eq!(FileWrites::decode(&bytes), Ok(stored));
            for bit in 0..bytes.len() * 8 {
                let mut damaged = bytes;
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(matches!(FileWrites::decode(&damaged), Err(MapError::Field { .. })), "bit {bit}");
            }
            assert!(matches!(FileWrites::decode(&bytes[..35]), Err(MapError::Length { got: 35, .. })));
            assert!(matches!(FileWrites::decode(&[&bytes[..], &[0]].concat()), Err(MapError::Length { got: 37, .. })));
        }
        let mut forged = FileWrites::of_flush(writes_of_epoch(7, 8)).encode();
        forged.swap(0, 8);
        let checksum = crc32c::crc32c(&forged[..32]).to_le_bytes();
        forged[32..].copy_from_slice(&checksum);
        assert!(matches!(FileWrites::decode(&forged), Err(MapError::Field { .. })));
    }

    #[test]
    fn writes_of_a_file_are_stored_as_two_intervals_and_their_checksum() {
        let mut expected = [3_u64, 4, u64::MAX, 0].map(u64::to_le_bytes).as_flattened().to_vec();
        expected.extend_from_slice(&crc32c::crc32c(&expected).to_le_bytes());
        let stored = FileWrites::of_flush(Writes::new(WriteId(3), WriteId(4)).unwrap());
        assert_eq!(stored.encode()[..], expected);
    }
}
