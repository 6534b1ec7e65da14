//! A file of a table, and its ids in maps.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::object_store::ObjectMeta;
use datafusion::object_store::path::Path;
use sstfilter::{FileId, KeyHasher};

use crate::keys::encoding;

/// A Parquet file of a table.
#[derive(Clone, Debug)]
pub struct TableFile {
    pub(crate) meta: ObjectMeta,
    /// What tells its contents from others under the same path; `None` if there never are any.
    version: Option<String>,
    /// The values of the table's partition columns.
    pub(crate) partition: Vec<ScalarValue>,
}

impl From<ObjectMeta> for TableFile {
    /// A file as an object store lists it. Its version is its entity tag and the time when it was written.
    fn from(meta: ObjectMeta) -> Self {
        // Equal content may have the same tag again, after other content had its place in between.
        let version = format!("{}\0{}", meta.e_tag.as_deref().unwrap_or_default(), meta.last_modified.to_rfc3339());
        Self { meta, version: Some(version), partition: Vec::new() }
    }
}

impl TableFile {
    /// A file of a table format that never uses a path for other contents, such as Delta Lake or Iceberg. Of a store's
    /// listing, nothing is needed.
    #[must_use]
    pub fn immutable(path: Path, bytes: u64) -> Self {
        let last_modified = std::time::SystemTime::UNIX_EPOCH.into();
        let meta = ObjectMeta { location: path, last_modified, size: bytes, e_tag: None, version: None };
        Self { meta, version: None, partition: Vec::new() }
    }

    /// Sets the values of the table's partition columns, in their order.
    #[must_use]
    pub fn with_partition(self, values: Vec<ScalarValue>) -> Self {
        Self { partition: values, ..self }
    }

    /// Returns the object.
    #[must_use]
    pub fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    /// Whether other contents may come under its path.
    pub(crate) fn may_change(&self) -> bool {
        self.version.is_some()
    }

    /// Returns the id that the file has in maps of a column of this type, in the object store of `url`. It stands for
    /// the values of the column in one version of the file. A map of another column, or of values that were read as
    /// another type, covers no file of the table.
    ///
    /// # Errors
    ///
    /// Maps cannot have the values of such a column.
    pub fn id(&self, url: &ObjectStoreUrl, column: &str, data_type: &DataType) -> Result<FileId> {
        let ObjectMeta { location, size, .. } = &self.meta;
        let (version, encoding) = (self.version.as_deref().unwrap_or_default(), encoding(column, data_type)?);
        // Paths and tags have no NUL, and the column comes last.
        let text = format!("{}\0{location}\0{size}\0{version}\0{encoding}\0{column}", url.as_str());
        Ok(FileId::from_fingerprint(KeyHasher::default().hash(text.as_bytes()).get()))
    }
}

/// Returns a random number, by which processes tell a table from a later one of the same words. No clock: those of
/// several machines differ.
pub(crate) fn stamp() -> u64 {
    FileId::random().fingerprint()
}
