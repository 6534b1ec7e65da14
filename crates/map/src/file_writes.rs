//! What a file states of its writes, and how a compaction computes what its outputs state.

use crate::error::MapError;
use crate::writes::{WriteId, Writes};

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
        let wrong = |expected, got| MapError::Field { field: "writes of a file", expected, got };
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

    fn id(counter: u64) -> WriteId {
        WriteId::new(1, counter).unwrap()
    }

    fn writes(first: u64, last: u64) -> Writes {
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
        let own = FileWrites::of_flush(writes(10, 20));
        assert_eq!(output(&[(own, Some(12)), (own, Some(14))]), FileWrites::of_flush(writes(12, 14)));
        assert_eq!(output(&[(own, Some(12)), (own, None)]).writes(), own.writes());
        assert_eq!(output(&[(own, Some(9))]).writes(), own.writes());
        assert_eq!(output(&[(FileWrites::of_earlier_file(id(9)), Some(4))]).writes(), writes(4, 4));
        assert_eq!(output(&[(FileWrites::UNKNOWN, Some(4))]).writes(), Writes::ALL);
        assert_eq!(output(&[]), FileWrites::UNKNOWN);
        // As read by an engine that gives ingested entries the file's number.
        assert_eq!(output(&[(FileWrites::of_ingestion(id(5)), Some(5))]), FileWrites::of_flush(writes(5, 5)));
    }

    // promise: file-maps
    #[test]
    fn a_foreign_number_is_not_believed_in_any_later_compaction() {
        let (old, ingested) = (FileWrites::of_flush(writes(10, 20)), FileWrites::of_ingestion(id(30)));
        let first = output(&[(old, Some(12)), (ingested, Some(15)), (ingested, Some(7))]);
        assert_eq!(first.writes(), writes(12, 30));
        // 15 and 7 may be those of ingested entries, and so may all between.
        for number in [7, 11, 15] {
            assert_eq!(output(&[(first, Some(number))]).writes(), writes(12, 30));
        }
        assert_eq!(output(&[(first, Some(16)), (first, Some(17))]), FileWrites::of_flush(writes(16, 17)));
        // Nor is any number after a compaction that did not know them.
        let unknown = output(&[(ingested, None), (old, Some(12))]);
        assert_eq!(output(&[(unknown, Some(15))]).writes(), writes(12, 30));
        // In the second output, 15 is foreign still.
        let second = output(&[(first, Some(15)), (FileWrites::of_flush(writes(40, 40)), Some(40))]);
        assert_eq!(output(&[(second, Some(15))]).writes(), writes(12, 40));
        assert_eq!(output(&[(second, Some(14))]), FileWrites::of_flush(writes(14, 14)));
    }

    // promise: file-maps
    #[test]
    fn a_number_that_was_set_to_zero_is_not_believed() {
        let [old, own] = [FileWrites::of_earlier_file(id(20)), FileWrites::of_flush(writes(0, 30))];
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
        let all = [FileWrites::UNKNOWN, FileWrites::of_ingestion(id(7)), FileWrites::of_flush(writes(7, 8))];
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
        let mut forged = FileWrites::of_flush(writes(7, 8)).encode();
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
