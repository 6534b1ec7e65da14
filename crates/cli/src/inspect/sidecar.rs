//! The fields of a sidecar.

use core::fmt;
use std::path::Path;

use serde::Serialize;
use sstfilter::FilterBlock;
use sstfilter_store::{FilterPart, sidecar_path};

use super::{FilterFields, outcome_of};
use crate::groups::without_path;
use crate::opened::{Reading, Sidecar};
use crate::output::{Outcome, in_options};
use crate::partitions::PartitionFields;
use crate::ranges::{RangeBlock, RangeFields};
use crate::units::grouped;
use crate::{files, input};

/// The sidecar that was found next to a table.
#[derive(Debug, Serialize)]
pub(super) struct SidecarBeside {
    path: String,
    #[serde(flatten)]
    pub(super) fields: Option<SidecarFields>,
    pub(super) problem: Option<String>,
    /// Whether it was made for another table.
    #[serde(skip)]
    pub(super) is_stale: bool,
    /// What it means for its table. A stale sidecar is not damaged.
    #[serde(skip)]
    pub(super) outcome: Outcome,
}

impl SidecarBeside {
    /// Returns the sidecar of the table at `path`, if it has one.
    pub(super) fn new(path: &Path, reading: Reading<'_>) -> anyhow::Result<Option<Self>> {
        let table = files::open_table(path, reading.of_tables())?;
        let problem = table.sidecar_problem();
        if problem.is_none() && !table.uses_sidecar() {
            return Ok(None);
        }
        let sidecar = sidecar_path(path);
        // A sidecar that cannot be used is still shown as far as it can be read.
        let fields = SidecarFields::new(&sidecar).ok();
        let is_stale = problem.is_some_and(files::is_stale);
        let outcome = outcome_of(problem).max(fields.as_ref().map_or(Outcome::Yes, SidecarFields::outcome));
        Ok(Some(Self {
            path: input::name(&sidecar).into_owned(),
            fields,
            problem: problem.map(in_options),
            is_stale,
            outcome: if is_stale { Outcome::Yes } else { outcome },
        }))
    }

    /// Whether all of its filters are used instead of the table's own.
    pub(super) fn is_sound(&self) -> bool {
        self.problem.is_none() && self.outcome == Outcome::Yes
    }
}

/// The fields of a sidecar.
#[derive(Debug, Serialize)]
pub(super) struct SidecarFields {
    file_fingerprint: String,
    table_bytes: u64,
    table_checksum: String,
    /// Names of extractors; an empty one stands for whole keys.
    key_parts: Vec<String>,
    /// The point filter, unless it has partitions.
    pub(super) filter: Option<FilterFields>,
    pub(super) partitions: Option<PartitionFields>,
    pub(super) range_filter: Option<RangeFields>,
}

impl SidecarFields {
    pub(super) fn new(path: &Path) -> anyhow::Result<Self> {
        let sidecar = Sidecar::new(crate::file::open::whole(path)?)?;
        let (table, metadata) = (sidecar.table, &sidecar.metadata);
        let mut partitions = sidecar.container()?.map(|container| PartitionFields::new(&container.partitions()));
        partitions.iter_mut().for_each(|partitions| partitions.key_parts.name(metadata.extractors()));
        let filter = sidecar.filter(FilterPart::Points).map(FilterBlock::open_unverified).transpose()?;
        let range_filter = sidecar.filter(FilterPart::Ranges).map(RangeBlock::new).transpose()?;
        let whole_keys = metadata.has_whole_keys().then(String::new);
        Ok(Self {
            file_fingerprint: format!("{:#018x}", table.file.fingerprint()),
            table_bytes: table.bytes,
            table_checksum: format!("{:#010x}", table.checksum),
            key_parts: whole_keys.into_iter().chain(metadata.extractors().map(str::to_owned)).collect(),
            filter: filter.map(|filter| FilterFields::new(&filter).with_names(metadata.extractors())),
            partitions,
            range_filter: range_filter.as_ref().map(RangeFields::of_block),
        })
    }

    /// Returns the worst outcome of the filters.
    pub(super) fn outcome(&self) -> Outcome {
        let is_sound = self.filter.as_ref().is_none_or(|filter| filter.checksum_state == "ok");
        let of_partitions = self.partitions.as_ref().map_or(Outcome::Yes, |partitions| partitions.outcome);
        let is_range_filter_sound = self.range_filter.as_ref().is_none_or(RangeFields::is_sound);
        Outcome::from_sound(is_sound && is_range_filter_sound).max(of_partitions)
    }
}

impl fmt::Display for SidecarFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, checksum) = (grouped(self.table_bytes), &self.table_checksum);
        writeln!(f, "    {:<17} {}, {bytes} bytes, checksum {checksum}", "for table", self.file_fingerprint)?;
        self.partitions.iter().try_for_each(|partitions| write!(f, "{partitions}"))?;
        self.filter.iter().try_for_each(|filter| write!(f, "{filter}"))?;
        self.range_filter.iter().try_for_each(|filter| write!(f, "  range filter\n{filter}"))
    }
}

impl fmt::Display for SidecarBeside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            None => writeln!(f, "  sidecar, used instead: {}", self.path)?,
            Some(problem) => writeln!(f, "  sidecar not usable: {}: {}", self.path, without_path(problem, &self.path))?,
        }
        self.fields.iter().try_for_each(|fields| write!(f, "{fields}"))
    }
}
