//! Reasons why maps cannot be written or read.

use std::fmt;
use std::io;

use sstfilter_map::MapError;

/// Why an operation on maps or their manifest failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The object store failed.
    Store(object_store::Error),
    /// A map is damaged, that of another id, or was built with another hash.
    Map(MapError),
    /// A map could not be built or merged.
    Write(io::Error),
    /// The manifest is damaged.
    Manifest {
        /// The fault.
        what: String,
    },
    /// The manifest was written by a newer version of this package.
    Version {
        /// The version found.
        got: String,
    },
    /// Other writers replaced the manifest each time.
    Contended {
        /// How often this was tried.
        attempts: u32,
    },
    /// A map covers no files: it is one of writes, or nothing was added to it.
    NoFiles,
    /// The maps of this folder keep another number of bits of a hash.
    PrefixBits {
        /// The number in the manifest.
        expected: u8,
        /// The number of this writer's options.
        got: u8,
    },
}

/// The result of operations on maps.
pub type Result<T> = std::result::Result<T, Error>;

impl From<object_store::Error> for Error {
    fn from(error: object_store::Error) -> Self {
        Self::Store(error)
    }
}

impl From<MapError> for Error {
    fn from(error: MapError) -> Self {
        Self::Map(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => write!(f, "object store: {error}"),
            Self::Map(error) => write!(f, "{error}"),
            Self::Write(error) => write!(f, "a map could not be written: {error}"),
            Self::Manifest { what } => write!(f, "manifest of maps: {what}"),
            Self::Version { got } => {
                write!(f, "manifest of maps: expected version 1, got {got}: use a newer sstfilter-map-store")
            }
            Self::Contended { attempts } => {
                write!(f, "manifest of maps: other writers replaced it {attempts} times in a row; try again later")
            }
            Self::NoFiles => write!(
                f,
                "expected a map of one file or more, got one of writes, or one to which nothing was added: this package \
                 keeps maps of files only, and maps of writes belong in the manifest of their store"
            ),
            Self::PrefixBits { expected, got } => write!(
                f,
                "maps of this folder keep {expected} bits of a hash, and the options of this writer {got}: choose the \
                 options once per store"
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store(error) => Some(error),
            Self::Map(error) => Some(error),
            Self::Write(error) => Some(error),
            _ => None,
        }
    }
}
