//! The filter section of a stored SST, taken apart and put together again.

use std::sync::Arc;

use slatedb::Db;
use slatedb::bytes::Bytes;
use slatedb::manifest::SsTableHandle;
use slatedb::object_store::path::Path;
use slatedb::object_store::{ObjectStore, ObjectStoreExt};

use crate::common::PATH;

/// Bytes of CRC32 behind the section.
const CHECKSUM_BYTES: usize = 4;

/// The location of an SST's filters.
pub(crate) struct Section {
    store: Arc<dyn ObjectStore>,
    path: Path,
    offset: usize,
    pub(crate) length: usize,
}

/// Filters by the names of their policies.
pub(crate) type Entries = Vec<(String, Vec<u8>)>;

impl Section {
    /// Returns the section of the only SST.
    pub(crate) fn only(store: &Arc<dyn ObjectStore>, db: &Db) -> Self {
        let manifest = db.manifest();
        let views: Vec<_> = manifest.all_sst_views().collect();
        assert_eq!(views.len(), 1);
        Self::of(store, &views[0].sst)
    }

    pub(crate) fn of(store: &Arc<dyn ObjectStore>, sst: &SsTableHandle) -> Self {
        let at = |position| usize::try_from(position).unwrap();
        Self {
            store: Arc::clone(store),
            path: Path::from(format!("{PATH}/compacted/{}.sst", sst.id.value())),
            offset: at(sst.info.filter_offset),
            length: at(sst.info.filter_len),
        }
    }

    async fn object(&self) -> Vec<u8> {
        self.store.get(&self.path).await.unwrap().bytes().await.unwrap().to_vec()
    }

    /// The section with its checksum.
    pub(crate) async fn bytes(&self) -> Vec<u8> {
        self.object().await[self.offset..self.offset + self.length].to_vec()
    }

    /// Overwrites the section, checksum included.
    pub(crate) async fn overwrite(&self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.length);
        let mut object = self.object().await;
        object[self.offset..self.offset + self.length].copy_from_slice(bytes);
        self.store.put(&self.path, Bytes::from(object).into()).await.unwrap();
    }

    /// Overwrites the bytes before the checksum, and repairs the checksum, so that the engine finds no fault.
    pub(crate) async fn overwrite_sealed(&self, framed: &[u8]) {
        assert!(framed.len() + CHECKSUM_BYTES <= self.length, "{} bytes in {}", framed.len(), self.length);
        let mut bytes = framed.to_vec();
        bytes.resize(self.length - CHECKSUM_BYTES, 0);
        let checksum = crc32fast::hash(&bytes);
        bytes.extend(checksum.to_be_bytes());
        self.overwrite(&bytes).await;
    }

    pub(crate) async fn entries(&self) -> Entries {
        let bytes = self.bytes().await;
        entries(&bytes[..self.length - CHECKSUM_BYTES])
    }

    /// Stores these filters, with padding that the engine ignores.
    pub(crate) async fn store_entries(&self, entries: &[(String, Vec<u8>)]) {
        self.overwrite_sealed(&framed(entries)).await;
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let (head, rest) = bytes.split_first_chunk().unwrap();
    *bytes = rest;
    *head
}

fn take_slice(bytes: &mut &[u8], length: usize) -> Vec<u8> {
    let (head, rest) = bytes.split_at(length);
    *bytes = rest;
    head.to_vec()
}

fn entries(mut framed: &[u8]) -> Entries {
    let count = u16::from_be_bytes(take(&mut framed));
    let entry = |_| {
        let name = usize::from(u16::from_be_bytes(take(&mut framed)));
        let name = String::from_utf8(take_slice(&mut framed, name)).unwrap();
        let data = usize::try_from(u64::from_be_bytes(take(&mut framed))).unwrap();
        (name, take_slice(&mut framed, data))
    };
    (0..count).map(entry).collect()
}

pub(crate) fn framed(entries: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut framed = u16::try_from(entries.len()).unwrap().to_be_bytes().to_vec();
    for (name, data) in entries {
        framed.extend(u16::try_from(name.len()).unwrap().to_be_bytes());
        framed.extend_from_slice(name.as_bytes());
        framed.extend((data.len() as u64).to_be_bytes());
        framed.extend_from_slice(data);
    }
    framed
}
