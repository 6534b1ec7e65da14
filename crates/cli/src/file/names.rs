//! Names of tables, sidecars and temporary files, and what they tell.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The extension of table files.
const EXTENSION: &str = "sst";

/// The extension of files that hold a bare filter block.
const FILTER_EXTENSION: &str = "filter";

/// The extension of LevelDB's tables.
const LEVELDB_EXTENSION: &str = "ldb";

/// Returns the name of table `number`; the first is 1.
pub(crate) fn table_name(number: u64) -> String {
    format!("{number:06}.{EXTENSION}")
}

/// Returns the number in a table's name: 10 for `000010.sst` and `10.sst`.
pub(crate) fn table_number(path: &Path) -> Option<u64> {
    engine_number(path).filter(|_| has_table_extension(path))
}

/// Returns the number in the name of an engine's table: 11 for `000011.sst` and `000011.ldb`.
pub(crate) fn engine_number(path: &Path) -> Option<u64> {
    let stem = path.file_stem()?.to_str().filter(|_| is_named_like_table(path))?;
    // Only digits, because `parse` accepts a sign.
    stem.bytes().all(|byte| byte.is_ascii_digit()).then(|| stem.parse().ok())?
}

/// Whether [`table_name`] returns this name.
pub(crate) fn is_numbered_by_us(path: &Path) -> bool {
    table_number(path).is_some_and(|number| path.file_name() == Some(OsStr::new(&table_name(number))))
}

pub(crate) fn is_named_as_filter(path: &Path) -> bool {
    has_extension(path, FILTER_EXTENSION)
}

/// Whether the name is that of a table, including LevelDB's.
pub(crate) fn is_named_like_table(path: &Path) -> bool {
    has_table_extension(path) || has_extension(path, LEVELDB_EXTENSION)
}

pub(crate) fn has_table_extension(path: &Path) -> bool {
    has_extension(path, EXTENSION)
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

/// Returns the path of the table that a sidecar of this name belongs to, whether or not that table exists.
pub(crate) fn table_beside(sidecar: &Path) -> Option<PathBuf> {
    table_of_sidecar(sidecar).filter(|table| has_table_extension(table))
}

/// Returns the file that a sidecar of this name would be used for, whatever that file's extension.
pub(crate) fn table_of_sidecar(sidecar: &Path) -> Option<PathBuf> {
    has_extension(sidecar, FILTER_EXTENSION).then(|| sidecar.with_extension(""))
}

/// Whether the name is that of a temporary file, or directory of such files, that a killed writer left.
pub(crate) fn is_leftover(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    // By default, `tempfile` inserts six random letters and digits.
    let drawn = name.strip_prefix(".sstfilter-").and_then(|name| name.strip_suffix(".tmp"));
    drawn.is_some_and(|drawn| drawn.len() == 6 && drawn.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_the_names_that_are_given() {
        assert_eq!(table_name(7), "000007.sst");
        assert_eq!(table_number(Path::new("d/000007.sst")), Some(7));
        assert_eq!(table_number(Path::new(&table_name(12_345_678))), Some(12_345_678));
        for name in ["7.sst", "10.sst", "0000000007.sst"] {
            assert!(table_number(Path::new(name)).is_some() && !is_numbered_by_us(Path::new(name)), "{name}");
        }
        assert!(is_numbered_by_us(Path::new("d/000007.sst")) && is_numbered_by_us(Path::new("1234567.sst")));
        for name in ["000007.tmp", "00000a.sst", ".sstfilter-000007.tmp", "+00007.sst", "sst", ".sst", "-7.sst"] {
            assert_eq!(table_number(Path::new(name)), None, "{name}");
        }
    }

    #[test]
    fn only_a_writers_temporary_files_are_left_overs() {
        assert!(is_leftover(Path::new("d/.sstfilter-x9Yab0.tmp")));
        for name in ["000001.sst", "sstfilter-x9Yab0.tmp", ".sstfilter-x9Yab0", ".other.tmp", ".sstfilter-notes.tmp"] {
            assert!(!is_leftover(Path::new(name)), "{name}");
        }
    }
}
