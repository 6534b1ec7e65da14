//! The manifest: one object that lists the maps of a folder. It is replaced as a whole, by conditional puts; where a
//! store has none, as on a local disk, each manifest is an object with the next number.

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{
    GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion,
};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sstfilter::FileId;

use crate::error::{Error, Result};

/// The name of the manifest in its folder.
const NAME: &str = "manifest";

/// The first line: this, the version, and the CRC32C of all that follows the line, in eight hexadecimal digits.
const MAGIC: &str = "sstfilter-maps";

const VERSION: &str = "1";

/// Attempts to replace a manifest that others replace, too. With a few dozen writers, one of them always succeeds.
const ATTEMPTS: u32 = 100;

/// The maps of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Manifest {
    /// How many bits of a hash all maps keep; none if there has never been a map.
    pub prefix_bits: Option<u8>,
    /// The maps, in any order.
    pub maps: Vec<MapEntry>,
    /// Objects that were maps, and that may be deleted once no reader has an old manifest.
    pub retired: Vec<Retired>,
}

/// A map in a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct MapEntry {
    /// The fingerprint of the map's id, in hexadecimal digits. The map has it, too: a reader that gets another object
    /// notices.
    #[serde(serialize_with = "write_id", deserialize_with = "read_id")]
    pub id: u64,
    /// The object's name in the folder.
    pub object: String,
    /// What its files have in common, in the words of their owner: a day, a tenant.
    pub cut: String,
    /// How often its entries were merged.
    pub tier: u32,
    /// Bytes of the map.
    pub bytes: u64,
    /// Files that it covers.
    pub files: u32,
    /// Pairs of a key and a file.
    pub entries: u64,
    /// Pages whose entries were lost in a merge. If there are any, build the map from keys.
    pub unknown_pages: u64,
}

impl MapEntry {
    /// Returns the map's id.
    pub const fn map_id(&self) -> FileId {
        FileId::from_fingerprint(self.id)
    }
}

/// An object that has left the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Retired {
    /// The object's name in the folder.
    pub object: String,
    /// When it left, in seconds since 1970.
    pub since: u64,
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    ///
    /// It is damaged, or of a newer version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let damaged = |what: String| Error::Manifest { what };
        let split = bytes.iter().position(|&byte| byte == b'\n').map(|end| bytes.split_at(end + 1));
        let (line, body) = split.ok_or_else(|| damaged("expected a line of text, got none".into()))?;
        let line = std::str::from_utf8(line).unwrap_or_default();
        let [magic, version, checksum] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            return Err(damaged(format!("expected a first line \"{MAGIC} {VERSION} CHECKSUM\", got {line:?}")));
        };
        if magic != MAGIC {
            return Err(damaged(format!("expected the first word {MAGIC:?}, got {magic:?}")));
        }
        // Before the checksum, because another version may have another one.
        if version != VERSION {
            return Err(Error::Version { got: version.to_owned() });
        }
        let got = format!("{:08x}", crc32c::crc32c(body));
        if got != checksum {
            return Err(damaged(format!("expected checksum {checksum}, got {got}")));
        }
        serde_json::from_slice(body).map_err(|error| damaged(error.to_string()))
    }

    /// Returns the bytes of the manifest.
    ///
    /// # Errors
    ///
    /// None that is known: only those of the JSON library.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let body = serde_json::to_vec(self).map_err(|error| Error::Manifest { what: error.to_string() })?;
        let mut bytes = format!("{MAGIC} {VERSION} {:08x}\n", crc32c::crc32c(&body)).into_bytes();
        bytes.extend(body);
        Ok(bytes)
    }

    /// Returns the map with this fingerprint.
    pub(crate) fn map(&self, id: u64) -> Option<&MapEntry> {
        self.maps.iter().find(|map| map.id == id)
    }

    /// Whether a manifest has ever had this map, so that readers may still use its object.
    pub(crate) fn has_had(&self, map: &MapEntry) -> bool {
        self.map(map.id).is_some() || self.retired.iter().any(|gone| gone.object == map.object)
    }

    /// Removes maps, which readers with this manifest may still use.
    pub(crate) fn retire(&mut self, ids: &[u64], now: u64) {
        let gone = self.maps.extract_if(.., |map| ids.contains(&map.id));
        self.retired.extend(gone.map(|map| Retired { object: map.object, since: now }));
    }
}

/// A folder of an object store that has maps and their manifest.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) path: Path,
}

/// A manifest as it was read, and the version that it had.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) manifest: Manifest,
    version: Version,
}

/// What tells one manifest of a folder from the next.
#[derive(Clone, Debug, Default)]
enum Version {
    /// There is no manifest.
    #[default]
    None,
    /// The store replaces an object only if it is still this one.
    Replaced(UpdateVersion),
    /// The store cannot do so: each manifest is an object of its own, with the next number.
    Numbered(u64),
}

/// Why a manifest was not edited.
#[derive(Debug)]
pub(crate) struct Unedited {
    pub(crate) error: Error,
    /// Whether no manifest has the edit. A put whose answer is an error may have been stored, or be stored later.
    pub(crate) is_certain: bool,
}

impl From<Unedited> for Error {
    fn from(unedited: Unedited) -> Self {
        unedited.error
    }
}

impl Loaded {
    /// Whether there is a manifest.
    pub(crate) const fn exists(&self) -> bool {
        !matches!(self.version, Version::None)
    }

    pub(crate) fn etag(&self) -> Option<String> {
        if let Version::Replaced(version) = &self.version { version.e_tag.clone() } else { None }
    }
}

impl Folder {
    /// Returns the place of an object. A name with a slash cannot lead out of the folder: it is escaped.
    pub(crate) fn object(&self, name: &str) -> Path {
        self.path.clone().join(name)
    }

    fn numbered(&self, number: u64) -> Path {
        self.object(&format!("{NAME}.{number:020}"))
    }

    /// Loads the manifest; an empty one if there is none. Returns `None` if its tag still is `unless`.
    pub(crate) async fn load(&self, unless: Option<String>) -> Result<Option<Loaded>> {
        let options = GetOptions { if_none_match: unless.clone(), ..GetOptions::default() };
        let got = match self.store.get_opts(&self.object(NAME), options).await {
            Ok(got) => got,
            Err(object_store::Error::NotModified { .. }) => return Ok(None),
            Err(object_store::Error::NotFound { .. }) => return self.load_numbered().await.map(Some),
            Err(error) => return Err(error.into()),
        };
        // A store may ignore the condition.
        if unless.is_some() && unless == got.meta.e_tag {
            return Ok(None);
        }
        let version = UpdateVersion { e_tag: got.meta.e_tag.clone(), version: got.meta.version.clone() };
        let manifest = Manifest::decode(&got.bytes().await?)?;
        Ok(Some(Loaded { manifest, version: Version::Replaced(version) }))
    }

    /// Returns the numbers of manifests that are objects of their own, ascending.
    pub(crate) async fn numbers(&self) -> Result<Vec<(u64, ObjectMeta)>> {
        let objects: Vec<_> = self.store.list(Some(&self.path)).try_collect().await?;
        let number = |object: &ObjectMeta| {
            let digits = object.location.filename()?.strip_prefix(NAME)?.strip_prefix('.')?;
            digits.parse().ok().filter(|&number| object.location == self.numbered(number))
        };
        let mut numbers: Vec<_> = objects.into_iter().filter_map(|object| Some((number(&object)?, object))).collect();
        numbers.sort_unstable_by_key(|(number, _)| *number);
        Ok(numbers)
    }

    async fn load_numbered(&self) -> Result<Loaded> {
        let Some((number, object)) = self.numbers().await?.pop() else { return Ok(Loaded::default()) };
        let manifest = Manifest::decode(&self.store.get(&object.location).await?.bytes().await?)?;
        Ok(Loaded { manifest, version: Version::Numbered(number) })
    }

    /// Replaces the manifest by an edited one. If another writer was faster, edits that one's manifest instead.
    ///
    /// The same edit may be applied to a manifest that has it: a put that seems to have failed may have been stored.
    /// `edit` returns whether it has changed anything, and fails only for a manifest that does not have the edit.
    pub(crate) async fn update(
        &self,
        mut edit: impl FnMut(&mut Manifest) -> Result<bool>,
    ) -> std::result::Result<Manifest, Unedited> {
        for attempt in 0.. {
            let loaded = self.load(None).await.map_err(|error| Unedited { error, is_certain: attempt == 0 })?;
            let Loaded { mut manifest, version } = loaded.unwrap_or_default();
            if !edit(&mut manifest).map_err(|error| Unedited { error, is_certain: true })? {
                return Ok(manifest);
            }
            // Here, so that it is certain: the manifest that was just read does not have the edit.
            if attempt == ATTEMPTS {
                break;
            }
            match self.put(&manifest, version).await {
                Ok(true) => return Ok(manifest),
                Ok(false)
                | Err(Error::Store(
                    object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. },
                )) => {}
                Err(error) => return Err(Unedited { error, is_certain: false }),
            }
            // At random, so that two writers do not meet again.
            let milliseconds = FileId::random().fingerprint() % (10 * u64::from(attempt.min(20)) + 1);
            tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        }
        Err(Unedited { error: Error::Contended { attempts: ATTEMPTS }, is_certain: true })
    }

    /// Puts a manifest in the place of a version. Returns whether it is there.
    async fn put(&self, manifest: &Manifest, version: Version) -> Result<bool> {
        let (bytes, object) = (PutPayload::from(manifest.encode()?), self.object(NAME));
        let put = async |object: &Path, mode| self.store.put_opts(object, bytes.clone(), PutOptions::from(mode)).await;
        match version {
            Version::None => {
                put(&object, PutMode::Create).await?;
                // Others may have begun to number theirs, since the folder was seen to have none.
                let is_first = self.numbers().await?.is_empty();
                if !is_first {
                    self.store.delete(&object).await?;
                }
                Ok(is_first)
            }
            Version::Replaced(version) => match put(&object, PutMode::Update(version)).await {
                Err(object_store::Error::NotImplemented { .. }) => {
                    let is_first = self.numbers().await?.is_empty();
                    let begun = if is_first { put(&self.numbered(1), PutMode::Create).await.map(drop) } else { Ok(()) };
                    // Also if another writer has begun: readers take this one as long as it is there.
                    match self.store.delete(&object).await {
                        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(begun.map(|()| is_first)?),
                        Err(error) => Err(error.into()),
                    }
                }
                put => Ok(put.map(|_| true)?),
            },
            Version::Numbered(number) => Ok(put(&self.numbered(number + 1), PutMode::Create).await.map(|_| true)?),
        }
    }
}

/// Fingerprints have 64 bits, and many readers of JSON keep 53 bits of a number.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn write_id<S: Serializer>(id: &u64, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{id:016x}"))
}

fn read_id<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<u64, D::Error> {
    let digits = String::deserialize(deserializer)?;
    let id = if digits.len() == 16 { u64::from_str_radix(&digits, 16).ok() } else { None };
    id.ok_or_else(|| D::Error::custom(format!("expected a map id of 16 hexadecimal digits, got {digits:?}")))
}
