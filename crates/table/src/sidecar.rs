//! Writes new filters for an existing table, from the table's keys.

use std::io;
use std::path::PathBuf;

use sstfilter_store::{BuiltFilters, FilterProblem, TableIdentity, sidecar_path};

use super::io::{TableFile, io_error};
use super::writer::{create_beside, publish};
use super::{FileSystem, Table, TableError, TableLocation, TableOptions, TablePart};

impl Table {
    /// Returns the identity that binds a sidecar to the table.
    #[must_use]
    pub fn identity(&self) -> TableIdentity {
        self.parts.identity()
    }

    /// Builds new filters from the table's keys, without writing them. For `options`, see
    /// [`write_sidecar`](Self::write_sidecar).
    ///
    /// # Errors
    ///
    /// [`TableError::Io`], or damage in the index or in a data block: a filter without the damaged keys would lose
    /// them.
    pub fn build_sidecar(&self, options: &TableOptions) -> Result<BuiltFilters, TableError> {
        let own = self.store.filters();
        let filters =
            options.store.filters().clone().with_hasher(own.hasher().clone()).with_key_parts(own.key_parts().clone());
        let mut store = options.store.clone().with_filters(filters);
        if let Some(extractor) = self.store.range_extractor() {
            store = store.with_range_extractor(extractor.clone());
        }
        let properties = self.properties();
        let own = &properties.filters;
        // The properties of an untrusted file may claim any count, but an entry takes at least three bytes.
        let max_keys = properties.entries.min(properties.data_bytes / 3);
        let builder = store.sidecar_builder(&self.identity());
        let mut builder = builder.with_context(&options.context).with_expected_keys(max_keys);
        if !builder.builds_nothing() {
            let mut entries = 0;
            for entry in self {
                builder.add_key(&entry?.key);
                entries += 1;
            }
            if entries != properties.entries {
                let at = self.file.location(TablePart::Properties, self.parts.handles.properties.offset);
                return Err(TableError::corrupt(at, format!("{entries} entries, as in the data"), properties.entries));
            }
        }
        let mut built = builder.finish();
        // A sidecar replaces both filters, so the table's own range filter is copied unless a new one was built. It is
        // not copied alone, because such a sidecar would hide the table's point filter.
        if let Some(section) =
            own.ranges().filter(|_| built.range_report.is_none() && built.metadata().points().is_some())
        {
            let block = self.parts.filter_bytes(&self.file).read_range(section.range())?;
            built = built.with_ranges_of(own, block);
        }
        Ok(built)
    }

    /// Builds a new filter from the table's keys and writes it to a file next to the table, which does not change.
    /// Tables opened from then on use it instead of their own filter; this one keeps its filter.
    ///
    /// Uses only the policy, partitions, context and file system of `options`. Hasher and extractors are those that
    /// *this* table was opened with. To move a store to another hash or extractor, open its tables with the new
    /// [`TableOptions`](super::TableOptions) and write their sidecars.
    ///
    /// Reads all keys and checks their blocks. The sidecar appears whole or not at all, like a table, and replaces an
    /// existing one. Without a policy, or if the policy declines, nothing is written, and the returned filters have no
    /// sections.
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
    /// The errors of [`build_sidecar`](Self::build_sidecar); [`TableError::Io`] for a table that was not opened by
    /// path, and for each step of writing; an error if the path now holds another table.
    pub fn write_sidecar(&self, options: &TableOptions) -> Result<BuiltFilters, TableError> {
        self.path_of_sidecar()?;
        let built = self.build_sidecar(options)?;
        self.install_sidecar(&built, options)?;
        Ok(built)
    }

    /// Writes the filters that [`build_sidecar`](Self::build_sidecar) built for this table. Call the two separately if
    /// the long build may be cancelled but the short write should complete. Returns the sidecar's path and length;
    /// `None` if no filter was built, and nothing written.
    ///
    /// # Errors
    ///
    /// The write errors of [`write_sidecar`](Self::write_sidecar); [`TableError::Filter`] for filters of another table.
    pub fn install_sidecar(
        &self,
        built: &BuiltFilters,
        options: &TableOptions,
    ) -> Result<Option<(PathBuf, u64)>, TableError> {
        let path = self.path_of_sidecar()?;
        let expected = self.identity();
        let got = built.table().ok_or_else(|| {
            let problem = "expected filters that a builder of sidecars made, got those of a new file";
            let source = io::Error::new(io::ErrorKind::InvalidInput, problem);
            TableError::Io { context: "writing", path: Some(path.clone()), source }
        })?;
        if expected != got {
            let at = TableLocation { path: Some(path.into()), part: TablePart::Filter, offset: 0 };
            return Err(TableError::Filter { at, source: FilterProblem::OtherTable { expected, got } });
        }
        if built.metadata().sections().is_empty() {
            return Ok(None);
        }
        let bytes = built.clone().seal_sidecar().ok_or_else(|| {
            let problem = "expected a description of filters of at most 256 MiB, got a longer one";
            let source = io::Error::new(io::ErrorKind::InvalidInput, problem);
            TableError::Io { context: "writing", path: Some(path.clone()), source }
        })?;
        let files = options.files.as_ref();
        // The table may have been replaced since its keys were read.
        self.check_in_place(files)?;
        let (path, mut file) = create_beside(files, &path)?;
        let written = file.write_all(&bytes).and_then(|()| file.flush());
        written.map_err(io_error("writing", Some(&path)))?;
        publish(files, file, &path)?;
        Ok(Some((path, bytes.len() as u64)))
    }

    fn path_of_sidecar(&self) -> Result<PathBuf, TableError> {
        self.file.path.as_deref().map(sidecar_path).ok_or_else(|| {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "expected a table that was opened by path");
            TableError::Io { context: "finding the path of a sidecar", path: None, source }
        })
    }

    /// Checks that the path still holds this table: a sidecar for this table would replace that of the new one.
    fn check_in_place(&self, files: &dyn FileSystem) -> Result<(), TableError> {
        let Some(path) = self.file.path.as_deref() else { return Ok(()) };
        let source = files.open(path).map_err(io_error("opening", Some(path)))?;
        self.check_parts_of(&TableFile::new(source, Some(path.into()))?)
    }
}
