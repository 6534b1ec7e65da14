//! `sstfilter inspect`: shows tables and bare filter blocks, in one line each or with every field.

pub(crate) mod foreign;
mod overview;
mod sidecar;

use core::fmt;
use core::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;
use foreign::ForeignFields;
pub(crate) use overview::{Overview, State};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use sidecar::{SidecarBeside, SidecarFields};
use sstfilter::{BlockInfo, FilterBlock};
use sstfilter_store::sidecar_path;
use sstfilter_table::{Table, TableError, TablePart};

use crate::files::{self, Found, Look};
use crate::groups::without_path;
use crate::input;
use crate::lines::{KeyLines, KeysFormat};
use crate::opened::{self, Reading};
use crate::output::{Outcome, Text, explained, hex, in_options};
use crate::partitions::{PartitionFields, Partitions};
use crate::parts::HeldParts;
use crate::probe::{BoundsArgs, FileProbes, KeyBatch, Times, probe_file};
use crate::ranges::{RangeBlock, RangeFields};
use crate::units::{bytes, counted, grouped, percent};

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// Tables (also of RocksDB, LevelDB and Pebble), bare filter blocks, or directories of them (not searched
    /// recursively). LevelDB's tables take their comparator from the MANIFEST next to them
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// File of keys that none of the files contains: adds the false positive rate of the filters on these keys
    #[arg(long, value_name = "KEYS")]
    absent: Option<PathBuf>,

    /// Show every field of each file before the overview; by default, each of several files gets one line
    #[arg(long)]
    full: bool,

    /// Show only files whose state is not ok. The exit code is that of all files
    #[arg(long)]
    only_problems: bool,

    /// Name of a key extractor whose parts the filters may hold: bare filters record only a tag of the name. Can be
    /// repeated. The names fixed-prefix:N and prefix-to-byte:0xNN are known
    #[arg(long = "extractor", value_name = "NAME")]
    extractors: Vec<String>,
}

impl InspectArgs {
    /// Returns each file, or an error for each path that leads to none.
    fn files(&self) -> Vec<Result<PathBuf, Unread>> {
        let (mut found, mut all) = (Found::default(), Vec::new());
        for path in &self.files {
            if let Err(problem) = found.add(path) {
                all.push(Err(Unread { path: path.clone(), problem }));
            }
            let mut of_path: Vec<_> = found.files.drain(..).chain(found.orphans.drain(..)).collect();
            of_path.sort();
            all.extend(of_path.into_iter().map(Ok));
        }
        all
    }

    /// Returns the keys of `--absent`, if it was passed.
    fn absent(&self, format: KeysFormat) -> anyhow::Result<Option<KeyLines>> {
        self.absent.as_deref().map(|path| KeyLines::read(path, format, "--absent")).transpose()
    }
}

/// A path that leads to no file, or a file that could not be read.
#[derive(Debug)]
struct Unread {
    path: PathBuf,
    problem: anyhow::Error,
}

/// What the states of `inspect` and `report` do not cover.
const NOT_READ: &str = "data blocks were not checked: `sstfilter verify` checks them";

#[derive(Debug, Serialize)]
pub(crate) struct InspectReport {
    files: Vec<FileReport>,
    /// All files by state, also those that are not shown.
    #[serde(skip)]
    counts: String,
    #[serde(skip)]
    is_full: bool,
    /// A single file needs none.
    #[serde(skip)]
    has_overview: bool,
    #[serde(skip)]
    has_tables: bool,
}

#[derive(Debug, Serialize)]
struct FileReport {
    path: String,
    bytes: u64,
    sound: bool,
    overview: Overview,
    #[serde(flatten)]
    fields: Fields,
    /// Rate on the keys of `--absent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    observed: Option<Observed>,
}

/// The false positive rate on given keys.
#[derive(Debug, Serialize)]
struct Observed {
    keys: usize,
    /// Keys that the filter cannot answer, because it holds no part of such keys.
    keys_not_probed: u64,
    positives: u64,
    /// Null if the filter was probed for no key.
    rate: Option<f64>,
    expected_rate: Option<f64>,
}

impl Observed {
    fn new(path: &Path, keys: &KeyBatch<'_>, reading: Reading<'_>) -> Self {
        // The rate of the filter itself: the key range of the table would exclude keys before it.
        let filters_only = BoundsArgs { filters_only: true };
        let (found, _) = probe_file(path, keys, reading, filters_only, &mut Times::default());
        let FileProbes { keys_not_probed, positives, observed_rate: rate, expected_rate, .. } = found;
        Self { keys: keys.keys.len(), keys_not_probed, positives, rate, expected_rate }
    }
}

impl fmt::Display for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.rate.map_or_else(|| "unknown".to_owned(), percent);
        let (positives, keys) = (grouped(self.positives), grouped(self.keys as u64 - self.keys_not_probed));
        let expected = self.expected_rate.map(|rate| format!("; {} expected", percent(rate))).unwrap_or_default();
        writeln!(f, "  on the keys given\n    {:<17} {rate}: {positives} of {keys}{expected}", "observed rate")?;
        match self.keys_not_probed {
            0 => Ok(()),
            keys => {
                writeln!(f, "    {:<17} {}: the filter holds no part of such keys", "not probed", counted(keys, "key"))
            }
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Fields {
    Table(Box<TableFields>),
    FilterBlock(Box<FilterFields>),
    RangeFilter(Box<RangeFields>),
    PartitionedFilter(Box<PartitionFields>),
    Sidecar(Box<SidecarFields>),
    ForeignTable(Box<ForeignFields>),
    Problem(String),
}

/// Inspects all files. The answer is no if a file is neither a table nor a filter block, or shows damage. It is a
/// failure if part of a file could not be read.
pub(crate) fn run(
    args: &InspectArgs,
    format: KeysFormat,
    reading: Reading<'_>,
) -> anyhow::Result<(Outcome, InspectReport)> {
    let absent = args.absent(format)?;
    // One batch for all files, so that keys are hashed once.
    let keys = absent.as_ref().map(|lines| KeyBatch::new(lines.iter().map(|(key, _)| key).collect()));
    let report = |path: PathBuf| {
        let mut report = FileReport::new(&path, reading).map_err(|problem| Unread { path: path.clone(), problem })?;
        report.fields.name_parts(&args.extractors);
        report.observed = keys.as_ref().map(|keys| Observed::new(&path, keys, reading));
        Ok(report)
    };
    let mut files = all_unless_none(args.files().into_iter().map(|file| file.and_then(report)).collect())?;
    let states = || files.iter().map(|file| file.overview.state);
    let outcome = states().map(State::outcome).max().unwrap_or(Outcome::Yes);
    let counts = format!("{}: {}", counted(files.len() as u64, "file"), State::counts(states()));
    let is_single = files.len() == 1;
    let has_tables = files.iter().any(|file| file.overview.format.ends_with("table"));
    files.retain(|file| !args.only_problems || file.overview.state != State::Ok);
    // A single file has room for every field.
    let (is_full, has_overview) = (args.full || is_single, !is_single || files.is_empty());
    Ok((outcome, InspectReport { files, counts, is_full, has_overview, has_tables }))
}

/// Returns a file's length and overview, even if it cannot be read.
pub(crate) fn look_over(path: &Path, reading: Reading<'_>) -> (u64, Overview) {
    let unread = |problem| FileReport::unread(&Unread { path: path.to_owned(), problem });
    let FileReport { bytes, overview, .. } = FileReport::new(path, reading).unwrap_or_else(unread);
    (bytes, overview)
}

/// Returns all reports, with a problem for each file that could not be read. Fails if no file could be read.
fn all_unless_none(mut files: Vec<Result<FileReport, Unread>>) -> anyhow::Result<Vec<FileReport>> {
    if files.iter().all(Result::is_err)
        && let Some(Err(first)) = files.drain(..).next()
    {
        return Err(first.problem);
    }
    Ok(files.into_iter().map(|file| file.unwrap_or_else(|unread| FileReport::unread(&unread))).collect())
}

impl FileReport {
    fn unread(unread: &Unread) -> Self {
        let fields = Fields::Problem(explained(&unread.problem));
        Self {
            path: input::name(&unread.path).into_owned(),
            bytes: 0,
            sound: false,
            overview: Overview::new(&fields, Outcome::Failed),
            fields,
            observed: None,
        }
    }

    /// Inspects a file. Fails only if the file cannot be read at all.
    fn new(path: &Path, reading: Reading<'_>) -> anyhow::Result<Self> {
        let look = files::look_at(path)?;
        // Kept even if the contents cannot be inspected.
        let bytes = match input::length(path) {
            None if input::is_standard(path) => input::RegularFile::open(path)?.length,
            length => length.unwrap_or(0),
        };
        let (damage, fields) = match fields(path, look, reading) {
            // A failure to read is not damage, and is reported as unread.
            Err(problem) if problem.root_cause().is::<std::io::Error>() => return Err(problem),
            found => found.unwrap_or_else(|problem| {
                // An unknown version is not damage, but the file could not be inspected.
                let outcome = opened::outcome_of(&problem);
                let outcome = if outcome == Outcome::Yes { Outcome::Failed } else { outcome };
                (outcome, Fields::Problem(explained(&problem)))
            }),
        };
        let mut overview = Overview::new(&fields, damage);
        if let Some((state, remark)) = beside(path, look, reading) {
            overview = overview.with_remark(state, Some(remark));
        }
        // A table that cannot be opened is recognized all the same.
        if look == Look::Table {
            overview.format = "table".into();
        }
        // The manifest records a table's level even if the table is damaged.
        overview.level = overview.level.or_else(|| reading.manifests.level(path));
        let (path, sound) = (input::name(path).into_owned(), overview.state.is_sound());
        Ok(Self { path, bytes, sound, overview, fields, observed: None })
    }

    /// Returns the state and what explains it.
    fn state(&self) -> String {
        let remark = self.overview.remark.as_deref().map(|remark| without_path(remark, &self.path));
        match (self.overview.state, remark) {
            (State::Ok, Some(remark)) => remark,
            (state, Some(remark)) => format!("{}: {remark}", state.name()),
            (state, None) => state.name().to_owned(),
        }
    }
}

/// Returns what the files next to a file mean for it, other than a sidecar of our table.
fn beside(path: &Path, look: Look, reading: Reading<'_>) -> Option<(State, String)> {
    match look {
        Look::Sidecar | Look::Neither if files::is_orphan(path) => Some((State::Orphan, files::ORPHAN.to_owned())),
        Look::Sidecar => {
            files::is_stale_sidecar(path, reading.of_tables()).then(|| (State::Stale, files::STALE.to_owned()))
        }
        Look::Foreign(_) if !input::is_standard(path) => {
            let is_sidecar = matches!(files::look_at(&sidecar_path(path)), Ok(Look::Sidecar));
            let remark =
                || "the sidecar next to the table is ignored: only tables of sstfilter have sidecars".to_owned();
            is_sidecar.then(|| (State::Ok, remark()))
        }
        _ => None,
    }
}

impl Fields {
    /// Returns the problems of the parts of a table.
    fn problems(&self) -> Vec<String> {
        let Self::Table(table) = self else { return Vec::new() };
        let of_partitions = table.partitions.as_ref().and_then(PartitionFields::problem);
        let sidecar = table.sidecar.as_ref();
        let has_own = table.filter.is_some() || table.partitions.is_some();
        let instead = if has_own { "; the table's own filter is used" } else { "" };
        let of_sidecar = sidecar.filter(|sidecar| !sidecar.is_stale).and_then(|sidecar| sidecar.problem.as_deref());
        let of_sidecar = of_sidecar.map(|problem| format!("{problem}{instead}"));
        let in_sidecar = sidecar.and_then(|sidecar| sidecar.fields.as_ref()?.partitions.as_ref()?.problem());
        let own = [table.filter_problem.as_deref(), of_partitions, table.range_filter_problem.as_deref()];
        own.into_iter().chain([of_sidecar.as_deref(), in_sidecar]).flatten().map(str::to_owned).collect()
    }

    /// Names the extractors of filters whose files do not record their names.
    fn name_parts(&mut self, names: &[String]) {
        match self {
            Self::FilterBlock(filter) => filter.key_parts.name(names),
            Self::PartitionedFilter(partitions) => partitions.key_parts.name(names),
            Self::Table(_) | Self::RangeFilter(_) | Self::Sidecar(_) | Self::ForeignTable(_) | Self::Problem(_) => {}
        }
    }
}

fn fields(path: &Path, look: Look, reading: Reading<'_>) -> anyhow::Result<(Outcome, Fields)> {
    match look {
        Look::Table => {
            // Without the sidecar, whose filter would hide the table's own.
            let table = files::open_table_alone(path, reading.of_tables())?;
            let fields = TableFields { sidecar: SidecarBeside::new(path, reading)?, ..TableFields::new(path, &table) };
            let of_partitions = fields.partitions.as_ref().map_or(Outcome::Yes, |partitions| partitions.outcome);
            let of_filters = outcome_of(table.filter_problem().as_ref()).max(of_partitions);
            let own = of_filters.max(outcome_of(table.range_filter_problem().as_ref()));
            let outcome = match &fields.sidecar {
                Some(sidecar) if sidecar.is_sound() && own == Outcome::No => Outcome::Yes,
                Some(sidecar) => own.max(sidecar.outcome),
                None => own,
            };
            Ok((outcome, Fields::Table(Box::new(TableFields { is_damaged: own == Outcome::No, ..fields }))))
        }
        Look::Sidecar => {
            let fields = SidecarFields::new(path)?;
            Ok((fields.outcome(), Fields::Sidecar(Box::new(fields))))
        }
        Look::FilterBlock => {
            let filter = FilterFields::new(&FilterBlock::open_unverified(crate::file::open::whole(path)?)?);
            Ok((Outcome::from_sound(filter.checksum_state == "ok"), Fields::FilterBlock(Box::new(filter))))
        }
        Look::RangeFilter => {
            let fields = RangeFields::of_block(&RangeBlock::new(crate::file::open::whole(path)?)?);
            Ok((Outcome::from_sound(fields.is_sound()), Fields::RangeFilter(Box::new(fields))))
        }
        Look::Partitions => {
            let fields = PartitionFields::new(&opened::container(path)?.partitions());
            Ok((fields.outcome, Fields::PartitionedFilter(Box::new(fields))))
        }
        Look::Foreign(_) => {
            let (table, taken) = opened::foreign_to_probe(path, reading)?;
            let level = reading.manifests.level(path);
            let fields = ForeignFields::new(&table, taken.as_ref(), level);
            Ok((fields.outcome, Fields::ForeignTable(Box::new(fields))))
        }
        Look::Map => Err(files::is_a_map(path)),
        Look::Layers | Look::Neither => bail!("{}", files::neither(path)),
    }
}

/// Returns what a filter's problem, if there is one, means for its file.
fn outcome_of(problem: Option<&TableError>) -> Outcome {
    problem.map_or(Outcome::Yes, files::outcome_of_filter)
}

impl fmt::Display for InspectReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for file in self.files.iter().filter(|_| self.is_full) {
            match &file.fields {
                Fields::Table(table) => write!(f, "{}: table of {} bytes\n{table}", file.path, grouped(file.bytes))?,
                Fields::FilterBlock(filter) => write!(f, "{}: filter block\n{filter}", file.path)?,
                Fields::RangeFilter(filter) => write!(f, "{}: range filter block\n{filter}", file.path)?,
                Fields::PartitionedFilter(filter) => write!(f, "{}: partitioned filter\n{filter}", file.path)?,
                Fields::Sidecar(sidecar) => {
                    write!(f, "{}: sidecar of {} bytes\n{sidecar}", file.path, grouped(file.bytes))?;
                }
                Fields::ForeignTable(table) => {
                    let bytes = grouped(file.bytes);
                    write!(f, "{}: {} table of {bytes} bytes\n{table}", file.path, table.engine)?;
                }
                Fields::Problem(problem) if problem.contains(&file.path) => writeln!(f, "{problem}")?,
                Fields::Problem(problem) => writeln!(f, "{}: {problem}", file.path)?,
            }
            if !matches!(file.fields, Fields::Problem(_)) {
                let is_explained = file.overview.state == State::Ok && file.overview.remark.is_some();
                writeln!(f, "  state: {}{}", if is_explained { "ok: " } else { "" }, file.state())?;
            }
            file.observed.iter().try_for_each(|observed| write!(f, "{observed}"))?;
        }
        if self.has_overview {
            overview::write(f, &self.files, &self.counts)?;
        }
        if self.has_tables { writeln!(f, "{NOT_READ}") } else { Ok(()) }
    }
}

/// All fields of a table that are known without reading its data.
#[derive(Debug, Serialize)]
struct TableFields {
    table_id: String,
    properties: Properties,
    layout: Vec<RegionFields>,
    /// The table's own filter, unless it has partitions.
    filter: Option<FilterFields>,
    partitions: Option<PartitionFields>,
    filter_problem: Option<String>,
    range_filter: Option<RangeFields>,
    range_filter_problem: Option<String>,
    /// The sidecar next to the table. Unless it has a problem, its filters replace the table's own.
    sidecar: Option<SidecarBeside>,
    /// Whether one of the table's own filters is damaged.
    #[serde(skip)]
    is_damaged: bool,
}

/// The table's properties by name, in one list for JSON and for text.
#[derive(Debug)]
struct Properties([(&'static str, Property); 14]);

/// A property in JSON and in text.
type Property = (Value, String);

#[derive(Debug, Serialize)]
struct RegionFields {
    name: &'static str,
    offset: u64,
    bytes: u64,
}

impl TableFields {
    fn new(path: &Path, table: &Table) -> Self {
        let region = |(part, at): (TablePart, Range<u64>)| RegionFields {
            name: part.name(),
            offset: at.start,
            bytes: at.end - at.start,
        };
        let (filters, names) = (table.filters(), || table.properties().filters.extractors());
        let mut partitions = Partitions::of_table(table, path).as_ref().map(PartitionFields::new);
        partitions.iter_mut().for_each(|partitions| partitions.key_parts.name(names()));
        Self {
            table_id: hex(table.table_id()),
            properties: Properties::new(table),
            layout: table.layout().into_iter().map(region).collect(),
            filter: filters.block().map(|block| FilterFields::new(block).with_names(names())),
            partitions,
            filter_problem: table.filter_problem().as_ref().map(in_options),
            range_filter: filters.range_filter().map(|filter| RangeFields::new(filter.info(), filter.verify())),
            range_filter_problem: range_filter_problem(table),
            sidecar: None,
            is_damaged: false,
        }
    }

    /// Describes the use of the sidecar.
    fn replacement(&self) -> String {
        let own = if self.is_damaged { "the table's own filter is damaged; " } else { "" };
        let of_sidecar = self.sidecar.as_ref().and_then(|sidecar| sidecar.fields.as_ref());
        let lacks_ranges = self.layout.iter().any(|region| region.name == TablePart::RangeFilter.name())
            && of_sidecar.is_some_and(|fields| fields.range_filter.is_none());
        let ranges = if lacks_ranges { "; the sidecar has no range filter" } else { "" };
        format!("{own}the sidecar's filter is used{ranges}")
    }
}

/// Returns why there is no usable range filter.
fn range_filter_problem(table: &Table) -> Option<String> {
    let missing = || table.properties().range_filter_missing.clone();
    table.range_filter_problem().as_ref().map(in_options).or_else(missing)
}

impl Properties {
    fn new(table: &Table) -> Self {
        let properties = table.properties();
        let number = |number: u64| (json!(number), grouped(number));
        let text = |bytes: Option<&[u8]>| {
            let text = bytes.map(|bytes| Text(bytes.to_vec()));
            (json!(text), text.map_or_else(|| "none".to_owned(), |text| text.to_string()))
        };
        Self([
            ("entries", number(properties.entries)),
            ("tombstones", number(properties.tombstones)),
            ("raw_key_bytes", number(properties.raw_key_bytes)),
            ("raw_value_bytes", number(properties.raw_value_bytes)),
            ("data_blocks", number(properties.data_blocks)),
            ("data_bytes", number(properties.data_bytes)),
            ("block_bytes", number(properties.block_bytes)),
            ("restart_interval", number(properties.restart_interval)),
            ("smallest_key", text(properties.filters.key_bounds().map(|(smallest, _)| smallest))),
            ("largest_key", text(properties.filters.key_bounds().map(|(_, largest)| largest))),
            (
                "level",
                (
                    json!(properties.level),
                    properties.level.map_or_else(|| "unknown".to_owned(), |level| level.to_string()),
                ),
            ),
            ("hash", text(Some(properties.filters.hash_identity().to_string().as_bytes()))),
            ("key_parts", text(Some(properties.filters.key_parts().as_bytes()))),
            ("filter_policy", text(properties.filter_policy.as_ref().map(String::as_bytes))),
        ])
    }
}

impl Properties {
    /// Returns a property that is a number.
    fn number(&self, name: &str) -> Option<u64> {
        self.0.iter().find(|(found, _)| *found == name)?.1.0.as_u64()
    }
}

impl Serialize for Properties {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, (value, _))| (name, value)))
    }
}

impl fmt::Display for TableFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  table id {}\n  properties", self.table_id)?;
        for (name, (_, value)) in &self.properties.0 {
            writeln!(f, "    {:<17} {value}", name.replace('_', " "))?;
        }
        writeln!(f, "  layout")?;
        for RegionFields { name, offset, bytes } in &self.layout {
            writeln!(f, "    {name:<17} {:>15} bytes at {}", grouped(*bytes), grouped(*offset))?;
        }
        match (&self.filter, &self.partitions, &self.filter_problem) {
            (Some(filter), ..) => write!(f, "  filter\n{filter}")?,
            (None, Some(partitions), _) => write!(f, "  partitioned filter\n{partitions}")?,
            (None, None, Some(problem)) => writeln!(f, "  filter not usable: {problem}")?,
            (None, None, None) => writeln!(f, "  no filter")?,
        }
        match (&self.range_filter, &self.range_filter_problem) {
            (Some(filter), _) => write!(f, "  range filter\n{filter}")?,
            (None, Some(problem)) => writeln!(f, "  range filter not usable: {problem}")?,
            (None, None) => {}
        }
        self.sidecar.iter().try_for_each(|sidecar| write!(f, "{sidecar}"))
    }
}

/// The fields of a filter block's trailer, and figures derived from them.
#[derive(Debug)]
struct FilterFields {
    info: BlockInfo,
    key_parts: HeldParts,
    checksum_state: String,
    fill_ratio: Option<f64>,
}

impl FilterFields {
    fn new<D: AsRef<[u8]>>(block: &FilterBlock<D>) -> Self {
        let checksum_state = block.verify().map_or_else(|error| error.to_string(), |()| "ok".to_owned());
        let info = block.info();
        let key_parts = HeldParts::of_block(&info);
        Self { info, key_parts, checksum_state, fill_ratio: block.fill_ratio() }
    }

    fn with_names(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.key_parts.name(names);
        self
    }
}

impl Serialize for FilterFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let info = &self.info;
        serializer.collect_map([
            ("format_version", json!(info.format_version)),
            ("kind", json!(info.kind.name())),
            ("kind_code", json!(info.kind.code())),
            ("requested", json!(info.requested.name())),
            ("requested_code", json!(info.requested.code())),
            ("reason", json!(info.reason.as_str())),
            ("hash", json!(info.hash.to_string())),
            ("hash_id", json!(info.hash.id.code())),
            ("hash_seed", json!(format!("{:#018x}", info.hash.seed))),
            ("file_fingerprint", json!(info.file.map(|file| format!("{:#018x}", file.fingerprint())))),
            ("salt", json!(info.salt)),
            ("keys", json!(info.keys)),
            ("key_parts", json!(self.key_parts)),
            ("block_bytes", json!(info.block_bytes)),
            ("payload_bytes", json!(info.payload_bytes)),
            ("payload_checksum", json!(format!("{:#010x}", info.payload_checksum))),
            ("checksum_state", json!(self.checksum_state)),
            ("shape", json!(info.shape)),
            // Null for a block without keys: JSON has no NaN.
            ("bits_per_key", json!(info.bits_per_key())),
            ("expected_fpr", json!(info.expected_fpr)),
            ("fill_ratio", json!(self.fill_ratio)),
        ])
    }
}

impl fmt::Display for FilterFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = &self.info;
        let mut field = |name: &str, value: String| writeln!(f, "    {name:<17} {value}");
        field("kind", format!("{} ({})", info.kind, info.kind.code()))?;
        field("requested kind", format!("{} ({})", info.requested, info.requested.code()))?;
        field("reason", info.reason.to_string())?;
        field("keys", grouped(info.keys))?;
        field("holds", self.key_parts.to_string())?;
        field("block", format!("{} bytes ({})", grouped(info.block_bytes), bytes(info.block_bytes)))?;
        field("payload", format!("{} bytes", grouped(info.payload_bytes)))?;
        let bits_per_key = format!("{:.3}", info.bits_per_key());
        field("bits per key", if info.keys == 0 { "none: no keys".to_owned() } else { bits_per_key })?;
        field("expected rate", percent(info.expected_fpr))?;
        for (name, value) in &info.shape {
            field(name, value.clone())?;
        }
        if let Some(fill) = self.fill_ratio {
            field("fill", percent(fill))?;
        }
        field("hash", info.hash.to_string())?;
        let file = info.file.map(|file| format!("the file with fingerprint {:#018x}", file.fingerprint()));
        field("bound to", file.unwrap_or_else(|| "no file".to_owned()))?;
        field("salt", info.salt.to_string())?;
        field("format version", info.format_version.to_string())?;
        field("payload checksum", format!("{:#010x} ({})", info.payload_checksum, self.checksum_state))
    }
}
