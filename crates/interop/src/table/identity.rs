//! What a table says of itself, in 64 bits. File names say nothing: each database numbers its files from 1.

use xxhash_rust::xxh3::Xxh3;

use super::ForeignTable;
use super::file::zeros;
use super::keys::{IndexWalk, Met};
use crate::error::{Error, Part};
use crate::format::checksum::ChecksumType;
use crate::format::handle::BlockHandle;
use crate::format::properties::name;
use sstfilter::RandomAccess;

impl<R: RandomAccess> ForeignTable<R> {
    /// Returns a fingerprint of the table, from what it stores: equal for copies of a file, whatever their names, and
    /// different for tables of other entries. Maps of files take it as the file's id.
    ///
    /// It is the XXH3 of the footer, the length of the file, and the properties. RocksDB has recorded database, session
    /// and file number in them since version 6.24, which occur once. For other tables, the fingerprint also covers the
    /// first data block, and offset, length and checksum of each further one; of these, it reads the index and five
    /// bytes each. It does not cover the sequence number that RocksDB assigns to a table when it is ingested.
    ///
    /// Tables of other entries have the same fingerprint by chance (one in 2^64; one in 2^32 for two tables without
    /// RocksDB's record that differ in one block of equal length alone, behind the first), or because someone forged
    /// one of them. No checksum of a data block is compared here.
    ///
    /// ```
    /// use sstfilter_interop::ForeignTable;
    ///
    /// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/leveldb/");
    /// let open = |name| ForeignTable::open(std::fs::read(format!("{folder}{name}")).map(bytes::Bytes::from).unwrap());
    /// assert_eq!(open("lengths.ldb")?.fingerprint()?, open("lengths.ldb")?.fingerprint()?);
    /// assert_ne!(open("lengths.ldb")?.fingerprint()?, open("6000-keys.ldb")?.fingerprint()?);
    /// # Ok::<(), sstfilter_interop::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of the properties and, if they do not suffice, of the index and of the first data block. Pebble's
    /// tables from version 5 on have none: [`Error::Unsupported`].
    pub fn fingerprint(&self) -> Result<u64, Error> {
        let mut hash = Xxh3::new();
        let mut footer = zeros(self.footer.bytes, Part::Footer)?;
        self.file.read(&mut footer, self.footer.offset, Part::Footer)?;
        hash.update(&footer);
        hash.update(&self.footer.offset.to_le_bytes());
        let properties = self.checked_properties().map_err(Clone::clone)?;
        for (key, value) in properties.pairs().filter(|(key, _)| *key != name::GLOBAL_SEQUENCE_NUMBER.as_bytes()) {
            // Lengths first, so that no other pairs have the same bytes.
            for part in [key, value] {
                hash.update(&(part.len() as u64).to_le_bytes());
                hash.update(part);
            }
        }
        if !properties.has_identity() {
            self.hash_data_blocks(&mut hash)?;
        }
        Ok(hash.digest())
    }

    /// Not the index alone: it shortens its keys, so that small tables of other keys have equal ones.
    fn hash_data_blocks(&self, hash: &mut Xxh3) -> Result<(), Error> {
        let mut walk = IndexWalk::new(self.layout.data.as_ref().map_err(Clone::clone)?.index);
        let mut is_whole = true;
        while let Some(met) = walk.next(&self.file) {
            let Met::Data(handle) = met.map_err(|(_, error)| error)? else { continue };
            let end = BlockHandle { offset: handle.offset.saturating_add(handle.size), size: 0 };
            let read = if is_whole { handle } else { end };
            hash.update(&handle.offset.to_le_bytes());
            hash.update(&handle.size.to_le_bytes());
            // An end of no block: its trailer alone.
            hash.update(self.file.stored(read, Part::Data)?.bytes());
            // Where there are no checksums, all bytes count.
            is_whole = self.checksum_type() == ChecksumType::None;
        }
        Ok(())
    }
}
