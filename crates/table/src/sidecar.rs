//! Writing a filter beside a table, from the table's keys.

use std::io;
use std::path::PathBuf;

use sstfilter_store::{BuiltFilters, FilterProblem, TableIdentity, sidecar_path};

use super::io::{TableFile, io_error};
use super::writer::{create_beside, publish};
use super::{FileSystem, Table, TableError, TableLocation, TableOptions, TablePart};

/// New filters for a table that exists, built from its keys.
#[derive(Clone, Debug)]
pub struct BuiltSidecar {
    filters: BuiltFilters,
    table: TableIdentity,
}

impl BuiltSidecar {
    /// The filters.
    #[must_use]
    pub const fn filters(&self) -> &BuiltFilters {
        &self.filters
    }

    /// The table whose keys they hold.
    #[must_use]
    pub const fn table(&self) -> &TableIdentity {
        &self.table
    }
}

impl Table {
    /// What identifies the table to its sidecar.
    #[must_use]
    pub fn identity(&self) -> TableIdentity {
        self.parts.identity()
    }

    /// Builds new filters from the table's keys, and writes them nowhere. See [`write_sidecar`](Self::write_sidecar),
    /// which also says what `options` are for.
    ///
    /// # Errors
    ///
    /// [`TableError::Io`], or damage in the index or in a data block: a filter of the other keys would lose those.
    pub fn build_sidecar(&self, options: &TableOptions) -> Result<BuiltSidecar, TableError> {
        let own = self.store.filters();
        let filters = options.store.filters().clone().with_hasher(own.hasher()).with_key_parts(own.key_parts().clone());
        let mut store = options.store.clone().with_filters(filters);
        if let Some(extractor) = self.store.range_extractor() {
            store = store.with_range_extractor(extractor.clone());
        }
        let properties = self.properties();
        let own = &properties.filters;
        // Whatever the properties claim, an entry takes three bytes at least.
        let max_keys = properties.entries.min(properties.data_bytes / 3);
        let mut builder = store.builder(own.file_id()).with_context(&options.context).with_expected_keys(max_keys);
        if !builder.builds_nothing() {
            let mut entries = 0;
            for entry in self {
                builder.add_key(&entry?.key);
                entries += 1;
            }
            if entries != properties.entries {
                let at = self.file.location(TablePart::Properties, self.parts.handles.properties.offset);
                return Err(TableError::corrupt(at, format!("{entries} entries, as the data has"), properties.entries));
            }
        }
        let mut filters = builder.finish();
        // Alone, it would take the place of the table's filter for lookups.
        if let Some(section) =
            own.ranges().filter(|_| filters.ranges.is_none() && filters.metadata().points().is_some())
        {
            let block = self.parts.filter_bytes(&self.file).read_range(section.range())?;
            filters = filters.with_ranges_of(own, block);
        }
        Ok(BuiltSidecar { filters, table: self.identity() })
    }

    /// Builds a new filter from the table's keys and writes it beside the table, which stays as it is. Tables that are
    /// opened from then on use it instead of their own filter; this one goes on as before.
    ///
    /// Of `options`, the policy, the partitions, the context and the file system count. Keys are hashed, and parts of
    /// them extracted, as *this* table was opened to be probed: to move a store to another hash or extractor, open its
    /// tables with the new [`TableOptions`](super::TableOptions), and write their sidecars.
    ///
    /// All keys are read, and their blocks checked. The sidecar appears whole or not at all, as tables do, and replaces
    /// one that is there. Without a policy, or where the policy declines, nothing is written, and what is returned has
    /// no sections.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use sstfilter_table::{Table, TableOptions, TableWriter};
    /// use sstfilter::{BitsPerKey, KindId, FixedPolicy};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("000007.sst");
    /// let mut writer = TableWriter::create(&path, &TableOptions::default().without_filter())?;
    /// for key in 0..5_000_u32 {
    ///     writer.add(&key.to_be_bytes(), b"value")?;
    /// }
    /// writer.finish()?;
    ///
    /// let table = Table::open(&path, &TableOptions::default())?;
    /// assert!(table.filters().block().is_none());
    /// let ribbon = FixedPolicy::ribbon(BitsPerKey::new(7.0)?)?;
    /// table.write_sidecar(&TableOptions::default().with_policy(Arc::new(ribbon)))?;
    ///
    /// let table = Table::open(&path, &TableOptions::default())?;
    /// assert_eq!(table.filters().block().map(|filter| filter.info().kind), Some(KindId::RIBBON));
    /// assert!(table.uses_sidecar() && table.sidecar_problem().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`build_sidecar`](Self::build_sidecar); [`TableError::Io`] for a table that was not opened by path, and
    /// for each step of writing; an error if another table is at the path by now.
    pub fn write_sidecar(&self, options: &TableOptions) -> Result<BuiltSidecar, TableError> {
        self.place_of_sidecar()?;
        let built = self.build_sidecar(options)?;
        self.install_sidecar(&built, options)?;
        Ok(built)
    }

    /// Writes beside the table what [`build_sidecar`](Self::build_sidecar) has built for it: for those who can end the
    /// long reading of keys at any time, and let the short writing be completed. Gives the sidecar's path and length;
    /// `None` where no filter was built, and nothing written.
    ///
    /// # Errors
    ///
    /// Those of [`write_sidecar`](Self::write_sidecar) that are about writing; [`TableError::Filter`] for the filters
    /// of another table.
    pub fn install_sidecar(
        &self,
        BuiltSidecar { filters, table: got }: &BuiltSidecar,
        options: &TableOptions,
    ) -> Result<Option<(PathBuf, u64)>, TableError> {
        let path = self.place_of_sidecar()?;
        let (expected, got) = (self.identity(), *got);
        if expected != got {
            let at = TableLocation { path: Some(path.into()), part: TablePart::Filter, offset: 0 };
            return Err(TableError::Filter { at, source: FilterProblem::OtherTable { expected, got } });
        }
        if filters.metadata().sections().is_empty() {
            return Ok(None);
        }
        let bytes = filters.clone().seal_as_sidecar(&expected).ok_or_else(|| {
            let problem = "expected a description of filters of at most 256 MiB, got a longer one";
            let source = io::Error::new(io::ErrorKind::InvalidInput, problem);
            TableError::Io { context: "writing", path: Some(path.clone()), source }
        })?;
        let files = options.files.as_ref();
        self.check_in_place(files)?;
        let (path, mut file) = create_beside(files, &path)?;
        let written = file.write_all(&bytes).and_then(|()| file.flush());
        written.map_err(io_error("writing", Some(&path)))?;
        publish(files, file, &path)?;
        Ok(Some((path, bytes.len() as u64)))
    }

    fn place_of_sidecar(&self) -> Result<PathBuf, TableError> {
        self.file.path.as_deref().map(sidecar_path).ok_or_else(|| {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "expected a table that was opened by path");
            TableError::Io { context: "finding the place of a sidecar", path: None, source }
        })
    }

    /// An error if the table at the path is no longer this one: a sidecar of this one would take the place of its own.
    fn check_in_place(&self, files: &dyn FileSystem) -> Result<(), TableError> {
        let Some(path) = self.file.path.as_deref() else { return Ok(()) };
        let source = files.open(path).map_err(io_error("opening", Some(path)))?;
        self.check_parts_of(&TableFile::new(source, Some(path.into()))?)
    }
}
