//! Tables that no engine writes: every checksum holds, and one thing is wrong.

use std::collections::BTreeMap;

use bytes::Bytes;
use sstfilter_interop::{BlockHandle, ForeignTable};

const MAGIC: u64 = 0x88e2_41b7_85f4_cff7;

/// A filter of RocksDB that is negative for every key: a line of zeros, and its trailer.
pub(crate) fn empty_filter() -> Vec<u8> {
    [&[0; 64][..], &[0xff, 0, 6, 0, 0]].concat()
}

/// A table of RocksDB, without data blocks.
#[derive(Clone, Debug)]
pub(crate) struct Forged {
    pub(crate) properties: BTreeMap<String, Vec<u8>>,
    /// Blocks and their names in the metaindex.
    pub(crate) blocks: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) compression: u8,
    pub(crate) version: u32,
}

impl Forged {
    /// Returns a correct table with a full filter.
    pub(crate) fn with_filter(filter: Vec<u8>) -> Self {
        Self::with_block("fullfilter.rocksdb.BuiltinBloomFilter", filter)
    }

    pub(crate) fn with_block(name: &str, contents: Vec<u8>) -> Self {
        let properties = [
            ("rocksdb.comparator", b"leveldb.BytewiseComparator".to_vec()),
            ("rocksdb.num.entries", vec![7]),
            ("rocksdb.num.filter_entries", vec![7]),
            ("rocksdb.block.based.table.index.type", vec![0, 0, 0, 0]),
            ("rocksdb.block.based.table.whole.key.filtering", b"1".to_vec()),
        ];
        let properties = properties.map(|(name, value)| (name.to_owned(), value)).into();
        Self { properties, blocks: vec![(name.as_bytes().to_vec(), contents)], compression: 0, version: 5 }
    }

    pub(crate) fn property(mut self, name: &str, value: &[u8]) -> Self {
        self.properties.insert(name.into(), value.into());
        self
    }

    pub(crate) fn without_property(mut self, name: &str) -> Self {
        self.properties.remove(name);
        self
    }

    pub(crate) fn block(mut self, name: &str, contents: Vec<u8>) -> Self {
        self.blocks.push((name.as_bytes().to_vec(), contents));
        self
    }

    pub(crate) fn bytes(&self) -> Bytes {
        self.written(Vec::new(), BlockHandle { offset: 0, size: 0 })
    }

    /// Opens it with an index that names no block, as the engine writes it.
    pub(crate) fn open_with_empty_index(&self) -> ForeignTable<Bytes> {
        let mut file = Vec::new();
        let index = append(&mut file, b"\0\0\0\0\x01\0\0\0", 0);
        ForeignTable::open(self.written(file, index)).expect("a table that opens")
    }

    /// Opens it with one data block.
    pub(crate) fn open_with_data(&self, data: &[u8]) -> ForeignTable<Bytes> {
        let mut file = Vec::new();
        let data = append(&mut file, data, 0);
        let separator = [&[0xff; 9][..], &[0; 8]].concat();
        let index = append(&mut file, &row_block([(separator.as_slice(), encoded(data))]), 0);
        ForeignTable::open(self.written(file, index)).expect("a table that opens")
    }

    /// Returns the file with the filter, the properties and the footer behind the blocks of an index.
    pub(crate) fn written(&self, mut file: Vec<u8>, index: BlockHandle) -> Bytes {
        let mut named: BTreeMap<Vec<u8>, BlockHandle> = BTreeMap::new();
        for (name, contents) in &self.blocks {
            named.insert(name.clone(), append(&mut file, contents, self.compression));
        }
        let properties = self.properties.iter().map(|(name, value)| (name.as_bytes(), value.clone()));
        named.insert(b"rocksdb.properties".to_vec(), append(&mut file, &row_block(properties), 0));
        let metaindex = row_block(named.iter().map(|(name, handle)| (name.as_slice(), encoded(*handle))));
        let metaindex = append(&mut file, &metaindex, 0);
        footer_with_index(&mut file, metaindex, index, self.version);
        file.into()
    }

    pub(crate) fn open(&self) -> ForeignTable<Bytes> {
        ForeignTable::open(self.bytes()).expect("a table that opens")
    }
}

/// Type 1, CRC32C; format version 5.
pub(crate) fn footer(file: &mut Vec<u8>, metaindex: BlockHandle) {
    footer_with_index(file, metaindex, BlockHandle { offset: 0, size: 0 }, 5);
}

fn footer_with_index(file: &mut Vec<u8>, metaindex: BlockHandle, index: BlockHandle, version: u32) {
    let mut handles = encoded(metaindex);
    handles.extend(encoded(index));
    handles.resize(40, 0);
    file.push(1);
    file.extend(handles);
    file.extend(version.to_le_bytes());
    file.extend(MAGIC.to_le_bytes());
}

/// A block with its trailer.
pub(crate) fn append(file: &mut Vec<u8>, contents: &[u8], compression: u8) -> BlockHandle {
    let handle = BlockHandle { offset: file.len() as u64, size: contents.len() as u64 };
    file.extend(contents);
    file.push(compression);
    let crc = crc32c::crc32c(&file[usize::try_from(handle.offset).expect("small")..]);
    file.extend(crc.rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes());
    handle
}

/// Keys in full, each a restart point.
pub(crate) fn row_block<'a>(entries: impl IntoIterator<Item = (&'a [u8], Vec<u8>)>) -> Vec<u8> {
    let (mut block, mut restarts) = (Vec::new(), Vec::new());
    for (key, value) in entries {
        restarts.push(u32::try_from(block.len()).expect("small"));
        block.extend(varint(0).into_iter().chain(varint(key.len() as u64)).chain(varint(value.len() as u64)));
        block.extend(key);
        block.extend(value);
    }
    let count = u32::try_from(restarts.len()).expect("small");
    restarts.into_iter().chain([count]).for_each(|word| block.extend(word.to_le_bytes()));
    block
}

pub(crate) fn encoded(handle: BlockHandle) -> Vec<u8> {
    [varint(handle.offset), varint(handle.size)].concat()
}

pub(crate) fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
    bytes
}
