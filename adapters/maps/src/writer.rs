//! Writes maps: adds new ones, merges them in tiers, and deletes those that no reader needs.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use sstfilter::{BlockError, FileId, Filters, HashIdentity};
use sstfilter_map::{FileMap, MapBuilder, MapError, MapIndex, MapMerge, MapOptions, MapReport};

use crate::ends::EndReads;
use crate::error::{Error, Result};
use crate::manifest::{Folder, Loaded, Manifest, MapEntry, Unedited};
use crate::pages::ReaderOptions;
use crate::reader::MapReader;
use crate::stream::{ReadAhead, upload};

/// Attempts to merge maps that another process merges, too.
const ATTEMPTS: u32 = 10;

/// The end of every map's name, after 16 hexadecimal digits. Other objects of the folder are left alone.
const SUFFIX: &str = ".map";

/// Objects that are deleted at once.
const DELETIONS: usize = 16;

/// Writes maps into a folder of an object store. Several processes may do so at once.
///
/// Each new map is an object with a name of its own. It counts once the manifest lists it.
#[derive(Clone, Debug)]
pub struct MapWriter {
    folder: Folder,
    filters: Filters,
    options: MapOptions,
    fan_in: usize,
}

/// The result of a merge.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Merged {
    /// The maps that were merged, and have left the manifest; none if there was nothing to merge.
    pub inputs: Vec<MapEntry>,
    /// Their place in the manifest; none if no file of theirs is left.
    pub output: Option<MapEntry>,
    /// Maps that could not be used, and stay in the manifest: objects that are missing, damaged, of another size or
    /// hash, that keep another number of bits of a hash, that cover writes instead of files, or that
    /// [contradict](MapError::Contradiction) each other. Only maps that were to be merged are looked at.
    /// [Remove](MapWriter::remove) them, and build maps of their files from keys.
    pub unusable: Vec<(MapEntry, Error)>,
}

/// Which maps a merge takes.
#[derive(Clone, Copy, Debug)]
enum Choice {
    /// As many as the fan-in, of the lowest tier that has them.
    Tier,
    /// All of a cut.
    All,
}

impl MapWriter {
    /// Creates a writer of maps in a folder. `filters` and `options` must be those of all writers of the folder.
    #[must_use]
    pub fn new(store: Arc<dyn ObjectStore>, folder: impl Into<Path>, filters: &Filters, options: MapOptions) -> Self {
        let folder = Folder { store, path: folder.into() };
        Self { folder, filters: filters.clone(), options, fan_in: 8 }
    }

    /// Sets how many maps of a tier are merged into one of the next; 8 by default, at least 2. A lookup reads a page of
    /// up to `fan_in - 1` maps of each tier and cut; each entry is written once for each tier.
    #[must_use]
    pub fn with_fan_in(self, maps: usize) -> Self {
        Self { fan_in: maps.max(2), ..self }
    }

    /// Returns a builder of a map for [`add`](Self::add).
    #[must_use]
    pub fn builder(&self) -> MapBuilder {
        MapBuilder::new(&self.filters, self.options)
    }

    /// Opens the maps of the folder with the newest manifest.
    ///
    /// # Errors
    ///
    /// As [`MapReader::open`].
    pub async fn reader(&self) -> Result<MapReader> {
        let Folder { store, path } = self.folder.clone();
        MapReader::open(store, path, &self.filters, ReaderOptions::default()).await
    }

    /// Loads the manifest, which is empty if there is none.
    ///
    /// # Errors
    ///
    /// The store fails, or the manifest is damaged.
    pub async fn manifest(&self) -> Result<Manifest> {
        Ok(self.folder.load(None).await?.unwrap_or_default().manifest)
    }

    /// Writes a map of new files, and lists it in the manifest. The map covers no file before that, and readers search
    /// all files that no map covers. So it does not matter whether the files are visible before the map or after.
    ///
    /// # Errors
    ///
    /// The store fails, the map cannot be built, or the builder or the folder has other options, or another hash, than
    /// this writer. A map must cover files: one of writes is refused. If the manifest cannot be read, or another writer
    /// replaces it each time, the map is deleted. If the store fails while the manifest is replaced, it is not known
    /// whether it lists the map, which stays; adding the files again does no harm.
    pub async fn add(&self, cut: &str, builder: MapBuilder) -> Result<MapEntry> {
        self.ensure_mergeable(builder.hash_identity(), builder.prefix_bits(), builder.covers_files())?;
        let map = FileId::random();
        self.publish(cut, map, 0, move |sink| builder.finish(map, sink)).await
    }

    /// Writes a map of several maps in memory, which were built elsewhere with the hash and the options of this writer,
    /// and lists it in the manifest. Files for which `keep` is false are dropped.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add), and [`MapError`] if one of the maps is damaged or contradicts another one, or no file is
    /// kept.
    pub async fn add_maps(
        &self,
        cut: &str,
        maps: Vec<Bytes>,
        mut keep: impl FnMut(FileId) -> bool + Send + 'static,
    ) -> Result<MapEntry> {
        let (map, options) = (FileId::random(), self.options);
        let bytes = maps.iter().map(|map| map.len() as u64).sum();
        let maps = maps.into_iter().map(FileMap::load_any).collect::<std::result::Result<Vec<_>, _>>()?;
        for index in maps.iter().map(FileMap::index) {
            self.ensure_mergeable(index.hash_identity(), index.prefix_bits(), !index.files().is_empty())?;
        }
        self.publish(cut, map, bytes, move |sink| {
            let mut merge = MapMerge::new(options);
            maps.iter().try_for_each(|map| merge.add_loaded(map, &mut keep))?;
            merge.finish(map, sink)
        })
        .await
    }

    /// Writes a map, and lists it in the manifest.
    async fn publish(
        &self,
        cut: &str,
        map: FileId,
        expected_bytes: u64,
        produce: impl FnOnce(&mut crate::stream::Parts) -> std::io::Result<MapReport> + Send + 'static,
    ) -> Result<MapEntry> {
        let entry = self.write(map, (cut, 0), expected_bytes, produce).await?;
        let edited = self.folder.update(|manifest| {
            // It may have been stored and merged, with an answer that was lost.
            if manifest.has_had(&entry) {
                return Ok(false);
            }
            let expected = *manifest.prefix_bits.get_or_insert(self.options.prefix_bits());
            if expected != self.options.prefix_bits() {
                return Err(Error::PrefixBits { expected, got: self.options.prefix_bits() });
            }
            manifest.maps.push(entry.clone());
            Ok(true)
        });
        match edited.await {
            Ok(_) => Ok(entry),
            Err(unedited) => Err(self.without_orphan(unedited, &entry).await),
        }
    }

    /// Deletes a map if no manifest can have it, and returns the error. Otherwise it is left for [`sweep`](Self::sweep).
    async fn without_orphan(&self, unedited: Unedited, map: &MapEntry) -> Error {
        if unedited.is_certain {
            // Ignored: the reason is the error before, and a sweep deletes the object, too.
            let _ = self.delete(&map.object).await;
        }
        unedited.error
    }

    /// Merges maps of a cut, if a tier has as many as the fan-in. Call it until the result has no inputs. Files for
    /// which `keep` is false are dropped: those that the store no longer has.
    ///
    /// # Errors
    ///
    /// The store fails, or other writers were faster each time. If the store fails last, it is not known whether the
    /// manifest lists the result instead of the inputs; merging again does no harm.
    pub async fn merge(&self, cut: &str, keep: impl FnMut(FileId) -> bool) -> Result<Merged> {
        self.merge_chosen(cut, Choice::Tier, keep).await
    }

    /// Merges all maps of a cut into one, as for a day that is over. Rewrites a single map, too, to drop files.
    ///
    /// # Errors
    ///
    /// As [`merge`](Self::merge).
    pub async fn merge_all(&self, cut: &str, keep: impl FnMut(FileId) -> bool) -> Result<Merged> {
        self.merge_chosen(cut, Choice::All, keep).await
    }

    async fn merge_chosen(&self, cut: &str, choice: Choice, mut keep: impl FnMut(FileId) -> bool) -> Result<Merged> {
        for _ in 0..ATTEMPTS {
            let manifest = self.manifest().await?;
            let (mut merged, indexes) = self.choose(&manifest, cut, choice).await?;
            let indexes = self.without_contradictions(&mut merged, indexes, &mut keep);
            if merged.inputs.is_empty() {
                return Ok(merged);
            }
            let output = self.merge_maps(cut, &merged.inputs, indexes, &mut keep).await?;
            let inputs: Vec<u64> = merged.inputs.iter().map(|map| map.id).collect();
            let edited = self.folder.update(|manifest| Ok(replace(manifest, &inputs, output.as_ref()))).await;
            let updated = match (edited, &output) {
                (Ok(manifest), _) => manifest,
                (Err(unedited), Some(output)) => return Err(self.without_orphan(unedited, output).await),
                (Err(unedited), None) => return Err(unedited.error),
            };
            match &output {
                // Another process has replaced one of the inputs. No manifest has ever had this map: a sweep deletes it if
                // this fails.
                Some(output) if !updated.has_had(output) => drop(self.delete(&output.object).await),
                _ => {
                    merged.output = output;
                    return Ok(merged);
                }
            }
        }
        Err(Error::Contended { attempts: ATTEMPTS })
    }

    /// Chooses maps, and loads their ends.
    async fn choose(&self, manifest: &Manifest, cut: &str, choice: Choice) -> Result<(Merged, Vec<MapIndex>)> {
        let mut merged = Merged::default();
        let (wanted, at_most) = match choice {
            Choice::Tier => (self.fan_in, self.fan_in),
            Choice::All => (1, usize::MAX),
        };
        for group in groups(manifest, cut, choice).into_iter().filter(|group| group.len() >= wanted) {
            let mut indexes = Vec::new();
            for map in group {
                match self.usable_end(map).await {
                    Ok(index) => {
                        indexes.push(index);
                        merged.inputs.push(map.clone());
                    }
                    // Merging the others must not wait for a map that will never be there.
                    Err(
                        error @ (Error::Map(_) | Error::NoFiles | Error::Store(object_store::Error::NotFound { .. })),
                    ) => {
                        merged.unusable.push((map.clone(), error));
                    }
                    Err(error) => return Err(error),
                }
                if indexes.len() == at_most {
                    break;
                }
            }
            if indexes.len() >= wanted {
                return Ok((merged, indexes));
            }
            merged.inputs.clear();
        }
        Ok((merged, Vec::new()))
    }

    /// Leaves out the maps that contradict each other about a file that is kept: nothing says which one is right.
    fn without_contradictions(
        &self,
        merged: &mut Merged,
        indexes: Vec<MapIndex>,
        keep: &mut impl FnMut(FileId) -> bool,
    ) -> Vec<MapIndex> {
        let mut merge = MapMerge::new(self.options);
        let mut sound = Vec::<(MapEntry, MapIndex)>::new();
        for (map, index) in core::mem::take(&mut merged.inputs).into_iter().zip(indexes) {
            match merge.add_some(index.clone(), |_| Ok(Cow::Borrowed(&[])), &mut *keep) {
                Ok(()) => sound.push((map, index)),
                Err(error) => {
                    let other = if let MapError::Contradiction { other, .. } = error { other } else { None };
                    let earlier = sound.iter().position(|(earlier, _)| Some(earlier.id) == other);
                    let earlier = earlier.map(|at| sound.remove(at).0);
                    merged.unusable.extend(earlier.into_iter().chain([map]).map(|map| (map, error.clone().into())));
                }
            }
        }
        let (inputs, indexes) = sound.into_iter().unzip();
        merged.inputs = inputs;
        indexes
    }

    /// Loads the end of a map that merges can use.
    async fn usable_end(&self, map: &MapEntry) -> Result<MapIndex> {
        let index = self.folder.end(map, &self.filters, &mut EndReads::default()).await?;
        self.ensure_mergeable(index.hash_identity(), index.prefix_bits(), !index.files().is_empty())?;
        Ok(index)
    }

    /// Fails if the maps of this writer could not be merged with such a map.
    fn ensure_mergeable(&self, hash: HashIdentity, prefix_bits: u8, covers_files: bool) -> Result<()> {
        let (expected, got) = (self.filters.hasher().identity(), hash);
        if expected != got {
            return Err(MapError::from(BlockError::HashMismatch { expected, got }).into());
        }
        let (expected, got) = (self.options.prefix_bits(), prefix_bits);
        if expected != got {
            let (field, expected) = ("bits of a hash", "as many as this writer's maps keep");
            return Err(MapError::Field { field, expected, got: got.into() }.into());
        }
        if covers_files { Ok(()) } else { Err(Error::NoFiles) }
    }

    async fn merge_maps(
        &self,
        cut: &str,
        inputs: &[MapEntry],
        indexes: Vec<MapIndex>,
        keep: &mut impl FnMut(FileId) -> bool,
    ) -> Result<Option<MapEntry>> {
        let files: HashSet<FileId> = indexes.iter().flat_map(MapIndex::files).map(|file| file.file).collect();
        let kept: HashSet<FileId> = files.into_iter().filter(|&file| keep(file)).collect();
        if kept.is_empty() {
            return Ok(None);
        }
        let sources: Vec<_> = indexes
            .into_iter()
            .zip(inputs)
            .map(|(index, map)| {
                let object = self.folder.object(&map.object);
                (index.clone(), ReadAhead::new(Arc::clone(&self.folder.store), object, index))
            })
            .collect();
        let (map, options) = (FileId::random(), self.options);
        let produce = move |sink: &mut _| {
            let mut merge = MapMerge::new(options);
            for (index, source) in sources {
                merge.add_some(index, move |range| source.read(range), |file| kept.contains(&file))?;
            }
            merge.finish(map, sink)
        };
        let tier = inputs.iter().map(|map| map.tier).max().unwrap_or(0) + 1;
        let bytes = inputs.iter().map(|map| map.bytes).sum();
        self.write(map, (cut, tier), bytes, produce).await.map(Some)
    }

    async fn write(
        &self,
        map: FileId,
        (cut, tier): (&str, u32),
        expected_bytes: u64,
        produce: impl FnOnce(&mut crate::stream::Parts) -> std::io::Result<MapReport> + Send + 'static,
    ) -> Result<MapEntry> {
        let id = map.fingerprint();
        let object = format!("{id:016x}{SUFFIX}");
        let report = upload(&self.folder.store, &self.folder.object(&object), expected_bytes, produce).await?;
        let MapReport { bytes, files, entries, unknown_pages, .. } = report;
        Ok(MapEntry { id, object, cut: cut.to_owned(), tier, bytes, files, entries, unknown_pages })
    }

    /// Removes maps from the manifest: those of a day that has expired, or that are damaged. Their files are then not
    /// covered.
    ///
    /// # Errors
    ///
    /// The store fails, or other writers were faster each time.
    pub async fn remove(&self, maps: &[FileId]) -> Result<()> {
        let ids: Vec<u64> = maps.iter().map(|map| map.fingerprint()).collect();
        let retire = |manifest: &mut Manifest| {
            let before = manifest.maps.len();
            manifest.retire(&ids, now());
            Ok(manifest.maps.len() < before)
        };
        Ok(self.folder.update(retire).await.map(drop)?)
    }

    /// Deletes maps that left the manifest before `grace`, and maps of that age that never were in it, because their
    /// writer was killed; and older manifests, where each is an object of its own. Returns how many. Deletes nothing in
    /// a folder without a manifest.
    ///
    /// A reader with an older manifest than that finds nothing in their place, and searches all of their files. So
    /// choose `grace` longer than readers keep a manifest, and longer than an upload takes. Ages are by the clocks of
    /// this machine, of other writers and of the store: they should agree within a fraction of it.
    ///
    /// # Errors
    ///
    /// The store fails, or the manifest is damaged. If one deletion fails, the others are still done.
    pub async fn sweep(&self, grace: Duration) -> Result<usize> {
        let latest = now().saturating_sub(grace.as_secs());
        // Before the manifest: what is listed now, and not in the manifest then, was not added in between.
        let objects: Vec<_> = self.folder.store.list(Some(&self.folder.path)).try_collect().await?;
        let Some(loaded) = self.folder.load(None).await?.filter(Loaded::exists) else { return Ok(0) };
        let manifest = loaded.manifest;
        let live: HashSet<&str> = manifest.maps.iter().map(|map| map.object.as_str()).collect();
        let is_young = |object: &str| manifest.retired.iter().any(|gone| gone.object == object && gone.since > latest);
        let mut numbers = self.folder.numbers().await?;
        numbers.pop();
        let is_superseded = |object: &Path| numbers.iter().any(|(_, older)| older.location == *object);
        let mut due: Vec<&str> = Vec::new();
        for object in &objects {
            let name = object.location.filename().unwrap_or_default();
            let is_map = is_map_name(name) && object.location == self.folder.object(name);
            let is_own = is_map || is_superseded(&object.location);
            let is_old = u64::try_from(object.last_modified.timestamp()).is_ok_and(|written| written <= latest);
            if is_own && is_old && !live.contains(name) && !is_young(name) {
                due.push(name);
            }
        }
        let deletions: Vec<_> = due.into_iter().map(|name| async move { (name, self.delete(name).await) }).collect();
        let deletions: Vec<_> = futures::stream::iter(deletions).buffer_unordered(DELETIONS).collect().await;
        let gone: HashSet<&str> =
            deletions.iter().filter(|(_, deleted)| deleted.is_ok()).map(|(name, _)| *name).collect();
        let listed: HashSet<&str> = objects.iter().filter_map(|object| object.location.filename()).collect();
        let forget = |manifest: &mut Manifest| {
            let before = manifest.retired.len();
            let is_there = |object: &str| listed.contains(object) && !gone.contains(object);
            manifest.retired.retain(|old| old.since > latest || is_there(&old.object));
            Ok(manifest.retired.len() < before)
        };
        self.folder.update(forget).await?;
        deletions.into_iter().try_fold(0, |count, (_, deleted)| Ok(count + usize::from(deleted?)))
    }

    /// Deletes an object; `false` if it is not there.
    async fn delete(&self, name: &str) -> Result<bool> {
        match self.folder.store.delete(&self.folder.object(name)).await {
            Ok(()) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the maps of a cut that may be merged with one another: those of each tier, or all.
fn groups<'a>(manifest: &'a Manifest, cut: &str, choice: Choice) -> Vec<Vec<&'a MapEntry>> {
    let mut groups: BTreeMap<u32, Vec<&MapEntry>> = BTreeMap::new();
    for map in manifest.maps.iter().filter(|map| map.cut == cut) {
        let group = if let Choice::Tier = choice { map.tier } else { 0 };
        groups.entry(group).or_default().push(map);
    }
    groups.into_values().collect()
}

/// Whether a map of this package has such a name.
fn is_map_name(name: &str) -> bool {
    let id = name.strip_suffix(SUFFIX).unwrap_or_default();
    id.len() == 16 && id.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// Replaces maps by their merge in a manifest that has all of them.
fn replace(manifest: &mut Manifest, inputs: &[u64], output: Option<&MapEntry>) -> bool {
    if !inputs.iter().all(|&input| manifest.map(input).is_some()) {
        return false;
    }
    manifest.retire(inputs, now());
    manifest.maps.extend(output.cloned());
    true
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs())
}
