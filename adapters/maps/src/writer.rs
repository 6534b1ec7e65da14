//! Writes maps: adds new ones, merges them in tiers, and deletes what no reader needs any more.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::{StreamExt, TryStreamExt, future};
use object_store::ObjectStore;
use object_store::path::Path;
use sstfilter::{FileId, Filters};
use sstfilter_map::{MapBuilder, MapIndex, MapMerge, MapOptions, MapReport};

use crate::error::{Error, Result};
use crate::manifest::{Folder, Manifest, MapEntry};
use crate::stream::{ReadAhead, upload};

/// Attempts to merge maps that another process merges, too.
const ATTEMPTS: u32 = 10;

/// The end of every map's name. Other objects of the folder are left alone.
const SUFFIX: &str = ".map";

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

/// What a merge did.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Merged {
    /// The maps that were merged, and have left the manifest.
    pub inputs: Vec<MapEntry>,
    /// Their place in the manifest; none if no file of theirs is left.
    pub output: Option<MapEntry>,
    /// Maps that could not be used, and stay in the manifest: objects that are missing, damaged, or of another hash.
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
    /// The store fails, the map cannot be built, or the folder has maps with other options. If the store fails last, it
    /// is not known whether the manifest lists the map; adding the files again does no harm.
    pub async fn add(&self, cut: &str, builder: MapBuilder) -> Result<MapEntry> {
        let map = FileId::random();
        let produce = move |sink: &mut _| builder.finish(map, sink);
        let entry = self.write(map, (cut, 0), 0, produce).await?;
        self.folder
            .update(|manifest| {
                let expected = *manifest.prefix_bits.get_or_insert(self.options.prefix_bits());
                if expected != self.options.prefix_bits() {
                    return Err(Error::PrefixBits { expected, got: self.options.prefix_bits() });
                }
                let is_new = manifest.map(entry.id).is_none();
                manifest.maps.extend(is_new.then(|| entry.clone()));
                Ok(is_new)
            })
            .await?;
        Ok(entry)
    }

    /// Merges maps of a cut, if a tier has as many as the fan-in. Returns `None` if there is nothing to merge: call it
    /// until then. Files for which `keep` is false are dropped: those that the store no longer has.
    ///
    /// # Errors
    ///
    /// The store fails, or other writers were faster each time. The manifest is then as before.
    pub async fn merge(&self, cut: &str, keep: impl FnMut(FileId) -> bool) -> Result<Option<Merged>> {
        self.merge_chosen(cut, Choice::Tier, keep).await
    }

    /// Merges all maps of a cut into one, as for a day that is over. Rewrites a single map, too, to drop files.
    ///
    /// # Errors
    ///
    /// As [`merge`](Self::merge).
    pub async fn merge_all(&self, cut: &str, keep: impl FnMut(FileId) -> bool) -> Result<Option<Merged>> {
        self.merge_chosen(cut, Choice::All, keep).await
    }

    async fn merge_chosen(
        &self,
        cut: &str,
        choice: Choice,
        mut keep: impl FnMut(FileId) -> bool,
    ) -> Result<Option<Merged>> {
        for _ in 0..ATTEMPTS {
            let manifest = self.manifest().await?;
            let Some((mut merged, indexes)) = self.choose(&manifest, cut, choice).await? else { return Ok(None) };
            let output = self.merge_maps(cut, &merged.inputs, indexes, &mut keep).await?;
            let inputs: Vec<u64> = merged.inputs.iter().map(|map| map.id).collect();
            let updated = self.folder.update(|manifest| Ok(replace(manifest, &inputs, output.as_ref()))).await?;
            match &output {
                // Another process has replaced one of the inputs. No manifest has ever had this map.
                Some(output) if updated.map(output.id).is_none() => self.delete([output.object.clone()]).await?,
                _ => {
                    merged.output = output;
                    return Ok(Some(merged));
                }
            }
        }
        Err(Error::Contended { attempts: ATTEMPTS })
    }

    /// Chooses maps, and loads their ends.
    async fn choose(&self, manifest: &Manifest, cut: &str, choice: Choice) -> Result<Option<(Merged, Vec<MapIndex>)>> {
        let of_cut = || manifest.maps.iter().filter(|map| map.cut == cut);
        let mut tiers: Vec<u32> = of_cut().map(|map| map.tier).collect();
        tiers.sort_unstable();
        tiers.dedup();
        let (wanted, at_most) = match choice {
            Choice::Tier => (self.fan_in, self.fan_in),
            Choice::All => (1, usize::MAX),
        };
        let mut merged = Merged::default();
        for tier in tiers {
            let is_chosen = |map: &&MapEntry| map.tier == tier || matches!(choice, Choice::All);
            let chosen: Vec<_> = of_cut().filter(is_chosen).collect();
            if chosen.len() < wanted {
                continue;
            }
            let mut indexes = Vec::new();
            for map in chosen {
                match self.folder.end(map, &self.filters, |_| ()).await {
                    Ok(index) => {
                        indexes.push(index);
                        merged.inputs.push(map.clone());
                    }
                    // Merging the others must not wait for a map that will never be there.
                    Err(error @ (Error::Map(_) | Error::Store(object_store::Error::NotFound { .. }))) => {
                        merged.unusable.push((map.clone(), error));
                    }
                    Err(error) => return Err(error),
                }
                if indexes.len() == at_most {
                    break;
                }
            }
            if indexes.len() >= wanted {
                return Ok(Some((merged, indexes)));
            }
            merged.inputs.clear();
        }
        Ok(None)
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
        self.folder.update(retire).await.map(drop)
    }

    /// Deletes maps that left the manifest before `grace`, and maps of that age that never were in it, because their
    /// writer was killed. Returns how many.
    ///
    /// A reader with an older manifest than that finds nothing in their place, and searches all of their files. So
    /// choose `grace` longer than readers keep a manifest, and longer than an upload takes. Ages are by the clocks of
    /// this machine, of other writers and of the store: they should agree within a fraction of it.
    ///
    /// # Errors
    ///
    /// The store fails, or the manifest is damaged.
    pub async fn sweep(&self, grace: Duration) -> Result<usize> {
        let latest = now().saturating_sub(grace.as_secs());
        // Before the manifest: what is listed now, and not in the manifest then, was not added in between.
        let objects: Vec<_> = self.folder.store.list(Some(&self.folder.path)).try_collect().await?;
        let manifest = self.manifest().await?;
        let live: HashSet<&str> = manifest.maps.iter().map(|map| map.object.as_str()).collect();
        let is_young = |object: &str| manifest.retired.iter().any(|gone| gone.object == object && gone.since > latest);
        let mut due: Vec<String> = Vec::new();
        for object in &objects {
            let name = object.location.filename().unwrap_or_default();
            let is_own = name.ends_with(SUFFIX) && object.location == self.folder.object(name);
            let is_old = u64::try_from(object.last_modified.timestamp()).is_ok_and(|written| written <= latest);
            if is_own && is_old && !live.contains(name) && !is_young(name) {
                due.push(name.to_owned());
            }
        }
        self.delete(due.iter().cloned()).await?;
        let gone: HashSet<&str> = due.iter().map(String::as_str).collect();
        let listed: HashSet<&str> = objects.iter().filter_map(|object| object.location.filename()).collect();
        let forget = |manifest: &mut Manifest| {
            let before = manifest.retired.len();
            let is_there = |object: &str| listed.contains(object) && !gone.contains(object);
            manifest.retired.retain(|old| old.since > latest || is_there(&old.object));
            Ok(manifest.retired.len() < before)
        };
        self.folder.update(forget).await?;
        Ok(due.len())
    }

    async fn delete(&self, names: impl IntoIterator<Item = String>) -> Result<()> {
        let objects: Vec<_> = names.into_iter().map(|name| Ok(self.folder.object(&name))).collect();
        let deleted = self.folder.store.delete_stream(futures::stream::iter(objects).boxed());
        deleted
            .try_for_each(|_| future::ok(()))
            .await
            .or_else(|error| if let object_store::Error::NotFound { .. } = error { Ok(()) } else { Err(error.into()) })
    }
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
