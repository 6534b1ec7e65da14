//! Where filters are stored, and how each reader reads them there.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::layers::{
    Growth, Late, LateKeys, LayeredFilter, Part, Rotating, RotatingBloom, Scalable, ScalableBloom,
};
use sstfilter::{
    FalsePositiveRate, FileId, FilterBlock, FilterSet, KeyHash, MatchBitmap, MatchMatrix, RegisterBlockedBloom,
    StandardBloom,
};
use sstfilter_map::{FileMap, Lookups, MapBuilder, MapIndex, MapOptions};
use sstfilter_range::{RangeContext, RangeFilter, RangePolicy, RangeUnits};
use sstfilter_store::{
    FileFilters, FilterBudget, FilterMetadata, FilterStore, FilterView, PartitionCut, PartitionIndex, PartitionOptions,
};
use sstfilter_table::{Lookup, Table, TableBuilder, TableError, TableOptions, TablePart, TableSet};

use super::{Answers, Config, EARLIER, OTHER, OWN, Reader, Stored, keys, known_keys, probed};
use crate::container::{Container, ranges};
use crate::engine::{Disk, File, view_of};
use crate::{region, sidecar};

/// A place where filters are stored.
pub(super) trait Place {
    fn name(&self) -> &'static str;

    /// Returns what a writer with this configuration stores for `reader`, in each of the place's forms.
    fn stored(&self, reader: Reader, writer: &Config) -> Vec<Stored>;

    /// Reads `bytes` in place of the stored ones, and probes the keys. An error refuses the file.
    fn ask(&self, reader: Reader, stored: &Stored, bytes: Option<Bytes>, config: &Config) -> Result<Answers, String>;
}

/// What is stored around the bytes, for readers that need it.
#[derive(Clone, Default)]
pub(super) struct Around {
    metadata: Option<FilterMetadata>,
    /// Whether the filter is loaded when it is first probed.
    is_lazy: bool,
    /// A table, and where in it the bytes are.
    table: Bytes,
    at: usize,
}

/// The keys and the id of a file: the one that is read, another one, and an earlier one of the same id, which lacks the
/// known keys: nothing else shows it to a reader without a description.
const FILES: [(char, char); 3] = [(OWN, OWN), (OTHER, OTHER), (OTHER, OWN)];
/// The same for readers of a description: the earlier one has the known keys.
const DESCRIBED: [(char, char); 3] = [(OWN, OWN), (OTHER, OTHER), (EARLIER, OWN)];

fn id(file: char) -> FileId {
    FileId::from_fingerprint(u64::from(file))
}

fn named(problem: impl Debug) -> String {
    format!("{problem:?}")
}

/// Answers of a reader that neither counts nor verifies.
fn answers(may_contain: Vec<bool>, problem: Option<String>) -> Answers {
    Answers { is_found: problem.is_some(), may_contain, problem, unusable: None }
}

fn each_probed(mut may_contain: impl FnMut(&[u8]) -> bool) -> Vec<bool> {
    probed().iter().map(|key| may_contain(key)).collect()
}

fn hashes(config: &Config) -> Vec<KeyHash> {
    probed().iter().map(|key| config.hasher.hash(key)).collect()
}

/// The answers for all probed keys, from the positions of those that match.
fn of_positions(positions: impl IntoIterator<Item = usize>) -> Vec<bool> {
    let mut may_contain = vec![false; probed().len()];
    positions.into_iter().for_each(|position| may_contain[position] = true);
    may_contain
}

/// Whether each probed key has a candidate, one by one or all at once.
fn candidates<F: AsRef<FileFilters>>(view: &FilterView<F>, is_batch: bool) -> Vec<bool> {
    if !is_batch {
        return each_probed(|key| view.candidates(key).next_file().is_some());
    }
    let keys = probed();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut candidates = view.candidates_of_each(&keys);
    let next = || Some(candidates.next_files().to_vec()).filter(|next| !next.is_empty());
    of_positions(std::iter::from_fn(next).flatten().map(|(position, _)| position))
}

/// Stores a file's filters as an engine does: filter bytes, and their description elsewhere. They are loaded when the
/// file is opened, or when they are probed.
fn in_engine(form: &'static str, store: &FilterStore, files: [(char, char); 3]) -> [Stored; 2] {
    let build = |(file, name): (char, char)| {
        let mut builder = store.builder(id(name));
        keys(file).for_each(|key| builder.add_key(&key));
        builder.finish().seal()
    };
    let [(bytes, metadata), (other, _), (earlier, _)] = files.map(build);
    let opened = store.open(metadata.clone(), bytes.clone());
    let around = Around { metadata: Some(metadata), ..Around::default() };
    loaded_or_lazy(form, &[bytes, other, earlier], opened.partitions(), &around)
}

/// The filters of a file that are loaded when it is opened, and the same that are loaded when they are probed.
fn loaded_or_lazy(
    form: &'static str,
    bytes: &[Bytes; 3],
    partitions: Option<&PartitionIndex>,
    around: &Around,
) -> [Stored; 2] {
    let pieces = partitions.map(ranges).unwrap_or_default();
    [false, true].map(|is_lazy| {
        let around = Around { is_lazy, ..around.clone() };
        Stored { pieces: pieces.clone(), around, ..Stored::whole(form, bytes.clone()) }
    })
}

/// Opens filter bytes by their description, in a view of one file.
fn in_view<'a>(
    around: &'a Around,
    bytes: Option<Bytes>,
    config: &Config,
) -> (FilterStore, &'a FilterMetadata, Arc<File>) {
    let (store, metadata) = (config.store(), around.metadata.as_ref().unwrap());
    let store = if around.is_lazy { store.with_budget(FilterBudget::unlimited()) } else { store };
    let disk = Disk::new(bytes.unwrap_or_default());
    let filters = store.open(metadata.clone(), disk.clone());
    (store, metadata, Arc::new(File::new(BTreeSet::new(), disk, filters)))
}

/// Probes point filters through a view.
fn ask_view(around: &Around, bytes: Option<Bytes>, config: &Config, reader: Reader) -> Answers {
    let (store, metadata, file) = in_view(around, bytes, config);
    let view = view_of(&store, &[(0, &file)]);
    let may_contain = candidates(&view, reader == Reader::Batch);
    Answers {
        may_contain,
        problem: file.filters.point_problem().map(named),
        unusable: Some(file.filters.stats().filter.unusable),
        is_found: !store.verify(metadata, &*file.disk).is_empty(),
    }
}

/// Writes a table of a file's keys. Tables of one configuration have the same shape.
fn table_of((file, name): (char, char), options: TableOptions) -> Bytes {
    let options = options.with_table_id([name as u8; 16]);
    let mut builder = TableBuilder::new(Vec::new(), &options).unwrap();
    keys(file).for_each(|key| builder.add(&key, b"value").unwrap());
    builder.finish().unwrap().0.into()
}

/// Stores a filter in a table: the bytes are those of the table's `part`, and of the top index behind it.
fn in_table(form: &'static str, options: &TableOptions, part: TablePart) -> Stored {
    let own = table_of(FILES[0], options.clone());
    let (filter, index) = (region(&own, part).unwrap(), region(&own, TablePart::FilterIndex));
    let tables = if index.is_some() { FILES } else { DESCRIBED }.map(|file| table_of(file, options.clone()));
    // Partitions of other keys may have other lengths.
    let is_same = |table| region(table, part).as_ref() == Some(&filter);
    assert!(index.is_some() || tables.iter().all(is_same), "tables of one shape");
    let end = index.map_or(filter.end, |index| index.end);
    let opened = crate::open(&tables[0], options);
    let pieces = opened.filters().partitions().map(ranges).unwrap_or_default();
    let around = Around { table: tables[0].clone(), at: filter.start, ..Around::default() };
    Stored { pieces, around, ..Stored::whole(form, tables.map(|table| table.slice(filter.start..end))) }
}

/// Returns the table with these bytes in place of the stored ones.
fn with_bytes(stored: &Stored, bytes: Option<Bytes>) -> Bytes {
    let Around { table, at, .. } = &stored.around;
    let bytes = bytes.unwrap();
    assert_eq!(bytes.len(), stored.bytes.len());
    [&table[..*at], &bytes, &table[at + bytes.len()..]].concat().into()
}

/// Asserts that a table gives the value of a present key, and none for an absent one.
fn assert_right(found: Option<&Bytes>, position: usize, count: usize) {
    let expected = (position < count / 2).then_some(&b"value"[..]);
    assert_eq!(found.map(|value| &value[..]), expected, "key {position}");
}

/// Looks up all keys in a set of one table.
fn ask_set(set: &TableSet, reader: Reader) -> Result<Vec<bool>, TableError> {
    let keys = probed();
    let refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    for (position, got) in set.multi_get(&refs).into_iter().enumerate() {
        assert_right(got?.as_ref(), position, keys.len());
    }
    for (position, key) in refs.iter().enumerate() {
        assert_right(set.get(key)?.as_ref(), position, keys.len());
    }
    Ok(candidates(set.snapshot().view(), reader == Reader::Batch))
}

/// Looks up all keys in a table.
fn ask_table(table: Table, reader: Reader) -> Result<Answers, TableError> {
    let count = probed().len();
    for (position, key) in probed().iter().enumerate() {
        let lookup = table.get(key)?;
        assert_right(if let Lookup::Found(value) = &lookup { Some(value) } else { None }, position, count);
    }
    let mut may_contain = each_probed(|key| table.may_contain_key(key));
    let problem = table.sidecar_problem().map(named).or(table.filter_problem().map(named));
    let is_found = table.verify().is_err();
    let stats = table.stats();
    // A sidecar that is not used is counted once for its table.
    let unusable = stats.filters.filter.unusable + stats.sidecar_problems * count as u64;
    if reader != Reader::Table {
        may_contain = ask_set(&TableSet::new([(0, table)]).unwrap(), reader)?;
    }
    Ok(Answers { may_contain, problem, unusable: Some(unusable), is_found })
}

fn open_table(bytes: Bytes, config: &Config, reader: Reader) -> Result<Answers, String> {
    Table::open_source(bytes, &config.options()).and_then(|table| ask_table(table, reader)).map_err(named)
}

/// One filter block per file.
pub(super) struct Block;

impl Block {
    fn of(config: &Config, (file, name): (char, char)) -> Bytes {
        let mut builder = config.filters().builder(id(name));
        keys(file).for_each(|key| builder.add_key(&key));
        builder.finish().block.unwrap()
    }
}

impl Place for Block {
    fn name(&self) -> &'static str {
        "block"
    }

    fn stored(&self, reader: Reader, writer: &Config) -> Vec<Stored> {
        match reader {
            Reader::View => in_engine("whole", &writer.store(), DESCRIBED).into(),
            Reader::Table => vec![in_table("whole", &writer.options(), TablePart::Filter)],
            _ => {
                vec![Stored::whole("whole", FILES.map(|file| Self::of(writer, file)))]
            }
        }
    }

    fn ask(&self, reader: Reader, stored: &Stored, bytes: Option<Bytes>, config: &Config) -> Result<Answers, String> {
        let filters = config.filters();
        let known = known_keys();
        match reader {
            Reader::Block => {
                let known = known.each_ref().map(Vec::as_slice);
                let context = filters.load_context(id(OWN)).with_known_keys(&known);
                let block = FilterBlock::load(bytes.unwrap(), context).map_err(named)?;
                Ok(answers(each_probed(|key| block.may_contain(filters.hash(key))), None))
            }
            Reader::View => Ok(ask_view(&stored.around, bytes, config, reader)),
            Reader::Table => open_table(with_bytes(stored, bytes), config, reader),
            Reader::File | Reader::Set | Reader::Batch => {
                let loaded = filters.load_with_known_keys(bytes, id(OWN), &known);
                let problem = loaded.problem().map(named);
                let sound = filters.load(Some(Self::of(config, (OTHER, OTHER))), id(OTHER));
                // The sound filter shows that the set does not mix up its filters.
                let set = FilterSet::new(&filters, [sound, loaded]);
                let may_contain = match reader {
                    Reader::File => each_probed(|key| !set.filter(1).unwrap().probe(key).is_absent()),
                    Reader::Set => {
                        let mut matches = MatchBitmap::default();
                        each_probed(|key| {
                            set.matches(key, &mut matches);
                            matches.may_contain(1)
                        })
                    }
                    _ => {
                        let mut matrix = MatchMatrix::default();
                        set.matches_batch(&hashes(config), &mut matrix);
                        (0..matrix.keys()).map(|key| matrix.may_contain(key, 1)).collect()
                    }
                };
                let unusable = Some(set.filter(1).unwrap().stats().unusable);
                Ok(Answers { is_found: problem.is_some(), may_contain, problem, unusable })
            }
        }
    }
}

const CUTS: [(&str, PartitionCut); 2] = [("by key", PartitionCut::KeyRange), ("by hash", PartitionCut::HashRange)];

fn partitions(cut: PartitionCut) -> PartitionOptions {
    PartitionOptions::new(cut, 1 << 10).unwrap()
}

/// A filter in partitions, cut both ways.
pub(super) struct Partitions;

impl Place for Partitions {
    fn name(&self) -> &'static str {
        "partitions"
    }

    fn stored(&self, reader: Reader, writer: &Config) -> Vec<Stored> {
        let of_cut = |(form, cut)| -> Vec<Stored> {
            if reader == Reader::Table {
                let options = writer.options().with_partitioned_filter(partitions(cut));
                return vec![in_table(form, &options, TablePart::Filter)];
            }
            let files = if reader == Reader::Block { FILES } else { DESCRIBED };
            in_engine(form, &writer.store().with_partitions(partitions(cut)), files).into()
        };
        CUTS.into_iter().flat_map(of_cut).collect()
    }

    fn ask(&self, reader: Reader, stored: &Stored, bytes: Option<Bytes>, config: &Config) -> Result<Answers, String> {
        match reader {
            Reader::Table => open_table(with_bytes(stored, bytes), config, reader),
            Reader::Block => {
                let (filters, known) = (config.filters(), known_keys());
                let known = known.each_ref().map(Vec::as_slice);
                let context = filters.load_context(id(OWN)).with_known_keys(&known);
                let container = Container::load(&bytes.unwrap(), context).map_err(named)?;
                let may_contain = each_probed(|key| container.may_contain(key, filters.hash(key)));
                let problem = container.problems().pop().map(named);
                Ok(Answers { is_found: container.verify().is_err(), ..answers(may_contain, problem) })
            }
            _ => Ok(ask_view(&stored.around, bytes, config, reader)),
        }
    }
}

/// A file of filters beside a table that has none itself.
pub(super) struct Sidecar;

impl Place for Sidecar {
    fn name(&self) -> &'static str {
        "sidecar"
    }

    fn stored(&self, _reader: Reader, writer: &Config) -> Vec<Stored> {
        let reading = writer.options().without_filter();
        let tables = FILES.map(|file| table_of(file, reading.clone()));
        let whole = [("whole", writer.options())];
        let cut = CUTS.map(|(form, cut)| (form, writer.options().with_partitioned_filter(partitions(cut))));
        let of_form = |(form, options): (&'static str, TableOptions)| {
            let bytes = tables.each_ref().map(|table| sidecar::built(table, &reading, &options));
            let opened = sidecar::open(&sidecar::files(&tables[0], bytes[0].clone()), reading.clone());
            let around = Around { table: tables[0].clone(), ..Around::default() };
            loaded_or_lazy(form, &bytes, opened.filters().partitions(), &around)
        };
        whole.into_iter().chain(cut).flat_map(of_form).collect()
    }

    fn ask(&self, reader: Reader, stored: &Stored, bytes: Option<Bytes>, config: &Config) -> Result<Answers, String> {
        let (bytes, Around { table, is_lazy, .. }) = (bytes.unwrap(), &stored.around);
        if reader == Reader::View {
            let identity = Table::open_source(table.clone(), &TableOptions::default()).unwrap().identity();
            let metadata = FilterMetadata::of_sidecar(&bytes, bytes.len() as u64, &identity).map_err(named)?;
            let around = Around { metadata: Some(metadata), ..stored.around.clone() };
            return Ok(ask_view(&around, Some(bytes), config, reader));
        }
        let options = config.options();
        let options = if *is_lazy { options.with_filter_budget(FilterBudget::unlimited()) } else { options };
        ask_table(sidecar::open(&sidecar::files(table, bytes), options), reader).map_err(named)
    }
}

/// Blocks of growing filters: late keys over a built block, and filters of many parts.
pub(super) struct Layers;

impl Layers {
    const LATE: &str = "late keys";
    const SCALABLE: &str = "scalable";
    const ROTATING: &str = "rotating";

    fn late(config: &Config, (file, name): (char, char)) -> Bytes {
        // Late keys are whole keys, whatever parts a store's filters have.
        let config = Config { prefix: None, ..config.clone() };
        let (filters, rate) = (config.filters(), FalsePositiveRate::new(0.001).unwrap());
        let mut builder = filters.builder(id(name));
        let (first, late): (Vec<_>, Vec<_>) = keys(file).enumerate().partition(|(number, _)| *number < 1_000);
        first.iter().for_each(|(_, key)| builder.add_key(key));
        let block = builder.finish().block.unwrap();
        let mut layers = <LateKeys>::over(block, filters.load_context(id(name)), 300, rate).unwrap();
        late.iter().for_each(|(_, key)| _ = layers.insert(filters.hash(key)));
        layers.to_bytes().unwrap()
    }

    fn scalable(config: &Config, file: char) -> Bytes {
        let rate = FalsePositiveRate::new(0.001).unwrap();
        let mut layers = <ScalableBloom>::new(config.hasher.identity(), 200, rate).unwrap();
        keys(file).for_each(|key| _ = layers.insert(config.hasher.hash(&key)).unwrap());
        layers.to_bytes().unwrap()
    }

    fn rotating(config: &Config, file: char) -> Bytes {
        let rate = FalsePositiveRate::new(0.02).unwrap();
        let identity = config.hasher.identity();
        let mut layers = RotatingBloom::<RegisterBlockedBloom>::new(identity, 600, 3, rate).unwrap();
        for key in keys(file) {
            if layers.is_full() {
                layers.rotate();
            }
            layers.insert(config.hasher.hash(&key));
        }
        layers.to_bytes().unwrap()
    }
}

fn ask_layers<P: Part, G: Growth>(
    bytes: Bytes,
    file: Option<FileId>,
    config: &Config,
    reader: Reader,
) -> Result<Answers, String> {
    let (filters, known) = (config.filters(), known_keys());
    let known = known.each_ref().map(Vec::as_slice);
    let context = sstfilter::LoadContext::new(filters.hasher()).with_known_keys(&known);
    let context = file.map_or(context, |file| context.with_file_id(file));
    let filter = LayeredFilter::<P, G>::from_bytes(bytes, context).map_err(named)?;
    if reader == Reader::Block {
        return Ok(answers(each_probed(|key| filter.contains(filters.hash(key))), None));
    }
    let mut matches = MatchBitmap::default();
    filter.contains_batch(&hashes(config), &mut matches);
    Ok(answers(of_positions(matches.iter()), None))
}

impl Place for Layers {
    fn name(&self) -> &'static str {
        "layers"
    }

    fn stored(&self, _reader: Reader, writer: &Config) -> Vec<Stored> {
        let [late, other, earlier] = FILES.map(|file| Self::late(writer, file));
        // Only late keys are bound to a file; those of one in the place of other layers are another type.
        let [scalable, rotating] = [Self::scalable as fn(&Config, char) -> Bytes, Self::rotating]
            .map(|build| [OWN, OTHER].map(|file| build(writer, file)));
        let unbound = |[bytes, earlier]: [Bytes; 2]| [bytes, other.clone(), earlier];
        vec![
            Stored::whole(Self::LATE, [late, other.clone(), earlier]),
            Stored::whole(Self::SCALABLE, unbound(scalable)),
            Stored::whole(Self::ROTATING, unbound(rotating)),
        ]
    }

    fn ask(&self, reader: Reader, stored: &Stored, bytes: Option<Bytes>, config: &Config) -> Result<Answers, String> {
        let bytes = bytes.unwrap();
        match stored.form {
            Self::LATE => ask_layers::<StandardBloom, Late>(bytes, Some(id(OWN)), config, reader),
            Self::SCALABLE => ask_layers::<StandardBloom, Scalable>(bytes, None, config, reader),
            _ => ask_layers::<RegisterBlockedBloom, Rotating>(bytes, None, config, reader),
        }
    }
}

/// A range filter.
pub(super) struct Ranges;

impl Ranges {
    fn policy(config: &Config) -> RangePolicy {
        // The five digits of a key are its integer.
        let units = RangeUnits::integer(5).unwrap().with_prefix(config.extractor());
        RangePolicy::hashed(units, 16, FalsePositiveRate::new(0.001).unwrap()).unwrap()
    }

    fn block(config: &Config, (file, name): (char, char)) -> Bytes {
        let mut builder = Self::policy(config).builder(&config.filters().build_context(id(name)));
        keys(file).for_each(|key| builder.add_key(&key));
        builder.finish().block.unwrap()
    }
}

impl Place for Ranges {
    fn name(&self) -> &'static str {
        "ranges"
    }

    fn stored(&self, reader: Reader, writer: &Config) -> Vec<Stored> {
        let policy = Self::policy(writer);
        match reader {
            Reader::View => {
                in_engine("ranges", &writer.store().with_range_filters(policy).without_point_filters(), DESCRIBED)
                    .into()
            }
            Reader::Table => {
                let options = writer.options().without_filter().with_range_filter(policy);
                vec![in_table("ranges", &options, TablePart::RangeFilter)]
            }
            _ => {
                vec![Stored::whole("ranges", FILES.map(|file| Self::block(writer, file)))]
            }
        }
    }

    fn ask(&self, reader: Reader, stored: &Stored, bytes: Option<Bytes>, config: &Config) -> Result<Answers, String> {
        match reader {
            Reader::View => {
                let (store, metadata, file) = in_view(&stored.around, bytes, config);
                let view = view_of(&store, &[(0, &file)]);
                let may_contain = each_probed(|key| view.candidates_in_range(key..=key).count() > 0);
                Ok(Answers {
                    may_contain,
                    problem: file.filters.range_problem().map(named),
                    unusable: Some(file.filters.stats().ranges.unusable),
                    is_found: !store.verify(metadata, &*file.disk).is_empty(),
                })
            }
            Reader::Table => {
                let table = Table::open_source(with_bytes(stored, bytes), &config.options()).map_err(named)?;
                let problem = table.range_filter_problem().map(named);
                let is_found = table.verify().is_err();
                let set = TableSet::new([(0, table)]).unwrap();
                let snapshot = set.snapshot();
                for (position, key) in probed().iter().enumerate() {
                    let found = snapshot.range(&key[..]..=&key[..]).next();
                    let found = found.transpose().map_err(named)?;
                    assert_right(found.as_ref().map(|(_, value)| value), position, probed().len());
                }
                let may_contain = each_probed(|key| snapshot.view().candidates_in_range(key..=key).count() > 0);
                let unusable = Some(set.stats().filters.ranges.unusable);
                Ok(Answers { may_contain, problem, unusable, is_found })
            }
            _ => {
                let (filters, known, extractor) = (config.filters(), known_keys(), config.extractor());
                let known = known.each_ref().map(Vec::as_slice);
                let context = filters.load_context(id(OWN)).with_known_keys(&known);
                let context = RangeContext::new(context, Some(&extractor));
                let filter = RangeFilter::load(bytes.unwrap(), context).map_err(named)?;
                if reader == Reader::Block {
                    return Ok(answers(each_probed(|key| filter.may_contain_range(key..=key)), None));
                }
                let (keys, mut matches) = (probed(), MatchBitmap::default());
                let ranges: Vec<_> = keys.iter().map(|key| (&key[..]..=&key[..]).into()).collect();
                filter.may_contain_range_batch(&ranges, &mut matches);
                Ok(answers(of_positions(matches.iter()), None))
            }
        }
    }
}

/// A map of two files that have no filters of their own.
pub(super) struct Map;

impl Map {
    fn id() -> FileId {
        id('x')
    }

    /// A map of two files, with these keys.
    fn of(config: &Config, map: FileId, files: [(FileId, char); 2]) -> Bytes {
        let options = MapOptions::with_prefix_bits(24).unwrap().with_page_bytes(1 << 10).unwrap();
        let mut builder = MapBuilder::new(&config.filters(), options);
        for (id, file) in files {
            builder.add_file(id, keys(file).map(|key| config.hasher.hash(&key)).collect());
        }
        let mut bytes = Vec::new();
        builder.finish(map, &mut bytes).unwrap();
        bytes.into()
    }

    /// The description of the first file.
    fn file(config: &Config) -> (Bytes, FilterMetadata) {
        let mut builder = config.store().without_point_filters().builder(id(OWN));
        keys(OWN).for_each(|key| builder.add_key(&key));
        builder.finish().seal()
    }

    fn ask_map(reader: Reader, map: &FileMap<Bytes>, config: &Config) -> Vec<bool> {
        let own = map.index().local_id(id(OWN)).unwrap();
        if reader == Reader::Block {
            return each_probed(|key| map.candidates(config.hasher.hash(key)).may_contain(own));
        }
        let set =
            sstfilter_map::MapSet::new(&[Arc::new(FileMap::load_any(map.as_bytes().to_vec()).unwrap())], &[id(OWN)]);
        let mut matches = Vec::new();
        each_probed(|key| {
            set.matches(config.hasher.hash(key), &mut matches);
            matches.contains(&0)
        })
    }

    /// Reads the pages that each key needs, and no others.
    fn ask_pages(bytes: &Bytes, config: &Config) -> Result<Answers, String> {
        let index = MapIndex::load(bytes, bytes.len() as u64, &config.filters(), Self::id()).map_err(named)?;
        let own = index.local_id(id(OWN)).unwrap();
        let mut problem = None;
        let may_contain = each_probed(|key| {
            let (mut lookups, mut may_contain) = (Lookups::new(&index, &[config.hasher.hash(key)]), None);
            while let Some(read) = lookups.reads().first() {
                let [start, end] = [read.range().start, read.range().end].map(|at| usize::try_from(at).unwrap());
                let part = index.open(read, bytes.slice(start..end)).map_err(|error| problem = Some(named(error))).ok();
                lookups.answer(read, part.as_ref(), |_, found| may_contain = Some(found.may_contain(own)));
            }
            may_contain.unwrap()
        });
        Ok(answers(may_contain, problem))
    }
}

impl Place for Map {
    fn name(&self) -> &'static str {
        "map"
    }

    fn stored(&self, reader: Reader, writer: &Config) -> Vec<Stored> {
        let (table, metadata) = if reader == Reader::Table {
            let table = table_of(FILES[0], writer.options().without_filter());
            let opened = Table::open_source(table.clone(), &writer.options()).unwrap();
            (table, opened.filters().metadata().as_ref().clone())
        } else {
            (Bytes::new(), Self::file(writer).1)
        };
        let files = [(metadata.file_id(), OWN), (id(OTHER), OTHER)];
        let (bytes, other) = (Self::of(writer, Self::id(), files), Self::of(writer, id('y'), files));
        let earlier = Self::of(writer, Self::id(), [(metadata.file_id(), OTHER), (id(OTHER), OWN)]);
        let pages = MapIndex::load_any(&bytes, bytes.len() as u64).unwrap();
        let pieces = (0..pages.pages()).map(|page| {
            let range = pages.page_range(page);
            usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()
        });
        let around = Around { metadata: Some(metadata), table, ..Around::default() };
        vec![Stored { form: "files", bytes, other, earlier, pieces: pieces.collect(), around }]
    }

    fn ask(&self, reader: Reader, stored: &Stored, bytes: Option<Bytes>, config: &Config) -> Result<Answers, String> {
        let bytes = bytes.unwrap();
        if reader == Reader::File {
            return Self::ask_pages(&bytes, config);
        }
        let map = Arc::new(FileMap::load(bytes, &config.filters(), Self::id()).map_err(named)?);
        let problem = map.problems().next().map(named);
        let may_contain = match reader {
            Reader::Table => {
                let table = Table::open_source(stored.around.table.clone(), &config.options()).map_err(named)?;
                let set = TableSet::new([(0, table)]).unwrap();
                set.set_maps(&[map]).map_err(named)?;
                ask_set(&set, reader).map_err(named)?
            }
            Reader::View | Reader::Batch => {
                let (store, _, file) = in_view(&stored.around, None, config);
                let view = view_of(&store, &[(0, &file)]).with_maps(&[map]).map_err(named)?;
                candidates(&view, reader == Reader::Batch)
            }
            _ => Self::ask_map(reader, &map, config),
        };
        Ok(answers(may_contain, problem))
    }
}

/// All bytes of a table.
pub(super) struct WholeTable;

impl Place for WholeTable {
    fn name(&self) -> &'static str {
        "table"
    }

    fn stored(&self, _reader: Reader, writer: &Config) -> Vec<Stored> {
        let options = writer.options().with_block_bytes(512).unwrap();
        // Data blocks are not all of one length; parts of two of them change places.
        vec![Stored::whole("whole", FILES.map(|file| table_of(file, options.clone())))]
    }

    fn ask(&self, reader: Reader, _stored: &Stored, bytes: Option<Bytes>, config: &Config) -> Result<Answers, String> {
        match bytes {
            Some(bytes) => open_table(bytes, config, reader),
            None => {
                Table::open("/no/such/table", &config.options()).map(|_| unreachable!("it is there")).map_err(named)
            }
        }
    }
}
